"""Results in other clothes."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from harness.contract.model import Message, Text, ToolResult
from harness.results import Verdict
from tests.broken.fault import ALL, GEMINI, OPENAI, Wrap, asks_messages, sends
from tests.broken.results import contents, one_at_a_time, remembered, results
from tests.unusual.form import Form


def _as_text(content: Any) -> Any:
    """JSON as text, spaced and ordered in a way of its own."""
    return content if isinstance(content, str) else json.dumps(content, indent=4, sort_keys=True)


def _reparsed(content: Any) -> Any:
    return json.loads(content) if isinstance(content, str) else content


def _in_two_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Calls of one answer in messages of their own, before all results: the provider joins these."""
    sent: list[Message] = []
    for message in messages:
        calls = message.tool_calls
        if len(calls) < 2:
            sent.append(message)
        else:
            sent += [replace(message, parts=tuple(p for p in message.parts if p not in calls[1:]))]
            sent += [replace(message, parts=(call,)) for call in calls[1:]]
    return tuple(sent)


def _wrapped(key: str, **beside: Any) -> Wrap:
    def edit(result: ToolResult) -> ToolResult:
        return result if result.is_error else replace(result, content={**beside, key: result.content})

    return results(edit)


def _with_name(*, right: bool) -> Wrap:
    def edit(result: ToolResult) -> ToolResult:
        return replace(result, content={"name": result.name if right else "another_tool", "content": result.content})

    return results(edit)


def _joined(joint: str, *, backwards: bool = False) -> Wrap:
    """Several text parts as one text."""

    def edit(content: Any) -> Any:
        if not isinstance(content, tuple):
            return content
        texts = [part.text for part in content if isinstance(part, Text)]
        return joint.join(reversed(texts) if backwards else texts)

    return contents(edit)


def _blocks(content: Any) -> Any:
    """Text parts as a list of blocks, in the way of MCP, whose classes write the fields that are not there as null."""
    if not isinstance(content, tuple):
        return content
    return [{"type": "text", "text": part.text, "annotations": None} for part in content]


def _as_media(*, drops: bool) -> Wrap:
    """Text parts of a result as media of plain text, in the way of a released library; or one of them is gone."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for result in (part.get("functionResponse", {}) for turn in body["contents"] for part in turn["parts"]):
            texts = result.get("response", {}).get("output", [])[drops:]
            data = (base64.b64encode(text.encode()).decode() for text in texts)
            if result:
                result["response"] = {"result": ""}
                result["parts"] = [{"inlineData": {"mimeType": "text/plain", "data": each}} for each in data]

    return sends(edit)


def _by_item(content: Any) -> Any:
    """A list as a text part for each of its items."""
    return tuple(Text(_as_text(item)) for item in content) if isinstance(content, list) else content


def _tagged(*, elsewhere: bool) -> Wrap:
    """A picture that had to leave its result, between two texts of the library's own; or one of them stands alone."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for message in [*body["messages"]]:
            content = message["content"]
            if message["role"] == "user" and isinstance(content, list):
                pictures = [part for part in content if part["type"] != "text"]
                opening, closing = ({"type": "text", "text": tag} for tag in ("<result>", "</result>"))
                message["content"] = [opening, *pictures, *([] if elsewhere else [closing])]
                if elsewhere:
                    body["messages"].append({"role": "user", "content": [closing]})

    return sends(edit)


def _failed(say: str) -> Wrap:
    """An error in the library's own words, without a mark."""

    def edit(result: ToolResult) -> ToolResult:
        if not result.is_error:
            return result
        return replace(result, is_error=False, content=say.format(result.content))

    return results(edit)


def _empty_blocks(*, everywhere: bool) -> Wrap:
    """A result of nothing as a list with an empty text in it; or there is one beside each result as well."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for block in [*message["content"]] if isinstance(message["content"], list) else ():
                if block["type"] == "tool_result" and not block.get("content"):
                    block["content"] = [{"type": "text", "text": ""}]
                    message["content"] += block["content"] if everywhere else []

    return sends(edit)


def _captioned(*, drops: bool) -> Wrap:
    """Other words around a picture that had to leave its result."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            content = message["content"]
            if message["role"] == "user" and isinstance(content, list):
                pictures = [part for part in content if part["type"] != "text"]
                message["content"] = [{"type": "text", "text": "Attached:"}, *([] if drops else pictures)]
            if message["role"] == "tool":
                message["content"] = [message["content"][0], {"type": "text", "text": " (see the attachment)"}]

    return sends(edit)


def _pictures_first(*, asks: bool) -> Wrap:
    """The pictures of a result stand in front of it, in its turn; or a text of somebody's stands there as well."""

    def edit(_api: str, body: dict[str, Any]) -> None:
        for turn in body["contents"]:
            inner = [each for part in turn["parts"] for each in part.get("functionResponse", {}).pop("parts", ())]
            if inner:
                turn["parts"] = [*inner, *([{"text": "Look at this."}] if asks else []), *turn["parts"]]

    return sends(edit)


FORMS = (
    Form(
        "calls-in-two-messages",
        "calls of one answer in several messages of the assistant, before their results",
        "call-parallel-same-tool",
        ("anthropic",),
        asks_messages(_in_two_messages),
        asks_messages(one_at_a_time),
        "calls-split",
    ),
    Form(
        "json-as-text",
        "JSON as text, spaced otherwise, or inside an object",
        "result-object",
        ALL,
        contents(_as_text),
        contents(str),
        "result-changed",
    ),
    Form(
        "json-in-a-block",
        "JSON in a block of its own, in the way of Bedrock's Converse, or with a field more",
        "result-object",
        ALL,
        contents(lambda c: [{"json": c}] if isinstance(c, dict) else c),
        contents(lambda c: [{"json": {**c, "retries": 4}}] if isinstance(c, dict) else c),
        "result-changed",
    ),
    Form(
        "failures-as-text",
        "results of one call at different times, as texts spaced otherwise",
        "call-fails-then-answers",
        ALL,
        contents(_as_text),
        asks_messages(remembered),
        "result-swapped",
    ),
    Form(
        "json-text-parsed",
        "text that is JSON as an object",
        "unusual-json-text",
        ALL,
        contents(_reparsed),
        contents(lambda c: {**json.loads(c), "retries": 4} if isinstance(c, str) else c),
        "result-changed",
    ),
    Form(
        "list-under-result",
        "JSON under a wrapping key",
        "result-list",
        ALL,
        _wrapped("result"),
        contents(lambda c: {"result": c[:1]} if isinstance(c, list) else c),
        "result-changed",
    ),
    Form(
        "list-by-item",
        "a list as a part for each of its items",
        "result-list",
        ("anthropic", *OPENAI),
        contents(_by_item),
        contents(lambda c: _by_item(c[1:] if isinstance(c, list) else c)),
        "result-changed",
        Verdict.NOTE,
        frozenset({"result-changed"}),
    ),
    Form(
        "list-by-item-reordered",
        "a list as a part for each of its items, in their order",
        "result-list",
        ("anthropic",),
        contents(_by_item),
        contents(lambda c: _by_item(c[::-1] if isinstance(c, list) else c)),
        "result-changed",
        Verdict.NOTE,
        frozenset({"result-changed"}),
    ),
    Form(
        "number-under-output",
        "a number under a wrapping key",
        "result-number",
        ALL,
        _wrapped("output", error=None),
        contents(lambda c: {"output": c + 1} if isinstance(c, int) else c),
        "result-changed",
    ),
    Form(
        "boolean-under-return-value",
        "true under a wrapping key",
        "result-boolean",
        ALL,
        _wrapped("return_value", status="success"),
        contents(lambda c: {"return_value": str(c)} if isinstance(c, bool) else c),
        "result-changed",
    ),
    Form(
        "text-with-name",
        "text under a wrapping key with the name of its tool beside it",
        "result-json-text",
        ALL,
        _with_name(right=True),
        _with_name(right=False),
        "result-changed",
    ),
    Form(
        "null-as-nothing",
        "a result of nothing as empty text",
        "result-null",
        ALL,
        contents(lambda c: "" if c is None else c),
        contents(lambda c: "None" if c is None else c),
        "result-changed",
    ),
    Form(
        "parts-in-lines",
        "several text parts as one text",
        "result-parts",
        ALL,
        _joined("\n"),
        _joined("\n", backwards=True),
        "result-changed",
    ),
    Form(
        "parts-as-blocks",
        "several text parts as a list of blocks",
        "result-parts",
        ALL,
        contents(_blocks),
        contents(lambda c: _blocks(c)[:1] if isinstance(c, tuple) else c),
        "result-changed",
    ),
    Form(
        "parts-as-media",
        "several text parts as media of plain text",
        "result-parts",
        ("gemini-3",),
        _as_media(drops=False),
        _as_media(drops=True),
        "result-changed",
    ),
    Form(
        "error-in-words",
        "an error in other words than our error key",
        "result-error",
        (*OPENAI, *GEMINI),
        _failed("The tool could not be run: {}. Mend your arguments and try again."),
        _failed("The tool could not be run. Mend your arguments and try again."),
        "result-changed",
    ),
    Form(
        "error-under-a-key",
        "an error under a key that says so, where a library's form has no field for the API's flag",
        "result-error",
        ("anthropic",),
        _failed('{{"error": "{}"}}'),
        _failed('{{"result": "{}"}}'),
        "error-flag",
        Verdict.WARN,
        frozenset({"error-flag"}),
    ),
    Form(
        "error-bare",
        "an error's text alone, where the API has no flag",
        "result-error",
        (*OPENAI, *GEMINI),
        _failed("{}"),
        _failed("opened"),
        "result-changed",
        Verdict.NOTE,
        frozenset({"error-flag"}),
    ),
    Form(
        "empty-text-inside",
        "an empty text inside a result, of which nobody has shown that it is refused",
        "result-empty-text",
        ("anthropic",),
        _empty_blocks(everywhere=False),
        _empty_blocks(everywhere=True),
        "anthropic-text-empty",
        Verdict.WARN,
        frozenset({"anthropic-result-text-empty"}),
    ),
    Form(
        "picture-captioned",
        "a picture that left its result, with other words around it",
        "result-image",
        ("openai-chat",),
        _captioned(drops=False),
        _captioned(drops=True),
        "result-changed",
    ),
    Form(
        "picture-in-front-of-its-result",
        "a picture that left its result and stands in front of it in the same turn",
        "result-image",
        ("gemini-3",),
        _pictures_first(asks=False),
        _pictures_first(asks=True),
        "result-misplaced",
    ),
    Form(
        "picture-between-tags",
        "a picture that left its result, with words behind it",
        "result-image",
        ("openai-chat",),
        _tagged(elsewhere=False),
        _tagged(elsewhere=True),
        "text-changed",
    ),
)
