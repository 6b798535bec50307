"""Messages in OpenAI's format, adjusted to what a client's source reads: roles, fields, joined texts and results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

from harness.bridge.clients.names import ERROR_FLAG, FIELD_ALIASES, OTHER_ERROR_FLAGS
from harness.bridge.clients.own_keys import OwnFields, PartFields
from harness.bridge.clients.values import result_object, without_keys
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Text


def with_joined_texts(request: ChatRequest, memory: Memory) -> ChatRequest:
    """Return the request with the texts of each message joined into one, for a client that accepts only one. Messages
    with other parts, and those that the client made itself, stay unchanged.
    """
    made = [
        replace(each, parts=(Text("\n".join(part.text for part in each.parts if isinstance(part, Text))),))
        if len(each.parts) > 1 and all(isinstance(part, Text) for part in each.parts) and not memory.own(place, each)
        else each
        for place, each in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(made))


def with_own_fields(message: Mapping[str, Any], own: Mapping[str, Any], calls: Sequence[object], source: str) -> Any:
    """Return a message in OpenAI's format whose fields a client can also read under its own names.

    `own` has the fields of the client's answer that the message comes from, and `calls` the calls in it, as the client
    returned them. `source` is the code of the client. It shows whether arguments are a text or an object.
    """
    made: dict[str, Any] = {**message}
    if isinstance(content := made.get("content"), list):
        made["content"] = [PartFields(each) for each in cast("list[dict[str, Any]]", content)]
    if _COMPARES_ROLE.search(source):
        (made,) = with_own_roles([made], source)
    if made.get("tool_calls"):
        found = [cast("dict[str, Any]", each) if isinstance(each, dict) else dict[str, Any]() for each in calls]
        found = found if len(found) == len(made["tool_calls"]) else [dict[str, Any]() for _ in made["tool_calls"]]
        made["tool_calls"] = [
            OwnFields(each, given, {**each, **each["function"], "arguments": _own_arguments(each["function"], source)})
            for each, given in zip(made["tool_calls"], found, strict=True)
        ]
    flat = {**made, **({"id": made["tool_call_id"]} if "tool_call_id" in made else {})}
    flat |= dict.fromkeys(OTHER_ERROR_FLAGS, made[ERROR_FLAG]) if ERROR_FLAG in made else {}
    made.pop("answered_call", None)
    known = {name: value for name, value in own.items() if name not in FIELD_ALIASES["tool_calls"]}
    return OwnFields(made, known, flat)


_COMPARES_ROLE = re.compile(r"role[\"']\]?\)?\s*==\s*[\"'](model|ai|bot|human)[\"']")
"""Code that compares the role of a message with a word other than OpenAI's."""


def _own_arguments(function: Mapping[str, Any], source: str) -> Any:
    """Return the arguments of a call as an object. Return them as a text if the client parses them, or passes them on
    to OpenAI.
    """
    keys = "|".join(("arguments", *FIELD_ALIASES["arguments"]))
    read = rf"\w+(\.get\(|\[)[\"']({keys})[\"']"
    is_object = re.search(rf"dumps\({read}", source) is not None
    is_text = re.search(rf"loads\({read}|[\"']arguments[\"']:\s*{read}", source) is not None
    return function["arguments"] if is_text and not is_object else json.loads(function["arguments"] or "{}")


def with_answered_calls(
    messages: Sequence[Any], request: ChatRequest, own: Mapping[str, object] | None = None, *, is_read: bool = False
) -> list[Any]:
    """Return messages in OpenAI's format, in which each result also has the call that it answers.

    `own` has the client's own calls by their ids. With `is_read`, the client reads the fields of the others under names
    of its own.
    """
    calls = {call.id: call for message in request.messages for call in message.tool_calls}
    found = list[Any]()
    for each in messages:
        call = calls.get(cast("dict[str, Any]", each).get("tool_call_id", "")) if isinstance(each, dict) else None
        if call is None:
            found.append(each)
            continue
        fields = {"id": call.id, "name": call.name, "arguments": call.arguments}
        made = OwnFields(fields, {}, fields) if is_read else fields
        found.append({**each, "answered_call": (own or {}).get(call.id, made)})
    return found


def reads_answered_calls(source: str) -> bool:
    """Return whether code reads the id of a call from the message of its result, as in `message["call"].id`."""
    return _READS_ANSWERED_CALL.search(source) is not None


_READS_ANSWERED_CALL = re.compile(
    rf"[\"']({'|'.join(FIELD_ALIASES['answered_call'])})[\"']\](\.(call_)?id\b|\[[\"'](call_)?id[\"']\])"
)


def without_answered_calls(messages: object) -> object:
    """Return messages without the calls that `with_answered_calls` added to those that are still dictionaries."""
    if not isinstance(messages, list):
        return messages
    return [_without_answered_call(each) for each in cast("list[object]", messages)]


def _without_answered_call(message: object) -> object:
    if not isinstance(message, dict) or "answered_call" not in [*cast("dict[str, Any]", message)]:
        return cast("object", message)
    return without_keys(cast("dict[str, Any]", message), "answered_call")


def with_joined_results(messages: Sequence[Any], request: ChatRequest, source: str) -> list[Any]:
    """Return messages in OpenAI's format, with the results of a turn in one message if the client's source reads them
    from a list: as pairs of a call and its result, or as dictionaries.
    """
    read = re.search(r"(for \(?\w+, \w+\)? in )?[\w.\[\]-]+(\[|\.get\()[\"']results[\"']", source)
    if read is None:
        return [*messages]
    found = list[Any]()
    for is_result, run in groupby(with_answered_calls(messages, request), is_result_message):
        if not is_result:
            found += run
            continue
        results = cast("list[dict[str, Any]]", [*run])
        if read[1]:
            calls = [each.get("answered_call") or {"id": each["tool_call_id"]} for each in results]
            listed = [(OwnFields(call, {}, call), each["content"]) for call, each in zip(calls, results, strict=True)]
        else:
            others = [{"id": each["tool_call_id"], "response": result_object(each["content"])} for each in results]
            listed = [OwnFields(each, {}, {**each, **other}) for each, other in zip(results, others, strict=True)]
        found.append({"role": compared_role_of_results(source) or "tool", "results": listed})
    return found


def text_pairs(messages: Sequence[Mapping[str, Any]], name: str, source: str) -> list[tuple[str, str]]:
    """Return earlier turns as pairs of texts: each question with its answer or, if the code that reads the parameter
    `name` shows it, each role with its text.

    Raises:
        Unsupported: the turns are other messages.
    """
    pairs = [(str(each["role"]), each["content"]) for each in messages]
    texts = [text for _, text in pairs]
    is_by_role = re.search(rf"\bfor \(?(role|speaker|who|author|sender), \w+\)? in {name}\b", source) is not None
    roles = [role for role, _ in pairs]
    if all(isinstance(each, str) for each in texts) and is_by_role:
        return pairs
    if not all(isinstance(each, str) for each in texts) or roles != ["user", "assistant"] * (len(roles) // 2):
        raise Unsupported(RECOGNISED_CLIENT, "this history", f"{name} has pairs of texts")
    return [*zip(texts[::2], texts[1::2], strict=True)]


def is_result_message(message: object) -> bool:
    """Return whether a message is the result of a call, in OpenAI's format."""
    return isinstance(message, dict) and "tool_call_id" in message


def with_own_roles(messages: Sequence[Any], source: str, package: str = "", *, has_tool_role: bool = True) -> list[Any]:
    """Return messages with OpenAI's roles replaced by those that the client's source code uses. The source of its
    `package` may have a dictionary of roles.

    Results are messages of the user unless the client `has_tool_role`, or a word for such a role.
    """
    code = _KEYS_AND_TYPES.sub("", source)
    words = {role: re.search(rf"[\"']({other})[\"']", code) for role, other in _OTHER_ROLE_WORDS.items()}
    own = {role: found[1] for role, found in words.items() if found and not re.search(rf"\b{role}\b", source)}
    own = ({} if has_tool_role else {"tool": "user"}) | own | _roles_in_table(package)
    dicts = [cast("dict[str, Any]", each) if isinstance(each, dict) else None for each in messages]
    roles = [each and {**each, "role": own.get(each["role"], each["role"])} for each in dicts]
    return [role or each for role, each in zip(roles, messages, strict=True)]


def _roles_in_table(source: str) -> dict[str, str]:
    """Return the client's own words for roles if a dictionary in its source maps them to those of the API."""
    for table in re.findall(r"\{([^{}]+)\}", source):
        roles: dict[str, str] = {}
        for own, role in re.findall(r"[\"'](\w+)[\"']:\s*[\"'](\w+)[\"']", table):
            roles.setdefault(role, own)
        if {"user", "assistant"} <= roles.keys():
            return roles
    return {}


def mentions_tool_role(source: str) -> bool:
    """Return whether code has the role `tool`, as a text or as a member of an enumeration. In `{"role": "tool"}` it is
    that of a request to a provider.
    """
    return re.search(r"(?<![\"']role[\"']: )[\"']tool[\"']|\bTOOL\b|\.tool\b", source) is not None


def compared_role_of_results(source: str) -> str | None:
    """Return the word for the role of results that code compares the role of a message with, if it is not `tool`."""
    words = {word for found in _COMPARED_ROLES.findall(source) for word in re.findall(r"[\"'](\w+)[\"']", found)}
    own = [each for each in words if re.fullmatch("tools|(tool_)?results?|function", each)]
    return own[0] if len(own) == 1 and "tool" not in words else None


_COMPARED_ROLES = re.compile(
    r"(?:\.role|\[[\"']role[\"']\]|\.get\([\"']role[\"']\)) (?:==|!=|in) (\([^()\n]*\)|[\"']\w+[\"'])"
)

_KEYS_AND_TYPES = re.compile(
    r"[\"']type[\"']:\s*[\"']\w+[\"']|\btype=[\"']\w+[\"']|[\"']\w+[\"']\s*:|(?<!Literal)\[[\"']\w+[\"']\]"
    r"|\.(get|pop|setdefault)\([\"']\w+[\"']"
)
"""Code whose texts are no roles: the types of tools and blocks, as in `{"type": "function"}`, and keys."""

_OTHER_ROLE_WORDS = {"assistant": "model|ai|bot", "user": "human", "tool": "function|tool_result"}
