"""Ids of calls that are the library's own affair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

from harness.contract.model import ChatRequest, ChatResponse, Part, ToolCall
from harness.results import Verdict
from tests.broken.fault import OPENAI, WITH_IDS, Wrap, Wrapped, answers_parts, client, edited_message, sends
from tests.broken.ids import renamed
from tests.unusual.form import Form

_PREFIX = "mylib|"


class _Decorating(Wrapped):
    """Ids carry a prefix for the caller, and none on the wire."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        return replace(response, message=edited_message(response.message, _decorated))

    def ask(self, request: ChatRequest) -> ChatRequest:
        return renamed(request, lambda old: old.removeprefix(_PREFIX))


class _Leaking(_Decorating):
    """The prefix stays on the calls, and is gone from their results."""

    def ask(self, request: ChatRequest) -> ChatRequest:
        return renamed(request, lambda old: old.replace("|", "_"), lambda old: old.removeprefix(_PREFIX))


def _decorated(part: Part) -> Part:
    return replace(part, id=_PREFIX + part.id) if isinstance(part, ToolCall) else part


def _random_on_wire(*, pairs: bool) -> Wrap:
    """Gemini without ids: the library makes some, at random, for calls and results."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        ids: list[str] = []
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    ids.append(f"call_{uuid4().hex}")
                    part["functionCall"]["id"] = ids[-1]
                if "functionResponse" in part:
                    part["functionResponse"]["id"] = ids.pop(0) if pairs else f"call_{uuid4().hex}"

    return sends(edit)


def _random_for_caller(part: Part) -> Part:
    return replace(part, id=uuid4().hex, provider_metadata={}) if isinstance(part, ToolCall) else part


class _Remapping(Wrapped):
    """Ids of another API become random ones, for each conversation anew."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.names: dict[str, str] = {}

    def ask(self, request: ChatRequest) -> ChatRequest:
        foreign = {old for old in _first_ids(request) if old.startswith("toolu_01")}
        return renamed(request, lambda old: self.name(old) if old in foreign else old)

    def name(self, old: str) -> str:
        return self.names.setdefault(old, f"call_{uuid4().hex[:24]}")


class _Merging(_Remapping):
    def name(self, old: str) -> str:
        return self.names.setdefault("any", f"call_{uuid4().hex[:24]}")


def _first_ids(request: ChatRequest) -> list[str]:
    return [call.id for message in request.messages[:3] for call in message.tool_calls]


FORMS = (
    Form(
        "ids-decorated",
        "an id that is decorated for the caller and stripped on the wire",
        "call-parallel-same-tool",
        WITH_IDS,
        client(_Decorating),
        client(_Leaking),
        "call-id-changed",
    ),
    Form(
        "ids-random-on-wire",
        "random ids where no API issued any",
        "call-parallel-same-tool",
        ("gemini-2.5",),
        _random_on_wire(pairs=True),
        _random_on_wire(pairs=False),
        "result-orphan",
        Verdict.NOTE,
        frozenset({"synthesised-id-sent"}),
    ),
    Form(
        "ids-random-for-caller",
        "random ids for the caller where no API issued any",
        "call-single",
        ("gemini-2.5",),
        answers_parts(_random_for_caller),
        answers_parts(lambda part: replace(part, id="") if isinstance(part, ToolCall) else part),
        "synthesised-id-unique",
        Verdict.NOTE,
        frozenset({"synthesised-id-marked", "synthesised-id-sent"}),
    ),
    Form(
        "foreign-ids-random",
        "foreign ids mapped at random, one-to-one",
        "history-anthropic-ids",
        OPENAI,
        client(_Remapping),
        client(_Merging),
        "foreign-id-mapping",
    ),
)
