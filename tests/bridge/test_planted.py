"""Libraries with one fault each, wrapped by the bridge: each is red for its own fault, and the right one is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx2
import pytest

from harness import bridge
from harness.apis.registry import target_for, target_named
from harness.model.errors import ChatError, provider_error
from harness.model.messages import (
    JSON,
    ChatRequest,
    ChatResponse,
    Refusal,
    StopReason,
    StreamEvent,
    Text,
    ToolCall,
    Usage,
)
from harness.model.protocols import Adapter, ChatClient, Endpoint
from harness.results import CellResult, Kind, Severity, Verdict
from harness.runner.suite_run import Run
from tests.backends import InProcess
from tests.broken.fault import Wrap, answers, finishes, sends
from tests.broken.running import RULES, cell, run_cell, said

Edit = Callable[[dict[str, Any]], None]
"""Changes a choice, with its message or delta, that the library returns."""


class Library:
    """A library in OpenAI's format: it posts, and returns dictionaries."""

    def __init__(self, endpoint: Endpoint, edit: Edit, *, ends_silently: bool) -> None:
        self._http = cast("httpx2.Client", endpoint.http_client)
        self._url = f"{endpoint.base_url}/chat/completions"
        self._headers = {"authorization": f"Bearer {endpoint.api_key}"}
        self._edit, self._ends_silently = edit, ends_silently

    def whole(self, **body: Any) -> dict[str, Any]:
        response = self._http.post(self._url, headers=self._headers, json=body)
        if not response.is_success:
            raise provider_error(response.status_code, response.text)
        reported = response.json()
        self._edit(reported["choices"][0])
        return reported

    def stream(self, **body: Any) -> Iterator[dict[str, Any]]:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        with self._http.stream("POST", self._url, headers=self._headers, json=body) as response:
            done = False
            for line in response.iter_lines():
                done = done or line == "data: [DONE]"
                if line.startswith("data: {"):
                    chunk = json.loads(line.removeprefix("data: "))
                    for choice in chunk["choices"]:
                        self._edit(choice)
                    yield chunk
        if not done and not self._ends_silently:
            raise httpx2.ReadError("the stream was cut")


@dataclass
class Client:
    library: Library
    model: str

    def __post_init__(self) -> None:
        self._memory = bridge.Memory()

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        effort = {"reasoning_effort": "none"} if request.tools else {}
        body = bridge.completion_request(request, self._memory)
        bound = {"max_completion_tokens": body.pop("max_tokens")} if "max_tokens" in body else {}
        return {"model": self.model, **body, **bound, **effort}

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            return bridge.response(self.library.whole(**self._body(request)), request, self._memory)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            yield from bridge.events(self.library.stream(**self._body(request)), request, self._memory)

    def close(self) -> None: ...


def wrapped(edit: Edit = lambda _: None, *, ends_silently: bool = False) -> Wrap:
    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            return Client(Library(endpoint, edit, ends_silently=ends_silently), model)

        return replace(adapter, connect=connect)

    return wrap


def _calls(choice: dict[str, Any]) -> list[dict[str, Any]]:
    return (choice.get("message") or choice.get("delta") or {}).get("tool_calls") or []


def _says_stop(choice: dict[str, Any]) -> None:
    if choice.get("finish_reason") == "tool_calls":
        choice["finish_reason"] = "stop"


def _closes_cut_arguments(choice: dict[str, Any]) -> None:
    if choice.get("finish_reason") == "length":
        for call in _calls(choice):
            call["function"]["arguments"] = "{}"


def _one_index(choice: dict[str, Any]) -> None:
    for call in _calls(choice):
        call["index"] = 0


def _no_text(choice: dict[str, Any]) -> None:
    for call in _calls(choice):
        if call["function"].get("arguments") == "{}":
            call["function"]["arguments"] = ""


def _no_id(choice: dict[str, Any]) -> None:
    for call in _calls(choice):
        call["id"] = None


PLANTED = [
    pytest.param("stream-cut-before-end", "stream", wrapped(ends_silently=True), "stream-cut", id="cut stream ends"),
    pytest.param("call-single", "whole", wrapped(_says_stop), "library-stop-reason", id="stop beside calls"),
    pytest.param("call-truncated", "whole", wrapped(_closes_cut_arguments), "truncated-call", id="cut call mended"),
    pytest.param("call-parallel-same-tool", "stream", wrapped(_one_index), "library-call-indices", id="one index"),
    pytest.param("call-empty-arguments", "whole", wrapped(_no_text), "library-empty-arguments", id="empty arguments"),
    pytest.param("call-single", "whole", wrapped(_no_id), "issued-id-lost", id="id lost"),
]


def _run(scenario: str, variant: Any, wrap: Wrap) -> CellResult:
    return run_cell(scenario, "openai-chat", wrap, variant=variant)


@pytest.mark.parametrize(("scenario", "variant", "planted", "rule"), PLANTED)
def test_a_library_is_red_for_its_own_fault(scenario: str, variant: str, planted: Wrap, rule: str) -> None:
    result = _run(scenario, variant, planted)
    errors = {finding.rule for finding in result.findings if finding.severity is Severity.ERROR}
    assert rule in errors, said(result.findings) or result.reason
    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize(("scenario", "variant", "_planted", "rule"), PLANTED)
def test_the_right_library_is_not(scenario: str, variant: str, _planted: Wrap, rule: str) -> None:
    result = _run(scenario, variant, wrapped())
    assert rule not in {finding.rule for finding in result.findings}, said(result.findings)
    assert not [finding for finding in result.findings if finding.severity is Severity.ERROR], said(result.findings)


def test_a_cut_call_from_a_library_is_a_warning() -> None:
    result = _run("call-truncated", "whole", wrapped())
    found = [finding for finding in result.findings if finding.rule == "library-cut-call"]
    assert [finding.severity for finding in found] == [Severity.WARNING]
    assert "cut by max_tokens" in found[0].message


def _says_it(_api: str, body: dict[str, Any]) -> None:
    for message in body["messages"]:
        message["content"] = message["content"].replace("JSON", "it")


def test_an_absent_metadata_field_is_no_fault() -> None:
    result = _run("json-mode-unmentioned", "whole", wrapped())
    assert {(finding.rule, finding.kind) for finding in result.findings} == {
        ("openai-chat-json-word", Kind.CONVENTION),
        ("chat-refused", Kind.CONVENTION),
    }, said(result.findings)


def test_a_word_of_the_callers_that_a_library_loses_is() -> None:
    result = _run("json-mode", "whole", lambda adapter: sends(_says_it)(wrapped()(adapter)))
    limits = [finding.kind for finding in result.findings if finding.rule == "openai-chat-json-word"]
    assert limits == [Kind.LIMIT], said(result.findings)


def _worded(word: str) -> Wrap:
    """An answer that came to a stop sequence ends by a word of the library's own."""
    return answers(lambda answer: replace(answer, stop_reason=StopReason.END_TURN, raw_stop_reason=word))


@pytest.mark.parametrize(("word", "kind"), [("stop", Kind.CONVENTION), ("end_turn", Kind.LOSS)])
def test_a_lost_stop_sequence_is_found(word: str, kind: Kind) -> None:
    result = run_cell("stop-sequence", "anthropic", _worded(word))
    assert [(finding.rule, finding.kind) for finding in result.findings] == [("stop-reason", kind)]


@pytest.mark.parametrize(
    ("missing", "lost"),
    [((), {"max_tokens", "temperature", "top_p"}), (("top_p",), {"max_tokens", "temperature"})],
)
def test_only_settings_that_a_client_can_take_are_lost(missing: tuple[str, ...], lost: set[str]) -> None:
    def drop(_api: str, body: dict[str, Any]) -> None:
        body["generationConfig"] = {}

    reported: dict[str, JSON] = {"no-settings": [*missing]}
    named = answers(lambda answer: replace(answer, reported={**answer.reported, **reported}))
    result = run_cell("settings-sampling", "gemini-2.5", lambda adapter: named(sends(drop)(adapter)))

    found = [finding for finding in result.findings if finding.rule == "setting-lost"]
    assert {finding.case for finding in found} == lost, said(result.findings)


@pytest.mark.parametrize(("reported", "kind"), [({"no-refusal": True}, {Kind.CONVENTION}), ({}, {Kind.LOSS})])
def test_a_client_that_has_only_texts_may_return_a_refusal_as_one(reported: dict[str, Any], kind: set[Kind]) -> None:
    def as_text(answer: ChatResponse) -> ChatResponse:
        parts = tuple(Text(part.text) if isinstance(part, Refusal) else part for part in answer.message.parts)
        message = replace(answer.message, parts=parts)
        return replace(answer, message=message, stop_reason=StopReason.END_TURN, reported=reported)

    result = run_cell("stop-refusal", "openai-chat", answers(as_text))
    found = {finding.kind for finding in result.findings if finding.rule in ("response-text", "stop-reason")}
    assert found == kind, said(result.findings)


@pytest.mark.parametrize(
    ("own", "left_out", "kind"), [(True, 0, Kind.CONVENTION), (True, 1, Kind.LOSS), (False, 0, Kind.LOSS)]
)
def test_cached_tokens_may_be_counted_as_input_by_a_client(own: bool, left_out: int, kind: Kind) -> None:
    def without(answer: ChatResponse) -> ChatResponse:
        counts = replace(answer.usage, cache_read_tokens=None)
        counts = replace(counts, input_tokens=(counts.input_tokens or 0) - left_out)
        return replace(answer, usage=counts, reported={"own-counts": own})

    result = run_cell("usage-cached-prompt", "openai-chat", answers(without))
    found = [each for each in result.findings if each.rule == "usage-offered" and "cache_read" in each.message]
    assert {each.kind for each in found} == {kind}, said(result.findings)


@pytest.mark.parametrize(
    ("reason", "kind"), [(StopReason.REFUSAL, {Kind.CONVENTION}), (StopReason.END_TURN, {Kind.LOSS})]
)
def test_a_refusal_without_words_may_get_a_text_of_the_client(reason: StopReason, kind: set[Kind]) -> None:
    def with_words(answer: ChatResponse) -> ChatResponse:
        message = replace(answer.message, parts=(Text("[SAFETY]"),))
        return replace(answer, message=message, stop_reason=reason)

    result = run_cell("stop-refusal", "gemini-3", answers(with_words))
    assert {each.kind for each in result.findings if each.rule == "response-text"} == kind, said(result.findings)


def test_lost_refusals_of_a_client_are_reported_once() -> None:
    def without(answer: ChatResponse) -> ChatResponse:
        parts = tuple(part for part in answer.message.parts if not isinstance(part, Refusal))
        message = replace(answer.message, parts=parts)
        return replace(answer, message=message, stop_reason=StopReason.END_TURN, reported={"no-refusal": True})

    result = run_cell("stop-refusal", "openai-chat", answers(without))
    assert {each.rule for each in result.findings if each.kind is Kind.LOSS} == {"response-refusal"}


def test_a_stream_that_fails_shows_no_need_of_token_counts() -> None:
    def uncounted(_api: str, body: dict[str, Any]) -> None:
        body.pop("stream_options", None)

    result = run_cell("stream-cut-in-arguments", "openai-chat", sends(uncounted), variant="stream")
    assert {each.kind for each in result.findings if each.rule == "stream-requested"} == {Kind.CONVENTION}


def test_another_service_may_send_the_token_counts_without_a_request() -> None:
    def uncounted(_api: str, body: dict[str, Any]) -> None:
        body.pop("stream_options", None)

    own = cell("stream-split-characters", "openai-chat", sends(uncounted), "stream")
    at_mistral = replace(own, target=target_for(target_named("mistral"), own.target.adapter, {}))
    result = Run(InProcess(), RULES, strict=True)([at_mistral]).cells[0]
    assert {each.kind for each in result.findings if each.rule == "stream-requested"} == {Kind.CONVENTION}


@pytest.mark.parametrize(("reported", "kind"), [({"no-usage": True}, Kind.CONVENTION), ({}, Kind.LOSS)])
def test_a_client_without_token_counts_need_not_request_them(reported: dict[str, Any], kind: Kind) -> None:
    def uncounted(_api: str, body: dict[str, Any]) -> None:
        body.pop("stream_options", None)

    ended = finishes(lambda answer: replace(answer, usage=Usage(), reported=reported))
    wrap = sends(uncounted)
    result = run_cell("stream-split-characters", "openai-chat", lambda each: ended(wrap(each)), variant="stream")
    assert {finding.kind for finding in result.findings if finding.rule == "stream-requested"} == {kind}


def _joined_to_the_first(answer: ChatResponse) -> ChatResponse:
    """A client that adds the arguments of all calls to the first one, which is no JSON object then."""
    first, *others = [part for part in answer.message.parts if isinstance(part, ToolCall)]
    message = replace(answer.message, parts=tuple(replace(each, arguments={}) for each in others))
    joined: JSON = [{"name": first.name, "arguments": '{"city": "Paris"}{"city": "Tokyo"}'}]
    return replace(
        answer, message=message, stop_reason=StopReason.MALFORMED_CALL, reported={"unreadable-calls": joined}
    )


def test_arguments_that_are_joined_to_another_call_are_shown_once() -> None:
    result = run_cell("call-parallel-same-tool", "openai-chat", finishes(_joined_to_the_first), variant="stream")
    shown = [each for each in result.findings if each.severity is Severity.ERROR and each.follows is None]
    assert "response-calls" in {each.rule for each in shown}, said(result.findings)
    assert "stop-reason" not in {each.rule for each in shown}, said(result.findings)
    found = next(each for each in shown if each.rule == "response-calls")
    assert found.message == "the arguments of get_weather are returned as text that is not a JSON object"
    assert found.actual == '{"city": "Paris"}{"city": "Tokyo"}'


def _without_last_call(answer: ChatResponse) -> ChatResponse:
    """A library that returns only the first of two calls. Its wrapper takes that one for the truncated call."""
    parts = tuple(part for part in answer.message.parts if not isinstance(part, ToolCall))
    left_out: JSON = [{"name": each.name, "arguments": json.dumps(dict(each.arguments))} for each in answer.tool_calls]
    reported = {"unreadable-calls": left_out} if left_out else {}
    return replace(answer, message=replace(answer.message, parts=parts), reported=reported)


def test_a_call_with_readable_arguments_is_reported_as_missing() -> None:
    result = run_cell("call-truncated-parallel", "anthropic", answers(_without_last_call))
    found = next(each for each in result.findings if each.rule == "response-calls")
    assert found.message == "the answer has 1 call, but the adapter returns 0"


@pytest.mark.parametrize(("reported", "kind"), [({"no-stop-reason": True}, Kind.CONVENTION), ({}, Kind.LOSS)])
def test_no_stop_reason_is_less_than_a_wrong_one(reported: dict[str, Any], kind: Kind) -> None:
    ended = answers(lambda answer: replace(answer, stop_reason=StopReason.END_TURN, reported=reported))
    result = run_cell("stop-max-tokens", "openai-chat", ended)
    assert [finding.kind for finding in result.findings if finding.rule == "stop-reason"] == [kind]


def _raised(reason: StopReason, error: Exception) -> Wrap:
    """A client that raises an exception for answers with a stop reason."""

    def edit(answer: ChatResponse) -> ChatResponse:
        if answer.stop_reason is reason:
            raise error
        return answer

    return answers(edit)


@pytest.mark.parametrize(
    ("scenario", "raised", "kind"),
    [
        ("stop-max-tokens", _raised(StopReason.MAX_TOKENS, ChatError("cut off")), Kind.CONVENTION),
        ("stop-refusal", _raised(StopReason.REFUSAL, ChatError("refused")), Kind.CONVENTION),
        ("stop-max-tokens", _raised(StopReason.MAX_TOKENS, KeyError("length")), Kind.LOSS),
        ("call-single", _raised(StopReason.TOOL_USE, ChatError("no calls, please")), Kind.LOSS),
    ],
)
def test_an_incomplete_answer_may_become_an_error_of_the_client(scenario: str, raised: Wrap, kind: Kind) -> None:
    result = run_cell(scenario, "openai-chat", raised)
    found = {each.kind for each in result.findings if each.rule == "chat-failure"}
    assert found == {kind}, said(result.findings)
