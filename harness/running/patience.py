"""How many failing cells a run bears before it plays no more."""

from __future__ import annotations

from harness.results import CellResult, Verdict


class Patience:
    """Counts the cells that fail; with `None` it bears all of them."""

    def __init__(self, enough: int | None) -> None:
        self._left = enough

    @property
    def over(self) -> bool:
        """Whether no other cell is to be begun."""
        return self._left == 0

    def take(self, cell: CellResult) -> None:
        """This cell is done."""
        if self._left and cell.verdict in (Verdict.FAIL, Verdict.ERROR):
            self._left -= 1
