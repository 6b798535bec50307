from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.tape.journal import path_of
from harness.tape.library import Library
from harness.tape.recording import Recording
from harness.tape.redact import Redactor
from harness.tape.survey import Claim
from tests.tape.samples import METADATA, request, response

CLAIMING = """
import sys
from pathlib import Path
from harness.contract.errors import CassetteTaken
from harness.tape.survey import Claim
root = Path(sys.argv[1])
try:
    Claim(root, [root / name for name in sys.argv[2:]])
except CassetteTaken as error:
    print(error)
"""


def elsewhere(root: Path, *names: str) -> str:
    """What another process is told that claims these."""
    command = [sys.executable, "-c", CLAIMING, str(root), *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_of_two_that_want_one_cassette_one_is_told_so_and_the_other_works(tmp_path: Path) -> None:
    root = tmp_path / "a" / "cassettes"
    claim = Claim(root, [root / "one.yaml", root / "two.yaml"])

    assert elsewhere(root, "two.yaml", "three.yaml").startswith(f"{root}/two.yaml: another process is recording it")
    assert elsewhere(root, "three.yaml") == ""
    claim.release()
    claim.release()
    assert elsewhere(root, "one.yaml") == ""


def test_a_claim_leaves_nothing(tmp_path: Path) -> None:
    Claim(tmp_path / "a" / "b", [tmp_path / "a" / "b" / "one.yaml"]).release()

    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").write_text("")
    Claim(tmp_path / "file", [tmp_path / "file" / "one.yaml"]).release()  # whoever records there is told why it fails


def test_a_journal_that_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(tmp_path)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith(".journal"):
            raise PermissionError(1, "Operation not permitted")

    with Recording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), response("a"))
        recording.complete()
        monkeypatch.setattr(Path, "unlink", refuse)
    journal = path_of(library.path("openai-chat", "weather", "whole"))
    assert recording.notes == [
        f"{journal} could not be removed: Operation not permitted. It is of no more use; remove it."
    ]
    assert len(library.load("openai-chat", "weather", "whole").interactions) == 1
    monkeypatch.undo()
    with Recording(library, METADATA, Redactor()) as again:
        assert again.taken_up(request("a")) == response("a")
