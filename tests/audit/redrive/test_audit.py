"""`harness audit --redrive`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cassettes.cassette import Interaction
from harness.cli.main import main
from tests.audit.redrive.samples import CALL, CHUNKS, chat, chat_answer, exchange, streamed

ASKED = {"role": "user", "content": "Weather in Paris?"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "18"}


def written(path: Path, *interactions: Interaction) -> Path:
    entries = [
        {
            "request": {"method": each.request.method, "uri": each.request.url, "body": each.request.body.decode()},
            "response": {
                "status": {"code": 200},
                "headers": dict(each.response.headers),
                "body": {"string": each.response.body.decode()},
            },
        }
        for each in interactions
        if each.response
    ]
    path.write_text(json.dumps({"version": 1, "interactions": entries}))
    return path


def recording(path: Path, call: dict[str, Any]) -> Path:
    return written(
        path,
        exchange(chat(ASKED), chat_answer(CALL)),
        exchange(chat(ASKED, {"role": "assistant", "tool_calls": [call]}, RESULT), chat_answer(text="18")),
    )


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that sends back other arguments than it got."""
    monkeypatch.setattr("harness.adapters.openai_chat.requests.compact", lambda _: '{"city":"Oslo"}')


REWRITTEN = {**CALL, "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}


@pytest.mark.usefixtures("forgetful")
def test_the_json_has_pairs_allowances_and_disagreements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recording(tmp_path / "it.json", REWRITTEN)
    assert main(["audit", "--redrive", "--json", str(file)]) == 1
    document = json.loads(capsys.readouterr().out)
    redriven = document["audit"]["redrive"]
    assert document["audit"]["apis"]["openai-chat"]["exchanges"] == 2
    assert redriven["apis"]["openai-chat"] == {
        "pairs": 1,
        "agreeing": 0,
        "streamed": 0,
        "not_redrivable": {},
        "allowances": {},
        "edited": 1,
        "edits": {"arguments-rewritten": 1},
    }
    assert redriven["apis"]["gemini"]["pairs"] == 0
    (found,) = redriven["disagreements"]
    assert list(found) == ["api", "file", "i", "j", "pointer", "recorded", "produced", "kind"]
    assert (found["file"], found["i"], found["j"], found["kind"]) == (str(file), 0, 1, "call-arguments")
    (cell,) = document["cells"]
    (finding,) = (each for each in cell["findings"] if each["rule"] == "redrive-call-arguments")
    assert (cell["verdict"], finding["severity"], finding["blame"]) == ("fail", "error", "adapter")
    assert (finding["file"], finding["index"], finding["pointer"]) == (str(file), 1, found["pointer"])
    assert (finding["actual"], finding["expected"]) == (found["produced"], found["recorded"])


def test_the_text_report_counts_agreements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--redrive", str(recording(tmp_path / "good.json", CALL))]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert "openai-chat                 1          1          0          0" in lines
    assert "edited by the client" not in text
    assert "as a stream" not in text
    assert main(["audit", "--redrive", str(recording(tmp_path / "edited.json", REWRITTEN))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "openai-chat                 1          1          0          0" in lines
    assert "1 pair edited by the client; only the unedited parts were compared: arguments-rewritten 1" in lines


@pytest.mark.usefixtures("forgetful")
def test_the_text_report_names_disagreements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recording(tmp_path / "bad.json", REWRITTEN)
    assert main(["audit", "--redrive", "-v", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  call-arguments, 1 time")
    assert lines[at + 1 : at + 4] == [
        f"    {file}, response 0, request 1 /messages/1/tool_calls/0",
        '      recorded: {"city": "Paris"}',
        '      produced: {"city": "Oslo"}',
    ]


def test_streams_are_driven_in_the_requested_cuts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoken = {"role": "assistant", "content": "Ich prüfe das.", "tool_calls": [CALL]}
    follow_up = exchange(chat(ASKED, spoken, RESULT), chat_answer(text="18"))
    file = str(written(tmp_path / "it.json", streamed(chat(ASKED), *CHUNKS, "[DONE]"), follow_up))
    for arguments, cuts in (
        ([], " and in 3 other chunkings"),
        (["--recut", "1"], " and in 1 other chunking"),
        (["--recut", "0"], ""),
    ):
        assert main(["audit", "--redrive", *arguments, file]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"1 streamed response: driven as recorded, as a whole body{cuts}." in lines
    assert main(["audit", "--redrive", "--json", file]) == 0
    audited = json.loads(capsys.readouterr().out)["audit"]
    pairs, counts = audited["redrive"]["apis"]["openai-chat"], audited["apis"]["openai-chat"]
    assert (pairs["agreeing"], pairs["streamed"]) == (1, 1)
    assert (counts["streamed"], counts["streamed_broken"]) == (1, 0)


def test_a_recording_without_pairs_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["audit", "--redrive", str(written(tmp_path / "it.json", exchange(chat(ASKED), chat_answer(text="?"))))])
        == 0
    )
    assert "Nothing to drive again" in capsys.readouterr().out


def test_sample_of_shipped_cassettes_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = Path(__file__).resolve().parents[3] / "cassettes"
    every = sorted(folder for folder in shipped.iterdir() if folder.is_dir())
    sample = {*every[::40], shipped / "call-results-reordered"}
    assert main(["audit", "--redrive", "--json", *map(str, sorted(sample))]) == 0
    redriven = json.loads(capsys.readouterr().out)["audit"]["redrive"]
    assert sum(counts["pairs"] for counts in redriven["apis"].values()) > 8
    assert redriven["disagreements"] == []
    assert {edit for counts in redriven["apis"].values() for edit in counts["edits"]} == {"results-reordered"}
