"""Keywords of JSON Schema as `json_schema` has jsonschema check them: within bounds, whoever wrote the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import local
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from harness.scenarios.patterns import CostlyPattern, search

_KNOWN: Any = Draft202012Validator.VALIDATORS

_MAX_REFERENCES = 10_000
"""References followed for one value: each schema may refer to the next one twice."""


class Followed(local):
    """The number of references that the current thread has followed for a value."""

    count = 0


followed = Followed()


def _reference(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    followed.count += 1
    if followed.count > _MAX_REFERENCES:
        raise CostlyPattern(f"more than {_MAX_REFERENCES} references are followed for one value")
    yield from _KNOWN["$ref"](validator, wanted, instance, schema) or ()


def _pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not search(wanted, instance):
        yield ValidationError(f"{instance!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    for each, inner in wanted.items():
        for name, value in _entries(instance):
            if search(each, name):
                yield from validator.descend(value, inner, path=name, schema_path=each)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties")
    if not patterns:
        yield from _KNOWN["additionalProperties"](validator, wanted, instance, schema) or ()
        return
    declared = schema.get("properties", {})
    others = {
        name: value
        for name, value in _entries(instance)
        if name not in declared and not any(search(each, name) for each in patterns)
    }
    if isinstance(wanted, dict):
        for name, value in others.items():
            yield from validator.descend(value, wanted, path=name)
    elif not wanted and others:
        names = ", ".join(sorted(map(repr, others)))
        yield ValidationError(f"Additional properties are not allowed, and no pattern matches {names}")


def _entries(instance: Any) -> list[tuple[str, Any]]:
    return [*cast("dict[str, Any]", instance).items()] if isinstance(instance, dict) else []


KEYWORDS: Mapping[str, Any] = {
    "$ref": _reference,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}
