from pathlib import Path

import pytest

from tests.benchmarks import speed
from tests.benchmarks.bare import SDKS
from tests.benchmarks.contenders import contenders
from tests.benchmarks.conversations import Conversation
from tests.stages import shipped_targets

IN_PROCESS = [
    each for each in contenders(None) if each.missing is None and not each.name.startswith(("pytest", "aimock"))
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # an SDK's, about words that it does not know yet
@pytest.mark.parametrize("name", SDKS)
def test_all_contenders_lead_the_same_conversations_to_the_same_answers(name: str, tmp_path: Path) -> None:
    chosen = [Conversation(0), Conversation(1, steps=3)]

    rows = speed.measure(shipped_targets()[name], IN_PROCESS, chosen, rounds=1, folder=tmp_path)

    assert [row.contender for row in rows] == [each.name for each in IN_PROCESS]
    assert len(rows) == 5
    assert all(len(row.milliseconds) == len(row.ratios) == 1 for row in rows)
