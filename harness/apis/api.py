"""Description of an API, which each API package exports as `API`, including the format of its embeddings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from harness.apis.conversion import CanonicalReader, MinimalRequest, RequestBuilder
from harness.apis.fact import Breach, Fact
from harness.apis.fact_files import SHIPPED, CompiledFacts, Facts, FactSelection, limit_for_entry, today
from harness.apis.limits import Limit, Violation, bracketed_path, limit_severity
from harness.apis.matching import SchemaPlaces
from harness.apis.profiles import (
    ApiTerms,
    IssuedState,
    Profile,
    RuleSet,
    Services,
    ShippedTarget,
    Traits,
    derive_profile,
    matching,
)
from harness.apis.response_rules import ResponseCheck
from harness.apis.server import ServerEndpoints, number
from harness.apis.view import ModelStep, Provocation, RequestView, ResponseView, TextView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from harness.model.protocols import Capability


@dataclass(frozen=True, slots=True)
class EmbeddingView:
    """A request for embeddings. `dimensions` is the requested length of the vectors, if any.

    Several texts that get a single vector, such as the parts of a Gemini content, are joined into one.
    """

    model: str | None
    texts: tuple[TextView, ...]
    dimensions: int | None
    dimensions_pointer: str = ""


@dataclass(frozen=True, slots=True)
class VectorView:
    """A vector of a response. `pointer` is the JSON pointer of its numbers in the body."""

    values: tuple[float, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class EmbeddingFormat:
    """Functions that read, check and build the embedding requests and responses of an API.

    `recognises(request)`: return whether the path is that of an embedding request.

    `view(request)`: return the neutral view; raises `WireError`.

    `violations(request, rule_set)`: return the reasons why the provider refuses the request. It never raises: an
    unreadable body is a violation.

    `read(response)`: return the vectors of a successful response, in the order of the texts; raises `WireError`.

    `build(view)`: return the body of a response. Its vectors depend only on the model, the text and the length.

    `usage(response)`: return the token counts of a response (`None`: responses have none).

    `numbered`: name of the response field with the vectors, if each vector has the index of its text.
    """

    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], EmbeddingView]
    violations: Callable[[HttpRequest, RuleSet], list[Violation]]
    read: Callable[[HttpResponse], tuple[VectorView, ...]]
    build: Callable[[EmbeddingView], dict[str, JSON]]
    usage: Callable[[HttpResponse], Usage] | None = None
    numbered: str | None = None


def vector_of(numbers: list[JSON], pointer: str) -> tuple[float, ...]:
    """Return the numbers of a vector. Raises `WireError` for other values."""
    values = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(values) != len(numbers):
        raise WireError("a vector of something else than numbers", pointer)
    return tuple(values)


def seeded_vector(view: EmbeddingView, text: str, dimensions: int) -> list[float]:
    """Return a unit vector that is derived from the model and the text. Its components are rounded to six decimal
    places.
    """
    raw = [number(f"{view.model}/{text}", str(place), -999, 999) or 1 for place in range(dimensions)]
    scale = math.sqrt(math.fsum(value * value for value in raw))
    return [round(value / scale, 6) for value in raw]


_MAX_COMPILED = 64

_MAX_CACHED_PROFILES = 256


ClientForm: TypeAlias = Callable[[dict[str, JSON]], None]
"""Rewrites a request body into another form, in place."""


@dataclass(frozen=True, slots=True)
class StreamShape:
    """An alternative way in which servers split the calls of a stream into chunks.

    `respell(stream, seed)` returns the same response in these chunks, or the unchanged stream if that is impossible.
    `departs` is set if the chunks violate the API's documentation, or if the official SDK misreads them: then a client
    written for the provider alone is right, and what it reads differently is a warning.
    """

    respell: Callable[[bytes, str], bytes]
    departs: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """Description of one API.

    - `schema_places`: paths of the JSON schemas in its requests.
    - `minimal_request`: the smallest chat, for examples and probes (`None`: no probes).
    - `column`: position of its targets in reports, from the left. Third-party APIs follow the built-in ones.
    - `base_path`: path of the SDK's base URL after the origin (`/v1` or nothing).
    - `key_variables`: environment variables that may contain a key, in order of precedence.
    - `provider_url`: base URL of the provider, in the form that the SDK expects.
    - `base_url_variable`: environment variable with the base URL of another server. For an API, this package reads it;
      for a command, the command does.
    - `domain`: the provider's domain. All hosts below it belong to the provider.
    - `base_url_ending`: end of another server's base URL (`/v1`, or nothing if the SDK adds it).
    - `services`: servers that speak the API, which determine the rules for a request.
    - `limits`: limits of requests and embeddings that are not in a fact file.
    - `facts`: requests that the provider and other servers accept or refuse, with evidence and dates.
    - `profiles`: model generations. The first one that matches a name applies; the last one matches any name.
    - `targets`: at least one target. Those of built-in APIs have recordings.
    - `servers`: targets of compatible servers. They have no recordings, and a run includes them only if they are named.
    - `system_places`: allowed places of the system prompt (`SystemView.place`).
    - `provocations`: stream behaviour that the reference server can produce although no recording has it.
    - `own_stops`: stop reasons that only this API has, each with two phrases for error messages. The first names the
      API. The second follows the words `no model`.
    - `traits`: differences from other APIs.
    - `terms`: the API's own words, for use in remedies.
    - `one_call`: request fields that allow only one call per turn; empty if the API has none.
    - `strict_tool`: fields of a tool that force its arguments to conform to its schema; empty if the API has none.
    - `issued_state`: opaque state of a conversation that the provider checks.
    - `canonical_reader`: class that reads canonical values from requests, for `harness audit --redrive`.
    - `recognises(request)`: whether the path and body are those of a chat of this API.
    - `paths`: full paths of its chats and embeddings, at the provider and at clouds (`None`: any recognised path).
    - `least_body`: a minimal body that `recognises` accepts at any chat path.
    - `view(request)`: the neutral view of a request; raises `WireError`.
    - `violations(request, rule_set)`: violations of limits. Never raises: an unreadable body is a violation.
    - `read(response)`: the neutral view of a response, whole or streamed; raises `WireError`.
    - `build(step, seed, model, profile)`: the body of a response. Ids, usage and signatures are derived from `seed`.
    - `build_stream(step, seed, model, profile, request)`: the same response as a stream, in the format that `request`
      asks for. `read` folds it into the result of `build`.
    - `stream_of(body, seed, profile, request)`: a whole body, converted to a stream.
    - `client_forms`: forms of requests, by name, that clients send but the built-in adapter does not.
    - `stream_shapes`: other ways, by name, in which servers split the calls of a stream into chunks.
    - `refuse(violation)`: the provider's refusal, with the provider's status and format.
    - `fail(status, retry_after, seed)`: the provider's error response with this status, which asks the client to wait
      `retry_after` seconds.
    - `error_for(response, request)`: an error response in the format that this request expects.
    - `error_as(response, profile)`: an error response in the dialect of a profile.
    - `broken_for(response, request)`: a truncated or unreadable response in the format that this request expects.
    - `stream_error(status, seed, request)`: an error inside a stream, in the format that `request` asks for.
    - `model_of(request)`: the model in the body or path.
    - `header_violation(request)`: the violation if the headers of a request are wrong.
    - `embeddings`: the format of its embeddings.
    - `server_endpoints`: endpoints other than chats, for third-party clients of the reference server.
    - `spelled(pointer)`: a JSON pointer in the notation of the provider's error messages.
    - `request_builder`: builder of requests to a server under test (`None`: no `harness check server`).
    - `check_response(response, request)`: violations of response rules (`None`: no `harness check server`).

    Raises:
        ValueError: no cell could run with it; the message gives the reason.
    """

    name: str
    base_path: str
    key_variables: tuple[str, ...]
    provider_url: str
    domain: str
    base_url_ending: str
    services: Services
    profiles: tuple[Profile, ...]
    targets: tuple[ShippedTarget, ...]
    system_places: frozenset[str]
    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], RequestView]
    violations: Callable[[HttpRequest, RuleSet], list[Violation]]
    read: Callable[[HttpResponse], ResponseView]
    build: Callable[[ModelStep, str, str, Profile], dict[str, JSON]]
    build_stream: Callable[[ModelStep, str, str, Profile, RequestView], HttpResponse]
    stream_of: Callable[[dict[str, JSON], str, Profile, RequestView], HttpResponse]
    refuse: Callable[[Violation], HttpResponse]
    fail: Callable[[int, float | None, str], HttpResponse]
    stream_error: Callable[[int, str, RequestView], bytes]
    model_of: Callable[[HttpRequest], str | None]
    error_for: Callable[[HttpResponse, HttpRequest], HttpResponse] = lambda response, _request: response
    error_as: Callable[[HttpResponse, Profile], HttpResponse] = lambda response, _profile: response
    broken_for: Callable[[HttpResponse, HttpRequest], HttpResponse] = lambda response, _request: response
    header_violation: Callable[[HttpRequest], Violation | None] = lambda _request: None
    embeddings: EmbeddingFormat | None = None
    base_url_variable: str | None = None
    servers: tuple[ShippedTarget, ...] = ()
    facts: Facts = field(default_factory=Facts)
    limits: tuple[Limit, ...] = ()
    least_body: bytes = b"{}"
    client_forms: Mapping[str, ClientForm] = field(default_factory=dict[str, ClientForm])
    stream_shapes: Mapping[str, StreamShape] = field(default_factory=dict[str, StreamShape])
    paths: re.Pattern[str] | None = None
    provocations: frozenset[Provocation] = frozenset()
    own_stops: Mapping[StopReason, tuple[str, str]] = field(default_factory=dict[StopReason, tuple[str, str]])
    traits: Traits = field(default_factory=Traits)
    terms: ApiTerms = field(default_factory=ApiTerms)
    one_call: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    strict_tool: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    issued_state: type[IssuedState] = IssuedState
    canonical_reader: type[CanonicalReader] | None = None
    column: int = 100
    schema_places: SchemaPlaces = field(default_factory=SchemaPlaces)
    minimal_request: MinimalRequest | None = None
    server_endpoints: ServerEndpoints = field(default_factory=ServerEndpoints)
    request_builder: RequestBuilder | None = None
    check_response: ResponseCheck | None = None
    spelled: Callable[[str], str] = bracketed_path
    _written: frozenset[str] = field(init=False, repr=False, compare=False)
    _compiled: dict[tuple[int, frozenset[str]], tuple[Profile, CompiledFacts]] = field(
        init=False, repr=False, compare=False, default_factory=dict["tuple[int, frozenset[str]]", Any]
    )
    _derived: dict[tuple[str, int], tuple[tuple[Fact, ...], Profile]] = field(
        init=False, repr=False, compare=False, default_factory=dict["tuple[str, int]", Any]
    )

    def __post_init__(self) -> None:
        """Reject a description that would fail in the middle of a run."""
        if not self.targets:
            raise ValueError("it has no targets")
        for each in (*self.targets, *self.servers):
            if each.api != self.name:
                raise ValueError(f"its target {each.name!r} is one of the API {each.api!r}")
        if not self.profiles or self.profiles[-1].models != r".*":
            raise ValueError("its last profile is not one for all models, r'.*'")
        written = frozenset(source for limit in self.limits for source in limit.facts)
        object.__setattr__(self, "_written", written)

    @property
    def table(self) -> tuple[Limit, ...]:
        """All limits: those in `limits` and those of the facts. Raises `FactsError`."""
        return (*self.limits, *(limit for limit, _ in self.facts.limits.values()))

    def profile_for(self, model: str, fact_selection: FactSelection = SHIPPED) -> Profile:
        """Return the profile of a model, with the facts of a selection. A selection without a day means today. Raises
        `FactsError`.
        """
        bare = self.services.bare_name(model)
        facts = self.facts.extended_by(self.name, fact_selection.files).for_model(bare, fact_selection.day or today())
        known = self._derived.get((bare, id(facts)))
        if known is not None and known[0] is facts:
            return known[1]
        profile = derive_profile(matching(self.profiles, bare), facts)
        if len(self._derived) >= _MAX_CACHED_PROFILES:
            self._derived.clear()
        self._derived[bare, id(facts)] = facts, profile
        return profile

    def target_profile(self, target: ShippedTarget, model: str, fact_selection: FactSelection = SHIPPED) -> Profile:
        """Return the profile of a model at the server of a target. Raises `FactsError`."""
        profile = self.profile_for(model, fact_selection)
        if target.service is None:
            return profile
        lacks = profile.lacks.union(target.profile.get("lacks", ()))
        if target.profile.get("thinking", "none") != "none":
            lacks -= {Capability.THINKING}
        return replace(profile, **{**target.profile, "dialect": target.service, "lacks": lacks})

    def violation_ids(self, fact_selection: FactSelection = SHIPPED) -> Iterator[str]:
        """Yield the ids of all limits, and of all facts that refuse requests by their conditions alone. The facts of
        all days are included. Raises `FactsError`.
        """
        facts = self.facts.extended_by(self.name, fact_selection.files)
        yield from dict.fromkeys((*(limit.id for limit in self.limits), *self.facts.limits, *facts.limits))
        yield from (fact.id for fact in self._unwritten(facts.all()))

    def judge(self, request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
        """Return the violations of a request. Never raises.

        A limit that is based on facts applies only if the rule set has at least one of them. A fact with conditions
        adds a violation unless an equally or more severe one is reported at the same place. Limits of the API's
        provider that may not apply at this server do not suppress violations that do.
        """
        limits, refused = self._compiled_facts(rule_set).judge(request)
        found = self.supported_by_facts([*limits, *self.violations(request, rule_set)], rule_set)
        settled = [each for each in found if self.applies_at(each.source, rule_set)]
        for each in refused:
            if not _is_reported(each, settled if self.applies_at(each.source, rule_set) else found):
                found.append(each)
        return found

    def judge_embeddings(self, request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
        """Return the violations of a request for embeddings. Never raises."""
        return (
            []
            if self.embeddings is None
            else self.supported_by_facts(self.embeddings.violations(request, rule_set), rule_set)
        )

    def supported_by_facts(self, found: Sequence[Violation], rule_set: RuleSet) -> list[Violation]:
        """Keep the violations that a fact of the rule set supports. Errors become warnings unless one of these facts is
        a certain refusal.

        A violation without facts keeps its own severity.
        """
        supported_by_facts: list[Violation] = []
        for each in found:
            sources = each.source.split(", ")
            if not self.facts.with_ids(sources):
                supported_by_facts.append(each)
            elif held := [
                fact for fact in rule_set.profile.facts if fact.id in sources and fact.is_at(rule_set.services)
            ]:
                supported_by_facts.append(replace(each, severity=limit_severity(each.severity, held)))
        return supported_by_facts

    def applies_at(self, source: str, rule_set: RuleSet) -> bool:
        """Return whether a limit with this source is known to apply at the rule set's server.

        Compatible servers often accept what the API's provider refuses. A limit applies to them only if its fact names
        the server or if it has no fact.
        """
        sources = source.split(", ")
        held = [fact for fact in rule_set.profile.facts if fact.id in sources]
        return rule_set.is_own or not held or any(rule_set.service in (fact.service or ()) for fact in held)

    def _compiled_facts(self, rule_set: RuleSet) -> CompiledFacts:
        """Compile the conditions of the facts and limits that apply under a rule set. Equal ones are compiled once."""
        profile = rule_set.profile
        known = self._compiled.get((id(profile), rule_set.services))
        if known is not None and known[0] is profile:
            return known[1]
        at = [fact for fact in profile.facts if fact.is_at(rule_set.services)]
        held, breaches = [*self._unwritten(at)], [*self._breaches(rule_set, at)]
        same = (
            each
            for _, each in self._compiled.values()
            if _are_identical(each.facts, held)
            and _are_identical([way for _, way in each.breaches], [way for _, way in breaches])
        )
        compiled = next(same, None) or CompiledFacts(held, self.schema_places, breaches, self.spelled)
        if len(self._compiled) >= _MAX_COMPILED:
            self._compiled.clear()
        self._compiled[id(profile), rule_set.services] = profile, compiled
        return compiled

    def _breaches(self, rule_set: RuleSet, facts: Sequence[Fact]) -> Iterator[tuple[Limit, Breach]]:
        """Yield each limit that has an applicable fact, once for each breach that is possible under the rule set."""
        held = {fact.id for fact in facts}
        shipped = self.facts.limits
        others = (
            (fact, entry) for fact in facts for entry in fact.limits if shipped.get(entry.id, "  ")[1] is not entry
        )
        own = {entry.id: (limit_for_entry(fact, entry), entry) for fact, entry in others}
        for limit, entry in {**shipped, **own}.values():
            if not held.isdisjoint(limit.facts):
                for breach in entry.breaches:
                    if breach.own in (None, rule_set.is_own) and _has_values(rule_set.profile, breach.profile):
                        yield limit, breach

    def _unwritten(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts that refuse requests by their conditions alone, without a limit or a Python check."""
        written = self._written | self.facts.written
        for fact in facts:
            if fact.verdict == "refused" and fact.when and not fact.limits and fact.id not in written:
                yield fact

    def is_provider(self, url: str) -> bool:
        """Return whether a URL leads to the provider itself."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:  # a redacted address, as in recordings
            return False
        return url == self.provider_url or (
            parts.scheme == "https" and (host == self.domain or host.endswith(f".{self.domain}"))
        )


def _are_identical(facts: Sequence[object], others: Sequence[object]) -> bool:
    return len(facts) == len(others) and all(map(is_, facts, others))


def _has_values(profile: Profile, wanted: Mapping[str, Sequence[JSON]]) -> bool:
    """Return whether each field of the profile (`sampling`, `thinking_types.enabled`) has one of its wanted values. If
    the field is a set, it must contain one of them.
    """
    for name, values in wanted.items():
        field_name, _, key = name.partition(".")
        value: Any = getattr(profile, field_name)
        value = value.get(key) if key else value
        if not any(each in value if isinstance(value, frozenset) else each == value for each in values):
            return False
    return True


def _is_reported(violation: Violation, others: Sequence[Violation]) -> bool:
    """Return whether an equally or more severe violation is reported at the same place, at one inside it, or at one
    that contains it.
    """
    here = violation.pointer
    as_bad = (each for each in others if each.severity == "error" or violation.severity == "warning")
    there = (each.pointer for each in as_bad if each.pointer)
    return bool(here) and any(f"{each}/".startswith(f"{here}/") or f"{here}/".startswith(f"{each}/") for each in there)


PATH_UNKNOWN = Limit(
    "path-unknown",
    "Every request goes to an endpoint of the API.",
    "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint",
    remedy="send to the path of the API; check that the base URL has its version once",
)

_VERSIONS = ("/v1", "/v1beta")


def endpoint_violation(
    wire: Api, request: HttpRequest, *, embedded: bool = False, origin: str | None = None
) -> Violation | None:
    """Return the violation if the path or the headers of a request are wrong. The body is judged later.

    The path is checked with a minimal valid body in place of the request's own. If `origin` (the base URL of the API)
    is given, the whole path must be correct (see `elsewhere`). Without it, only the end of the path is checked.
    """
    embeddings = wire.embeddings if embedded else None
    sample = request if embeddings else HttpRequest(request.method, request.url, request.headers, wire.least_body)
    if (embeddings or wire).recognises(sample):
        lost = None if origin is None else elsewhere(wire, request, origin)
        return lost or wire.header_violation(request)
    return _no_endpoint(wire, request)


def elsewhere(wire: Api, request: HttpRequest, origin: str) -> Violation | None:
    """Return the violation if the path of a request below `origin` is wrong, such as /v1/v1/messages.

    Use this only if the base URL is known. For other servers, only the end of the path can be checked.
    """
    path = _path(request.url).removeprefix(urlsplit(origin).path)
    return None if wire.paths is None or wire.paths.fullmatch(path) else _no_endpoint(wire, request, path)


def missing_version(wire: Api, path: str) -> str | None:
    """Return the version that is missing from a path of the API, or `None`."""
    if wire.paths is None:
        return None
    return next((version for version in _VERSIONS if wire.paths.fullmatch(version + path)), None)


def _no_endpoint(wire: Api, request: HttpRequest, path: str | None = None) -> Violation:
    path = _path(request.url) if path is None else path
    first = "/" + path[1:].partition("/")[0]
    missing, hint = missing_version(wire, path), ""
    if missing is not None:
        hint = f" (is {missing} missing at the end of the base URL?)"
    elif path.startswith(first * 2 + "/"):
        hint = f" ({first} occurs twice: does the client add it to a base URL that ends with it?)"
    return PATH_UNKNOWN.make_violation(f"no such endpoint: {request.method} {request.url}{hint}", "", status=404)


def _path(url: str) -> str:
    return re.sub("(?<!:)//+", "/", urlsplit(url).path)
