"""Unusual forms of texts and system prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from harness.model.messages import ChatResponse, Message, Part, Role, Text, Thinking
from harness.results import Verdict
from tests.broken.fault import ALL, GEMINI, Wrap, answers, asks, asks_messages, asks_parts, sends
from tests.broken.responses import call_of_text
from tests.unusual.form import Form


def _halves(text: str, *, strips: bool) -> tuple[str, str]:
    """A text cut in front of a space or a line break in its middle."""
    cut = max(text.rfind(" ", 0, len(text) // 2 + 1), text.rfind("\n", 0, len(text) // 2 + 1))
    one, other = text[:cut], text[cut:]
    return (one, other.lstrip()) if strips else (one, other)


def _thinking_aloud(*, shouts: bool) -> Wrap:
    """Reasoning of another model as a text with marks around it; or its texts are also changed to capitals."""

    def changed(part: Part) -> Part:
        if isinstance(part, Thinking):
            return Text(f"<think>\n{part.text}\n</think>")
        return replace(part, text=part.text.upper()) if shouts and isinstance(part, Text) else part

    return asks_parts(changed)


def _system_in_halves(*, strips: bool) -> Wrap:
    """The system prompt as two blocks."""

    def edit(api: str, body: dict[str, Any]) -> None:
        match api:
            case "anthropic":
                given = body["system"] if isinstance(body["system"], str) else body["system"][0]["text"]
                body["system"] = [{"type": "text", "text": half} for half in _halves(given, strips=strips)]
            case "openai-chat":
                first = body["messages"][0]
                first["content"] = [{"type": "text", "text": half} for half in _halves(first["content"], strips=strips)]
            case _:
                parts = body["systemInstruction"]["parts"]
                body["systemInstruction"]["parts"] = [
                    {"text": half} for half in _halves(parts[0]["text"], strips=strips)
                ]

    return sends(edit)


def _moving(*, drops: bool) -> Wrap:
    """The first text in halves in every other request; or it is gone from the second one on."""
    seen = {"requests": 0}

    def parted(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        seen["requests"] += 1
        if drops and messages[1:]:
            return messages[1:] if messages[1].role is Role.USER else messages[2:]
        if seen["requests"] % 2:
            return messages
        first, *others = messages
        halves = tuple(Text(half) for half in _halves(first.text, strips=False))
        return (replace(first, parts=halves), *others)

    return asks_messages(parted)


def _signature_on_thought(words: str, *, behind: bool = False, alters: bool) -> Wrap:
    """The signature of a text on a thought in front of it, or behind it; or another signature on the text."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for content in body["contents"]:
            for place, part in enumerate(content["parts"]):
                if "text" in part and "thoughtSignature" in part and not part.get("thought"):
                    signature = part.pop("thoughtSignature")
                    if alters:
                        part["thoughtSignature"] = signature[:-8] + "AAAAAAAA"
                    else:
                        thought = {"text": words, "thought": True, "thoughtSignature": signature}
                        content["parts"].insert(place + behind, thought)
                    break

    return sends(edit)


def _one_text(*, keeps_calls: bool) -> Wrap:
    """The texts of an answer as one, without their signatures. Or the calls lose theirs as well."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for content in body["contents"]:
            texts = [part for part in content["parts"] if "text" in part]
            for part in content["parts"]:
                if not (keeps_calls and "functionCall" in part):
                    part.pop("thoughtSignature", None)
            if content["role"] == "model" and texts:
                texts[0]["text"] = "".join(part["text"] for part in texts)
                content["parts"] = [part for part in content["parts"] if part not in texts[1:]]

    return sends(edit)


def _without(is_lost: Callable[[Text], bool]) -> Wrap:
    """Texts that are lost from the history."""
    return asks_parts(lambda part: None if isinstance(part, Text) and is_lost(part) else part)


def _silent_error(content: str) -> Wrap:
    """Other content for a failed result that has none."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for block in message["content"]:
                if block["type"] == "tool_result" and block.get("is_error"):
                    block["content"] = content

    return sends(edit)


def _prompt(edit: Callable[[str], str | None]) -> Wrap:
    return asks(lambda request: replace(request, system=edit(request.system)) if request.system else request)


def _said_in_halves(response: ChatResponse) -> ChatResponse:
    """Each text of an answer as two parts."""

    def parted(part: Part) -> Iterator[Part]:
        if isinstance(part, Text) and len(part.text) > 1:
            middle = len(part.text) // 2
            yield from (replace(part, text=part.text[:middle]), Text(part.text[middle:]))
        else:
            yield part

    parts = tuple(half for part in response.message.parts for half in parted(part))
    return replace(response, message=replace(response.message, parts=parts))


FORMS = (
    Form("said-in-halves", "call-in-text", ALL, answers(_said_in_halves), answers(call_of_text), "expectation"),
    Form(
        "model-with-its-provider",
        "model-served",
        ALL,
        answers(lambda r: replace(r, model=f"some/{r.model}")),
        answers(lambda r: replace(r, model=f"{r.model}-mini")),
        "response-model",
    ),
    Form(
        "system-trimmed",
        "system-multiline",
        ALL,
        _prompt(str.strip),
        _prompt(lambda text: "\n".join(map(str.strip, text.splitlines()))),
        "system-verbatim",
        verdict=Verdict.NOTE,
        notes={"system-verbatim"},
    ),
    Form(
        "system-trimmed-that-speaks-of-json",
        "seeds-code-search-planner",
        ("openai-responses", "gemini-3"),
        _prompt(str.strip),
        _prompt(lambda _: None),
        "system-missing",
        verdict=Verdict.NOTE,
        notes={"system-verbatim"},
    ),
    Form(
        "foreign-reasoning-aloud",
        "history-foreign-metadata",
        ALL,
        _thinking_aloud(shouts=False),
        _thinking_aloud(shouts=True),
        "text-changed",
        verdict=Verdict.WARN,
        notes={"text-changed"},
    ),
    Form(
        "blank-text-left-out",
        "unusual-blank-text",
        ALL,
        _without(lambda text: text.text.isspace()),
        _without(lambda text: text.text != "\n"),
        "text-changed",
        verdict=Verdict.NOTE,
        notes={"text-changed"},
    ),
    Form(
        "words-for-a-silent-error",
        "unusual-silent-error",
        ("anthropic",),
        _silent_error("Tool failed with no output."),
        _silent_error(""),
        "anthropic-error-empty",
    ),
    Form(
        "system-in-halves",
        "system-multiline",
        ("anthropic", "openai-chat", *GEMINI),
        _system_in_halves(strips=False),
        _system_in_halves(strips=True),
        "system-verbatim",
    ),
    Form(
        "system-empty-where-there-is-none",
        "system-absent",
        ("anthropic",),
        sends(lambda _api, body: body.update(system="")),
        sends(lambda _api, body: body.update(system="You are a helpful assistant.")),
        "system-when-absent",
        verdict=Verdict.WARN,
        notes={"anthropic-system-empty"},
    ),
    Form("borders-move", "unusual-settings", ALL, _moving(drops=False), _moving(drops=True), "history-append-only"),
    Form(
        "signature-on-neighbour",
        "thinking-two-turns",
        ("gemini-3",),
        _signature_on_thought("…", alters=False),
        _signature_on_thought("…", alters=True),
        "opaque-state-lost",
    ),
    Form(
        "texts-without-signatures-in-one",
        "text-provoked-blocks",
        ("gemini-3",),
        _one_text(keeps_calls=True),
        _one_text(keeps_calls=False),
        "opaque-state-lost",
        verdict=Verdict.WARN,
        notes={"opaque-state-lost"},
    ),
)
