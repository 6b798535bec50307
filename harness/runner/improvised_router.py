"""Answers the requests of programs that bring their own prompts and tools.

The script of a conversation is made from its first request. The model writes a text and calls the first declared tool
twice in parallel, with different texts as arguments. Then it calls the next tool once, and then answers. If the request
allows one call at a time, the first tool is also called once. Arguments are the simplest values that fit a tool's
schema. Without tools, the model answers immediately. The answer has the JSON format that the request asks for, if any.
A format applies to every text, so there is none before the calls then. If the first request forces a call, there is
none either, and the model calls all tools that it may call. A tool whose name or description means that it ends the
conversation is called last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from typing import Literal
from urllib.parse import urlsplit

from harness.apis.api import Api, missing_version
from harness.apis.improvised_calls import ends_conversation, example_value
from harness.apis.view import Provocation, RequestView, TextView, ToolView, WireError
from harness.model.http import SERVICE_HEADER, HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.runner.serve_router import Notify, ServeRouter, served_apis
from harness.runner.served_session import ServedSession, SessionOptions
from harness.scenarios.schema import Scenario

BASE_PATH = "/program/1"
"""Path of the base URL of all conversations."""

ANSWER = "Done. The answer is 42."
"""The model's final answer, if the request asks for no format."""

CUT_ANSWER = "Done. The answ"
"""The same answer, cut off by `max_tokens` inside a word."""

_LATER_ANSWER = "Done. It is the same."
"""The model's final answer to later questions."""

DIVIDED_ANSWER = ("It has been found.", " The answer is 42.")
"""The same answer in two parts, as text blocks of equal length."""

TEXT_BEFORE_CALLS = "Let me look."
"""Text of an answer with calls."""

_UNKNOWN_TOOL = "no_such_tool"

QUESTIONS = ("What is the first one?", *(f"And what is number {number}?" for number in range(2, 13)))
"""Questions of the user in a conversation of many turns."""

FirstAnswer = Literal[
    "two calls",
    "one call",
    "unknown tool",
    "cut call",
    "cut text",
    "filtered text",
    "divided text",
    "error",
    "stream error",
    "many turns",
]
"""Kind of the first answer of an improvised conversation with tools. With `cut text`, it has one call, and the final
answer is cut off. With `filtered text`, a filter of the provider cuts it off. With `divided text`, it has one call, and
each text has two parts. With `stream error`, it is the final answer, and a stream of it ends with an error after a part
of the text. With `many turns`, it has one call, and the user asks all `QUESTIONS`, one after each final answer. With
`cut call`, the user asks the second one as well.
"""


_STOPS: Mapping[FirstAnswer, str] = {"cut text": "max_tokens", "filtered text": "refusal"}
"""Stop reasons of final answers that are cut off."""

_PROVOCATIONS: Mapping[FirstAnswer, Provocation] = {
    "divided text": Provocation.TEXT_BLOCKS,
    "many turns": Provocation.INTERLEAVED_CALLS,
}
"""Unusual behaviour of the API, if it permits it."""


class ImprovisedRouter(ServeRouter):
    """Responds to every request below `BASE_PATH` with a script that fits its conversation.

    A conversation is recognised by its first user message, by the stored answer that a request continues, or by the ids
    of its calls. `first` is the kind of its first answer. The ids of conversations begin with `name`.
    """

    def __init__(
        self, terms: SessionOptions, notify: Notify, first: FirstAnswer = "two calls", name: str = "conversation"
    ) -> None:
        plain = improvised_scenario(f"{name}-0", None)
        self._name = name
        self._first: FirstAnswer = first
        super().__init__([plain], {}, terms, notify)
        self._plain = plain
        self._improvised: dict[str, Scenario] = {}
        self._failures: dict[tuple[str, bytes], HttpResponse] = {}
        self._service_models: frozenset[str] = frozenset()
        self.first_request: HttpRequest | None = None
        self.has_redirected = False
        self.repeats = 0
        """Number of requests that repeat a failed one unchanged. They fail again."""
        self.sent: list[tuple[HttpRequest, HttpResponse]] = []
        """All requests to an API and their responses, of all conversations."""

    def _response(self, request: HttpRequest) -> HttpResponse:
        base = self.origin + BASE_PATH
        if request.url.startswith(base):
            request = replace(request, url=base + _with_one_version(request.url.removeprefix(base)))
        for wire in served_apis():
            if wire.recognises(replace(request, body=wire.least_body)):
                return self._response_from(wire, request)
        return self._to_conversation(request, self._plain, "1")

    def _response_from(self, wire: Api, request: HttpRequest) -> HttpResponse:
        self.first_request = self.first_request or request
        response = self._answer_to(wire, self._without_redirection(wire, request))
        self.sent.append((request, response))
        return response

    def _answer_to(self, wire: Api, request: HttpRequest) -> HttpResponse:
        key = (request.url, request.body)
        if key in self._failures:
            self.repeats += 1
            return self._failures[key]
        response = self._response_for(self._scenario_for(wire, request), "1", wire, request)
        if self._first == "error" and response.status == HTTPStatus.BAD_REQUEST:
            self._failures[key] = response
        return response

    def _without_redirection(self, wire: Api, request: HttpRequest) -> HttpRequest:
        """Return a request as its service would get it, and note that the program's base URL is fixed, if it is.

        Other services than the provider's own have other models, and may have a header of their own for the key.
        """
        service = request.headers.get(SERVICE_HEADER)
        if service is None:
            return request
        self.has_redirected = True
        headers = {name: value for name, value in request.headers.items() if name != SERVICE_HEADER}
        if urlsplit(service).hostname != urlsplit(wire.provider_url).hostname:
            headers = {"authorization": "Bearer none", **headers}
            model = wire.model_of(request)
            self._service_models |= {model} if model else frozenset()
        return replace(request, headers=headers)

    def _scenario_for(self, wire: Api, request: HttpRequest) -> Scenario:
        try:
            view = wire.view(request)
        except WireError:
            return self._plain
        first = next((part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView)), "")
        key = hashlib.sha256(f"{wire.name} {first}".encode()).hexdigest()
        continued = self._continued_conversation(wire, view, is_new=key not in self._improvised)
        if continued is not None:
            return continued.scenario
        with self._lock:
            if key not in self._improvised:
                try:
                    number = len(self._improvised) + 1
                    made = improvised_scenario(f"{self._name}-{number}", view, first, self._first)
                    if (provocation := _PROVOCATIONS.get(self._first)) in wire.provocations:
                        made = made.model_copy(update={"provocations": [provocation]})
                except (
                    ValueError,
                    TypeError,
                    LookupError,
                    AttributeError,
                ):  # no script fits such a tool
                    made = self._plain
                self._improvised[key] = self._scenarios[made.id] = made
            return self._improvised[key]

    def _continued_conversation(self, wire: Api, view: RequestView, *, is_new: bool) -> ServedSession | None:
        """Return the conversation whose stored answer a request continues.

        If its first message is new, return the one whose calls it contains: a program may have removed the first
        message.
        """
        ids = {*(each.id for each in view.calls), *(each.call_id for each in view.results)}
        for each in self.conversations():
            continues = view.continues is not None and each.has_stored(view.continues)
            if each.wire is wire and (continues or (is_new and each.has_issued(ids))):
                return each
        return None

    def ended_with_call(self) -> frozenset[str]:
        """Return the conversations whose last answer may be the program's result: it calls a tool that ends the
        conversation, or the request forced a call.
        """
        found = set[str]()
        for each in self.conversations():
            last = next(reversed(each.evidence(ended=True).parsed_exchanges), None)
            if last is None or last.request is None or last.answer is None:
                continue
            tools = {tool.name: tool for tool in last.request.tools}
            is_end = any(call.name in tools and ends_conversation(tools[call.name]) for call in last.answer.calls)
            if is_end or (forces_calls(last.request) and (last.answer.calls or last.is_made_up)):
                found.add(each.scenario.id)
        return frozenset(found)

    def answers_in_first_turn(self, scenario: str) -> int:
        """Return the number of the model's answers to the first question of a conversation."""
        return len(self._scenarios[scenario].turns[0].model)

    @property
    def has_tools(self) -> bool:
        """Return whether a request declared tools."""
        return any(each.tools for each in self._improvised.values())

    @property
    def can_divide_texts(self) -> bool:
        """Return whether a conversation's API may divide a text into several parts."""
        return any(Provocation.TEXT_BLOCKS in each.wire.provocations for each in self.conversations())

    @property
    def may_filter_texts(self) -> bool:
        """Return whether a conversation's API may cut an answer off by a filter. OpenAI Chat does so only on Azure."""
        return any(each.wire.name != "openai-chat" for each in self.conversations())

    def _models(self, wire: Api) -> tuple[str, ...]:
        return (*super()._models(wire), *self._service_models)

    def _base_url(self, scenario: Scenario, session: str) -> str:  # noqa: ARG002 - all conversations share it
        return self.origin + BASE_PATH


def _with_one_version(path: str) -> str:
    """Return the path of an API for one that lacks the version, or has two of them: the program's base URL need not end
    as the one that it got.
    """
    bare, _, query = path.partition("?")
    for each in (bare, re.sub(r"^/v\d\w*(?=/)", "", bare)):
        for wire in served_apis():
            version = "" if wire.paths is not None and wire.paths.fullmatch(each) else missing_version(wire, each)
            if version is not None:
                return f"{version}{each}{'?' if query else ''}{query}"
    return path


def improvised_scenario(
    scenario_id: str, view: RequestView | None, user: str = "", first: FirstAnswer = "two calls"
) -> Scenario:
    """Return a scenario for a conversation that begins with this request, and with this kind of answer."""
    declared = [] if view is None else [each for each in view.tools if each.kind == "function"]
    # two calls of the first one are to have different arguments
    declared.sort(key=lambda each: not _takes_different_arguments(each))
    called, ending = _tools_to_call(declared, view)
    faults: dict[FirstAnswer, JSON] = {"error": {"status": 400}, "stream error": {"stream_error": 503}}
    tools: list[JSON] = [
        {
            "name": each.name,
            "description": each.description or each.name,
            "parameters": each.parameters if isinstance(each.parameters, dict) else {"type": "object"},
            "answered_by": "client",
        }
        for each in declared
    ]
    calls = [_example_call(each) for each in called]
    end: list[JSON] = [{"calls": [_example_call(each)]} for each in ending]
    calls, end = ([], []) if first == "stream error" else (calls, end)
    is_sequential = _names_tool(view) or (view is not None and "one_call" in view.settings)
    one_call = first != "two calls" or is_sequential
    answer_format = view.response_format if view is not None else None
    script: list[dict[str, JSON]] = [{"calls": [call]} for call in calls]
    if calls:
        other = _example_call(called[0], other=True)
        is_silent = answer_format is not None or forces_calls(view)
        text: dict[str, JSON] = {} if is_silent else {"text": TEXT_BEFORE_CALLS}
        script[0] = {**text, "calls": [other] if one_call else [calls[0], other]}
    if calls and first == "unknown tool" and not _names_tool(view):
        script = [{"calls": [{_UNKNOWN_TOOL: {}}]}, *(script if forces_calls(view) else [])]
    if first == "cut call" and any(value for call in calls[:1] for value in call.values()):
        script = [{"calls": [calls[0]], "truncated": True}]
    final: dict[str, JSON] = {"text": ANSWER}
    later: dict[str, JSON] = {"text": _LATER_ANSWER}
    if answer_format is not None:
        final = later = {"text": json.dumps(example_value(answer_format.schema or {"type": "object"}, {}))}
    elif first in _STOPS:
        final = {"text": CUT_ANSWER, "stop": _STOPS[first]}
    elif first == "divided text":
        final = {"text": "".join(DIVIDED_ANSWER)}
    turns: Sequence[list[dict[str, JSON]]] = [script]
    if first == "many turns":
        is_forced = forces_calls(view)
        turns = [script] * len(QUESTIONS) if is_forced else [*_many_turns(called, is_sequential=is_sequential)]
    elif first == "cut call":
        turns = [script, []]
    users = [user or "Hello", *QUESTIONS[1:]]
    made = {
        "version": 1,
        "id": scenario_id,
        "title": "A conversation of the program",
        "covers": ["tools"],
        "requires": [
            *(["tools"] if calls or end else []),
            *(["parallel-tool-calls"] if any(map(_is_parallel, chain(*turns))) else []),
        ],
        "scripted": first in ("cut call", "divided text", *_STOPS, *faults),
        "faults": [faults[first]] if first in faults else [],
        "system_from": "client",
        "tools": tools,
        "undeclared_tools": [_UNKNOWN_TOOL] if calls and first == "unknown tool" else [],
        "turns": [
            {"user": text, "model": [*steps, *end, final if index == 0 else later]}
            for index, (text, steps) in enumerate(zip(users, turns, strict=False))
        ],
    }
    return Scenario.model_validate_json(json.dumps(made))


def _many_turns(called: Sequence[ToolView], *, is_sequential: bool) -> Iterator[list[dict[str, JSON]]]:
    """Yield the answers with calls, for each of `QUESTIONS`.

    In the first two turns, each call is the only one of an answer before it is one of two, so that its result is known.
    """
    calls: list[JSON] = [] if not called else [_example_call(called[0]), _example_call(called[0], other=True)]
    others: list[JSON] = [*calls[:1], *map(_example_call, called[1:2])]
    for pair in (calls, others):
        parallel: list[dict[str, JSON]] = [{"calls": [*reversed(pair)]}] if len(pair) > 1 and not is_sequential else []
        yield [*({"calls": [each]} for each in pair), *parallel]
    for _ in QUESTIONS[2:]:
        yield [{"calls": [each]} for each in calls[:1]]


def _is_parallel(step: Mapping[str, JSON]) -> bool:
    calls = step["calls"]
    return isinstance(calls, list) and len(calls) > 1


def _tools_to_call(declared: Sequence[ToolView], view: RequestView | None) -> tuple[list[ToolView], list[ToolView]]:
    """Return the tools that the model calls, and the one that ends the conversation, if any."""
    choice = view.tool_choice if view is not None else None
    allowed = [choice.name] if choice is not None and choice.name else choice.allowed if choice is not None else None
    callable_tools = [each for each in declared if allowed is None or each.name in allowed] or [*declared]
    ending = [each for each in callable_tools if ends_conversation(each)][-1:]
    others = [each for each in callable_tools if each not in ending]
    return others[: _MAX_FORCED_TOOLS if forces_calls(view) else _MAX_TOOLS], ending


def forces_calls(view: RequestView | None) -> bool:
    """Return whether a request forces the model to call a tool. A program may use such a call as its answer."""
    return view is not None and view.tool_choice is not None and view.tool_choice.mode in ("required", "named")


def _names_tool(view: RequestView | None) -> bool:
    return view is not None and view.tool_choice is not None and view.tool_choice.mode == "named"


_MAX_TOOLS, _MAX_FORCED_TOOLS = 2, 6
"""Number of tools that the model calls, and their number if each answer must call one."""


def _example_call(tool: ToolView, *, other: bool = False) -> dict[str, JSON]:
    return {tool.name: example_value(tool.parameters or {}, {}, other=other)}


def _takes_different_arguments(tool: ToolView) -> bool:
    return _example_call(tool) != _example_call(tool, other=True)
