"""Checks of requests that conditions cannot say: forms of objects, sizes, and what depends on headers and URL.

All else that the provider refuses is in `facts.yaml`, in `pairing` and in `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.apis.anthropic.conversation import FACTS, Entry, dotted, entries, limit, nested, pairing_limits, turns
from harness.apis.anthropic.requests import body_of, is_continued, is_invoked, objects
from harness.apis.anthropic.schemas import schema_limits
from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join, resolve
from harness.apis.law import Law
from harness.apis.limit import Severity, Violation, severity_of
from harness.apis.view import WireError
from harness.contract.http import HttpRequest
from harness.contract.model import JSON

_MOST_BYTES = 32 * 1024 * 1024
_MOST_MESSAGES = 100_000
_MOST_CACHE_MARKS = 4
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
_BEDROCK = "bedrock"
"""Amazon's service. It holds the provider's models to the provider's rules, but for those of the provider's tools."""

_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "list": (list,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


@dataclass(frozen=True, slots=True)
class _Surface:
    """The API that a request is sent to.

    `beta`: the beta surface, which knows more fields. `betas_named`: the request names betas, so that a field which is
    unknown here may belong to one of them. `own`: the provider itself answers, or a cloud that hosts its models.
    """

    beta: bool
    betas_named: bool
    own: bool

    @property
    def unknown(self) -> Severity:
        """The severity of an unknown field or type (anthropic-no-extra-inputs)."""
        return "error" if self.own and not self.betas_named else "warning"


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """The rules of the Messages API that a request breaks, but for those that conditions say."""
    if len(request.body) > _MOST_BYTES:
        message = "Request exceeds the maximum size"
        return [limit("body-size").broken(message, "", actual=len(request.body), expected=_MOST_BYTES, status=413)]
    try:
        body = body_of(request)
    except WireError as error:
        return [limit("body").broken(f"The request body is not valid JSON: {error.reason}", "")]
    if not isinstance(body, dict):
        return [limit("body").broken("Input should be a valid dictionary or object to extract fields from", "")]
    messages = body.get("messages")
    if isinstance(messages, list) and len(messages) > _MOST_MESSAGES:  # before any of them is looked at
        message = f"messages: at most {_MOST_MESSAGES} messages are allowed"
        return [limit("messages-many").broken(message, "/messages", actual=len(messages), expected=_MOST_MESSAGES)]
    named = bool(request.headers.get("anthropic-beta"))
    beta = named or ("?" in request.url and "beta" in parse_qs(urlsplit(request.url).query))
    surface = _Surface(beta, named, law.is_own or law.service == _BEDROCK)
    forms, conversation = _Forms(surface), entries(body)
    return [
        *forms.of(body, "", "Request"),
        *_budget(body, surface),
        *(_tool_types(body, law) if law.is_own and not is_invoked(request) else ()),
        *schema_limits(body),
        *_cache_marks(body, conversation, forms),
        *_tools_missing(body, conversation),
        *pairing_limits(body, turns(conversation), law.profile),
    ]


@cache
def _forms() -> dict[str, Any]:
    """The fields of all objects, by the parameters of `anthropic-extra-input`.

    A form has a `source` for what is missing or of a wrong type, and fields that it `needs`, that it `may` have and
    that only the `beta` surface knows, each with its type: a JSON type, `any`, a form, or a list of these (`Block[]`).
    A form with `by` is chosen among `forms` by that field; one of another value is `other`, or breaks `unknown`, unless
    the value matches `also`. `wanted` fields are those whose absence breaks a limit of their own.
    """
    parameters: Any = FACTS.limits["anthropic-extra-input"][1].parameters
    return parameters


class _Forms:
    """Reads objects by their forms."""

    def __init__(self, surface: _Surface) -> None:
        self._surface = surface

    def of(self, data: dict[str, JSON], pointer: str, name: str) -> Iterator[Violation]:
        """What is missing, of a wrong type, or unknown in an object and inside it."""
        form = _forms()[name]
        if "by" in form:
            yield from self._chosen(form, data, pointer)
            return
        if not form:
            return
        needs: dict[str, str] = form.get("needs", {})
        beta: dict[str, str] = form.get("beta", {}) if self._surface.beta else {}
        known: dict[str, str] = {**needs, **form.get("may", {}), **beta}
        for key in needs:
            if key not in data:
                message = f"{dotted(join(pointer, key))}: Field required"
                yield limit("field-missing").broken(message, pointer, expected=key, source=form["source"])
        for key, broken in form.get("wanted", {}).items():
            if data.get(key) is None:
                yield limit(broken).broken(f"{dotted(pointer)}.custom.{key}: Field required", pointer)
        for key, value in data.items():
            place = join(pointer, key)
            if key not in known:
                message = f"{dotted(place)}: Extra inputs are not permitted"
                severity = "warning" if value is None else self._surface.unknown  # no refusal of a null was shown
                yield limit("extra-input").broken(message, place, actual=key, severity=severity)
            elif known[key] != "any" and (value is not None or key in needs):
                yield from self._value(value, place, known[key], form["source"])

    def _chosen(self, form: dict[str, Any], data: dict[str, JSON], pointer: str) -> Iterator[Violation]:
        tag = data.get(form["by"])
        forms: dict[str, str] = form["forms"]
        if isinstance(tag, str) and tag in forms:
            yield from self.of(data, pointer, forms[tag])
        elif (tag is None and "absent" in form) or "other" in form:
            yield from self.of(data, pointer, form["absent"] if tag is None and "absent" in form else form["other"])
        elif form.get("required") and (not isinstance(tag, str) or not tag):
            message = f"{dotted(pointer)}.{form['by']}: Field required"
            yield limit("field-missing").broken(message, pointer, expected=form["by"])
        elif not (isinstance(tag, str) and re.fullmatch(form.get("also", ""), tag)):
            beta: list[str] = form.get("beta", []) if self._surface.beta else []
            if tag in beta:
                return
            message = f"{dotted(pointer)}: Input tag '{tag}' found using 'type' does not match any of the expected tags"
            place = join(pointer, "type") if form.get("required") else pointer
            severity = None if form["unknown"] == "anthropic-choice-type" else self._surface.unknown
            yield limit(form["unknown"].removeprefix("anthropic-")).broken(
                message, place, actual=tag, expected=[*sorted((*forms, *beta))], severity=severity
            )

    def _value(self, value: JSON, place: str, kind: str, source: str) -> Iterator[Violation]:
        """A value of a type. Of an alternative `string|Block[]` the list holds forms."""
        types, form, words = _kind(kind)
        if type(value) not in types:
            message = f"{dotted(place)}: Input should be a valid {words}"
            yield limit("field-type").broken(message, place, actual=value, expected=words, source=source)
        elif isinstance(value, dict) and form:
            yield from self.of(value, place, form)
        elif isinstance(value, list) and form:
            for found in _members(self._surface, form.removesuffix("[]"))(value, place):
                yield from found


@cache
def _members(surface: _Surface, form: str) -> Callable[[object, str], Sequence[list[Violation]]]:
    def of(member: JSON, pointer: str) -> list[Violation]:
        if isinstance(member, dict):
            return [*_Forms(surface).of(member, pointer, form)]
        message = f"{dotted(pointer)}: Input should be an object"
        return [limit("field-type").broken(message, pointer, actual=member, expected="object")]

    return entrywise(of)


@cache
def _kind(kind: str) -> tuple[tuple[type, ...], str, str]:
    """The Python types, the form and the words for a type of a field."""
    kinds = kind.split("|")
    names = [each if each in _TYPES else "list" if each.endswith("[]") else "object" for each in kinds]
    form = next((each for each in kinds if each[:1].isupper()), "")
    return tuple(each for name in names for each in _TYPES[name]), form, " or ".join(names)


def _budget(body: dict[str, JSON], surface: _Surface) -> Iterator[Violation]:
    thinking, most = body.get("thinking"), body.get("max_tokens")
    is_enabled = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    budget = resolve(thinking, "/budget_tokens") if is_enabled else None
    if surface.betas_named or not isinstance(budget, int) or not isinstance(most, int):
        return  # interleaved thinking lifts this bound
    if budget >= max(most, 1024):
        message = "`max_tokens` must be greater than `thinking.budget_tokens`"
        yield limit("thinking-budget").broken(message, "/thinking/budget_tokens", actual=budget, expected=most)


def _tool_types(body: dict[str, JSON], law: Law) -> Iterator[Violation]:
    for pointer, tool in objects(body.get("tools"), "/tools"):
        kind = tool.get("type")
        severity = severity_of(law.profile.tool_types.get(kind)) if isinstance(kind, str) else None
        if severity:
            message = f"'{body.get('model')}' does not support tool types: {kind}."
            yield limit("tool-type").broken(message, join(pointer, "type"), actual=kind, severity=severity)


def _tools_missing(body: dict[str, JSON], conversation: list[Entry]) -> Iterator[Violation]:
    blocks = (block for entry in conversation for block in entry.blocks)
    used = next((block for block in blocks if block.kind in ("tool_use", "tool_result")), None)
    if used is not None and not body.get("tools") and not is_continued(body):
        message = "Requests which include `tool_use` or `tool_result` blocks must define tools."
        yield limit("tools-missing").broken(message, used.pointer)


def _cache_marks(body: dict[str, JSON], conversation: list[Entry], forms: _Forms) -> Iterator[Violation]:
    marks: list[tuple[str, JSON]] = []
    blocks = (inner for entry in conversation for block in entry.blocks for inner in (block, *nested(block)))
    outside = (*objects(body.get("tools"), "/tools"), *objects(body.get("system"), "/system"))
    for place, data in (*outside, *((block.pointer, block.data) for block in blocks)):
        if data.get("cache_control") is not None:
            marks.append((join(place, "cache_control"), data["cache_control"]))
    if len(marks) > _MOST_CACHE_MARKS:
        message = f"A maximum of {_MOST_CACHE_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
        place = marks[_MOST_CACHE_MARKS][0]
        yield limit("cache-marks").broken(message, place, actual=len(marks), expected=_MOST_CACHE_MARKS)
    for place, mark in marks:
        if isinstance(mark, dict):
            yield from forms.of(mark, place, "CacheMark")
            if mark.get("type", "ephemeral") != "ephemeral" or mark.get("ttl") not in (None, "5m", "1h"):
                message = f"{dotted(place)}: Input should be {{'type': 'ephemeral', 'ttl': '5m' or '1h'}}"
                yield limit("cache-mark").broken(message, place, actual=mark)


def misheaded(request: HttpRequest) -> Violation | None:
    """A version that is missing, or no date. The clouds that host the models take it in the body instead."""
    version = request.headers.get("anthropic-version")
    if not request.headers or b'"anthropic_version"' in request.body:
        return None
    if version is None:
        return limit("version").broken("anthropic-version: header is required", "")
    if _VERSION.fullmatch(version) is None:
        return limit("version").broken(f'anthropic-version: "{version}" is not a valid version', "", actual=version)
    return None
