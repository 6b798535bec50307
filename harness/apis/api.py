"""What every package of `harness.apis` exports as `API`: one API as data, and as pure functions on JSON and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from harness.apis.conditions import SchemaPlaces
from harness.apis.departure import Strictly
from harness.apis.embedding import EmbeddingFormat
from harness.apis.fact import Breach, Fact
from harness.apis.facts import SHIPPED, Docket, Edition, Facts, limit_from, today
from harness.apis.frontage import Frontage
from harness.apis.law import Law, Services
from harness.apis.lift import Lift
from harness.apis.limit import Limit, Violation, lesser
from harness.apis.memory import Memory
from harness.apis.profile import Profile, derived, matching
from harness.apis.questions import Questions
from harness.apis.smallest import Smallest
from harness.apis.targets import Shipped
from harness.apis.terms import PLAIN as PLAIN_TERMS
from harness.apis.terms import Terms
from harness.apis.traits import PLAIN, Traits
from harness.apis.view import ModelStep, RequestView, ResponseView
from harness.apis.wording import bracketed
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, StopReason
from harness.scenarios.schema import Provocation

_MOST_DOCKETS = 64
"""How many are kept: one for each model, day and service of a run; those of all models of a day are few."""

_MOST_PROFILES = 256
"""How many are kept: one for each model and day of a run or an audit."""


ClientForm: TypeAlias = Callable[[dict[str, JSON]], None]
"""Writes the body of a request in another form, in place."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """Other chunks in which servers were seen to send the calls of a stream.

    `respell(stream, seed)` returns the same answer so, or the stream itself if it cannot be put so. `departs`: such
    chunks depart from what the API documents, so that an adapter made for the API alone may fail on them.
    """

    respell: Callable[[bytes, str], bytes]
    departs: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    `schema_places`: where its requests have JSON schemas.
    `smallest`: the smallest chat, by which its facts can be probed (`None`: they cannot).
    `column`: where its targets stand in a report, counted from the left; those of other packages stand behind ours.
    `base_path`: what its SDK's base URL has behind the origin (`/v1` or nothing).
    `key_variables`: the environment variables that hold a key, in order of precedence.
    `provider_url`: base URL of the provider itself, as the SDK takes it.
    `base_url_variable`: the environment variable that names a server in the provider's place, if what is asked through
    has one: this package for an API, the command itself for a command.
    `domain`: the provider's own, with all hosts below it.
    `base_url_ending`: how the base URL of another server ends that speaks it (`/v1`, or nothing where the SDK adds it).
    `services`: who serves it, and so whose rules a request is held to.
    `limits`: the table of everything that can be violated, of its embeddings too.
    `facts`: what its provider, and other servers that speak it, take and refuse, with evidence and dates.
    `profiles`: its generations of models; the first that matches a name holds, and the last one matches any.
    `targets`: what there is to play; there is at least one. Those of the APIs that ship come with recordings.
    `system_places`: where the system prompt may stand (`SystemView.place`).
    `provocations`: what its streams can be asked to do that no provider was recorded doing.
    `own_stops`: stop reasons that only this API can be made to have: what only it does, as the ends of two sentences.
    `traits`: in what it is unlike others.
    `terms`: how it calls what remedies name.
    `one_call`: the fields of a request by which a turn may have one call only; none, if it cannot be asked for that.
    `strict_tool`: the fields of a tool whose arguments have to conform to its schema; none, if that cannot be asked.
    `memory`: what its provider remembers of a conversation.
    `lift`: reads canonical values off its requests, for re-drives, if those can be had.
    `recognises(request)`: the request is a chat of this API, by path and body.
    `paths`: the whole paths of its chats and embeddings, of the provider and of clouds that host it (`None`: any path
    that `recognises` takes).
    `least_body`: one that it takes for a chat, so that the path alone says whether there is an endpoint.
    `view(request)`: the neutral view; raises `WireError`.
    `violations(request, law)`: what is refused or taken with a loss. Never raises: an unreadable body is one.
    `read(response)`: the neutral view of a response, an event stream folded; raises `WireError`.
    `build(step, seed, model, profile)`: the body of a response. Ids, usage and signatures are functions of `seed`.
    `build_stream(step, seed, model, profile, request)`: the same answer as a stream, in the form that `request` asks
    for: `read` folds it to what `build` says.
    `stream_of(body, seed, profile, request)`: any whole body, told as the stream that folds to it.
    `client_forms`: by name, forms of requests that clients send and the built-in adapter does not.
    `stream_shapes`: by name, the other chunks in which servers were seen to send the calls of a stream.
    `refuse(violation)`: the provider's refusal, in its own status and shape.
    `fail(status, retry_after, seed)`: the provider's failure of this status, in its own shape; it asks to wait
    `retry_after` seconds.
    `error_for(response, request)`: a refusal or a failure, as it comes to this request.
    `broken_for(response, request)`: an answer that breaks off or cannot be read, as it comes to this request.
    `stream_error(status, seed, request)`: what the provider writes into a stream, in the form that `request` asks for,
    where it would have failed with `status` before the first byte.
    `model_of(request)`: the model that the request names, by body or path.
    `misheaded(request)`: what is wrong with the headers of a request that has them.
    `embeddings`: the format of its embeddings, if it has any.
    `frontage`: what its server does around the chats, for clients that are not ours.
    `spelled(pointer)`: a place as the provider's refusals spell it.
    `questions`: how a server of it is asked that is to be judged, and `departures(response, request)` where an answer
    departs from what the API promises (`None`: 'harness check server' has nothing for it).

    Raises:
        ValueError: nothing could be played with it; the text says why.
    """

    name: str
    base_path: str
    key_variables: tuple[str, ...]
    provider_url: str
    domain: str
    base_url_ending: str
    services: Services
    limits: tuple[Limit, ...]
    profiles: tuple[Profile, ...]
    targets: tuple[Shipped, ...]
    system_places: frozenset[str]
    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], RequestView]
    violations: Callable[[HttpRequest, Law], list[Violation]]
    read: Callable[[HttpResponse], ResponseView]
    build: Callable[[ModelStep, str, str, Profile], dict[str, JSON]]
    build_stream: Callable[[ModelStep, str, str, Profile, RequestView], HttpResponse]
    stream_of: Callable[[dict[str, JSON], str, Profile, RequestView], HttpResponse]
    refuse: Callable[[Violation], HttpResponse]
    fail: Callable[[int, float | None, str], HttpResponse]
    stream_error: Callable[[int, str, RequestView], bytes]
    model_of: Callable[[HttpRequest], str | None]
    error_for: Callable[[HttpResponse, HttpRequest], HttpResponse] = lambda response, _request: response
    broken_for: Callable[[HttpResponse, HttpRequest], HttpResponse] = lambda response, _request: response
    misheaded: Callable[[HttpRequest], Violation | None] = lambda _request: None
    embeddings: EmbeddingFormat | None = None
    base_url_variable: str | None = None
    facts: Facts = field(default_factory=Facts)
    least_body: bytes = b"{}"
    client_forms: Mapping[str, ClientForm] = field(default_factory=dict[str, ClientForm])
    stream_shapes: Mapping[str, StreamShape] = field(default_factory=dict[str, StreamShape])
    paths: re.Pattern[str] | None = None
    provocations: frozenset[Provocation] = frozenset()
    own_stops: Mapping[StopReason, tuple[str, str]] = field(default_factory=dict[StopReason, tuple[str, str]])
    traits: Traits = PLAIN
    terms: Terms = PLAIN_TERMS
    one_call: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    strict_tool: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    memory: type[Memory] = Memory
    lift: type[Lift] | None = None
    column: int = 100
    schema_places: SchemaPlaces = field(default_factory=SchemaPlaces)
    smallest: Smallest | None = None
    frontage: Frontage = field(default_factory=Frontage)
    questions: Questions | None = None
    departures: Strictly | None = None
    spelled: Callable[[str], str] = bracketed
    _written: frozenset[str] = field(init=False, repr=False, compare=False)
    _dockets: dict[tuple[int, frozenset[str]], tuple[Profile, Docket]] = field(
        init=False, repr=False, compare=False, default_factory=dict["tuple[int, frozenset[str]]", Any]
    )
    _derived: dict[tuple[str, int], tuple[tuple[Fact, ...], Profile]] = field(
        init=False, repr=False, compare=False, default_factory=dict["tuple[str, int]", Any]
    )

    def __post_init__(self) -> None:
        """Refuse what would fail later, in the middle of a run."""
        if not self.targets:
            raise ValueError("it has no targets")
        for each in self.targets:
            if each.api != self.name:
                raise ValueError(f"its target {each.name!r} is one of the API {each.api!r}")
        if not self.profiles or self.profiles[-1].models != r".*":
            raise ValueError("its last profile is not one for all models, r'.*'")
        written = frozenset(source for limit in self.limits for source in limit.facts)
        object.__setattr__(self, "_written", written)

    @property
    def table(self) -> tuple[Limit, ...]:
        """Everything that can be violated: `limits`, and those that the shipped facts have. Raises `FactsError`."""
        return (*self.limits, *(limit for limit, _ in self.facts.limits.values()))

    def profile_for(self, model: str, edition: Edition = SHIPPED) -> Profile:
        """What holds for a model, by an edition of the facts: without a day, today. Raises `FactsError`."""
        bare = model.removeprefix("models/")
        facts = self.facts.together(self.name, edition.files).holding(bare, edition.day or today())
        known = self._derived.get((bare, id(facts)))
        if known is not None and known[0] is facts:
            return known[1]
        profile = derived(matching(self.profiles, bare), facts)
        if len(self._derived) >= _MOST_PROFILES:
            self._derived.clear()
        self._derived[bare, id(facts)] = facts, profile
        return profile

    def violable(self, edition: Edition = SHIPPED) -> Iterator[str]:
        """The ids of all that a request can violate: of the limits, and of the facts that have conditions, of any day.
        Raises `FactsError`."""
        facts = self.facts.together(self.name, edition.files)
        yield from dict.fromkeys((*(limit.id for limit in self.limits), *self.facts.limits, *facts.limits))
        yield from (fact.id for fact in self._unwritten(facts.all()))

    def judge(self, request: HttpRequest, law: Law) -> list[Violation]:
        """What is refused or taken with a loss: by the API's own checks, as far as facts that hold by the law bear them
        out, and by facts that have conditions.

        What a written check says of a place is not said twice, but a warning hides no refusal, and a limit of the
        API's own provider hides none of another server's. Never raises.
        """
        limits, refused = self._docket(law).judge(request)
        found = self.borne_out([*limits, *self.violations(request, law)], law)
        settled = [each for each in found if self.is_settled(each.source, law)]
        for each in refused:
            if not _is_said(each, settled if self.is_settled(each.source, law) else found):
                found.append(each)
        return found

    def judge_embeddings(self, request: HttpRequest, law: Law) -> list[Violation]:
        """The same of a request for embeddings; nothing, if it has no format of these. Never raises."""
        return [] if self.embeddings is None else self.borne_out(self.embeddings.violations(request, law), law)

    def borne_out(self, found: Sequence[Violation], law: Law) -> list[Violation]:
        """Those of the violations that rest on a fact that holds by the law, as errors where one is a certain refusal.

        A limit that rests on no fact, as others' may, says itself how bad it is.
        """
        borne_out: list[Violation] = []
        for each in found:
            sources = each.source.split(", ")
            if not self.facts.named(sources):
                borne_out.append(each)
            elif held := [fact for fact in law.profile.facts if fact.id in sources and fact.is_at(law.services)]:
                borne_out.append(replace(each, severity=lesser(each.severity, held)))
        return borne_out

    def is_settled(self, source: str, law: Law) -> bool:
        """Return whether a limit, by the facts that are its source, is known to hold at the server of a law.

        What the API's own provider refuses, compatible servers often take. Of them it is known where a fact names the
        server. A limit that rests on no fact is taken at its word.
        """
        sources = source.split(", ")
        held = [fact for fact in law.profile.facts if fact.id in sources]
        return law.is_own or not held or any(law.service in (fact.service or ()) for fact in held)

    def _docket(self, law: Law) -> Docket:
        """The facts that no written check stands for, and the breaches of limits that rest on facts, of those that hold
        by a law: made ready once, though every request is held to them."""
        profile = law.profile
        known = self._dockets.get((id(profile), law.services))
        if known is not None and known[0] is profile:
            return known[1]
        at = [fact for fact in profile.facts if fact.is_at(law.services)]
        held, breaches = [*self._unwritten(at)], [*self._breaches(law, at)]
        same = (
            each
            for _, each in self._dockets.values()
            if _are(each.facts, held) and _are([way for _, way in each.breaches], [way for _, way in breaches])
        )
        docket = next(same, None) or Docket(held, self.schema_places, breaches, self.spelled)
        if len(self._dockets) >= _MOST_DOCKETS:
            self._dockets.clear()
        self._dockets[id(profile), law.services] = profile, docket
        return docket

    def _breaches(self, law: Law, facts: Sequence[Fact]) -> Iterator[tuple[Limit, Breach]]:
        """The breaches of limits of which one fact at least holds."""
        held = {fact.id for fact in facts}
        shipped = self.facts.limits
        others = (
            (fact, entry) for fact in facts for entry in fact.limits if shipped.get(entry.id, "  ")[1] is not entry
        )
        own = {entry.id: (limit_from(fact, entry), entry) for fact, entry in others}
        for limit, entry in {**shipped, **own}.values():
            if not held.isdisjoint(limit.facts):
                for breach in entry.breaches:
                    if breach.own in (None, law.is_own) and _has(law.profile, breach.profile):
                        yield limit, breach

    def _unwritten(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Those of the facts that are found by their conditions alone."""
        written = self._written | self.facts.written
        for fact in facts:
            if fact.verdict == "refused" and fact.when and not fact.limits and fact.id not in written:
                yield fact

    def is_provider(self, url: str) -> bool:
        """Whether a URL leads to the provider itself, and not to whatever else speaks its API."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:  # an address that was scrubbed, as recordings have them
            return False
        return url == self.provider_url or (
            parts.scheme == "https" and (host == self.domain or host.endswith(f".{self.domain}"))
        )


def _are(facts: Sequence[object], others: Sequence[object]) -> bool:
    return len(facts) == len(others) and all(map(is_, facts, others))


def _has(profile: Profile, wanted: Mapping[str, Sequence[JSON]]) -> bool:
    """Return whether each of these fields of a profile (`sampling`, `thinking_types.enabled`) has or holds a value."""
    for name, values in wanted.items():
        field_name, _, key = name.partition(".")
        value: Any = getattr(profile, field_name)
        value = value.get(key) if key else value
        if not any(each in value if isinstance(value, frozenset) else each == value for each in values):
            return False
    return True


def _is_said(violation: Violation, others: Sequence[Violation]) -> bool:
    """Whether something as bad is said of the place already: of what its pointer leads to, or of what is around or
    inside. A warning hides no refusal that somebody has seen."""
    here = violation.pointer
    as_bad = (each for each in others if each.severity == "error" or violation.severity == "warning")
    there = (each.pointer for each in as_bad if each.pointer)
    return bool(here) and any(f"{each}/".startswith(f"{here}/") or f"{here}/".startswith(f"{each}/") for each in there)
