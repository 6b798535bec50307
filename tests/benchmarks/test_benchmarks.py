from pathlib import Path

import pytest

from tests.backends import shipped_targets
from tests.benchmarks import many, speed
from tests.benchmarks.contenders import contenders
from tests.benchmarks.conversations import Conversation

IN_PROCESS = [each for each in contenders() if not each.name.startswith("pytest")]


@pytest.mark.filterwarnings("ignore::UserWarning")  # an SDK's, about words that it does not know yet
def test_all_contenders_lead_the_same_conversations_to_the_same_answers(tmp_path: Path) -> None:
    chosen = [Conversation(0), Conversation(1, steps=3)]
    rows = speed.measure(shipped_targets()["anthropic"], IN_PROCESS, chosen, rounds=1, folder=tmp_path)
    assert [row.contender for row in rows] == [each.name for each in IN_PROCESS]
    assert len(rows) == 5
    assert all(len(row.milliseconds) == len(row.ratios) == 1 for row in rows)


def test_many_cells_are_made_of_the_shipped_recordings(tmp_path: Path) -> None:
    assert many.run_seconds(many.some_cells(6), tmp_path, 1) > 0
