"""Contents of a reproduction: calls that show a finding, and what a script can check."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from types import ModuleType
from typing import Any, Literal

from harness import bridge
from harness.apis.fact import Fact
from harness.apis.jsonvalue import as_list, as_object, join, keys, loads, parse_body, resolve
from harness.apis.view import ResponseView, WireError
from harness.bridge.call_log import LoggedCall
from harness.bridge.completions import stop_reason, stop_words
from harness.model.http import HttpResponse
from harness.model.messages import JSON, ChatResponse, StopReason
from harness.platform.exceptions import shorten
from harness.results import Finding, Severity
from harness.rules.chat_endings import meant_status
from harness.rules.evidence import ParsedExchange
from harness.runner.excerpts import is_about_response

_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id"})
"""Response headers that clients read."""

_USAGE = {"input": "read", "output": "written", "cache_read": "cached", "reasoning": "reasoned"}
"""Start of the message of a finding about usage → name of the token count in what a script reads."""

_MAX_TITLE = 160


@dataclass(frozen=True, slots=True)
class ScriptClaim:
    """A condition that a script checks. It fails as long as the fault exists.

    - `sent`: the value at `path` of the request is the right `value`. If `is_right` is not set, `value` is wrong, and
      the request must have another one.
    - `has`: the request contains the text `value`, or contains it `twice`, as the id of a call and of its result.
      `shown`: what the library returned contains it.
    - `error`, `no error`: the library raises an exception, or raises none.
    - `status`: the exception has this status.
    - `runs`: the tools ran with these names and arguments.
    - `calls`, `whole calls`, `text`, `usage`: the library returns this. Whole calls are those whose arguments are a
      JSON object.
    - `reason`: the stop reason is one of these words.
    - `other`: the result is not `value`, apart from numbers, or the library raises an exception.
    - `unchanged`: the value at `path` of the last request is that of the request before.
    - `answered`: the value at `path` of a gateway's answer is `value`. `contains`: its answer or error contains this
      text. `header`: its error has this header.
    - `requests`: more requests than `value` are sent. `once`: no request is sent twice.
    """

    subject: Literal[
        "sent",
        "has",
        "twice",
        "shown",
        "error",
        "no error",
        "status",
        "runs",
        "calls",
        "whole calls",
        "text",
        "usage",
        "reason",
        "other",
        "unchanged",
        "answered",
        "contains",
        "header",
        "requests",
        "once",
    ]
    value: JSON = None
    is_right: bool = True
    path: tuple[str | int, ...] = ()

    @property
    def reads(self) -> bool:
        """Return whether the claim is about what the library returned."""
        return self.subject in ("calls", "whole calls", "text", "usage", "reason")


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """A program that a script runs: its shell command, the lines of its standard input, and its environment variables
    for base URLs and keys. `{url}` in a variable is replaced by the address of the script's server.
    """

    command: str
    lines: Sequence[str]
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScriptGateway:
    """A gateway that a script sends requests to. The script's server answers at `port`, in place of its provider.

    `base_path` is the end of the provider's base URL. `url` and `bodies` are those of the client's requests. `headers`
    are lines in which an environment variable may stand for a value, as in a shell.
    """

    port: int
    base_path: str
    url: str
    headers: Sequence[str]
    bodies: Sequence[JSON]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Contents of a reproduction.

    `subject` names the library or client, and `module` is its wrapper. `packages` are the distributions to install, and
    `versions` those that are installed. `calls` are the calls that the wrapper made, up to the fault. `results` are the
    results of a loop's tools, by name. `redirects` are the HTTP clients that a client without a base URL may use.
    `keys` are the environment variables that may hold its key. `is_mended` returns whether the finding disappears if
    the wrong request has this body instead. `response` is what the adapter returned for the answer with the fault.
    `conversation` is the scenario as JSON.

    `owns_loop` is set if the library runs its own loop, and `is_agent` if it is an agent that harness recognises.
    `fact` is the provider's rule that a request breaks, if there is one. `program` is set if the script runs a program,
    and `gateway` if it sends requests to a gateway. `own_claims` are set for these, and for code that is called once:
    what a script may check, the best first.
    """

    subject: str
    module: ModuleType | None
    packages: Sequence[str]
    versions: Mapping[str, str]
    origin: str
    base_path: str
    finding: Finding
    parsed_exchanges: Sequence[ParsedExchange]
    calls: Sequence[LoggedCall]
    results: Mapping[str, Sequence[object]]
    owns_loop: bool
    fact: Fact | None
    remedy: str
    today: str
    redirects: Sequence[str] = ()
    keys: Sequence[str] = ()
    is_mended: Callable[[JSON], bool] = lambda _: True
    response: ChatResponse | None = None
    conversation: JSON = None
    is_agent: bool = False
    program: ScriptProgram | None = None
    gateway: ScriptGateway | None = None
    own_claims: Sequence[ScriptClaim] = ()

    @property
    def title(self) -> str:
        """The finding in one line, worded for the maintainers of the library."""
        view = None if self.parsed is None else self.parsed.response
        if self.finding.rule == "stop-reason" and view is not None and view.stop_reason is StopReason.REFUSAL:
            return "the model refuses, and the library reports a normal answer"
        if self.finding.rule == "stream-recut":
            way = re.search(r"another form \((.*?)\)(?:, as \d+ of \d+ forms do)?\. It differs", self.finding.message)
            return f"the result depends on the chunks of the stream{f' ({way[1]})' if way else ''}"
        if self.finding.rule in _TITLES:
            return _TITLES[self.finding.rule]
        right, wrong = self.finding.expected, self.finding.actual
        is_lost = self.finding.rule == "response-calls" and len(as_list(right)) != len(as_list(wrong))
        if is_lost and isinstance(right, list) and isinstance(wrong, list):
            names = [", ".join(map(str, each)) or "none" for each in (right, wrong)]
            return f"the answer has the calls {names[0]}, but the library returns {names[1]}"
        error = None if view is None else view.error
        if error is not None and error.message == self.finding.message and is_about_request(self.finding):
            return f"the provider refuses the request with HTTP {error.status}: {error.message}"
        text = re.sub(r", called in [^()]*| \(response body\)| \(as \w+\)", "", " ".join(self.finding.message.split()))
        return text.replace("the adapter", "the library")

    def returned_values(self) -> tuple[object, object] | None:
        """Return what the call with the fault returned, and the completion that its wrapper reads from it. Return
        `None` if the value is unknown.
        """
        call = self.calls[self.target_call()]
        own_pieces = call.pieces if call.pieces and not any(map(_is_chunk, call.pieces)) else None
        final, _ = call.final_answer or (None, "")
        known = (call.joined, final, own_pieces, call.awaited, call.result)
        value = next((each for each in known if each is not None), None)
        if value is None or (value is call.result and (call.is_stream or call.is_awaited)):
            return None
        own, given = getattr(self.module, "openai_form", None), self.response
        if self.is_agent and given is None:  # it may return anything, such as a text
            return None
        names = [*dir(value), *getattr(value, "keys", tuple[str, ...])()]
        if own is not None or given is None or "choices" in names:
            return value, value if own is None else own(value)
        calls = [{"name": each.name, "args": dict(each.arguments)} for each in given.tool_calls]
        read, written = given.usage.input_tokens, given.usage.output_tokens
        reason = given.raw_stop_reason
        return value, bridge.completion(given.text, calls, reason=reason, read=read, written=written)

    @property
    def _last(self) -> int:
        """Index of the last exchange that the script needs."""
        at = self.finding.exchange
        return len(self.parsed_exchanges) if at is None or self.owns_loop else at

    def target_call(self) -> int:
        """Return the index of the call with the fault."""
        at = self.finding.exchange
        before = [place for place, each in enumerate(self.calls) if at is None or each.before <= at]
        return before[-1] if before else len(self.calls) - 1

    def answers(self, first: int) -> list[tuple[int, dict[str, JSON], str | list[str]]]:
        """Return status, headers and body of each answer that the script's server sends, beginning with the exchange
        `first`. A body that arrives in several chunks is a list of them.
        """
        used = self.parsed_exchanges[first : self._last + 1] or self.parsed_exchanges[-1:]
        found = [_answer(each.exchange.response) for each in used if each.exchange.response is not None]
        return found or [(500, {"content-type": "application/json"}, "{}")]

    @property
    def parsed(self) -> ParsedExchange | None:
        """The exchange that the finding is about."""
        at = self.finding.exchange
        return self.parsed_exchanges[at] if at is not None and at < len(self.parsed_exchanges) else None

    def claims(self) -> Iterator[ScriptClaim]:
        """Yield what a script may check to show the finding, the best first."""
        parsed, finding = self.parsed, self.finding
        if self.own_claims or self.gateway is not None:
            yield from self.own_claims
            return
        if finding.rule.startswith("tool-run"):
            calls = [call for each in self.parsed_exchanges if each.response for call in each.response.calls]
            yield ScriptClaim("runs", [[each.name, each.arguments] for each in calls])
        if parsed is not None and is_about_request(finding):
            yield from self._of_request(parsed)
            return
        view = None if parsed is None else parsed.response
        status = None if view is None or view.error is None else meant_status(view.error)
        if status is not None:
            yield ScriptClaim("status", status)
        if finding.rule in ("chat-failure", "stream-cut", "loop-failed"):
            if finding.expected in (None, "a response"):  # else a correct client raises another exception
                yield ScriptClaim("no error")
            yield ScriptClaim("error")
        elif finding.rule == "stream-recut" and self.response is None:
            yield ScriptClaim("no error")
        elif view is not None:
            yield from self._of_answer(view)

    def says(self, claim: ScriptClaim) -> str:
        """Return the message of the assertion that checks a claim."""
        right = {"error": " (an exception is right)", "status": f" (right is the status {claim.value})"}
        title = self.title if len(self.title) <= _MAX_TITLE else self.title.partition(": ")[0]
        return f"{shorten(title, _MAX_TITLE)}{right.get(claim.subject, '')}"

    def _of_request(self, parsed: ParsedExchange) -> Iterator[ScriptClaim]:
        body, finding = loads(parsed.exchange.request.body), self.finding
        right = _right_request(finding)
        call_id = finding.expected if finding.rule == "result-missing" else resolve(body, finding.pointer or "")
        if self.owns_loop and finding.rule in ("result-missing", "result-duplicate") and isinstance(call_id, str):
            yield ScriptClaim("twice", call_id)
        lost = self.lost_state or self.lost_text
        if lost is not None:
            yield ScriptClaim("has", lost)
        lacking = (at for at, each in differences(body, right) if self.is_mended(put(body, at, each)))
        for pointer in chain(filter(None, [finding.pointer]), islice(lacking, 1)):
            wrong, actual = resolve(body, pointer), finding.actual
            places = [(pointer, wrong)]
            if isinstance(actual, dict | list) and (inner := _inside(wrong, actual)):
                places.append((pointer + inner, actual))
            for place, value in places:
                yield from claims_of_place(finding, place, value, right)

    @property
    def lost_text(self) -> str | None:
        """The text of the conversation that the wrong request lacks, or `None`. A finding may show it with its role
        before it, which is not sent.
        """
        parsed, finding = self.parsed, self.finding
        if parsed is None or finding.pointer or not isinstance(finding.expected, str):
            return None
        right = _right_request(finding)
        sent = _to_json(loads(parsed.exchange.request.body))
        before = self.parsed_exchanges[: finding.exchange]
        earlier = [loads(each.exchange.request.body) for each in before]
        earlier += [each.response.text for each in before if each.response is not None]
        known = _to_json([self.conversation, *earlier] if right is None else right)
        texts = [finding.expected, finding.expected.partition(": ")[2]]
        return next(
            (each for each in texts if _to_json(each)[1:-1] in known and _to_json(each)[1:-1] not in sent), None
        )

    @property
    def lost_state(self) -> str | None:
        """The longest text of an answer's opaque state that the wrong request lacks, such as a signature, or `None`."""
        parsed, finding = self.parsed, self.finding
        if parsed is None or finding.rule != "opaque-state-lost":
            return None
        sent = _to_json(loads(parsed.exchange.request.body))
        texts = sorted(_texts_in(finding.expected), key=len, reverse=True)
        return next((each for each in texts if _to_json(each) not in sent), None)

    def _of_answer(self, view: ResponseView) -> Iterator[ScriptClaim]:
        rule = self.finding.rule
        calls: list[JSON] = [[each.name, each.arguments] for each in view.calls if each.malformed is None]
        raw = (view.raw_stop_reason or "").lower()
        own = [raw] if stop_reason(raw) in (view.stop_reason, StopReason.UNKNOWN) else []
        if rule in ("stop-reason", "response-refusal") and view.refusal:
            yield ScriptClaim("shown", view.refusal)
        count = next((name for start, name in _USAGE.items() if self.finding.message.startswith(start)), None)
        is_cut = any(each.malformed is not None for each in view.calls)
        every = {
            "usage": ScriptClaim("usage", self.finding.expected, path=(count,)) if count else None,
            "truncated-call": ScriptClaim("whole calls", calls) if is_cut else None,
            "response-calls": ScriptClaim("calls", calls),
            "response-text": ScriptClaim("text", view.text),
            "stop-reason": ScriptClaim("reason", [*dict.fromkeys([*own, *stop_words(view.stop_reason)])]),
        }
        yield from filter(None, [every[rule]] if rule in every else every.values())


def _is_chunk(piece: object) -> bool:
    """Return whether a piece of a stream is a chunk of the API, not an object of the client."""
    return "choices" in (piece if isinstance(piece, dict) else dir(piece))


_TITLES = {
    "truncated-call": "the arguments of a call are cut short, but the library returns the call as a complete one",
    "library-empty-arguments": "the arguments of a call without arguments are an empty text, which is not JSON",
}
"""Rule → the finding in the words of a library's maintainers."""


def _answer(response: HttpResponse) -> tuple[int, dict[str, JSON], str | list[str]]:
    headers: dict[str, JSON] = {name: value for name, value in response.headers.items() if name in _HEADERS}
    if response.delivery.ending != "complete":
        headers["content-length"] = str(len(response.body) + 100)
    places = (0, *response.delivery.cuts, len(response.body))
    chunks = [response.body[start:end].decode("utf-8", "surrogateescape") for start, end in pairwise(places)]
    return response.status, headers, chunks if len(chunks) > 1 else chunks[0]


def worst_findings(findings: Sequence[Finding], rules: Sequence[str] | None) -> list[Finding]:
    """Return the findings that make a cell fail, or else its warnings, without those that follow from others. With
    `rules`, consider only findings of these rules.
    """
    own = [each for each in findings if each.rule in (rules or [each.rule]) and each.accepted is None]
    found = [each for each in own if each.fails] or [each for each in own if each.severity is Severity.WARNING]
    return [each for each in found if each.follows is None] or found


def is_about_request(finding: Finding) -> bool:
    """Return whether a finding is about a request, not a response."""
    return finding.exchange is not None and not is_about_response(finding)


def _right_request(finding: Finding) -> JSON:
    """Return the request of the shipped adapter that a finding shows, or `None`. Its other exhibits are not JSON."""
    for each in finding.exhibits:
        with contextlib.suppress(WireError):
            return parse_body(each.text.encode())
    return None


def differences(wrong: JSON, right: JSON, pointer: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield the pointer and the right value of each place where a wrong request differs from a right one or lacks the
    value. An object that differs follows its members.
    """
    pairs: Iterable[tuple[str | int, JSON]] = ()
    if isinstance(right, dict) and isinstance(wrong, dict):
        pairs = right.items()
    elif isinstance(right, list) and isinstance(wrong, list):
        pairs = enumerate(right)
    elif wrong != right and pointer:
        yield pointer, right
    for key, each in pairs:
        place = join(pointer, key)
        if key >= len(as_list(wrong)) if isinstance(key, int) else key not in as_object(wrong):
            yield place, each
        else:
            yield from differences(resolve(wrong, join("", key)), each, place)
    if isinstance(right, dict) and pointer and isinstance(wrong, dict) and wrong != right:
        yield pointer, right


def _texts_in(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in as_object(value).values() if isinstance(value, dict) else as_list(value):
        yield from _texts_in(each)


def put(body: JSON, pointer: str, value: JSON) -> JSON:
    """Return a copy of a request with a value at a pointer."""
    copied = loads(json.dumps(body).encode())
    *above, last = keys(pointer)
    inner: Any = resolve(copied, join("", *above))
    if isinstance(inner, dict):
        inner[last] = value
    elif int(last) < len(inner):
        inner[int(last)] = value
    else:
        inner.append(value)
    return copied


def _inside(value: JSON, wanted: JSON) -> str:
    """Return the pointer to a value inside another, or an empty string."""
    members = as_object(value).items() if isinstance(value, dict) else enumerate(as_list(value))
    for key, each in members:
        if each == wanted:
            return join("", key)
        if isinstance(each, dict | list) and (inner := _inside(each, wanted)):
            return join("", key) + inner
    return ""


def claims_of_place(finding: Finding, place: str, wrong: JSON, right_request: JSON) -> Iterator[ScriptClaim]:
    """Yield the claim about the value at a place of a request, if there is one that a correct request meets."""
    steps = steps_of(place)
    known = resolve(right_request, place) if right_request is not None else None
    right = known if finding.rule == "tool-choice" else _right_value(finding, wrong)
    if right is not None and (right_request is None or right == known):
        yield ScriptClaim("sent", right, path=steps)
    elif right_request is None or wrong != known:
        yield ScriptClaim("sent", wrong, is_right=False, path=steps)


def steps_of(pointer: str) -> tuple[str | int, ...]:
    """Return the keys and indices of a pointer."""
    return tuple(int(each) if each.isdigit() else each for each in keys(pointer))


def _right_value(finding: Finding, value: JSON) -> JSON:
    """Return the right value for the place of a wrong one. Return `None` if the finding does not contain it, but only
    describes it in words, or if other texts mean the same.
    """
    expected = finding.expected
    if finding.actual != value or expected is None:
        return None
    if isinstance(expected, list) and len(expected) == 1 and not isinstance(value, list):
        expected = expected[0]
    is_free = isinstance(expected, str) and (" " in expected or expected.startswith(("{", "[")))
    return expected if type(expected) is type(value) and not is_free else None


def _to_json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)
