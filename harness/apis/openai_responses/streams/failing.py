"""The events by which a response fails that has begun."""

from __future__ import annotations

from harness.apis.eventstream import written
from harness.apis.failure import message
from harness.apis.openai_responses.failures import error_object, words
from harness.apis.openai_responses.profiles import PROFILES
from harness.apis.openai_responses.responses.building import build
from harness.apis.profile import matching
from harness.apis.seeded import number
from harness.apis.view import ModelStep, RequestView
from harness.contract.model import JSON, StopReason


def stream_error(status: int, seed: str, request: RequestView) -> bytes:
    """The provider's failure of this status inside a stream.

    Recorded streams have an `error` event with the error inside, and then `response.failed`. The SDK's type has the
    error's fields beside the event's own (openai-responses-stream-error), and Azure sends `response.failed` alone:
    which it is, depends on `seed`. Only the words say what failed: a status that has none of its own is read as 400 or
    500. How many events came before is not known here, so that the sequence numbers leave a gap.
    """
    kind, code = words(status)
    error = error_object(message(status), kind, code)
    at = number(seed, "sequence", 1000, 9000)
    flat: dict[str, JSON] = {"code": code or kind, "message": message(status), "param": None}
    nested: dict[str, JSON] = {"error": error}
    said = [flat, nested, None][number(seed, "failure", 0, 2)]
    model = request.model or ""
    body = build(ModelStep(stop=StopReason.ERROR), seed, model, matching(PROFILES, model))
    failed: dict[str, JSON] = {**body, "error": {"code": code or kind, "message": message(status)}, "usage": None}
    end = written({"type": "response.failed", "response": failed, "sequence_number": at + 1}, "response.failed")
    if said is None:
        return end
    return written({"type": "error", **said, "sequence_number": at}, "error") + end
