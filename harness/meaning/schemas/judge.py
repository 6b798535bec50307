"""Whether a schema on the wire still says what was given: by its normal form, by its words, and by instances."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from harness.apis.jsonvalue import equal, join, resolve
from harness.contract.model import JSON
from harness.meaning.schemas.document import Document, UnreadableError
from harness.meaning.schemas.emission import Acceptance
from harness.meaning.schemas.form import Dialect
from harness.meaning.schemas.partings import Parting, Partings
from harness.meaning.schemas.reading import read
from harness.meaning.schemas.words import reworded

_SHOWN = 200
"""Characters of an instance that a message shows."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A place where the wire's schema says something else. `pointer` is relative to the schema.

    `instance` is what only one of the two accepts, as `accepted_by` says; if that is `None`, they accept the same, and
    the change is one of words. It is a value of the place `inside` the value of the whole schema (empty: all of it).
    """

    pointer: str
    actual: JSON
    expected: JSON
    instance: JSON = None
    accepted_by: Literal["given", "wire"] | None = None
    inside: str = ""

    def said(self, given: str = "the given schema", wire: str = "the one sent") -> str:
        """The instance in words, to be put behind a message; empty for a change of words."""
        if self.accepted_by is None:
            return ""
        text = json.dumps(self.instance, ensure_ascii=False)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
        place = f" at {self.inside}" if self.inside else ""
        accepts, refuses = (given, wire) if self.accepted_by == "given" else (wire, given)
        return f": {accepts} accepts {text}{place}, {refuses} does not"


def change(
    given: JSON, wire: JSON, dialect: Dialect = "json-schema", given_dialect: Dialect = "json-schema"
) -> SchemaChange | None:
    """The first change that no documented rewrite explains, or `None`.

    Equal normal forms are no change; where they differ, an instance has to show it. That search is bounded: if none is
    found, the schemas are taken for equal. What is no schema at all is compared as a JSON value.
    """
    if equal(given, wire):
        return None
    if isinstance(given, dict) and _takes_nothing(given):
        if wire is None:
            return None
        given = {"type": "object", "properties": {}, **given}  # the long form says the same
    try:
        return _changed(json.dumps(given), json.dumps(wire), dialect, given_dialect)
    except RecursionError:
        return SchemaChange("", wire, given)


def apart(
    one: JSON, other: JSON, dialect: Dialect = "json-schema", other_dialect: Dialect = "json-schema"
) -> SchemaChange | None:
    """Where two schemas that were made of one say something else, up to what an API forces on either of them.

    `None` if nowhere. `one` stands for the given schema, `other` for the wire's: it has to have the words of `one`.
    """
    found = change(one, other, other_dialect, dialect)
    if found is None or found.accepted_by is None or change(other, one, dialect, other_dialect) is not None:
        return found
    return _reworded(*_documents(json.dumps(one), json.dumps(other), other_dialect, dialect))


def accepts(schema: JSON, value: JSON) -> bool:
    """Whether a value is an instance of a schema, in whichever of the dialects it is written.

    False also for what is a schema of neither.
    """
    text = json.dumps(schema)
    for dialect in _DIALECTS:
        try:
            form = read(Document(json.loads(text), dialect, nullable='"nullable"' in text))
        except (UnreadableError, RecursionError):
            continue
        return Acceptance(form)(value)
    return False


_DIALECTS: tuple[Dialect, ...] = ("json-schema", "openapi")


@lru_cache(maxsize=1024)  # a conversation sends the same tools with every request
def _changed(given_text: str, wire_text: str, dialect: Dialect, given_dialect: Dialect) -> SchemaChange | None:
    given, wire = json.loads(given_text), json.loads(wire_text)
    try:
        documents = _documents(given_text, wire_text, dialect, given_dialect)
        one, other = read(documents[0]), read(documents[1])
        parting = Partings(openapi=dialect == "openapi").first(one, other)
        return _reworded(*documents) if parting is None else _shown(parting, given, wire)
    except UnreadableError:
        return SchemaChange("", wire, given)


def _documents(given_text: str, wire_text: str, dialect: Dialect, given_dialect: Dialect) -> tuple[Document, Document]:
    nullable = '"nullable"' in given_text  # whose author writes OpenAPI means it
    return (
        Document(json.loads(given_text), given_dialect, nullable=nullable),
        Document(json.loads(wire_text), dialect, nullable=nullable),
    )


def _reworded(given: Document, wire: Document) -> SchemaChange | None:
    found = reworded(given, wire)
    return None if found is None else SchemaChange(found.pointer, found.actual, found.expected)


def _shown(parting: Parting, given: JSON, wire: JSON) -> SchemaChange:
    actual, expected, pointer = resolve(wire, parting.pointer), resolve(given, parting.given_pointer), parting.pointer
    if isinstance(actual, dict) and isinstance(expected, dict):
        for name in (parting.keyword, *_ALSO.get(parting.keyword, ())):
            says_it = all(name in node or not _COMBINED & node.keys() for node in (actual, expected))
            if says_it and not equal(actual.get(name), expected.get(name)):
                actual, expected, pointer = actual.get(name), expected.get(name), join(pointer, name)
                break
    return SchemaChange(
        pointer,
        actual,
        expected,
        parting.instance,
        "given" if parting.given_accepts else "wire",
        parting.inside,
    )


_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Keywords behind which another one may stand: its absence beside them says nothing."""

_ALSO = {
    "type": ("nullable", "anyOf", "oneOf", "enum", "const", "$ref"),
    "enum": ("const", "anyOf", "type", "nullable"),
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
}
"""Keywords that say the same as another one."""


def _takes_nothing(schema: dict[str, JSON]) -> bool:
    """The schema of a tool without arguments."""
    return (
        schema.keys() <= {"type", "properties", "required", "additionalProperties"}
        and schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties", False) is False
    )
