"""What a run left behind → canonical response, or the error that it stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from harness.contract.errors import MalformedResponse, ProviderError, provider_error
from harness.contract.model import ChatResponse, Message, Refusal, Role, StopReason, Text, Usage

if TYPE_CHECKING:
    from harness.contract.process import Completed

_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}

_SHOWN = 300
"""Characters of an output that a message shows."""


def decode(completed: Completed) -> ChatResponse:
    """The answer that a run has printed.

    Raises:
        ProviderError: the result is an error, by the provider's status if it names one; or the run failed without one.
        MalformedResponse: the output is no result, or one of a command and not of a model.
    """
    result = _result(completed)
    text = result.get("result")
    stop = result.get("stop_reason")
    if result.get("is_error") or result.get("subtype") != "success":
        if stop != "refusal":
            raise _reported(result)
        parts = (Refusal(text if isinstance(text, str) else ""),)
    elif completed.status != 0:
        raise _failed(completed)
    elif result.get("num_turns") == 0:
        raise MalformedResponse(f"no model was asked; claude itself says: {_shown(text)}")
    elif not isinstance(text, str):
        raise MalformedResponse("the result has no text")
    else:
        parts = (Text(text),) if text else ()
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        _STOP_REASONS.get(stop, StopReason.UNKNOWN) if isinstance(stop, str) else StopReason.UNKNOWN,
        _usage(result.get("usage")),
        _model(result.get("modelUsage")),
        stop if isinstance(stop, str) else None,
    )


def _result(completed: Completed) -> dict[str, Any]:
    try:
        value: Any = json.loads(completed.stdout)
    except (ValueError, RecursionError):
        value = None
    result = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if result.get("type") == "result":
        return result
    if completed.status != 0:
        raise _failed(completed)
    raise MalformedResponse(f"claude has printed no result but: {_shown(completed.stdout)}")


def _failed(completed: Completed) -> ProviderError:
    ended = f"status {completed.status}" if completed.status > 0 else f"signal {-completed.status}"
    said = completed.stderr.strip() or completed.stdout.strip() or "nothing"
    return provider_error(500, f"claude ended with {ended} and says: {_shown(said)}")


def _reported(result: dict[str, Any]) -> ProviderError:
    """The error of a result. One that comes with no status of the provider is a failure of the command line."""
    said = result.get("api_error_status")
    status = said if isinstance(said, int) and 400 <= said < 600 else 500
    subtype = result.get("subtype")
    code = subtype if isinstance(subtype, str) and subtype != "success" else None
    return provider_error(status, _message(result), code=code)


def _message(result: dict[str, Any]) -> str:
    errors = result.get("errors")
    listed = [str(each) for each in cast("list[Any]", errors)] if isinstance(errors, list) else []
    text = result.get("result")
    return text if isinstance(text, str) and text else "; ".join(listed) or "an error without a message"


def _usage(value: Any) -> Usage:
    usage = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    fresh, read, written, output = (
        count if isinstance(count := usage.get(key), int) else None
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    )
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _model(usage: Any) -> str | None:
    """The model that has answered: the only one that was used, if it was one."""
    models = list(cast("dict[str, Any]", usage)) if isinstance(usage, dict) else []
    return models[0] if len(models) == 1 else None


def _shown(text: Any) -> str:
    return repr(text)[:_SHOWN]
