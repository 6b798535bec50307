"""Files that reproduce a finding: a Python script that needs no harness, and an issue for the library's tracker."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.jsonvalue import as_list, as_object, join, keys, loads, parsed, resolve
from harness.apis.view import ResponseView, WireError
from harness.bridge.call_log import LoggedCall
from harness.bridge.completions import stop_reason, stop_words
from harness.checks.script_code import ScriptCode, json_code, wrapper_source
from harness.model.http import HttpResponse
from harness.model.messages import JSON, StopReason
from harness.platform.exceptions import shorten
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


@dataclass(frozen=True, slots=True)
class ScriptClaim:
    """A condition that a script checks, and that does not hold while the fault exists.

    - `sent`: the value at `path` of the request is `value` or, if `is_right` is not set, is not.
    - `has`: the request contains the text `value`.
    - `error`, `no error`: the library raises, or does not.
    - `status`: the exception has this status.
    - `runs`: the tools ran with these names and arguments.
    - `calls`, `whole calls`, `text`, `usage`: the library returns this. Calls that are whole have parsed arguments.
    - `reason`: the stop reason is one of these words.
    """

    subject: Literal[
        "sent", "has", "error", "no error", "status", "runs", "calls", "whole calls", "text", "usage", "reason"
    ]
    value: JSON = None
    is_right: bool = True
    path: tuple[str | int, ...] = ()

    @property
    def reads(self) -> bool:
        """Return whether the claim is about what the library returned."""
        return self.subject in ("calls", "whole calls", "text", "usage", "reason")


Redirect: TypeAlias = tuple[str, str]
"""The own base URL of a client that takes none, and its HTTP client."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Contents of a reproduction.

    `subject` names the library or client, and `module` is its wrapper. `packages` are the distributions to install, and
    `versions` those that are installed. `calls` are the calls that the wrapper made, up to the fault. `results` are the
    results of a loop's tools, by name. `redirect` is set if the client takes no base URL.

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
    redirect: Redirect | None = None

    @property
    def title(self) -> str:
        """The finding in one line, worded for the maintainers of the library."""
        text = re.sub(r", called in [^()]*", "", " ".join(self.finding.message.split()))
        return text.replace("the adapter", "the library")

    def scripts(self, file: str) -> Iterator[str]:
        """Yield scripts that may show the fault, the best one first.

        Raises:
            CannotWrite: an argument of a call has no form in Python code.
        """
        for each in self.claims():
            yield self._script(file, each)

    def _script(self, file: str, claim: ScriptClaim) -> str:
        code = ScriptCode(self.module, {self.origin + self.base_path: "endpoint.base_url"}, self.results)
        statements, first = self._statements(code)
        read, end = self._reader(code) if claim.reads else "", self._end(claim)
        imports, definitions = wrapper_source(self.module, code.roots) if self.module else ([], [])
        answers = ScriptCode(None, {}).code([(*each[:2], json_code(each[2])) for each in self.answers(first)])
        source = "\n\n\n".join(definitions).replace("bridge.completion(", "seen(")
        text = "\n".join([source, read, *statements, end])
        helpers = self._helpers(text)
        helper_text = "".join(_HELPERS[each] for each in helpers)
        needed = _REDIRECTION_IMPORTS[self.redirect[1]] if self.redirect is not None else []
        parts = [
            _HEAD.format(
                title=shorten(f"{self.subject}: {self.title}".replace("\\", "\\\\").replace('"""', "'''"), 200),
                versions=", ".join(f"{name} {number}" for name, number in self.versions.items()) or "unknown versions",
                today=self.today,
                packages=" ".join(f"'{each}'" for each in self.packages),
                file=file,
            ),
            "\n".join(_sorted_imports(imports, [*code.imports, *_IMPORTS, *needed], text + helper_text)),
            f"ANSWERS = {answers}\nrequests = []",
            _SERVER,
            *(_HELPERS[each] for each in helpers),
            source,
            read,
            _START.format(base_path=self.base_path),
            *self._redirection(),
            "\n".join(statements[:-1]),
            statements[-1] if claim.reads else _caught(statements[-1]),
            end,
        ]
        return _spaced(each.strip("\n") for each in parts if each.strip())

    def _redirection(self) -> list[str]:
        """Return the code that sends the requests of a client to the script's server."""
        if self.redirect is None:
            return []
        url, library = self.redirect
        return [each.format(url=url) for each in _REDIRECTIONS[library]]

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
        used = [name for name in _HELPERS if re.search(rf"\b{name}\b", text)]
        return ["ToolFailed", *used] if "scripted_tool" in used and "ToolFailed" not in used else used

    def _end(self, claim: ScriptClaim) -> str:
        """Return the end of a script, which checks a claim."""
        value = ScriptCode(None, {}).code(claim.value if claim.subject == "sent" else _tuples(claim.value))
        listed = "[(each['name'], parsed(each['args'])) for each in read(answer)['calls']]"
        at = (self.finding.exchange or 0) if self.owns_loop else -1
        values = {
            "sent": f"at(requests[{at}], {', '.join(map(repr, claim.path))})",
            "status": "status_of(error)",
            "runs": "runs",
            "calls": listed,
            "whole calls": f"[each for each in {listed} if isinstance(each[1], dict)]",
            "text": "read(answer)['text']",
            "usage": f"read(answer)[{next(iter(claim.path), None)!r}]",
            "reason": "read(answer)",
        }
        if claim.subject == "has":
            sent = f"sent = json.dumps(requests[{at}], ensure_ascii=False)\nprint('sent:', sent)"
            text = json.dumps(claim.value, ensure_ascii=False)[1:-1]
            return f"{sent}\nassert {text!r} in sent, {self.says(claim)!r}"
        if claim.subject == "no error" and not self.readings:  # with the fault, nothing is sent
            return f"assert requests, {self.says(claim)!r}"
        if claim.subject not in values:
            return f"assert error is {'None' if claim.subject == 'no error' else 'not None'}, {self.says(claim)!r}"
        name = "returned" if claim.reads else "got" if claim.subject == "status" else "sent"
        right = f"{name} {'==' if claim.is_right else '!='} {value}"
        if claim.subject == "reason":
            refused = " or returned['refusal']" if claim.path else ""
            right = f"str(returned['reason']).lower() in {value}{refused}"
        return f"{name} = {values[claim.subject]}\nprint('{name}:', {name})\nassert {right}, {self.says(claim)!r}"

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
        return f"{shorten(self.title, 160)}{right.get(claim.subject, '')}"

    def _of_request(self, reading: ParsedExchange) -> Iterator[ScriptClaim]:
        body, finding = loads(reading.exchange.request.body), self.finding
        is_text = isinstance(finding.expected, str) and " " in finding.expected
        if is_text and not finding.pointer and finding.actual is None:
            yield ScriptClaim("has", finding.expected)
        pointer = finding.pointer or _missing(body, _right_request(finding))
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
        refused = ("refusal",) if view.stop_reason is StopReason.REFUSAL else ()
        count = next((name for start, name in _USAGE.items() if self.finding.message.startswith(start)), None)
        every = {
            "usage": ScriptClaim("usage", self.finding.expected, path=(count,)) if count else None,
            "truncated-call": ScriptClaim("whole calls", calls),
            "response-calls": ScriptClaim("calls", calls),
            "response-text": ScriptClaim("text", view.text),
            "stop-reason": ScriptClaim("reason", [*dict.fromkeys([*own, *stop_words(view.stop_reason)])], path=refused),
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

    def issue(self, printed: str) -> str:
        """Return the text of an issue in Markdown. `printed` is the output of the script, if there is one."""
        finding, reading = self.finding, self.reading
        number = (finding.exchange or 0) + 1
        is_request = reading is not None and _is_about_request(finding)
        request = _body(reading) if reading is not None else None
        wrong = resolve(request, finding.pointer) if is_request and finding.pointer else finding.actual
        parts = [f"# {self.subject}: {self.title}"]
        place = f" `{finding.pointer}` of the request is `{_short(wrong)}`." if is_request and finding.pointer else ""
        parts.append(f"**What happens.** {'Request' if is_request else 'Answer'} {number}: {self.title}.{place}")
        words = isinstance(finding.expected, str) and " " in finding.expected
        expected = "" if finding.expected is None or words else f" Expected: `{_short(finding.expected)}`."
        remedy = re.sub(r"(?i)(raise) [\w ]+? instead", r"\1 an exception instead", self.remedy)
        parts.append(f"**What should happen.** {remedy}{expected}")
        if self.fact is not None:
            parts.append(f"**What the provider says.** {self.fact.says}")
            parts += [f"> {self.fact.words}"] if self.fact.words else []
            parts.append("\n".join(f"- {each.kind} {each.date}: {each.address}" for each in self.fact.evidence))
        if printed:
            output = "\n".join(line for line in printed.splitlines() if line.startswith(_PRINTED))
            parts.append(f"**Output of the script.**\n\n```\n{output}\n```")
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items()) or "not known"
        parts.append(f"**Versions.** {versions}. Seen on {self.today}, with answers of harness's reference server.")
        if is_request:
            parts.append(_folded("The request", "json", json.dumps(request, indent=2, ensure_ascii=False)))
        elif reading is not None and reading.exchange.response is not None:
            response = reading.exchange.response
            parts.append(_folded(f"The answer, HTTP {response.status}", "", response.body.decode(errors="replace")))
        return "\n\n".join(parts) + "\n"


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


def _spaced(parts: Iterable[str]) -> str:
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
            return parsed(each.text.encode())
    return None


def _missing(wrong: JSON, right: JSON, pointer: str = "") -> str | None:
    """Return the pointer of the first value that only the right request has."""
    if isinstance(right, dict) and isinstance(wrong, dict):
        for key, each in right.items():
            found = join(pointer, key) if key not in wrong else _missing(wrong[key], each, join(pointer, key))
            if found is not None:
                return found
    if isinstance(right, list) and isinstance(wrong, list):
        for at, (one, other) in enumerate(zip(wrong, right, strict=False)):
            if (found := _missing(one, other, join(pointer, at))) is not None:
                return found
    return None


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
    return parsed(reading.exchange.request.body)


def _short(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), _MAX_CHARACTERS)


def _folded(title: str, language: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>"


def _caught(statement: str) -> str:
    lines = textwrap.indent(statement, "    ")
    caught = "except Exception as raised:\n    error = raised\n    print('raised:', repr(raised))"
    return f"error = None\ntry:\n{lines}\n{caught}"


_IMPORTS = (
    "import json",
    "from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer",
    "from threading import Thread",
    "from types import SimpleNamespace",
)


def _sorted_imports(library: Sequence[str], own: Sequence[str], text: str) -> list[str]:
    """Return the lines of imports, one for each module, those of the standard library first."""
    whole, names = set[str](), defaultdict[str, set[str]](set)
    for line in [*library, *own, *(["import asyncio"] if "asyncio." in text else [])]:
        module, _, imported = line.partition(" import ")
        if imported:
            names[module].update(imported.split(", "))
        else:
            whole.add(line)
    every = [*sorted(whole), *(f"{each} import {', '.join(sorted(names[each]))}" for each in sorted(names))]
    standard = [each for each in every if each.split()[1].partition(".")[0] in sys.stdlib_module_names]
    return [*standard, "", *(each for each in every if each not in standard)]


_HEAD = '''"""{title}

Seen on {today} with {versions}.
Run it where only the library is installed:

    pip install {packages}
    python {file}

A server on 127.0.0.1 gives the answers. They come from the reference server of harness, not from a provider. The script
ends with an AssertionError as long as the fault exists.
"""

from __future__ import annotations
'''

_SERVER = """
class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = ANSWERS[min(len(requests), len(ANSWERS)) - 1]
        body = body.encode("utf-8", "surrogateescape")
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
"""

_START = """
server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
endpoint = SimpleNamespace(base_url=f"http://127.0.0.1:{{server.server_port}}{base_path}", api_key="none")
"""

_SENT = """
def to_server(send):
    def redirected(self, request, *args, **options):
        request.url = type(request.url)(str(request.url).replace("{url}", endpoint.base_url))
        return send(self, request, *args, **options)

    return redirected
"""
_REDIRECTIONS = {
    "httpx": [
        _SENT,
        "httpx.Client.send = to_server(httpx.Client.send)\nhttpx.AsyncClient.send = to_server(httpx.AsyncClient.send)",
    ],
    "requests": [_SENT, "Session.send = to_server(Session.send)"],
    "urllib": [
        """
def to_server(send):
    def redirected(self, url, *args, **options):
        request = url if isinstance(url, Request) else Request(url)
        request.full_url = request.full_url.replace("{url}", endpoint.base_url)
        return send(self, request, *args, **options)

    return redirected
""",
        "OpenerDirector.open = to_server(OpenerDirector.open)",
    ],
    "aiohttp": [
        """
def to_server(send):
    def redirected(self, method, url, **options):
        return send(self, method, str(url).replace("{url}", endpoint.base_url), **options)

    return redirected
""",
        "ClientSession._request = to_server(ClientSession._request)",
    ],
}
"""HTTP client → code that sends its requests to the script's server."""

_REDIRECTION_IMPORTS = {
    "httpx": ["import httpx"],
    "requests": ["from requests import Session"],
    "urllib": ["from urllib.request import OpenerDirector, Request"],
    "aiohttp": ["from aiohttp import ClientSession"],
}

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

_HELPERS = {
    "at": """
def at(value, *steps):
    for step in steps:
        try:
            value = value[step]
        except (IndexError, KeyError, TypeError):
            return None
    return value
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
