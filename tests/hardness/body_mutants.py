"""Mutation score of the suite: how many faults in the bodies that an adapter sends, and in what it hands on, it finds.

`python -m tests.hardness.body_mutants --target gemini-3 --sample 500` plays faults that nobody wrote, each through the
scenarios whose bodies it changes, until a rule reports it. Most survivors mean the same to the provider or the caller:
`equivalent_mutants.yaml` says why. Any other survivor is a hole in the suite.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import yaml

from harness.model.messages import ChatRequest, ChatResponse, Finish, StreamEvent
from harness.model.protocols import Adapter, Endpoint, StreamingChatClient
from harness.results import Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner.cells import not_applicable
from harness.scenarios.schema import Variant
from harness.stdio.protocol import from_json, to_json
from tests.backends import shipped_scenarios, shipped_targets
from tests.broken.fault import ALL, Wrap, Wrapped, client, sends
from tests.broken.running import cell, run_cell
from tests.hardness.body_edits import NOTHING, OPERATORS, Edit, apply, at, edits, paths, unpacked

TABLE = Path(__file__).with_name("equivalent_mutants.yaml")

Side: TypeAlias = Literal["request", "response", "events"]
"""The bodies that a mutant changes: requests, whole responses, or the events of streams."""

SIDES: dict[Variant, tuple[Side, ...]] = {"whole": ("request", "response"), "stream": ("request", "events")}


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """A fault of the adapter of a target: one edit of all bodies of one side."""

    target: str
    side: Side
    edit: Edit

    def __str__(self) -> str:
        return f"{self.target} {self.side}: {self.edit}"


@dataclass(slots=True)
class Outcome:
    """The result of a mutant: the cells that changed and passed, and the rules that found it in the last cell."""

    mutant: Mutant
    passed: list[str] = field(default_factory=list[str])
    rules: tuple[str, ...] = ()
    crashed: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason why nobody has to find the mutant."""
        return next((each.reason for each in equivalents() if each.covers(self.mutant)), None)

    def facts(self) -> dict[str, Any]:
        """The fields of a line in a file of results."""
        return {"passed": self.passed, "rules": self.rules, "crashed": self.crashed}

    @classmethod
    def of(cls, mutant: Mutant, line: dict[str, Any]) -> Outcome | None:
        """Return the outcome of a line in a file of results. `None` if the mutant changes nothing."""
        return cls(mutant, line["passed"], tuple(line["rules"]), line["crashed"]) if "rules" in line else None

    @property
    def survived(self) -> bool:
        return not self.rules

    def __str__(self) -> str:
        more = f" and {len(self.passed) - 2} more" if len(self.passed) > 2 else ""
        crashed = f"; crashed: {self.crashed}" if self.crashed else ""
        return f"{self.mutant}  [{', '.join(self.passed[:2])}{more}]{crashed}"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """An entry of the table: mutants that nobody has to find, with the reason."""

    reason: str
    paths: tuple[str, ...]
    operators: tuple[str, ...] = ("*",)
    targets: tuple[str, ...] = ("*",)

    def covers(self, mutant: Mutant) -> bool:
        operator = str(mutant.edit).split(" ", 1)[0]
        path = f"{mutant.side}:{mutant.edit.path}"
        return (
            any(fnmatchcase(mutant.target, each) for each in self.targets)
            and any(fnmatchcase(operator, each) for each in self.operators)
            and any(fnmatchcase(path, each) for each in self.paths)
        )


@cache
def equivalents() -> tuple[Equivalent, ...]:
    """The table of equivalent mutants."""
    entries: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    lists = ("paths", "operators", "targets")
    return tuple(
        Equivalent(each["reason"], **{name: tuple(each[name]) for name in lists if name in each}) for each in entries
    )


# --- bodies ---


def _handed_on(note: Any) -> Wrap:
    """Pass each response, or the events of each stream, through `note` as JSON. It returns what the caller receives."""

    class Editing(Wrapped):
        def __init__(self, client: StreamingChatClient) -> None:
            super().__init__(client)
            self.note = note()

        def chat(self, request: ChatRequest) -> ChatResponse:
            return self.note(self.client.chat(request))

        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            events = list(self.client.stream(request))
            yield from self.note(events)

    return client(Editing)


def _json_of(value: Any) -> Any:
    if isinstance(value, list):
        return {"events": [_json_of(each) for each in cast("list[Any]", value)]}
    document: Any = to_json(value)
    response = document.get("response", document)
    for part in response.get("message", {}).get("parts", ()):
        part.pop("arguments_json", None)  # it says the same as `arguments`
    return document


def _value_of(document: Any) -> Any:
    """Return a response or events of their JSON. Raises `ValueError` if the contract does not allow it."""
    if "events" in document:
        if not isinstance(document["events"], list):
            raise ValueError("events are a list")
        return [from_json(Finish, each, "event") for each in document["events"]]
    return from_json(ChatResponse, document, "response")


class Recording:
    """The bodies of each cell with shipped adapters. Cells are run when their bodies are needed."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, str, Variant], dict[Side, list[Any]]] = {}
        self._paths: dict[tuple[str, str, Variant, Side], dict[str, tuple[int, str]]] = {}

    def bodies(self, scenario: str, target: str, variant: Variant) -> dict[Side, list[Any]]:
        """The bodies of a cell by their side, in the order in which they were sent or received."""
        key = scenario, target, variant
        if key not in self._bodies:
            self._bodies[key] = self._record(*key)
        return self._bodies[key]

    def paths(self, scenario: str, target: str, variant: Variant, side: Side) -> dict[str, tuple[int, str]]:
        """The paths of one side of a cell, each with its highest number of values in a body, and with these values."""
        key = scenario, target, variant, side
        if key not in self._paths:
            found: dict[str, tuple[int, str]] = {}
            for body in self.bodies(scenario, target, variant).get(side, ()):
                document = unpacked(body)
                for path, pointers in paths(document).items():
                    count, values = found.get(path, (0, ""))
                    texts = {json.dumps(at(document, pointer)) for pointer in pointers}
                    found[path] = max(count, len(pointers)), f"{values} {sorted(texts)}"
            self._paths[key] = {path: (count, str(hash(values))) for path, (count, values) in found.items()}
        return self._paths[key]

    def _record(self, scenario: str, target: str, variant: Variant) -> dict[Side, list[Any]]:
        requests: list[Any] = []
        handed: list[Any] = []
        if not_applicable(cell(scenario, target, variant=variant), "reference") is not None:
            return {}

        def note(value: Any) -> Any:
            handed.append(_json_of(value))
            return value

        def wrap(adapter: Adapter) -> Adapter:
            return _handed_on(lambda: note)(
                sends(lambda _, body: requests.append(json.loads(json.dumps(body))))(adapter)
            )

        result = run_cell(scenario, target, wrap, variant=variant)
        assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE), (scenario, target, variant, result.reason)
        # a streamed cell is repeated with whole responses, for comparison
        first = handed if variant == "whole" else [each for each in handed if "events" in each]
        return {"request": requests, "response" if variant == "whole" else "events": first}


# --- running ---


def wrap_of(mutant: Mutant) -> Wrap:
    """Return the wrap that makes a shipped adapter the mutant. Each client remembers its own previous body."""
    if mutant.side != "request":
        return _handed_on(lambda: _Editor(mutant.edit))

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> Any:
            before: list[Any] = [None]

            def edit(_api: str, body: dict[str, Any]) -> Any:
                edited = apply(mutant.edit, body, _earlier(before[0], body))
                before[0] = deepcopy(body)
                return None if edited is NOTHING else edited

            return sends(edit)(adapter).connect(endpoint, model)

        return replace(adapter, connect=connect)

    return wrap


class _Editor:
    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self._before: Any = None

    def __call__(self, value: Any) -> Any:
        document = _json_of(value)
        edited = apply(self._edit, document, self._before)
        self._before = document
        try:
            return value if edited is NOTHING else _value_of(edited)
        except ValueError:
            return value


class Score:
    """Plays mutants on some scenarios, each in at most `cells` cells."""

    def __init__(self, scenarios: Sequence[str], cells: int | None = None) -> None:
        self._scenarios = scenarios
        self._cells_each = cells
        self._recording = Recording()
        self._finders: dict[tuple[Side, str], tuple[str, Variant]] = {}

    def mutants(self, target: str, scenarios: Iterable[str] | None = None) -> list[Mutant]:
        """Return all mutants that change a body of these scenarios."""
        several: dict[tuple[Side, str], bool] = {}
        for scenario in self._scenarios if scenarios is None else scenarios:
            for variant, sides in SIDES.items():
                for side in sides:
                    for path, (count, _) in self._recording.paths(scenario, target, variant, side).items():
                        several[side, path] = several.get((side, path), False) or count > 1
        return sorted(
            Mutant(target, side, edit) for (side, path), more in several.items() for edit in edits(path, several=more)
        )

    def outcome(self, mutant: Mutant) -> Outcome | None:
        """Play a mutant until a rule finds it. Return `None` if it changes nothing, or nothing that is allowed."""
        outcome = Outcome(mutant)
        for scenario, variant in islice(self._cells(mutant), self._cells_each):
            result = run_cell(scenario, mutant.target, wrap_of(mutant), variant=variant)
            errors = [each for each in result.findings if each.severity is not Severity.NOTE]
            if errors:
                outcome.rules = tuple(sorted({each.rule for each in errors if each.follows is None}))
                outcome.rules = outcome.rules or tuple(sorted({each.rule for each in errors}))
                self._finders[mutant.side, mutant.edit.path] = scenario, variant
                return outcome
            if result.verdict is Verdict.ERROR:
                outcome.crashed = f"{scenario} {variant}: {result.reason}"
            else:
                outcome.passed.append(f"{scenario} {variant}")
        return outcome if outcome.passed or outcome.crashed else None

    def _cells(self, mutant: Mutant) -> Iterator[tuple[str, Variant]]:
        """Yield the cells that a mutant changes.

        The first one has found another mutant of this path. The others are short ones and ones with rare values.
        """
        found: list[tuple[int, str, Variant]] = []
        values: dict[tuple[str, Variant], str] = {}
        for variant, sides in SIDES.items():
            for scenario in self._scenarios if mutant.side in sides else ():
                there = self._recording.paths(scenario, mutant.target, variant, mutant.side).get(mutant.edit.path)
                if there is not None:
                    bodies = self._recording.bodies(scenario, mutant.target, variant)[mutant.side]
                    found.append((len(bodies) + (variant == "stream"), scenario, variant))
                    values[scenario, variant] = there[1]
        cells: list[tuple[str, Variant]] = [(scenario, variant) for _, scenario, variant in sorted(found)]
        finder = self._finders.get((mutant.side, mutant.edit.path))
        for scenario, variant in _spread(cells, values, finder):
            bodies = self._recording.bodies(scenario, mutant.target, variant)[mutant.side]
            if self._changes(mutant.edit, bodies, mutant.side):
                yield scenario, variant

    def _changes(self, edit: Edit, bodies: list[Any], side: Side) -> bool:
        """Return whether an edit changes one of the bodies into another one that is allowed."""
        for before, body in zip([None, *bodies], bodies):  # noqa: B905 - nothing follows the last one
            edited = apply(edit, body, _earlier(before, body))
            if edited is not NOTHING and (side == "request" or _is_another(edited, body)):
                return True
        return False


def _earlier(before: Any, body: Any) -> Any:
    """Return the body before it unless a conversation starts: a streamed cell is repeated with whole responses."""
    entries = next((key for key in ("messages", "input", "contents") if key in body), None)
    again = entries is not None and before is not None and len(before.get(entries, ())) >= len(body[entries])
    return None if again else before


def _spread(
    cells: list[tuple[str, Variant]], values: dict[tuple[str, Variant], str], finder: tuple[str, Variant] | None
) -> Iterator[tuple[str, Variant]]:
    common = Counter(values.values())
    drawn = random.Random(0).sample(cells, len(cells))  # noqa: S311 - the same cells in each run
    rare = sorted({values[each]: each for each in reversed(drawn)}.values(), key=lambda each: common[values[each]])
    first = [finder] if finder in cells else []
    pairs = zip_longest(cells, dict.fromkeys([*rare, *drawn]))
    yield from dict.fromkeys([*first, *(each for pair in pairs for each in pair if each is not None)])


def _is_another(edited: Any, document: Any) -> bool:
    """Return whether the contract allows an edited response, and reads it as another one."""
    try:
        return _json_of(_value_of(edited)) != document
    except ValueError:
        return False


# --- report ---


def report(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the score."""
    counted = [each for each in outcomes if not (each.survived and each.reason)]
    killed = [each for each in counted if not each.survived]
    yield f"{_share(len(killed), len(counted))} found; {len(outcomes) - len(counted)} equivalent ones are not counted"
    for title, key in (
        ("API", lambda o: shipped_targets()[o.mutant.target].api),
        ("bodies", lambda o: o.mutant.side),
        ("operator", lambda o: o.mutant.edit.operator),
        ("place", lambda o: f"{o.mutant.side} /{o.mutant.edit.path.split('/')[1]}"),
    ):
        yield f"\nby {title}"
        every, found = Counter(map(key, counted)), Counter(map(key, killed))
        for name in sorted(every, key=lambda each: (found[each] / every[each], each)):
            yield f"  {name:28} {_share(found[name], every[name])}"
    subjects = {rule.id: str(rule.subject) for rule in all_rules()}
    yield "\nby rule: mutants found, and those that no other rule found in the same cell"
    found = Counter(rule for each in killed for rule in each.rules)
    alone = Counter(each.rules[0] for each in killed if len(each.rules) == 1)
    for rule, number in found.most_common():
        yield f"  {subjects.get(rule, 'limits'):14} {rule:44} {number:5} {alone[rule]:5}"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole if whole else 100:.1f} %)"


def stale(outcomes: Sequence[Outcome], targets: Iterable[str]) -> list[Equivalent]:
    """Return the entries of the table that explain no survivor, of those for these targets."""
    left = [each.mutant for each in outcomes if each.survived]
    about = [each for each in equivalents() if any(fnmatchcase(t, g) for t in targets for g in each.targets)]
    return [each for each in about if not any(each.covers(mutant) for mutant in left)]


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hardness.body_mutants")
    parser.add_argument("--target", action="append", choices=ALL, help="default: all")
    parser.add_argument("--side", action="append", choices=("request", "response", "events"))
    parser.add_argument("--operator", action="append", choices=OPERATORS)
    parser.add_argument("--path", default="*", help="a glob")
    parser.add_argument("--sample", type=int, help="how many mutants of each target; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, help="how many cells a mutant is played in at most; default: all")
    parser.add_argument("--results", type=Path, help="a file of outcomes; mutants that it has are not played again")
    given = parser.parse_args()
    score = Score(list(shipped_scenarios()), given.cells)
    targets = given.target or list(ALL)
    outcomes: list[Outcome] = []
    for target in targets:
        every = [
            mutant
            for mutant in score.mutants(target)
            if mutant.side in (given.side or [mutant.side])
            and mutant.edit.operator in (given.operator or [mutant.edit.operator])
            and fnmatchcase(mutant.edit.path, given.path)
        ]
        random.Random(given.seed).shuffle(every)  # noqa: S311 - to be had again
        outcomes += islice(_outcomes(score, every, given.results), given.sample)
    sys.stdout.write("\n".join(report(outcomes)) + "\n")
    if given.sample is None and given.path == "*" and not (given.side or given.operator):
        for each in stale(outcomes, targets):
            sys.stdout.write(f"no survivor needs this entry: {each.paths} {each.operators}: {each.reason}\n")


def _outcomes(score: Score, mutants: Iterable[Mutant], results: Path | None) -> Iterator[Outcome]:
    """Yield the outcomes of the mutants that change something, and print the survivors without a reason."""
    lines = results.read_text(encoding="utf-8").splitlines() if results and results.exists() else []
    known = {each["mutant"]: each for each in map(json.loads, lines)}
    for mutant in mutants:
        if str(mutant) in known:
            outcome = Outcome.of(mutant, known[str(mutant)])
        else:
            outcome = score.outcome(mutant)
            if results:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"mutant": str(mutant), **(outcome.facts() if outcome else {})}) + "\n")
        if outcome is not None:
            if outcome.survived and outcome.reason is None:
                sys.stdout.write(f"{outcome}\n")
                sys.stdout.flush()
            yield outcome


if __name__ == "__main__":
    _main()
