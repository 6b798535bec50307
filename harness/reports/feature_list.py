"""Features that adapters carry, with the scenarios that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.reports.groups import targets
from harness.results import CellResult, Lacking, Presentation, Report, RunResult, Verdict
from harness.results.features import FEATURES

_LOST = (Verdict.FAIL, Verdict.ERROR, Verdict.EXPECTED_FAILURE)
_UNKNOWN = (Verdict.MISSING, Verdict.INCONCLUSIVE)


def support(cells: Sequence[CellResult]) -> str:
    """Return whether a feature is carried, refused by the adapter, absent from the API, or lost.

    An adapter refuses what it does not declare or what it raises `Unsupported` for. Lost means that a cell failed. A
    feature is unknown if a cell has no recording or no result.
    """
    played = [cell for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE]
    if any(cell.verdict in _LOST for cell in played):
        return "LOST"
    if any(cell.verdict in _UNKNOWN for cell in played):
        return "unknown"
    if played:
        return "carried"
    refused = any(cell.lacking is Lacking.ADAPTER for cell in cells)
    return "refused" if refused else "absent" if cells else "-"


def _rows(run: RunResult) -> Iterator[list[str]]:
    columns = targets(run)
    yield ["FEATURE", *columns, "SCENARIO"]
    for name, scenarios in FEATURES.items():
        cells = [cell for cell in run.cells if cell.scenario in scenarios]
        if cells:
            found = [support([cell for cell in cells if cell.target == target]) for target in columns]
            yield [name, *found, ", ".join(scenarios)]


def _render(run: RunResult, _presentation: Presentation) -> str:
    rows = [*_rows(run)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    legend = (
        "carried: the scenario passes. refused: the adapter says that it cannot. absent: the API or the model has "
        "nothing for it.\nLOST: the adapter takes it and loses it: see 'harness show SCENARIO --target TARGET'.\n"
        "unknown: nothing was played, such as without a recording."
    )
    return "\n".join([*lines, "", legend, ""])


REPORT = Report("features", _render)
