"""Files that reproduce a finding: a Python script that needs no harness, and an issue for the library's tracker."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

from harness import bridge
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.jsonvalue import as_list, as_object, join, keys, loads, parse_body, resolve
from harness.apis.view import ResponseView, WireError
from harness.bridge.call_log import LoggedCall
from harness.bridge.completions import stop_reason, stop_words
from harness.checks.script_code import ScriptCode, body_code, reader, wrapper_source
from harness.model.http import HttpResponse
from harness.model.messages import JSON, ChatResponse, StopReason
from harness.platform.exceptions import shorten
from harness.reports.words import sentence
from harness.results import Finding
from harness.rules.chat_endings import meant_status
from harness.rules.evidence import ParsedExchange
from harness.runner.excerpts import is_about_response

_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id"})
"""Response headers that clients read."""

_KEY_HEADERS = {"anthropic": "x-api-key: ", "gemini": "x-goog-api-key: "}
"""API → header of the key, for APIs that do not take `authorization: Bearer`."""


_USAGE = {"input": "read", "output": "written", "cache_read": "cached", "reasoning": "reasoned"}
"""Beginning of a finding's count → its name in what a script reads."""

_PRINTED = ("raised: ", "sent: ", "returned: ", "got: ", "AssertionError: ")
"""Beginnings of the lines that a script prints itself."""

_MAX_CHARACTERS = 300
_FIRST_ERROR = 400
"""First HTTP status of an error."""

_MAX_LINE, _MAX_ANSWER_LINE, _MAX_TITLE = 120, 200, 160


@dataclass(frozen=True, slots=True)
class ScriptClaim:
    """A condition that a script checks, and that does not hold while the fault exists.

    - `sent`: the value at `path` of the request is `value` or, if `is_right` is not set, is not.
    - `has`: the request contains the text `value`. `shown`: what the library returned contains it.
    - `error`, `no error`: the library raises, or does not.
    - `status`: the exception has this status.
    - `runs`: the tools ran with these names and arguments.
    - `calls`, `whole calls`, `text`, `usage`: the library returns this. Calls that are whole have parsed arguments.
    - `reason`: the stop reason is one of these words.
    """

    subject: Literal[
        "sent", "has", "shown", "error", "no error", "status", "runs", "calls", "whole calls", "text", "usage", "reason"
    ]
    value: JSON = None
    is_right: bool = True
    path: tuple[str | int, ...] = ()

    @property
    def reads(self) -> bool:
        """Return whether the claim is about what the library returned."""
        return self.subject in ("calls", "whole calls", "text", "usage", "reason")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Contents of a reproduction.

    `subject` names the library or client, and `module` is its wrapper. `packages` are the distributions to install, and
    `versions` those that are installed. `calls` are the calls that the wrapper made, up to the fault. `results` are the
    results of a loop's tools, by name. `redirects` are the HTTP clients that a client without a base URL may use.
    `keys` are the environment variables that may hold its key. `is_mended` returns whether another body of the wrong
    request mends the fault. `response` is what the adapter returned for the answer with the fault.

    `owns_loop` is set if the library runs its own loop. `fact` is the provider's rule that a request breaks, if there
    is one.
    """

    subject: str
    module: ModuleType | None
    packages: Sequence[str]
    versions: Mapping[str, str]
    origin: str
    base_path: str
    finding: Finding
    readings: Sequence[ParsedExchange]
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

    @property
    def title(self) -> str:
        """The finding in one line, worded for the maintainers of the library."""
        view = None if self.reading is None else self.reading.response
        if self.finding.rule == "stop-reason" and view is not None and view.stop_reason is StopReason.REFUSAL:
            return "the model refuses, and the library reports a normal answer"
        if self.finding.rule in _TITLES:
            return _TITLES[self.finding.rule]
        right, wrong = self.finding.expected, self.finding.actual
        is_lost = self.finding.rule == "response-calls" and len(as_list(right)) != len(as_list(wrong))
        if is_lost and isinstance(right, list) and isinstance(wrong, list):
            names = [", ".join(map(str, each)) or "none" for each in (right, wrong)]
            return f"the answer has the calls {names[0]}, and the library returns {names[1]}"
        error = None if view is None else view.error
        if error is not None and error.message == self.finding.message and _is_about_request(self.finding):
            return f"the provider refuses the request with HTTP {error.status}: {error.message}"
        text = re.sub(r", called in [^()]*| \(response body\)", "", " ".join(self.finding.message.split()))
        return text.replace("the adapter", "the library")

    def scripts(self, file: str) -> Iterator[str]:
        """Yield scripts that may show the fault, the best one first.

        Raises:
            CannotWrite: an argument of a call has no form in Python code.
        """
        for claim in self.claims():
            for redirect in self.redirects or [None]:
                for is_short in (True, False):
                    yield self._script(file, claim, redirect, is_short=is_short)

    def _script(self, file: str, claim: ScriptClaim, redirect: str | None, *, is_short: bool) -> str:
        """Return a script. A short one catches no exception that it need not check, and has answers without fields that
        clients ignore.
        """
        code = ScriptCode(self.module, {self.origin + self.base_path: "endpoint.base_url"}, self.results)
        statements, first = self._statements(code)
        returned = reader(claim, self._returned_values()) if claim.reads and is_short else None
        read = self._reader(code) if claim.reads and returned is None else ""
        end = self._end(claim, returned or _READERS.get(claim.subject, ""))
        imports, definitions = wrapper_source(self.module, code.roots) if self.module else ([], [])
        may_raise = claim.subject in ("error", "no error", "status")
        lean = is_short and claim.subject not in ("no error", "status")  # an exception must not be the short answer's
        given = self.answers(first)
        answers = [(*each[:2], body_code(each[2], is_short=lean)) for each in given]
        answer_text = ScriptCode(None, {}, width=_MAX_ANSWER_LINE).code(answers)
        source = "\n\n\n".join(definitions).replace("bridge.completion(", "seen(")
        text = "\n".join([source, read, *statements, end])
        helpers = self._helpers(f"{text}\n{answer_text}")
        events = [each for each in helpers if each.endswith("events")]
        own = [each for each in helpers if each not in events]
        imported = [] if redirect is None else [f"import {redirect}", *_REDIRECTIONS[redirect][0]]
        keys = [] if "api_key" in text else [f'os.environ["{each}"] = "none"' for each in self.keys]
        moved: Sequence[str] = [] if redirect is None else _REDIRECTIONS[redirect][1]
        endpoint = _ENDPOINT.format(base_path=self.base_path) if "endpoint" in text else ""
        defined = [_HELPERS[each] for each in helpers]
        written = "\n".join([text, answer_text, _SERVER, _START, endpoint, *keys, *moved, *defined])
        lines = _sorted_imports(imports, [*code.imports, *_IMPORTS, *imported], written)
        catches = may_raise or (not claim.reads and (not is_short or given[-1][0] >= _FIRST_ERROR))
        parts = [
            self._head(file),
            "\n".join([*lines[: lines.index("")], *(["", *keys] if keys else []), *lines[lines.index("") :]]),
            *(_HELPERS[each] for each in events),
            f"ANSWERS = {answer_text}\nreceived = []",
            _SERVER,
            *(_HELPERS[each] for each in own),
            source,
            read,
            _START,
            endpoint,
            *moved,
            "\n".join(statements[:-1]),
            _caught(statements[-1]) if catches else statements[-1],
            "received[0]  # one has arrived" if redirect is not None and may_raise else "",
            end,
        ]
        return _join_spaced(each.strip("\n") for each in parts if each.strip())

    def _head(self, file: str) -> str:
        title = shorten(f"{self.subject}: {self.title}".replace("\\", "\\\\").replace('"""', "'''"), 200)
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        where = f"Run it where only the library is installed:\n\n    pip install {' '.join(map(repr, self.packages))}\n"
        own = "Run it in the folder of the client:\n\n"
        run = f"{where if self.packages else own}    python {file}"
        return _HEAD.format(title="\n".join(textwrap.wrap(title, 116)), versions=versions, today=self.today, run=run)

    def _returned_values(self) -> tuple[object, object] | None:
        """Return what the call with the fault returned, and the completion that its wrapper reads from it."""
        call = self.calls[self._target()]
        value = next((each for each in (call.joined, call.awaited, call.result) if each is not None), None)
        if value is None or (call.is_stream and call.joined is None) or (call.is_awaited and call.awaited is None):
            return None
        own, given = getattr(self.module, "openai_form", None), self.response
        if own is not None or given is None or self.module is not None:
            return value, value if own is None else own(value)
        calls = [{"name": each.name, "args": dict(each.arguments)} for each in given.tool_calls]
        read, written = given.usage.input_tokens, given.usage.output_tokens
        reason = given.raw_stop_reason
        return value, bridge.completion(given.text, calls, reason=reason, read=read, written=written)

    # --- calls ---

    @property
    def _last(self) -> int:
        """Index of the last exchange that the script needs."""
        at = self.finding.exchange
        return len(self.readings) if at is None or self.owns_loop else at

    def _target(self) -> int:
        """Return the index of the call with the fault."""
        at = self.finding.exchange
        before = [place for place, each in enumerate(self.calls) if at is None or each.before <= at]
        return before[-1] if before else len(self.calls) - 1

    def _statements(self, code: ScriptCode) -> tuple[list[str], int]:
        """Return the statements that make the call with the fault, and the index of the first exchange they need."""
        target = self._target()
        made = list[tuple[str, str, int]]()
        followed = [one.before == other.before for one, other in pairwise(self.calls[: target + 1])]
        for place, each in enumerate(self.calls[: target + 1]):
            if place < target and followed[place]:  # the next call uses the result of this one
                name = f"part_{place + 1}" if place + 1 < target and followed[place + 1] else "client"
            else:
                name = "answer" if place == target else f"answer_{each.before + 1}"
            text = code.call(each.function, each.args, each.kwargs)
            if each.is_awaited:
                text = f"asyncio.run({text})"
            if each.is_stream:
                text = f"[*{text}]"
                text = f"{code.function(each.join)}({text})" if each.join is not None else text
            made.append((name, f"{name} = {text}", each.before))
            code.names.append((each.result if each.joined is None else each.joined, name))
        used, kept = made[-1][1], [made[-1]]
        for name, text, before in reversed(made[:-1]):
            if re.search(rf"\b{name}\b", used):
                used += text
                kept.insert(0, (name, text, before))
        texts = _with_shared([text for _, text, _ in kept], self.calls[target].kwargs, code)
        first = min((before for name, _, before in kept if name.startswith("answer")), default=0)
        skipped = {before for _, _, before in made} - {before for _, _, before in kept}
        return texts, first if not any(each > first for each in skipped) else 0

    def answers(self, first: int) -> list[tuple[int, dict[str, JSON], str]]:
        """Return status, headers and body of the answers that a script gives, from the exchange `first` on."""
        used = self.readings[first : self._last + 1] or self.readings[-1:]
        found = [_answer(each.exchange.response) for each in used if each.exchange.response is not None]
        return found or [(500, {"content-type": "application/json"}, "{}")]

    def _reader(self, code: ScriptCode) -> str:
        """Return the function `read` of a script: what the library returned, as a dictionary."""
        own = getattr(self.module, "openai_form", None)
        if own is not None:
            return f"read = {code.function(own)}"
        call = self.calls[self._target()]
        return _READ_STREAM if call.is_stream and call.join is None else _READ

    def _helpers(self, text: str) -> list[str]:
        """Return the names of functions that a script uses and has to define itself."""
        used = [name for name in _HELPERS if re.search(rf"\b{name}\(", text)]
        return ["ToolFailed", *used] if "scripted_tool" in used and "ToolFailed" not in used else used

    def _end(self, claim: ScriptClaim, returned: str) -> str:
        """Return the end of a script, which checks a claim. `returned` is the code of what the library returned."""
        value = ScriptCode(None, {}).code(claim.value if claim.subject == "sent" else _tuples(claim.value))
        at = (self.finding.exchange or 0) if self.owns_loop else -1
        says = repr(self.says(claim))
        if claim.subject == "has":
            sent = f"sent = json.dumps(received[{at}], ensure_ascii=False)\nprint('sent:', sent)"
            text = json.dumps(claim.value, ensure_ascii=False)[1:-1]
            return _assertion(sent, f"{text!r} in sent", says)
        if claim.subject == "shown":
            return _assertion("print('returned:', answer)", f"{value} in str(answer)", says)
        if claim.subject == "no error" and not self.readings:  # with the fault, nothing is sent
            return f"assert received, {says}"
        if claim.subject in ("error", "no error"):
            return f"assert error is {'None' if claim.subject == 'no error' else 'not None'}, {says}"
        sent = f"at(received[{at}], {', '.join(map(repr, claim.path))})"
        code = {"sent": sent, "status": "status_of(error)", "runs": "runs"}.get(claim.subject) or returned
        if "{count}" in code:
            code = code.format(count=repr(next(iter(claim.path), None)))
        name = "returned" if claim.reads else "got" if claim.subject == "status" else "sent"
        right = f"{name} {'==' if claim.is_right else '!='} {value}"
        if claim.subject == "reason":
            right = f"str({name}).lower() in {value}"
        shown = f"repr({name})" if claim.subject == "text" else name
        return _assertion(f"{name} = {code}\nprint('{name}:', {shown})", right, says)

    # --- assertions ---

    @property
    def reading(self) -> ParsedExchange | None:
        """The exchange that the finding is about."""
        at = self.finding.exchange
        return self.readings[at] if at is not None and at < len(self.readings) else None

    def claims(self) -> Iterator[ScriptClaim]:
        """Yield what a script may check to show the finding, the best first."""
        reading, finding = self.reading, self.finding
        if finding.rule.startswith("tool-run"):
            calls = [call for each in self.readings if each.response for call in each.response.calls]
            yield ScriptClaim("runs", [[each.name, each.arguments] for each in calls])
        if reading is not None and _is_about_request(finding):
            yield from self._of_request(reading)
            return
        view = None if reading is None else reading.response
        status = None if view is None or view.error is None else meant_status(view.error)
        if status is not None:
            yield ScriptClaim("status", status)
        if finding.rule in ("chat-failure", "stream-cut", "loop-failed"):
            yield ScriptClaim("no error")
            yield ScriptClaim("error")
        elif view is not None:
            yield from self._of_answer(view)

    def says(self, claim: ScriptClaim) -> str:
        """Return the message of an assertion."""
        right = {"error": " (an exception is right)", "status": f" (right is the status {claim.value})"}
        title = self.title if len(self.title) <= _MAX_TITLE else self.title.partition(": ")[0]
        return f"{shorten(title, _MAX_TITLE)}{right.get(claim.subject, '')}"

    def _of_request(self, reading: ParsedExchange) -> Iterator[ScriptClaim]:
        body, finding = loads(reading.exchange.request.body), self.finding
        is_text = isinstance(finding.expected, str) and " " in finding.expected
        if is_text and not finding.pointer and finding.actual is None:
            yield ScriptClaim("has", finding.expected)
        lacking = _differences(body, _right_request(finding))
        pointer = finding.pointer or next((at for at, each in lacking if self.is_mended(_put(body, at, each))), None)
        if pointer is None:
            return
        wrong, actual = resolve(body, pointer), finding.actual
        places = [(pointer, wrong)]
        if isinstance(actual, dict | list) and (inner := _inside(wrong, actual)):
            places.append((pointer + inner, actual))
        for place, value in places:
            right = _right_value(finding, value)
            steps = tuple(int(each) if each.isdigit() else each for each in keys(place))
            yield ScriptClaim("sent", value if right is None else right, is_right=right is not None, path=steps)

    def _of_answer(self, view: ResponseView) -> Iterator[ScriptClaim]:
        rule = self.finding.rule
        calls: list[JSON] = [[each.name, each.arguments] for each in view.calls if each.malformed is None]
        raw = (view.raw_stop_reason or "").lower()
        own = [raw] if stop_reason(raw) in (view.stop_reason, StopReason.UNKNOWN) else []
        if rule in ("stop-reason", "response-refusal") and view.refusal:
            yield ScriptClaim("shown", view.refusal)
        count = next((name for start, name in _USAGE.items() if self.finding.message.startswith(start)), None)
        every = {
            "usage": ScriptClaim("usage", self.finding.expected, path=(count,)) if count else None,
            "truncated-call": ScriptClaim("whole calls", calls),
            "response-calls": ScriptClaim("calls", calls),
            "response-text": ScriptClaim("text", view.text),
            "stop-reason": ScriptClaim("reason", [*dict.fromkeys([*own, *stop_words(view.stop_reason)])]),
        }
        yield from filter(None, [every[rule]] if rule in every else every.values())

    # --- curl and issue ---

    def curl(self, api: Api) -> str:
        """Return a shell script that sends the wrong request to the provider, or an empty text if none is wrong.

        The script reads the key from an environment variable.
        """
        reading = self.reading
        if reading is None or not _is_about_request(self.finding):
            return ""
        request, place = reading.exchange.request, self.finding.pointer
        sent = urlsplit(request.url)
        url = urlsplit(api.provider_url)._replace(path=sent.path, query=sent.query).geturl()
        key = f"{_KEY_HEADERS.get(api.name, 'authorization: Bearer ')}${api.key_variables[0]}"
        version = request.headers.get("anthropic-version")
        given = [key, "content-type: application/json", *([f"anthropic-version: {version}"] if version else [])]
        headers = [f'-H "{each}"' for each in given]
        wrong = f"# Wrong is {place}: {_short(resolve(_body(reading), place))}\n" if place else ""
        body = json.dumps(_body(reading), indent=2, ensure_ascii=False)
        command = " \\\n    ".join([f"curl '{url}'", *headers, "--data-binary @- <<'JSON'"])
        return f"#!/bin/sh\n# {self.subject}: {self.title}\n{wrong}{command}\n{body}\nJSON\n"

    def issue(self, printed: str, script: str, language: str) -> str:
        """Return the text of an issue in Markdown. `printed` is the output of the script, if there is one."""
        finding, reading = self.finding, self.reading
        number = (finding.exchange or 0) + 1
        is_request = reading is not None and _is_about_request(finding)
        request = _body(reading) if reading is not None else None
        wrong = resolve(request, finding.pointer) if is_request and finding.pointer else finding.actual
        parts = [f"# {self.subject}: {self.title}"]
        place = f" `{finding.pointer}` of the request is `{_short(wrong)}`." if is_request and finding.pointer else ""
        of = f"Request {number}: " if is_request else f"Answer {number}: " if number > 1 else ""
        parts.append(f"**What happens.** {sentence(of + self.title)}{place}")
        words = isinstance(finding.expected, str) and (" " in finding.expected or finding.rule == "stop-reason")
        expected = "" if finding.expected is None or words else f" Expected: `{_short(finding.expected)}`."
        remedy = re.sub(r"(?i)(raise) [\w ]+? instead", r"\1 an exception instead", self.remedy)
        remedy = remedy.replace("Look at the line that is named: the", "The")
        parts.append(f"**What should happen.** {_REMEDIES.get(finding.rule, remedy)}{expected}")
        if self.fact is not None:
            parts.append(f"**What the provider says.** {self.fact.says}")
            parts += [f"> {self.fact.words}"] if self.fact.words else []
            parts.append("\n".join(f"- {each.kind} {each.date}: {each.address}" for each in self.fact.evidence))
        if printed:
            output = "\n".join(line for line in printed.splitlines() if line.startswith(_PRINTED))
            parts.append(f"**Output of the script below.**\n\n```\n{output}\n```")
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items()) or "not known"
        parts.append(f"**Versions.** {versions}. Seen on {self.today}, with answers of a local stub server.")
        if script:
            parts.append(_fold("The script: it needs only the library", language, script.rstrip()))
        if is_request:
            parts.append(_fold("The request", "json", json.dumps(request, indent=2, ensure_ascii=False)))
        elif reading is not None and reading.exchange.response is not None and not script:
            response = reading.exchange.response
            parts.append(_fold(f"The answer, HTTP {response.status}", "", response.body.decode(errors="replace")))
        return "\n\n".join(parts) + "\n"


_TITLES = {
    "truncated-call": "the arguments of a call are cut short, and the library returns the call as a complete one",
    "library-empty-arguments": "the arguments of a call without arguments are an empty text, which is not JSON",
}
"""Rule → the finding in the words of a library's maintainers."""

_REMEDIES = {
    "library-empty-arguments": "Return `{}` as the arguments of a call without arguments.",
    "stop-reason": "Return the provider's stop reason, or one that means the same, and the text of a refusal.",
    "truncated-call": "Return no call whose arguments are cut: raise an exception, or mark the call as invalid.",
    "issued-id-lost": "Return the id of the call as the provider sent it.",
}
"""Rule → advice for the maintainers of a library, who do not know the names of harness."""


def _answer(response: HttpResponse) -> tuple[int, dict[str, JSON], str]:
    headers: dict[str, JSON] = {name: value for name, value in response.headers.items() if name in _HEADERS}
    if response.delivery.ending != "complete":
        headers["content-length"] = str(len(response.body) + 100)
    return response.status, headers, response.body.decode("utf-8", "surrogateescape")


def _with_shared(statements: list[str], kwargs: Mapping[str, object], code: ScriptCode) -> list[str]:
    """Return statements in which arguments that several of them have, such as `tools`, are variables."""
    shared = list[str]()
    for name, value in kwargs.items():
        text = f"\n    {name}={code.code(value, 4, len(name) + 1)},\n"
        if text.count("\n") > 2 and sum(text in each for each in statements) > 1:
            statements = [each.replace(text, f"\n    {name}={name},\n") for each in statements]
            shared.append(f"{name} = {code.code(value)}")
    return [*shared, *statements]


def _tuples(value: JSON) -> object:
    """Return a list of pairs as tuples, as a script compares them."""
    if isinstance(value, list):
        return [(each[0], each[1]) if isinstance(each, list) else each for each in value]
    return value


def _join_spaced(parts: Iterable[str]) -> str:
    """Join parts of a script, with two blank lines around functions and classes."""
    text, was_block = "", False
    for each in parts:
        is_block = each.startswith(("def ", "class ", "async def ", "@"))
        text += ("\n\n" if is_block or was_block else "\n" if text else "") + each + "\n"
        was_block = is_block or each.splitlines()[-1].startswith(" ")
    return text


def _is_about_request(finding: Finding) -> bool:
    return finding.exchange is not None and not is_about_response(finding)


def _right_request(finding: Finding) -> JSON:
    """Return the request of the shipped adapter that a finding shows, if there is one. Other exhibits are no JSON."""
    for each in finding.exhibits:
        with contextlib.suppress(WireError):
            return parse_body(each.text.encode())
    return None


def _differences(wrong: JSON, right: JSON, pointer: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield the pointers and values of a right request that a wrong one lacks or has otherwise."""
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
            yield from _differences(resolve(wrong, join("", key)), each, place)


def _put(body: JSON, pointer: str, value: JSON) -> JSON:
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
    """Return the pointer of a value in another, or an empty text."""
    members = as_object(value).items() if isinstance(value, dict) else enumerate(as_list(value))
    for key, each in members:
        if each == wanted:
            return join("", key)
        if isinstance(each, dict | list) and (inner := _inside(each, wanted)):
            return join("", key) + inner
    return ""


def _right_value(finding: Finding, value: JSON) -> JSON:
    """Return the value that is right in the place of a wrong one, if the finding has the value itself and no words."""
    expected = finding.expected
    if finding.actual != value or expected is None:
        return None
    if isinstance(expected, list) and len(expected) == 1 and not isinstance(value, list):
        expected = expected[0]
    return expected if type(expected) is type(value) and " " not in str(expected) else None


def _body(reading: ParsedExchange) -> JSON:
    return parse_body(reading.exchange.request.body)


def _short(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), _MAX_CHARACTERS)


def _fold(title: str, language: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>"


def _assertion(before: str, condition: str, says: str) -> str:
    line = f"{before}\nassert {condition}, {says}"
    is_long = len(line.rpartition("\n")[2]) > _MAX_LINE and "\n" not in condition
    return f"{before}\nassert {condition}, (\n    {says}\n)" if is_long else line


def _caught(statement: str) -> str:
    lines = textwrap.indent(statement, "    ")
    caught = "except Exception as raised:\n    error = raised\n    print('raised:', repr(raised))"
    return f"error = None\ntry:\n{lines}\n{caught}"


_IMPORTS = (
    "import asyncio",
    "import json",
    "from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer",
    "from threading import Thread",
    "from types import SimpleNamespace",
    "import os",
)


def _sorted_imports(library: Sequence[str], own: Sequence[str], text: str) -> list[str]:
    """Return the lines of imports, one for each module, those of the standard library first. Imports of a script's own
    that its text does not use are left out.
    """
    whole, names = set[str](), defaultdict[str, set[str]](set)
    is_import = [bool(re.match(r"(import|from) ", line)) for line in library]
    setup = [line for at, line in enumerate(library) if not is_import[at] and any(is_import[at:])]
    last = [line for at, line in enumerate(library) if not any(is_import[at:])]
    for line in [*(each for each in library if each not in (*setup, *last)), *own]:
        module, _, imported = line.rpartition("import ")
        used = [each for each in imported.split(", ") if line in library or re.search(rf"\b{re.escape(each)}\b", text)]
        if module:
            names[module.strip()].update(used)
        else:
            whole.update(f"import {each}" for each in used)
    some = [each for each in sorted(names) if names[each]]
    every = [*sorted(whole), *(f"{each} import {', '.join(sorted(names[each]))}" for each in some)]
    standard = [each for each in every if each.split()[1].partition(".")[0] in sys.stdlib_module_names]
    others = [*(each for each in every if each not in standard), *(["", *last] if last else [])]
    return [*standard, "", *setup, *others]


_HEAD = '''"""{title}

Seen on {today} with {versions}. {run}

A server on 127.0.0.1 gives the answers, which harness made, not a provider. With the fault, an assertion fails.
"""

from __future__ import annotations
'''

_SERVER = """
class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = ANSWERS[min(len(received), len(ANSWERS)) - 1]
        body = body.encode("utf-8", "surrogateescape")
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
"""

_START = """
server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
"""

_ENDPOINT = """
endpoint = SimpleNamespace(base_url=f"http://127.0.0.1:{{server.server_port}}{base_path}", api_key="none")
"""

_TO_SERVER = """
def to_server(send):
    def redirected(self, request, **options):
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=server.server_port)
        return send(self, request, **options)

    return redirected
"""
_HTTPX = "NAME.Client.send, NAME.AsyncClient.send = map(to_server, (NAME.Client.send, NAME.AsyncClient.send))"
_REDIRECTIONS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    **{each: ((), (_TO_SERVER, _HTTPX.replace("NAME", each))) for each in ("httpx", "httpx2")},
    "http.client": (
        ("import socket",),
        (
            """
def connect(self):
    self.sock = socket.create_connection(server.server_address)
""",
            "http.client.HTTPSConnection.connect = connect",
        ),
    ),
    "urllib3": (
        ("import socket", "from urllib3.connection import HTTPSConnection"),
        (
            """
def connect(self):
    self.sock, self.is_verified = socket.create_connection(server.server_address), True
""",
            "HTTPSConnection.connect = connect",
        ),
    ),
    "aiohttp": (
        ("from aiohttp import ClientSession",),
        (
            """
def to_server(self, url, build=ClientSession._build_url):
    return build(self, url).with_scheme("http").with_host("127.0.0.1").with_port(server.server_port)
""",
            "ClientSession._build_url = to_server",
        ),
    ),
}
"""HTTP client → imports and code that send its requests to the script's server."""

_READ = """
def fields(value):
    return value if isinstance(value, dict) else value.model_dump() if hasattr(value, "model_dump") else vars(value)


def read(completion):
    choice, usage = fields(fields(completion)["choices"][0]), fields(fields(completion).get("usage") or {})
    message = fields(choice["message"])
    functions = [(each.get("id"), fields(each["function"])) for each in map(fields, message.get("tool_calls") or ())]
    return {
        "text": message.get("content") or "",
        "calls": [{"id": id, "name": each["name"], "args": each["arguments"]} for id, each in functions],
        "refusal": message.get("refusal"),
        "reason": choice["finish_reason"],
        "read": usage.get("prompt_tokens"),
        "written": usage.get("completion_tokens"),
    }
"""

_READ_STREAM = """
def read(chunks):
    found = {"text": "", "calls": {}, "refusal": "", "reason": None}
    for choice in [choice for chunk in chunks for choice in chunk.choices]:
        found["reason"] = choice.finish_reason or found["reason"]
        found["text"] += choice.delta.content or ""
        found["refusal"] += getattr(choice.delta, "refusal", None) or ""
        for piece in getattr(choice.delta, "tool_calls", None) or ():
            call = found["calls"].setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "args": ""})
            call["args"] += piece.function.arguments or ""
    return {**found, "calls": [*found["calls"].values()]}
"""

_LISTED = "[(each['name'], parsed(each['args'])) for each in read(answer)['calls']]"
_READERS = {
    "calls": _LISTED,
    "whole calls": f"[each for each in {_LISTED} if isinstance(each[1], dict)]",
    "text": "read(answer)['text']",
    "usage": "read(answer)[{count}]",
    "reason": "read(answer)['reason']",
}
"""Subject of a claim → code of what the library returned, for a script with a function `read`."""

_HELPERS = {
    "events": """
def events(*sent):
    return "".join(f"data: {json.dumps(each)}\\n\\n" for each in sent)
""",
    "named_events": """
def named_events(*sent):
    return "".join(f"event: {each['type']}\\ndata: {json.dumps(each)}\\n\\n" for each in sent)
""",
    "at": """
def at(value, *steps):
    try:
        return at(value[steps[0]], *steps[1:]) if steps else value
    except (IndexError, KeyError, TypeError):
        return None
""",
    "status_of": """
def status_of(error):
    while error is not None:
        for name in ("provider_status_code", "status_code", "status", "code"):
            if isinstance(getattr(error, name, None), int):
                return getattr(error, name)
        error = error.__cause__ or error.__context__
""",
    "parsed": """
def parsed(arguments):
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
""",
    "seen": """
def seen(text="", calls=(), refusal=None, **others):
    return {"text": text, "calls": [*calls], "refusal": refusal, **others}
""",
    "ToolFailed": """
class ToolFailed(Exception):
    pass
""",
    "Unsupported": """
class Unsupported(Exception):
    pass
""",
    "scripted_tool": """
runs = []


def scripted_tool(name, description, parameters, results):
    def run(arguments):
        runs.append((name, arguments))
        result = results.pop(0)
        if isinstance(result, ToolFailed):
            raise result
        return result

    def text(arguments):
        found = run(arguments)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    return SimpleNamespace(name=name, description=description, parameters=parameters, call=run, text=text)
""",
}
