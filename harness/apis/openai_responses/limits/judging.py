"""What the provider refuses in a request as a whole; the parts of it have modules of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.apis.bodies import parsed
from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.openai_parameters import (
    ARRAY,
    BOOLEAN,
    OBJECT,
    STRING,
    STRING_OR_ARRAY,
    STRING_OR_OBJECT,
    Parameter,
    decimal,
    integer,
    out_of_range,
    wrong_type,
)
from harness.apis.openai_responses import limits
from harness.apis.openai_responses.limits.formats import format_limits
from harness.apis.openai_responses.limits.pairing import pairing_limits
from harness.apis.openai_responses.limits.refusals import MISSING, WRONG_TYPE
from harness.apis.openai_responses.limits.shapes import is_strict, item_limits
from harness.apis.openai_responses.limits.tools import tool_limits
from harness.apis.openai_responses.requests import state
from harness.apis.profile import Profile
from harness.apis.view import WireError
from harness.contract.http import HttpRequest
from harness.contract.model import JSON

_PARAMETERS: Mapping[str, Parameter] = {
    "background": BOOLEAN,
    "conversation": STRING_OR_OBJECT,
    "include": ARRAY,
    "input": STRING_OR_ARRAY,
    "instructions": STRING,
    "max_output_tokens": integer(16),
    "max_tool_calls": integer(1),
    "metadata": OBJECT,
    "model": STRING,
    "parallel_tool_calls": BOOLEAN,
    "previous_response_id": STRING,
    "prompt": OBJECT,
    "prompt_cache_key": STRING,
    "reasoning": OBJECT,
    "safety_identifier": STRING,
    "service_tier": STRING,
    "store": BOOLEAN,
    "stream": BOOLEAN,
    "stream_options": OBJECT,
    "temperature": decimal(0, 2),
    "text": OBJECT,
    "tool_choice": STRING_OR_OBJECT,
    "tools": ARRAY,
    "top_logprobs": integer(0, 20),
    "top_p": decimal(0, 1),
    "truncation": STRING,
    "user": STRING,
}
"""The parameters with what they take (openai-responses-input)."""

_OTHERS = (
    "access_programs",
    "client_metadata",  # openai-responses-client-metadata
    "context_management",
    "image",
    "moderation",
    "prompt_cache_options",
    "prompt_cache_retention",
)
_MOVED = {
    "messages": "input",
    "response_format": "text.format",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "functions": "tools",
    "function_call": "tool_choice",
}
"""Parameters of Chat Completions → what they are called here."""


def violations(request: HttpRequest, law: Law) -> list[Violation]:
    """What the provider refuses in a request, or takes with a loss."""
    try:
        body = parsed(request.body)
    except WireError as error:
        return [limits.BODY.broken(f"The body of the request is no valid JSON: {error.reason}.", "")]
    if not isinstance(body, dict):
        return [limits.BODY.broken("The body of the request has to be a JSON object.", "")]
    found = [*_parameters(body, law), *_input(body), *_state(body)]
    found.extend(item_limits(body.get("input"), law))
    found.extend(pairing_limits(body, law))
    found.extend(tool_limits(body, law))
    found.extend(format_limits(body))
    return found


def _parameters(body: dict[str, JSON], law: Law) -> Iterator[Violation]:
    for key, value in body.items():
        pointer = join("", key)
        if value is None:
            continue
        if key in _PARAMETERS:
            yield from _value(key, value, pointer)
        elif key not in _OTHERS:
            yield from _unknown(key, pointer, law)
    if body.get("stream_options") is not None and body.get("stream") is not True:
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield limits.STREAM_OPTIONS.broken(text, "/stream_options")
    yield from _sampling(body, law.profile)


def _sampling(body: dict[str, JSON], profile: Profile) -> Iterator[Violation]:
    """Nobody has seen what becomes of them on a model whose reasoning is switched off."""
    reasoning = body.get("reasoning")
    reasons = not (isinstance(reasoning, dict) and reasoning.get("effort") == "none")
    for key in ("temperature", "top_p"):
        if body.get(key) is None or profile.sampling == "any":
            continue
        if key == "temperature" and profile.sampling == "refused" and reasons:
            text = f"Unsupported parameter: '{key}' is not supported with this model."
            yield limits.TEMPERATURE.broken(text, join("", key), code="unsupported_parameter", actual=body[key])
        else:
            text = f"Some models of this generation refuse '{key}'."
            yield limits.SAMPLING.broken(text, join("", key), actual=body[key])


def _unknown(key: str, pointer: str, law: Law) -> Iterator[Violation]:
    if key in _MOVED:
        text = f"Unsupported parameter: '{key}'. The Responses API takes '{_MOVED[key]}' instead."
        if key == "messages" or is_strict(law):
            yield limits.PARAMETER_UNKNOWN.broken(text, pointer, code="unsupported_parameter")
    elif is_strict(law):
        text = f"Unknown parameter: '{key}'."
        yield limits.PARAMETER_UNKNOWN.broken(text, pointer, code="unknown_parameter")


def _value(key: str, value: JSON, pointer: str) -> Iterator[Violation]:
    parameter = _PARAMETERS[key]
    beyond = out_of_range(key, value, parameter)
    if text := wrong_type(key, value, parameter):
        yield limits.PARAMETER_TYPE.broken(text, pointer, code=WRONG_TYPE, actual=value)
    elif beyond:
        yield limits.PARAMETER_RANGE.broken(beyond[0], pointer, code=beyond[1], actual=value)


def _input(body: dict[str, JSON]) -> Iterator[Violation]:
    entries = body.get("input")
    if state(body) is not None or body.get("prompt") is not None:
        return
    if entries is None:
        text = "Missing required parameter: 'input'."
        yield limits.INPUT_MISSING.broken(text, "", code=MISSING)
    elif entries == []:
        text = "Invalid 'input': empty array. Expected at least one item."
        yield limits.INPUT_MISSING.broken(text, "/input", code="empty_array")


def _state(body: dict[str, JSON]) -> Iterator[Violation]:
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        text = "'previous_response_id' and 'conversation' cannot be used together."
        yield limits.STATE_CONFLICT.broken(text, "/previous_response_id")
