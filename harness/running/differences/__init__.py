"""Differences: facts observed on the wire, by subject, for each target.

Every value is read off the exchanges of the run; nothing here knows what an API should do. A fact that no exchange
shows reads `NOT_OBSERVED`, and an adapter that does something else changes its own column.
"""

from harness.running.differences.table import FACTS, NOT_OBSERVED, Observations, Observed, observe, tables

__all__ = ["FACTS", "NOT_OBSERVED", "Observations", "Observed", "observe", "tables"]
