"""Rules about JSON mode and the system prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.apis import registry
from harness.apis.jsonvalue import join, loads
from harness.apis.response_rules import Subject
from harness.apis.view import SystemView, TextView, ToolView, WireError
from harness.documents.json_schema import UndecidedSchema, Validator
from harness.equivalence.result_meaning import fold_system_texts
from harness.equivalence.schema_changes import accepts, change
from harness.model.messages import JSON, JSON_INSTRUCTION, ChatRequest, JsonMode, JsonSchema
from harness.results import Blame, Kind, Severity
from harness.rules.evidence import ChatExchange, Evidence
from harness.rules.rule import RuleTable, RuleViolation


def schema_tool(req: ChatExchange) -> ToolView | None:
    """Return the tool that replaces the JSON schema, if the request forces the model to call it.

    Released libraries request a schema this way. The tool is not one of the caller's, and its parameters are equivalent
    to the schema. It must be the only tool, or the model must be forced to call one of several.
    """
    request, choice = req.chat.request, req.view.tool_choice
    if (
        not registry.api(req.view.api).traits.schema_by_tool
        or not isinstance(request.response_format, JsonSchema)
        or choice is None
    ):
        return None
    given = {tool.name for tool in request.tools}
    for tool in req.view.tools:
        if tool.kind != "function" or tool.name in given:
            continue
        is_only_one = choice.mode == "named" and choice.name == tool.name and not given
        is_one_of_all = choice.mode == "required" and request.tool_choice in (None, "auto")
        if (is_only_one or is_one_of_all) and not change(request.response_format.schema, tool.parameters, tool.dialect):
            return tool
    return None


def _mechanism(evidence: Evidence, request: ChatRequest) -> str:
    profile = evidence.transcript.profile
    if isinstance(request.response_format, JsonSchema):
        return profile.json_schema
    return profile.json_mode


_JSON_SOURCE = "harness.model.messages: response_format"
_SYSTEM = "harness.model.messages: the system prompt is a field"
RULES = RuleTable(Subject.SYSTEM_PROMPT, _SYSTEM)


@RULES.add(
    "json-mode-ignored",
    "JSON output is requested by the API's own setting, with and without tools.",
    subject=Subject.JSON_MODE,
    source=_JSON_SOURCE
    + "; anthropic-output-format, openai-chat-word-json, openai-responses-word-json, gemini-json-output",
    because="the caller requested JSON, and the model may answer with any text",
    remedy="request JSON with {json}, both with and without tools",
)
def _missing_json_mode(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        wanted = req.chat.request.response_format
        if wanted is None or schema_tool(req) is not None:
            continue
        kind = "json" if isinstance(wanted, JsonMode) else "json-schema"
        sent = req.view.response_format
        if _mechanism(evidence, req.chat.request) == "native":
            if sent is None or sent.kind != kind:
                tools = " if it has tools" if req.chat.request.tools else ""
                name = "JSON" if kind == "json" else "JSON of a schema"
                message = f"the request does not set the API's field for {name}{tools}"
                yield req.parsed.violation(message, sent.pointer if sent else "", sent.kind if sent else None, kind)
        elif not _has_instruction(req):
            message = "this API has no switch for JSON mode, and no block of the request asks for JSON"
            yield req.parsed.violation(message, "", None, "a system block of its own that asks for JSON")


def _has_instruction(req: ChatExchange) -> bool:
    system = req.chat.request.system
    return req.view.response_format is not None or any(
        "json" in part.text.lower() and part.text != system for part in req.view.system
    )


@RULES.add(
    "json-mode-uninvited",
    "JSON is requested only if the caller requests it.",
    subject=Subject.JSON_MODE,
    source=_JSON_SOURCE,
    because="the caller wanted text, and the model must answer with JSON",
    remedy="do not use {json} if the caller did not request JSON",
)
def _unwanted_json(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        sent = req.view.response_format
        if req.chat.request.response_format is None and sent is not None:
            message = "the request asks for JSON, and the caller did not"
            yield req.parsed.violation(message, sent.pointer, sent.kind, None)


@RULES.add(
    "json-schema-changed",
    "The schema is sent unchanged, except for documented rewrites.",
    subject=Subject.JSON_MODE,
    source=_JSON_SOURCE + "; anthropic-strict-closed, openai-chat-strict-schema, gemini-json-output, "
    "openai-chat-schema-order",
    because="the model follows a different schema than the caller's, or answers in another order (a warning)",
    remedy="send the schema unchanged, in {json}",
)
def _changed_schema(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        wanted, sent = req.chat.request.response_format, req.view.response_format
        if not isinstance(wanted, JsonSchema) or sent is None or sent.kind != "json-schema":
            continue
        found = change(wanted.schema, sent.schema, sent.dialect)
        if found is not None:
            message = f"the schema of the answer was changed on its way{found.describe()}"
            yield req.parsed.violation(message, sent.schema_pointer + found.pointer, found.actual, found.expected)
        elif (other := next(_reordered_properties(wanted.schema, sent.schema), None)) is not None:
            message = "the properties of the schema are in another order, and so will be those of the answer"
            pointer = sent.schema_pointer + other[0]
            yield req.parsed.violation(message, pointer, [*other[1]], severity=Severity.WARNING)


def _reordered_properties(given: JSON, sent: JSON, pointer: str = "") -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield each `properties` object whose keys are in another order than the given ones, with its pointer."""
    if isinstance(given, dict) and isinstance(sent, dict):
        both = given.keys() & sent.keys()
        if pointer.endswith("/properties") and [k for k in given if k in both] != [k for k in sent if k in both]:
            yield pointer, sent
        for key in both:
            yield from _reordered_properties(given[key], sent[key], join(pointer, key))
    if isinstance(given, list) and isinstance(sent, list):
        for index, (one, other) in enumerate(zip(given, sent, strict=False)):
            yield from _reordered_properties(one, other, join(pointer, index))


@RULES.add(
    "json-answer",
    "The answer is valid JSON and conforms to the schema.",
    subject=Subject.JSON_MODE,
    source=_JSON_SOURCE,
    because="the caller cannot read the JSON that it requested",
    remedy="return the text of the answer unchanged: it is the JSON",
)
def _wrong_answer(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report an answer that is not JSON or violates the schema.

    The model is to blame if the provider's response has the same fault. Truncated and refused answers are ignored
    (anthropic-output-format).
    """
    for index, chat in enumerate(evidence.transcript.chats):
        wanted, parsed = chat.request.response_format, evidence.answer(index)
        if wanted is None or chat.response is None or chat.response.tool_calls or parsed is None:
            continue
        if parsed.response is None or parsed.response.stop_reason not in ("end_turn", "stop_sequence"):
            continue
        schema = wanted.schema if isinstance(wanted, JsonSchema) else None
        problem = _problem(chat.response.text, schema)
        if problem is not None:
            on_the_wire = _problem(parsed.response.text, schema)
            message = f"the answer {problem}"
            yield parsed.response_violation(
                message,
                next((part.pointer for part in parsed.response.parts if isinstance(part, TextView)), ""),
                chat.response.text,
                parsed.response.text if on_the_wire is None else schema,
                blame=Blame.ADAPTER if on_the_wire is None else Blame.MODEL,
            )


def _problem(text: str, schema: dict[str, JSON] | None) -> str | None:
    try:
        value = loads(text)
    except WireError as error:
        return f"is not JSON: {error.reason}"
    if schema is None or accepts(schema, value):
        return None
    try:
        error = next(Validator(schema).errors(value), None)
    except UndecidedSchema:
        return None
    return None if error is None else f"does not conform to the schema at {_json_path(error[0])}: {error[1]}"


def _json_path(path: Sequence[str | int]) -> str:
    """Return a JSON path such as `$.items[0].name`."""
    return "$" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)


def _system_of(req: ChatExchange) -> str | None:
    return req.chat.request.system or None


def _prompts(req: ChatExchange) -> list[SystemView]:
    """Return the system texts without JSON instructions and without system messages that the caller passed as `Opaque`
    parts. Several blocks count as one text.
    """
    system = _system_of(req)
    given = tuple(part for part in req.view.system if not (part.before_turn and req.is_own_entry(part.pointer)))
    system_texts = fold_system_texts(given, system) if system else [*given]
    if req.chat.request.response_format is None:
        return system_texts
    tool = schema_tool(req)
    words = ("json",) if tool is None else ("json", tool.name.lower())
    prompts = [
        _without_instruction(part, system, words) for part in system_texts if not _is_instruction(part, system, words)
    ]
    return prompts or [part for part in system_texts if system and _is_reworded_prompt(part.text, system)]


def _is_instruction(part: SystemView, system: str | None, words: tuple[str, ...]) -> bool:
    if system and (_is_prompt(system.strip(), part.text.strip()) or part.text.startswith(system)):
        return False
    return part.text == JSON_INSTRUCTION or _mentions(part.text, words)


def _without_instruction(part: SystemView, system: str | None, words: tuple[str, ...]) -> SystemView:
    """Return the prompt without an instruction that follows in the same block."""
    if system and part.text.startswith(system) and _mentions(part.text.removeprefix(system), words):
        return replace(part, text=system)
    return part


def _is_reworded_prompt(text: str, system: str) -> bool:
    """Return whether a text has most of the prompt's words, which makes it a changed prompt and not an instruction."""
    wanted = {*system.split()}
    return len(wanted.intersection(text.split())) > len(wanted) / 2


def _mentions(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


@RULES.add(
    "system-missing",
    "The system prompt is in every request.",
    because="the model does not know its instructions",
    remedy="put the system prompt into {system}, in every request",
)
def _missing_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        system = _system_of(req)
        if system is not None and not any(part.text for part in _prompts(req)):
            yield req.parsed.violation("the request has no system prompt where the API expects it", "", None, system)


@RULES.add(
    "system-in-message",
    "The system prompt is not in a user or assistant message.",
    because="the model treats the instructions as a message of the user",
    remedy="put the system prompt into {system}, not into a message of the user or the assistant",
)
def _prompt_in_message(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        system = _system_of(req)
        texts = [part for turn in req.view.turns for part in turn.parts if isinstance(part, TextView)]
        found = [part for part in texts if system is not None and _is_prompt(system, part.text)]
        if system is None or not found or any(system in message.text for message in req.chat.request.messages):
            continue
        for part in found:
            message = "the system prompt is in a message of the conversation"
            yield req.parsed.violation(message, part.pointer, part.text)


def _is_prompt(system: str, text: str) -> bool:
    """Return whether a text contains the system prompt. A short prompt must be the whole text, because other texts may
    contain it by chance.
    """
    return system in text if len(system) >= _MIN_RECOGNISABLE_CHARS else system == text


_MIN_RECOGNISABLE_CHARS = 8


@RULES.add(
    "system-repeated",
    "The system prompt is sent once.",
    because="the model reads its instructions twice, at the caller's cost",
    remedy="put the system prompt into {system} once",
)
def _repeated_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        system = _system_of(req)
        if system is None:
            continue
        copies = [(part, part.text.count(system)) for part in _prompts(req)]
        if sum(count for _, count in copies) > 1:
            part = [part for part, count in copies if count][-1]
            total = sum(count for _, count in copies)
            yield req.parsed.violation("the system prompt is sent more than once", part.pointer, total, 1)
    if not evidence.transcript.chats:
        for parsed in evidence.parsed_exchanges:
            seen: set[str] = set()
            for part in parsed.request.system if parsed.request else ():
                if part.text in seen:
                    yield parsed.violation("the same system text is sent twice", part.pointer, part.text)
                seen.add(part.text)


@RULES.add(
    "system-verbatim",
    "The system prompt is sent unchanged.",
    because="the model reads different instructions",
    remedy="send the system prompt unchanged, and put the adapter's own instructions into a separate block",
)
def _changed_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        system, previous = _system_of(req), _previous_prompt(evidence, req)
        for part in _prompts(req) if system is not None else ():
            stale = previous is not None and previous in part.text
            repeated = system is not None and part.text.count(system) > 1
            if part.text != system and not stale and not repeated:
                trimmed = system is not None and part.text.strip() == system.strip()
                what = "is sent with different white space around it" if trimmed else "was changed"
                message = f"the system prompt {what}"
                # it contains no instruction
                yield req.parsed.violation(
                    message, part.pointer, part.text, system, kind=Kind.CONVENTION if trimmed else None
                )


@RULES.add(
    "system-place",
    "The system prompt is in the API's own field for it.",
    source="anthropic-system-field, openai-chat-system-anywhere, openai-responses-system-places, "
    "gemini-system-instruction",
    because="the model gives instructions elsewhere a different weight",
    remedy="put the system prompt into {system}",
)
def _misplaced_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    places = evidence.api.system_places
    for req in evidence.chat_exchanges:
        for part in _prompts(req):
            if part.place not in places:
                message = f"a system text is in {part.place}"
                yield req.parsed.violation(message, part.pointer, part.place, [*sorted(places)])
            elif part.before_turn:
                message = f"a system text comes after {part.before_turn} entries of the conversation"
                yield req.parsed.violation(message, part.pointer, part.before_turn, 0)


@RULES.add(
    "system-after-conversation",
    "The system prompt precedes the conversation, where the provider caches it.",
    kind=Kind.CONVENTION,
    source="openai-responses-gpt-6-2-instructions-last",
    because="the model reads it last, and it is billed as uncached input in every request; the provider accepts it",
    remedy="send a system prompt that stays the same as a `developer` message at the start of `input`",
)
def _trailing_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    places = evidence.transcript.profile.trailing_places
    for req in evidence.chat_exchanges if places else ():
        for part in _prompts(req):
            if part.place in places:
                message = f"the provider adds {part.place!r} after the conversation for this model"
                yield req.parsed.violation(message, part.pointer, part.place, "message:developer")


@RULES.add(
    "system-when-absent",
    "No system prompt is sent if the request has none or an empty one.",
    source=_SYSTEM + "; anthropic-no-empty-text, anthropic-system-field",
    because="the model gets instructions that the caller did not write",
    remedy="send no system prompt if the request has none or an empty one",
)
def _unwanted_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        if _system_of(req) is None:
            previous = _previous_prompt(evidence, req)
            for part in _prompts(req):
                # an empty text is subject to the limits of the API
                if part.text not in (previous, "") and not req.is_verbatim(part.pointer):
                    message = "the caller gave no system prompt, but the request has one"
                    yield req.parsed.violation(message, part.pointer, part.text)


@RULES.add(
    "system-stale",
    "A changed system prompt replaces the one before.",
    because="the model follows instructions that are no longer in force",
    remedy="send the system prompt of this request, not the one of an earlier request",
)
def _stale_prompt(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        previous = _previous_prompt(evidence, req)
        system = _system_of(req)
        if previous is None or previous == system or previous in (system or ""):
            continue
        for part in _prompts(req):
            if previous in part.text:
                message = "the system prompt has changed, but the earlier one is still sent"
                yield req.parsed.violation(message, part.pointer, part.text, system)


def _previous_prompt(evidence: Evidence, req: ChatExchange) -> str | None:
    system = _system_of(req)
    earlier = [_system_of(other) for other in evidence.chat_exchanges if other.index < req.index]
    return next((prompt for prompt in reversed(earlier) if prompt is not None and prompt != system), None)
