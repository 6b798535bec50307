"""Facts: what a provider accepts and refuses, for which models, since when, and how that is known.

Facts are data: one `facts.yaml` per API, in the form of this module. `harness.apis.fact_files` reads and selects them.
"""

from __future__ import annotations

import datetime as dt
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from harness.apis.condition import Condition
from harness.apis.matching import Conditions
from harness.documents.strict_models import Strict, model_error
from harness.model.protocols import Capability

FactVerdict = Literal["refused", "accepted", "behaviour"]

EvidenceKind = Literal["captured", "probe", "source", "documents", "report"]
"""Kind of evidence. `captured`: a recording or a quoted message of the provider. `probe`: a request sent to find out.
`source`: the source code of the server. `documents`: the vendor's documentation or SDK. `report`: a user's report.
"""

STRONG: frozenset[EvidenceKind] = frozenset({"captured", "probe", "source"})
"""Evidence that makes a refusal an error."""


def _day(value: Any) -> Any:
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise model_error(f"must be a day, as in 2026-09-22, not {value!r}.") from None


Day = Annotated[dt.date, BeforeValidator(_day)]


def _address(value: str) -> str:
    if not value.startswith(("https://", "http://")):
        raise model_error(f"must be an address that begins with https:// or http://, not {value!r}.")
    return value


class Observation(Strict):
    """Place and day of an observation."""

    kind: EvidenceKind
    address: Annotated[str, AfterValidator(_address)] = Field(
        description="Where it can be read, or the server that was probed."
    )
    date: Day = Field(description="The day of the sighting, or the day on which the source was read if it has no date.")


class WrittenCheck(Strict):
    """The Python check of a fact."""

    limit: str = Field(description="The id of its limit.")


Example = dict[str, JsonValue]
"""Example request, given as its differences from the API's minimal request (`harness.apis.examples`)."""


class Breach(Strict):
    """Conditions under which a request breaks a limit, and the refusal. Each place that meets the first condition is
    one finding."""

    when: list[Condition] = Field(default_factory=list[Condition], description="The conditions; all are met.")
    own: bool | None = Field(
        default=None, description="true: only where the rules of the API's own provider hold; false: only elsewhere."
    )
    profile: dict[str, list[JsonValue]] = Field(
        default_factory=dict[str, list[JsonValue]],
        description="Fields of the model's profile, each with its accepted values.",
    )
    message: str | None = Field(
        default=None,
        min_length=1,
        description="The text of the refusal, with {path}, {parent}, {value}, {shown}, {type}, {length}, {model}.",
    )
    code: str | None = Field(default=None, description="The code of the refusal.")
    expected: JsonValue = Field(default=None, description="The value that is accepted.")
    severity: Literal["error", "warning"] = Field(default="error", description="The highest severity that it can have.")

    @cached_property
    def conditions(self) -> Conditions:
        """Compiled form of `when`."""
        return Conditions(self.when)


class LimitEntry(Breach):
    """A limit that is defined as part of a fact. The limit's id is the rule id of its findings."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$", description="Kebab-case.")
    says: str = Field(min_length=1, description="The requirement, in a sentence.")
    remedy: str = Field(default="", description="The way to keep to it.")
    also: list[str] = Field(default_factory=list[str], description="Ids of other facts on which it is based.")
    word: str | None = Field(default=None, description="A word that the texts of a request must contain.")
    ways: list[Breach] = Field(default_factory=list[Breach], description="Further ways to break it.")
    check: str | None = Field(
        default=None, description="The Python check that finds it, where conditions cannot: its module in harness.apis."
    )
    parameters: JsonValue = Field(default=None, description="The parameters of the check.")
    refuses: list[Example] = Field(default_factory=list[Example], description="Requests that break it.")
    accepts: list[Example] = Field(default_factory=list[Example], description="Requests that keep to it.")

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The breaches that conditions describe. Empty if only the Python check finds violations of the limit."""
        return (self, *self.ways) if self.when else tuple(self.ways)


KnownRuling = Literal["refused", "taken"]

Ruling = Literal["taken", "refused", "unclear"]
"""Provider's treatment of a feature: accepted (`taken`), `refused` or `unclear`. `unclear` leads to a warning: sources
contradict each other, or only documentation mentions the refusal. In fields that allow it, `None` means unknown.
"""


Mechanism = Literal["native", "emulated", "unsupported"]
"""Availability of a feature: `native` if the API has a field for it, `emulated` if an instruction in the prompt
replaces it, or `unsupported`.
"""

ChangedPrefix = Literal["refuses", "refuses-some-accounts", "drops-reasoning"]
"""Provider's reaction if the messages before reasoning that is sent back have changed. `refuses-some-accounts`:
requests of some accounts are refused; for other accounts, the response only reports the change.
"""

ThinkingControl = Literal["adaptive", "budget", "effort", "level", "none"]
"""Ways in which a request can control reasoning."""


class ProfileChanges(Strict):
    """Changes to the profile of the fact's models. Each field changes the field of the same name in
    `harness.apis.profiles.Profile`.

    An unknown generation of models can be described by such changes alone.
    """

    call_ids: bool | None = None
    thinking: ThinkingControl | None = None
    json_mode: Mechanism | None = None
    json_schema: Mechanism | None = None
    reasons_by_default: bool | None = None
    strict_requests: bool | None = None
    strict_pairing: bool | None = None
    prefill: KnownRuling | None = None
    sampling: Literal["any", "default", "refused"] | None = None
    system_in_messages: KnownRuling | None = None
    mixed_tools: KnownRuling | None = None
    thinking_types: dict[str, KnownRuling] | None = None
    tool_types: dict[str, KnownRuling] | None = None
    thinking_up_to_high: list[str] | None = None
    thought_signatures: Literal["required", "optional", "none"] | None = None
    tools_want_no_reasoning: bool | None = None
    tools_want_effort_none: bool | None = None
    results_adjacent: bool | None = None
    trailing_places: list[str] | None = None
    reply_after_results: bool | None = None
    json_with_tools: Mechanism | None = None
    lacks: list[Capability] | None = None
    changed_prefix: ChangedPrefix | None = None
    prefix_settings: list[str] | None = None
    first_thoughts_may_leave: bool | None = None


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Fact(Strict):
    """A documented behaviour of a provider. It applies to the given models and services, from `since` to `until`."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$", description="Kebab-case, begins with the API's name.")
    verdict: FactVerdict
    says: str = Field(min_length=1, description="What holds, in a sentence or two.")
    models: list[str] | None = Field(
        default=None, min_length=1, description="Patterns of whole model names (`claude-opus-5*`); absent: all."
    )
    except_models: list[str] = Field(
        default_factory=list[str], description="Patterns of models to which it does not apply."
    )
    service: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] | None = Field(
        default=None, min_length=1, description="`own`, or names of other services; absent: all that speak the API."
    )
    since: Day | None = Field(default=None, description="The first day on which it is known to hold.")
    until: Day | None = Field(default=None, description="The last day on which it held.")
    contested: bool = Field(default=False, description="Sources contradict each other.")
    words: str | None = Field(default=None, description="The provider's words.")
    status: int = Field(default=400, ge=100, le=599, description="The HTTP status of the refusal.")
    evidence: list[Observation] = Field(min_length=1)
    when: list[Condition] = Field(
        default_factory=list[Condition],
        description="Conditions that a request meets if the fact applies to it. The first one gives the remedy.",
    )
    limits: list[LimitEntry] = Field(
        default_factory=list[LimitEntry],
        description="The limits that rest on it. It is judged by these, if it has any.",
    )
    refuses: list[Example] = Field(default_factory=list[Example], description="Requests that it refuses.")
    accepts: list[Example] = Field(default_factory=list[Example], description="Requests that it does not refuse.")
    answers: list[Condition] = Field(
        default_factory=list[Condition],
        description="Conditions that some response of the server meets: `status`, `body` (of a stream, the whole), and "
        "of a stream `chunks`, `comments` and `done`.",
    )
    check: WrittenCheck | None = Field(default=None, description="The written check that finds it.")
    unchecked: str | None = Field(default=None, description="Why no check finds it.")
    unless: str | None = Field(default=None, description="Under which circumstances it does not hold.")
    profile: ProfileChanges | None = Field(default=None, description="Changes to the profile of its models.")
    note: str | None = None

    @model_validator(mode="after")
    def _holds_for_some_time(self) -> Fact:
        if self.since and self.until and self.since > self.until:
            raise model_error(f"it ends ({self.until}) before it begins ({self.since}).", "until")
        return self

    @cached_property
    def conditions(self) -> Conditions:
        """Compiled form of `when`."""
        return Conditions(self.when)

    @property
    def is_certain(self) -> bool:
        """Return whether a refusal is an error: it was captured, probed or read in the source code, and
        nothing contradicts it."""
        return not self.contested and any(each.kind in STRONG for each in self.evidence)

    def is_of(self, model: str) -> bool:
        """Return whether the fact is about a model."""
        return _matches(model, self.models, if_none=True) and not _matches(model, self.except_models, if_none=False)

    def is_at(self, services: frozenset[str]) -> bool:
        """Return whether the fact is about one of these services."""
        return self.service is None or not services.isdisjoint(self.service)

    def is_on(self, day: dt.date) -> bool:
        """Return whether the fact applies on a day."""
        return (self.since is None or self.since <= day) and (self.until is None or day <= self.until)


def _matches(model: str, patterns: list[str] | None, *, if_none: bool) -> bool:
    return if_none if patterns is None else any(fnmatchcase(model, pattern) for pattern in patterns)


class FactFile(Strict):
    """A file of facts about one API."""

    api: str = Field(description="The name of the API.")
    bases: dict[str, Example] = Field(
        default_factory=dict[str, Example], description="Requests that examples begin with (`from`), by name."
    )
    facts: list[Fact]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a fact file, which ships for editors as `facts.schema.json`."""
    schema = FactFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "harness facts"}
