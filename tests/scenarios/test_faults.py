"""Faults, the errors that they bring about, variants and answers that are cut: what a scenario may say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from harness.contract import errors
from harness.contract.errors import HarnessError
from harness.scenarios.load import problems
from harness.scenarios.match import error_name
from harness.scenarios.schema import ErrorName, FaultSpec
from tests.scenarios.files import ABSENT, MINIMAL, WITH_TOOLS, changed, scenario, written

FAILING: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "failing",
    "scripted": True,
    "faults": [{"answer": 1, "status": 429, "retry_after": 7}],
    "turns": [{**WITH_TOOLS["turns"][0], "expect": {"error": "rate-limited"}}],
}
STREAMED: dict[str, Any] = {
    **FAILING,
    "id": "streamed",
    "variants": ["stream"],
    "faults": [{"answer": 1, "connection": "cut", "at": "end"}],
    "turns": [
        {**WITH_TOOLS["turns"][0], "expect": {"error": {"name": ["connection-failed", "malformed-response"]}}},
    ],
}
CUT: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "cut",
    "requires": ["tools", "truncation"],
    "turns": [{"user": "Paris?", "model": [{"calls": [{"get_weather": {"city": "Paris"}}], "truncated": True}]}],
}
MALFORMED: dict[str, Any] = {
    **MINIMAL,
    "id": "malformed",
    "scripted": True,
    "profiles": ["gemini-3-ids", "gemini-3", "gemini-2"],
    "turns": [{"user": "Paris?", "model": [{"text": "", "stop": "malformed_call"}]}],
}

STATUSES = "400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529"
ERRORS = (
    "authentication-failed, billing-failed, conflict, connection-failed, invalid-request, iteration-limit, "
    "malformed-response, not-found, overloaded, permission-denied, rate-limited, request-too-large, server-error, "
    "timed-out, unsupported"
)

# Each case: the base, the path that is changed, its value, and the error after the file's name and place.
MISTAKES: list[tuple[dict[str, Any], str, object, str]] = [
    (FAILING, "faults.0", {"answer": 1}, "faults[0]: give exactly one of status, stream_error, body, connection."),
    (FAILING, "faults.0", {"answer": 1, "status": 429, "body": "html"},
     "faults[0]: give exactly one of status, stream_error, body, connection."),
    (FAILING, "faults.0", {"answer": 1, "body": "html", "retry_after": 7},
     "faults[0]: retry_after goes with status, and with nothing else."),
    (FAILING, "faults.0.at", 0.5,
     "faults[0]: at goes with stream_error and with a connection that breaks, and with nothing else."),
    (FAILING, "faults.0", {"answer": 1, "connection": "slow", "at": 0.5},
     "faults[0]: at goes with stream_error and with a connection that breaks, and with nothing else."),
    (FAILING, "faults.0.status", 418,
     f"faults[0].status: unknown status '418'. Did you mean '413'? Known: {STATUSES}."),
    (FAILING, "faults.0.status", "429", "faults[0].status: must be the number 429, not the text '429'."),
    (FAILING, "faults.0.retry_after", -1, "faults[0].retry_after: must be at least 0."),
    (FAILING, "faults.0.answer", 0, ("faults[0].answer: a chat that fails is the last one: this can befall answer 1 "
     "only.")),
    (FAILING, "faults.0.answer", 2, "faults[0].answer: there is no answer 2: the script has 2, from 0 on."),
    (FAILING, "faults.0.answer", -1, "faults[0].answer: must be at least 0."),
    (FAILING, "faults.1", {"answer": 1, "status": 500}, "faults[1].answer: a second fault of answer 1."),
    (FAILING, "scripted", ABSENT, "faults: a provider does not fail when asked to. Add scripted: true."),
    (FAILING, "turns.0.expect", ABSENT, "turns[0]: its last answer fails. Add expect: {error: rate-limited}."),
    (FAILING, "turns.0.expect", {"error": "overloaded"},
     "turns[0].expect.error: nothing ends the turn in overloaded. Add faults that do."),
    (FAILING, "turns.0.expect", {"error": {"name": ["rate-limited", "overloaded"]}},
     "turns[0].expect.error: nothing ends the turn in overloaded. Add faults that do."),
    (FAILING, "turns.0.expect", {"error": {"name": "rate-limited", "status": 503}},
     ("turns[0].expect.error: the script itself does not meet error.status: the error has the status 429, not the "
     "status 503.")),
    (FAILING, "turns.0.expect", {"error": {"name": "rate-limited", "retry_after": None}},
     ("turns[0].expect.error: the script itself does not meet error.retry_after: the error asks for the wait 7, not "
     "for no wait.")),
    (FAILING, "turns.0.expect", {"error": "rate-limit"},
     f"turns[0].expect.error: unknown error 'rate-limit'. Did you mean 'rate-limited'? Known: {ERRORS}."),
    (FAILING, "turns.0.expect", {"error": {"name": "rate-limit"}},
     f"turns[0].expect.error.name: unknown error 'rate-limit'. Did you mean 'rate-limited'? Known: {ERRORS}."),
    (FAILING, "turns.0.expect", {"error": {"name": ["rate-limit"]}},
     f"turns[0].expect.error.name[0]: unknown error 'rate-limit'. Did you mean 'rate-limited'? Known: {ERRORS}."),
    (FAILING, "turns.0.expect", {"error": {"name": []}}, "turns[0].expect.error.name: must not be empty."),
    (FAILING, "turns.0.expect", {"error": {"name": 429}},
     "turns[0].expect.error.name: must be an error's name or a list of names."),
    (FAILING, "turns.0.expect", {"error": 429},
     "turns[0].expect.error: must be an error's name or {name: NAME, status: …, retry_after: …}."),
    (FAILING, "turns.0.expect", {"error": "rate-limited", "text": {"contains": "18"}},
     "turns[0].expect: the script itself does not meet text.contains: the text does not contain '18'."),
    (FAILING, "turns.0.expect", {"error": "rate-limited", "calls": [{"name": "look"}]},
     "turns[0].expect: the script itself does not meet calls[0].name: no call of 'look'."),
    (FAILING, "turns.0.model.0", {"text": "18"},
     "turns[0].model[0]: an answer without calls ends the turn, and more answers follow."),
    (FAILING, "turns.1", {"user": "And now?", "model": [{"text": "19"}]},
     "turns[0].expect.error: a chat that fails is the last one, and more turns follow."),
    (STREAMED, "variants", ["whole", "stream"], "faults[0]: at: end is of streams alone. Add variants: [stream]."),
    (STREAMED, "variants", ABSENT, "faults[0]: at: end is of streams alone. Add variants: [stream]."),
    (STREAMED, "variants", [], "variants: must not be empty."),
    (STREAMED, "variants", ["stream", "stream"], "variants[1]: 'stream' stands here twice."),
    (STREAMED, "variants", ["streamed"], ("variants[0]: unknown variant 'streamed'. Did you mean 'stream'? Known: "
     "stream, whole.")),
    (STREAMED, "faults.0.at", 1, "faults[0].at: must be below 1."),
    (STREAMED, "faults.0.at", -0.1, "faults[0].at: must be at least 0."),
    (STREAMED, "faults.0.at", "start", "faults[0].at: unknown value 'start'. Known: end."),
    (STREAMED, "faults.0.at", True, "faults[0].at: must be a number from 0 to below 1, or end."),
    (STREAMED, "faults.0", {"answer": 1, "connection": "slow"},
     "turns[0].expect.error: nothing ends the turn in connection-failed. Add faults that do."),
    (STREAMED, "faults.0", {"answer": 1, "body": "wrong-type"},
     "turns[0].expect.error: nothing ends the turn in malformed-response. Add faults that do."),
    (STREAMED, "turns.0.expect", {"error": {"name": "connection-failed", "status": 500}},
     ("turns[0].expect.error: the script itself does not meet error.status: the error has no status, not the status "
     "500.")),
    ({**FAILING, "variants": ["whole"]}, "faults.0", {"answer": 1, "stream_error": 429},
     "faults[0]: stream_error is of streams alone. Add variants: [stream]."),
    (MINIMAL, "turns.0.expect", {"error": "server-error"},
     "turns[0].expect.error: nothing ends the turn in server-error. Add faults that do."),
    (CUT, "turns.0.model.0", {"text": "18", "truncated": True},
     "turns[0].model[0]: truncated cuts the arguments of the last call, and there are none."),
    (CUT, "turns.0.model.0.calls.0.get_weather", {},
     "turns[0].model[0]: truncated cuts the arguments of the last call, and there are none."),
    (CUT, "turns.0.model.0.stop", "tool_use",
     "turns[0].model[0]: a truncated answer stops for max_tokens, not for tool_use."),
    (CUT, "turns.0.model.0.answers", [0],
     "turns[0].model[0]: answers must name each of the 0 calls once, by index from 0."),
    (CUT, "turns.0.model.1", {"text": "18"},
     "turns[0].model[0]: an answer without calls ends the turn, and more answers follow."),
    (CUT, "turns.0.model.0.calls.0.get_weather", {"city": 75}, ("turns[0].model[0].calls[0].get_weather.city: does not "
     "fit the parameters of 'get_weather': 75 is not of type 'string'.")),
    (CUT, "turns.0.expect", {"calls": [{"name": "get_weather"}]},
     "turns[0].expect: the script itself does not meet calls[0].name: no call of 'get_weather'."),
    ({**CUT, "requires": ["tools", "truncation", "parallel-tool-calls"]}, "turns.0.model.0.calls.1",
     {"get_weather": {"city": "B"}},
     ("turns[0].model[0]: the turn ends in a call. Add the model's answer to the results, or ends_with_call: "
      "true.")),
    (MALFORMED, "profiles", ABSENT, ("turns[0].model[0].stop: only Gemini says that a call is malformed. Add profiles: "
     "of gemini-4, gemini-3.7, gemini-3.6, gemini-3-ids, gemini-3, gemini-2, gemini.")),
    (MALFORMED, "profiles.3", "claude", "turns[0].model[0].stop: only Gemini says that a call is malformed. Add "),
    (MALFORMED, "scripted", ABSENT,
     "turns[0].model[0].stop: no model writes a malformed call when asked to. Add scripted: true."),
    ({**WITH_TOOLS, "profiles": ["gemini-3"]}, "turns.0.model.0.stop", "malformed_call",
     "turns[0].model[0]: an answer that stops for malformed_call has no calls: the one that failed is not given."),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_key(
    tmp_path: Path, base: dict[str, Any], path: str, value: object, message: str
) -> None:
    file = written(tmp_path, changed(base, path, value))
    texts = [str(error) for error in problems(file)]
    assert all(text.startswith(f"{file}:1:") for text in texts)
    assert [text for text in texts if f" at {message}" in text], texts


# What may be said: the base, the path that is changed, and its value.
RIGHT: list[tuple[dict[str, Any], str, object]] = [
    (FAILING, "title", "As it stands"),
    (FAILING, "turns.0.expect", {"error": {"name": "rate-limited", "status": 429, "retry_after": 7}}),
    (FAILING, "turns.0.expect", {"error": "rate-limited", "calls": [{"name": "get_weather"}]}),
    (FAILING, "turns.0.model", [{"text": "1", "calls": [{"get_weather": {"city": "B"}}]}] * 2),
    (FAILING, "faults", [{"answer": 0, "connection": "slow"}, {"answer": 1, "status": 429}]),
    (FAILING, "faults", [{"answer": 0, "body": "wrong-type"}, {"answer": 1, "status": 429}]),
    (STREAMED, "title", "As it stands"),
    (STREAMED, "faults.0.at", 0),
    (STREAMED, "turns.0.expect", {"error": "connection-failed"}),
    ({**MINIMAL, "scripted": True}, "faults", [{"body": "wrong-type"}]),
    ({**MINIMAL, "scripted": True, "variants": ["whole", "stream"]}, "faults", [{"connection": "slow"}]),
    (MINIMAL, "turns.0.expect", {"error": "unsupported"}),
    (CUT, "turns.0.expect", {"stop_reason": "max_tokens"}),
    (CUT, "tools.0.results", []),
    ({**CUT, "requires": ["tools", "truncation", "history"]}, "turns.1", {"user": "Again", "model": [{"text": "18"}]}),
    ({**CUT, "requires": ["tools", "truncation", "parallel-tool-calls"]}, "turns.0.model",
     [{**CUT["turns"][0]["model"][0], "calls": [{"get_weather": {"city": "A"}}] * 2}, {"text": "18"}]),
    (MALFORMED, "title", "As it stands"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value"), RIGHT)
def test_what_fits_together_is_taken(tmp_path: Path, base: dict[str, Any], path: str, value: object) -> None:
    assert [str(error) for error in problems(written(tmp_path, changed(base, path, value)))] == []


STATUS_ERRORS = {
    400: "invalid-request",
    401: "authentication-failed",
    402: "billing-failed",
    403: "permission-denied",
    404: "not-found",
    408: "timed-out",
    409: "conflict",
    413: "request-too-large",
    422: "invalid-request",
    429: "rate-limited",
    500: "server-error",
    502: "server-error",
    503: "overloaded",
    504: "timed-out",
    529: "overloaded",
}


@pytest.mark.parametrize(
    ("fault", "explained"),
    [
        *(({"status": status}, {error}) for status, error in STATUS_ERRORS.items()),
        *(
            ({"stream_error": status}, {error, "server-error" if status >= 500 else "invalid-request"})
            for status, error in STATUS_ERRORS.items()
        ),
        *(({"body": body}, {"connection-failed", "malformed-response"}) for body in ("empty", "invalid-json", "html")),
        ({"body": "wrong-type"}, set[str]()),
        ({"connection": "cut"}, {"connection-failed", "malformed-response"}),
        ({"connection": "cut-clean"}, {"connection-failed", "malformed-response"}),
        ({"connection": "reset"}, {"connection-failed", "malformed-response"}),
        ({"connection": "slow"}, set[str]()),
    ],
)
def test_a_fault_explains_its_error_and_no_other(tmp_path: Path, fault: dict[str, Any], explained: set[str]) -> None:
    base = changed({**FAILING, "variants": ["stream"]}, "faults.0", {"answer": 1, **fault})
    for name in set(get_args(ErrorName)) - {"unsupported", "iteration-limit"}:
        reasons = [error.reason for error in problems(written(tmp_path, changed(base, "turns.0.expect.error", name)))]
        assert reasons == ([] if name in explained else [f"nothing ends the turn in {name}. Add faults that do."])
    assert FaultSpec.model_validate(fault).fails is bool(explained)


def test_every_name_of_an_error_is_that_of_a_class() -> None:
    classes = {
        error_name(name): value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, HarnessError)
    }
    for name in get_args(ErrorName):
        assert name in classes
    assert error_name("RateLimited") == "rate-limited"


def test_a_call_that_is_cut_is_not_made(tmp_path: Path) -> None:
    step = scenario(tmp_path, CUT).turns[0].model[0]
    assert step.named_calls == (("get_weather", {"city": "Paris"}),)
    assert step.whole_calls == ()
