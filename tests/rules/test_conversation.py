"""What of a cell goes into its result: in bounds, without secrets, and so that pointers still lead where they led."""

from __future__ import annotations

import json

from harness.apis import registry
from harness.cassettes.redact import Redactor
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Message,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.results import Chat, ConversationRecord, Exchange, Transcript
from harness.rules.conversation_report import build_conversation, max_conversation_chars
from harness.rules.evidence import Evidence

KEY = "sk-a-key-of-somebody-0123456789"


def record_of(*bodies: bytes, most: int = 10_000, chats: tuple[Chat, ...] = ()) -> ConversationRecord:
    exchanges = tuple(
        Exchange(HttpRequest("POST", f"http://a.invalid/v1/messages?key={KEY}", {}, body), HttpResponse(200, {}, body))
        for body in bodies
    )
    profile = registry.api("anthropic").profile_for("m")
    evidence = Evidence(Transcript("anthropic", "m", profile, exchanges, "live", chats=chats))
    return build_conversation(evidence, Redactor([KEY]), most)


def test_a_key_is_cut_out_before_a_text_is_cut_short() -> None:
    body = json.dumps({"messages": [{"content": "x" * 960 + KEY + "y" * 3000}]}).encode()

    (sent,) = record_of(body).exchanges

    assert KEY[:8] not in str(sent)
    assert "REDACTED" in json.loads(sent.sent or "")["messages"][0]["content"]
    assert "characters are left out" in (sent.received or "")
    assert sent.request == "POST http://a.invalid/v1/messages"


def test_what_is_no_json_is_a_text() -> None:
    (sent,) = record_of(b"\xff<html>no").exchanges

    assert json.loads(sent.sent or "") == "\ufffd<html>no"


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    (sent,) = record_of(b'{"a": "\\ud83d"}').exchanges

    assert (sent.sent or "").encode() == rb'{"a":"\\ud83d"}'


def test_of_a_vector_its_beginning_is_kept() -> None:
    (sent,) = record_of(json.dumps({"data": [{"embedding": [0.5] * 1536}]}).encode()).exchanges

    assert json.loads(sent.sent or "")["data"][0]["embedding"][63:] == [0.5, "[... 1472 more numbers]"]


def test_there_is_room_for_so_much_and_the_exchanges_beyond_it_are_named() -> None:
    body = json.dumps({"messages": ["x" * 1000]}).encode()

    kept = record_of(*[body] * 4, most=5000).exchanges

    assert [each.left_out for each in kept] == [False, False, True, True]
    assert [each.status for each in kept] == [200] * 4
    assert {each.sent for each in kept[2:]} == {None}


def test_the_cells_of_a_large_run_have_less_room_each() -> None:
    assert max_conversation_chars(1) == max_conversation_chars(0) == 1 << 20
    assert max_conversation_chars(1_000_000) < 300


def asked(*messages: Message, system: str | None = None) -> ChatRequest:
    return ChatRequest(model="m", messages=messages, system=system)


def test_a_key_that_is_cut_over_the_parts_of_a_message_is_no_key_any_more() -> None:
    chat = Chat(0, 0, asked(Message(Role.USER, (Text(f"it is {KEY[:14]}"), Text(f"{KEY[14:]}, keep it")))))

    said = record_of(chats=(chat,)).said

    assert "REDACTED" in "".join(each.text for each in said)
    assert KEY[:14] not in said[0].text
    assert KEY[14:] not in said[1].text


def test_each_thing_is_said_once_however_often_it_is_sent() -> None:
    user, calls = Message(Role.USER, (Text("Go."),)), Message(Role.ASSISTANT, (ToolCall("c1", "look", {"at": 1}),))
    result = Message(Role.USER, (ToolResult("c1", "look", {"seen": None}, is_error=True),))
    done = Message(Role.ASSISTANT, (Text("Done."),))
    first, second = asked(user, system="Be brief."), asked(user, calls, result, system="Be briefer.")
    chats = (
        Chat(0, 0, first, ChatResponse(calls, StopReason.TOOL_USE, Usage())),
        Chat(0, 1, second, ChatResponse(done, StopReason.END_TURN, Usage())),
        Chat(
            1, 0, asked(user, calls, result, done, user, system="Be briefer."), error="RateLimited", error_text="later"
        ),
    )

    assert [(each.chat, each.by, each.what, each.text, each.name, each.id) for each in record_of(chats=chats).said] == [
        (0, "system", "text", "Be brief.", None, None),
        (0, "user", "text", "Go.", None, None),
        (0, "assistant", "call", '{"at": 1}', "look", "c1"),
        (1, "system", "text", "Be briefer.", None, None),
        (1, "tool", "error", '{"seen": null}', "look", "c1"),
        (1, "assistant", "text", "Done.", None, None),
        (2, "user", "text", "Go.", None, None),
        (2, "assistant", "error", "RateLimited: later", None, None),
    ]
