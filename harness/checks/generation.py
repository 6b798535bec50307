"""Search for faults of an adapter with generated conversations. Each is shrunk to the smallest conversation that shows
the fault.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from random import Random
from typing import TypeAlias, TypeVar, cast

from harness.apis.registry import Target
from harness.checks.random_conversations import Document, random_conversation, valid_scenario
from harness.documents.document import Path
from harness.model.errors import UsageError, install_command
from harness.model.messages import JSON
from harness.results import CellResult, Finding, Severity, Verdict
from harness.runner.backends import TOO_MANY_REQUESTS
from harness.runner.cells import VARIANTS, Cell, not_applicable
from harness.scenarios.schema import Scenario, Variant
from harness.stdio.workers import TIMEOUT_HINT

CauseKey: TypeAlias = tuple[str, str]
"""Identity of a cause: the rule, and the case, exception or field in which it was broken."""

RunCell: TypeAlias = Callable[[Cell], CellResult]


@dataclass(frozen=True, slots=True)
class FoundCause:
    """A cause of a failure, with the smallest conversation that shows it."""

    key: CauseKey
    scenario: Scenario
    variant: Variant


def search(  # noqa: PLR0913, PLR0917 - what is run, how much of it, and how
    target: Target,
    count: int,
    seed: int,
    runners: Sequence[RunCell],
    variants: Sequence[Variant] = VARIANTS,
    database: FilePath | None = None,
) -> list[FoundCause]:
    """Run `count` conversations that Hypothesis generates. Return the causes of their failures, each with its smallest
    conversation.

    The first of `runners` runs most conversations. About every twentieth one is streamed, and run by one of the others.
    The same `seed` gives the same conversations. Hypothesis stores conversations that failed in the folder `database`;
    the next search runs them first.

    Raises:
        UsageError: Hypothesis is not installed.
    """
    try:
        from harness.checks import hypothesis_search  # noqa: PLC0415 - an optional dependency
    except ModuleNotFoundError as error:
        raise UsageError(
            f"generated conversations need the package {error.name!r}. Install it with: {install_command('generate')}"
        ) from error
    found: list[FoundCause] = []
    known: set[CauseKey] = set()
    left = count

    def drawn(random: Random) -> _Drawn | None:
        is_recut = random.randrange(20) == _RECUT
        run_cell = random.choice(runners[1:] or runners) if is_recut else runners[0]
        cell = conversation(target, random, "stream" if is_recut and "stream" in variants else random.choice(variants))
        return cell and _Drawn(cell, run_cell)

    while left > 0:
        new = _NewCause(known)
        kept = database and database / str(len(found))  # Hypothesis removes conversations of known causes
        first = hypothesis_search.find(drawn, new.is_shown, left, f"{seed}/{len(found)}", kept)
        left -= new.count
        if first is None or new.conversation is None:
            break
        for key in new.causes:
            if key not in known:
                shown = first if key == new.key else new.conversation
                each = shrink_cause(shown.cell, key, shown.run_cell)
                found.append(each)
                known |= {key, *causes_of(shown.run_cell(Cell(each.scenario, target, each.variant)))}
    return found


_RECUT = 19
"""The last of 20 numbers, because Hypothesis shrinks towards the first."""


class SlowConversations:
    """Counts conversations that reach the limit of a cell's time or requests.

    After `MAX_SLOW_CONVERSATIONS` of them, no more are run.
    """

    def __init__(self) -> None:
        self._count = 0

    @property
    def are_too_many(self) -> bool:
        """Return whether the maximum is reached."""
        return self._count >= MAX_SLOW_CONVERSATIONS

    def count_slow(self, run_cell: RunCell) -> RunCell:
        """Return a function that runs a cell and counts it if it is slow.

        Once the maximum is reached, the function runs no cell and returns an empty result.
        """

        def run_and_count(cell: Cell) -> CellResult:
            if self.are_too_many:
                return cell.result()
            result = run_cell(cell)
            texts = (result.reason or "", *(each.message for each in result.findings))
            self._count += any(TIMEOUT_HINT in text or TOO_MANY_REQUESTS in text for text in texts)
            return result

        return run_and_count


MAX_SLOW_CONVERSATIONS = 5


class _Drawn:
    """A cell, and how it is run. Not a dataclass, because Hypothesis prints all fields of those, which is slow."""

    def __init__(self, cell: Cell, run_cell: RunCell) -> None:
        self.cell = cell
        self.run_cell = run_cell


class _NewCause:
    """The first new cause that a search finds. Shrinking keeps to that cause.

    `conversation` is the first that shows it, and `causes` are all causes in that conversation. `count` is the number
    of conversations run up to then. Each smaller conversation is run once, because Hypothesis often generates the same
    one twice.
    """

    def __init__(self, known: Container[CauseKey]) -> None:
        self._known = known
        self.key: CauseKey | None = None
        self.causes: Sequence[CauseKey] = ()
        self.conversation: _Drawn | None = None
        self.count = 0
        self._shown: dict[tuple[str, Variant, RunCell], bool] = {}

    def is_shown(self, drawn: _Drawn) -> bool:
        if self.key is None:
            self.count += 1
            self.causes, self.conversation = causes_of(drawn.run_cell(drawn.cell)), drawn
            self.key = next((each for each in self.causes if each not in self._known), None)
            return self.key is not None
        text = drawn.cell.scenario.model_dump_json(exclude_unset=True, exclude={"id", "title"})
        place = (text, drawn.cell.variant, drawn.run_cell)
        if place not in self._shown:
            causes = causes_of(drawn.run_cell(drawn.cell))
            self._shown[place] = self.key in causes and all(each in self.causes for each in causes)
        return self._shown[place]


def conversation(target: Target, random: Random, variant: Variant) -> Cell | None:
    """Return the cell of a generated conversation on a target, or `None` if it cannot be run there.

    Every choice is made by `random`.
    """
    scenario = random_conversation(target, random)
    return scenario and _cell(scenario, target, variant)


def _cell(scenario: Scenario, target: Target, variant: Variant) -> Cell | None:
    """Return the cell of a conversation in the given variant. If that is not applicable, return another variant, or
    `None` if neither applies.
    """
    for each in (variant, *VARIANTS):
        cell = Cell(scenario, target, each)
        if each in (scenario.variants or VARIANTS) and not_applicable(cell, "reference") is None:
            return cell
    return None


def shrink_cause(
    cell: Cell, key: CauseKey, run_cell: RunCell, *, words: bool = True, seconds: float = math.inf
) -> FoundCause:
    """Return the smallest conversation that shows a cause. It must not show any cause that the conversation of `cell`
    does not show.

    Without `words`, texts and names are not shortened, only removed, so that the conversation remains readable. After
    `seconds`, the smallest conversation found so far is returned.
    """
    document = cell.scenario.model_dump(mode="json", exclude_unset=True, by_alias=True)
    kept = {name: document[name] for name in _KEPT if name in document}
    end = time.monotonic() + seconds

    def scenario_of(shrinking: Document) -> Scenario | None:
        return valid_scenario(json.loads(json.dumps(kept | shrinking)))

    def causes(scenario: Scenario | None) -> set[CauseKey]:
        smaller = scenario and _cell(scenario, cell.target, cell.variant)
        return {*causes_of(run_cell(smaller))} if smaller is not None else set()

    whole = {name: value for name, value in document.items() if name not in kept}
    allowed = causes(scenario_of(whole))

    def shows(shrinking: Document) -> bool:
        found = causes(scenario_of(shrinking)) if time.monotonic() < end else set[CauseKey]()
        return key in found and found <= allowed

    small = shrink_value(whole, shows, atomic=_ATOMIC if words else (*_ATOMIC, *_READABLE_MEMBERS))
    scenario = scenario_of(small)
    if scenario is None:
        raise ValueError("a conversation that cannot be run")
    return FoundCause(key, scenario, cell.variant)


_KEPT = ("version", "id", "title", "covers", "scripted")
"""Members that shrinking leaves as they are."""

_ATOMIC = ("fields", "raw", "provider_tools", "profiles", "image", "file", "audio", "metadata")
"""Members that are removed as a whole or kept, but never shrunk."""

_READABLE_MEMBERS = ("user", "text", "name", "system", "description", "id", "refusal")
"""Members with text for human readers. Without `words`, they are treated like `_ATOMIC`."""


def causes_of(result: CellResult) -> list[CauseKey]:
    """Return the causes of a cell's errors and warnings, without expected ones and those that only follow from
    others.
    """
    if result.verdict is Verdict.ERROR and not result.findings:
        return [("error", (result.reason or "").partition(":")[0])]
    failing = (
        each
        for each in result.findings
        if each.severity is not Severity.NOTE and each.follows is None and each.accepted is None
    )
    return list(dict.fromkeys(map(cause_key, failing)))


def cause_key(finding: Finding) -> CauseKey:
    """Return the cause of a finding."""
    return finding.rule, _place(finding)


def _place(finding: Finding) -> str:
    """Return the case or exception of a finding, or its location without indices."""
    return finding.case or finding.raised or re.sub(r"\d+", "N", finding.pointer or "")


def name_conversations(found: Sequence[FoundCause]) -> Iterator[Scenario]:
    """Yield the conversations with ids that name their rules."""
    names: Counter[str] = Counter()
    for each in found:
        rule, _ = each.key
        names[rule] += 1
        number = f"-{names[rule]}" if names[rule] > 1 else ""
        yield each.scenario.model_copy(update={"id": f"generated-{rule}{number}"})


Value = TypeVar("Value", bound=JSON)

MAX_TRIES = 1000
"""Default limit for the number of candidate values that are tried."""


def shrink_value(
    value: Value, fails: Callable[[Value], bool], tries: int = MAX_TRIES, atomic: Container[str | int] = ()
) -> Value:
    """Shrink a value as long as `fails` returns true, and return the result. No single removal can shrink it further,
    unless `tries` ran out.

    Members and elements are removed, containers are replaced by one of their elements, texts are shortened, and numbers
    become 0 or 1. A member whose name is `atomic` is removed or left unchanged. `fails` must return `False` for invalid
    values. It is not called with `value` itself.
    """
    return cast("Value", _Shrinking(value, cast("Callable[[JSON], bool]", fails), tries, atomic).result())


class _Shrinking:
    def __init__(self, value: JSON, fails: Callable[[JSON], bool], tries: int, atomic: Container[str | int]) -> None:
        self._value = value
        self._fails = fails
        self._left = tries
        self._atomic = atomic
        self._tried: set[str] = set()

    def result(self) -> JSON:
        before = ""
        while before != (now := json.dumps(self._value)):
            before = now
            self._shrink(())
        return self._value

    def _shrink(self, path: Path) -> None:
        """Shrink the value at a path, then each value inside it, the last first."""
        while any(
            self._accepts(_replace_at(self._value, path, each)) for each in _simpler(_value_at(self._value, path))
        ):
            pass
        for key in reversed(_keys(_value_at(self._value, path))):
            if key not in self._atomic:
                self._shrink((*path, key))

    def _accepts(self, candidate: JSON) -> bool:
        text = json.dumps(candidate)
        if self._left <= 0 or text in self._tried:
            return False
        self._tried.add(text)
        self._left -= 1
        if not self._fails(candidate):
            return False
        self._value = candidate
        return True


def _keys(value: JSON) -> list[str | int]:
    return [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []


def _value_at(value: JSON, path: Path) -> JSON:
    for key in path:
        value = cast("dict[str | int, JSON]", value)[key]
    return value


def _replace_at(value: JSON, path: Path, new: JSON) -> JSON:
    """Return a copy of a value with `new` at a path. Everything outside the path is shared with the original."""
    if not path:
        return new
    copied = cast("dict[str | int, JSON]", value.copy() if isinstance(value, (dict, list)) else value)
    copied[path[0]] = _replace_at(copied[path[0]], path[1:], new)
    return cast("JSON", copied)


def _simpler(value: JSON) -> Iterator[JSON]:
    """Yield simpler values, the simplest first."""
    match value:
        case bool() | None:
            return
        case dict():
            yield from ({},) if value else ()
            yield from ({name: each for name, each in value.items() if name != left} for left in reversed([*value]))
            yield from (each for each in value.values() if isinstance(each, dict))
        case list():
            yield from _shorter(value)
            yield from (each for each in value if isinstance(each, list))
        case str():
            yield from ("a",) if len(value) > 1 else ()
            yield from _shorter(value)
        case _:
            yield from (simple for simple in (0, 1, int(value)) if _is_simpler(simple, value))


def _is_simpler(number: int, value: float) -> bool:
    return abs(number) < abs(value) or (number == value and isinstance(value, float))


TextOrList = TypeVar("TextOrList", str, list[JSON])


def _shorter(value: TextOrList) -> Iterator[TextOrList]:
    """Yield the text or list without one piece, for each of its pieces. Pieces start at the full length and are halved
    each round. Single items are only removed from short values.
    """
    size = len(value)
    while size and len(value) < _MAX_PIECES * size:
        yield from (value[:at] + value[at + size :] for at in reversed(range(0, len(value), size)))
        size //= 2


_MAX_PIECES = 64
