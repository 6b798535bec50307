"""Response bodies and content in the formats of Anthropic, Gemini and OpenAI Responses inside a client's answer."""

from __future__ import annotations

from collections.abc import Sequence

from harness.bridge.clients.answer_fields import computed_fields, stop_reason_in
from harness.bridge.clients.forms import ANTHROPIC, GEMINI, RESPONSES
from harness.bridge.clients.values import as_object, camel_case, items_of, jsonable
from harness.model.messages import JSON


def native_body(answer: object, api: str) -> JSON:
    """Return an answer in an API's own format as a response body, or `None` if it is in another format.

    For Gemini, the answer is a content or its parts, alone or in a tuple with the stop reason. For OpenAI Responses, it
    is a list of output items.
    """
    items = items_of(answer)
    words = [each for each in items or [] if isinstance(each, str)]
    if api in (RESPONSES.name, ANTHROPIC.name):  # the items may be in a tuple, with the text or the stop reason
        items = next((inner for each in items or [] if (inner := items_of(each)) is not None), items)
    members: list[JSON] = [camel_case(jsonable(each)) for each in ([answer] if items is None else items)]
    kinds = {str(each.get("type")) for each in members if isinstance(each, dict)}
    if api == RESPONSES.name and kinds and kinds <= OUTPUT_ITEMS:
        return {"output": [jsonable(each) for each in items or [answer]], "status": "completed"}
    is_text_with_calls = any(each not in _ANTHROPIC_STOP_REASONS for each in words) and kinds <= {"tool_use"}
    if api == ANTHROPIC.name and items is not None and kinds <= CONTENT_BLOCKS and not is_text_with_calls:
        blocks = [jsonable(each) for each in items]
        if all(isinstance(each, dict) for each in blocks):
            return {
                "content": [*blocks],
                "stop_reason": next((each for each in words if each in _ANTHROPIC_STOP_REASONS), None),
            }
    if api != GEMINI.name:
        return None
    computed = {} if items is not None else as_object(camel_case(jsonable(computed_fields(answer))))
    fields = {**computed, **as_object(members[0])} if items is None else {}
    members = [*members, *(each for each in fields.values() if isinstance(each, dict))]
    word = next((each for each in members if isinstance(each, str) and each.isupper()), None)
    content = next((each for each in map(as_object, members) if isinstance(each.get("parts"), list)), None)
    has_reason = word is not None or isinstance(fields.get("finishReason"), str)
    if content is None and has_reason and any(each in ({}, {"role": "model"}) for each in members):
        content = as_object({"role": "model", "parts": []})
    parts = [each for each in members if isinstance(each, dict)]
    is_part_list = items is not None and all(
        each == word or as_object(each).keys() <= _GEMINI_PART_FIELDS for each in members
    )
    if content is None and items and all(each == word for each in members):
        content = as_object({"role": "model", "parts": []})
    if content is None and parts and is_part_list and (word or any(_GEMINI_PARTS & each.keys() for each in parts)):
        content = as_object({"role": "model", "parts": _join_gemini_parts(parts)})
    if content is None:
        return None
    reason = content.get("finishReason") or fields.get("finishReason") or word or stop_reason_in(fields)
    candidate: dict[str, JSON] = {"content": content, "finishReason": reason}
    return {"candidates": [{key: each for key, each in candidate.items() if each}]}


def _join_gemini_parts(parts: Sequence[JSON]) -> list[JSON]:
    """Return parts of Gemini's format, with the pieces of a text or a thought joined."""
    found: list[dict[str, JSON]] = []
    for part in map(as_object, parts):
        last = found[-1] if found else {}
        if "text" in part and "text" in last and not has_signature(last) and part.get("thought") == last.get("thought"):
            found[-1] = {**part, "text": f"{last['text']}{part['text']}"}
        else:
            found.append(part)
    return [*found]


OUTPUT_ITEMS = {"message", "function_call", "reasoning"}

_GEMINI_PARTS = {"functionCall", "thoughtSignature"}

_GEMINI_PART_FIELDS = {*_GEMINI_PARTS, "text", "thought", "inlineData"}

_ANTHROPIC_STOP_REASONS = {"end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn"}

CONTENT_BLOCKS = {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"}


def is_anthropic_body(body: JSON) -> bool:
    """Return whether JSON is a response body in Anthropic's format."""
    return isinstance(body, dict) and isinstance(body.get("content"), list) and "stop_reason" in body


def is_gemini_body(body: JSON) -> bool:
    """Return whether JSON is a response body in Gemini's format."""
    return isinstance(body, dict) and bool({"candidates", "promptFeedback", "prompt_feedback"} & body.keys())


def has_signature(part: JSON) -> bool:
    """Return whether a part of an answer has a signature."""
    return isinstance(part, dict) and any(
        part.get(key) for key in ("signature", "thoughtSignature", "thought_signature")
    )


HTTP_OK = 200
