"""Runs made by hand, for reports to show."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

from harness.results import (
    Blame,
    CellResult,
    ConversationRecord,
    Difference,
    ExchangeRecord,
    ExpectedFailure,
    Finding,
    Invocation,
    Kind,
    MessageRecord,
    Provenance,
    RunResult,
    Severity,
    Verdict,
)

TARGETS = {
    "anthropic": "anthropic",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "gemini-3": "gemini",
    "gemini-2.5": "gemini",
}
SUBJECTS = ("id-matching", "system-prompt", "json-mode", "tools", "history", "responses", "requests", "limits")
REFERENCE = Provenance("reference", model_requested="a-model-1", model_served="a-model-1")
PROVIDER = Provenance("provider", "2026-11-20T10:00:00+00:00", "a-model-1", "a-model-1-0042")


def cell(scenario: str = "call-single", target: str = "anthropic", **changes: Any) -> CellResult:
    values: dict[str, Any] = {
        "scenario": scenario,
        "target": target,
        "adapter": TARGETS.get(target, target),
        "api": TARGETS.get(target, "anthropic"),
        "variant": "whole",
        "verdict": Verdict.PASS,
        "provenance": REFERENCE,
        "covers": ("tools",),
    }
    return CellResult(**{**values, **changes})


_REMEDIES = {
    "result-swapped": "match results to calls by their ids",
    "issued-id-lost": "return the `id` of the `tool_use` block as `ToolCall.id`",
}


def finding(rule: str = "result-swapped", **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "rule": rule,
        "kind": Kind.LOSS,
        "severity": Severity.ERROR,
        "blame": Blame.ADAPTER,
        "message": "the result of one call is sent as that of another",
        "pointer": "/messages/3/content/0",
        "actual": "18 °C",
        "expected": "31 °C",
        "source": "anthropic-call-answered-next",
        "exchange": 1,
        "remedy": _REMEDIES.get(rule, ""),
    }
    return Finding(**{**values, **changes})


def failed(scenario: str = "call-single", target: str = "anthropic", *findings: Finding, **changes: Any) -> CellResult:
    return cell(scenario, target, verdict=Verdict.FAIL, findings=findings or (finding(),), **changes)


def both(scenario: str = "call-single", target: str = "anthropic", **changes: Any) -> tuple[CellResult, CellResult]:
    """The cells of both variants, which are alike."""
    return cell(scenario, target, **changes), cell(scenario, target, variant="stream", **changes)


def skipped(scenario: str, target: str, *lacking: str) -> CellResult:
    """A cell that is not applicable, since its adapter does not have something."""
    reason = f"the adapter {TARGETS[target]!r} does not have: {', '.join(lacking)}"
    return cell(scenario, target, verdict=Verdict.NOT_APPLICABLE, provenance=None, reason=reason)


def with_many_skipped() -> RunResult:
    """One target that lacks much, and two of different adapters that lack the same one thing."""
    bare = [skipped(f"call-{number}", "openai-chat", "tools") for number in range(7)]
    bare += [skipped(name, "openai-chat", "history", "tools") for name in ("history-a", "history-b")]
    few = [skipped("image-from-user", target, "vision") for target in ("anthropic", "gemini-3")]
    return RunResult("replay", (cell(), *bare, *few))


def whole_suite(**changes: Any) -> RunResult:
    """As large as what ships, and larger in its differences: every fact differs, in long words."""
    cells = [
        each
        for number in range(100)
        for target in TARGETS
        for each in both(f"scenario-of-some-length-{number}", target, covers=(SUBJECTS[number % len(SUBJECTS)],))
    ]
    cells += [
        each
        for number in range(3)
        for each in both(
            f"thinking-{number}",
            "openai-chat",
            verdict=Verdict.NOT_APPLICABLE,
            provenance=None,
            reason="the adapter 'openai-chat' does not have: thinking",
        )
    ]
    facts = [
        Difference(
            SUBJECTS[number // 5],
            f"where the fact {number} is to be seen",
            {target: f"messages[].content[].{target}.{number}" for target in TARGETS},
            differs=True,
        )
        for number in range(30)
    ]
    values: dict[str, Any] = {"differences": tuple(facts), "timing": {"seconds": 9.07}}
    return RunResult("replay", tuple(cells), **{**values, **changes})


def red() -> RunResult:
    """A bit of everything."""
    cells = (
        cell(),
        failed("call-parallel", "anthropic", finding(), finding(actual="a", expected="b")),
        failed(
            "call-parallel",
            "gemini-3",
            finding("gemini-pairing", kind=Kind.LIMIT, source="gemini-function-response-form"),
        ),
        cell("json-mode", "anthropic", verdict=Verdict.WARN, findings=(finding("note", severity=Severity.WARNING),)),
        cell("json-mode", "gemini-3", verdict=Verdict.ERROR, provenance=None, reason="KeyError: 'text'"),
        cell("result-null", "anthropic", verdict=Verdict.MISSING, provenance=None, reason="no cassette"),
        cell(
            "result-null",
            "gemini-3",
            verdict=Verdict.EXPECTED_FAILURE,
            findings=(finding(accepted="tracked as #12"),),
            reason="tracked as #12",
        ),
        cell("thinking", "gemini-3", verdict=Verdict.NOT_APPLICABLE, provenance=None, reason="it does not think"),
    )
    return RunResult(
        "replay",
        cells,
        (
            Difference("tools", "who issues ids", {"anthropic": "the API", "gemini-3": "nobody"}, differs=True),
            Difference("tools", "word for it", {"anthropic": "any", "gemini-3": "any"}, differs=False),
        ),
        (ExpectedFailure("call-*", "anthropic", "usage", "tracked as #7"),),
        {"httpx2": "2.16.0"},
        {"seconds": 1.25},
        "cassettes",
        {"openai-chat": "its SDK is missing"},
        Invocation(
            rerun=("harness", "run", "--cassettes", "my cassettes"),
            record=("harness", "record", "--cassettes", "my cassettes"),
            scenarios={"call-parallel": "own/call-parallel.yaml"},
            targets={"gemini-3": ("--adapter", "my:ADAPTER", "--target", "gemini-3")},
            show=("harness", "show", "--cassettes", "my cassettes"),
        ),
    )


def two_causes() -> RunResult:
    """A limit that is there in two APIs, with what follows from it, and a loss in one; a note beside them."""
    limit = finding(
        "issued-id-lost",
        message="the API issued 'call_1' for get_weather; the adapter hands on 'id_0'",
        pointer="/content/0/id",
        actual="id_0",
        expected="call_1",
        source="harness.model.messages: ids",
        exchange=0,
        of_response=True,
        piece=("/content/0:", "  {", '    "type": "tool_use",', '>   "id": "call_1"', "  }"),
    )
    refused = finding(
        "chat-refused",
        message="the provider refused or failed: 400 unexpected `tool_use_id`",
        pointer="",
        actual=400,
        expected=200,
        source="harness.model.errors",
        follows=0,
    )
    unplayed = finding(
        "exchange-unplayed",
        message="1 of the recorded exchanges was not asked for",
        pointer=None,
        actual=2,
        expected=3,
        source="harness.cassettes.player",
        exchange=None,
        follows=0,
    )
    text = finding(
        "tool-declaration-changed",
        message="the description of get_weather was changed",
        pointer="/tools/0/description",
        actual="",
        expected="Current weather for a city.",
        source="harness.model.messages: Tool",
        exchange=0,
        piece=("/tools/0:", "  {", '>   "description": "",', '    "name": "get_weather"', "  }"),
    )
    note = finding(
        "setting-uninvited",
        kind=Kind.CONVENTION,
        severity=Severity.NOTE,
        message="nobody gave temperature, and it is sent",
    )
    cells = (
        failed("call-parallel", "anthropic", limit, refused, unplayed, covers=("id-matching",)),
        failed("call-parallel", "openai-chat", limit, refused, text, covers=("id-matching",)),
        failed("call-single", "openai-chat", text),
        cell("call-single", "anthropic", verdict=Verdict.NOTE, findings=(note,)),
    )
    rows = (
        Difference("id-matching", "who issues ids", {"anthropic": "the API", "openai-chat": "the API"}, differs=False),
        Difference("system-prompt", "its place", {"anthropic": "/system", "openai-chat": "a message"}, differs=True),
        Difference("tools", "word for it", {"anthropic": "any", "openai-chat": "required"}, differs=True),
    )
    return RunResult("replay", cells, rows)


HOSTILE = (
    "</script><script>document.title = 'ran'</script>"
    "<img src='http://127.0.0.1:9/asked' onerror=\"document.title = 'ran'\">"
    "<a href=\"javascript:document.title = 'ran'\">x</a> <!-- ]]> & \u2028 "
    "\u202etxt.exe\u2066 \x1b[31m {{ 7 * 7 }} ' \""
)
"""What a model, a server or a file may say: nothing of it is ours to run, to load or to believe."""


def hostile() -> RunResult:
    """A run all of whose texts are hostile, some of them very long."""
    long = "x" * 10_000 + HOSTILE
    body = json.dumps({HOSTILE: [{"id": long, "text": HOSTILE}], "big": 12345678901234567890, "one": 1.0})
    conversation_record = ConversationRecord(
        (MessageRecord(0, "user", "text", HOSTILE), MessageRecord(0, "assistant", "call", HOSTILE, HOSTILE, long)),
        (
            ExchangeRecord(0, f"POST {HOSTILE}", body, 200, body, chat=0),
            ExchangeRecord(1, HOSTILE, json.dumps(HOSTILE), None),
        ),
    )
    found = finding(
        HOSTILE,
        message=HOSTILE,
        pointer=f"/{HOSTILE.replace('~', '~0').replace('/', '~1')}/0/id",
        actual=long,
        expected={HOSTILE: HOSTILE},
        source=HOSTILE,
        exchange=0,
        piece=(HOSTILE, f"> {HOSTILE}"),
    )
    bad = failed(
        HOSTILE,
        HOSTILE,
        found,
        conversation=conversation_record,
        covers=(HOSTILE,),
        reason=HOSTILE,
        printed=HOSTILE,
        traceback=HOSTILE,
    )
    return RunResult(
        "replay",
        (bad, failed(long, HOSTILE, found), cell(HOSTILE, "javascript:alert(1)", conversation=conversation_record)),
        (Difference(HOSTILE, HOSTILE, {HOSTILE: HOSTILE, "javascript:alert(1)": "x"}, differs=True),),
        (ExpectedFailure(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        {HOSTILE: HOSTILE},
        left_out={HOSTILE: HOSTILE},
        cassettes=HOSTILE,
        facts=(HOSTILE,),
        unmatched=(ExpectedFailure(HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
    )


def talking() -> RunResult:
    """A conversation of two targets, one of which answers a call under another id."""

    def conversation_record(id_: str, *meant: tuple[str, str, str]) -> ConversationRecord:
        asked = {"role": "user", "content": "Weather in Paris?"}
        answer = {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "input": {"city": "Paris"}}]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": "18"}]}
        tools = [{"name": "get_weather", "input_schema": {"type": "object"}}]
        first, second = {"messages": [asked], "tools": tools}, {"messages": [asked, answer, result], "tools": tools}
        said = ("message 1 (user): text", "Weather in Paris?", "/messages/0")
        done = {"content": [{"type": "text", "text": "18 °C."}], "usage": {"ratio": 1.0, "big": 12345678901234567890}}
        return ConversationRecord(
            (
                MessageRecord(0, "system", "text", "Be brief."),
                MessageRecord(0, "user", "text", "Weather in Paris?"),
                MessageRecord(0, "assistant", "call", '{"city": "Paris"}', "get_weather", "call_1"),
                MessageRecord(1, "tool", "result", "18", "get_weather", "call_1"),
                MessageRecord(1, "assistant", "text", "18 °C."),
            ),
            (
                ExchangeRecord(
                    0,
                    "POST http://a.invalid/v1/messages",
                    json.dumps(first),
                    200,
                    json.dumps(answer),
                    chat=0,
                    meaning=json.dumps([said]),
                ),
                ExchangeRecord(
                    1,
                    "POST http://a.invalid/v1/messages",
                    json.dumps(second),
                    200,
                    json.dumps(done),
                    chat=1,
                    meaning=json.dumps([said, *meant]),
                ),
            ),
        )

    one = ("result of call 1", "18", "/messages/2")
    other = (("result of call 1", "19", "/contents/2"), ("tool choice", '"any"', "/toolConfig"))
    wrong = finding("result-id", pointer="/messages/2/content/0/tool_use_id", actual="call_2", expected="call_1")
    cells = (
        failed(
            "call-single", "anthropic", wrong, conversation=conversation_record("call_2", one), covers=("id-matching",)
        ),
        cell("call-single", "gemini-3", conversation=conversation_record("call_1", *other), covers=("id-matching",)),
        cell(
            "call-single",
            "gemini-3",
            variant="stream",
            conversation=conversation_record("call_1", *other),
            covers=("id-matching",),
        ),
        cell("json-mode", "anthropic", covers=("json-mode",)),
        skipped("thinking", "gemini-3", "thinking"),
    )
    rows = (
        Difference("tools", "word for it", {"anthropic": "any", "gemini-3": "any"}, differs=False),
        Difference("system-prompt", "its place", {"anthropic": "/system", "gemini-3": "a message"}, differs=True),
    )
    return RunResult("replay", cells, rows)


def page_data(text: str) -> dict[str, list[Any]]:
    """What the script of an HTML page reads."""
    found = re.search(r'<script type="application/gzip" id="data">([A-Za-z0-9+/=]+)</script>', text)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))
