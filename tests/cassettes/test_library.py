from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cassettes.cell_recording import CellRecording
from harness.cassettes.library import CassetteLibrary, Journal, journal_path
from harness.cassettes.preflight import CassetteLock
from harness.cassettes.redact import Redactor
from harness.model.errors import CassetteError, CassetteMissing, RecordingRefused
from tests.cassettes.samples import METADATA, cassette, request, response


def test_a_cell_has_a_file_of_its_own(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    assert library.path("openai-chat", "weather", "whole") == tmp_path / "weather" / "openai-chat.yaml"
    assert library.path("openai-chat", "weather", "stream") == tmp_path / "weather" / "openai-chat.stream.yaml"
    assert library.path("openai-chat@m", "weather", "whole") == tmp_path / "weather" / "openai-chat@m.yaml"


def test_what_is_saved_is_loaded_and_listed(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    assert library.paths() == []
    path = library.save(cassette("Paris?"))
    assert library.load("openai-chat", "weather", "whole") == cassette("Paris?")
    assert library.paths() == [path]


def test_no_cassette_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CassetteMissing) as refusal:
        CassetteLibrary(tmp_path).load("openai-chat", "weather", "whole")
    assert str(refusal.value) == f"{tmp_path}/weather/openai-chat.yaml: there is no such cassette."


@pytest.mark.parametrize("name", ["..", "../x", "/etc", "a/b", "a\\b", "", ".hidden", "x" * 101, "a\nb", "nul\0"])
def test_names_that_could_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CassetteError, match="cannot name a file"):
        CassetteLibrary(tmp_path).path(name, "weather", "whole")
    with pytest.raises(CassetteError, match="cannot name a file"):
        CassetteLibrary(tmp_path).path("openai-chat", name, "whole")


def test_the_streamed_cell_of_one_target_is_never_the_whole_cell_of_another(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match=r"the target 'openai\.stream' cannot name a file"):
        CassetteLibrary(tmp_path).path("openai.stream", "weather", "whole")


def test_links_out_of_the_folder_are_refused_and_the_root_may_be_one(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    for folder in ("weather", "openai-chat"):  # of this layout, and of the one before
        (root / folder).symlink_to(outside)
        (outside / "weather.yaml").touch()
        with pytest.raises(CassetteError, match="a symbolic link leads out of the cassette folder"):
            CassetteLibrary(root).save(cassette("Paris?"))
        (root / folder).unlink()
    assert [(path.name, path.read_bytes()) for path in outside.iterdir()] == [("weather.yaml", b"")]
    (tmp_path / "link").symlink_to(outside)
    assert CassetteLibrary(tmp_path / "link").save(cassette("Paris?")).exists()


def test_a_cassette_without_an_origin_is_neither_loaded_nor_overwritten_nor_saved(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    path = library.path("openai-chat", "weather", "whole")
    path.parent.mkdir()
    path.write_text("version: 1\ninteractions: []\n", encoding="utf-8")
    with pytest.raises(CassetteError, match=r"\(metadata\): it does not say where it was recorded"):
        library.load("openai-chat", "weather", "whole")
    with pytest.raises(CassetteError, match="it was recorded with an unknown model"):
        library.save(cassette("Paris?"))
    with pytest.raises(CassetteError, match="belongs to no cell"):
        library.save(replace(cassette("Paris?"), metadata=None))


def test_of_a_recording_from_before_there_were_two_digests_the_first_counts() -> None:
    before = replace(METADATA, scenario_digest="whole", sent_digest=None)
    now = replace(METADATA, scenario_digest="whole", sent_digest="sent")
    assert before.is_of("whole", "sent")
    assert not before.is_of("title", "sent")
    assert now.is_of("title", "sent")
    assert not now.is_of("whole", "other")


@pytest.mark.parametrize("change", [{"target": "gemini-3"}, {"scenario": "another"}, {"variant": "stream"}])
def test_the_recording_of_another_cell_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    library = CassetteLibrary(tmp_path)
    recorded = cassette("Paris?")
    assert recorded.metadata is not None
    elsewhere = library.save(replace(recorded, metadata=replace(recorded.metadata, **change)))
    place = library.path("openai-chat", "weather", "whole")
    place.parent.mkdir(exist_ok=True)
    elsewhere.rename(place)
    with pytest.raises(CassetteError, match=r"openai-chat\.yaml \(metadata\): this is the recording of "):
        library.load("openai-chat", "weather", "whole")


def laid_as_before(library: CassetteLibrary) -> Path:
    """Save a cassette, and move it to where it lay before."""
    path = library.save(cassette("Paris?"))
    place = library.root / "openai-chat" / "weather.yaml"
    place.parent.mkdir(exist_ok=True)
    return path.rename(place)


def test_a_cassette_in_the_old_layout_is_replayed_and_replaced_in_place(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    before = laid_as_before(library)
    assert library.load("openai-chat", "weather", "whole") == cassette("Paris?")
    assert library.save(cassette("Rome?")) == before
    assert library.load("openai-chat", "weather", "whole") == cassette("Rome?")
    assert library.paths() == [before]
    with pytest.raises(RecordingRefused, match=r"it was recorded with gpt-5\.4, not with gpt-6"):
        library.save(cassette("Tokyo?", model="gpt-6"))


def test_a_cell_that_lies_in_both_places_is_refused_whatever_is_asked(tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path)
    before = laid_as_before(library)
    now = tmp_path / "weather" / "openai-chat.yaml"
    now.write_bytes(before.read_bytes())
    for ask in (
        lambda: library.load("openai-chat", "weather", "whole"),
        lambda: library.save(cassette("Rome?"), force=True),
    ):
        with pytest.raises(CassetteError) as refusal:
            ask()
        assert str(refusal.value) == f"{now}: the same cell is also stored at {before}. Remove one of the two."
    before.unlink()
    assert library.load("openai-chat", "weather", "whole") == cassette("Paris?")


@pytest.mark.parametrize("ending", [".yaml", ".yaml.journal"])
def test_a_scenario_called_like_a_target_is_not_taken_for_a_cell_of_before(tmp_path: Path, ending: str) -> None:
    """The one lies where the other lay."""
    library = CassetteLibrary(tmp_path)
    mirrored = replace(METADATA, scenario="openai-chat", target="weather")
    if ending == ".yaml":
        library.save(replace(cassette("Rome?"), metadata=mirrored))
    else:
        Journal(tmp_path / "openai-chat" / "weather.yaml", mirrored).close()
    assert (tmp_path / "openai-chat" / f"weather{ending}").exists()
    path = library.save(cassette("Paris?"))
    assert path == tmp_path / "weather" / "openai-chat.yaml"
    assert library.load("openai-chat", "weather", "whole") == cassette("Paris?")


@pytest.mark.parametrize("damage", ["cut", "edited", "empty", "binary"])
def test_what_cannot_be_read_is_replaced_by_force_only(tmp_path: Path, damage: str) -> None:
    library = CassetteLibrary(tmp_path)
    path = library.save(cassette("Paris?"))
    whole = path.read_bytes()
    damaged = {"cut": whole[:-40], "edited": whole.replace(b"Paris", b"Rome "), "empty": b"", "binary": b"\xff\x00"}
    path.write_bytes(damaged[damage])
    with pytest.raises(CassetteError) as refusal:
        library.save(cassette("Paris?"))
    assert refusal.value.reason.startswith("what is there cannot be read: ")
    assert refusal.value.reason.endswith(
        ". Record with --force to replace it, or into another folder (--cassettes DIR) to keep it."
    )
    assert "record it again" not in str(refusal.value).lower()
    library.save(cassette("Paris?"), force=True)
    assert path.read_bytes() == whole


CLAIMING = """
import sys
from pathlib import Path
from harness.cassettes.preflight import CassetteLock
CassetteLock(Path(sys.argv[1]), [Path(sys.argv[1], "other.yaml")])
CassetteLock(Path(sys.argv[1]), [Path(sys.argv[1], "two.yaml")])
"""


def test_another_process_cannot_claim_the_same_cassette(tmp_path: Path) -> None:
    claim = CassetteLock(tmp_path, [tmp_path / "one.yaml", tmp_path / "two.yaml"])

    command = [sys.executable, "-c", CLAIMING, str(tmp_path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False)

    claim.release()
    assert f"CassetteLocked: {tmp_path}/two.yaml: another process is recording it" in other.stderr


def test_a_claim_leaves_nothing(tmp_path: Path) -> None:
    CassetteLock(tmp_path / "a" / "b", [tmp_path / "a" / "b" / "one.yaml"]).release()

    assert [*tmp_path.iterdir()] == []
    (tmp_path / "file").write_text("")
    CassetteLock(
        tmp_path / "file", [tmp_path / "file" / "one.yaml"]
    ).release()  # whoever records there gets the reason for the failure


def test_a_journal_that_cannot_be_removed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = CassetteLibrary(tmp_path)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith(".journal"):
            raise PermissionError(1, "Operation not permitted")

    with CellRecording(library, METADATA, Redactor()) as recording:
        recording.keep(request("a"), response("a"))
        recording.complete()
        monkeypatch.setattr(Path, "unlink", refuse)
    journal = journal_path(library.path("openai-chat", "weather", "whole"))
    assert recording.notes == [
        f"{journal} could not be removed: Operation not permitted. It is of no more use; remove it."
    ]
    assert len(library.load("openai-chat", "weather", "whole").interactions) == 1
    monkeypatch.undo()
    with CellRecording(library, METADATA, Redactor()) as again:
        assert again.earlier_response(request("a")) == response("a")
