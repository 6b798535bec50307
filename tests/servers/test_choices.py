"""What a model chooses to do is no fault of the server: it is counted, or nothing can be said."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest

from harness.apis.view import ModelStep, RequestView
from harness.checks.server_check import CheckSelection
from harness.checks.server_checks.answer_checks import PROMPT_NOT_FOLLOWED
from harness.checks.server_checks.conversation_checks import PLAIN, TEXT
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason
from harness.results import CellResult, Severity, Verdict
from tests.servers.faulty import Change, checked, faulty, instead, mode, said


def cells(check: str, change: Change, api: str = "openai-chat") -> list[CellResult]:
    run = checked(api, faulty(api, change), CheckSelection(frozenset({check})))
    return [cell for cell in run.cells if cell.scenario == check]


def always(step: ModelStep, when: Callable[[RequestView], bool] = lambda view: True) -> Change:
    return instead(when, step)


def counting(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
    """The model gets the system prompt, whose tokens are counted, and does not follow it."""
    reported = instead(lambda view: "two and two" in said(view), ModelStep(text="Four."))(api, view, response)
    if view is None or view.stream or not view.system:
        return reported
    body = json.loads(reported.body)
    body["usage"] |= {
        "prompt_tokens": body["usage"]["prompt_tokens"] + 20,
        "total_tokens": body["usage"]["total_tokens"] + 20,
    }
    return HttpResponse(200, reported.headers, json.dumps(body).encode())


def flaky() -> Change:
    """Now it calls both tools, now one."""
    numbers = count(1)
    both: tuple[tuple[str, dict[str, JSON]], ...] = (
        ("get_weather", {"city": "Vienna"}),
        ("get_weather", {"city": "Prague"}),
    )
    return instead(lambda view: bool(view.tools), lambda _view: ModelStep(calls=both[: 1 + next(numbers) // 2 % 2]))


CALL = ModelStep(calls=(("find_order", {"number": 12}),))
CITY_FOR_BOTH = ModelStep(calls=(("ping", {"city": "Bergen"}), ("get_weather", {"city": "Bergen"})))
WRITTEN = ModelStep(calls=(("save_note", {"text": PLAIN}),))
ESCAPED = ModelStep(calls=(("save_note", {"text": json.dumps(TEXT)[1:-1]}),))


CHOICES = (
    ("server-call", always(ModelStep(text="It is warm.")), "the model called nothing instead of get_weather"),
    ("server-call", always(CALL), "the model called find_order instead of get_weather"),
    ("server-parallel", always(ModelStep(text="No.")), "the model made 0 calls instead of 2"),
    ("server-integers", always(CALL), "the model wrote another number"),
    (
        "server-escapes",
        instead(lambda view: "<<<" in said(view), lambda view: ESCAPED if TEXT in said(view) else WRITTEN),
        "the model escaped the text; the server does not escape another one",
    ),
    (
        "server-choice-required",
        always(ModelStep(text="Well,", stop=StopReason.MAX_TOKENS), lambda view: mode(view) == "required"),
        "the answer ended with the stop reason max_tokens",
    ),
    (
        "server-json-schema-tools",
        always(ModelStep(calls=(("get_weather", {"city": "Antwerp"}),))),
        "the model called a tool that the question does not need",
    ),
    ("server-length", always(ModelStep(text="one, two")), "the model wrote less than the limit"),
    ("server-stop-sequence", always(ModelStep(text="I would rather not.")), "the model did not count"),
    ("server-text", always(ModelStep(text="")), "the model answered nothing"),
    ("server-different-calls", always(CITY_FOR_BOTH), PROMPT_NOT_FOLLOWED),
    ("server-same-calls", flaky(), PROMPT_NOT_FOLLOWED),
    ("server-same-text", always(ModelStep(text="No.")), PROMPT_NOT_FOLLOWED),
)


@pytest.mark.parametrize(("check", "change", "reason"), CHOICES, ids=[f"{each[0]}: {each[2]}" for each in CHOICES])
def test_what_a_model_does_not_do_proves_nothing(check: str, change: Change, reason: str) -> None:
    for cell in cells(check, change):
        assert (cell.verdict, cell.reason, cell.findings) == (Verdict.INCONCLUSIVE, reason, ())


def test_counted_prompt_that_is_not_followed_is_inconclusive() -> None:
    whole, _ = cells("server-system", counting)

    assert whole.verdict is Verdict.INCONCLUSIVE
    assert whole.reason == "the model does not follow the prompt, although 20 tokens of it are counted"


def test_prompt_neither_counted_nor_followed_is_a_warning() -> None:
    for cell in cells("server-system", always(ModelStep(text="Four."), lambda view: "two and two" in said(view))):
        (finding,) = cell.findings
        assert (cell.verdict, finding.severity) == (Verdict.WARN, Severity.WARNING)
        assert "its tokens are not counted" in finding.message


def test_plain_strings_that_no_answer_knows_of_are_a_warning() -> None:
    for cell in cells(
        "server-strings", instead(lambda view: "animal" in said(view), ModelStep(text="None.")), "anthropic"
    ):
        (finding,) = cell.findings
        assert (cell.verdict, finding.severity) == (Verdict.WARN, Severity.WARNING)
        assert finding.message.startswith("no answer uses the text that was sent as a plain string")


def test_server_has_to_accept_its_own_answer_back() -> None:
    """An empty text beside the calls, which Anthropic itself does not take."""

    def changed(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or view.stream or view.results or response.status != 200:
            return response
        body = json.loads(response.body)
        body["content"] = [{"type": "text", "text": ""}, *body["content"]]
        return HttpResponse(200, response.headers, json.dumps(body).encode())

    whole, streamed = cells("server-call", changed, "anthropic")

    assert streamed.verdict is Verdict.PASS
    assert whole.verdict is Verdict.FAIL  # the server refuses what it has said itself
    assert "the server refuses results under the ids that it issued itself" in whole.findings[0].message
