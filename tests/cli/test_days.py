"""Requests are judged by the facts of the day on which they were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NO_SUCH_TOOL, Command

URL = "https://api.anthropic.com/v1/messages"
BODY: dict[str, Any] = {
    "model": "claude-fable-5",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Weather in Paris?"}],
    "tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}],
    "tool_choice": {"type": "tool", "name": "get_weather"},
}
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-fable-5",
    "content": [{"type": "text", "text": "Mild."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def recorded(folder: Path, date: str | None, url: str = URL, body: dict[str, Any] = BODY) -> Path:
    """A cassette of one accepted exchange."""
    headers = {"content-type": ["application/json"], **({"date": [date]} if date else {})}
    interaction = {
        "request": {"method": "POST", "uri": url, "headers": {}, "body": json.dumps(body)},
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": headers,
            "body": {"string": json.dumps(ANSWER)},
        },
    }
    file = folder / "cassette.json"
    file.write_text(json.dumps({"version": 1, "interactions": [interaction]}))
    return file


def rules(harness: Command, *arguments: str) -> set[str]:
    report = json.loads(harness("audit", *arguments, "--report", "json").out)
    return {found["rule"] for cell in report["cells"] for found in cell["findings"] if found["kind"] == "limit"}


JUNE, SEPTEMBER = "Wed, 10 Jun 2026 12:00:00 GMT", "Fri, 04 Sep 2026 12:00:00 GMT"
OPUS = {**BODY, "model": "claude-opus-5-5"}


@pytest.mark.parametrize(
    "case",
    [
        (OPUS, "Wed, 23 Sep 2026 12:00:00 GMT", [], {"anthropic-choice-forced"}),
        (OPUS, "Mon, 31 Aug 2026 12:00:00 GMT", [], set()),
        (OPUS, "Mon, 31 Aug 2026 12:00:00 GMT", ["--as-of", "today"], {"anthropic-choice-forced"}),
        (OPUS, "Wed, 23 Sep 2026 12:00:00 GMT", ["--as-of", "2026-08-31"], set()),
        (OPUS, None, [], {"anthropic-choice-forced"}),
        (OPUS, "never", [], {"anthropic-choice-forced"}),
        (BODY, SEPTEMBER, [], set()),
    ],
)
def test_a_request_is_judged_by_the_facts_of_its_day(
    harness: Command, tmp_path: Path, case: tuple[dict[str, Any], str | None, list[str], set[str]]
) -> None:
    body, date, options, found = case
    assert rules(harness, str(recorded(tmp_path, date, body=body)), *options) == found


def test_a_day_may_stand_in_the_body(harness: Command, tmp_path: Path) -> None:
    chat = {
        "model": "gpt-6-astra",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    }
    file = recorded(tmp_path, None, "https://api.openai.com/v1/chat/completions", chat)
    document = json.loads(file.read_text())
    for created, found in ((1_700_000_000, set[str]()), (1_790_000_000, {"openai-chat-tools-unsupported"})):
        answer = {"id": "c", "object": "chat.completion", "created": created, "model": "m", "choices": []}
        document["interactions"][0]["response"]["body"]["string"] = json.dumps(answer)
        file.write_text(json.dumps(document))
        assert rules(harness, str(file)) & {"openai-chat-tools-unsupported"} == found


def test_facts_of_one_s_own_join_the_shipped_ones(harness: Command, tmp_path: Path) -> None:
    file, facts = recorded(tmp_path, SEPTEMBER), tmp_path / "ours.yaml"
    facts.write_text(NO_SUCH_TOOL)
    assert rules(harness, str(file), "--facts", str(facts)) == {"anthropic-ours-no-weather"}
    facts.write_text(NO_SUCH_TOOL.replace("verdict: refused", "verdict: accepted"))
    assert rules(harness, str(file), "--facts", str(facts)) == set()


def test_facts_of_one_s_own_retire_shipped_ones(harness: Command, tmp_path: Path) -> None:
    file, facts = recorded(tmp_path, None, body=OPUS), tmp_path / "ours.yaml"
    retired = NO_SUCH_TOOL.replace("anthropic-ours-no-weather", "anthropic-no-forced-choice")
    facts.write_text(retired.replace("verdict: refused", "verdict: accepted"))
    assert rules(harness, str(file), "--facts", str(facts)) == set()


OURS = "Judged by the facts in ours.yaml, then by the shipped facts."


@pytest.mark.parametrize("command", ["run call-single --target anthropic", "audit own"])
def test_every_report_names_the_user_facts(harness: Command, folder: Path, command: str) -> None:
    (folder / "own").mkdir()
    recorded(folder / "own", SEPTEMBER, body=OPUS)
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    reports = [f"--report={name}:{name}.txt" for name in ("terminal", "json", "junit", "markdown")]

    harness(*command.split(), "--facts", "ours.yaml", *reports)

    assert json.loads((folder / "json.txt").read_text())["facts"] == ["ours.yaml"]
    assert f'<property name="facts" value="{OURS}" />' in (folder / "junit.txt").read_text()
    assert all(OURS in (folder / f"{name}.txt").read_text() for name in ("terminal", "markdown"))
    harness(*command.split(), *reports)
    assert not any("the facts of" in (folder / f"{name}.txt").read_text() for name in ("terminal", "junit", "markdown"))
    assert "facts" not in json.loads((folder / "json.txt").read_text())


NEXT = """\
api: gemini
facts:
  - id: gemini-5-issues-ids
    verdict: behaviour
    says: Gemini 5 issues an id for each call, and is told a level of thinking.
    models: [gemini-5-*]
    evidence: [{kind: documents, address: "https://example.com/gemini-5", date: 2026-11-20}]
    profile: {call_ids: true, thinking: level}
"""


@pytest.mark.parametrize(("facts", "issued_by"), [(None, "nobody: no id on the wire"), (NEXT, "the API")])
def test_the_next_generation_is_a_file_of_facts(
    harness: Command, tmp_path: Path, facts: str | None, issued_by: str
) -> None:
    (tmp_path / "next.yaml").write_text(facts or "api: gemini\nfacts: []\n")
    options = ["--mode", "reference", "--target", "gemini-3", "--model", "gemini-3=gemini-5-flash"]
    report = json.loads(
        harness("run", "-k", "call-single", *options, "--facts", str(tmp_path / "next.yaml"), "--report", "json").out
    )

    (issuer,) = (each for each in report["differences"] if each["aspect"] == "who issues a call's id")
    assert issuer["values"] == {"gemini-3": issued_by}
    assert {cell["verdict"] for cell in report["cells"]} == {"pass"}
