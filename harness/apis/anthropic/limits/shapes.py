"""Shapes of objects: which keys they need, which they may have, and of which type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import dotted
from harness.apis.anthropic.limits.terms import Surface
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON

ANY: tuple[type, ...] = (object,)
BOOLEAN: tuple[type, ...] = (bool,)
INTEGER: tuple[type, ...] = (int,)
LIST: tuple[type, ...] = (list,)
NUMBER: tuple[type, ...] = (int, float)
OBJECT: tuple[type, ...] = (dict,)
STRING: tuple[type, ...] = (str,)
TEXT_OR_LIST: tuple[type, ...] = (str, list)

_WORDS: dict[type, str] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "list",
    str: "string",
}


def _no_keys() -> dict[str, tuple[type, ...]]:
    return {}


@dataclass(frozen=True)
class Shape:
    """The keys of an object with the types they take. `beta` are those that only the beta surface knows.

    `source` is the rule that says what is required. An optional key may be null.
    """

    source: str
    required: Mapping[str, tuple[type, ...]]
    optional: Mapping[str, tuple[type, ...]] = field(default_factory=_no_keys)
    beta: Mapping[str, tuple[type, ...]] = field(default_factory=_no_keys)

    @cached_property
    def _plain(self) -> Mapping[str, tuple[type, ...]]:
        return {**self.required, **self.optional}

    @cached_property
    def _all(self) -> Mapping[str, tuple[type, ...]]:
        return {**self._plain, **self.beta}

    def limits(self, data: dict[str, JSON], pointer: str, surface: Surface) -> Iterator[Violation]:
        """What is missing (by `source`), of a wrong type, or too much (anthropic-no-extra-inputs)."""
        for key in self.required:
            if key not in data:
                message = f"{dotted(join(pointer, key))}: Field required"
                yield limits.FIELD_MISSING.broken(message, pointer, expected=key, source=self.source)
        known = self._all if surface.beta else self._plain
        for key, value in data.items():
            kinds = known.get(key)
            if kinds is None:
                place = join(pointer, key)
                message = f"{dotted(place)}: Extra inputs are not permitted"
                severity = "warning" if value is None else surface.unknown  # no refusal of a null was shown
                yield limits.EXTRA_INPUT.broken(message, place, actual=key, severity=severity)
            elif type(value) not in kinds and kinds is not ANY and (value is not None or key in self.required):
                place = join(pointer, key)
                words = " or ".join(_WORDS[kind] for kind in kinds)
                message = f"{dotted(place)}: Input should be a valid {words}"
                yield limits.FIELD_TYPE.broken(message, place, actual=value, expected=words, source=self.source)


def member_limits(members: JSON, pointer: str) -> Iterator[Violation]:
    """The members of a list that has to hold objects, and which are none."""
    for index, member in enumerate(members if isinstance(members, list) else ()):
        if not isinstance(member, dict):
            place = join(pointer, index)
            message = f"{dotted(place)}: Input should be an object"
            yield limits.FIELD_TYPE.broken(message, place, actual=member, expected="object")
