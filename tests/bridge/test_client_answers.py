"""Answers of clients in their own classes: calls whose arguments are computed, and answers at the end of a stream."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypedDict, cast

import pytest
from pydantic import BaseModel

from harness.bridge.clients.answer_fields import as_completion, own_calls, stop_reason_in
from harness.bridge.clients.answers import keep_own_message, read_answer, read_stream
from harness.bridge.clients.invocation import result_of_call
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.turns import application_answer
from harness.bridge.completions import EMPTY_ARGUMENTS, EMPTY_COUNTS, stop_reason
from harness.bridge.openai_messages import Memory
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    JsonSchema,
    Message,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCallStart,
)

REQUEST = ChatRequest("gpt-5.2", (Message(Role.USER, (Text("Hello"),)),))


@dataclass(slots=True)
class SlottedCall:
    id: str
    name: str
    raw_arguments: str

    @property
    def arguments(self) -> Any:
        return json.loads(self.raw_arguments)


class NamedCall(NamedTuple):
    id: str
    name: str
    payload: str

    @property
    def args(self) -> Any:
        return json.loads(self.payload)


class PlainCall:
    def __init__(self, call_id: str, name: str, raw: str) -> None:
        self.call_id, self.name, self.raw = call_id, name, raw

    @cached_property
    def input(self) -> Any:
        return json.loads(self.raw)


class ModelCall(BaseModel):
    id: str
    name: str
    raw: str

    @property
    def arguments(self) -> Any:
        return json.loads(self.raw)


@dataclass
class MethodCall:
    """A call with no property. Its caller parses the text by a method."""

    id: str
    name: str
    arguments_json: str

    def parse(self) -> Any:
        return json.loads(self.arguments_json)


class BaseCall:
    __slots__ = ("id", "name")


class DerivedCall(BaseCall):
    __slots__ = ("_raw",)

    def __init__(self, call_id: str, name: str, raw: str) -> None:
        self.id, self.name, self._raw = call_id, name, raw

    @property
    def arguments(self) -> Any:
        return json.loads(self._raw)


@dataclass
class Reply:
    text: str
    requests: list[Any]
    finish_reason: str


class ModelReply(BaseModel):
    text: str
    requests: list[ModelCall]
    finish_reason: str


CALL_CLASSES: list[Any] = [SlottedCall, NamedCall, PlainCall, ModelCall, MethodCall, DerivedCall]


def made_call(kind: Any, arguments: str) -> Any:
    given = ("call_1", "weather", arguments)
    return kind(**dict(zip(kind.model_fields, given, strict=True))) if kind is ModelCall else kind(*given)


@pytest.mark.parametrize("kind", CALL_CLASSES)
def test_the_arguments_of_a_call_may_be_computed(kind: Any) -> None:
    call = made_call(kind, '{"city": "Paris"}')
    reply = (ModelReply if kind is ModelCall else Reply)(text="", requests=[call], finish_reason="tool_calls")

    assert own_calls([call]) == own_calls(reply) == [(call, "call_1", "weather", {"city": "Paris"})]
    found = read_answer(reply, REQUEST, Memory())
    assert [(each.id, each.name, each.arguments) for each in found.tool_calls] == [
        ("call_1", "weather", {"city": "Paris"})
    ]


@dataclass
class FlatEvent:
    kind: str
    text: str = ""
    call_id: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


def test_events_of_another_kind_are_no_calls() -> None:
    called = FlatEvent("call", "", "call_1", "weather", {"city": "Paris"})

    found = own_calls([FlatEvent("text", "Hi"), called, FlatEvent("end")])

    assert found == [(called, "call_1", "weather", {"city": "Paris"})]


@pytest.mark.parametrize("kind", CALL_CLASSES)
def test_computed_arguments_that_are_no_json_cannot_be_read(kind: Any) -> None:
    call = made_call(kind, '{"city": ')
    found = read_answer(Reply("", [call], "length"), REQUEST, Memory())

    assert found.tool_calls == ()
    assert found.stop_reason is StopReason.MAX_TOKENS
    assert own_calls([call]) == [(call, "call_1", "weather", None)]


@dataclass
class Wrong:
    """A call whose property reads another field than the arguments of the model."""

    id: str
    name: str
    raw_arguments: str
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def arguments(self) -> Any:
        return self.defaults


def test_the_caller_gets_the_property_and_not_the_text_of_the_model() -> None:
    ((*_, arguments),) = own_calls([Wrong("call_1", "weather", '{"city": "Paris"}')])
    assert arguments == {}


def test_an_object_with_a_name_and_no_arguments_is_no_call() -> None:
    found = read_answer({"name": "Ada", "raw": '{"a": 1}', "text": "Hello"}, REQUEST, Memory())
    assert (found.text, found.tool_calls) == ("Hello", ())


class Turn(BaseModel):
    role: Literal["user", "assistant"]
    content: str | None = None
    tool_calls: list[ModelCall] = []
    refusal: str | None = None


class Tokens(BaseModel):
    prompt_tokens: int = 10
    completion_tokens: int = 5


class Whole(BaseModel):
    message: Turn
    finish_reason: str
    usage: Tokens = Tokens()


class Step(BaseModel):
    text: str | None = None
    whole: Whole | None = None


@dataclass
class Result:
    """A whole answer that says nothing about why it ended."""

    text: str
    calls: list[Any]


@dataclass
class Piece:
    text: str | None = None
    reply: Any = None


CALL = ModelCall(id="call_1", name="weather", raw='{"city": "Paris"}')
UNNAMED = {"name": "weather", "args": {"city": "Paris"}}


def last_response(items: list[Any], hint: object = None, memory: Memory | None = None) -> ChatResponse:
    memory = memory or Memory()
    finish = [*read_stream(items, REQUEST, memory)][-1]
    assert isinstance(finish, Finish)
    keep_own_message(items[-1], finish.response, REQUEST, memory, "openai-chat", hint)
    return finish.response


WHOLE = Whole(message=Turn(role="assistant", content="Hello", tool_calls=[CALL]), finish_reason="tool_calls")

ENDINGS: list[list[Any]] = [
    [Step(text="Hel"), Step(text="lo"), Step(whole=WHOLE)],
    [Step(text="Hel"), Step(text="lo", whole=WHOLE)],
    [Piece("Hel"), Piece("lo"), Piece(reply=WHOLE)],
    [Piece("Hel"), Piece("lo"), Piece(reply=Result("Hello", [CALL]))],
    [Piece("Hel", Result("Hel", [])), Piece("lo", Result("Hello", [])), Piece("", Result("Hello", [CALL]))],
    [{"delta": "Hel"}, {"delta": "lo"}, {"delta": "", "snapshot": Result("Hello", [CALL]), "finish_reason": "tools"}],
]


@pytest.mark.parametrize("items", ENDINGS)
def test_the_last_item_of_a_stream_may_have_the_whole_answer_in_a_field(items: list[Any]) -> None:
    found = last_response(items)

    assert (found.text, [each.id for each in found.tool_calls]) == ("Hello", ["call_1"])
    assert found.stop_reason is StopReason.TOOL_USE
    if WHOLE in [getattr(items[-1], "whole", None), getattr(items[-1], "reply", None)]:
        assert (found.usage.input_tokens, found.usage.output_tokens) == (10, 5)


@pytest.mark.parametrize(
    ("items", "is_empty"),
    [
        ([{"text": "Hello"}, {"text": "", "usage": None, "finish_reason": "stop"}], True),
        ([{"text": "Hello"}, {"text": "", "usage": {"prompt_tokens": 9}, "finish_reason": "stop"}], False),
        ([{"text": "Hello"}, {"text": "", "finish_reason": "stop"}], False),
    ],
)
def test_a_field_for_counts_that_stays_empty_is_reported(items: list[dict[str, Any]], is_empty: bool) -> None:
    whole = read_answer({**items[0], **items[1], "text": "Hello"}, ChatRequest("m", ()), Memory())

    assert last_response(items).reported.get(EMPTY_COUNTS, False) is is_empty
    assert whole.reported.get(EMPTY_COUNTS, False) is is_empty


def test_a_refusal_and_calls_without_ids_are_not_repeated_by_the_whole_answer() -> None:
    refused = Whole(message=Turn(role="assistant", refusal="No."), finish_reason="stop")
    assert last_response([{"refusal": "No.", "text": ""}, Step(whole=refused)]).message.parts == (Refusal("No."),)

    items = [{"calls": [UNNAMED]}, {"text": "", "end": {"text": "", "calls": [UNNAMED], "finish_reason": "stop"}}]
    assert [each.name for each in last_response(items).tool_calls] == ["weather"]


def test_the_message_of_a_whole_answer_inside_an_item_is_sent_back() -> None:
    memory = Memory()
    found = last_response([Step(text="Hello"), Step(whole=WHOLE)], list[Turn], memory)

    assert memory.own(1, found.message) is WHOLE.message


@pytest.mark.parametrize("api", ["openai-chat", "gemini", "anthropic", "openai-responses"])
def test_a_client_may_parse_the_json_that_was_asked_for(api: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["n"],
    }
    asked = replace(REQUEST, response_format=JsonSchema(schema))

    assert read_answer({"text": "a", "n": 1}, asked, Memory(), api).text == '{"text": "a", "n": 1}'
    assert read_answer({"text": '{"n": 1}'}, asked, Memory(), api).text == '{"n": 1}'
    assert read_answer({"text": "a", "n": 1}, REQUEST, Memory(), api).text == "a"


def test_a_message_with_the_output_items_is_sent_back() -> None:
    text = {"type": "output_text", "text": "Hi.", "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    answer = {"role": "assistant", "content": "Hi.", "output": [item], "finish_reason": "stop"}
    memory = Memory()

    found = read_answer(answer, REQUEST, memory, "openai-responses")
    bare = read_answer({"output": [item], "status": "completed"}, REQUEST, Memory(), "openai-responses")

    assert found.message.text == bare.message.text == "Hi."
    assert memory.own(1, found.message) is answer


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"finish": "stop"}, ""),
        ({"finish": "refusal"}, "No."),
        ({"finish": "stop", "refusal": "No."}, "No."),
    ],
)
def test_a_refusal_in_the_items_only_is_read_if_the_stop_reason_says_so(fields: dict[str, str], text: str) -> None:
    part = {"type": "refusal", "refusal": "No."}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    answer = {"text": "", "items": [item], **fields}

    found = read_answer(answer, REQUEST, Memory(), "openai-responses")

    assert "".join(each.text for each in found.message.parts if isinstance(each, Refusal)) == text


@pytest.mark.parametrize(("reason", "refusal"), [("refusal", "No."), ("stop", None)])
def test_the_detail_of_a_refusal_is_its_text(reason: str, refusal: str | None) -> None:
    made = as_completion({"text": "", "finish": reason, "detail": "No."})

    assert cast("Any", made)["choices"][0]["message"]["refusal"] == refusal


def test_a_whole_answer_that_lacks_a_call_is_not_completed() -> None:
    less = Whole(
        message=Turn(role="assistant", content="Hello"), finish_reason="tool_calls", usage=Tokens(prompt_tokens=0)
    )
    found = last_response([Step(text="Hello"), Step(whole=less)])

    assert (found.tool_calls, found.usage.input_tokens) == ((), 0)


def test_the_answer_of_an_sdk_beside_a_text_is_not_the_answer_of_the_client() -> None:
    raw = Whole(message=Turn(role="assistant", content="Hello", tool_calls=[CALL]), finish_reason="tool_calls")
    found = last_response([{"text": "Hello", "raw_response": raw}])

    assert (found.text, found.tool_calls) == ("Hello", ())


PIECES_THAT_ARE_EQUAL: list[list[Any]] = [
    ["ha", "ha"],
    ["h", "a", "ha"],
    [("text", "ha"), ("text", "ha"), ("stop", "end_turn")],
    [Piece("ha"), Piece("ha"), Piece(reply=Result("haha", []))],
    [{"delta": "ha", "index": 0}, {"delta": "ha", "index": 1}, {"delta": "", "finish_reason": "stop"}],
    [{"role": "assistant", "text": "ha"}, {"text": "ha"}, {"type": "end", "reason": "stop"}],
]


@pytest.mark.parametrize("items", PIECES_THAT_ARE_EQUAL)
def test_a_piece_of_a_stream_may_be_equal_to_all_text_before_it(items: list[Any]) -> None:
    assert last_response(items).text == "haha"


@dataclass
class Chunk:
    text: str = ""
    input_tokens: int = 0
    done: bool = False


WHOLE_TEXTS_AT_THE_END: list[list[Any]] = [
    ["Hel", "lo", Result("Hello", [CALL])],
    ["Hello", {"text": "Hello", "calls": []}],
    [Chunk("Hello"), Chunk("Hello", done=True)],
    [Chunk("Hello"), Chunk("Hello", input_tokens=10)],
    [("delta", "Hel"), ("delta", "lo"), ("message", "Hello")],
    [{"type": "text", "text": "Hello"}, {"type": "message", "text": "Hello"}],
    [{"delta": "Hel"}, {"delta": "lo"}, {"text": "Hello"}],
]


@pytest.mark.parametrize("items", WHOLE_TEXTS_AT_THE_END)
def test_a_whole_text_at_the_end_of_a_stream_is_not_counted_twice(items: list[Any]) -> None:
    assert last_response(items).text == "Hello"


BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
    {"type": "text", "text": "Hello"},
    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}},
]


@dataclass
class Collected:
    """The blocks of an answer, which its stream showed only in part."""

    blocks: list[dict[str, Any]]
    stop_reason: str = "tool_use"

    @property
    def text(self) -> str:
        return "".join(each["text"] for each in self.blocks if each["type"] == "text")

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [each for each in self.blocks if each["type"] == "tool_use"]


@dataclass
class CallDone:
    call_id: str
    name: str
    arguments: dict[str, Any]


def test_calls_of_a_stream_have_the_order_of_the_whole_answer() -> None:
    done = [CallDone(each, "weather", {"city": each}) for each in ("c", "a", "b")]
    items = [
        {"type": "function_call", "call_id": each, "name": "weather", "arguments": json.dumps({"city": each})}
        for each in ("a", "b", "c")
    ]

    events = [*read_stream([*done, {"status": "completed", "output": items}], REQUEST, Memory(), "openai-responses")]

    starts = [(each.index, each.id) for each in events if isinstance(each, ToolCallStart)]
    pieces = [(each.index, json.loads(each.text)) for each in events if isinstance(each, ArgumentsDelta)]
    assert starts == [(0, "a"), (1, "b"), (2, "c")]
    assert [pieces[0], pieces[-1]] == [(0, {"city": "a"}), (2, {"city": "c"})]


@dataclass
class ToolStart:
    index: int
    id: str
    name: str


@dataclass
class ToolPiece:
    """A piece of the arguments of a call, under a name of the client's own."""

    index: int
    fragment: str


def test_pieces_of_arguments_may_have_a_name_of_their_own() -> None:
    pieces = [
        ToolStart(0, "a", "weather"),
        ToolPiece(0, '{"city": '),
        ToolPiece(0, '"Paris"}'),
        ToolStart(1, "b", "look"),
    ]
    finish = [*read_stream(pieces, REQUEST, Memory(), "anthropic")][-1]
    blocks = [{"type": "tool_use", "id": "b", "name": "look", "input": {}}]
    whole = [*read_stream([ToolStart(1, "b", "look"), Collected(blocks)], REQUEST, Memory(), "anthropic")][-1]

    assert isinstance(finish, Finish)
    assert isinstance(whole, Finish)
    assert [(each.id, each.arguments) for each in finish.response.tool_calls] == [("a", {"city": "Paris"}), ("b", {})]
    assert [EMPTY_ARGUMENTS in each.response.reported for each in (finish, whole)] == [True, False]


class EventType(Enum):
    CALL = auto()
    DONE = auto()


@dataclass
class StreamEvent:
    """The only class of a stream's events. Their kinds are names."""

    type: EventType
    text: str = ""
    call: dict[str, Any] | None = None
    content: dict[str, Any] | None = None


@pytest.mark.parametrize("name", ["weather", "other"])
def test_events_of_one_class_may_end_with_the_content_of_the_api(name: str) -> None:
    part = {"functionCall": {"id": "a", "name": "weather", "args": {}}, "thoughtSignature": "abc"}
    call = {"id": "a", "name": name, "args": {}}
    done = StreamEvent(EventType.DONE, content={"role": "model", "parts": [part]})
    finish = [*read_stream([StreamEvent(EventType.CALL, call=call), done], REQUEST, Memory(), "gemini")][-1]

    assert isinstance(finish, Finish)
    (found,) = finish.response.tool_calls
    assert (found.name, bool(found.provider_metadata)) == (name, name == "weather")


def test_the_calls_of_an_answer_may_be_blocks_of_its_content() -> None:
    blocks = [{"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "a", "name": "look", "input": {}}]

    assert [each[1:] for each in own_calls({"content": blocks})] == [("a", "look", {})]
    assert own_calls({"content": blocks[:1]}) == []


class ThinkingPiece(NamedTuple):
    """A piece of a thought. Its signature is only in the blocks of the whole answer."""

    text: str


@pytest.mark.parametrize("before", [[], [ThinkingPiece("H"), ThinkingPiece("m.")]])
@pytest.mark.parametrize("kept", [BLOCKS, BLOCKS[1:]])
def test_the_thoughts_of_a_streamed_answer_may_be_in_its_last_item(
    kept: list[dict[str, Any]], before: list[ThinkingPiece]
) -> None:
    memory, items = Memory(), [*before, "Hel", "lo", Collected(kept)]
    finish = [*read_stream(items, REQUEST, memory, "anthropic")][-1]
    assert isinstance(finish, Finish)
    keep_own_message(items[-1], finish.response, REQUEST, memory, "anthropic", None, "def chat(messages): ...")

    found = finish.response.message
    thoughts = [each.text for each in found.parts if isinstance(each, Thinking)]
    assert (found.text, thoughts) == ("Hello", ["Hm."] * (kept is BLOCKS))
    assert all(part.provider_metadata for part in found.parts if isinstance(part, Thinking))
    assert [each.id for each in found.tool_calls] == ["call_1"]
    assert memory.own(1, found) == {"role": "assistant", "content": kept}


class TypedCall(TypedDict):
    id: str
    name: str
    args: dict[str, Any]


class TypedResult(TypedDict):
    role: Literal["tool"]
    call_id: str
    output: str


class TypedMessage(TypedDict, total=False):
    role: Literal["user", "assistant"]
    text: str
    calls: list[TypedCall]


CALLED = {"name": "weather", "arguments": "{}"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "Hello"}, {"role": "user", "text": "Hello"}),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": CALLED}]},
            {"role": "assistant", "text": "", "calls": [{"id": "a", "name": "weather", "args": {}}]},
        ),
        (
            {"role": "tool", "tool_call_id": "a", "content": "sunny"},
            {"role": "tool", "call_id": "a", "output": "sunny"},
        ),
        # the client's own message, and one that has no place for a field, stay as they are
        ({"role": "assistant", "text": "Hello", "state": 1}, {"role": "assistant", "text": "Hello", "state": 1}),
        ({"role": "user", "content": "Hello", "name": "Ada"}, {"role": "user", "content": "Hello", "name": "Ada"}),
    ],
)
def test_a_message_has_the_keys_of_its_typed_dictionary(message: Any, expected: Any) -> None:
    assert as_annotated([message], list[TypedMessage | TypedResult]) == [expected]


class Said(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ModelCall] = []


class Counted(BaseModel):
    input_tokens: int
    output_tokens: int


class Outcome(BaseModel):
    reply: Said
    finish_reason: str
    bill: Counted


@pytest.mark.parametrize("text", [None, "One moment."])
def test_the_message_in_an_answer_is_no_text_if_it_has_only_calls(text: str | None) -> None:
    said = Said(content=text, tool_calls=[made_call(ModelCall, "{}")])
    bill = Counted(input_tokens=3, output_tokens=4)

    found = read_answer(Outcome(reply=said, finish_reason="tool_calls", bill=bill), REQUEST, Memory())

    assert (found.text, [each.name for each in found.tool_calls]) == (text or "", ["weather"])
    assert (found.usage.input_tokens, found.usage.output_tokens) == (3, 4)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "STOP"])
def test_a_content_of_gemini_without_parts_is_no_text(reason: str) -> None:
    answer = {"content": {"role": "model"}, "finishReason": reason, "usage": {}}

    found = read_answer(answer, REQUEST, Memory(), "gemini")

    assert (found.text, found.raw_stop_reason) == ("", reason)


def test_the_final_output_of_a_run_is_its_text() -> None:
    items = [{"role": "user", "content": "Hello"}, {"role": "assistant", "phase": "final_answer", "content": "Hello"}]
    run = {"final_output": "Hello", "items": items}

    assert read_answer(run, REQUEST, Memory()).text == "Hello"
    found = application_answer(run, ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),)), "openai-responses", "")
    assert found is not None
    assert found.message.text == "Hello"


def test_an_answer_may_be_the_future_of_a_thread() -> None:
    with ThreadPoolExecutor(1) as pool, asyncio.Runner() as runner:
        assert result_of_call(runner, pool.submit(str, 42)) == "42"
        with pytest.raises(ValueError, match="forty"):
            result_of_call(runner, pool.submit(int, "forty"))


@dataclass
class Spoken:
    words: list[object]

    @property
    def text(self) -> str:
        return "".join(each for each in self.words if isinstance(each, str))

    @property
    def tool_uses(self) -> list[object]:
        return [each for each in self.words if not isinstance(each, str)]


@dataclass
class Bill:
    input_tokens: int
    output_tokens: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass
class Exchange:
    turn: Spoken
    usage: object


def test_the_message_of_an_answer_may_compute_its_text_and_its_calls() -> None:
    call = {"id": "call_1", "name": "look", "input": {}}
    found = read_answer(Exchange(Spoken(["Hel", "lo", call]), None), REQUEST, Memory(), "anthropic")

    assert (found.text, [each.id for each in found.tool_calls]) == ("Hello", ["call_1"])


@pytest.mark.parametrize(
    "usage",
    [
        Bill(9, 4, 5, 2),
        {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2},
        {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2},
        },
    ],
)
def test_cached_tokens_are_read_from_the_usage_of_an_answer(usage: object) -> None:
    found = read_answer(Exchange(Spoken(["Hello"]), usage), REQUEST, Memory(), "anthropic").usage

    assert (found.input_tokens, found.output_tokens) == (9, 4)
    assert (found.cache_read_tokens, found.cache_write_tokens) == (5, 2)


class Ending(Enum):
    ANSWERED = "answered"
    TRUNCATED = "truncated"
    DECLINED = "declined"
    OTHER = "other"


class Mood(Enum):
    GLAD = "glad"
    DONE = "done"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (Ending.ANSWERED, StopReason.END_TURN),
        (Ending.TRUNCATED, StopReason.MAX_TOKENS),
        (Ending.DECLINED, StopReason.REFUSAL),
        (Ending.OTHER, StopReason.UNKNOWN),
        (Mood.GLAD, None),
    ],
)
def test_a_member_of_an_enumeration_with_truncated_answers_is_the_stop_reason(
    value: Enum, word: StopReason | None
) -> None:
    found = stop_reason_in({"text": "Hello", "outcome": value})

    assert (found and stop_reason(found)) == word
