"""Server check: the first request, the checks, the monitored responses and the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from threading import Lock

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.prices import price_version
from harness.apis.response_rules import RESPONSE_RULES, ResponseRule, Subject
from harness.apis.server import json_response
from harness.apis.view import RequestView, TextView, WireError
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url, origin
from harness.checks.finding_scope import EVERY_FINDING, FindingPolicy
from harness.checks.server_checks import CHECKS
from harness.checks.server_checks.answer_checks import PLAIN
from harness.checks.server_results import CheckAttempt, Price, ResponseMonitor, ServerCellBuilder, run_check, spending
from harness.checks.server_session import (
    BOTH,
    BUSY,
    NoResponse,
    Reply,
    RequestLimitReached,
    RetryingClient,
    ServerCheck,
    ServerUnderTest,
)
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest, Message, Usage
from harness.platform.environment import utc_now
from harness.reference_server.conversation_server import ConversationServer
from harness.results import CellResult, CheckResult, Invocation, Provenance, Rate, RunResult, Spending
from harness.rules.conversation_report import max_conversation_chars
from harness.runner.backends import NO_KEY
from harness.runner.live import url_suggestion
from harness.runner.tool_loop import ADAPTER_EXCEPTIONS
from harness.scenarios.schema import Scenario, TurnSpec, Variant

INTERRUPTED = "interrupted"
"""Value of `RunResult.stopped` if the user interrupted the check."""

_NO_SUCH_PATH = frozenset({404, 405})
_NO_ACCESS = frozenset({401, 402, 403})
_REFUSED = frozenset({400, 422})


_FAILS = f"it was not run, because {PLAIN} is answered with an error"

_VARIANTS: Mapping[Variant, tuple[Variant, ...]] = {"whole": ("whole", "stream"), "stream": ("stream",)}
"""Variants that fail together: if whole answers fail, streams fail too."""

_SIMPLEST_CHECKS = frozenset({PLAIN, "server-call", "server-parallel", "server-error-messages"})
"""Ids of simple checks that together exercise every kind of answer."""


@dataclass(frozen=True, slots=True)
class CheckSelection:
    """Selection of checks, and of response rules, which apply to every response.

    `only` holds the selected ids (`None` means all). The checks run in these `variants`, `repeat` times each.
    """

    only: frozenset[str] | None = None
    variants: tuple[Variant, ...] = ("whole", "stream")
    repeat: int = 1

    def cells(self) -> Iterator[tuple[ServerCheck, Variant]]:
        """Yield the selected checks with their variants, or the simplest checks if only response rules are selected."""
        named = CHECKS.keys() if self.only is None else (CHECKS.keys() & self.only) or _SIMPLEST_CHECKS
        for check in CHECKS.values():
            for variant in check.variants if check.id in named else ():
                if variant in self.variants:
                    yield check, variant

    def response_rules(self) -> Iterator[tuple[ResponseRule, Variant]]:
        """Yield the selected response rules with their variants."""
        for rule in RESPONSE_RULES.values():
            if self.only is None or rule.id in self.only or not CHECKS.keys() & self.only:
                variants: Sequence[Variant] = ("stream",) if rule.subject is Subject.STREAMING else BOTH
                for variant in variants:
                    if variant in self.variants:
                        yield rule, variant


def send_first_request(server: ServerUnderTest, line: RetryingClient) -> ServerUnderTest:
    """Send a first request, and return the server with the token limit field that it accepts.

    Raises:
        UsageError: the server does not answer, has no such path, or refuses the key.
        RequestLimitReached: no request may be sent.
    """
    refused: list[ServerUnderTest] = []
    bounds = dict.fromkeys((server.bound, *server.request_builder.bounds))
    for bound in bounds:
        bounded = replace(server, bound=bound)
        plain = ChatRequest(model=server.model, messages=[Message.user("Hello.")], max_tokens=64)
        request = bounded.request(bounded.body_of(plain), stream=False)
        try:
            response = line(request)
        except NoResponse as reason:
            raise UsageError(
                f"check server {display_url(server.base_url)}: no answer from {display_url(request.url)}: {reason}. Is "
                "the server up?"
            ) from None
        if response.status in _NO_SUCH_PATH or 300 <= response.status < 400:
            raise UsageError(
                f"check server {display_url(server.base_url)}: {request.method} {display_url(request.url)} was "
                f"answered with HTTP {response.status}: {_words(server, response)}. "
                f"Give the base URL as for an SDK{_ending(server)}, and one of the server's models as --model."
                f"{url_suggestion(server.api, server.base_url, request.url)}"
            )
        if response.status in _NO_ACCESS:
            variables = " or ".join(server.api.key_variables)
            raise UsageError(
                f"check server {display_url(server.base_url)}: the key is refused with HTTP {response.status}: "
                f"{_words(server, response)}. {variables} holds the key that is sent."
            )
        if response.status not in _REFUSED:
            return bounded
        refused.append(bounded)
    return refused[0]


def _ending(server: ServerUnderTest) -> str:
    return f", which for {server.api.name} ends in {server.api.base_path}" if server.api.base_path else ""


def _words(server: ServerUnderTest, response: HttpResponse) -> str:
    try:
        error = server.api.read(response).error
    except WireError:
        error = None
    return (error.message if error is not None else "").strip().rstrip(".") or "no reason is given"


@dataclass(slots=True)
class ServerCheckRun:
    """Runs the selected checks of a server and assembles the result."""

    server: ServerUnderTest
    line: RetryingClient
    selection: CheckSelection
    redactor: Redactor
    price: Price | None = None
    command: tuple[str, ...] = ()
    policy: FindingPolicy = EVERY_FINDING
    conversations: bool = False

    def __call__(self, progress: Callable[[CellResult], object] = lambda _cell: None) -> RunResult:
        """Run the checks, and pass each finished cell to the callback.

        Raises:
            UsageError: see `send_first_request`.
        """
        begun, at = time.monotonic(), utc_now()
        cells: list[CellResult] = []
        attempts: list[CheckAttempt] = []
        watching = ResponseMonitor(self.redactor)
        stopped: str | None = None
        failing: dict[Variant, str] = {}
        url = self.server.base_url
        kind = "provider" if self.server.api.is_provider(url) else "server"
        provenance = Provenance(kind, model_requested=self.server.model, recorded_from=origin(url))
        try:
            max_requests = max_conversation_chars(sum(1 for _ in self.selection.cells())) if self.conversations else 0
            judge = ServerCellBuilder(
                send_first_request(self.server, self.line), provenance, self.redactor, self.price, max_requests
            )
            for check, variant in self.selection.cells():
                if variant in failing:
                    cell, done = judge.skipped_cell(check, variant, failing[variant]), ()
                else:
                    cell, done = self._cell(judge, watching, check, variant)
                    if any(self._fails_altogether(watching, check, each) for each in done):
                        failing |= dict.fromkeys(_VARIANTS[variant], _FAILS)
                cells.append(cell)
                attempts += done
                progress(cell)
        except RequestLimitReached:
            stopped = f"--max-requests is reached: {self.line.sent} were sent"
        except KeyboardInterrupt:
            stopped = INTERRUPTED
        cells += watching.cells(self.server, provenance, self.selection.response_rules())
        cells = [self.policy.judge(cell, cell.findings) if cell.findings else cell for cell in cells]
        result = RunResult(
            "live",
            tuple(cells),
            versions={} if self.price is not None else price_version(),
            timing={"seconds": time.monotonic() - begun},
            played_at=at,
            invocation=self._invocation(watching),
            stopped=stopped,
            check=CheckResult(rates=tuple(_rates(self.server.name, attempts))),
            **self.policy.outcome(cells),
        )
        return self.redactor.result(result)

    def _cell(
        self, judge: ServerCellBuilder, watching: ResponseMonitor, check: ServerCheck, variant: Variant
    ) -> tuple[CellResult, Sequence[CheckAttempt]]:
        lack = check.lacks(judge.server)
        if lack is not None:
            return judge.not_applicable(check, variant, lack), ()
        done: list[CheckAttempt] = []
        try:
            done.extend(
                run_check(check, judge.server, self.line, watching, variant) for _ in range(self.selection.repeat)
            )
        except RequestLimitReached:
            raise
        except ADAPTER_EXCEPTIONS as error:  # only this cell fails, not the whole check
            return judge.crashed_cell(check, variant, error), done
        return judge.cell(check, variant, done), done

    def _fails_altogether(self, watching: ResponseMonitor, check: ServerCheck, attempt: CheckAttempt) -> bool:
        """Return whether even the simplest request gets an error, so that all others would fail too.

        If the check for that request is not selected, it runs once after another check got an error.
        """
        if not _is_refused(attempt):
            return False
        if check.id == PLAIN:
            return True
        if self.selection.only is None or PLAIN in self.selection.only:
            return False
        variant: Variant = "stream" if attempt.session.stream else "whole"
        return _is_refused(run_check(CHECKS[PLAIN], self.server, self.line, watching, variant))

    def _invocation(self, watching: ResponseMonitor) -> Invocation:
        """Return the options that repeat a check or reproduce a violation of a response rule."""
        words = {check: f"--only={check}" for check in CHECKS}
        for rule, check in watching.first_seen().items():
            words[rule] = f"--only={rule},{check}"
        return Invocation(rerun=self.command, scenarios=words, targets={self.server.name: ()})


def _is_refused(attempt: CheckAttempt) -> bool:
    """Return whether the only request of a check got an error other than overload."""
    replies = attempt.session.replies
    return (
        bool(attempt.session.failures)
        and len(replies) == 1
        and (replies[0].view is not None and replies[0].view.error is not None)
        and replies[0].response.status not in BUSY
    )


def _rates(target: str, attempts: Sequence[CheckAttempt]) -> Iterator[Rate]:
    tries: dict[str, list[bool]] = {}
    for each in attempts:
        for name, came_out in each.session.tries:
            tries.setdefault(name, []).append(came_out)
    yield from (rate(name, target, every) for name, every in tries.items())


_BYTES_PER_TOKEN = 4

_MODEL = "rehearsal"
"""Model name that the reference server does not know, so that no provider's limits apply."""

_FIRST_REQUEST_USAGE = Usage(20, 20)
"""Approximate usage of the first request."""


def estimate(
    server: ServerUnderTest, selection: CheckSelection, max_requests: int | None, price: Price | None
) -> Spending:
    """Estimate the requests and tokens of the checks by running their scripts. Sends no requests."""
    understudy = ScriptedServer(server.api, _MODEL)
    stand_in = replace(server, model=_MODEL, bound=server.request_builder.bounds[0])
    usages = [_FIRST_REQUEST_USAGE]
    with RetryingClient(server.api, NO_KEY, send=understudy) as line:
        for check, variant in selection.cells():
            if check.lacks(server) is not None:
                continue
            try:
                session = run_check(check, stand_in, line, _unseen, variant).session
            except ADAPTER_EXCEPTIONS:  # the check itself reports it
                continue
            usages += [_usage(reply) for reply in session.replies] * selection.repeat
    sent = usages[:max_requests]
    return spending(sent, len(sent), api=server.api.name, model=server.model, url=server.base_url, price=price)


def _unseen(check: str, reply: Reply, request: RequestView | None) -> None:
    del check, reply, request


def _usage(reply: Reply) -> Usage:
    view = reply.view
    calls = [json.dumps({call.name: call.arguments}) for call in view.calls] if view is not None else []
    text = "".join([view.text if view is not None else "", *calls])
    return Usage(-(-len(reply.request.body) // _BYTES_PER_TOKEN), -(-len(text.encode()) // _BYTES_PER_TOKEN))


_Z = 1.959963984540054
"""Normal quantile of a 95 % confidence interval."""


def rate(name: str, target: str, tries: Iterable[bool]) -> Rate:
    """Return the share of successful tries and its confidence interval, computed by Wilson's method. The interval stays
    between 0 and 1 even for few tries. `tries` must not be empty.
    """
    every = list(tries)
    total, hits = len(every), sum(every)
    share, square = hits / total, _Z * _Z
    centre = (share + square / (2 * total)) / (1 + square / total)
    reach = _Z * sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return Rate(name, target, hits, total, round(max(centre - reach, 0.0), 4), round(min(centre + reach, 1.0), 4))


@dataclass(slots=True)
class _OpenCheck:
    front: ConversationServer
    turns: int
    """Number of turns in the conversation's first request. A request that has no more turns than this starts a new
    conversation.
    """


class ScriptedServer:
    """A request handler that recognises a check by its prompt and answers with the check's script. `models` are the
    known model names."""

    def __init__(self, api: Api, *models: str) -> None:
        self._api = api
        self._models = frozenset(model.removeprefix("models/") for model in models)
        self._begun = 0
        self._open: dict[tuple[str, bool], _OpenCheck] = {}
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to one request as the provider would."""
        with self._lock:
            return self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponse:
        try:
            view = self._api.view(request)
        except WireError:
            return self._front(next(iter(CHECKS.values()))).serve(request).response
        check = _check_for(view)
        key = (check.id, view.stream)
        known = self._open.get(key)
        if known is None or len(view.turns) <= known.turns:
            known = self._open[key] = _OpenCheck(self._front(check), len(view.turns))
        return known.front.serve(request).response

    def _front(self, check: ServerCheck) -> ConversationServer:
        self._begun += 1
        scenario = Scenario(
            version=1,
            id=check.id,
            title=check.requirement,
            covers=[check.subject],
            history=[*check.history],
            turns=[TurnSpec(user=check.prompt, model=[*check.script])],
        )
        return ConversationServer(scenario, self._api, str(self._begun), known=self._is_known)

    def _is_known(self, model: str) -> bool:
        return model.removeprefix("models/") in self._models


class ScriptedServers:
    """Scripted servers of all APIs, selected by path."""

    def __init__(self, *models: str) -> None:
        self._players = [
            (api, ScriptedServer(api, *models)) for api in registry.apis() if api.request_builder is not None
        ]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer one request as the provider would, or with HTTP 404 if the path belongs to no API."""
        for api, player in self._players:
            if api.recognises(replace(request, body=api.least_body)):
                return player(request)
        return json_response({"error": {"type": "harness", "message": "harness: no API has this path"}}, 404)


def _check_for(view: RequestView) -> ServerCheck:
    """Return the check that a conversation belongs to, by default the first one."""
    messages = {
        part.text for turn in view.turns if turn.role == "user" for part in turn.parts if isinstance(part, TextView)
    }
    every = list(CHECKS.values())
    return next((check for check in every if check.prompt in messages), every[0])
