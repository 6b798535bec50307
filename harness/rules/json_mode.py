"""JSON mode: asked for as the profile declares, the schema intact, with tools or without, and the answer is JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.apis.jsonvalue import loads
from harness.apis.view import TextView, WireError
from harness.contract.model import JSON, ChatRequest, JsonMode, JsonSchema
from harness.meaning.schema_changes import accepts, change
from harness.results import Blame, Kind
from harness.rules.emulation import format_tool
from harness.rules.evidence import Asked, Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.json_schema import UndecidedSchema, Validator
from harness.scenarios.schema import Subject


def _mechanism(evidence: Evidence, request: ChatRequest) -> str:
    profile = evidence.transcript.profile
    if isinstance(request.response_format, JsonSchema):
        return profile.json_schema
    return profile.json_mode


def _ignored(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        wanted = asked.chat.request.response_format
        if wanted is None or format_tool(asked) is not None:
            continue
        kind = "json" if isinstance(wanted, JsonMode) else "json-schema"
        sent = asked.view.response_format
        if _mechanism(evidence, asked.chat.request) == "native":
            if sent is None or sent.kind != kind:
                tools = " together with tools" if asked.chat.request.tools else ""
                yield Flaw(
                    f"the request does not ask for {kind}{tools} by the API's own switch",
                    asked.reading.index,
                    sent.pointer if sent else "",
                    sent.kind if sent else None,
                    kind,
                )
        elif not _instructed(asked):
            yield Flaw(
                "JSON mode has to be emulated on this API, and no block of the request says so",
                asked.reading.index,
                "",
                None,
                "a system block of its own that asks for JSON",
            )


def _instructed(asked: Asked) -> bool:
    system = asked.chat.request.system
    return asked.view.response_format is not None or any(
        "json" in part.text.lower() and part.text != system for part in asked.view.system
    )


def _uninvited(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        sent = asked.view.response_format
        if asked.chat.request.response_format is None and sent is not None:
            yield Flaw(
                "the request asks for JSON, and nobody wanted it", asked.reading.index, sent.pointer, sent.kind, None
            )


def _schema_changed(evidence: Evidence) -> Iterator[Flaw]:
    for asked in evidence.asked:
        wanted, sent = asked.chat.request.response_format, asked.view.response_format
        if not isinstance(wanted, JsonSchema) or sent is None or sent.kind != "json-schema":
            continue
        found = change(wanted.schema, sent.schema, sent.dialect)
        if found is not None:
            yield Flaw(
                f"the schema of the answer was changed on its way{found.said()}",
                asked.reading.index,
                sent.schema_pointer + found.pointer,
                found.actual,
                found.expected,
            )


def _answer(evidence: Evidence) -> Iterator[Flaw]:
    """What the adapter hands on as the answer is JSON, and conforms. If it is none on the wire either, the model is to
    blame; answers that were cut or refused are let be (anthropic-output-format)."""
    for index, chat in enumerate(evidence.transcript.chats):
        wanted, reading = chat.request.response_format, evidence.answer(index)
        if wanted is None or chat.response is None or chat.response.tool_calls or reading is None:
            continue
        if reading.response is None or reading.response.stop_reason not in ("end_turn", "stop_sequence"):
            continue
        schema = wanted.schema if isinstance(wanted, JsonSchema) else None
        problem = _problem(chat.response.text, schema)
        if problem is not None:
            on_the_wire = _problem(reading.response.text, schema)
            yield Flaw(
                f"the answer {problem}",
                reading.index,
                next((part.pointer for part in reading.response.parts if isinstance(part, TextView)), ""),
                chat.response.text,
                reading.response.text if on_the_wire is None else schema,
                blame=Blame.ADAPTER if on_the_wire is None else Blame.MODEL,
                of_response=True,
            )


def _problem(text: str, schema: dict[str, JSON] | None) -> str | None:
    try:
        value = loads(text)
    except WireError as error:
        return f"is no JSON: {error.reason}"
    if schema is None or accepts(schema, value):
        return None
    try:
        error = next(Validator(schema).errors(value), None)
    except UndecidedSchema:
        return None
    return None if error is None else f"does not conform to the schema at {_dotted(error[0])}: {error[1]}"


def _dotted(path: Sequence[str | int]) -> str:
    """A place in JSON as in `$.items[0].name`."""
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)


_JSON = "harness.contract.model: response_format"

RULES = (
    Rule(
        "json-mode-ignored",
        Subject.JSON_MODE,
        "JSON is asked for by the mechanism that the profile declares, with tools and without.",
        _JSON + "; anthropic-output-format, openai-chat-word-json, openai-responses-word-json, gemini-json-output",
        _ignored,
        kind=Kind.LOSS,
        because="the caller asked for JSON, and nothing makes the model give it",
        remedy="ask for JSON by {json}, with tools and without",
    ),
    Rule(
        "json-mode-uninvited",
        Subject.JSON_MODE,
        "JSON is asked for only when wanted.",
        _JSON,
        _uninvited,
        kind=Kind.LOSS,
        because="the caller asked for text, and the model is held to JSON",
        remedy="leave {json} out where nobody asked for JSON",
    ),
    Rule(
        "json-schema-changed",
        Subject.JSON_MODE,
        "The schema arrives intact but for documented rewrites.",
        _JSON + "; anthropic-strict-closed, openai-chat-strict-schema, gemini-json-output",
        _schema_changed,
        kind=Kind.LOSS,
        because="the model is held to another schema than the caller's",
        remedy="send the schema as it was given, in {json}",
    ),
    Rule(
        "json-answer",
        Subject.JSON_MODE,
        "The answer parses and conforms.",
        _JSON,
        _answer,
        kind=Kind.LOSS,
        because="the caller cannot read what it asked for",
        remedy="return the text of the answer as it came: it is the JSON",
    ),
)
