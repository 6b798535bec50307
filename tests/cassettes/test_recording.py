from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cassettes import cell_recording
from harness.cassettes.cell_recording import CellRecording
from harness.cassettes.library import CassetteLibrary, Journal, UnfinishedJournal, journal_path, leftover, read_journal
from harness.cassettes.redact import Redactor
from harness.model.errors import CassetteError, RecordingRefused
from harness.model.http import Delivery, HttpResponse
from harness.platform import files
from tests.cassettes.samples import METADATA, cassette, request, response


def test_a_recording_becomes_a_cassette_when_it_is_complete(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("Paris?"), response("re: Paris?"))
        assert library.paths() == []
        [journal] = library.journals()
        assert read_journal(journal) == UnfinishedJournal(METADATA, cassette("Paris?").interactions)
        assert recording.complete("gpt-5.4-x").metadata == replace(METADATA, model_served="gpt-5.4-x")
    assert library.journals() == []
    assert library.load("openai-chat", "weather", "whole").interactions == cassette("Paris?").interactions


def broken_off(library: CassetteLibrary, *questions: str, force: bool = False) -> CellRecording:
    """A recording that answered these and broke off."""
    recording = CellRecording(library, METADATA, Redactor(), force=force)
    with recording:
        for question in questions:
            recording.keep(request(question), response(f"re: {question}"))
    return recording


def test_an_incomplete_recording_leaves_the_cassette_as_it_was_and_what_was_answered(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    library.save(cassette("old"))
    reported = broken_off(library, "new").notes
    assert library.load("openai-chat", "weather", "whole") == cassette("old")
    [journal] = library.journals()
    assert read_journal(journal).interactions == cassette("new").interactions
    place = tmp_path / "weather" / "openai-chat.yaml"
    assert reported == [
        (
            f"{place} is not complete. Its responses so far (1 exchange) are in openai-chat.yaml.journal, and "
            "the next recording of the cell reuses them. To request them again, delete the file."
        )
    ]


def test_what_was_left_is_answered_without_asking_again(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    broken_off(library, "a", "b")
    with CellRecording(library, METADATA, Redactor()) as recording:
        assert recording.earlier_response(request("a")) == response("re: a")
        assert recording.earlier_response(request("b")) == response("re: b")
        assert recording.earlier_response(request("c")) is None
        recording.keep(request("c"), response("re: c"))
        recording.complete()
    assert library.load("openai-chat", "weather", "whole").interactions == cassette("a", "b", "c").interactions
    assert recording.notes == [
        f"Reused 2 answered exchanges of {tmp_path}/weather/openai-chat.yaml without sending a request."
    ]
    assert library.journals() == []


def test_what_is_asked_again_of_who_answers_the_same_is_no_new_exchange(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    broken_off(library, "a", "b")
    with CellRecording(library, METADATA, Redactor()) as recording:
        for question in "abc":
            recording.keep(request(question), response(f"re: {question}"))
        [journal] = library.journals()
        assert len(read_journal(journal).interactions) == 3
        recording.complete()
    assert recording.taken == 2
    assert library.load("openai-chat", "weather", "whole").interactions == cassette("a", "b", "c").interactions


@pytest.mark.parametrize("other", ["body", "host", "header"])
@pytest.mark.parametrize("force", [False, True])
def test_from_another_request_on_what_was_left_is_put_away(tmp_path: Path, other: str, force: bool) -> None:
    library = CassetteLibrary(tmp_path)
    broken_off(library, "a", "b", "c")
    [journal] = library.journals()
    before = journal.read_bytes()
    asked = {
        "body": request("B"),
        "host": replace(request("b"), url="http://127.0.0.1:4000/v1/chat/completions"),
        "header": replace(request("b"), headers={"anthropic-beta": "x"}),
    }[other]
    recording = CellRecording(library, METADATA, Redactor(), force=force)
    with recording:
        assert recording.earlier_response(request("a")) == response("re: a")
        assert recording.earlier_response(asked) is None
        assert [each.request for each in read_journal(journal).interactions] == [request("a")]
        recording.keep(asked, response("new"))
        assert recording.earlier_response(request("b")) is None
    assert [each.request for each in read_journal(journal).interactions] == [request("a"), asked]
    kept = journal.with_name("openai-chat.yaml.journal.left")
    assert kept.exists() is not force
    where = "removed because of --force" if force else f"kept in {kept}"
    assert recording.notes[0] == (
        f"{tmp_path}/weather/openai-chat.yaml: the responses of an unfinished recording (2 exchanges) were not "
        f"reused, because the requests have changed. They are {where}."
    )
    if not force:
        assert kept.read_bytes() == before


def test_what_was_put_away_before_is_not_overwritten(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    for number, question in enumerate("abc", 1):
        broken_off(library, question)
        with CellRecording(library, METADATA, Redactor()) as recording:
            assert recording.earlier_response(request("another")) is None
        assert len(list(tmp_path.rglob("*.left*"))) == number


def test_what_another_kind_of_place_has_answered_is_not_taken_up(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    broken_off(library, "a")
    with CellRecording(library, replace(METADATA, origin="provider"), Redactor()) as recording:
        assert recording.earlier_response(request("a")) is None
    assert len(list(tmp_path.rglob("*.left"))) == 1


@pytest.mark.parametrize(
    "failure",
    [
        HttpResponse(529, {}, b"{}"),
        HttpResponse(200, {}, b"<html>"),
        HttpResponse(200, {}, response("x").body, Delivery(ending="cut")),
    ],
    ids=["status", "no answer", "cut"],
)
def test_a_failure_is_asked_again_and_is_nothing_to_keep(tmp_path: Path, failure: HttpResponse) -> None:
    library = CassetteLibrary(tmp_path)
    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), failure)
    assert library.journals() == []
    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), response("re: a"))
        recording.keep(request("b"), failure)
    with CellRecording(library, METADATA, Redactor()) as recording:
        assert recording.earlier_response(request("a")) == response("re: a")
        assert recording.earlier_response(request("b")) is None
        recording.keep(request("b"), response("re: b"))
        recording.complete()
    assert library.load("openai-chat", "weather", "whole").interactions == cassette("a", "b").interactions


def test_an_empty_recording_is_no_cassette(tmp_path: Path) -> None:
    with (
        CellRecording(CassetteLibrary(tmp_path), METADATA, Redactor()) as recording,
        pytest.raises(CassetteError, match="no exchange was recorded"),
    ):
        recording.complete()


def test_another_model_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    library.save(cassette("old"))
    with pytest.raises(CassetteError, match=r"recorded with gpt-5\.4, not with gpt-6"):
        CellRecording(library, replace(METADATA, model_requested="gpt-6"), Redactor())
    assert library.journals() == []


def test_what_another_process_has_put_there_until_the_lock_was_free_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = CassetteLibrary(tmp_path)
    paid = replace(cassette("other"), metadata=replace(METADATA, origin="provider"))

    def late(*arguments: Any, **options: Any) -> Journal:
        library.save(paid, force=True)
        return Journal(*arguments, **options)

    monkeypatch.setattr(cell_recording, "Journal", late)
    with pytest.raises(RecordingRefused, match="may have been paid for"):
        CellRecording(library, METADATA, Redactor())
    (path,) = library.paths()
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
    assert library.load(METADATA.target, METADATA.scenario, METADATA.variant).interactions == paid.interactions


def begun_and_gone(monkeypatch: pytest.MonkeyPatch, path: Path, *, again: bool) -> None:
    """Another process ends its recording, and removes the journal, between our open and our lock. If `again`, a third
    one has begun its own by then, which is gone as soon as it is looked at."""
    lock, stat = files.lock_file, Path.stat
    looks: list[Path] = []

    def late(handle: int) -> bool:
        monkeypatch.setattr(files, "lock_file", lock)
        path.rename(path.with_suffix(".removed"))  # else the next one is the same file, by its number
        if again:
            path.touch()
        return lock(handle)

    def looked(self: Path, **options: Any) -> os.stat_result:
        found = stat(self, **options)
        if self == path:
            looks.append(self)
            if again and len(looks) == 1:
                path.unlink()
        return found

    monkeypatch.setattr(files, "lock_file", late)
    monkeypatch.setattr(Path, "stat", looked)


@pytest.mark.parametrize("again", [False, True])
def test_a_journal_that_goes_while_it_is_opened_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    library = CassetteLibrary(tmp_path)
    path = journal_path(library.path(METADATA.target, METADATA.scenario, METADATA.variant))
    begun_and_gone(monkeypatch, path, again=again)

    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), response("a"))
        assert [line for line in path.read_text().splitlines() if "metadata" not in line] != []
        recording.complete()

    assert len(library.load(METADATA.target, METADATA.scenario, METADATA.variant).interactions) == 1


def test_nothing_is_left_by_a_journal_that_goes_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = CassetteLibrary(tmp_path)
    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), response("a"))
    path = library.path(METADATA.target, METADATA.scenario, METADATA.variant)
    found = leftover(path)
    assert found is not None
    assert len(found.interactions) == 1
    begun_and_gone(monkeypatch, journal_path(path), again=False)

    assert leftover(path) is None


def test_of_many_threads_that_record_one_cassette_at_most_one_has_it_at_a_time(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)

    def record(number: int) -> bool:
        try:
            with CellRecording(library, METADATA, Redactor()) as recording:
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


def test_a_journal_that_was_cut_in_a_line_is_read_up_to_there(tmp_path: Path) -> None:
    broken_off(CassetteLibrary(tmp_path), "a", "b")
    [journal] = CassetteLibrary(tmp_path).journals()
    data = journal.read_bytes()
    journal.write_bytes(data[:-5])
    assert len(read_journal(journal).interactions) == 1
    with CellRecording(CassetteLibrary(tmp_path), METADATA, Redactor()) as recording:
        recording.keep(request("c"), response("c"))  # behind what was acknowledged, not in the middle of a line
    assert [each.request for each in read_journal(journal).interactions] == [request("c")]
    journal.write_bytes(b"{}\n" + data)
    with pytest.raises(CassetteError) as refusal:
        CellRecording(CassetteLibrary(tmp_path), METADATA, Redactor())
    assert str(refusal.value) == f"{journal} (line 1): not a journal, or damaged. Delete it."
    with CellRecording(CassetteLibrary(tmp_path), METADATA, Redactor(), force=True):
        pass
    assert not journal.exists()


def test_a_disk_that_is_full_stops_the_recording_whatever_became_of_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    library = CassetteLibrary(tmp_path)
    recording = CellRecording(library, METADATA, Redactor())

    def recorded() -> None:
        with recording:
            recording.keep(request("a"), response("re: a"))
            monkeypatch.setattr("os.fsync", full)
            with contextlib.suppress(CassetteError):  # as SDKs do that see a failed connection in it
                recording.keep(request("b"), response("re: b"))
            monkeypatch.undo()

    with pytest.raises(CassetteError, match="cannot be written: No space left on device"):
        recorded()
    [journal] = library.journals()
    assert read_journal(journal).interactions == cassette("a").interactions
