"""`harness probe`: against servers that speak the providers' APIs by facts that changed."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.fact_files import read_fact_file, today
from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from tests.cli.conftest import Command, Outcome
from tests.drifting import ENDED, changed, provider

OF_OTHERS: dict[str, Any] = {"models": ["another-model*"]}
TAKEN: dict[str, Any] = {"verdict": "accepted", "profile": None}
REFUSED: dict[str, Any] = {"verdict": "refused"}

DRIFT: dict[str, dict[str, dict[str, Any]]] = {
    "anthropic": {
        "anthropic-default-sampling-only": OF_OTHERS,
        "anthropic-old-computer-tool": ENDED,
        "anthropic-response-max-items-refused": ENDED,
        "anthropic-response-min-items-over-1-refused": TAKEN,
        "anthropic-response-unique-items-refused": OF_OTHERS,
        "anthropic-response-min-properties-refused": TAKEN,
        "anthropic-response-empty-enum-refused": ENDED,
        "anthropic-response-min-items-1-accepted": REFUSED,
        "anthropic-tool-name-pattern": ENDED,
        "anthropic-no-forced-choice": OF_OTHERS,
        "anthropic-no-thinking-budget": TAKEN,
        "anthropic-tool-schema-no-root-union": TAKEN,
    },
    "openai-chat": {
        "openai-chat-gpt-6-logprobs-refused": TAKEN,
        "openai-chat-gpt-6-top-logprobs-refused": OF_OTHERS,
        "openai-chat-tool-calls-empty-array": ENDED,
        "openai-chat-at-most-128-tools": ENDED,
        "openai-chat-strict-property-names-refused": OF_OTHERS,
    },
    "openai-responses": {
        "openai-responses-gpt-6-astra-effort-values": ENDED,
        "openai-responses-lookaround-pattern-refused": TAKEN,
        "openai-responses-strict-property-names-refused": OF_OTHERS,
        "openai-responses-strict-additional-properties-in-context": ENDED,
    },
    "gemini-3": {
        "gemini-level-or-budget": OF_OTHERS,
        "gemini-budget-and-level-together-refused": OF_OTHERS,
        "gemini-mixed-tools-refused": TAKEN,
        "gemini-no-minimal-level": TAKEN,
        "gemini-empty-part-in-system-instruction-refused": ENDED,
        "gemini-parameters-additional-properties-refused": OF_OTHERS,
    },
}
"""Changes of mind, by target: facts that ended, turned over, or hold for other models."""


def probed(harness: Command, handle: Callable[[HttpRequest], HttpResponse], target: str, *options: str) -> Outcome:
    """The command, against a server that answers so."""
    with serve() as server:
        url = server.mount(handle) + registry.api(registry.target_named(target).api).base_path
        return harness("probe", "--target", target, "--base-url", f"{target}={url}", *options)


def named(outcome: Outcome, verdict: str) -> set[str]:
    """The facts that the command has this to say about."""
    lines = (line.strip() for line in outcome.out.splitlines())
    return {line.removeprefix(verdict).split(":")[0].strip() for line in lines if line.startswith(f"{verdict} ")}


@pytest.mark.parametrize("target", DRIFT)
def test_a_probe_names_each_change_and_no_other(harness: Command, tmp_path: Path, target: str) -> None:
    api = registry.target_named(target).api
    drift = changed(tmp_path / "drift.yaml", api, DRIFT[target])

    outcome = probed(harness, provider(api, drift), target)

    assert outcome.code == 1
    assert named(outcome, "no longer holds") == set(DRIFT[target])
    assert len(named(outcome, "holds")) >= 4
    assert len(named(outcome, "cannot tell")) <= 2


def test_what_is_written_is_the_change_and_holds_from_today(harness: Command, tmp_path: Path) -> None:
    drift = changed(tmp_path / "drift.yaml", "anthropic", DRIFT["anthropic"])
    file = tmp_path / "proposed.yaml"

    first = probed(harness, provider("anthropic", drift), "anthropic", "--write", str(file))

    assert first.out.splitlines()[-1] == (
        f"The changed facts are in {file}: read them, and use them with --facts {file}."
    )
    written = read_fact_file(file)
    by_id = {fact.id: fact for fact in written.facts}
    assert written.api == "anthropic"
    for name, change in DRIFT["anthropic"].items():
        old = by_id[name]
        assert old.until == today() - dt.timedelta(days=1)
        verdict = "refused" if change is REFUSED else "accepted"
        new = by_id[f"{name}-{verdict}-{today()}"]
        assert (new.verdict, new.since, new.models) == (verdict, today(), ["claude-opus-5-5"])
        assert [(each.kind, each.date) for each in new.evidence] == [("probe", today())]
        assert new.evidence[0].address.startswith("http://127.0.0.1:")
        assert (new.words is not None) is (verdict == "refused")

    again = probed(harness, provider("anthropic", drift), "anthropic", "--facts", str(file))
    assert (again.code, named(again, "no longer holds")) == (0, set())
    taken = "anthropic-response-unique-items-refused"
    assert f"{taken}-accepted-{today()}" in named(again, "holds")
    assert taken not in named(again, "holds")


def test_nothing_is_written_where_nothing_changed(harness: Command, tmp_path: Path) -> None:
    file = tmp_path / "proposed.yaml"
    fact = "anthropic-response-unique-items-refused"
    outcome = probed(harness, provider("anthropic"), "anthropic", "--fact", fact, "--write", str(file))
    assert (outcome.code, file.exists()) == (0, False)
    assert outcome.out.splitlines()[-1] == f"Nothing has changed, so {file} is not written."


FACT = "anthropic-response-unique-items-refused"


class Server:
    """Answers what it was given, the last one again and again, and keeps what it was asked."""

    def __init__(self, *answers: HttpResponse) -> None:
        self.asked: list[HttpRequest] = []
        self._answers = [*answers]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def answered(status: int, body: object, **headers: str) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json", **headers}, json.dumps(body).encode())


def refused(status: int = 400, words: str = "uniqueItems: no", **headers: str) -> HttpResponse:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(status, "invalid_request_error")
    return answered(status, {"type": "error", "error": {"type": kind, "message": words}}, **headers)


OK = answered(
    200,
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
)

HOLDS = (
    f"holds            {FACT}: the request that breaks it is refused, and the same request without the refused part "
    "is accepted"
)
SAYS = "    the fact: The response schema may not use uniqueItems."
NOT_TOLD = f"cannot tell      {FACT}: "


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ([refused(), OK], 0, [HOLDS, "    HTTP 400: uniqueItems: no"]),
        ([OK], 1, [f"no longer holds  {FACT}: the request that breaks it is accepted", SAYS]),
        (
            [refused(), refused(words="no system")],
            2,
            [
                f"{NOT_TOLD}another error came first: the control request is refused, too",
                SAYS,
                "    HTTP 400: no system",
            ],
        ),
        ([refused(401, "bad key")], 2, [f"{NOT_TOLD}the key was refused", SAYS, "    HTTP 401: bad key"]),
        (
            [refused(429, "slow down", **{"retry-after": "0"})],
            2,
            [f"{NOT_TOLD}the rate limit is reached", SAYS, "    HTTP 429: slow down"],
        ),
        (
            [refused(429, "slow down", **{"retry-after": "0"}), refused(), OK],
            0,
            [HOLDS, "    HTTP 400: uniqueItems: no"],
        ),
        ([answered(500, {})], 2, [f"{NOT_TOLD}the server failed", SAYS, "    HTTP 500: {}"]),
        (
            [refused(), answered(500, {})],
            2,
            [f"{NOT_TOLD}the control request has no clear result: the server failed", SAYS, "    HTTP 500: {}"],
        ),
    ],
)
def test_what_is_said_of_a_fact(harness: Command, answers: list[HttpResponse], code: int, said: list[str]) -> None:
    outcome = probed(harness, Server(*answers), "anthropic", "--fact", FACT)

    lines = outcome.out.splitlines()
    assert outcome.code == code
    assert lines[0].startswith("anthropic (claude-opus-5-5) at http://127.0.0.1:")
    assert [lines[1].strip(), *lines[2:-1]] == said


def test_an_answer_that_is_none_of_the_api_s_tells_nothing(harness: Command) -> None:
    outcome = probed(harness, Server(HttpResponse(200, {}, b"<html>Log in</html>")), "anthropic", "--fact", FACT)
    assert outcome.code == 2
    assert f"{NOT_TOLD}its answer cannot be read: " in outcome.out


def test_the_cost_of_a_probe_is_printed_first(harness: Command) -> None:
    server = Server(refused(), OK)
    outcome = probed(harness, server, "anthropic", "--fact", FACT)
    assert outcome.err.startswith("To be sent: at most 2 requests for 1 fact, at ")
    assert outcome.out.splitlines()[-1] == ("1 fact: 1 hold, 0 no longer, 0 unclear. 2 requests sent.")
    bodies = [json.loads(each.body) for each in server.asked]
    assert all("stream" not in body and body["max_tokens"] == 16 for body in bodies)


def test_no_more_is_sent_than_is_allowed(harness: Command) -> None:
    server = Server(refused())
    outcome = probed(harness, server, "anthropic", "--max-requests", "1")
    assert (outcome.code, len(server.asked)) == (2, 1)
    assert outcome.err.startswith("To be sent: at most 1 request for ")
    assert "it was not tested completely: --max-requests is reached" in outcome.out


def test_a_refused_key_is_tried_once(harness: Command) -> None:
    server = Server(refused(401, "bad key"))
    outcome = probed(harness, server, "anthropic")
    assert (outcome.code, len(server.asked)) == (2, 1)
    assert "it was not tested: the key was refused" in outcome.out


def test_a_key_is_sent_and_never_shown(harness: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = "sk-ant-canary-0123456789abcdef"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    server = Server(refused(words=f"you sent {key}"), OK)
    outcome = probed(harness, server, "anthropic", "--fact", FACT)
    assert {each.headers["x-api-key"] for each in server.asked} == {key}
    assert "HTTP 400: you sent " in outcome.out
    assert key not in outcome.out + outcome.err


def test_facts_that_cannot_be_asked_say_why_when_they_are_named(harness: Command) -> None:
    outcome = probed(
        harness,
        Server(OK),
        "anthropic",
        *(
            "--fact",
            "anthropic-required-fields",
            "--fact",
            "anthropic-response-blocks",
            "--fact",
            "anthropic-no-adaptive-thinking",
        ),
    )
    assert outcome.code == 2
    assert "anthropic-required-fields: it has no example of a request" in outcome.out
    assert "anthropic-response-blocks: it is about what answers are like, and no request can ask that" in outcome.out
    assert "anthropic-no-adaptive-thinking: it is not about claude-opus-5-5 at the service 'own' on " in outcome.out


def test_the_facts_of_a_service_are_asked_where_it_is_named(harness: Command) -> None:
    outcome = probed(harness, Server(refused()), "anthropic", "--service", "bedrock", "--max-requests", "400")
    assert any(name.startswith("anthropic-bedrock-") for name in named(outcome, "cannot tell"))
    outcome = probed(harness, Server(refused()), "anthropic", "--service", "bedrok")
    assert "--service: unknown service 'bedrok'. Did you mean 'bedrock'?" in outcome.err


def test_a_server_that_is_down_stops_the_probe(harness: Command) -> None:
    outcome = harness("probe", "--target=anthropic", "--base-url=anthropic=http://127.0.0.1:9", "--fact", FACT)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == (
        "harness: the target 'anthropic' does not reach its API, so the probe was stopped: POST "
        "http://127.0.0.1:9/v1/messages was not answered: [Errno 111] Connection refused. Is the server up? "
        "--base-url anthropic=URL and --model anthropic=NAME name others."
    )
