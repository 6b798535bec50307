"""Expected failures: known findings of a team's adapters, each with a reason. A stale entry fails the run.

An entry covers findings, not cells: other findings fail the cell as usual.

```yaml
- scenario: parallel-same-tool     # a glob
  target: openai-*                 # a glob
  rule: result-swapped             # a glob; the id of a rule or a limit
  reason: "tracked as #123"
  variant: stream                  # whole or stream; absent: both
```
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from harness.cassettes.cassette_text import TOO_DEEP
from harness.model.errors import ExpectedFailuresError
from harness.platform.files import read_file
from harness.results import CellResult, ExpectedFailure, Finding, Severity
from harness.rules import EVERYTHING, Scope
from harness.scenarios.schema import Variant

MAX_BYTES = 2 << 20
"""Maximum size of the file, enough for about twenty thousand entries."""

_MAX_DEPTH = 20
"""Maximum nesting depth. It is greater than that of valid files, so that errors in slightly deeper files can still name
the line.
"""

_NESTED = "not a list of entries: nested too deeply."

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REQUIRED_KEYS = ("scenario", "target", "rule", "reason")
_KEYS = (*_REQUIRED_KEYS, "variant")
_VARIANTS: tuple[Variant, ...] = get_args(Variant)


def load(path: Path, findable: Collection[str]) -> list[ExpectedFailure]:
    """Read the file. `findable` contains the ids that findings can have.

    Raises:
        ExpectedFailuresError: The file is not a list of entries with the allowed keys and non-empty strings, or an
            entry names an unknown variant or rule.
    """
    node: Any = _parse_yaml(path)
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise ExpectedFailuresError(str(path), "must be a list of entries.", node.start_mark.line + 1)
    made: list[ExpectedFailure] = []
    for item in cast("list[Any]", node.value):
        entry = _read_entry(path, item)
        if wrong := why_unmatchable(entry, findable):
            raise ExpectedFailuresError(str(path), wrong, item.start_mark.line + 1)
        made.append(entry)
    return made


def why_unmatchable(entry: ExpectedFailure, findable: Collection[str]) -> str | None:
    """Return an error message if the entry's rule matches no known id, else `None`."""
    if any(fnmatchcase(each, entry.rule) for each in findable):
        return None
    nearest = difflib.get_close_matches(entry.rule, sorted(findable), n=1, cutoff=0)
    guess = f" The nearest id is {nearest[0]!r}." if nearest else ""
    return (
        f"the entry for {entry.scenario} on {entry.target} cannot match anything: there is no rule "
        f"{entry.rule!r}.{guess} "
        "'harness list rules' and 'harness list facts' list the ids."
    )


def _parse_yaml(path: Path) -> Any:
    try:
        data = read_file(path, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise ExpectedFailuresError(str(path), f"larger than {MAX_BYTES >> 20} MiB, the most that it may have.")
        text = data.decode()
        _check_depth(text, path)
        return cast("Any", yaml).compose(text, Loader=_LOADER)
    except OSError as error:
        raise ExpectedFailuresError(str(path), f"cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ExpectedFailuresError(str(path), "not UTF-8 text.") from None
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        reason = _NESTED if problem == TOO_DEEP else f"not YAML: {problem}."
        raise ExpectedFailuresError(str(path), reason, mark.line + 1 if mark else None) from None


def _check_depth(text: str, path: Path) -> None:
    """Reject nesting that would crash libyaml's composer but not its parser."""
    depth = 0
    for event in cast("Any", yaml).parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ExpectedFailuresError(str(path), _NESTED, event.start_mark.line + 1)


def _read_entry(path: Path, node: Any) -> ExpectedFailure:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise ExpectedFailuresError(str(path), f"an entry is a mapping of {', '.join(_KEYS)}.", line)
    values: dict[str, str] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ExpectedFailuresError(str(path), f"a key is one of {', '.join(_KEYS)}.", key.start_mark.line + 1)
        if key.value not in _KEYS or key.value in values:
            problem = "is given twice" if key.value in values else f"is unknown; the keys are {', '.join(_KEYS)}"
            raise ExpectedFailuresError(str(path), f"the key {key.value!r} {problem}.", key.start_mark.line + 1)
        if not isinstance(value, yaml.ScalarNode) or not value.value.strip():
            raise ExpectedFailuresError(str(path), f"{key.value} must be a text.", value.start_mark.line + 1)
        values[key.value] = value.value
        if key.value == "variant" and value.value not in _VARIANTS:
            raise ExpectedFailuresError(
                str(path), f"variant must be {' or '.join(_VARIANTS)}; without it, both.", value.start_mark.line + 1
            )
    missing = [key for key in _REQUIRED_KEYS if key not in values]
    if missing:
        raise ExpectedFailuresError(str(path), f"the entry has no {', '.join(missing)}.", line)
    variant = cast("Variant | None", values.pop("variant", None))
    return ExpectedFailure(**values, variant=variant)


def mark_expected(
    expected: Sequence[ExpectedFailure], cell: CellResult, findings: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Return the findings of a cell, with `accepted` set for expected errors.

    Its value is the reason in the entries that match the finding. If there are none, the entries that match its cause
    are used.
    """
    reasons = [_reasons(expected, cell, finding) for finding in findings]
    own = [
        why or (reasons[finding.follows] if finding.follows is not None else "")
        for why, finding in zip(reasons, findings, strict=True)
    ]
    return tuple(
        replace(finding, accepted=why) if why and finding.severity is Severity.ERROR else finding
        for why, finding in zip(own, findings, strict=True)
    )


def _reasons(expected: Sequence[ExpectedFailure], cell: CellResult, finding: Finding) -> str:
    return "; ".join(dict.fromkeys(entry.reason for entry in expected if entry.expects(cell, finding)))


def entries_for(
    cells: Sequence[CellResult], reason: str, known: Sequence[ExpectedFailure] = ()
) -> list[ExpectedFailure]:
    """Return a new entry for each failing finding that no `known` entry covers.

    An entry covers both variants if both have the finding or only one was run. Findings that follow from a cause need
    no entry.
    """
    found: dict[tuple[str, str, str], set[Variant]] = {}
    for cell in cells:
        for finding in cell.findings:
            if finding.fails and finding.follows is None and not any(entry.expects(cell, finding) for entry in known):
                found.setdefault((cell.scenario, cell.target, finding.rule), set()).add(cell.variant)
    made: list[ExpectedFailure] = []
    for (scenario, target, rule), variants in found.items():
        played = {cell.variant for cell in cells if (cell.scenario, cell.target) == (scenario, target)}
        one = next(iter(variants)) if variants < played else None
        made.append(ExpectedFailure(glob.escape(scenario), glob.escape(target), glob.escape(rule), reason, one))
    return made


def to_yaml(expected: Sequence[ExpectedFailure]) -> str:
    """Return the entries as YAML that `load` can read."""
    documents = [{key: value for key, value in asdict(entry).items() if value is not None} for entry in expected]
    if not documents:
        return ""
    return yaml.safe_dump(documents, sort_keys=False, allow_unicode=True, width=120)


class Expectations:
    """Tracks which expected failures occur in the cells of a run. Only rules in `scope` count."""

    def __init__(self, expected: Sequence[ExpectedFailure], scope: Scope = EVERYTHING) -> None:
        self._expected = expected
        self._scope = scope
        self._matched: set[int] = set()
        self._played: set[int] = set()
        self._happened: set[int] = set()

    def add(self, cell: CellResult, *, played: bool) -> None:
        """Add a cell of the run. `played` is set if all rules checked it."""
        for at, entry in enumerate(self._expected):
            if entry.covers(cell):
                self._matched.add(at)
                if played:
                    self._played.add(at)
                    if _is_found(entry, cell):
                        self._happened.add(at)

    @property
    def unmatched(self) -> tuple[ExpectedFailure, ...]:
        """The entries that cover no cell."""
        return self._stale_entries(set(range(len(self._expected))) - self._matched)

    @property
    def stale(self) -> tuple[ExpectedFailure, ...]:
        """The entries whose cells ran without the expected finding.

        An entry is not stale if none of its cells ran, or if its rule or finding is out of scope.
        """
        counting = {at for at, entry in enumerate(self._expected) if self._scope.takes(entry.rule)}
        return self._stale_entries(self._played & counting - self._happened)

    def _stale_entries(self, chosen: Collection[int]) -> tuple[ExpectedFailure, ...]:
        return tuple(entry for at, entry in enumerate(self._expected) if at in chosen)


def _is_found(entry: ExpectedFailure, cell: CellResult) -> bool:
    found = (entry.expects(cell, each) and each.severity is Severity.ERROR for each in cell.findings)
    return any(found) or any(fnmatchcase(rule, entry.rule) for rule in cell.hidden)
