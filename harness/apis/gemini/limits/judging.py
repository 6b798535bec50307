"""What the provider refuses, and what it takes with a loss.

The provider parses before it looks at the conversation, so a request with a field of a wrong type gets no other
finding than those of `fields`. Root schemas with empty `properties` are no violation although gemini-schema-fields
quotes a refusal: recorded requests with them were accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.bodies import parsed
from harness.apis.gemini import limits
from harness.apis.gemini.limits import fields, generation, pairing, signatures, tools
from harness.apis.gemini.requests import on_vertex, view
from harness.apis.gemini.requests.parts import DATA_FIELDS
from harness.apis.gemini.requests.proto import ProtoMessage, entrywise_repeated, repeated
from harness.apis.law import Law
from harness.apis.limit import Violation, severity_of
from harness.apis.profile import Profile
from harness.apis.view import CallView, RequestView, WireError
from harness.contract.http import HttpRequest
from harness.contract.model import JSON


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """The violations of a request. Never raises: a body that cannot be read is a violation (`gemini-body`)."""
    profile = law.profile
    try:
        body = parsed(request.body)
        misfits = fields.misfits(body)
        if any(misfit.limit is limits.FIELD_TYPE for misfit in misfits):
            return misfits
        vertex = on_vertex(request)
        message, seen = ProtoMessage.of(body), view(request)
        return [
            *misfits,
            *_contents(message, vertex=vertex),
            *_ending(seen, profile),
            *pairing.violations(seen, profile),
            *signatures.violations(seen, profile, vertex=vertex),
            *tools.violations(message, profile, vertex=vertex),
            *generation.violations(message, profile),
        ]
    except WireError as error:
        return [_unreadable(error)]
    except RecursionError:
        return [_unreadable(WireError("nested too deeply"))]


def _unreadable(error: WireError) -> Violation:
    message = f"Invalid JSON payload received. {error.reason}"
    return limits.BODY.broken(message, error.pointer)


def _contents(body: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    contents = body.get("contents")
    if not repeated(contents, ""):
        message = "* GenerateContentRequest.contents: contents is not specified\n"
        yield limits.CONTENTS_EMPTY.broken(message, body.at("contents"))
    for found in _by_itself(vertex=vertex)(contents, body.at("contents")):
        yield from found


@cache
def _by_itself(*, vertex: bool) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is wrong with each content, told once though all requests behind it repeat it."""

    def of(content: JSON, pointer: str) -> Sequence[Violation]:
        message = ProtoMessage.of(content, pointer)
        return [*_role(message, vertex=vertex), *_parts(message, vertex=vertex)]

    return entrywise_repeated(of)


def _parts(content: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    index = content.pointer.rpartition("/")[2]
    path = f"contents[{index if index.isdigit() else 0}].parts"  # one object may stand for a list of one
    parts = content.messages("parts")
    if not parts:
        message = (
            "Unable to submit request because it must include at least one parts field."
            if vertex
            else f"* GenerateContentRequest.{path}: contents.parts must not be empty.\n"
        )
        yield limits.PARTS_EMPTY.broken(message, content.at("parts"))
    for position, part in enumerate(parts):
        yield from _part(content, part, f"GenerateContentRequest.{path}[{position}]")


def _role(content: ProtoMessage, *, vertex: bool) -> Iterator[Violation]:
    role = content.get("role")
    if role in ("user", "model") or (not role and not vertex):  # the Developer API reads a missing role as user
        return
    message = "Please use a valid role: user, model."
    limit = limits.ROLE_FUNCTION if role == "function" else limits.ROLE
    yield limit.broken(message, content.at("role"), actual=role, expected=["user", "model"])


def _part(content: ProtoMessage, part: ProtoMessage, path: str) -> Iterator[Violation]:
    data = [name for name in DATA_FIELDS if name in part.names]
    if not data and "thoughtSignature" not in part.names:
        message = f"* {path}.data: required oneof field 'data' must have one initialized field\n"
        yield limits.PART_DATA.broken(message, part.pointer)
    elif len(data) > 1:
        message = f"* {path}.data: oneof field 'data' is already set. Cannot set '{data[1]}'\n"
        yield limits.PART_DATA.broken(message, part.pointer, actual=[*data])
    call, result = part.message("functionCall"), part.message("functionResponse")
    if call:
        yield from _named(call, f"{path}.function_call", "gemini-function-call-form")
        if content.get("role") != "model":
            message = "Please ensure that function call parts stand in a turn of the role model."
            yield limits.CALL_ROLE.broken(message, part.pointer, actual=content.get("role"))
    if result:
        yield from _named(result, f"{path}.function_response", "gemini-function-response-form")


def _named(message: ProtoMessage, path: str, source: str) -> Iterator[Violation]:
    if not message.get("name"):
        text = f"* {path}.name: Name cannot be empty.\n"
        yield limits.NAME_EMPTY.broken(text, message.at("name"), source=source)


def _ending(seen: RequestView, profile: Profile) -> Iterator[Violation]:
    """gemini-no-model-turn-last. One that ends in calls lacks their results, which `pairing` says."""
    severity, last = severity_of(profile.prefill), seen.turns[-1] if seen.turns else None
    if severity and last and last.role == "assistant" and not any(isinstance(p, CallView) for p in last.parts):
        message = "Requests ending with a model turn are not supported."
        yield limits.MODEL_TURN_LAST.broken(message, last.pointer, severity=severity)
