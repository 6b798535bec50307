"""Results → neutral views. Pointers lead into the result."""

from __future__ import annotations

from harness.apis.jsonvalue import loads
from harness.apis.view import ErrorView, OpaqueView, PartView, ResponseView, TextView, WireError
from harness.contract.http import HttpResponse
from harness.contract.model import JSON, StopReason, Usage
from harness.contract.process import Completed, from_response

_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}


def read(response: HttpResponse) -> ResponseView:
    """Return the neutral view of the result of a run.

    Raises:
        WireError: it is no run, or a successful run without a model's result.
    """
    if response.status >= 400:
        return _view({}, ErrorView(response.status, response.body.decode("utf-8", "replace")))
    try:
        completed = from_response(response)
    except ValueError as error:
        raise WireError(str(error)) from None
    result = _result(completed)
    if result is None:
        said = completed.stderr.strip() or completed.stdout.strip()
        return _view({}, ErrorView(response.status, said))
    stop = result.get("stop_reason")
    if _has_failed(result):
        if stop == "refusal":
            return _view(result, parts=(OpaqueView("refusal", result.get("result"), "/result"),))
        return _view(result, _error(result, response.status))
    if completed.status != 0:
        return _view(result, ErrorView(response.status, f"status {completed.status}"))
    text = result.get("result")
    if result.get("num_turns") == 0 or not isinstance(text, str):
        raise WireError("no answer of a model", "/result")
    return _view(result, parts=(TextView(text, "/result"),) if text else ())


def _result(completed: Completed) -> dict[str, JSON] | None:
    """Return the result, or `None` if a run failed without one."""
    try:
        value = loads(completed.stdout)
    except WireError:
        value = None
    if isinstance(value, dict) and value.get("type") == "result":
        return value
    if completed.status == 0:
        raise WireError("no result on stdout")
    return None


def _has_failed(result: dict[str, JSON]) -> bool:
    return result.get("subtype") != "success" or result.get("is_error") not in (False, None)


def _error(result: dict[str, JSON], http_status: int) -> ErrorView:
    """Return the error of a result, with the provider's status if it has one."""
    status, text, subtype, errors = (result.get(key) for key in ("api_error_status", "result", "subtype", "errors"))
    meant = status if isinstance(status, int) and 400 <= status < 600 else None
    listed = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    message = text if isinstance(text, str) and text else listed
    return ErrorView(
        http_status, message, subtype if isinstance(subtype, str) and subtype != "success" else None, meant
    )


def _view(result: dict[str, JSON], error: ErrorView | None = None, parts: tuple[PartView, ...] = ()) -> ResponseView:
    stop = result.get("stop_reason")
    raw = stop if isinstance(stop, str) else None
    models = result.get("modelUsage")
    return ResponseView(
        api="claude-cli",
        parts=parts,
        stop_reason=StopReason.ERROR if error else _STOP_REASONS.get(raw or "", StopReason.UNKNOWN),
        raw_stop_reason=raw,
        usage=_usage(result.get("usage")),
        model=next(iter(models)) if isinstance(models, dict) and len(models) == 1 else None,
        body=result,
        error=error,
    )


def _usage(usage: JSON) -> Usage:
    """Return the usage, counted as in Messages: cached tokens are not part of `input_tokens`."""
    fresh, written, read_, output = (
        _count(usage.get(key)) if isinstance(usage, dict) else None
        for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    total = None if fresh is None else fresh + (written or 0) + (read_ or 0)
    return Usage(total, output, read_, written)


def _count(value: JSON) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
