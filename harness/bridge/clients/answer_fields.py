"""Fields of a client's answer and of its calls, read as an OpenAI Chat completion."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cached_property, partial
from typing import Any, TypeAlias

from harness.bridge.clients.annotations import BUILTIN_MODULES
from harness.bridge.clients.names import TEXTS_BESIDE_CALLS, TOOL_PARAMETERS, call_id_field
from harness.bridge.clients.values import items_of, jsonable, plain_fields, snake_case
from harness.bridge.completions import completion, stop_reason
from harness.model.errors import MalformedResponse
from harness.model.messages import JSON, StopReason, Usage

CALL_FIELDS = ("tool_calls", "calls", "function_calls", "tool_uses", "invocations", "tool_call", "function_call")
"""Names of fields that hold the calls of an answer, in order of preference."""

ARGUMENT_FIELDS = ("arguments", "args", "input", "parameters", "tool_args", "tool_input", "params")

_ID_FIELDS = ("call_id", "id", "tool_call_id")

NAME_FIELDS = ("name", "tool", "tool_name", "function")

_OTHER_FIELDS = (*_ID_FIELDS, *NAME_FIELDS, "type")

_CALL_PARTS = 3
"""Number of the fields of a call: its id, its name and its arguments, in this order if their names are unusual."""

_RAW_ARGUMENTS = re.compile(r"\w*(arguments|args)\w*")
"""Names of fields with the arguments as the model wrote them. A method of the call may parse them."""


def is_computed(value: object, name: str) -> bool:
    """Return whether an attribute of an object is a property."""
    return isinstance(getattr(type(value), name, None), property | cached_property)


def fields_of_call(call: object) -> dict[str, Any]:
    """Return the fields of a call. The arguments may be a property, or else a JSON text under another name. The name
    may be the only other text.
    """
    found = {**plain_fields(call)}
    for name in filter(partial(is_computed, call), (*ARGUMENT_FIELDS, *_ID_FIELDS, *NAME_FIELDS)):
        with contextlib.suppress(Exception):  # arguments that are no JSON make a property fail
            found[name] = getattr(call, name)
    if {*NAME_FIELDS}.isdisjoint(found) and len(found) == _CALL_PARTS:
        call_id, name, arguments = found
        if arguments in ARGUMENT_FIELDS and isinstance(found[name], str):
            found |= {"id": found[call_id], "name": found[name]}
    if not {*ARGUMENT_FIELDS} & found.keys() and {*NAME_FIELDS} & found.keys():
        others = [name for name, each in found.items() if isinstance(each, str | Mapping) and name not in _OTHER_FIELDS]
        raw = [each for each in others if _RAW_ARGUMENTS.fullmatch(each)]
        if any(is_computed(call, each) for each in ARGUMENT_FIELDS):
            raw += others  # the text that a property could not parse
        if raw:
            found["arguments"] = found[raw[0]]
    if {*ARGUMENT_FIELDS} & found.keys():
        found |= _unusual_field(found)
    return found


def _unusual_field(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the id or the name of a call if it is its only other text, under a name of the client's own."""
    has_id, has_name = (bool({*names} & found.keys()) for names in (_ID_FIELDS, NAME_FIELDS))
    if has_id is has_name or call_id_field(found):
        return {}
    known = (*ARGUMENT_FIELDS, *_OTHER_FIELDS)
    others = [name for name, each in found.items() if isinstance(each, str) and each and name not in known]
    texts = [each for each in others if not _NO_ID.search(each)]
    return {"name" if has_id else "id": found[texts[0]]} if len(texts) == 1 else {}


_NO_ID = re.compile("args|arguments|kind|role|status|state|signature|thought|text|content|output|result|error|raw|json")
"""Names of texts of a call that are neither its id nor its name."""


def is_single_call(call: object) -> bool:
    """Return whether an object has a name and arguments, and no list of calls."""
    found = fields_of_call(call)
    if "arguments" in (function := plain_fields(found.get("function"))):
        found |= function
    names = {*NAME_FIELDS} & found.keys()
    return bool(names) and bool({*ARGUMENT_FIELDS} & found.keys()) and not {*CALL_FIELDS} & found.keys()


def call_parts(call: object) -> dict[str, Any]:
    """Return the id, the name and the arguments (as `args`) of a call, and its index in a stream."""
    if (items := items_of(call)) is not None:
        *call_id, name, arguments = items
        call = {"id": next(iter(call_id), None), "name": name, "arguments": arguments}
    found = fields_of_call(call)
    function = found.get("function")
    either = {**(fields_of_call(function) if not isinstance(function, str) else {"name": function}), **found}
    given = [either[key] for key in ARGUMENT_FIELDS if key in either]
    arguments = next((each for each in given if each not in ("", None)), next(iter(given), None))
    own_id = call_id_field(either)
    ids = (*_ID_FIELDS, own_id) if own_id else _ID_FIELDS
    return {
        "id": next((either[key] for key in ids if either.get(key)), None),
        "name": either.get("name") or either.get("tool") or either.get("tool_name"),
        "args": arguments if isinstance(arguments, str) or arguments is None else json.dumps(jsonable(arguments)),
        **({"index": either["index"]} if "index" in either else {}),
    }


TEXT_FIELDS = (
    *("final_output", "final_answer", "final_text", "final_response"),
    *("text", "content", "output_text", "message", "answer", "response", "reply", "output", "result", "delta", "body"),
)
"""Names of fields that hold the text of an answer, in order of preference."""

_REASON_FIELDS = ("finish_reason", "stop_reason", "stop")

_OTHER_REASON_FIELDS = ("finish", "reason", "incomplete_reason", "status", "done_reason", "ended")
"""Names of fields that hold the stop reason if their value is a known one."""

_OTHER_ANSWER_FIELDS = (*_REASON_FIELDS, *_OTHER_REASON_FIELDS, "usage", "refusal")

_DETAIL_FIELDS = ("detail", "details", "explanation", "reason_text", "error")
"""Names of fields that may hold the text of a refusal, if the stop reason is one."""

_BLOCK_TYPES = ("text", "tool_use", "thinking")

_MAX_DEPTH = 5

_NO_ANSWER = "the client returned {kind}, with no text and no tool calls"


def as_completion(answer: object) -> object:
    """Return the answer of a client in the form of an OpenAI Chat completion.

    Raises:
        MalformedResponse: the answer has neither text nor calls.
    """
    if isinstance(answer, str) or answer is None:
        return completion(answer or "")
    try:
        return _completion_in(answer, type(answer).__name__, 0)
    except MalformedResponse:
        if (text := _own_text(answer)) is None:
            raise
        return completion(text)


def returned_error(answer: object) -> Exception | None:
    """Return the exception that a client returned instead of raising it, alone or as the only field of an object, such
    as `Err(error)`. Return `None` for other answers.
    """
    if isinstance(answer, Exception | Mapping):
        return answer if isinstance(answer, Exception) else None
    fields = [*plain_fields(answer).values()]
    return fields[0] if len(fields) == 1 and isinstance(fields[0], Exception) else None


def _own_text(answer: object) -> str | None:
    """Return the text of an object whose class defines what text it is. A representation of the object is none."""
    kind = type(answer)
    owner = next(each for each in kind.__mro__ if "__str__" in vars(each))
    if owner.__module__.partition(".")[0] != kind.__module__.partition(".")[0] or kind.__module__ in BUILTIN_MODULES:
        return None
    text = str(answer)
    return None if re.match(rf"[<{{\[]|{re.escape(kind.__name__)}\b", text) else text


def _completion_in(answer: object, kind: str, depth: int) -> object:
    """Return the answer inside an object of the class `kind`. The depth is limited, as objects may contain each other.

    Raises:
        MalformedResponse: See `as_completion`.
    """
    if depth > _MAX_DEPTH:
        raise MalformedResponse(_NO_ANSWER.format(kind=kind))
    if (items := items_of(answer)) is not None:
        answer = _fields_of_parts(items) or {"text": ""}
    found = {**computed_fields(answer), **plain_fields(answer)}
    if "choices" in found:
        return found
    if not {*CALL_FIELDS} & found.keys() and is_single_call(answer):
        return completion("", [call_parts(answer)])
    inner = found.get("message")
    if (last := _last_message(found)) is not None:
        return as_completion(last)
    if isinstance(inner, str | None) and (others := _inner_answers(answer, found)):
        inner = others[0]
    if inner is not None and not isinstance(inner, str):
        others = {name: each for name, each in found.items() if each is not inner}
        merged = {**others, **computed_fields(inner), **plain_fields(inner), "message": None}
        return _completion_in(merged, kind, depth + 1)
    text = _text_among([found[key] for key in TEXT_FIELDS if key in found])
    calls = _calls_in(found)
    if (parts := items_of(text)) is not None:
        calls = calls or [each for each in parts if _is_call_block(each)]
        text = "".join(str(plain_fields(each).get("text") or "") for each in parts)
        beside = [found[key] for key in TEXTS_BESIDE_CALLS if isinstance(found.get(key), str)]
        text = text or (beside[0] if beside and calls else "")
    if not text and not calls and not {*TEXT_FIELDS, *CALL_FIELDS} & found.keys():
        raise MalformedResponse(_NO_ANSWER.format(kind=kind))
    made = [call_parts(each) for each in calls]
    reason = stop_reason_in(found)
    counts = token_counts_in(found)
    is_refused = reason is not None and stop_reason(reason) is StopReason.REFUSAL and not text
    places = ("refusal", *(_DETAIL_FIELDS if is_refused else ()))
    refusal = next((found[each] for each in places if isinstance(found.get(each), str) and found[each]), None)
    seen = completion(
        text if isinstance(text, str) else json.dumps(jsonable(text), ensure_ascii=False),
        made,
        reason=reason,
        model=found.get("model"),
        refusal=refusal,
        read=counts.input_tokens,
        written=counts.output_tokens,
        cached=counts.cache_read_tokens,
        cache_written=counts.cache_write_tokens,
    )
    return {**seen, "has_refusal": "refusal" in found or refusal is not None}


def token_counts_in(found: Mapping[str, Any]) -> Usage:
    """Return the token counts in the usage of an answer or, without it, among its own fields. They may also be in an
    object of another name, such as a bill.

    Own fields that are all 0 count as absent, because 0 is also their usual default.
    """
    used = _counts_by_name(plain_fields(found.get("usage")))
    counts = [_first_count(used, (*names, *more)) for names, more in _USAGE_COUNTS]
    for fields in (found, *(plain_fields(each) for each in found.values() if not isinstance(each, str))):
        if counts[0] is None and counts[1] is None:
            named = {name: each for name, each in _counts_by_name(fields).items() if each}
            counts = [_first_count(named, names) for names, _ in _USAGE_COUNTS]
    return Usage(*counts)


def _counts_by_name(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the integers among fields and in their details (`prompt_tokens_details`), by names in lower case."""
    inner = [
        _counts_by_name(plain_fields(each)) for name, each in fields.items() if snake_case(name).endswith("_details")
    ]
    own = {snake_case(name).lower(): each for name, each in fields.items() if type(each) is int}
    return {name: each for found in (*inner, own) for name, each in found.items()}


def _first_count(counts: Mapping[str, int], names: Iterable[str]) -> int | None:
    return next((counts[name] for name in names if name in counts), None)


_INPUT_COUNTS = ("prompt_tokens", "input_tokens", "prompt_token_count", "input_token_count", "tokens_in", "in_tokens")

_OUTPUT_COUNTS = (
    *("completion_tokens", "output_tokens", "candidates_token_count", "output_token_count"),
    *("completion_token_count", "tokens_out", "out_tokens"),
)

_CACHE_READ_COUNTS = (
    *("cache_read_tokens", "cache_read_input_tokens", "cached_tokens", "cached_input_tokens", "cached_prompt_tokens"),
    *("cached_content_token_count", "tokens_cached", "cache_read"),
)

_CACHE_WRITE_COUNTS = (
    *("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens", "cache_write_input_tokens"),
    *("cache_write", "cache_creation"),
)

_USAGE_COUNTS = (
    (_INPUT_COUNTS, ("input", "prompt")),
    (_OUTPUT_COUNTS, ("output", "completion")),
    (_CACHE_READ_COUNTS, ("cached",)),
    (_CACHE_WRITE_COUNTS, ("cache_written",)),
)
"""Names of fields for each token count, and further names that only fields of a usage have."""


def _calls_in(found: Mapping[str, Any]) -> list[object]:
    """Return the calls among the fields of an answer, as the client represents them."""
    pieces = [key for key in found if _PIECES_OF_CALLS.fullmatch(key)]  # a client may parse the same pieces, too
    several = next((found[key] for key in (*pieces, *CALL_FIELDS, *names_of_call_lists(found)) if found.get(key)), ())
    calls = items_of(several)
    return [several] if calls is None else calls


_PIECES_OF_CALLS = re.compile(r"\w*calls?_(chunks|deltas|pieces)")

OwnCall: TypeAlias = tuple[object, str, str, dict[str, JSON] | None]
"""A call as the client represents it, with its id, name and arguments. Arguments that are no JSON object are `None`."""


def own_calls(answer: object) -> list[OwnCall]:
    """Return the calls in an answer or in a list. An event of another kind may have the same fields, but has no name of
    a tool.
    """
    items = items_of(answer)
    computed = {name: getattr(answer, name) for name in CALL_FIELDS if is_computed(answer, name)}
    found = {**computed, **plain_fields(answer)} if items is None else _fields_of_parts(items)
    calls = [] if isinstance(answer, str) else _calls_in({key: each for key, each in found.items() if each})
    calls = calls or [each for each in items_of(found.get("content")) or () if _is_call_block(each)]
    read = [(each, call_parts(each)) for each in calls]
    texts = [(each, made, made["args"] or "{}") for each, made in read if made["name"]]
    return [(each, str(made["id"] or ""), str(made["name"]), _arguments_object(text)) for each, made, text in texts]


def _arguments_object(arguments: str) -> dict[str, JSON] | None:
    try:
        found: JSON = json.loads(arguments)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def stop_reason_in(found: Mapping[str, Any]) -> str | None:
    """Return the stop reason among the fields of an answer, whose names may be in camel case."""
    found = {snake_case(name): value for name, value in found.items()}
    reason = next((found[key] for key in _REASON_FIELDS if found.get(key)), None)
    if reason:
        return _known_stop_word(reason)
    words = [getattr(found.get(key), "value", found.get(key)) for key in _OTHER_REASON_FIELDS]
    known = [each for each in words if isinstance(each, str) and stop_reason(each) is not StopReason.UNKNOWN]
    return next(iter(known), None) or next(filter(None, map(_word_of_outcome, found.values())), None)


def _word_of_outcome(value: object) -> str | None:
    """Return the stop reason that a member of an enumeration means, if the enumeration has one for truncated answers.
    Its other members, such as `ANSWERED`, may have any name. One for all rare reasons keeps its word.
    """
    if not isinstance(value, Enum):
        return None
    words = {each.name: _known_stop_word(each) for each in type(value)}
    if not any(stop_reason(word) is StopReason.MAX_TOKENS for word in words.values()):
        return None
    word = words[value.name]
    is_usual = stop_reason(word) is StopReason.UNKNOWN and word.lower() not in _WORDS_OF_RARE_REASONS
    return "stop" if is_usual else word


_WORDS_OF_RARE_REASONS = frozenset({"other", "unknown"})


def _known_stop_word(reason: object) -> str:
    """Return the stop reason of a client as a known word. Its own word may be one such as `tools` or `truncated`."""
    value = getattr(reason, "value", reason)
    word = str(value if isinstance(value, str) else getattr(reason, "name", reason))
    if stop_reason(word) is not StopReason.UNKNOWN:
        return word
    known = (each for each, own in _OWN_STOP_WORDS.items() if re.fullmatch(own, re.sub(r"[ -]", "_", word.lower())))
    return next(known, word)


_OWN_STOP_WORDS = {
    "end_turn": "end(ed)?|done|finish(ed)?|complete|natural|normal",
    "tool_use": "tools?|tool_?calls?|calls?|functions?|function_?calls?|(needs?|requires?|call)_tools?",
    "max_tokens": "truncated|max_?length|max_?output|(token_)?limit|cut(_off)?|too_long",
    "refusal": "refused|(content_)?filtered|(content_)?filter|blocked|declined|moderat(ed|ion)",
}
"""Stop reason → words that clients use for it."""


def usual_stop_reason(calls: Sequence[object]) -> str:
    """Return the stop reason that an answer with or without calls usually has."""
    return "tool_calls" if calls else "stop"


def _last_message(found: Mapping[str, Any]) -> object | None:
    """Return the last message of an agent that returns its whole conversation. A conversation that ends with the
    request has the messages of the model in another list.
    """
    whole = items_of(found.get("messages"))
    if not whole or {*TEXT_FIELDS, *CALL_FIELDS} & found.keys():
        return None
    lists = [whole, *(items for each in found.values() if (items := items_of(each)))]
    answers = (each[-1] for each in lists if _role_of(each[-1]) in _ROLES_OF_ANSWERS)
    return next(answers, None if _role_of(whole[-1]) in _ROLES_OF_REQUESTS else whole[-1])


def _role_of(message: object) -> str:
    role: object = plain_fields(message).get("role")
    return str(getattr(role, "value", role))


_ROLES_OF_REQUESTS, _ROLES_OF_ANSWERS = ("user", "system", "developer", "human"), ("assistant", "model", "ai")


def _text_among(values: Sequence[object]) -> object:
    """Return the text among the values of known fields: a text, a list of parts, or an object."""
    texts = [each for each in values if isinstance(each, str)]
    lists = [each for each in values if each and items_of(each) is not None]
    return next((each for each in [*texts, *lists] if each), "" if texts else next(filter(None, values), ""))


def text_of_fields(value: object) -> str:
    """Return the text in a known field of an object, or an empty text."""
    found = {**computed_fields(value), **plain_fields(value)}
    return next((found[key] for key in TEXT_FIELDS if isinstance(found.get(key), str)), "")


def _inner_answers(answer: object, found: Mapping[str, Any]) -> list[object]:
    """Return the objects in the fields of an answer that have the text or the calls which the answer itself lacks."""
    if {*CALL_FIELDS} & found.keys():
        return []
    lacks_text = not ({*TEXT_FIELDS} - {"message"}) & found.keys()
    values = [each for each in found.values() if not isinstance(each, str)]
    answers = [each for each in values if has_answer_fields(each)] if lacks_text else []
    return answers or [each for each in values if _is_own_message(each, answer)]


def _is_own_message(value: object, answer: object) -> bool:
    """Return whether a field of an answer is an object of the same package that lists calls, such as its message."""
    package, other = (type(each).__module__.partition(".")[0] for each in (answer, value))
    is_own = package == other != "builtins"
    return is_own and (has_calls_field(value) or bool(names_of_call_lists(plain_fields(value))))


def has_calls_field(value: object) -> bool:
    """Return whether an object has a field or a property for calls, so that it is the answer of a client."""
    return bool({*CALL_FIELDS} & (plain_fields(value).keys() | computed_fields(value).keys()))


def names_of_call_lists(found: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that are lists of calls. Declarations of tools have the same fields, but no id."""
    lists = {name: items for name, each in found.items() if (items := items_of(each))}
    others = {*TEXT_FIELDS, *TOOL_PARAMETERS}
    lists = {name: each for name, each in lists.items() if name not in others or all(map(_has_call_id, each))}
    return [name for name, items in lists.items() if all(map(is_single_call, items))]


def _has_call_id(call: object) -> bool:
    return call_id_field(plain_fields(call)) is not None


def _is_call_block(part: object) -> bool:
    return plain_fields(part).get("type") == "tool_use" or is_single_call(part)


def has_answer_fields(value: object) -> bool:
    """Return whether a value has a field for a text, calls, a stop reason or token counts."""
    return bool(
        {*TEXT_FIELDS, *CALL_FIELDS, "choices", "finish_reason", "stop_reason", "usage"} & plain_fields(value).keys()
    )


def computed_fields(value: object) -> dict[str, Any]:
    """Return the text and the calls that an object computes, under the names of its properties. Also return its other
    usual fields of an answer, unless their properties fail.
    """
    found = {name: getattr(value, name) for name in {*TEXT_FIELDS, *CALL_FIELDS} if is_computed(value, name)}
    for name in filter(partial(is_computed, value), _OTHER_ANSWER_FIELDS):
        with contextlib.suppress(Exception):  # a property of third-party code may fail in any way
            found[name] = getattr(value, name)
    return found


def _fields_of_parts(answer: Sequence[object]) -> dict[str, object]:
    """Return the fields of a list of blocks or calls, or of a tuple such as `(text, calls)`."""
    found: dict[str, object] = {}
    single: list[object] = []
    if any(plain_fields(each).get("type") in _BLOCK_TYPES for each in answer):
        return {"content": [*answer]}
    if answer and all("name" in plain_fields(each) or "function" in plain_fields(each) for each in answer):
        return {"calls": [*answer]}
    has_message = any("role" in plain_fields(each) for each in answer)
    for each in answer:
        if isinstance(each, str):
            is_reason = has_message and stop_reason(each) is not StopReason.UNKNOWN
            found["finish_reason" if is_reason or {"text", "content"} & found.keys() else "text"] = each
        elif (calls := items_of(each)) is not None:
            found |= _fields_of_parts(calls) if any(map(_has_only_text, calls)) else {"calls": calls}
        elif any(name.endswith("_tokens") for name in plain_fields(each)):
            found["usage"] = each
        elif is_single_call(each):
            single.append(each)
        elif each is not None:
            found |= plain_fields(each)
    texts = _texts_of_items(answer)
    if len(texts) > 1 or (texts and any(map(is_reasoning, answer))):
        found["text"] = "".join(texts)
    return {**found, "calls": single} if single else found


def _has_only_text(item: object) -> bool:
    """Return whether an item is an object with a text, and neither a call nor a message with a role."""
    fields = plain_fields(item)
    return bool(text_of_fields(item)) and not {*NAME_FIELDS, *CALL_FIELDS, "role"} & fields.keys()


def _texts_of_items(items: Sequence[object]) -> list[str]:
    """Return the texts of items that are objects of the same class. Reasoning is no text of the answer."""
    spoken = [each for each in items if _has_only_text(each) and not is_reasoning(each)]
    return [text_of_fields(each) for each in spoken if type(each) is type(spoken[0])]


def is_reasoning(item: object) -> bool:
    """Return whether the name of an object's class says that it holds reasoning."""
    return re.search("reason|think|thought", type(item).__name__, re.IGNORECASE) is not None
