"""The witness for OpenAI Responses against what providers really sent and took."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.limits import Violation
from harness.apis.openai_responses import API
from harness.apis.view import CallView, MediaView, OpaqueView, PartView, RequestView, ResultView, TextView
from harness.model.http import HttpRequest
from harness.model.messages import StopReason
from tests.apis import lawful
from tests.apis.pointers import resolve
from tests.traffic import Recorded, needs_traffic, recorded

CONVERSATIONS = ("openai-responses", "openai-compat-responses")
FOLDERS = (*CONVERSATIONS, "errors/openai-responses", "errors/openai-compat-responses")

pytestmark = needs_traffic


def violations(request: HttpRequest) -> list[Violation]:
    return lawful.violations(API, request, registry.api("openai-responses").profile_for(API.model_of(request) or ""))


def errors(request: HttpRequest) -> set[str]:
    return {violation.rule for violation in violations(request) if violation.severity == "error"}


def accepted() -> list[Recorded]:
    return [item for item in recorded(*CONVERSATIONS) if item.response.status == 200]


def changed(item: Recorded, body: dict[str, Any]) -> HttpRequest:
    return HttpRequest("POST", item.request.url, item.request.headers, json.dumps(body).encode())


def test_every_request_is_recognised() -> None:
    assert all(API.recognises(item.request) for item in recorded(*FOLDERS))


def check_part(body: Any, part: PartView) -> None:
    found = resolve(body, part.pointer)
    match part:
        case TextView():
            assert found == part.text
        case CallView():
            assert found["name"] == part.name
            assert found.get("id") == part.item_id
            assert resolve(body, part.id_pointer) == part.id
            assert json.loads(resolve(body, part.arguments_pointer) or "{}") == part.arguments
        case ResultView():
            assert resolve(body, part.id_pointer) == part.call_id
            for piece in part.payload:
                resolve(body, piece.pointer)
        case MediaView() | OpaqueView():
            assert "type" in found


def check_pointers(body: Any, view: RequestView) -> int:
    """Every pointer leads to what the view says. Gives the number of parts that were looked at."""
    for tool in view.tools:
        assert resolve(body, tool.pointer).get("name", tool.kind) == tool.name
    for system in view.system:
        assert resolve(body, system.pointer) == system.text
    for setting in view.settings.values():
        resolve(body, setting.pointer)
    parts = [part for turn in view.turns for part in turn.parts]
    for part in parts:
        check_part(body, part)
    return len(parts)


def test_every_request_is_viewed_with_pointers_that_lead_there() -> None:
    checked = sum(check_pointers(json.loads(item.request.body), API.view(item.request)) for item in recorded(*FOLDERS))
    assert checked > 900


def test_no_item_of_a_request_vanishes() -> None:
    for item in recorded(*FOLDERS):
        entries = json.loads(item.request.body)["input"]
        view = API.view(item.request)
        places = {turn.pointer for turn in view.turns}
        places |= {"/".join(system.pointer.split("/")[:3]) for system in view.system if system.place != "instructions"}
        wanted = {f"/input/{index}" for index in range(len(entries))} if isinstance(entries, list) else {"/input"}
        assert places == wanted


def test_every_response_is_read() -> None:
    stops = Counter[StopReason]()
    for item in recorded(*FOLDERS):
        view = API.read(item.response)
        stops[view.stop_reason] += 1
        assert view.complete
        assert (view.error is not None) is (item.response.status >= 400)
        if view.error is not None:
            assert view.error.status == item.response.status
            assert view.error.message
        elif view.stop_reason is not StopReason.PAUSE:
            assert view.usage.input_tokens is not None
            assert view.usage.output_tokens is not None
            assert view.model
        for part in view.parts:
            assert resolve(view.body, part.pointer) is not None
    assert stops[StopReason.TOOL_USE] > 140
    assert stops[StopReason.END_TURN] > 120
    assert stops[StopReason.PAUSE] == 2


def test_adding_up_a_stream_gives_what_its_last_event_says() -> None:
    """The terminal event repeats the whole response, so the deltas can be held against it."""
    compared = 0
    for item in recorded(*CONVERSATIONS):
        whole = API.read(item.response)
        if not whole.streamed:
            continue
        events = item.response.body.replace(b"\r\n", b"\n").split(b"\n\n")
        kept = [event for event in events if b'"type":"response.completed"' not in event.replace(b": ", b":")]
        assert len(kept) == len(events) - 1
        cut = API.read(type(item.response)(200, item.response.headers, b"\n\n".join(kept)))
        assert not cut.complete
        assert cut.stop_reason is StopReason.UNKNOWN
        assert cut.text == whole.text
        assert [(call.id, call.name, call.arguments) for call in cut.calls] == [
            (call.id, call.name, call.arguments) for call in whole.calls
        ]
        compared += 1
    assert compared > 50


def test_deltas_alone_add_up_to_the_items() -> None:
    compared = 0
    for item in recorded(*CONVERSATIONS):
        whole = API.read(item.response)
        if not whole.streamed:
            continue
        endings = (b"response.completed", b"response.output_item.done", b"_text.done", b"arguments.done", b"part.done")
        events = item.response.body.replace(b"\r\n", b"\n").split(b"\n\n")
        kept = [
            event for event in events if not any(b'"' + ending in event or ending + b'"' in event for ending in endings)
        ]
        assert len(kept) < len(events)
        added = API.read(type(item.response)(200, item.response.headers, b"\n\n".join(kept)))
        assert added.text == whole.text
        compared += len(whole.calls)
        for one, other in zip(added.calls, whole.calls, strict=True):
            assert one.arguments == other.arguments or (one.malformed == "" and other.arguments == {})
    assert compared > 25


def test_nothing_accepted_is_called_an_error() -> None:
    assert len(accepted()) > 270
    assert {(item.path, item.index): errors(item.request) for item in accepted() if errors(item.request)} == {}


@pytest.mark.parametrize(
    ("file", "rule"),
    [
        ("errors/openai-responses/pydantic-pydantic-ai-019-400.yaml", "openai-responses-parameter-range"),
        ("errors/openai-responses/pydantic-pydantic-ai-020-400.yaml", "openai-responses-reasoning-alone"),
        ("errors/openai-compat-responses/pydantic-pydantic-ai-003-400.yaml", "openai-responses-result-detached"),
    ],
)
def test_what_was_refused_for_its_shape_is_called_an_error(file: str, rule: str) -> None:
    (item,) = [item for item in recorded(*FOLDERS) if item.path == file]
    assert errors(item.request) == {rule}


def test_what_was_refused_for_another_cause_is_not() -> None:
    """Keys, models that do not exist, a context too long and file types that only the server can know."""
    unseen = [item for item in recorded(*FOLDERS) if item.response.status >= 400 and not errors(item.request)]
    codes = Counter(view.error.code for item in unseen if (view := API.read(item.response)).error)
    assert codes == {"invalid_api_key": 3, "unsupported_file": 3, "model_not_found": 1, "context_length_exceeded": 1}
