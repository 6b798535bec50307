from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.audit.cassette_audit import audit
from harness.model.errors import CassetteError, CassetteMissing
from harness.results import AuditResult, Finding, Kind, Outcome, RunResult, Severity
from harness.rules.rule import all_rules
from tests.audit.audit.cassettes import (
    ACCEPTED,
    REFUSAL,
    UNANSWERED,
    base64ed,
    exchange,
    gzipped,
    request,
    response,
    write,
)

CHAT = "openai-chat"
SAID = {"role": "user", "content": "Hello."}


def audited(*paths: Path) -> RunResult:
    return audit(paths, all_rules())


def counted(result: RunResult) -> AuditResult:
    assert result.audit is not None
    return result.audit


def findings(result: RunResult) -> list[Finding]:
    return [finding for cell in result.cells for finding in cell.findings]


def figures(result: RunResult, api: str = CHAT) -> tuple[int, ...]:
    counts = counted(result).apis[api]
    return (
        counts.exchanges,
        counts.unread,
        counts.accepted,
        counts.accepted_flagged,
        counts.refused,
        counts.refused_flagged,
    )


def test_a_good_request_is_counted_and_nothing_is_found(tmp_path: Path) -> None:
    result = audited(write(tmp_path / "good.yaml", exchange()))
    assert figures(result) == (1, 0, 1, 0, 0, 0)
    assert findings(result) == []
    assert counted(result).files == 1
    assert result.exit_code == 0


def test_a_broken_request_is_found_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "broken.yaml", exchange(), exchange(request(UNANSWERED)))
    result = audited(file)
    assert figures(result) == (2, 0, 2, 1, 0, 0)
    limits = [found for found in findings(result) if found.kind is Kind.LIMIT]
    assert [(one.file, one.index, one.outcome) for one in limits] == [(str(file), 1, Outcome.ACCEPTED) for _ in limits]
    assert {one.severity for one in limits} == {Severity.ERROR}
    assert result.exit_code == 1


def test_each_of_many_requests_is_found_with_its_place(tmp_path: Path) -> None:
    """They are not read all at once."""
    broken = {0, 255, 256, 299}
    exchanges = [exchange(request(UNANSWERED)) if index in broken else exchange() for index in range(300)]
    result = audit([write(tmp_path / "long.yaml", *exchanges)], all_rules(), conversations=True)
    assert figures(result) == (300, 0, 300, 4, 0, 0)
    assert {one.index for one in findings(result)} == broken
    (cell,) = result.cells
    assert cell.conversation is not None
    assert [each.index for each in cell.conversation.exchanges] == [*range(300)]


def test_rules_of_the_contract_only_warn(tmp_path: Path) -> None:
    result = audited(write(tmp_path / "broken.yaml", exchange(request(UNANSWERED))))
    contract = [found for found in findings(result) if found.kind is not Kind.LIMIT]
    assert [(finding.rule, finding.severity) for finding in contract] == [("result-missing", Severity.WARNING)]


@pytest.mark.parametrize(
    ("answered", "outcome"),
    [
        (response(REFUSAL, 400), "refused"),
        (response(REFUSAL, 429), "refused"),
        (response(REFUSAL, 200), "refused"),
        (response(REFUSAL, 500), "undecided"),
        (response("", 307), "undecided"),
        (response(), "accepted"),
    ],
)
def test_whether_a_request_was_accepted(tmp_path: Path, answered: dict[str, object], outcome: str) -> None:
    result = audited(write(tmp_path / "one.yaml", exchange(request(UNANSWERED), answered)))
    accepted, refused = outcome == "accepted", outcome == "refused"
    assert figures(result)[2:] == (accepted, accepted, refused, refused)
    assert {found.outcome for found in findings(result) if found.kind is Kind.LIMIT} == {outcome}


TEXT = {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "18"}, "finish_reason": None}]}
END = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def stream(*events: dict[str, Any] | str) -> dict[str, Any]:
    data = [event if isinstance(event, str) else json.dumps(event) for event in events]
    answered = response("".join(f"data: {each}\n\n" for each in data))
    return {**answered, "headers": {"content-type": ["text/event-stream"]}}


@pytest.mark.parametrize(
    ("answered", "streamed", "broken"),
    [
        (response(), 0, 0),
        (stream(TEXT, END, "[DONE]"), 1, 0),
        (stream(TEXT), 1, 1),
        (stream(TEXT, REFUSAL), 1, 1),
        ({**stream(TEXT, END, "[DONE]"), "delivery": {"ending": "reset"}}, 1, 1),
        (response(REFUSAL, 400), 0, 0),
    ],
)
def test_streams_are_counted_and_those_that_broke_off(
    tmp_path: Path, answered: dict[str, Any], streamed: int, broken: int
) -> None:
    counts = counted(
        audited(write(tmp_path / "one.yaml", exchange(request({**ACCEPTED, "stream": True}), answered)))
    ).apis[CHAT]
    assert (counts.exchanges, counts.unread) == (1, 0)
    assert (counts.streamed, counts.streamed_broken) == (streamed, broken)


def test_an_exchange_without_a_response_is_counted_and_no_more(tmp_path: Path) -> None:
    assert figures(audited(write(tmp_path / "cut.yaml", exchange(answer=False)))) == (1, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("body", ["<html>", "[]", ""])
def test_an_unreadable_response_is_unread(tmp_path: Path, body: str) -> None:
    result = audited(write(tmp_path / "odd.yaml", exchange(answered=response(body))))
    assert figures(result) == (1, 1, 0, 0, 0, 0)
    assert [found.rule for found in findings(result)] == ["exchange-unreadable"]


def test_a_request_that_cannot_be_read_is_unread(tmp_path: Path) -> None:
    result = audited(write(tmp_path / "odd.yaml", exchange(request({**ACCEPTED, "messages": "hello"}))))
    assert figures(result) == (1, 1, 1, 1, 0, 0)
    assert "exchange-unreadable" in [found.rule for found in findings(result)]


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json"])
def test_yaml_and_json_with_encoded_bodies_are_read(tmp_path: Path, name: str) -> None:
    broken = request(UNANSWERED)
    encoded = base64ed(response()) if name.endswith("json") else gzipped(response())
    result = audited(write(tmp_path / name, exchange(base64ed(broken), encoded), exchange(broken)))
    assert figures(result) == (2, 0, 2, 2, 0, 0)


def test_other_requests_are_unknown(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mixed.yaml",
        exchange(request({"input": "x", "model": "m"}, "https://api.openai.com/v1/embeddings")),
        exchange(request({"a": 1}, "https://example.com/")),
        exchange(),
    )
    result = audited(file)
    assert counted(result).unknown == 2
    assert figures(result) == (1, 0, 1, 0, 0, 0)


def test_limit_of_another_server_is_an_error_if_refused(tmp_path: Path) -> None:
    uri = "https://models.example.com/v1/chat/completions"
    taken, refused = exchange(request(UNANSWERED, uri)), exchange(request(UNANSWERED, uri), response(REFUSAL, 400))
    mistral = exchange(request(UNANSWERED, uri.replace("models.example.com", "api.mistral.ai")))

    result = audited(write(tmp_path / "a.yaml", taken, refused, exchange(request(UNANSWERED)), mistral))

    severities = {found.index: found.severity.value for found in findings(result) if found.kind is Kind.LIMIT}
    assert severities == {0: "warning", 1: "error", 2: "error", 3: "warning"}


def test_later_limit_is_a_warning_for_undated_requests(tmp_path: Path) -> None:
    def sent(temperature: float) -> dict[str, object]:
        body = {"model": "claude-opus-5", "max_tokens": 9, "temperature": temperature, "messages": [SAID]}
        return request(body, "https://api.anthropic.com/v1/messages")

    answer = response({"type": "message", "role": "assistant", "model": "claude-opus-5", "content": []})
    dated = {**answer, "headers": {"date": ["Tue, 18 Aug 2026 10:00:00 GMT"]}}
    refused = response({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)
    exchanges = [exchange(sent(0.5), each) for each in (answer, dated, refused)]

    result = audited(write(tmp_path / "a.yaml", *exchanges, exchange(sent(7), answer)))

    limits = {(found.index, found.severity.value) for found in findings(result) if found.kind is Kind.LIMIT}
    assert limits == {(0, "warning"), (1, "error"), (2, "error"), (3, "warning")}


def test_several_apis_in_one_cassette_keep_their_own_indices(tmp_path: Path) -> None:
    claude = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
            {"role": "user", "content": "and?"},
        ],
    }
    file = write(
        tmp_path / "two.yaml",
        exchange(),
        exchange(request(claude, "https://api.anthropic.com/v1/messages"), response({"type": "error"}, 500)),
        exchange(request(UNANSWERED)),
    )
    result = audited(file)
    assert figures(result)[0] == 2
    assert figures(result, "anthropic")[0] == 1
    limits = [found for found in findings(result) if found.kind is Kind.LIMIT]
    assert {(finding.rule.split("-")[0], finding.index) for finding in limits} == {("anthropic", 1), ("openai", 2)}
    for cell in result.cells:
        assert [found.index for found in cell.findings] == sorted(found.index or 0 for found in cell.findings)


def test_a_folder_is_searched_and_other_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "er" / "a.yml", exchange())
    write(tmp_path / ".hidden" / "b.yaml", exchange())
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "notes.txt").write_text("interactions:\n")
    result = audited(tmp_path)
    assert counted(result).files == 1
    assert [(Path(skipped.file).name, skipped.damaged) for skipped in counted(result).skipped] == [
        ("compose.yaml", False)
    ]
    assert result.exit_code == 0


def test_a_damaged_cassette_in_a_folder_is_never_a_pass(tmp_path: Path) -> None:
    write(tmp_path / "good.yaml", exchange())
    whole = write(tmp_path / "cut.yaml", exchange())
    whole.write_text("interactions:\n- request: {")
    result = audited(tmp_path)
    assert [(Path(skipped.file).name, skipped.damaged) for skipped in counted(result).skipped] == [("cut.yaml", True)]
    assert "line" in counted(result).skipped[0].reason
    assert result.exit_code == 2


def test_each_file_is_read_once(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", exchange())
    (tmp_path / "b.yaml").symlink_to(file)
    assert counted(audited(file, tmp_path, tmp_path)).files == 1


def test_a_file_that_was_named_has_to_be_a_cassette(tmp_path: Path) -> None:
    other = tmp_path / "compose.yaml"
    other.write_text("services: {}\n")
    with pytest.raises(CassetteError, match="not a cassette"):
        audited(other)
    with pytest.raises(CassetteMissing):
        audited(tmp_path / "none.yaml")


def test_a_folder_without_a_candidate_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match=r"no file ends in \.yaml, \.yml, \.json"):
        audited(tmp_path)


def test_nothing_audited_is_no_pass(tmp_path: Path) -> None:
    result = audited(write(tmp_path / "a.yaml", exchange(request({}, "https://example.com/"))))
    assert counted(result).unknown == 1
    assert result.exit_code == 2


def test_json_findings_have_file_and_index(tmp_path: Path) -> None:
    file = write(tmp_path / "broken.yaml", exchange(request(UNANSWERED)))
    document = json.loads(audited(file).to_json())
    assert set(document["audit"]) == {"files", "apis", "unknown", "skipped", "redrive", "unexplained"}
    assert document["audit"]["apis"][CHAT] == {
        "exchanges": 1,
        "unread": 0,
        "accepted": 1,
        "accepted_flagged": 1,
        "refused": 0,
        "refused_flagged": 0,
        "streamed": 0,
        "streamed_broken": 0,
    }
    limit = next(finding for finding in document["cells"][0]["findings"] if finding["kind"] == "limit")
    keys = {"rule", "kind", "severity", "blame", "message", "pointer", "actual", "expected", "file", "index"}
    assert keys <= set(limit)
    assert (limit["file"], limit["index"], limit["outcome"]) == (str(file), 0, "accepted")
    assert limit["blame"] == "client"


@pytest.mark.parametrize("scrubbed", ["toolu_…REDACTED…", "***"])
def test_a_redacted_id_is_no_evidence_about_ids(tmp_path: Path, scrubbed: str) -> None:
    """Neither its form nor that two have become one; the same of an id that nobody has touched is found."""

    def asked(call_id: str) -> dict[str, Any]:
        call = {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "18"}
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 99,
            "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": [call, call]},
                {"role": "user", "content": [result, result]},
            ],
        }
        return exchange(request(body, "https://api.anthropic.com/v1/messages"), response({"content": []}))

    def flagged(call_id: str) -> set[str]:
        result = audited(write(tmp_path / "it.yaml", asked(call_id)))
        return {found.rule for found in findings(result) if found.kind is Kind.LIMIT}

    assert flagged(scrubbed) == set()
    assert flagged("to be sure") >= {"anthropic-call-id-pattern", "anthropic-call-id-duplicate"}
