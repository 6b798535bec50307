"""How JSON is asked for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import equal, resolve
from harness.contract.model import JSON, JSON_INSTRUCTION, JsonMode, JsonSchema
from harness.rules.evidence import Asked, Evidence
from harness.running.differences.fact import Fact, body_of
from harness.scenarios.schema import Subject


def _json_mode(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if isinstance(asked.chat.request.response_format, JsonMode):
            yield _switch(asked)


def _json_instruction(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if isinstance(asked.chat.request.response_format, JsonMode):
            blocks = [part for part in asked.view.system if part.text == JSON_INSTRUCTION]
            yield from (f"added to {part.place}" for part in blocks)
            if not blocks:
                yield "none added"


def _json_schema(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if isinstance(asked.chat.request.response_format, JsonSchema):
            yield _switch(asked)


def _switch(asked: Asked) -> str:
    """The wire field that asks for JSON, with the wire's own word in it."""
    sent = asked.view.response_format
    if sent is None:
        return "no switch"
    if sent.pointer == sent.schema_pointer:
        return sent.mechanism  # the field holds the schema itself
    value = resolve(body_of(asked), sent.pointer)
    word = value.get("type") if isinstance(value, dict) else value
    return f"{sent.mechanism}: {word}" if isinstance(word, str) else sent.mechanism


def _json_dialect(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        sent = asked.view.response_format
        if sent is not None and sent.kind == "json-schema":
            strict = {True: ", strict", False: ", not strict", None: ""}[sent.strict]
            yield f"{sent.dialect}{strict}"


def _json_rewrite(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        wanted, sent = asked.chat.request.response_format, asked.view.response_format
        if isinstance(wanted, JsonSchema) and sent is not None and sent.kind == "json-schema":
            keywords = sorted(_changed_keywords(wanted.schema, sent.schema))
            yield f"changed: {', '.join(keywords)}" if keywords else "as given"


def _changed_keywords(given: JSON, sent: JSON) -> set[str]:
    """The keywords, at any depth, that are not the same in two schemas."""
    if not isinstance(given, dict) or not isinstance(sent, dict):
        return set()
    changed: set[str] = set()
    for key in given.keys() | sent.keys():
        one, other = given.get(key), sent.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            changed |= _changed_keywords(one, other)
        elif not equal(one, other):
            changed.add(key)
    return changed


def _json_with_tools(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if asked.chat.request.response_format is not None and asked.chat.request.tools:
            yield "both are sent" if asked.view.response_format and asked.view.tools else "not both are sent"
    for chat in evidence.transcript.chats:
        if chat.error == "Unsupported" and chat.request.response_format is not None and chat.request.tools:
            yield "refused before anything is sent"


FACTS = (
    Fact(Subject.JSON_MODE, "JSON without a schema", _json_mode),
    Fact(Subject.JSON_MODE, "instruction block for it", _json_instruction),
    Fact(Subject.JSON_MODE, "JSON with a schema", _json_schema),
    Fact(Subject.JSON_MODE, "dialect of that schema", _json_dialect),
    Fact(Subject.JSON_MODE, "schema on its way", _json_rewrite),
    Fact(Subject.JSON_MODE, "together with tools", _json_with_tools),
)
