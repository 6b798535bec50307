"""Files that reproduce a finding: a Python script that needs no harness, and an issue for the library's tracker."""

from __future__ import annotations

import base64
import json
import pprint
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from harness.apis.fact import Fact
from harness.apis.jsonvalue import loads, resolve
from harness.bridge.openai_messages import plain
from harness.model.http import HttpResponse
from harness.results import Exchange, Finding

_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "request-id", "x-request-id"})
"""Response headers that clients read."""


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Code that calls a library with `arguments` in the format of OpenAI Chat.

    `setup` is the code at the top of the file. `whole` and `stream` are bodies of a function with the parameters
    `base_url`, `model` and `arguments`. `stream` is empty if the library does not stream. `packages` are the
    distributions to install.
    """

    packages: tuple[str, ...]
    setup: str
    whole: str
    stream: str = ""


_PROVIDERS = {"openai-chat": "openai", "anthropic": "anthropic", "gemini": "gemini"}


def call_of(library: str, api: str) -> LibraryCall | None:
    """Return the code that calls a library for an API, or `None` if it is not known."""
    provider = _PROVIDERS.get(api, "openai")
    stream = "stream=True, stream_options={'include_usage': True}"
    match library:
        case "litellm":
            where = "api_base=base_url, api_key='none', num_retries=0, max_retries=0, **arguments"
            called = f"litellm.completion('{provider}/' + model, {where}"
            setup = "import os\n\nos.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'\nimport litellm"
            whole, joined = f"return {called})", f"return litellm.stream_chunk_builder(list({called}, {stream})))"
            return LibraryCall(("litellm",), setup, whole, joined)
        case "any-llm":
            where = "api_base=base_url, api_key='none', client_args={'max_retries': 0}, **arguments"
            called = f"any_llm.completion(model, provider='{provider}', {where}"
            usage = stream if provider == "openai" else "stream=True"
            packages = (f"any-llm-sdk[{provider}]",)
            return LibraryCall(packages, "import any_llm", f"return {called})", f"return list({called}, {usage}))")
        case "aisuite":
            renamed = "max_tokens" if provider == "openai" else "stop"
            name = "max_completion_tokens" if provider == "openai" else "stop_sequences"
            where = "{'api_key': 'none', 'base_url': base_url, 'max_retries': 0}"
            lines = (
                f"if '{renamed}' in arguments:\n    arguments['{name}'] = arguments.pop('{renamed}')\n"
                f"client = aisuite.Client({{'{provider}': {where}}})\n"
            )
            called = f"client.chat.completions.create('{provider}:' + model, **arguments"
            packages = (f"aisuite[{provider}]", "docstring-parser", "mcp")
            usage = stream if provider == "openai" else "stream=True"
            return LibraryCall(
                packages, "import aisuite", f"{lines}return {called})", f"{lines}return list({called}, {usage}))"
            )
        case "langchain":
            name, package, key = _LANGCHAIN[provider]
            lines = (
                "messages = arguments.pop('messages')\n"
                f"client = {name}(model=model, base_url=base_url, {key}='none', max_retries=0)\n"
                "tools, choice = arguments.pop('tools', None), arguments.pop('tool_choice', None)\n"
                "bound = client.bind_tools(tools, tool_choice=choice) if tools else client\n"
            )
            setup = f"from {package} import {name}"
            whole = f"{lines}return bound.invoke(messages, **arguments)"
            return LibraryCall(
                (package.replace("_", "-"),), setup, whole, f"{lines}return list(bound.stream(messages, **arguments))"
            )
        case _:
            return None


_LANGCHAIN = {
    "openai": ("ChatOpenAI", "langchain_openai", "api_key"),
    "anthropic": ("ChatAnthropic", "langchain_anthropic", "api_key"),
    "gemini": ("ChatGoogleGenerativeAI", "langchain_google_genai", "google_api_key"),
}
"""Provider → class, package and keyword of the key."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Contents of a reproduction.

    `subject` names the library or client, `versions` the installed packages. `arguments` has the arguments of each
    call. `finding` is the fault, which must be about a request. `fact` is the provider's rule that the request breaks,
    if there is one.
    """

    subject: str
    versions: Mapping[str, str]
    stream: bool
    model: str
    base_path: str
    finding: Finding
    exchanges: Sequence[Exchange]
    arguments: Sequence[Mapping[str, Any]]
    fact: Fact | None
    remedy: str
    today: str

    @property
    def request(self) -> Any:
        """The JSON body of the wrong request."""
        return loads(self.exchanges[self.finding.exchange or 0].request.body)

    def script(self, file: str, call: LibraryCall) -> str:
        """Return the Python file that shows the fault."""
        body = call.stream if self.stream else call.whole
        used = self.arguments[: (self.finding.exchange or 0) + 1]
        answers = [_answer(each.response) for each in self.exchanges[: len(used)] if each.response is not None]
        return _SCRIPT.format(
            title=_escaped(self.finding.message),
            packages=" ".join(f"'{each}'" for each in self._pinned(call)),
            file=file,
            today=self.today,
            versions=", ".join(f"{name} {number}" for name, number in self.versions.items()) or "not known",
            setup=call.setup,
            model=self.model,
            answers=pprint.pformat(answers, width=110, sort_dicts=False),
            calls=pprint.pformat([_literal(each) for each in used], width=110, sort_dicts=False),
            body=textwrap.indent(body, "    "),
            base_path=self.base_path,
            request=self.finding.exchange or 0,
            pointer=self.finding.pointer or "",
            wrong=pprint.pformat(self._wrong, width=110),
            right=pprint.pformat(self._right, width=110),
            knows_right=self._knows_right,
        )

    def issue(self) -> str:
        """Return the text of an issue in Markdown."""
        number = (self.finding.exchange or 0) + 1
        happens = f"Request {number}: {self.finding.message}."
        if self.finding.pointer:
            happens += f" `{self.finding.pointer}` is `{_short(self._wrong)}`."
        parts = [f"# {self.subject}: {self.finding.message}", f"**What happens.** {happens}"]
        right = f" Here it should be `{_short(self._right)}`." if self._knows_right else ""
        parts.append(f"**What should happen.** {self.remedy}{right}")
        if self.fact is not None:
            parts.append(f"**What the provider says.** {self.fact.says}")
            parts += [f"> {self.fact.words}"] if self.fact.words else []
            parts.append("\n".join(f"- {each.kind} {each.date}: {each.address}" for each in self.fact.evidence))
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items()) or "not known"
        parts.append(f"**Versions.** {versions}. Seen on {self.today}, with answers of harness's reference server.")
        request = json.dumps(self.request, indent=2, ensure_ascii=False)
        parts.append(f"<details><summary>The request</summary>\n\n```json\n{request}\n```\n\n</details>")
        return "\n\n".join(parts) + "\n"

    def _pinned(self, call: LibraryCall) -> list[str]:
        return [
            f"{each}=={self.versions[name]}" if (name := each.partition("[")[0]) in self.versions else each
            for each in call.packages
        ]

    @property
    def _wrong(self) -> Any:
        return resolve(self.request, self.finding.pointer or "")

    @property
    def _knows_right(self) -> bool:
        """Return whether the finding contains the expected value itself. Some findings only describe it in words."""
        finding = self.finding
        return bool(finding.pointer) and finding.expected is not None and finding.actual == self._wrong

    @property
    def _right(self) -> Any:
        expected = self.finding.expected
        is_choice = isinstance(expected, list) and len(expected) == 1 and not isinstance(self._wrong, list)
        return expected[0] if is_choice and isinstance(expected, list) else expected


def _answer(response: HttpResponse) -> tuple[int, dict[str, str], str]:
    headers = {name: value for name, value in response.headers.items() if name in _HEADERS}
    try:
        return response.status, headers, response.body.decode()
    except UnicodeDecodeError:
        return response.status, headers, "base64:" + base64.b64encode(response.body).decode()


def _literal(value: object) -> object:
    """Return a value with a library's own objects converted to dictionaries."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_literal(each) for each in cast("Sequence[object]", value)]
    return {name: _literal(each) for name, each in plain(value).items()}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} ..."


_MAX_CHARACTERS = 300

_SCRIPT = '''"""{title}

Versions: {versions}. Seen on {today}. Run it with the library alone:

    pip install {packages}
    python {file}

A server on 127.0.0.1 gives the recorded answers, which are those of harness's reference server and no provider's. The
exit code is 1 while the fault is there, and 0 when it is mended.
"""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

{setup}

MODEL = {model!r}
ANSWERS = {answers}
CALLS = {calls}
REQUEST, POINTER = {request}, {pointer!r}
WRONG = {wrong}
RIGHT = {right}

requests = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers.get("content-length", 0)))))
        status, headers, text = ANSWERS[min(len(requests), len(ANSWERS)) - 1]
        body = base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def call(base_url, model, arguments):
{body}


def value_at(body, pointer):
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            body = body[int(step)] if isinstance(body, list) else body[step]
        except (IndexError, KeyError, TypeError, ValueError):
            return None
    return body


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
Thread(target=server.serve_forever, daemon=True).start()
for arguments in CALLS:
    try:
        call(f"http://127.0.0.1:{{server.server_port}}{base_path}", MODEL, arguments)
    except Exception as error:
        print("the library raised", repr(error))

if len(requests) <= REQUEST:
    sys.exit(f"the library sent {{len(requests)}} requests, and the fault is in number {{REQUEST + 1}}")
sent = value_at(requests[REQUEST], POINTER)
print("sent  ", json.dumps(sent))
if {knows_right}:
    print("right ", json.dumps(RIGHT))
is_wrong = sent != RIGHT if {knows_right} else sent == WRONG  # without a known right value, the same request is wrong
print("The fault is there." if is_wrong else "The fault is mended.")
sys.exit(1 if is_wrong else 0)
'''
