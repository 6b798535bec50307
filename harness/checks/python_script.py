"""Python scripts that show a finding without harness."""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from harness.bridge.call_log import BoundMethod, ContinuedList, LoggedCall
from harness.bridge.clients.sources import source_of
from harness.checks import script_parts
from harness.checks.reproduction import Reproduction, ScriptClaim, ScriptGateway, ScriptProgram
from harness.checks.script_code import CallCode, LacksAnswer, RawCode, ScriptCode, body_code, reader
from harness.checks.script_sources import module_source
from harness.model.messages import JSON
from harness.platform.exceptions import shorten

_FIRST_ERROR = 400
"""Lowest HTTP status of an error."""

_MAX_LINE, _MAX_ANSWER_LINE = 120, 200


def python_scripts(made: Reproduction, file: str) -> Iterator[str]:
    """Yield scripts that may show the fault, the best one first.

    Raises:
        CannotWrite: an argument of a call cannot be written as Python code.
        LacksAnswer: the call does not send back what the client returned before, which has the state that is lost.
    """
    for claim in made.claims():
        for redirect in made.redirects or [None]:
            for is_short in (True, False):
                yield _script(made, file, claim, redirect, is_short=is_short)


def _script(made: Reproduction, file: str, claim: ScriptClaim, redirect: str | None, *, is_short: bool) -> str:
    """Return a script. A short script catches exceptions only if necessary, and most of its answers lack the fields
    that clients ignore.
    """
    code = ScriptCode(made.module, {made.origin + made.base_path: "endpoint.base_url"}, made.results)
    sends_back = code.sends_answers_back = made.lost_state is not None and not made.owns_loop
    code.awaits_tools = any(map(_may_await, made.calls))
    if made.program is not None:
        statements, first, redirect = _program_statements(made.program, redirect), 0, None
    elif made.gateway is not None:
        statements, first = _gateway_statements(made.gateway, code), 0
    else:
        statements, first = _agent_statements(made, code) if made.is_agent else _statements(made, code)
    if sends_back and not re.search(rf"\banswer_\d|{re.escape(str(made.lost_state))}", statements[-1]):
        raise LacksAnswer
    returned = reader(claim, made.returned_values()) if claim.reads and is_short else None
    read = _READERS.get(claim.subject, "")
    end = _end(made, claim, returned or read.format(read=_reader(made, code) if read else "", count="{count}"))
    about_errors = claim.subject in ("error", "no error", "status", "whole calls", "other")
    may_raise = made.program is None and (about_errors or made.gateway is not None)
    # an exception must not be the short answer's, which lacks the details of the usage
    lean = is_short and claim.subject not in ("no error", "status", "usage")
    given = made.answers(first)
    answers = [(*each[:2], body_code(each[2], is_short=lean)) for each in given]
    stub = "ChunkStub" if any(isinstance(each[2], list) for each in given) else "ProviderStub"
    answer_text = ScriptCode(None, {}, width=_MAX_ANSWER_LINE).code(answers)
    imports, definitions = module_source(made.module, code.roots) if made.module else ([], [])
    source = "\n\n\n".join(definitions).replace("bridge.completion(", "answer_fields(")
    is_failing = not claim.reads and (not is_short or given[-1][0] >= _FIRST_ERROR)
    catches = may_raise or (is_failing and made.program is None)
    call = [*statements[:-1], _caught(statements[-1]) if catches else statements[-1]]
    text = "\n".join([source, *call, end])
    redirection = _REDIRECTIONS.get(redirect or "", ([], []))
    parts = [name for name in vars(script_parts) if re.search(rf"(?<![.\w]){name}\(", f"{answer_text}\n{text}")]
    modules, helpers = module_source(script_parts, [stub, *parts])
    classes = [_EXCEPTION.format(name) for name in _EXCEPTIONS if re.search(rf"\b{name}\b", text)]
    before = [each for each in helpers if re.match(r"def (named_)?events", each)]
    keys = [] if "api_key" in text else [f'os.environ["{each}"] = "none"' for each in made.keys]
    endpoint = _ENDPOINT.format(base_path=made.base_path) if "endpoint" in text else ""
    uses = [line for word, line in _IMPORTS.items() if re.search(rf"\b{word}\b", "\n".join([text, endpoint, *keys]))]
    redirected = [] if redirect is None else [f"import {redirect}", *redirection[0]]
    standard, others = _sorted_imports(
        [*_SERVER_IMPORTS, *modules, *uses, *redirected, *imports, *sorted(code.imports)]
    )
    blocks = [
        _head(made, file),
        "\n".join([*standard, *(["", *keys] if keys else []), *(["", *others] if others else [])]),
        *before,
        f"ANSWERS = {answer_text}\nreceived = []",
        *(each for each in helpers if each not in before),
        *classes,
        source,
        _START.format(stub=stub, port=made.gateway.port if made.gateway is not None else 0),
        endpoint,
        *redirection[1],
        "\n".join(call),
        "received[0]  # one has arrived" if redirect is not None and may_raise else "",
        end,
    ]
    return _join_spaced(each.strip("\n") for each in blocks if each.strip())


def _head(made: Reproduction, file: str) -> str:
    title = shorten(f"{made.subject}: {made.title}".replace("\\", "\\\\").replace('"""', "'''"), 200)
    versions = ", ".join(f"{name} {number}" for name, number in made.versions.items())
    versions = f" with {versions}" if versions else ""
    where = f"Run it where only the library is installed:\n\n    pip install {' '.join(map(repr, made.packages))}\n"
    own = f"Run it in the folder of the {'client' if made.program is None else 'program'}:\n\n"
    if made.gateway is not None:
        base_url = f"http://127.0.0.1:{made.gateway.port}{made.gateway.base_path}"
        own = f"Run it while the gateway runs, with\n{base_url} as its provider's base URL:\n\n"
    run = f"{where if made.packages else own}    python {file}"
    return _HEAD.format(title="\n".join(textwrap.wrap(title, 116)), versions=versions, today=made.today, run=run)


def _statements(made: Reproduction, code: ScriptCode) -> tuple[list[str], int]:
    """Return the statements that make the call with the fault, and the index of the first exchange they need."""
    target = made.target_call()
    called = list[tuple[str, str, int]]()
    continued = _continued_list(made.calls[: target + 1])
    followed = [one.before == other.before for one, other in pairwise(made.calls[: target + 1])]
    for place, each in enumerate(made.calls[: target + 1]):
        if place < target and followed[place]:  # the next call uses the result of this one
            name = f"part_{place + 1}" if place + 1 < target and followed[place + 1] else "client"
        else:
            name = "answer" if place == target else f"answer_{each.before + 1}"
        kwargs, shared = each.kwargs, continued.get(place)
        if shared is not None:
            value = kwargs[shared]
            added = f"+= {code.code(value.added)}" if isinstance(value, ContinuedList) else f"= {code.code(value)}"
            called.append((shared, f"{shared} {added}", each.before))
            kwargs = {**kwargs, shared: RawCode(shared)}
        text = code.call(each.function, each.args, kwargs)
        if each.is_awaited:
            text = f"asyncio.run({text})"
        if each.is_stream:
            text = f"asyncio.run(collect({text}))" if each.is_async_stream else f"[*{text}]"
            _, last = each.final_answer or (None, "")
            text = f"{text}{last if each.join is None else ''}"
            text = f"{code.function(each.join)}({text})" if each.join is not None else text
        called.append((name if shared is None or place == target else shared, f"{name} = {text}", each.before))
        code.names.append((each.value, name))
    used, kept = called[-1][1], [called[-1]]
    for name, text, before in reversed(called[:-1]):
        if re.search(rf"\b{name}\b", used):
            used += text
            kept.insert(0, (name, text, before))
    texts = _with_shared([text for _, text, _ in kept], made.calls[target].kwargs, code)
    first = min((before for _, text, before in kept if text.startswith("answer")), default=0)
    skipped = {before for _, _, before in called} - {before for _, _, before in kept}
    return texts, first if not any(each > first for each in skipped) else 0


def _agent_statements(made: Reproduction, code: ScriptCode) -> tuple[list[str], int]:
    """Return the statements that make an agent, register its tools and run it, and the index of the first exchange."""
    target = made.target_call()
    calls = [each for place, each in enumerate(made.calls[: target + 1]) if place == target or not each.has_failed]
    called = list[tuple[str, str, bool]]()
    for place, each in enumerate(calls):
        is_last, method = place + 1 == len(calls), each.function
        changes = isinstance(method, BoundMethod) or method is setattr or any(method is one for one, _ in code.names)
        is_turn = any(each.before < other.before for other in calls[place + 1 :]) and changes
        name = "answer" if is_last else f"answer_{place + 1}" if is_turn else f"part_{place + 1}"
        text = code.call(method, each.args, each.kwargs)
        if each.is_awaited:
            text = f"runner.run({text})"
        if each.is_stream:
            text = f"runner.run(collect({text}))" if each.is_async_stream else f"[*{text}]"
            text = f"{text}{(each.final_answer or (None, ''))[1]}"
        called.append((name, text, changes or is_last))
        code.names.append((each.value, name))
    used, kept = "", list[str]()
    for name, text, is_needed in reversed(called):
        is_used = re.search(rf"\b{name}\b", used) is not None
        if is_used or is_needed:
            used += text
            kept.insert(0, f"{name} = {text}" if is_used or name == "answer" else text)
    if used.count("runner.run(") == 1:
        return [each.replace("runner.run(", "asyncio.run(", 1) for each in kept], 0
    return [*(["runner = asyncio.Runner()"] if "runner.run(" in used else []), *kept], 0


def _program_statements(program: ScriptProgram, redirect: str | None) -> list[str]:
    """Return the statements that run a program. What it printed is its answer, and its exit code is its error. If
    `redirect` names an HTTP client, the requests of a Python program that uses it go to the script's server.
    """
    values = {name: json.dumps(value.replace("{url}", _SERVER_URL)) for name, value in program.variables.items()}
    variables = [f"    {name!r}: {'f' * ('{' in value)}{value}," for name, value in values.items()]
    startup = []
    if redirect is not None:
        imports, moved = _REDIRECTIONS[redirect]
        code = "\n".join([f"import {redirect}", *imports, *(each.strip("\n") for each in moved)])
        startup = [_STARTUP.format(code=code)]
        variables.append("    'PYTHONPATH': startup.name,")
    given = "".join(f"{each}\n" for each in program.lines)
    return [
        *startup,
        "\n".join(["environment = {", "    **os.environ,", *variables, "}"]),
        f"command = {program.command!r}",
        _RUN_PROGRAM.format(given=given),
        "answer, error = program.stdout, program.returncode",
        "print(answer)",
    ]


_STARTUP = """
REDIRECTION = '''
from types import SimpleNamespace
{code}

server = SimpleNamespace(server_address=ADDRESS, server_port=ADDRESS[1])
'''
address = ("127.0.0.1", server.server_port)
startup = tempfile.TemporaryDirectory()  # the program runs this code first, because Python imports it by its name
Path(startup.name, "sitecustomize.py").write_text(f"ADDRESS = {{address}}{{REDIRECTION}}")
"""

_SERVER_URL = "http://127.0.0.1:{server.server_port}"
_RUN_PROGRAM = """program = subprocess.run(
    command, shell=True, env=environment, input={given!r}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
)"""


def _gateway_statements(gateway: ScriptGateway, code: ScriptCode) -> list[str]:
    """Return the statements that send the requests to a gateway. What it returns to the last one is the answer."""
    headers = dict(each.split(": ", 1) for each in gateway.headers)
    lines = [f"    {name!r}: {_value_code(value)}," for name, value in headers.items()]
    asked = [
        f"answer = {code.code(CallCode('ask_gateway', [('', RawCode('url')), ('', RawCode('headers')), ('', each)]))}"
        for each in gateway.bodies
    ]
    return [f"url = {gateway.url!r}", "\n".join(["headers = {", *lines, "}"]), *asked]


def _value_code(value: str) -> str:
    """Return a header's value as code. An environment variable ends it, or no variable is in it."""
    text, _, variable = value.partition("$")
    read = f"os.environ.get({variable!r}, 'none')"
    return repr(value) if not variable else f"{text!r} + {read}" if text else read


def _may_await(logged: LoggedCall) -> bool:
    """Return whether the module of a function or a client has code that awaits."""
    function = logged.function
    owner = type(function.client) if isinstance(function, BoundMethod) else function
    module = inspect.getmodule(owner)
    return module is not None and "await " in source_of(module)


def _continued_list(calls: Sequence[LoggedCall]) -> dict[int, str]:
    """Return the parameter for the list that the last call and earlier ones got, by the index of each such call. A
    script passes the same list to them, because the client changes it.
    """
    names = [name for name, each in calls[-1].kwargs.items() if isinstance(each, ContinuedList)] if calls else []
    found = dict[int, str]()
    for place in reversed(range(len(calls)) if names else ()):
        value = calls[place].kwargs.get(names[0])
        if value is not None:
            found[place] = names[0]
            if not isinstance(value, ContinuedList):
                break
    return found


def _reader(made: Reproduction, code: ScriptCode) -> str:
    """Return the name of the function that a script uses to read the library's return value."""
    own = getattr(made.module, "openai_form", None)
    if own is not None:
        return code.function(own)
    call = made.calls[made.target_call()]
    return "read_chunks" if call.is_stream and call.join is None and call.final_answer is None else "read"


def _end(made: Reproduction, claim: ScriptClaim, returned: str) -> str:
    """Return the end of a script, which checks a claim. `returned` is the expression that reads the claim's value from
    the library's return value.
    """
    value = ScriptCode(None, {}).code(claim.value if claim.subject in ("sent", "answered") else _tuples(claim.value))
    at = (made.finding.exchange or 0) if made.owns_loop else -1
    says = repr(made.says(claim))
    if claim.subject in ("has", "twice"):
        sent = f"sent = json.dumps(received[{at}], ensure_ascii=False)\nprint('sent:', sent)"
        text = json.dumps(claim.value, ensure_ascii=False)[1:-1]
        return _assertion(sent, f"{text!r} in sent" if claim.subject == "has" else f"sent.count({text!r}) == 2", says)
    if claim.subject in _ABOUT_RESULT:
        before, condition = _ABOUT_RESULT[claim.subject]
        return _assertion(before.format(value), condition.format(value), says)
    if claim.subject == "no error" and not made.parsed_exchanges:  # with the fault, nothing is sent
        return f"assert received, {says}"
    if claim.subject in ("error", "no error"):
        return f"assert error is {'None' if claim.subject == 'no error' else 'not None'}, {says}"
    sent, path = f"received[{at}]", "".join(f", {each!r}" for each in claim.path)
    values = {
        **dict.fromkeys(("sent", "unchanged"), f"at({sent}{path})"),
        "answered": f"at({{}} if error else json.loads(answer){path})",
        "status": "status_of(error)",
        "runs": "runs",
    }
    code = values.get(claim.subject) or returned
    if "{count}" in code:
        code = code.format(count=repr(next(iter(claim.path), None)))
    name = "returned" if claim.reads else "got" if claim.subject in ("status", "answered") else "sent"
    right = f"{name} {'==' if claim.is_right else '!='} {value}"
    if claim.subject == "unchanged":
        right = f"{name} == at(received[-2]{path})"
    if claim.subject == "reason":
        right = f"str({name}).lower() in {value}"
    if claim.subject == "whole calls":  # an exception is right, too
        code, right = f"[] if error else {code}", f"error or {right}"
    shown = f"repr({name})" if claim.subject == "text" else name
    return _assertion(f"{name} = {code}\nprint('{name}:', {shown})", right, says)


def _with_shared(statements: list[str], kwargs: Mapping[str, object], code: ScriptCode) -> list[str]:
    """Return the statements. Arguments that several of them share, such as `tools`, are assigned to variables first."""
    shared = list[str]()
    for name, value in kwargs.items():
        text = f"\n    {name}={code.code(value, 4, len(name) + 1)},\n"
        if text.count("\n") > 2 and sum(text in each for each in statements) > 1:
            statements = [each.replace(text, f"\n    {name}={name},\n") for each in statements]
            shared.append(f"{name} = {code.code(value)}")
    return [*shared, *statements]


def _tuples(value: JSON) -> object:
    """Convert the pairs in a list to tuples. Scripts compare calls in this form."""
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


def _assertion(before: str, condition: str, says: str) -> str:
    line = f"{before}\nassert {condition}, {says}"
    is_long = len(line.rpartition("\n")[2]) > _MAX_LINE and "\n" not in condition
    return f"{before}\nassert {condition}, (\n    {says}\n)" if is_long else line


def _caught(statement: str) -> str:
    lines = textwrap.indent(statement, "    ")
    caught = "except Exception as raised:\n    error = raised\n    print('raised:', repr(raised))"
    return f"error = None\ntry:\n{lines}\n{caught}"


_EXCEPTION, _EXCEPTIONS = "class {}(Exception):\n    pass\n", ("ToolFailed", "Unsupported")
_SERVER_IMPORTS = ("import json", "from http.server import ThreadingHTTPServer", "from threading import Thread")
_IMPORTS = {
    "asyncio": "import asyncio",
    "json": "import json",
    "os": "import os",
    "Path": "from pathlib import Path",
    "re": "import re",
    "subprocess": "import subprocess",
    "tempfile": "import tempfile",
    "SimpleNamespace": "from types import SimpleNamespace",
}
"""Word in a script → import that it needs."""


def _sorted_imports(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the imports of the standard library, merged by module, and the other lines in their order."""
    whole, named, others = set[str](), dict[str, set[str]](), list[str]()
    for line in lines:
        module, _, names = line.partition(" import ") if line.startswith("from ") else (line, "", "")
        if (
            not line.startswith(("from ", "import "))
            or line.split()[1].partition(".")[0] not in sys.stdlib_module_names
        ):
            others.append(line)
        elif names:
            named.setdefault(module, set()).update(names.split(", "))
        else:
            whole.add(module)
    merged = [f"{module} import {', '.join(sorted(names))}" for module, names in sorted(named.items())]
    return [*sorted(whole), *merged], list(dict.fromkeys(others))


_HEAD = '''"""{title}

Seen on {today}{versions}. {run}

A server on 127.0.0.1 gives the answers, which harness made, not a provider. With the fault, an assertion fails.
"""

from __future__ import annotations
'''

_START = """
server = ThreadingHTTPServer(("127.0.0.1", {port}), {stub})
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

_COUNT = "print('sent:', len(received), 'requests')"
_ABOUT_RESULT = {
    "shown": ("print('returned:', answer)", "{} in str(answer)"),
    "other": ("returned = error or re.sub(r'\\d+', '0', str(answer))\nprint('returned:', returned)", "returned != {}"),
    "contains": ("returned = str(error or answer)\nprint('returned:', returned)", "{} in returned"),
    "header": ("got = error and error.headers.get({})\nprint('got:', got)", "got"),
    "requests": (_COUNT, "len(received) > {}"),
    "once": (_COUNT, "all(received.count(each) == 1 for each in received)"),
}
"""Subject of a claim → statements that print the value to check, and the condition that a right value meets."""

_LISTED = "[(each['name'], parse(each['args'])) for each in {read}(answer)['calls']]"
_READERS = {
    "calls": _LISTED,
    "whole calls": f"[each for each in {_LISTED} if isinstance(each[1], dict)]",
    "text": "{read}(answer)['text']",
    "usage": "{read}(answer)[{count}]",
    "reason": "{read}(answer)['reason']",
}
"""Subject of a claim → expression that reads its value from the library's return value."""
