"""Faults at the system prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.model import ChatRequest, Message, Role, Text
from harness.protocols import StreamingChatClient
from tests.broken.fault import OPENAI, Fault, Wrap, Wrapped, asks, client, sends
from tests.broken.places import BODY, SYSTEM, SYSTEM_IN_CONVERSATION, TEXT


def prompt(edit: Callable[[str], str | None]) -> Wrap:
    """The system prompt is changed on its way, where there is one."""
    return asks(lambda request: replace(request, system=edit(request.system)) if request.system else request)


def _as_user_text(request: ChatRequest) -> ChatRequest:
    """The system prompt in front of the first user message, for want of a field."""
    first = request.messages[0]
    if not request.system or not first.text:
        return request
    changed = replace(first, parts=(Text(f"{request.system}\n\n{first.text}"),))
    return replace(request, system=None, messages=(changed, *request.messages[1:]))


def _as_first_message(request: ChatRequest) -> ChatRequest:
    if not request.system:
        return request
    return replace(request, system=None, messages=(Message.user(request.system), *request.messages))


def _once_per_turn(request: ChatRequest) -> ChatRequest:
    """One copy more with every user turn."""
    turns = sum(message.role is Role.USER and not message.tool_results for message in request.messages)
    return replace(request, system="\n".join([request.system] * turns)) if request.system else request


def _first_turn_only(request: ChatRequest) -> ChatRequest:
    return replace(request, system=None) if len(request.messages) > 1 else request


class _FirstPrompt(Wrapped):
    """Sends for ever the system prompt that it saw first."""

    prompt: str | None = None

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.prompt = self.prompt or request.system
        return replace(request, system=self.prompt)


class _AllPrompts(Wrapped):
    """Appends a changed system prompt to those before it."""

    def __init__(self, inner: StreamingChatClient) -> None:
        super().__init__(inner)
        self.prompts: list[str] = []

    def ask(self, request: ChatRequest) -> ChatRequest:
        if request.system and request.system not in self.prompts:
            self.prompts.append(request.system)
        return replace(request, system="\n".join(self.prompts) or None)


def _filled_in(text: str) -> str:
    return text.replace("{{name}}", "Ada")


def _second_message(api: str, body: dict[str, Any]) -> None:
    """The system prompt once more, right before what the user says last."""
    if (body.get("messages") or body["input"])[-1].get("role") != "user":
        return
    if api == "openai-chat":
        body["messages"].insert(-1, dict(body["messages"][0]))
    elif body.get("instructions"):
        body["input"].insert(-1, {"role": "system", "content": body["instructions"]})


def _moved_behind(api: str, body: dict[str, Any]) -> None:
    """The system prompt as a message behind the first turns, where the API wants it in front."""
    if len(body.get("messages") or body["input"]) < 3:
        return
    if api == "openai-chat":
        body["messages"].insert(-1, body["messages"].pop(0))
    else:
        body["input"].insert(-1, {"role": "system", "content": body.pop("instructions")})


def _without_markup(request: ChatRequest) -> ChatRequest:
    """Lines that look like a system prompt are taken out of what the user says."""
    messages = tuple(
        replace(m, parts=tuple(Text(p.text.replace("system", "")) if isinstance(p, Text) else p for p in m.parts))
        for m in request.messages
    )
    return replace(request, messages=messages)


FAULTS = (
    Fault("system-in-first-user-text", asks(_as_user_text), "system-plain", "system-in-message", TEXT, 0),
    Fault("system-as-first-message", asks(_as_first_message), "system-with-tools", "system-in-message", TEXT, 0),
    Fault("system-repeated-each-turn", asks(_once_per_turn), "system-changed", "system-repeated", SYSTEM),
    Fault(
        "system-as-second-message",
        sends(_second_message),
        "system-with-tools",
        "system-repeated",
        SYSTEM_IN_CONVERSATION,
        0,
        OPENAI,
    ),
    Fault(
        "system-behind-the-conversation",
        sends(_moved_behind),
        "system-changed",
        "system-place",
        SYSTEM_IN_CONVERSATION,
        1,
        OPENAI,
    ),
    Fault("system-dropped", prompt(lambda _: None), "system-plain", "system-missing", BODY, 0),
    Fault("system-dropped-on-turn-two", asks(_first_turn_only), "system-added", "system-missing", BODY),
    Fault(
        "system-dropped-with-tools",
        asks(lambda r: replace(r, system=None) if r.tools else r),
        "system-with-tools",
        "system-missing",
        BODY,
        0,
    ),
    Fault("system-never-replaced", client(_FirstPrompt), "system-changed", "system-stale", SYSTEM),
    Fault("system-kept-when-dropped", client(_FirstPrompt), "system-dropped", "system-stale", SYSTEM),
    Fault("system-prompts-collected", client(_AllPrompts), "system-changed", "system-stale", SYSTEM),
    Fault(
        "system-one-line", prompt(lambda text: " ".join(text.split())), "system-multiline", "system-verbatim", SYSTEM, 0
    ),
    Fault("system-padded", prompt(lambda text: text + "\n"), "system-plain", "system-verbatim", SYSTEM, 0),
    Fault(
        "system-stripped-where-it-speaks-of-json",
        prompt(str.strip),
        "seeds-code-search-planner",
        "system-verbatim",
        SYSTEM,
        0,
    ),
    Fault(
        "system-dropped-where-it-speaks-of-json",
        prompt(lambda _: None),
        "seeds-code-search-planner",
        "system-missing",
        BODY,
        0,
    ),
    Fault("system-filled-in", prompt(_filled_in), "system-template-like", "system-verbatim", SYSTEM, 0),
    Fault(
        "system-ascii",
        prompt(lambda text: text.encode("ascii", "replace").decode()),
        "system-unicode",
        "system-verbatim",
        SYSTEM,
        0,
    ),
    Fault(
        "system-default",
        asks(lambda r: replace(r, system=r.system or "You are a helpful assistant.")),
        "system-absent",
        "system-when-absent",
        SYSTEM,
        0,
    ),
    Fault(
        "system-blank-for-empty",
        asks(lambda r: replace(r, system=" ") if r.system == "" else r),
        "system-empty",
        "system-when-absent",
        SYSTEM,
        0,
    ),
    Fault("user-markup-removed", asks(_without_markup), "system-like-user-text", "text-changed", TEXT, 0),
)
