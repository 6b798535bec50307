"""Meaning of tool results: the content that a model reads, whether sent as text, as JSON, or wrapped under a key.

JSON is compared as a value, without regard to whitespace. Text is compared as text. Added quotes, Python spelling
(`True`, `{'a': 1}`), other number formats (`1.50` and `1.5`) and JSON with repeated keys are therefore different
results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.apis.jsonvalue import canonical, equal, loads, loads_or_none, walk
from harness.apis.view import JsonView, MediaView, OpaqueView, RequestView, ResultView, SystemView, TextView, WireError
from harness.model.messages import JSON, File, Image, Opaque, Text, ToolResult

_SEPARATORS = ("", "\n", "\n\n")
"""Separators that a client may insert when it sends several texts as one. A single text gets none."""


def joined_texts(given: Sequence[str]) -> list[str]:
    """Return all texts that may result from joining the given texts."""
    return [joint.join(given) for joint in _SEPARATORS] if len(given) > 1 else ["".join(given)]


def is_same_text(given: Sequence[str], sent: Sequence[str]) -> bool:
    """Return whether adjacent texts on the wire are the given texts, even if they are split at other positions."""
    return "".join(sent) in joined_texts(given)


def fold_system_texts(parts: Sequence[SystemView], text: str) -> list[SystemView]:
    """Join adjacent system texts that together equal `text`."""
    for start in range(len(parts)):
        joined = ""
        for end in range(start, len(parts)):
            joined += parts[end].text
            if not text.startswith(joined) or _place(parts[end]) != _place(parts[start]):
                break
            if joined == text:
                first = parts[start]
                whole = SystemView(text, first.place, first.pointer, first.before_turn)
                return [*parts[:start], whole, *fold_system_texts(parts[end + 1 :], text)]
    return [*parts]


def _place(part: SystemView) -> tuple[str, int]:
    return part.place, part.before_turn


WRAPPERS = frozenset(
    {
        *("result", "results", "output", "content", "return_value", "returnValue", "response", "tool_response"),
        *("value", "text", "data", "message", "error"),
    }
)
"""Keys under which libraries wrap a result (gemini-function-response-form). `error` is one of them; a separate
check decides whether the tool really failed."""

_LABELS = frozenset({"name", "tool_name", "tool"})
_IDS = frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "type", "role"})
_FAILED = {"is_error": True, "isError": True, "success": False, "ok": False, "status": "error"}
_SUCCESS_MARKS = {"is_error": False, "isError": False, "success": True, "ok": True, "status": "success"}

_OBJECT = re.compile(r"[\[{]")


def contains_result(
    view: ResultView, result: ToolResult, request: RequestView, *, alone: bool = False, decode: bool = False
) -> bool:
    """Return whether the payload has the tool's result: equal text, equal JSON, equal media.

    The text of an error may be part of a longer text, unless it must be `alone`. With `decode`, a text may be sent as a
    JSON string. Media that an API does not accept inside a result may be in a user turn (openai-chat-result-text-only).
    """
    if isinstance(result.content, tuple):
        given_files = any(isinstance(part, File) for part in result.content)
        shown = view if given_files else _with_texts(view)
        return _contains_parts(shown, result, result.content, request, decode=decode)
    if any(isinstance(part, MediaView | OpaqueView) for part in view.payload):
        return False
    parsed_exchanges = [*_parsed_exchanges(view, result.name, is_error=result.is_error, decode=decode)]
    is_mentioned = result.is_error and not alone and _is_mentioned(parsed_exchanges, result.content)
    return is_mentioned or _occurs(parsed_exchanges, result.content)


def _with_texts(view: ResultView) -> ResultView:
    """Return the result with plain-text media as texts. Gemini's `functionResponse.parts` accepts text only in this
    form."""
    return replace(view, payload=tuple(map(_as_text, view.payload)))


def _as_text(part: TextView | MediaView | JsonView | OpaqueView) -> TextView | MediaView | JsonView | OpaqueView:
    if not isinstance(part, MediaView) or part.media_type != "text/plain" or part.data is None:
        return part
    try:
        return TextView(part.data.decode(), part.pointer)
    except UnicodeDecodeError:
        return part


def is_sent_by_item(view: ResultView, result: ToolResult) -> bool:
    """Return whether a list is sent as one text part per item, in order, instead of as a list."""
    content, texts = result.content, [part.text for part in view.payload if isinstance(part, TextView)]
    if not isinstance(content, list) or not content or not len(texts) == len(view.payload) == len(content):
        return False
    return all(_occurs([text], item) for text, item in zip(texts, content, strict=True))


def is_plain_result(view: ResultView, result: ToolResult) -> bool:
    """Return whether the payload is exactly the tool's text, without a key such as `error` around it."""
    words = result.text if isinstance(result.content, tuple) else result.content
    for parsed in _parsed_exchanges(view, result.name, is_error=False, decode=False):
        if _means(parsed, words):
            return True
        if isinstance(parsed, dict) and "error" in parsed:
            return False
    return False


def core_text(view: ResultView) -> str | None:
    """Return a normalized text that is equal for all formats of the same result. Return `None` if the result contains
    media or opaque parts.
    """
    if any(isinstance(part, MediaView | OpaqueView) for part in view.payload):
        return None
    *_, innermost = _parsed_exchanges(view, view.name, is_error=None, decode=False)
    if _is_nothing(innermost):
        return ""
    return innermost if isinstance(innermost, str) else canonical(innermost)


def says_nothing(view: ResultView) -> bool:
    """Return whether a result only says that the tool returned nothing, such as `(no output)`."""
    return _PLACEHOLDER.fullmatch(core_text(view) or "") is not None


_PLACEHOLDER = re.compile(
    r"[\[(<]?(?:no|empty|nothing|none|done|ok|success|completed?)\b[a-z \-']{0,30}\.?[\])>]?", re.IGNORECASE
)


def reports_failure(view: ResultView) -> bool:
    """Return whether a result is marked as an error, or its text has a word for a failure, as in `Error: timeout`, but
    not in `no errors`.
    """
    texts = [part.text if isinstance(part, TextView) else "" for part in view.payload]
    texts += [canonical(part.value) for part in view.payload if isinstance(part, JsonView)]
    text = " ".join(texts)
    found = FAILURE_WORDS.search(text)
    if view.error_mark is not None or found is None:
        return view.error_mark is not None
    return _NEGATION.search(text[max(found.start() - _NEGATED_LENGTH, 0) : found.start()]) is None


FAILURE_WORDS = re.compile("error|fail|exception", re.IGNORECASE)

_NEGATION = re.compile(r"\b(no|without|zero|0)\b", re.IGNORECASE)
_NEGATED_LENGTH = 20
"""Number of characters before a word in which a negation of it may be."""


def is_nothing(result: ToolResult) -> bool:
    """Return whether a tool returned `None`, an empty text or no parts."""
    content = result.content
    return all(part == Text("") for part in content) if isinstance(content, tuple) else content in (None, "")


def _parsed_exchanges(view: ResultView, name: str | None, *, is_error: bool | None, decode: bool) -> Iterator[JSON]:
    """Yield the possible interpretations of a payload, from the outside to the inside: text, JSON in text, wrapped
    values. With `decode`, also yield the text of a JSON string.
    """
    values = [part.value for part in view.payload if isinstance(part, JsonView)]
    texts = [part.text for part in view.payload if isinstance(part, TextView)]
    value: JSON = "".join(texts)
    if values:
        value = values[0] if len(values) == 1 and not texts else [*texts, *values]
    yield value
    # Where the API accepts only an object, the key around the result may have any name
    # (gemini-function-response-form).
    if values and isinstance(value, dict) and len(value) == 1 and not value.keys() & WRAPPERS:
        value = next(iter(value.values()))
        yield value
    while (inner := _inner_value(value, name, is_error=is_error, decode=decode)) is not None:
        value = inner[0]
        yield value


def _inner_value(value: JSON, name: str | None, *, is_error: bool | None, decode: bool) -> tuple[JSON] | None:
    if isinstance(value, str):
        decoded = loads_or_none(value) if decode else None
        read = decoded if isinstance(decoded, str) else _parse(value)
        return None if read is None else (read,)
    if isinstance(value, dict):
        return _unwrap(value, name, is_error=is_error)
    if isinstance(value, list) and value and all(map(_is_text_block, value)):
        return ("".join(str(block["text"]) for block in value if isinstance(block, dict)),)
    match value:
        case [{"json": inner, **beside}] if all(key == "type" or item is None for key, item in beside.items()):
            return (inner,)  # a block of Bedrock's Converse, which clients of several APIs send
        case _:
            return None


def _unwrap(value: dict[str, JSON], name: str | None, *, is_error: bool | None) -> tuple[JSON] | None:
    wrapping = [key for key in value if key in WRAPPERS]
    keys = [key for key in wrapping if value[key] is not None] or wrapping[:1]
    beside = {key: item for key, item in value.items() if key not in keys and item is not None}
    if len(keys) != 1 or not all(_adds_nothing(key, item, name, is_error=is_error) for key, item in beside.items()):
        return None
    return (value[keys[0]],)


def _adds_nothing(key: str, item: JSON, name: str | None, *, is_error: bool | None) -> bool:
    if key in _LABELS:
        return name is None or item == name
    return key in _IDS or _agrees(key, item, is_error=is_error)


def _agrees(key: str, item: JSON, *, is_error: bool | None) -> bool:
    tellings = (_FAILED, _SUCCESS_MARKS) if is_error is None else (_FAILED,) if is_error else (_SUCCESS_MARKS,)
    return any(key in telling and telling[key] == item for telling in tellings)


def _is_text_block(value: JSON) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return False
    return {key for key, item in value.items() if item is not None} <= {"type", "text"}


def _parse(text: str) -> JSON:
    """Parse an object or list. Return `None` if that fails or a key is repeated."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = loads(text)
        json.loads(text, object_pairs_hook=_reject_duplicates)
    except (WireError, ValueError, RecursionError):
        return None
    return value


def _reject_duplicates(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("duplicate key")
    return found


def _occurs(parsed_exchanges: Sequence[JSON], content: JSON) -> bool:
    given = _parse(content) if isinstance(content, str) else None
    return any(_means(parsed, content) or (given is not None and _means(parsed, given)) for parsed in parsed_exchanges)


def _means(parsed: JSON, content: JSON) -> bool:
    if content is None or content == "":
        return _is_nothing(parsed) or (content is None and parsed == "null")
    if isinstance(content, str):
        return parsed == content or (isinstance(parsed, bool | int | float) and json.dumps(parsed) == content)
    if isinstance(parsed, str):
        try:
            return equal(loads(parsed), content)
        except WireError:
            return False
    return equal(parsed, content)


def _is_nothing(parsed: JSON) -> bool:
    return parsed is None or parsed in ("", {})


def _is_mentioned(parsed_exchanges: Sequence[JSON], content: JSON) -> bool:
    """Return whether an error's content occurs inside a longer text."""
    if content is None or content == "":
        return True
    return any(_holds(value, content) for parsed in parsed_exchanges for value in walk(parsed))


def _holds(value: JSON, content: JSON) -> bool:
    if not isinstance(value, str):
        return _means(value, content)
    if isinstance(content, dict | list):
        return any(equal(each, content) for each in _json_in(value))
    words = content if isinstance(content, str) else json.dumps(content)
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", value) is not None


def _json_in(text: str) -> Iterator[JSON]:
    decoder = json.JSONDecoder()
    position = 0
    while (start := _OBJECT.search(text, position)) is not None:
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.end()
        else:
            yield value


def _contains_parts(
    view: ResultView,
    result: ToolResult,
    content: tuple[Text | Image | File | Opaque, ...],
    request: RequestView,
    *,
    decode: bool,
) -> bool:
    inside = [part for part in view.payload if isinstance(part, MediaView)]
    outside = [part for turn in request.turns for part in turn.parts if isinstance(part, MediaView)]
    wanted = [part for part in content if isinstance(part, Image | File)]
    if not all(any(same_medium(medium, part) for medium in inside or outside) for part in wanted):
        return False
    given = [part.text for part in content if isinstance(part, Text)]
    parsed_exchanges = [*_parsed_exchanges(view, result.name, is_error=result.is_error, decode=decode)]
    tellings = {"".join(_strings(parsed)) for parsed in parsed_exchanges}
    moved = wanted and not inside  # if the media had to move, a note may follow the result's own text
    for text in joined_texts(given):
        if any(telling.startswith(text) if moved else telling == text for telling in tellings):
            return True
        if _occurs(parsed_exchanges, text) or (result.is_error and _is_mentioned(parsed_exchanges, text)):
            return True
    return False


def _strings(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key not in ("$ref", *_IDS, *_LABELS) for text in _strings(item)]
    return []


def same_medium(view: MediaView, part: Image | File) -> bool:
    """Return whether an image or file in a request is the given one. Data is compared by bytes and media type, and
    other media by URI.
    """
    if part.data is not None:
        return view.data == part.data and _kind(view.media_type) == _kind(part.media_type)
    return view.uri == part.uri


def _kind(media_type: str | None) -> str | None:
    return _NAMES.get(media_type, media_type) if media_type is not None else None


_NAMES = {"audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
