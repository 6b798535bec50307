"""Requests, for every adapter that sends HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from harness.model import errors
from harness.model.messages import (
    SYNTHESISED_ID,
    ChatRequest,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Part,
    Refusal,
    Role,
    Text,
    Thinking,
    ThinkingSettings,
    Tool,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import ChatClient, Endpoint
from tests.adapters.streamed import BASE, Server
from tests.adapters.values import JSON_OBJECTS, JSON_VALUES
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import CHOICES, WEATHER, Wire, asked, calls, said, says, user
from tests.apis.samples import strict_validator

PDF, SOUND = File("application/pdf", b"%PDF-1.4"), File("audio/mpeg", b"ID3")
GEMINI_ALONE = "gemini"
"""It takes ids of any spelling, and calls without one."""


@pytest.fixture(params=[name for name in WIRES if name != GEMINI_ALONE])
def wire_with_ids(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


def loop(*ids: str, reverse: bool = False) -> tuple[Message, ...]:
    """Return a turn of calls with these ids, with a number as argument and result."""
    made = [ToolCall(one, f"f{number}", {"n": number}) for number, one in enumerate(ids)]
    answers = [ToolResult(one, f"f{number}", {"n": number}) for number, one in enumerate(ids)]
    return (Message.user("?"), said(*made), user(*(reversed(answers) if reverse else answers)))


# --- the whole request ------------------------------------------------------------------------------------------------


def test_a_minimal_request_is_one_post_with_the_key(wire: Wire) -> None:
    server = Server(json.dumps(wire.whole(says("Ahoy"))).encode())
    client = wire.adapter.connect(Endpoint(BASE, "key-1", server.http), wire.model)
    assert isinstance(client, ChatClient)
    assert client.chat(ChatRequest(messages=(Message.user("hi"),))).text == "Ahoy"
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", BASE + wire.url)
    assert {name: request.headers[name] for name in wire.headers} == wire.headers
    assert server.body == wire.smallest


def growing() -> Iterator[tuple[Message, ...]]:
    every = (*loop("a", "b"), said(Text("So.")), *loop("not legal!"), *loop("", ""), *loop("a"))
    yield from (every[: end + 1] for end, message in enumerate(every) if message.role is Role.USER)
    yield every


def refused_between() -> Iterator[tuple[Message, ...]]:
    every = loop("a")
    refused = (*every, said(Text("Look."), Image("image/png", b"x")), user(Text("?")))
    yield from (every, refused, refused, (*every, *loop("b")))


@pytest.mark.parametrize("histories", [growing, refused_between])
def test_earlier_requests_do_not_change_later_ones(
    wire: Wire, histories: Callable[[], Iterator[tuple[Message, ...]]]
) -> None:
    answer = json.dumps(wire.whole(says("Ahoy"))).encode()
    server = Server(answer)
    lasting = server.client(wire.adapter, wire.model)
    for history in histories():
        alone = Server(answer)
        server.requests.clear()
        for client in (lasting, alone.client(wire.adapter, wire.model)):
            with suppress(errors.Unsupported):
                client.chat(ChatRequest(messages=history))
        assert [each.content for each in server.requests] == [each.content for each in alone.requests]


def test_the_default_model_is_the_clients(wire: Wire) -> None:
    for named in ("", "another-model"):
        server = Server(json.dumps(wire.whole(says("Ahoy"))).encode())
        assert wire.ask(server, ChatRequest(named, (Message.user("hi"),))).text == "Ahoy"
        (request,) = server.requests
        assert (named or wire.model) in f"{request.url} {request.content.decode()}"
        assert named == "" or wire.model not in f"{request.url} {request.content.decode()}"


@pytest.mark.parametrize("nothing", [{"system": ""}, {"system": None}, {"stop": ()}, {"cache": False}, {"tools": []}])
def test_unset_options_are_no_fields(wire: Wire, nothing: dict[str, Any]) -> None:
    assert wire.sent(**nothing) == wire.sent()


def test_the_system_prompt_is_sent_verbatim(wire: Wire) -> None:
    assert wire.sent(system="  Be\u2028brief. \n") == wire.instructed("  Be\u2028brief. \n")


def test_tool_choice(wire: Wire) -> None:
    sent = [wire.choice(wire.sent(tools=(WEATHER,), tool_choice=choice)) for choice in CHOICES]
    assert sent == list(wire.choices)


def test_tool_choice_without_tools_is_never_sent(wire: Wire) -> None:
    for choice in ("auto", "none"):
        assert wire.sent(tool_choice=choice) == wire.sent()
    for forced in ("required", NamedTool("get_weather")):
        refusal = wire.refuses(ChatRequest(messages=(Message.user("hi"),), tool_choice=forced))
        assert "tool" in refusal.feature


def test_metadata_of_the_request_is_merged_into_the_body(wire: Wire) -> None:
    """Lists grow, the rest replaces, and what is another API's stays away."""
    mine = {"tools": [{"type": "brand_new"}], "brand_new": {"a": None}}
    plain = wire.sent(tools=(WEATHER,))
    body = wire.sent(
        tools=(WEATHER,), provider_metadata={wire.adapter.api: mine, "elsewhere": {"no": 1, "tools": [{"no": 1}]}}
    )
    assert body == {**plain, "tools": [*plain["tools"], {"type": "brand_new"}], "brand_new": {"a": None}}


def test_metadata_of_a_tool_are_in_its_declaration(wire: Wire) -> None:
    bare, more = (
        wire.sent(tools=(Tool("now", "The time.", {"type": "object"}, metadata),))["tools"]
        for metadata in ({}, {wire.adapter.api: {"brand_new": 1}, "elsewhere": {"no": 1}})
    )
    assert json.dumps(bare) != json.dumps(more)
    assert json.dumps(more).replace(', "brand_new": 1', "") == json.dumps(bare)


@pytest.mark.parametrize("place", ["user", "result"])
@pytest.mark.parametrize("part", [Image("image/png"), File("application/pdf")])
def test_media_without_data_and_uri_are_declined(wire: Wire, part: Part, place: str) -> None:
    history = (Message.user("?"), said(ToolCall("call_1", "look", {})))
    in_result = (*history, user(ToolResult("call_1", "look", (part,))))  # type: ignore[arg-type]
    messages = in_result if place == "result" else (user(part),)
    assert wire.refuses(ChatRequest(messages=messages)).feature == type(part).__name__


def test_media_with_data_and_uri_are_sent_as_data(wire: Wire) -> None:
    here = Image("image/png", b"\x89PNG")
    both = Image("image/png", b"\x89PNG", "https://example.com/a.png")
    assert wire.sent(user(both)) == wire.sent(user(here))


def test_a_file_that_is_with_the_provider_is_named_and_not_sent(wire: Wire) -> None:
    """Elsewhere its metadata say nothing, and a file that is nowhere is refused."""
    file = File("application/pdf", provider_metadata={wire.adapter.api: wire.uploaded})
    assert json.dumps(wire.uploaded_part) in json.dumps(wire.sent(user(Text("Read."), file)))
    elsewhere = File("application/pdf", provider_metadata={"elsewhere": wire.uploaded})
    assert wire.refuses(ChatRequest(messages=(user(elsewhere),))).feature == "File"


def test_an_image_that_is_with_openai_is_named_by_its_id() -> None:
    image = Image("image/png", provider_metadata={"openai-responses": {"file_id": "file_1"}})
    named = {"type": "input_image", "detail": "auto", "file_id": "file_1"}
    assert json.dumps(named) in json.dumps(WIRES["openai-responses"].sent(user(image)))


def test_text_that_utf8_cannot_hold_is_refused(wire: Wire) -> None:
    wire.refuses(ChatRequest(messages=(Message.user("\ud800"),)))


# --- the history ------------------------------------------------------------------------------------------------------


def test_calls_and_results_pair_up_and_results_come_first(wire: Wire) -> None:
    """Results keep their order, wherever they are in the turn."""
    one, other = ToolCall("call_a", "f", {"ü": None}), ToolCall("call_b", "f", {})
    body = wire.sent(
        Message.user("?"),
        said(Text(""), one, other),
        user(Text("Thanks."), ToolResult("call_b", "f", ["é", 1])),
        user(ToolResult("call_a", "f", {"big": 10**30, "ü": None})),
        user(Text("Go on.")),
    )
    assert wire.adapter.name.startswith("openai") or len(wire.roles(body)) == 4, "results of two messages share one"
    assert wire.called(body) == [("call_a", {"ü": None}), ("call_b", {})]
    assert wire.answered(body) == [("call_b", ["é", 1]), ("call_a", {"big": 10**30, "ü": None})]
    text = json.dumps(body, ensure_ascii=False)
    last_result = max(text.rindex("call_a"), text.rindex("call_b"))
    assert last_result < text.index("Thanks.") < text.index("Go on.")


def test_a_failed_result_is_marked(wire: Wire) -> None:
    history = (Message.user("?"), said(ToolCall("call_a", "f", {})))
    plain, failed = (
        wire.sent(*history, user(ToolResult("call_a", "f", "offline", is_error=is_error))) for is_error in (False, True)
    )
    assert wire.answered(plain) == [("call_a", "offline")]
    assert "error" not in json.dumps(plain)
    assert "error" in json.dumps(failed)
    assert "offline" in json.dumps(failed)


def test_state_of_other_apis_is_left_out(wire: Wire) -> None:
    foreign = said(Thinking("hm", {"elsewhere": {"signature": "s"}}), Opaque("elsewhere", {"type": "search"}), Text(""))
    body = wire.sent(Message.user("?"), foreign, Message.user("!"))
    assert wire.roles(body) == ["user", "user"]
    assert body == wire.sent(Message.user("?"), Message.user("!"))
    spoken = Text("Bye.", {"elsewhere": {"annotations": []}})
    end = Message.user("!")
    assert wire.sent(Message.user("?"), said(*foreign.parts, spoken), end) == wire.sent(
        Message.user("?"), said(Text("Bye.")), end
    )


def test_a_refusal_goes_back_in_words(wire: Wire) -> None:
    body = json.dumps(wire.sent(Message.user("?"), said(Text("Well."), Refusal("I will not.")), Message.user("!")))
    assert body.index("Well.") < body.index("I will not.")


def test_a_growing_history_only_appends(wire: Wire) -> None:
    """Ids that have to be made, too, stay what they were."""
    first = loop("a.b", "", "x" * 90)
    short = wire.sent(*first, system="S", tools=(WEATHER,))
    long = wire.sent(*first, *loop("", "c.d")[1:], system="S", tools=(WEATHER,))
    (turns,) = (key for key in ("messages", "input", "contents") if key in short)
    assert long[turns][: len(short[turns])] == short[turns]
    assert len(long[turns]) > len(short[turns])


# --- ids --------------------------------------------------------------------------------------------------------------


def test_valid_ids_are_kept(wire: Wire) -> None:
    ids = ["1", "toolu_01", "call-x_1", "x" * 40]
    body = wire.sent(*loop(*ids))
    assert [one for one, _ in wire.called(body)] == [one for one, _ in wire.answered(body)] == ids


def test_illegal_ids_are_replaced_one_to_one(wire_with_ids: Wire) -> None:
    wire = wire_with_ids
    ids = (*wire.foreign_ids, "call_b")
    called, answered = wire.called(wire.sent(*loop(*ids))), wire.answered(wire.sent(*loop(*ids, reverse=True)))
    assert sorted(called) == sorted(answered)
    made = [one for one, _ in called]
    assert made[-1] == "call_b"
    assert len(set(made)) == len(ids)
    for call_id in made:
        assert wire.called(wire.sent(*loop(call_id)))[0][0] == call_id
    longer = wire.called(wire.sent(*loop(ids[0]), *loop(*ids)))
    assert [one for one, _ in longer] == [made[0], *made]


def test_empty_ids_are_paired_by_name_and_order(wire_with_ids: Wire) -> None:
    wire = wire_with_ids
    one, other, third = (ToolCall("", name, {"n": n}) for n, name in enumerate(("add", "now", "now")))
    body = wire.sent(
        Message.user("?"),
        said(one, other),
        user(ToolResult("", "now", {"n": 1}), ToolResult("", "add", {"n": 0})),
        said(third),
        user(ToolResult("", "now", {"n": 2})),
    )
    assert len({call_id for call_id, _ in wire.called(body)}) == 3
    assert sorted(wire.called(body), key=str) == sorted(wire.answered(body), key=str)


@pytest.mark.parametrize("name", [name for name in WIRES if name != "anthropic"])
def test_a_call_without_an_id_gets_a_unique_one(name: str) -> None:
    wire = WIRES[name]
    twice = (calls("", "now"), calls("", "now"))
    first, second = wire.received(*twice).tool_calls
    assert first.id != second.id
    assert first.provider_metadata["harness"] == second.provider_metadata["harness"] == {SYNTHESISED_ID: True}
    assert wire.received(*twice).tool_calls == (first, second)
    taken = said(ToolCall(first.id, "f", {}), ToolCall(second.id, "f", {}), ToolCall("call_2_0", "f", {}))
    assert not {call.id for call in wire.received(*twice, history=(taken,)).tool_calls} & {
        call.id for call in taken.tool_calls
    }


PARAMETERS = {
    "anthropic": ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
    "openai-chat": ("openai.types.chat.completion_create_params", "CompletionCreateParamsNonStreaming"),
    "openai-responses": ("openai.types.responses.response_create_params", "ResponseCreateParamsNonStreaming"),
}
"""The SDKs' types of requests. Gemini's SDK has none for a body."""


@pytest.mark.parametrize("name", PARAMETERS)
def test_requests_fit_the_types_of_the_sdk(name: str) -> None:
    module, kind = PARAMETERS[name]
    validator = strict_validator(getattr(pytest.importorskip(module), kind))
    wire, picture = WIRES[name], Image("image/png", b"x")
    failed = ToolResult("a", "f", "station offline", is_error=True)
    seen = ToolResult("a", "f", (Text("a map"), picture, *(() if name == "anthropic" else (PDF,))))
    history = (Message.user("?"), said(Text("So."), ToolCall("a", "f", {"city": "Paris"})))
    requests = [
        asked(*loop("a", "b" * 70), Message.user("!"), system="S", tools=(WEATHER,), tool_choice="required"),
        asked(*history, user(failed, Text("go on")), response_format=JsonMode(), max_tokens=5),
        asked(*history, user(seen), tools=(WEATHER,), response_format=JsonSchema({"type": "object"})),
        asked(said(Text("A"), *([Refusal("No.")] if name == "openai-chat" else [])), user(Text("?"), picture, PDF)),
        asked(thinking=ThinkingSettings("low")),
        *([] if name == "anthropic" else [asked(model="gpt-4o", temperature=0.5, top_p=0.5)]),
    ]
    for request in requests:
        validator.validate_python(wire.sends(request), strict=True)


# --- any values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRES)
@settings(max_examples=30, deadline=None)
@given(arguments=JSON_OBJECTS, result=JSON_VALUES)
def test_any_json_survives_the_round_trip(name: str, arguments: dict[str, Any], result: Any) -> None:
    wire = WIRES[name]
    response = wire.received(calls("call_1", "f", json.dumps(arguments)))
    (call,) = response.tool_calls
    assert call.arguments == arguments
    body = wire.sent(Message.user("?"), response.message, user(ToolResult(call.id, "f", {"it": result})))
    assert wire.called(body) == [("call_1", arguments)]
    assert wire.answered(body) == [("call_1", {"it": result})]


_PDF, _SOUND = "JVBERi0xLjQ=", "SUQz"
MEDIA: dict[str, dict[str, Any]] = {
    "anthropic": {
        "file": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": _PDF}}
    },
    "openai-chat": {
        "file": {"type": "file", "file": {"filename": "file.pdf", "file_data": f"data:application/pdf;base64,{_PDF}"}},
        "sound": {"type": "input_audio", "input_audio": {"data": _SOUND, "format": "mp3"}},
    },
    "openai-responses": {
        "file": {"type": "input_file", "filename": "file.pdf", "file_data": f"data:application/pdf;base64,{_PDF}"}
    },
    "gemini": {
        "file": {"inlineData": {"mimeType": "application/pdf", "data": _PDF}},
        "sound": {"inlineData": {"mimeType": "audio/mpeg", "data": _SOUND}},
    },
}
"""Documents and sound on each API that accepts them."""


@pytest.mark.parametrize(("kind", "part"), [("file", PDF), ("sound", SOUND)])
def test_documents_and_sound_of_the_user_are_sent_or_refused(wire: Wire, kind: str, part: Part) -> None:
    on_wire = MEDIA.get(wire.adapter.api, {}).get(kind)
    if on_wire is None:
        assert wire.refuses(ChatRequest(messages=(user(Text("?"), part),))).feature
    else:
        assert json.dumps(on_wire) in json.dumps(wire.sent(user(Text("?"), part)))


def test_a_file_of_chat_completions_keeps_its_name() -> None:
    named = replace(PDF, provider_metadata={"openai-chat": {"file": {"filename": "invoice.pdf"}}})
    held = {"filename": "invoice.pdf", "file_data": f"data:application/pdf;base64,{_PDF}"}
    assert json.dumps({"type": "file", "file": held}) in json.dumps(WIRES["openai-chat"].sent(user(named)))
