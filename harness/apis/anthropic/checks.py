"""Checks of requests that fact conditions cannot express: fields of objects, sizes and schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.apis.anthropic.pairing import (
    FACTS,
    Entry,
    dotted_path,
    entries,
    limit,
    nested_blocks,
    pairing_limits,
    turns,
)
from harness.apis.anthropic.requests import body_of, is_continued, is_invoked
from harness.apis.jsonvalue import as_list, cached_per_element, join, objects, resolve
from harness.apis.limits import LimitSeverity, Violation, severity_of
from harness.apis.profiles import RuleSet
from harness.apis.schemas import image_side, schema_fault, subschemas
from harness.apis.view import WireError
from harness.documents.json_schema import UndecidedSchema, Validator, schema_error
from harness.model.http import HttpRequest
from harness.model.messages import JSON

_MAX_BODY_BYTES = 32 * 1024 * 1024
_MAX_MESSAGES = 100_000
_MAX_CACHE_MARKS = 4
_MANY_IMAGES = 20
_MAX_PIXELS_OF_MANY_IMAGES = 2000
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")
_BEDROCK = "bedrock"
"""Amazon's service. The provider's rules apply, except those about the provider's tools."""

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
    """The API surface that a request uses.

    `beta` is set for the beta surface, which has more fields. `betas_named` is set if the request enables betas, which
    may add fields. `own` is set if the server is the provider or a cloud that hosts its models.
    """

    beta: bool
    betas_named: bool
    own: bool

    @property
    def unknown(self) -> LimitSeverity:
        """Severity of an unknown field or type (anthropic-no-extra-inputs)."""
        return "error" if self.own and not self.betas_named else "warning"


def violations(request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
    """Return the violations of rules that fact conditions cannot express."""
    if len(request.body) > _MAX_BODY_BYTES:
        message = "Request exceeds the maximum size"
        return [
            limit("body-size").make_violation(
                message, "", actual=len(request.body), expected=_MAX_BODY_BYTES, status=413
            )
        ]
    try:
        body = body_of(request)
    except WireError as error:
        return [limit("body").make_violation(f"The request body is not valid JSON: {error.reason}", "")]
    if not isinstance(body, dict):
        return [limit("body").make_violation("Input should be a valid dictionary or object to extract fields from", "")]
    messages = body.get("messages")
    if isinstance(messages, list) and len(messages) > _MAX_MESSAGES:  # checked before each message is
        message = f"messages: at most {_MAX_MESSAGES} messages are allowed"
        return [
            limit("messages-many").make_violation(message, "/messages", actual=len(messages), expected=_MAX_MESSAGES)
        ]
    stripped = not request.headers.get("anthropic-version") and not is_invoked(request)  # so its betas are unknown
    named = stripped or bool(request.headers.get("anthropic-beta"))
    beta = named or ("?" in request.url and "beta" in parse_qs(urlsplit(request.url).query))
    surface = _Surface(beta, named, rule_set.is_own or rule_set.service == _BEDROCK)
    forms, conversation = _Forms(surface), entries(body)
    return [
        *forms.of(body, "", "Request"),
        *_budget(body, surface),
        *(_tool_types(body, rule_set) if rule_set.is_own and not is_invoked(request) else ()),
        *schema_limits(body),
        *_cache_marks(body, conversation, forms),
        *_tools_missing(body, conversation),
        *_many_images(conversation),
        *pairing_limits(body, turns(conversation), rule_set.profile),
    ]


@cache
def _forms() -> dict[str, Any]:
    """Return the definitions of request objects (forms), by name. They are the parameters of the limit
    `anthropic-extra-input`.

    - `needs`, `may` and `beta` map required fields, optional fields and fields of the beta surface to their types. A
      type is a JSON type, `any`, another form, or a list (`Block[]`).
    - `source` names the facts that violations of the form cite.
    - `by` is the field that selects one of `forms`. A missing value selects `absent`, and an unknown value selects
      `other`.
    - `unknown` names the limit that an unknown value violates if the form has no `other`. Values that match the pattern
      `also` are accepted.
    - `wanted` maps required fields to limits of their own.
    """
    parameters: Any = FACTS.limits["anthropic-extra-input"][1].parameters
    return parameters


class _Forms:
    def __init__(self, surface: _Surface) -> None:
        self._surface = surface

    def of(self, data: dict[str, JSON], pointer: str, name: str) -> Iterator[Violation]:
        """Check an object, including nested ones, for missing, wrongly typed and unknown fields."""
        form = _forms()[name]
        if "by" in form:
            yield from self._check_union(form, data, pointer)
            return
        if not form:
            return
        needs: dict[str, str] = form.get("needs", {})
        beta: dict[str, str] = form.get("beta", {}) if self._surface.beta else {}
        known: dict[str, str] = {**needs, **form.get("may", {}), **beta}
        for key in needs:
            if key not in data:
                message = f"{dotted_path(join(pointer, key))}: Field required"
                yield limit("field-missing").make_violation(message, pointer, expected=key, source=form["source"])
        for key, broken in form.get("wanted", {}).items():
            if data.get(key) is None:
                yield limit(broken).make_violation(f"{dotted_path(pointer)}.custom.{key}: Field required", pointer)
        for key, value in data.items():
            place = join(pointer, key)
            if key not in known:
                message = f"{dotted_path(place)}: Extra inputs are not permitted"
                severity = "warning" if value is None else self._surface.unknown  # null was never seen rejected
                yield limit("extra-input").make_violation(message, place, actual=key, severity=severity)
            elif known[key] != "any" and (value is not None or key in needs):
                yield from self._value(value, place, known[key], form["source"])

    def _check_union(self, form: dict[str, Any], data: dict[str, JSON], pointer: str) -> Iterator[Violation]:
        tag = data.get(form["by"])
        forms: dict[str, str] = form["forms"]
        if isinstance(tag, str) and tag in forms:
            yield from self.of(data, pointer, forms[tag])
        elif (tag is None and "absent" in form) or "other" in form:
            yield from self.of(data, pointer, form["absent"] if tag is None and "absent" in form else form["other"])
        elif form.get("required") and (not isinstance(tag, str) or not tag):
            message = f"{dotted_path(pointer)}.{form['by']}: Field required"
            yield limit("field-missing").make_violation(message, pointer, expected=form["by"])
        elif not (isinstance(tag, str) and tag and re.fullmatch(form.get("also", ""), tag)):
            beta: list[str] = form.get("beta", []) if self._surface.beta else []
            if tag in beta:
                return
            message = (
                f"{dotted_path(pointer)}: Input tag '{tag}' found using 'type' does not match any of the expected tags"
            )
            place = join(pointer, "type") if form.get("required") else pointer
            severity = None if form["unknown"] == "anthropic-choice-type" else self._surface.unknown
            yield limit(form["unknown"].removeprefix("anthropic-")).make_violation(
                message, place, actual=tag, expected=[*sorted((*forms, *beta))], severity=severity
            )

    def _value(self, value: JSON, place: str, kind: str, source: str) -> Iterator[Violation]:
        """Check a value against a type. In a union such as `string|Block[]`, the items of a list are checked against
        the form."""
        types, form, words = _kind(kind)
        if type(value) not in types:
            message = f"{dotted_path(place)}: Input should be a valid {words}"
            yield limit("field-type").make_violation(message, place, actual=value, expected=words, source=source)
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
        message = f"{dotted_path(pointer)}: Input should be an object"
        return [limit("field-type").make_violation(message, pointer, actual=member, expected="object")]

    return cached_per_element(of)


@cache
def _kind(kind: str) -> tuple[tuple[type, ...], str, str]:
    kinds = kind.split("|")
    names = [each if each in _TYPES else "list" if each.endswith("[]") else "object" for each in kinds]
    form = next((each for each in kinds if each[:1].isupper()), "")
    return tuple(each for name in names for each in _TYPES[name]), form, " or ".join(names)


def _budget(body: dict[str, JSON], surface: _Surface) -> Iterator[Violation]:
    thinking, most = body.get("thinking"), body.get("max_tokens")
    is_enabled = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    budget = resolve(thinking, "/budget_tokens") if is_enabled else None
    if surface.betas_named or not isinstance(budget, int) or not isinstance(most, int):
        return  # interleaved thinking removes this limit
    if budget >= max(most, 1024):
        message = "`max_tokens` must be greater than `thinking.budget_tokens`"
        yield limit("thinking-budget").make_violation(message, "/thinking/budget_tokens", actual=budget, expected=most)


def _tool_types(body: dict[str, JSON], rule_set: RuleSet) -> Iterator[Violation]:
    for pointer, tool in objects(body.get("tools"), "/tools"):
        kind = tool.get("type")
        severity = severity_of(rule_set.profile.tool_types.get(kind)) if isinstance(kind, str) else None
        if severity:
            message = f"'{body.get('model')}' does not support tool types: {kind}."
            yield limit("tool-type").make_violation(message, join(pointer, "type"), actual=kind, severity=severity)


def _tools_missing(body: dict[str, JSON], conversation: list[Entry]) -> Iterator[Violation]:
    blocks = (block for entry in conversation for block in entry.blocks)
    used = next((block for block in blocks if block.kind in ("tool_use", "tool_result")), None)
    if used is not None and not body.get("tools") and not is_continued(body):
        message = "Requests which include `tool_use` or `tool_result` blocks must define tools."
        yield limit("tools-missing").make_violation(message, used.pointer)


def _many_images(conversation: list[Entry]) -> Iterator[Violation]:
    """Yield the first image that is too large for a request with many images."""
    blocks = (inner for entry in conversation for block in entry.blocks for inner in (block, *nested_blocks(block)))
    images = [block for block in blocks if block.kind == "image"]
    for image in images if len(images) > _MANY_IMAGES else ():
        side = image_side(resolve(image.data, "/source/data"))
        if side > _MAX_PIXELS_OF_MANY_IMAGES:
            pointer = join(image.pointer, "source", "data")
            said = "At least one of the image dimensions exceed max allowed size for many-image requests"
            message = f"{dotted_path(pointer)}: {said}: {_MAX_PIXELS_OF_MANY_IMAGES} pixels"
            yield limit("image-side-of-many").make_violation(
                message, pointer, actual=side, expected=_MAX_PIXELS_OF_MANY_IMAGES
            )
            return


def _cache_marks(body: dict[str, JSON], conversation: list[Entry], forms: _Forms) -> Iterator[Violation]:
    marks: list[tuple[str, JSON]] = []
    blocks = (inner for entry in conversation for block in entry.blocks for inner in (block, *nested_blocks(block)))
    outside = (*objects(body.get("tools"), "/tools"), *objects(body.get("system"), "/system"))
    for place, data in (*outside, *((block.pointer, block.data) for block in blocks)):
        if data.get("cache_control") is not None:
            marks.append((join(place, "cache_control"), data["cache_control"]))
    if len(marks) > _MAX_CACHE_MARKS:
        message = f"A maximum of {_MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
        place = marks[_MAX_CACHE_MARKS][0]
        yield limit("cache-marks").make_violation(message, place, actual=len(marks), expected=_MAX_CACHE_MARKS)
    five_minutes_seen = False
    for place, mark in marks:
        if isinstance(mark, dict):
            yield from forms.of(mark, place, "CacheMark")
            five_minutes_seen |= mark.get("ttl") in (None, "5m")
            if five_minutes_seen and mark.get("ttl") == "1h":
                message = f"{dotted_path(place)}: a ttl='1h' cache_control block must not come after a ttl='5m' one"
                yield limit("cache-times").make_violation(message, join(place, "ttl"), actual="1h", expected="5m")
            if mark.get("type", "ephemeral") != "ephemeral" or mark.get("ttl") not in (None, "5m", "1h"):
                message = f"{dotted_path(place)}: Input should be {{'type': 'ephemeral', 'ttl': '5m' or '1h'}}"
                yield limit("cache-mark").make_violation(message, place, actual=mark)


def header_violation(request: HttpRequest) -> Violation | None:
    """Check the version header: return a violation if it is missing or invalid. Clouds accept the version in the body
    instead."""
    version = request.headers.get("anthropic-version")
    if not request.headers or b'"anthropic_version"' in request.body:
        return None
    if version is None:
        return limit("version").make_violation("anthropic-version: header is required", "")
    if _VERSION.fullmatch(version) is None:
        return limit("version").make_violation(
            f'anthropic-version: "{version}" is not a valid version', "", actual=version
        )
    return None


_CONTESTED_KEYWORDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
)
"""Keywords that the documentation forbids but some current models accept (anthropic-strict-closed)."""
_UNIONS = ("anyOf", "oneOf")

_MOST_TOOLS, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16


def schema_limits(body: dict[str, JSON]) -> Iterator[Violation]:
    """Check the schemas of the caller's tools and of the response format."""
    strict: list[tuple[str, dict[str, JSON]]] = []
    for pointer, tool in objects(body.get("tools"), "/tools"):
        schema, place = tool.get("input_schema"), join(pointer, "input_schema")
        if not is_custom(tool) or not isinstance(schema, dict):
            continue
        if schema.get("type") != "object":
            message = f"{dotted_path(place)}.type: Input should be 'object'"
            yield limit("tool-schema").make_violation(message, place, actual=schema.get("type"), expected="object")
        fault = schema_fault(schema)
        if fault:
            keys, reason = fault
            message = f"{dotted_path(place)}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {reason}"
            yield limit("tool-schema").make_violation(message, join(place, *keys))
        yield from example_limits(tool, schema, pointer)
        if tool.get("strict") is True:
            strict.append((place, schema))
            yield from _strict(schema, place)
    yield from _strict_complexity(strict)
    answer, place = resolve(body, "/output_config/format/schema"), "/output_config/format/schema"
    if isinstance(answer, dict):
        yield from _strict(answer, place)


def is_custom(tool: dict[str, JSON]) -> bool:
    """Return whether the client runs this tool. The provider's tools have other types."""
    return tool.get("type") in (None, "custom")


def example_limits(tool: dict[str, JSON], schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """Check that `input_examples` match the tool's schema (anthropic-tool-examples-valid)."""
    for index, example in enumerate(as_list(tool.get("input_examples"))):
        if not _is_valid(example, schema):
            place = join(pointer, "input_examples", index)
            yield limit("tool-examples").make_violation(
                f"{dotted_path(place)}: does not match the input_schema", place, actual=example
            )


def _is_valid(example: JSON, schema: dict[str, JSON]) -> bool:
    """Return whether an example matches the schema. Also return true if this cannot be decided, or if the schema is
    invalid, which is a separate violation."""
    try:
        return schema_error(schema) is not None or Validator(schema).is_valid(example)
    except (UndecidedSchema, RecursionError):
        return True


def _strict(schema: dict[str, JSON], pointer: str) -> Iterator[Violation]:
    """Check a strict schema: all objects are closed and there is no recursion (anthropic-strict-closed)."""
    for place, member in subschemas(schema, pointer):
        others = member.get("additionalProperties")
        if isinstance(others, dict):
            message = f"{dotted_path(place)}: 'additionalProperties' cannot be a schema: name every property"
            yield limit("strict-map").make_violation(
                message, join(place, "additionalProperties"), actual=others, expected=False
            )
        elif _is_object(member) and others is not False:
            message = f"{dotted_path(place)}: For 'object' type, 'additionalProperties' must be explicitly set to false"
            yield limit("strict-schema").make_violation(message, place, expected=False)
        for key in _CONTESTED_KEYWORDS:
            if key in member:
                message = f"{dotted_path(place)}: For this type, property '{key}' may not be supported"
                yield limit("strict-keyword").make_violation(message, join(place, key), actual=key)
    recursive = _recursive(schema, pointer)
    if recursive is not None:
        message = f"{dotted_path(recursive)}: Recursive schemas are not supported"
        yield limit("strict-recursion").make_violation(message, recursive)


def _strict_complexity(schemas: list[tuple[str, dict[str, JSON]]]) -> Iterator[Violation]:
    """Check the total complexity of all strict tools' schemas (anthropic-strict-closed, anthropic-strict-complexity).

    The provider returns the same message for every limit. It may also reject schemas far below these limits, depending
    on the model (anthropic-strict-grammar-size).
    """
    message = "Schema is too complex for compilation. Try reducing the number of tools or simplifying tool schemas."
    if len(schemas) > _MOST_TOOLS:
        place = schemas[_MOST_TOOLS][0]
        yield limit("strict-tools").make_violation(message, place, actual=len(schemas), expected=_MOST_TOOLS)
    members = [member for pointer, schema in schemas for member in subschemas(schema, pointer)]
    optional = [place for place, member in members for place in _optional(member, place)]
    if len(optional) > _MOST_OPTIONAL:
        place = optional[_MOST_OPTIONAL]
        yield limit("strict-optional").make_violation(message, place, actual=len(optional), expected=_MOST_OPTIONAL)
    unions = [place for at, schema in members for _, place, member in _properties(schema, at) if _is_union(member)]
    if len(unions) > _MOST_UNIONS:
        place = unions[_MOST_UNIONS]
        yield limit("strict-unions").make_violation(message, place, actual=len(unions), expected=_MOST_UNIONS)


def _properties(schema: dict[str, JSON], pointer: str) -> Iterator[tuple[str, str, JSON]]:
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        yield name, join(pointer, "properties", name), member


def _optional(schema: dict[str, JSON], pointer: str) -> list[str]:
    """Return the pointers of an object's optional properties."""
    needed = as_list(schema.get("required"))
    return [place for name, place, _ in _properties(schema, pointer) if name not in needed]


def _is_union(schema: JSON) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    return any(key in schema for key in _UNIONS) or (isinstance(kind, list) and len(kind) > 1)


def _recursive(schema: dict[str, JSON], pointer: str) -> str | None:
    """Return the location of a `$ref` that is part of a cycle, or `None`.

    A reference depends on all references inside its target. `#` is the whole schema.
    """
    places = {
        place.removeprefix(pointer): reference.removeprefix("#")
        for place, member in subschemas(schema, pointer)
        if isinstance(reference := member.get("$ref"), str) and reference.startswith("#")
    }
    leads = {
        place: [inner for inner in places if inner == target or inner.startswith(f"{target}/")]
        for place, target in places.items()
    }
    try:
        TopologicalSorter(leads).prepare()
    except CycleError as error:
        return pointer + error.args[1][0]
    return None


def _is_object(schema: dict[str, JSON]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)
