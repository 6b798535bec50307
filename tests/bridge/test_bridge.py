"""The helpers for wrappers: messages, completions, memory, chunks, exceptions, declining."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from harness import bridge
from harness.apis.anthropic import responses as anthropic
from harness.apis.gemini import responses as gemini
from harness.apis.openai_responses import responses as openai_responses
from harness.model.errors import (
    ChatError,
    ConnectionFailed,
    MalformedResponse,
    ProviderError,
    RateLimited,
    Unsupported,
)
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    File,
    Finish,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
)
from harness.model.protocols import Capability

ASKED = ChatRequest("m", [Message("user", "Hi")], "Be kind.")
ANSWER = Message("assistant", [Text("Let me see."), ToolCall("a", "look", {"n": 2**60})])


def completion(message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"message": message, "finish_reason": reason}], **more}


def call(arguments: str, call_id: str | None = "a") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}


def test_a_conversation_becomes_messages() -> None:
    results = [ToolResult("a", "look", {"x": None}), ToolResult("b", "look", "gone", is_error=True)]
    request = ChatRequest("m", [Message("user", "Hi"), ANSWER, Message("user", [*results, Text("And?")])], "Be kind.")

    system, user, assistant, first, second, last = bridge.messages(request)

    assert (system, user) == ({"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"})
    assert assistant["content"] == "Let me see."
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"n": 2**60}
    assert first == {"role": "tool", "tool_call_id": "a", "name": "look", "content": '{"x":null}'}
    assert second["content"] == '{"error": "gone"}'
    assert last == {"role": "user", "content": "And?"}


def test_ids_that_are_too_long_become_shorter_ones_one_to_one() -> None:
    calls = [ToolCall(f"{'x' * 70}{n}", "look", {}) for n in range(2)]
    results = [ToolResult(call.id, "look", "ok") for call in calls]
    request = ChatRequest("m", [Message("assistant", calls), Message("user", results)])

    assistant, first, second = bridge.messages(request, longest_id=64)

    sent = [call["id"] for call in assistant["tool_calls"]]
    assert [len(each) for each in sent] == [64, 64]
    assert sent == [first["tool_call_id"], second["tool_call_id"]]
    assert len(set(sent)) == 2
    assert bridge.messages(request)[1]["tool_call_id"] == calls[0].id


def test_media_are_content_parts_or_declined() -> None:
    said = [Text("See"), Image("image/png", b"\x00"), Image("image/png", uri="https://a.invalid/b.png")]

    (user,) = bridge.messages(ChatRequest("m", [Message("user", [*said, File("application/pdf", b"\x01")])]))

    assert [each["type"] for each in user["content"]] == ["text", "image_url", "image_url", "file"]
    assert user["content"][1]["image_url"] == {"url": "data:image/png;base64,AA=="}
    with pytest.raises(Unsupported, match="Thinking is not supported"):
        bridge.messages(ChatRequest("m", [Message("user", [Thinking("hm")])]))
    with pytest.raises(Unsupported, match="a file of text/plain is not supported"):
        bridge.messages(ChatRequest("m", [Message("user", [File("text/plain", b"a")])]))


def test_names_that_the_format_refuses_are_declined_or_replaced() -> None:
    answer = Message("assistant", [ToolCall("c1", "browser.tabs.open", {})])

    with pytest.raises(Unsupported, match="the tool name 'tides/read' is not supported"):
        bridge.tools(ChatRequest("m", [], tools=[Tool("tides/read", "Reads a tide.", {})]))
    sent = bridge.messages(ChatRequest("m", [answer]))
    assert [call["function"]["name"] for call in sent[0]["tool_calls"]] == ["browser_tabs_open"]


def test_settings_have_their_words() -> None:
    request = ChatRequest(
        tools=[Tool("look", "Looks.", {})], tool_choice=NamedTool("look"), response_format=JsonSchema({}, "shape")
    )

    assert bridge.tools(request)[0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert bridge.tool_choice(request) == {"type": "function", "function": {"name": "look"}}
    assert bridge.response_format(request) == {"type": "json_schema", "json_schema": {"name": "shape", "schema": {}}}
    assert bridge.response_format(ChatRequest(response_format=JsonMode())) == {"type": "json_object"}
    assert (bridge.tool_choice(ASKED), bridge.response_format(ASKED)) == (None, None)
    assert bridge.settings(ChatRequest(max_tokens=9, temperature=0.0, stop=["END"])) == {
        "max_tokens": 9,
        "temperature": 0.0,
        "stop": ["END"],
    }
    assert bridge.settings(ASKED) == {}


def test_a_whole_request_has_only_what_is_asked_for() -> None:
    alone = ChatRequest("m", (Message.user("Hi."),), tool_choice="required")
    full = replace(alone, system="Be brief.", tools=(Tool("look", "Looks.", {}),), max_tokens=9)

    assert bridge.completion_request(alone) == {"messages": bridge.messages(alone)}
    assert bridge.completion_request(full, system="developer") == {
        "messages": bridge.messages(full, system="developer"),
        "tools": bridge.tools(full),
        "tool_choice": "required",
        "max_tokens": 9,
    }


def test_an_answer_is_read_from_a_dictionary_and_from_objects() -> None:
    message = {"content": "Let me see.", "tool_calls": [call('{"n": 1}')], "reasoning_content": "hm"}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 3}}
    as_objects = SimpleNamespace(**completion(message, usage=SimpleNamespace(**usage)))  # type: ignore[arg-type]

    for events_of in (completion(message, usage=usage), as_objects):
        answer = bridge.response(events_of, ASKED)
        assert [type(part) for part in answer.message.parts] == [Thinking, Text, ToolCall]
        assert answer.tool_calls[0].arguments == {"n": 1}
        assert (answer.stop_reason, answer.raw_stop_reason, answer.model) == (StopReason.TOOL_USE, "stop", "m-1")
        assert (answer.usage.input_tokens, answer.usage.reasoning_tokens) == (5, 3)


@pytest.mark.parametrize(
    ("arguments", "reason", "stop"),
    [
        ('{"n": 1', "tool_calls", StopReason.MALFORMED_CALL),
        ('{"n": 1', "length", StopReason.MAX_TOKENS),
        ("[1]", "stop", StopReason.MALFORMED_CALL),
    ],
)
def test_a_call_that_is_not_whole_is_never_made(arguments: str, reason: str, stop: StopReason) -> None:
    answer = bridge.response(completion({"content": None, "tool_calls": [call(arguments)]}, reason), ASKED)

    assert (answer.tool_calls, answer.stop_reason) == ((), stop)
    assert answer.reported == {"unreadable-calls": [{"name": "look", "arguments": arguments}]}


def test_a_missing_id_is_made_from_its_place_and_marked() -> None:
    request = ChatRequest("m", [Message("user", "Hi"), ANSWER])

    (made,) = bridge.response(completion({"tool_calls": [call("", None)]}), request).tool_calls

    assert (made.id, made.arguments) == ("call-1", {})
    reported = bridge.response(completion({"tool_calls": [call("", None)]}), request).reported
    assert reported == {"empty-arguments": [0]}
    assert made.provider_metadata == {"harness": {"synthesised_id": True}}


def test_what_reached_its_bound_hands_on_what_the_library_does() -> None:
    memory = bridge.Memory()
    own = {"content": "Look.", "phase": "commentary", "tool_calls": [call('{"n": 1}'), call('{"n": 2', "b")]}

    answer = bridge.response(completion(own, "length"), ASKED, memory)

    assert [made.id for made in answer.tool_calls] == ["a"]
    kept = memory.own(len(ASKED.messages), answer.message)
    assert kept == {**own, "tool_calls": [call('{"n": 1}')]}
    whole = bridge.response(completion({"tool_calls": [call('{"n": 1}'), call('{"n": 2}', "b")]}, "length"), ASKED)
    assert [made.id for made in whole.tool_calls] == ["a", "b"]


def test_the_last_call_of_a_parsed_answer_that_reached_its_bound_is_left_out() -> None:
    both = {"tool_calls": [call('{"n": 1}'), call('{"n": 2}', "b")]}

    cut = bridge.response(completion(both, "length"), ASKED, parsed=True)
    ended = bridge.response(completion(both, "tool_calls"), ASKED, parsed=True)
    empty = bridge.response(completion({"tool_calls": [call('{"n": 1}'), call("", "b")]}, "length"), ASKED)

    assert [[each.id for each in answer.tool_calls] for answer in (cut, ended, empty)] == [["a"], ["a", "b"], ["a"]]
    assert cut.stop_reason is StopReason.MAX_TOKENS
    assert cut.reported == {"unreadable-calls": [{"name": "look", "arguments": '{"n": 2}'}]}


def test_a_library_that_leaves_out_the_truncated_call_itself_keeps_the_others() -> None:
    pieces = [{**call('{"n": 1}'), "index": 0}, {**call('{"n": 2', "b"), "index": 1}]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    kept = {"tool_calls": [call('{"n": 1}')]}
    both = {"tool_calls": [*kept["tool_calls"], call('{"n": 2}', "b")]}

    for message in (kept, both):
        joined = completion(message, "length")
        *_, finish = bridge.events(chunks, ASKED, whole=lambda _, joined=joined: joined, read=dict, parsed=True)
        assert isinstance(finish, Finish)
        assert [each.id for each in finish.response.tool_calls] == ["a"]


def test_a_reply_that_a_library_joins_of_no_chunk_is_handed_on() -> None:
    reply = completion({"content": ""}, "length")

    for parsed in (False, True):
        (finish,) = bridge.events([], ASKED, whole=lambda _: reply, read=dict, parsed=parsed)
        assert isinstance(finish, Finish)
        assert finish.response.text == ""


def test_refusals_and_answers_that_are_none() -> None:
    assert bridge.response(completion({"refusal": "No."}), ASKED).stop_reason is StopReason.REFUSAL
    assert bridge.stop_reason("MAX_TOKENS") is StopReason.MAX_TOKENS
    assert bridge.stop_reason(None) is StopReason.UNKNOWN
    for events_of in ({"choices": []}, {"error": "x"}):
        with pytest.raises(MalformedResponse):
            bridge.response(events_of, ASKED)


def test_the_library_gets_its_own_message_back() -> None:
    memory = bridge.Memory()
    own = {"role": "assistant", "content": "Let me see.", "signature": "s"}

    answer = bridge.response(completion(own), ASKED, memory).message
    back = ChatRequest("m", [*ASKED.messages, answer, Message("user", "And?")])

    assert bridge.messages(back, memory)[1] is own
    trimmed = ChatRequest("m", back.messages[1:])
    assert bridge.messages(trimmed, memory)[0] is own
    edited = ChatRequest("m", [*ASKED.messages, Message("assistant", "Other."), Message("user", "And?")])
    assert bridge.messages(edited, memory)[1] == {"role": "assistant", "content": "Other."}


class Model(BaseModel):
    text: str
    calls: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    tool_calls: list[dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    text: str
    content: list[dict[str, Any]]


CUT = {"type": "tool_use", "id": "cut", "name": "look", "input": {}}
WHOLE = {**CUT, "id": "whole"}
SAID = {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "I look."}]}


@pytest.mark.parametrize(
    ("own", "left"),
    [
        ([SAID, {"type": "function_call", "call_id": "cut", "arguments": '{"n": 1'}], [SAID]),
        ({"role": "assistant", "content": [WHOLE, CUT], "x": []}, {"role": "assistant", "content": [WHOLE], "x": []}),
        ([{"text": "I look.", "parts": [CUT, WHOLE]}], [{"text": "I look.", "parts": [WHOLE]}]),
        (Model(text="I look.", calls=[CUT], tool_calls=[CUT]), Model(text="I look.")),
        (Record("I look.", [CUT]), Record("I look.", [])),
        ({"role": "assistant", "content": None, "tool_calls": [CUT], "meta": {"refusal": None}}, None),
        ([CUT], None),
        ("elsewhere", "elsewhere"),
    ],
)
def test_dropped_calls_leave_any_form_of_message(own: Any, left: Any) -> None:
    memory = bridge.Memory()
    calls = [{**call('{"n": 1'), "id": "cut"}, {**call("{}"), "id": "whole"}]

    answer = bridge.response(completion({"role": "assistant", "tool_calls": calls}, "length"), ASKED, memory, own=own)

    assert [each.id for each in answer.tool_calls] == ["whole"]
    assert memory.own(len(ASKED.messages), answer.message) == left


def test_a_message_that_was_a_cut_call_alone_does_not_go_back() -> None:
    memory = bridge.Memory()
    cut = {"role": "assistant", "content": None, "tool_calls": [call('{"n": 1')]}

    answer = bridge.response(completion(cut, "length"), ASKED, memory)
    back = ChatRequest("m", [*ASKED.messages, answer.message, Message("user", "And?")])

    assert [each["role"] for each in bridge.messages(back, memory)] == ["user", "user"]


def test_of_two_equal_answers_each_place_has_its_own() -> None:
    memory = bridge.Memory()
    later = ChatRequest("m", [*ASKED.messages, Message("assistant", "Yes."), Message("user", "Sure?")])
    memory.keep(ASKED, Message("assistant", "Yes."), "first")
    memory.keep(later, Message("assistant", "Yes."), "second")

    assert [memory.own(place, Message("assistant", "Yes.")) for place in (1, 3)] == ["first", "second"]


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def piece(index: int | None, call_id: str | None, name: str | None, text: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": text}}


def events_of(*chunks: dict[str, Any]) -> list[StreamEvent]:
    return list(bridge.events(chunks, ASKED))


def test_chunks_are_events_and_the_whole_answer_is_the_last() -> None:
    *events, finish = events_of(
        chunk(reasoning_content="hm"),
        chunk(content="Let "),
        chunk(content="me."),
        chunk(tool_calls=[piece(0, "a", "look", "")]),
        chunk(tool_calls=[piece(0, None, None, '{"n"')]),
        chunk(tool_calls=[piece(0, None, None, ": 1}")]),
        chunk("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}},
    )

    assert events == [
        ThinkingDelta("hm"),
        TextDelta("Let "),
        TextDelta("me."),
        ToolCallStart(0, "a", "look"),
        ArgumentsDelta(0, '{"n"'),
        ArgumentsDelta(0, ": 1}"),
        ToolCallEnd(0),
    ]
    assert isinstance(finish, Finish)
    assert finish.response.text == "Let me."
    assert finish.response.tool_calls == (ToolCall("a", "look", {"n": 1}),)
    assert finish.response.usage.output_tokens == 7


def test_a_library_with_forms_of_its_own_says_what_is_in_them() -> None:
    """LangChain does so: pieces that add up to its own message, which goes back to it."""

    def read(each: dict[str, Any]) -> dict[str, Any]:
        words = {"reason": each.get("why"), "model": each.get("of"), "read": 5, "written": 7, "cached": 2}
        return bridge.completion(each.get("text", ""), each.get("calls", ()), thinking=each.get("thoughts"), **words)

    memory, own = bridge.Memory(), {"text": "Let me.", "calls": [{"id": "a", "name": "look", "args": {"n": 1}}]}
    own |= {"why": "tool_use", "of": "m-1"}
    pieces = [
        {"thoughts": "hm"},
        {"text": "Let me."},
        {"calls": [{"id": "a", "name": "look", "args": '{"n"', "index": 1}]},
        {"calls": [{"id": None, "name": None, "args": ": 1}", "index": 1}]},
        {"why": "tool_use"},
    ]

    *events, finish = bridge.events(pieces, ASKED, memory, whole=lambda _pieces: own, read=read)

    assert events == [
        ThinkingDelta("hm"),
        TextDelta("Let me."),
        ToolCallStart(0, "a", "look"),
        ArgumentsDelta(0, '{"n"'),
        ArgumentsDelta(0, ": 1}"),
        ToolCallEnd(0),
    ]
    assert isinstance(finish, Finish)
    assert finish.response == bridge.response(read(own), ASKED)
    assert (finish.response.model, finish.response.usage.cache_read_tokens) == ("m-1", 2)
    assert memory.own(1, finish.response.message) is own


def test_a_chunk_may_have_the_arguments_of_a_call_as_an_object() -> None:
    chunks = [bridge.completion(calls=[{"id": "a", "name": "look", "args": {"n": 1}}], reason="tool_calls")]

    *_, delta, _end, finish = bridge.events(chunks, ASKED)

    assert isinstance(delta, ArgumentsDelta)
    assert isinstance(finish, Finish)
    assert (delta.text, finish.response.tool_calls[0].arguments) == ('{"n": 1}', {"n": 1})


@pytest.mark.parametrize("index", [0, None])
def test_ids_separate_calls_with_equal_indices(index: int | None) -> None:
    events = events_of(
        chunk(tool_calls=[piece(index, "a", "look", "{}")]),
        chunk(tool_calls=[piece(index, "b", "look", "{}")]),
        chunk("tool_calls"),
    )

    assert [event.index for event in events if isinstance(event, ToolCallStart)] == [0, 1]
    assert isinstance(events[-1], Finish)
    assert [each.id for each in events[-1].response.tool_calls] == ["a", "b"]


def test_a_streamed_call_without_an_id_is_marked() -> None:
    *events, finish = events_of(
        chunk(tool_calls=[piece(0, None, "look", '{"n"')]),
        chunk(tool_calls=[piece(0, None, None, ": 1}")]),
        chunk("tool_calls"),
    )

    assert events[0] == ToolCallStart(0, "call-0", "look")
    assert events[-1] == ToolCallEnd(0)
    assert isinstance(finish, Finish)
    (made,) = finish.response.tool_calls
    assert (made.id, made.arguments) == ("call-0", {"n": 1})
    assert made.provider_metadata == {"harness": {"synthesised_id": True}}


STOP_REASONS = {**anthropic.STOP_REASONS, **gemini.STOP_REASONS, **openai_responses.INCOMPLETE_REASONS}


@pytest.mark.parametrize(("word", "reason"), STOP_REASONS.items())
def test_every_stop_reason_of_a_provider_is_known(word: str, reason: StopReason) -> None:
    finish = bridge.response(bridge.completion("Three lamps", reason=word), ASKED)

    assert finish.stop_reason is (StopReason.UNKNOWN if word == "OTHER" else reason)


def test_a_stream_without_chunks_is_malformed() -> None:
    with pytest.raises(MalformedResponse, match="without a single chunk"):
        list(bridge.events([], ASKED))
    (finish,) = bridge.events([{"choices": []}], ASKED)
    assert isinstance(finish, Finish)
    assert finish.response.raw_stop_reason is None


def test_a_cut_call_has_no_end_and_the_stream_ends() -> None:
    cut = chunk(tool_calls=[piece(0, "a", "look", '{"n"')])

    for ending in ([chunk("length")], []):
        events = events_of(cut, *ending)
        assert not [event for event in events if isinstance(event, ToolCallEnd)]
        assert isinstance(events[-1], Finish)
    finish = events_of(cut)[-1]
    assert isinstance(finish, Finish)
    assert finish.response.stop_reason is StopReason.UNKNOWN


class StatusError(Exception):
    def __init__(self, **fields: Any) -> None:
        super().__init__("slow down")
        vars(self).update(fields)


class APIConnectionError(Exception):
    pass


def raised(error: Exception, cause: Exception | None = None) -> ChatError:
    with pytest.raises(ChatError) as caught, bridge.failures():
        raise error from cause
    return caught.value


def test_failures_are_recognised_by_their_status() -> None:
    response = SimpleNamespace(headers={"retry-after": "1.5"})
    limited = raised(StatusError(status_code=429, response=response, body={"error": {"type": "rate_limit_error"}}))

    assert isinstance(limited, RateLimited)
    assert (limited.code, limited.retry_after, limited.message) == ("rate_limit_error", 1.5, "slow down")
    in_stream = raised(StatusError(body={"type": "overloaded_error"}))
    assert isinstance(in_stream, ProviderError)
    assert in_stream.status == 529
    kept = raised(StatusError(status_code=500, provider_status_code=529))
    assert isinstance(kept, ProviderError)
    assert kept.status == 529
    wrapped = raised(RuntimeError("wrapped"), StatusError(status=400))
    assert isinstance(wrapped, ProviderError)
    assert wrapped.status == 400
    waiting = raised(StatusError(status_code=429), StatusError(headers={"retry-after-ms": "250"}))
    assert isinstance(waiting, RateLimited)
    assert waiting.retry_after == 0.25


def test_precedence_of_status_class_and_cause() -> None:
    class APITimeoutError(StatusError): ...

    answered = raised(APITimeoutError(status_code=408))
    assert isinstance(answered, ProviderError)
    assert answered.status == 408
    assert type(raised(APITimeoutError(status_code=408), APIConnectionError("timed out"))) is ConnectionFailed
    assert type(raised(APITimeoutError())) is ConnectionFailed


def test_refusals_are_read_and_redirects_are_failures() -> None:
    body = {"error": {"code": "invalid_api_key"}}
    refused = raised(StatusError(response=SimpleNamespace(status_code=401, headers={}, json=lambda: body)))

    assert isinstance(refused, ProviderError)
    assert (refused.status, refused.code) == (401, "invalid_api_key")
    assert type(raised(StatusError(status_code=302))) is ConnectionFailed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (APIConnectionError("gone"), ConnectionFailed),
        (ConnectionResetError("gone"), ConnectionFailed),
        (json.JSONDecodeError("no JSON", "", 0), MalformedResponse),
        (ConnectionFailed("ours already"), ConnectionFailed),
    ],
)
def test_failures_without_a_status(error: Exception, kind: type[ChatError]) -> None:
    assert type(raised(error)) is kind


def test_googles_wait_stands_in_the_body() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    error = StatusError(code=429, details={"error": {"code": 429, "message": "slow down", "details": details}})

    failure = raised(error)

    assert isinstance(failure, ProviderError)
    assert failure.retry_after == 7


def test_a_response_whose_own_sdk_trips_over_it_has_no_body() -> None:
    class Response:
        def json(self) -> object:
            raise TypeError("'NoneType' object is not callable")  # as google-genai's, of a stream

    failure = raised(StatusError(code=529, response=Response()))

    assert isinstance(failure, ProviderError)
    assert failure.status == 529


@pytest.mark.parametrize(
    ("text", "events_of"),
    [("Client error '400'", "too long"), ("400: too long", "400: too long")],
    ids=["silent", "quoting"],
)
def test_the_providers_message_is_reported(text: str, events_of: str) -> None:
    response = SimpleNamespace(status_code=400, headers={}, json=lambda: {"error": {"message": "too long"}})
    error = RuntimeError(text)
    vars(error)["response"] = response

    failure = raised(error)

    assert isinstance(failure, ProviderError)
    assert failure.message == events_of


def test_a_crash_stays_a_crash() -> None:
    with pytest.raises(ZeroDivisionError), bridge.failures():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("request_", "capability"),
    [
        (ChatRequest(tool_choice="required"), Capability.FORCED_TOOL_CHOICE),
        (ChatRequest(response_format="json"), Capability.JSON_MODE),
        (ChatRequest(cache=True), Capability.CACHE_MARKS),
        (ChatRequest(messages=(Message("user", [File("application/pdf", b"")]),)), Capability.FILES),
        (ChatRequest(messages=(Message("user", [File("audio/wav", b"")]),)), Capability.AUDIO),
        (ChatRequest(provider_metadata={"gemini": {"tools": []}}), Capability.PROVIDER_TOOLS),
    ],
)
def test_what_cannot_be_said_is_declined_and_nothing_else(request_: ChatRequest, capability: Capability) -> None:
    assert capability in bridge.needed_capabilities(request_)
    with pytest.raises(Unsupported, match=f"mine: {capability.value} is not supported: the library has no way to"):
        bridge.decline("mine", request_, capability)
    bridge.decline("mine", request_, Capability.VISION)


def test_clients_need_no_sdk_that_they_do_not_use_themselves() -> None:
    sdks = ("openai", "anthropic", "google.genai")
    code = f"import sys; sys.modules.update(dict.fromkeys({sdks!r})); import harness.bridge.clients.shaped_client"
    subprocess.run([sys.executable, "-c", code], check=True)
