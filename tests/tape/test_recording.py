from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contract.errors import CassetteError
from harness.tape.journal import read_journal
from harness.tape.library import Library
from harness.tape.recording import Recording
from harness.tape.redact import Redactor
from tests.tape.samples import METADATA, cassette, request, response

CHILD = """
import sys
from pathlib import Path
from harness.tape.library import Library
from harness.tape.recording import Recording
from harness.tape.redact import Redactor
from tests.tape.samples import METADATA, cassette, request, response

library = Library(Path(sys.argv[1]))
if sys.argv[2] == "record":
    with Recording(library, METADATA, Redactor()) as recording:
        for question in "ab":
            recording.keep(request(question), response(question))
        print("recorded", flush=True)
        sys.stdin.readline()
else:
    questions = [str(number) * 2000 for number in range(20)]
    library.save(cassette("old"))
    print("saved", flush=True)
    while True:
        library.save(cassette(*questions))
"""


def child(root: Path, what: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_recording_becomes_a_cassette_when_it_is_complete(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with Recording(library, METADATA, Redactor()) as recording:
        recording.keep(request("Paris?"), response("re: Paris?"))
        assert library.paths() == []
        [journal] = library.journals()
        assert read_journal(journal) == list(cassette("Paris?").interactions)
        assert recording.complete("gpt-5.4-x").metadata == replace(METADATA, model_served="gpt-5.4-x")
    assert library.journals() == []
    assert library.load("openai-chat", "weather", "whole").interactions == cassette("Paris?").interactions


def test_an_incomplete_recording_leaves_the_cassette_as_it_was(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.save(cassette("old"))

    def break_off() -> None:
        with Recording(library, METADATA, Redactor()) as recording:
            recording.keep(request("new"), response("new"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert library.load("openai-chat", "weather", "whole") == cassette("old")
    assert library.journals() == []


def test_an_empty_recording_is_no_cassette(tmp_path: Path) -> None:
    with (
        Recording(Library(tmp_path), METADATA, Redactor()) as recording,
        pytest.raises(CassetteError, match="no exchange was recorded"),
    ):
        recording.complete()


def test_another_model_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.save(cassette("old"))
    with pytest.raises(CassetteError, match=r"recorded with gpt-5\.4, not with gpt-6"):
        Recording(library, replace(METADATA, model_requested="gpt-6"), Redactor())
    assert library.journals() == []


def test_a_killed_recording_keeps_every_exchange_and_is_never_used_in_silence(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.save(cassette("old"))
    kill(child(tmp_path, "record"))
    [journal] = library.journals()
    assert [each.request for each in read_journal(journal)] == [request("a"), request("b")]
    with pytest.raises(CassetteError) as refusal:
        Recording(library, METADATA, Redactor())
    assert str(refusal.value) == (
        f"{tmp_path}/openai-chat/weather.yaml: a recording that was killed left 2 exchanges in weather.yaml.journal. "
        "The cassette is as it was before. Look at the journal if you need it, then delete it, or record with --force."
    )
    assert library.load("openai-chat", "weather", "whole") == cassette("old")
    with Recording(library, METADATA, Redactor(), force=True) as recording:
        recording.keep(request("Paris?"), response("re: Paris?"))
        recording.complete()
    assert library.journals() == []
    assert len(library.load("openai-chat", "weather", "whole").interactions) == 1


def test_two_processes_do_not_record_the_same_cassette(tmp_path: Path) -> None:
    process = child(tmp_path, "record")
    with pytest.raises(CassetteError, match="another process is recording it"):
        Recording(Library(tmp_path), METADATA, Redactor(), force=True)
    process.communicate("\n")
    assert process.returncode == 0
    with Recording(Library(tmp_path), METADATA, Redactor()):
        pass


def test_of_many_threads_that_record_one_cassette_at_most_one_has_it_at_a_time(tmp_path: Path) -> None:
    library = Library(tmp_path)

    def record(number: int) -> bool:
        try:
            with Recording(library, METADATA, Redactor()) as recording:
                for _ in range(3):
                    recording.keep(request(str(number)), response(str(number)))
                recording.complete()
        except CassetteError as error:
            if "another process is recording it" not in str(error):
                raise
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert any(pool.map(record, range(40)))
    kept = library.load("openai-chat", "weather", "whole")
    assert len({each.request.body for each in kept.interactions}) == 1
    assert len(kept.interactions) == 3
    assert library.journals() == []


def test_a_kill_while_writing_leaves_the_old_cassette_or_the_new_one(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for trial in range(8):
        process = child(tmp_path, "save")
        try:
            process.wait(timeout=0.01 * trial)
        except subprocess.TimeoutExpired:
            kill(process)
        assert len(library.load("openai-chat", "weather", "whole").interactions) in {1, 20}


def test_a_journal_that_was_cut_in_a_line_is_read_up_to_there(tmp_path: Path) -> None:
    kill(child(tmp_path, "record"))
    [journal] = Library(tmp_path).journals()
    data = journal.read_bytes()
    journal.write_bytes(data[:-5])
    assert len(read_journal(journal)) == 1
    journal.write_bytes(b"{}\n" + data)
    with pytest.raises(CassetteError) as refusal:
        read_journal(journal)
    assert str(refusal.value) == f"{journal} (line 1): not a journal, or damaged. Delete it."


def test_a_disk_that_is_full_stops_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with Recording(Library(tmp_path), METADATA, Redactor()) as recording:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(CassetteError, match="cannot be written: No space left on device"):
            recording.keep(request("a"), response("a"))
        monkeypatch.undo()


def test_recording_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    def record(root: Path) -> bytes:
        library = Library(root)
        with Recording(library, METADATA, Redactor()) as recording:
            recording.keep(request("Paris?"), response("Paris."))
            recording.complete()
        return library.paths()[0].read_bytes()

    assert record(tmp_path / "one") == record(tmp_path / "two")
