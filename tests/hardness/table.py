"""The figures that were measured, printed behind the tests."""

from __future__ import annotations


class Table:
    """Collects rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []

    def row(self, what: str, measured: float) -> None:
        self.rows.append((what, measured))

    def lines(self) -> list[str]:
        return [f"{what:<44} {measured:>12,.2f}".removesuffix(".00") for what, measured in self.rows]
