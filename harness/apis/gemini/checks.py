"""Checks of requests that fact conditions cannot express: parts, schemas, pairing, signatures.

The provider parses a request before it checks the conversation. If a field has the wrong type, the conversation is
therefore not checked. Root schemas with empty `properties` are accepted: gemini-schema-fields quotes a rejection, but
recorded requests with such schemas succeeded. Recordings also show that consecutive model contents are one turn
(gemini-turn-order, gemini-responses-counted, gemini-thought-signature).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from harness.apis.gemini.proto import TYPES, ProtoMessage, canonical, limit, misfits, repeated_values, snake
from harness.apis.gemini.requests import DATA_FIELDS, on_vertex, view
from harness.apis.jsonvalue import canonical as spelled
from harness.apis.jsonvalue import join, parse_body
from harness.apis.limits import Violation, severity_of
from harness.apis.profiles import IssuedState, Profile, RuleSet
from harness.apis.view import CallView, RequestView, ResponseView, ResultView, TextView, TurnView, WireError
from harness.model.http import HttpRequest
from harness.model.messages import JSON


def violations(request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
    """Return the violations of a request. Never raises: an unreadable body is reported as a violation
    (`gemini-body`)."""
    profile = rule_set.profile
    try:
        body = parse_body(request.body)
        found = misfits(body)
        if any(misfit.rule == "gemini-field-type" for misfit in found):
            return found
        vertex = on_vertex(request)
        message, seen = ProtoMessage.of(body), view(request)
        return [
            *found,
            *_contents(message, vertex=vertex),
            *pairing_violations(seen, profile),
            *signature_violations(seen, profile, vertex=vertex),
            *_schemas(message, vertex=vertex),
            *(() if vertex else _mixed_tools(message, profile)),
        ]
    except WireError as error:
        return [_unreadable(error)]
    except RecursionError:
        return [_unreadable(WireError("nested too deeply"))]


def _unreadable(error: WireError) -> Violation:
    return limit("body").make_violation(f"Invalid JSON payload received. {error.reason}", error.pointer)


def _contents(body: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    for index, content in enumerate(body.messages("contents")):
        if vertex and not content.get("role"):  # the Developer API treats a missing role as user
            message = "Please use a valid role: user, model."
            yield limit("role").make_violation(message, content.at("role"), expected=["user", "model"])
        for position, part in enumerate(content.messages("parts")):
            yield from _part(part, f"GenerateContentRequest.contents[{index}].parts[{position}]")


def _part(part: ProtoMessage, path: str) -> Iterator[Violation]:
    data = [name for name in DATA_FIELDS if name in part.names]
    if not data and "thoughtSignature" not in part.names:
        message = f"* {path}.data: required oneof field 'data' must have one initialized field\n"
        yield limit("part-data").make_violation(message, part.pointer)
    elif len(data) > 1:
        message = f"* {path}.data: oneof field 'data' is already set. Cannot set '{data[1]}'\n"
        yield limit("part-data").make_violation(message, part.pointer, actual=[*data])
    for name in ("functionCall", "functionResponse"):
        named = part.message(name)
        if named and not named.get("name"):
            text = f"* {path}.{snake(name)}.name: Name cannot be empty.\n"
            source = f"gemini-{snake(name).replace('_', '-')}-form"
            yield limit("name-empty").make_violation(text, named.at("name"), source=source)


def _schemas(body: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    for index, tool in enumerate(body.messages("tools")):
        for position, declaration in enumerate(tool.messages("functionDeclarations")):
            path = f"GenerateContentRequest.tools[{index}].function_declarations[{position}]"
            for name in ("parameters", "response"):
                if name in declaration.names:
                    schema, place = declaration.get(name), declaration.at(name)
                    yield from schema_violations(schema, place, f"{path}.{name}")
                    if name == "parameters" and not vertex:
                        yield from parameter_violations(schema, place, f"{path}.{name}")
    config = body.message("generationConfig")
    if config is not None and "responseSchema" in config.names:
        path = "GenerateContentRequest.generation_config.response_schema"
        yield from schema_violations(config.get("responseSchema"), config.at("responseSchema"), path)


def _mixed_tools(body: ProtoMessage, profile: Profile) -> Iterator[Violation]:
    severity, config, tools = severity_of(profile.mixed_tools), body.message("toolConfig"), body.messages("tools")
    allowed = config is not None and config.get("includeServerSideToolInvocations") is True
    served = [(tool, name) for tool in tools for name in tool.names if name != "functionDeclarations"]
    if severity and served and not allowed and any(tool.messages("functionDeclarations") for tool in tools):
        tool, name = served[0]
        message = (
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function "
            "calling."
        )
        yield limit("mixed-tools").make_violation(message, tool.at(name), actual=name, severity=severity)


def schema_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """Check a schema and its subschemas for unknown types (`gemini-schema-type`). `path` is in the provider's notation.

    Raises:
        WireError: the value is not a schema. `misfits` reports this case first.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = fields.enum("type", TYPES)
    if kind is not None and kind.lower() not in TYPES:
        message = f"Invalid value at '{path}.type' (Type), \"{kind}\""
        yield limit("schema-type").make_violation(message, fields.at("type"), actual=kind, expected=[*TYPES])
    for inner, place, step in _inner(fields):
        yield from schema_violations(inner, place, f"{path}.{step}")


def parameter_violations(schema: JSON, pointer: str, path: str) -> Iterator[Violation]:
    """Check enums and arrays in a function's `parameters` (gemini-enum-not-empty, gemini-enum-of-strings,
    gemini-array-items).

    The rejections come from the Developer API. No rejection of a response schema is known.
    """
    fields = ProtoMessage.of(schema, pointer)
    kind = (fields.enum("type", TYPES) or "").lower()
    if kind == "array" and "items" not in fields.names:
        yield limit("schema-items").make_violation(f"* {path}.items: missing field.\n", pointer)
    values = repeated_values(fields.get("enum"), fields.at("enum"))
    if values and kind != "string":
        message = f"* {path}.enum: only allowed for STRING type\n"
        yield limit("schema-enum-type").make_violation(
            message, fields.at("enum"), actual=kind or None, expected="string"
        )
    for index, (value, place) in enumerate(values):
        if value == "":
            yield limit("schema-enum-empty").make_violation(
                f"* {path}.enum[{index}]: cannot be empty\n", place, actual=""
            )
    for inner, place, step in _inner(fields):
        yield from parameter_violations(inner, place, f"{path}.{step}")


def _inner(fields: ProtoMessage) -> Iterator[tuple[JSON, str, str]]:
    if "items" in fields.names:
        yield fields.get("items"), fields.at("items"), "items"
    for index, (option, place) in enumerate(repeated_values(fields.get("anyOf"), fields.at("anyOf"))):
        yield option, place, f"any_of[{index}]"
    for name in ("properties", "defs"):
        members = fields.get(name)
        if isinstance(members, dict):
            for key, member in members.items():
                yield member, join(fields.at(name), key), f"{name}[{key}]"


class _Turn(NamedTuple):
    pointer: str
    role: str
    calls: tuple[CallView, ...]
    results: tuple[ResultView, ...]
    is_empty: bool


def _read(turn: TurnView) -> _Turn:
    calls = tuple(part for part in turn.parts if isinstance(part, CallView) and turn.role == "assistant")
    results = tuple(part for part in turn.parts if isinstance(part, ResultView))
    is_empty = all(isinstance(part, TextView) and not part.text for part in turn.parts)
    return _Turn(turn.pointer, turn.role, calls, results, is_empty)


def pairing_violations(view: RequestView, profile: Profile) -> Iterator[Violation]:
    """Check the positions of calls and results, and that results match their calls."""
    turns = [*map(_read, view.turns)]
    index = 0
    while index < len(turns):
        turn = turns[index]
        if not turn.calls:
            if turn.results:
                yield _misplaced_result(turn)
            index += 1
            continue
        if index == 0 or turns[index - 1].role == "assistant":
            message = (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
            broken = limit("call-after-model" if index else "call-misplaced")
            yield broken.make_violation(message, turn.pointer)
        # Google's SDK sends each chunk of a stream as a content of its own, the last one without text; it is accepted
        step = _run(turns, index, lambda turn: bool(turn.calls) or (turn.role == "assistant" and turn.is_empty))
        answers = _run(turns, index + len(step), lambda turn: turn.role == "user" and bool(turn.results))
        yield from _count_violations(step, answers, profile)
        index += len(step) + len(answers)


def _run(turns: Sequence[_Turn], start: int, belongs: Callable[[_Turn], bool]) -> Sequence[_Turn]:
    end = start
    while end < len(turns) and belongs(turns[end]):
        end += 1
    return turns[start:end]


def _misplaced_result(turn: _Turn) -> Violation:
    message = "Please ensure that function response turn comes immediately after a function call turn."
    return limit("result-misplaced").make_violation(message, turn.pointer)


def _count_violations(step: Sequence[_Turn], answers: Sequence[_Turn], profile: Profile) -> Iterator[Violation]:
    calls = [call for turn in step for call in turn.calls]
    results = [result for turn in answers for result in turn.results]
    message = (
        "Please ensure that the number of function response parts is equal to the number of function call parts of the "
        "function call turn."
    )
    if len(calls) != len(results):
        yield limit("result-count").make_violation(
            message, (answers or step)[-1].pointer, actual=len(results), expected=len(calls)
        )
    if len(answers) > 1:
        yield limit("results-split").make_violation(
            message, answers[1].pointer, actual=len(answers), expected=1, severity=_severity(profile)
        )
    yield from (_misplaced_result(turn) for turn in step if turn.results)
    yield from _match_results(calls, results, profile)


def _severity(profile: Profile) -> Literal["error", "warning"]:
    return "error" if profile.strict_pairing else "warning"


def _match_results(calls: list[CallView], results: list[ResultView], profile: Profile) -> Iterator[Violation]:
    """Match calls and results by id where both have one, and the others by name."""
    waiting = list(calls)
    by_name: list[ResultView] = []
    for result in results:
        call = next((call for call in waiting if call.id and call.id == result.call_id), None)
        if call is None:
            by_name.append(result)
            continue
        waiting.remove(call)
        if result.name != call.name:
            yield _misnamed_violation(result, [call], profile)
    for result in by_name:
        yield from _unpaired_id(result, calls)
        call = next((call for call in waiting if call.name == result.name), None)
        if call is not None:
            waiting.remove(call)
        elif waiting and len(calls) == len(results):
            yield _misnamed_violation(result, waiting, profile)


def _unpaired_id(result: ResultView, calls: list[CallView]) -> Iterator[Violation]:
    if not all(call.id for call in calls):
        return  # the API accepted client-generated ids on half of a conversation
    ids = [call.id for call in calls]
    if result.call_id is None:
        message = f"The function response '{result.name}' has no id, its function call has one."
        yield limit("result-id-missing").make_violation(message, result.id_pointer, actual=None, expected=[*ids])
        return
    broken = limit("result-id-repeated" if result.call_id in ids else "result-id-unknown")
    message = f"The id '{result.call_id}' of a function response is not the id of an unanswered function call."
    yield broken.make_violation(message, result.id_pointer, actual=result.call_id, expected=[*ids])


def _misnamed_violation(result: ResultView, calls: list[CallView], profile: Profile) -> Violation:
    names: list[JSON] = [call.name for call in calls]
    message = f"The function response '{result.name}' does not match the name of its function call."
    return limit("result-name").make_violation(
        message, result.pointer, actual=result.name, expected=names, severity=_severity(profile)
    )


_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_STAND_INS = frozenset(
    canonical(spelled) for word in _WORDS for spelled in (word, base64.b64encode(word.encode()).decode())
)


def is_signature_placeholder(signature: JSON) -> bool:
    """Return whether a signature is the documented placeholder for an unknown one (gemini-thought-signature).

    The documentation gives the placeholder as plain text. SDKs send it as base64 in either alphabet, with or without
    padding.
    """
    return isinstance(signature, str) and canonical(signature) in _STAND_INS


def signature_violations(view: RequestView, profile: Profile, *, vertex: bool) -> Iterator[Violation]:
    """Check that the first call of each step has a signature, if the profile requires one.

    Only the current turn is checked. It begins at the last user content with anything other than results. Documented
    placeholders are accepted. Modified signatures are not detected here.
    """
    if profile.thought_signatures != "required":
        return
    opening = max((index for index, turn in enumerate(view.turns) if _opens(turn)), default=-1)
    for index, turn in enumerate(view.turns[opening + 1 :], opening + 1):
        first = next((part for part in turn.parts if isinstance(part, CallView)), None)
        if first is not None and turn.role == "assistant" and not first.opaque:
            yield limit("signature-missing").make_violation(_words(first.name, index + 1, vertex=vertex), first.pointer)


def _opens(turn: TurnView) -> bool:
    return turn.role == "user" and not all(isinstance(part, ResultView) for part in turn.parts)


def _words(name: str, position: int, *, vertex: bool) -> str:
    if vertex:
        return (
            f"Unable to submit request because function call `default_api:{name}` in the {position}. content block is "
            "missing a `thought_signature`."
        )
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
        "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
        f"call `default_api:{name}` , position {position}."
    )


class GeminiState(IssuedState):
    """Thought signatures issued in responses. See `harness.apis.profiles.IssuedState`."""

    def __init__(self, *, foreign: bool, profile: Profile | None = None) -> None:
        super().__init__(foreign=foreign, profile=profile)
        self._signatures: set[str] = set()

    def note(self, response: ResponseView) -> None:
        """Remember the signatures of a response, even if it is truncated."""
        super().note(response)
        self._signatures.update(
            spelled(part.opaque)
            for part in response.parts
            if isinstance(part, CallView | TextView) and part.opaque is not None
        )

    def objection(self, request: RequestView) -> Violation | None:
        """Return a violation for the first signature that was never issued. Return `None` if the conversation may
        contain signatures from elsewhere (`foreign`).
        """
        if self.foreign:
            return None
        for turn in request.turns:
            for part in turn.parts:
                if isinstance(part, CallView | TextView) and self._is_altered(part.opaque):
                    message = "Corrupted thought signature."
                    return limit("signature-corrupted").make_violation(
                        message, part.pointer, actual=part.opaque, code="INVALID_ARGUMENT"
                    )
        return None

    def _is_altered(self, opaque: JSON) -> bool:
        return opaque is not None and spelled(opaque) not in self._signatures and not is_signature_placeholder(opaque)
