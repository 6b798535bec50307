from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.improvised_calls import example_value
from harness.cassettes.loopback_server import serve
from harness.checks import gateway_traffic, recognition
from harness.checks.first_request import is_mismatch
from harness.checks.programs import RETURNED_TEXT, missing_arguments, program_variables
from harness.checks.recognition import recognise, recognise_here
from harness.checks.server_check import ScriptedServer
from harness.cli import try_command, try_program, try_sample, try_server
from harness.cli.try_sample import TrialCheck
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.model.protocols import Adapter
from harness.platform.exceptions import ExceptionOrigin
from harness.platform.files import shipped_folder
from harness.results import RunResult, Verdict
from harness.runner.cells import Cell
from harness.runner.improvised_router import ANSWER, BASE_PATH, ImprovisedRouter
from harness.runner.served_session import SessionOptions
from tests.broken.running import cell
from tests.cli.conftest import Command
from tests.cli.test_reproduce import started
from tests.gateways.toy import Gate, free_port
from tests.wrappers.test_wrappers import STUB

CLIENT = """
import os

import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.model = model
        self.http = httpx2.Client(base_url=base_url, headers={"authorization": f"Bearer {api_key}"}, timeout=60)

    def chat(self, messages, tools=None, **options):
        body = {"model": self.model, "messages": [dict(each) for each in messages], **options}
        if tools:
            body["tools"] = tools
        self.change(body)
        response = self.http.post("chat/completions", json=body)
        response.raise_for_status()
        return response.json()

    def change(self, body):
        pass

    def close(self):
        self.http.close()


class Wrong(Client):
    def change(self, body):
        for message in body["messages"]:
            if message["role"] == "tool":
                message["tool_call_id"] = message["tool_call_id"][:10]
            if message["role"] == "system":
                message["role"] = "user"
        body.pop("response_format", None)


def post(path):
    def chat(messages, base_url, model="m"):
        return httpx2.post(base_url + path, json={"model": model, "messages": messages}).json()
    return chat


completions, doubled, anthropic, versioned, responses, gemini, unknown = map(post, (
    "/chat/completions", "/v1/chat/completions", "/messages", "/v1/messages", "/v1/responses",
    "/v1beta/models/m:generateContent", "/talk",
))


def constant(messages):
    return httpx2.post("https://models.example/api/v1/chat/completions", json={"messages": messages}).json()


def claude(messages, tools):
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    return httpx2.post(url, json={"messages": messages, "tools": tools}).json()


class Groq(Client):
    def __init__(self, model, base_url="https://api.groq.com/openai/v1", api_key="none"):
        super().__init__(base_url, api_key, model)


def mistral(messages):
    return httpx2.post("https://api.mistral.ai/v1/chat/completions", json={"messages": messages}).json()


class Guessed:
    def keep(self, messages):
        raise LookupError("not yet")


class Factory:
    def __init__(self, kind):
        pass

    def run(self, prompt, tools):
        pass


class Steward(Client):
    def ask(self, prompt):
        answer = Client.chat(self, [{"role": "user", "content": prompt}])
        for call in answer["choices"][0]["message"]["tool_calls"]:
            getattr(self, call["function"]["name"])(**json.loads(call["function"]["arguments"]))

    chat = None


def make_groq(base_url, api_key, model):
    return Groq(model, base_url, api_key)


class Versionless:
    def __init__(self, base_url):
        self.base_url = base_url
        if not base_url.rpartition(":")[2].isdigit() and not base_url.endswith(".com"):
            raise ValueError("no path, please")

    def run(self, messages):
        return httpx2.post(self.base_url + "/v1/chat/completions", json={"messages": messages}).json()


def bare(messages, tools, base_url):
    own = [{"type": "function", "name": each["name"], "parameters": each["parameters"]} for each in tools]
    body = {"model": "m", "input": messages, "tools": own}
    return httpx2.post(base_url + "/responses", json=body).json()


def particular(messages, model="m"):
    raise ValueError("no dictionaries")


def strict(messages, base_url):
    return httpx2.post(base_url, json=[each["kind"] for each in messages])


def extract(text, base_url):
    schema = {"type": "json_schema", "json_schema": {"name": "invoice", "schema": {"type": "object"}}}
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "response_format": schema}
    return httpx2.post(base_url + "/chat/completions", json=body).json()["choices"][0]["message"]["content"]


def reporting(messages, base_url):
    httpx2.get("https://reports.example.com/use")
    return httpx2.post(f"{base_url}/chat/completions", json={"model": "gpt", "messages": messages}).json()


def silent(messages, base_url):
    return "I ask nobody."


def drive(endpoint, model, conversation):
    httpx2.post(endpoint.base_url + "/chat/completions", json={"model": model})
"""


TAKES_FUNCTIONS = """
from collections.abc import Callable


def chat(messages, tools: list[Callable]):
    return [each.__name__ for each in tools]
"""


KEYED = """
import os


class Client:
    def __init__(self):
        self.url = os.environ["MY_URL"]
"""


@pytest.fixture(autouse=True)
def time_for_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict does not depend on how busy the machine is."""
    monkeypatch.setattr(try_sample, "_SECONDS", 300.0)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch, in_process: None) -> None:
    """Modules of a test are imported by it alone, and the current folder is no more on the path than for a script."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", ".", str(Path.cwd()))])
    for name in ("own_client", "keyed", "fixed", "asking", "made_here", "takes_functions"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def project(folder: Path, apart: None) -> Path:
    (folder / "own_client.py").write_text(CLIENT)
    (folder / "keyed.py").write_text(KEYED)
    (folder / "asking.py").write_text("print(input())\n")
    (folder / "client.mjs").write_text(JAVASCRIPT_CLIENT)
    (folder / "takes_functions.py").write_text(TAKES_FUNCTIONS)
    (folder / "made_here.py").write_text(
        "import own_client\n\nbot = own_client.Client('https://api.openai.com/v1', '', 'm')\n"
    )
    return folder


def test_three_planted_defects_are_named_in_25_lines(
    harness: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", started)
    done = harness("try", "own_client:Wrong")

    lines = done.out.splitlines()
    assert (done.code, len(lines) <= 25) == (1, True), done.out
    assert (project / ".harness" / "try.json").is_file()
    assert lines[0] == (
        "own_client:Wrong: recognised as a client of openai-chat, called as "
        "own_client:Wrong.chat(messages, tools, response_format)."
    )
    assert lines[1].startswith("Otherwise: --api NAME, --model NAME, or another method")
    for rule in ("result-orphan", "json-mode-ignored", "system-in-message"):
        assert sum(f"({rule}, " in line for line in lines) == 1
    right = next(line for line in lines if line.startswith("   right"))
    sent = next(line for line in lines if line.startswith("   sent"))
    assert "/tool_call_id" in sent
    assert sent.split()[-1].strip(chr(34)) in right
    assert "   see      harness reproduce json-mode --from .harness/try.json" in lines
    more = "More: harness check adapter 'client@openai-chat own_client:Wrong' --model own_client:Wrong=gpt-5.4"
    assert lines[-1] == more
    assert harness("reproduce", "json-mode", "--from", ".harness/try.json").code == 0
    assert (project / "reproduce_json_mode.py").is_file()

    assert harness("init").code == 0
    assert 'adapters = ["client@openai-chat own_client:Wrong"]\nmodels = ' in (project / "pyproject.toml").read_text()
    assert not (project / "my_adapter.py").exists()


def test_a_right_client_passes(harness: Command, project: Path) -> None:
    done = harness("try", "own_client:Client")

    assert done.code == 0, done.out
    assert "Nothing is wrong in the cells that were run." in done.out


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("completions", "client@openai-chat own_client:completions"),
        ("doubled", "client@openai-chat/ own_client:doubled"),
        ("anthropic", "client@anthropic/v1 own_client:anthropic"),
        ("versioned", "client@anthropic own_client:versioned"),
        ("responses", "client@openai-responses/ own_client:responses"),
        ("gemini", "native@gemini own_client:gemini"),
        ("bare", "client@openai-responses own_client:bare"),
        ("constant", "client@openai-chat=https://models.example/api/v1 own_client:constant"),
        ("claude", "native@anthropic=https://api.anthropic.com own_client:claude"),
        ("Versionless", "client@openai-chat=https://api.openai.com own_client:Versionless"),
        ("drive", "drive@openai-chat own_client:drive"),
        ("make_groq", "client@openai-chat own_client:make_groq"),
    ],
)
def test_the_first_request_tells_the_api_and_the_base_url(project: Path, name: str, spec: str) -> None:
    found = recognise_here(f"own_client:{name}")

    assert (found.spec, found.question) == (spec, "")


@pytest.mark.parametrize(
    ("name", "api", "target"),
    [
        ("Groq", "", "groq"),
        ("mistral", "", "mistral"),
        ("Client", "", ""),
        ("Groq", "openai-chat", ""),
        ("claude", "", ""),
    ],
)
def test_a_client_is_judged_as_one_of_the_service_that_it_calls(
    project: Path, name: str, api: str, target: str
) -> None:
    assert recognise_here(f"own_client:{name}", api).service_target == target


RAW = """
import json, socket
from urllib.parse import urlsplit

MADE = []


class Raw:
    def __init__(self, base_url="https://api.groq.com/openai/v1", api_key="", model=""):
        MADE.append(base_url)
        self.url, self.model = urlsplit(base_url), model

    def chat(self, messages):
        body = json.dumps({"model": self.model, "messages": messages}).encode()
        head = f"POST {self.url.path}/chat/completions HTTP/1.1\\r\\nhost: {self.url.netloc}\\r\\n"
        with socket.create_connection((self.url.hostname, self.url.port or 443), 5) as connection:
            connection.sendall(f"{head}content-length: {len(body)}\\r\\n\\r\\n".encode() + body)
            raise RuntimeError(connection.recv(1000).decode())
"""


def test_a_client_whose_requests_cannot_be_intercepted_is_not_called_without_a_base_url(project: Path) -> None:
    (project / "raw_client.py").write_text(RAW)

    found = recognise_here("raw_client:Raw")

    assert (found.spec, found.service_target) == ("client@openai-chat raw_client:Raw", "")
    made = cast("list[str]", vars(sys.modules.pop("raw_client"))["MADE"])
    assert all(each.startswith("http://127.0.0.1:") for each in made)


def test_a_module_may_define_an_object_of_an_imported_class(project: Path) -> None:
    assert "called as made_here:bot.chat(messages, tools" in recognise_here("made_here").sentence


def test_a_library_may_report_its_use_before_its_first_request(project: Path) -> None:
    assert recognise_here("own_client:reporting").spec == "client@openai-chat own_client:reporting"


def test_the_sample_is_run_with_the_service_that_a_client_calls(harness: Command, project: Path) -> None:
    done = harness("try", "own_client:Groq")

    assert done.code == 0, done.out
    assert "recognised as a client of openai-chat at groq, which it calls by default" in done.out
    assert done.out.splitlines()[-1] == "More: harness check adapter 'client@openai-chat own_client:Groq' --target groq"


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("own_client:unknown", "its first request goes to /v1/talk, which is a path of no known API"),
        ("own_client:silent", "it sent no request. Its HTTP client must be one of httpx, requests"),
        ("own_client:strict", "it sent no request (UnknownKeyError: 'kind' (own_client.py, line"),
        ("own_client:particular", "it sent no request (ValueError: no dictionaries (own_client.py, line"),
        ("own_client:strict", "How is it called? Write a function 'def chat(messages, tools=None)' that calls it and"),
        ("own_client:httpx2", "its first request goes to /v1, which is a path of no known API. If it is the path"),
        ("own_client:Missing", "module 'own_client' has no attribute 'Missing'"),
        ("own_client", "which object in it is the client? harness try own_client:Client or harness try own_client:Wr"),
        (
            "httpx2",
            "httpx2 is a library without a wrapper ('harness list wrappers'). Write a function that calls it, in",
        ),
        ("import-linter", "importlinter is a library without a wrapper"),
        (
            "own_client:Guessed",
            "own_client:Guessed.keep(messages) does not (LookupError: not yet (own_client.py, line ",
        ),
        ("own_client:Factory", "its constructor needs kind"),
        ("takes_functions.py", "takes functions as tools. Does it run them itself? If so, name a program"),
        (
            "own_client:Steward",
            "own_client:Steward looks like a tool loop, but how it gets its tools is not clear. Write a loop of about",
        ),
        (
            "openai",
            "('harness list wrappers'). Which part of it do you use? harness try openai:OpenAI or harness try openai:",
        ),
        (
            "nowhere",
            "nowhere is neither a known name nor a module (a library must be installed where harness is). Name",
        ),
        (
            "keyed",
            "keyed:Client needs the environment variable MY_URL. Set it: MY_URL=https://api.openai.com/v1 harness",
        ),
        ("http://127.0.0.1:9/v1", "nothing answers there"),
        (".", ". is a folder. Name the file of your client in it, or its module."),
        ("lost.py:Client", "lost.py: no such file in "),
        ("lost.mjs:Client", "lost.mjs: no such file in "),
        ("client.mjs:Client", "Instead, write a program that calls it, such as my_program.mjs, and name that: harness"),
        ("127.0.0.1:8000/v1", "is it a server? Then: harness try http://127.0.0.1:8000/v1"),
        ("localhost:8000", "is it a server? Then: harness try http://localhost:8000"),
        (
            "asking.py",
            "asking.py, line 1). Or is it a program? harness try --command 'python asking.py'",
        ),
    ],
)
def test_what_is_not_recognised_gets_one_question(harness: Command, project: Path, name: str, question: str) -> None:
    done = harness("try", name)

    assert (done.code, done.out) == (2, "")
    assert question in done.err
    assert "Traceback" not in done.err


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_file_in_javascript_is_run(harness: Command, project: Path) -> None:
    (project / "caller.mjs").write_text(CALLER, encoding="utf-8")
    program, client = harness("try", "caller.mjs"), harness("try", "client.mjs")

    assert program.code == 0, program.out
    assert program.out.startswith("node caller.mjs: recognised as a program that calls a model")
    assert (client.code, client.out) == (2, "")
    assert "client.mjs: it sent no request to OPENAI_BASE_URL" in client.err
    assert "write a program that calls it, such as my_program.mjs, and name that: harness try" in client.err


CALLER = """
import { Client } from "./client.mjs";
const answer = await new Client().ask([{ role: "user", content: "Hello" }]);
if (answer.finish_reason !== "stop") throw new Error(`incomplete: ${answer.finish_reason}`);
console.log(answer.message.content);
"""

JAVASCRIPT_CLIENT = """
export class Client {
  async ask(messages) {
    const init = { method: "POST", headers: { "content-type": "application/json", authorization: "Bearer none" } };
    const body = JSON.stringify({ model: "gpt-5.4-mini", messages });
    const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, { ...init, body });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()).choices[0];
  }
}
"""

PROGRAM = """
import json, os, sys, urllib.error, urllib.request

if "quiet" in sys.argv:
    sys.excepthook = lambda *_: os._exit(0)
base_url = os.environ["READER_ENDPOINT" if "own" in sys.argv else "OPENAI_BASE_URL"]
messages = [{"role": "system", "content": "You read files."}, {"role": "user", "content": "Read it."}]
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools = [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": schema}}]
while True:
    sent = messages[1:] if "drop" in sys.argv and len(messages) > 2 else messages
    if "repeat" in sys.argv:
        sent[0]["content"] += "\\nRead each file once."
    if "change" in sys.argv:
        sent[0]["content"] = f"You read files. {len(messages)} messages so far."
    limit = {"max_tokens": 500} if "limit" in sys.argv else {}
    request = urllib.request.Request(
        base_url + "/chat/completions",
        json.dumps({"model": "gpt-5.4", "messages": sent, "tools": tools, **limit}).encode(),
        {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"},
    )
    try:
        answer = json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        if "retry" in sys.argv:
            sys.argv.remove("retry")
            continue
        if "adapt" in sys.argv:
            sys.argv.remove("adapt")
            messages[0]["content"] = "You read."
            continue
        if "ignore" in sys.argv:
            break
        if "report" in sys.argv:
            print(error)
            break
        raise
    message = answer["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    if "ask" in sys.argv and input("Read it? [y/N] ") != "y":
        sys.exit("stopped")
    for call in message["tool_calls"]:
        if call["function"]["name"] != "read" and not {"skip", "stop"}.isdisjoint(sys.argv):
            if "stop" in sys.argv:
                sys.exit("unknown tool")
            continue
        own = message["tool_calls"][0]["id"] if "swap" in sys.argv else call["id"]
        arguments = call["function"]["arguments"]
        if "mend" in sys.argv and not arguments.endswith("}"):
            call["function"]["arguments"] = arguments = '{"path": "mended"}'
        if "catch" in sys.argv and not arguments.endswith("}"):
            messages.append({"role": "tool", "tool_call_id": own, "content": "Error: the arguments are no JSON."})
            continue
        path = json.loads(arguments).get("path")
        if "order" in sys.argv:
            other = next((each for each in message["tool_calls"] if each != call), call)
            path = json.loads(other["function"]["arguments"]).get("path")
        if "join" in sys.argv:
            path = [json.loads(each["function"]["arguments"]).get("path") for each in message["tool_calls"]]
        content = "[object Object]" if "print" in sys.argv else f"text of {path}"
        if "last" in sys.argv:
            content = "text of " + json.loads(message["tool_calls"][-1]["function"]["arguments"])["path"]
        if "ascii" in sys.argv:
            content = content.encode("ascii", "ignore").decode()
        if "upper" in sys.argv:
            content = content.upper()
        if "encode" in sys.argv:
            content = json.dumps(json.dumps({"path": path}))
        messages.append({"role": "tool", "tool_call_id": own, "content": content})
print("Done.")
if "show" in sys.argv:
    print(message["content"])
if "exit" in sys.argv and answer["choices"][0]["finish_reason"] == "length":
    sys.exit("The answer is incomplete.")
"""


def test_a_program_may_stop_without_the_consent_of_its_user(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)

    done = harness("try", "--command", f"{sys.executable} program.py ask")

    assert (done.code, "script-unplayed" in done.out) == (2, False), done.out
    assert "UNFINISHED  it asks whether a tool may run, and ended without consent" in done.out


def test_results_of_a_program_show_lost_letters_and_other_calls(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    last = harness("try", "--command", f"{sys.executable} program.py last")
    assert "is answered with the result of another call" in " ".join(last.out.split())
    for way in ("ascii", "ascii upper"):
        stripped = harness("try", "--command", f"{sys.executable} program.py {way}")
        assert "the result of read has a text of its call without its letters that are not ASCII" in stripped.out


def test_a_program_may_answer_a_call_that_was_cut_off_with_an_error(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)

    done = harness("try", "--command", f"{sys.executable} program.py catch")

    assert (done.code, "cut-call-answered" in done.out) == (0, False), done.out


CHATTING = """
import json, os, sys, urllib.request

system = {"role": "system", "content": "You answer questions."}
messages = [] if "again" in sys.argv else [system]
for line in sys.stdin:
    messages += [*([system] if "again" in sys.argv else []), {"role": "user", "content": line.strip()}]
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "gpt-5.4", "messages": messages}).encode(),
        {"authorization": "Bearer none", "content-type": "application/json"},
    )
    choice = json.load(urllib.request.urlopen(request))["choices"][0]
    messages.append(choice["message"])
    print(choice["message"]["content"], choice["finish_reason"])
"""


def test_a_program_that_reads_questions_gets_two(harness: Command, project: Path) -> None:
    (project / "chatting.py").write_text(CHATTING, encoding="utf-8")
    right = harness("try", "--command", f"{sys.executable} chatting.py")
    again = harness("try", "--command", f"{sys.executable} chatting.py again")

    assert right.code == 0, right.out
    assert "the system prompt is repeated in this request (loop-system, 1 cell)" in " ".join(again.out.split())


def test_a_given_api_overrides_the_recognised_one(harness: Command, project: Path) -> None:
    done = harness("try", "own_client:Wrong", "--api", "openai-responses")

    assert "own_client:Wrong: recognised as a client of openai-responses, because of --api." in done.out
    assert "harness check adapter 'client@openai-responses own_client:Wrong'" in done.out


@pytest.fixture
def without_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the subject is recognised."""
    monkeypatch.setattr(try_command, "play_check", lambda *_: 0)


@pytest.fixture
def first_cells_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for the sample is up at once, as if loading had taken it."""
    monkeypatch.setattr(try_sample, "_SECONDS", 0.0)
    monkeypatch.setattr(try_sample, "_LEAST_SECONDS", 0.0)


@pytest.mark.usefixtures("without_run")
@pytest.mark.parametrize("name", ["openai-chat", "tests.examples.plain_http:ADAPTER"])
def test_an_adapter_declares_its_api_itself(harness: Command, folder: Path, in_process: None, name: str) -> None:
    done = harness("try", name)
    refused = harness("try", name, "--api", "anthropic")

    assert done.out.splitlines()[1] == "Otherwise: the MODULE:ATTRIBUTE of another object, or --model NAME."
    assert (refused.code, refused.out) == (2, "")
    assert "--api anthropic: an adapter declares its API itself. Leave the option out." in refused.err


VENDORS = """
import httpx2


class Client:
    PATHS = {"openai": "/chat/completions", "anthropic": "/messages"}

    def __init__(self, vendor, base_url, model, api_key=""):
        self.url, self.model = base_url + self.PATHS[vendor], model

    def chat(self, messages):
        return httpx2.post(self.url, json={"model": self.model, "messages": messages}).json()
"""


@pytest.mark.usefixtures("apart", "without_run")
def test_the_provider_of_a_client_for_several_is_named_and_may_be_chosen(harness: Command, folder: Path) -> None:
    (folder / "vendors.py").write_text(VENDORS)

    first = harness("try", "vendors:Client")
    other = harness("try", "vendors:Client", "--api", "anthropic")

    assert ", with the provider 'openai' (another one: --api anthropic).\n" in first.out
    assert ", with the provider 'anthropic' (another one: --api openai-chat).\n" in other.out
    assert "harness check adapter 'client@anthropic/v1 vendors:Client'" in other.out


TWO_PROVIDERS = """
import httpx2


class Both:
    def __init__(self, provider="openai", base_url=""):
        self.provider, self.base_url = provider, base_url

    def chat(self, messages):
        if self.provider == "openai":
            answer = self.post("/chat/completions", {"model": "gpt-4.1", "messages": messages})
            return {"content": answer["choices"][0]["message"]["content"]}
        if self.provider == "anthropic":
            others = [each for each in messages if each["role"] != "system"]
            body = {"model": "claude-haiku-4-5", "max_tokens": 500, "messages": others}
            answer = self.post("/v1/messages", body)
            return {"content": "".join(each["text"] for each in answer["content"])}

    def post(self, path, body):
        done = httpx2.post(self.base_url + path, json=body, headers={"anthropic-version": "2023-06-01"})
        done.raise_for_status()
        return done.json()
"""


@pytest.mark.usefixtures("apart", "fewer_scenarios")
def test_each_provider_of_a_client_is_tried(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", started)
    (folder / "two_providers.py").write_text(TWO_PROVIDERS)
    found = "1  the request has no system prompt where the API expects it (system-missing, 1 cell)"
    others = "The sample was also run with --api anthropic."

    first = harness("try", "two_providers:Both", "--api", "openai-chat")
    both = harness("try", "two_providers:Both")
    [command] = (line.split() for line in both.out.splitlines() if "harness reproduce" in line)

    assert (first.code, found in first.out, others in first.out) == (0, False, False), first.out
    assert (both.code, found in both.out, others in both.out) == (1, True, True), both.out
    assert command[3:] == ["system-changed", "--target", "two_providers:Both@anthropic", "--from", ".harness/try.json"]
    assert harness(*command[2:]).code == 0
    assert (folder / "reproduce_system_changed.py").is_file()


@pytest.mark.usefixtures("apart", "fewer_scenarios")
def test_each_provider_of_a_client_that_chooses_it_by_the_model_is_tried(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", started)
    chosen = 'self.provider, self.base_url = "anthropic" if model.startswith("claude") else "openai", base_url'
    code = TWO_PROVIDERS.replace('provider="openai"', 'model="gpt-4.1"').replace(
        "self.provider, self.base_url = provider, base_url", f"{chosen}\n        self.model = model"
    )
    code = re.sub(r'"model": "[\w.-]+"', '"model": self.model', code)
    (folder / "two_models.py").write_text(code)

    both = harness("try", "two_models:Both")

    assert both.code == 1, both.out
    assert "1  the request has no system prompt where the API expects it (system-missing, 1 cell)" in both.out
    assert "The sample was also run with --api anthropic." in both.out


@pytest.fixture
def fewer_scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_sample.TrialCheck, "select_cells", _fewer(try_sample.TrialCheck.select_cells))


def _fewer(select: Callable[..., Sequence[Cell]]) -> Callable[..., Sequence[Cell]]:
    wanted = ("system-plain", "system-changed")
    return lambda check, cells: [each for each in select(check, cells) if each.scenario.id in wanted]


@pytest.mark.usefixtures("apart", "without_run")
def test_the_api_of_a_loop_may_be_corrected(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "own_agent", raising=False)
    (folder / "own_agent.py").write_text(KEYED_AGENT)
    correction = "Otherwise: --api NAME, --model NAME, or the MODULE:CLASS.METHOD that sends one request."

    for options in ((), ("--api", "anthropic")):
        right = harness("try", "own_agent:Agent", *options)
        assert "recognised as a tool loop of anthropic" in right.out.splitlines()[0]
        assert right.out.splitlines()[1] == correction
    wrong = harness("try", "own_agent:Agent", "--api", "openai-chat")
    assert wrong.out.splitlines()[:2] == [
        "own_agent:Agent: recognised as a tool loop of openai-chat, because of --api.",
        correction,
    ]
    assert wrong.out.splitlines()[-1] == "More: harness check agent own_agent:Agent --api openai-chat"


@pytest.mark.usefixtures("apart", "without_run")
@pytest.mark.skipif(find_spec("litellm") is not None, reason="the real library is installed: tests.wrappers plays it")
def test_the_api_selects_an_adapter_of_a_library(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("litellm", "harness.wrappers.litellm"):  # what has loaded the stub goes with this test
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]
    (folder / "litellm.py").write_text(STUB)
    monkeypatch.syspath_prepend(folder)

    first = harness("try", "litellm")
    chosen = harness("try", "litellm", "--api", "anthropic")
    unknown = harness("try", "litellm", "--api", "openai-responses")

    assert first.out.splitlines()[:2] == [
        "litellm: recognised as the library litellm, through the wrapper harness.wrappers.litellm:OPENAI.",
        "Otherwise: --api NAME, --model NAME, another name of 'harness list wrappers', or your MODULE:ATTRIBUTE.",
    ]
    assert "through the wrapper harness.wrappers.litellm:ANTHROPIC." in chosen.out
    assert chosen.out.splitlines()[-1] == "More: harness check adapter litellm-anthropic"
    assert (unknown.code, unknown.out) == (2, "")
    assert "--api openai-responses: the wrapper of litellm has openai-chat, anthropic, gemini." in unknown.err


@pytest.mark.usefixtures("first_cells_only")
def test_the_first_cells_run_even_if_loading_took_all_the_time(harness: Command, project: Path) -> None:
    done = harness("try", "own_client:Client")

    cells = json.loads((project / ".harness" / "try.json").read_text())["cells"]
    assert [each["scenario"] for each in cells][:3] == ["call-parallel-same-tool", "system-changed", "json-mode"]
    assert "The time is up: 4 of the sample's " in done.out
    assert " cells were run, because loading took " in done.out
    assert "UNFINISHED  too few cells were run to tell" in done.out


SLOW_CLIENT = (
    CLIENT
    + """

import time


class Slow(Client):
    def change(self, body):
        if body.get("response_format"):
            time.sleep(60)
"""
)


def test_a_cell_that_takes_too_long_is_stopped(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_sample, "_SECONDS", 0.0)
    monkeypatch.setattr(try_sample, "_LEAST_SECONDS", 0.0)
    (folder / "slow_client.py").write_text(SLOW_CLIENT)
    began = time.monotonic()

    done = harness("try", "slow_client:Slow")

    assert re.search(r"The time is up: [0-2] of the sample's \d\d ", done.out), done.out
    assert time.monotonic() - began < 40


READING = """
import httpx2

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}

def read_recipe(page: str, *, base_url, api_key="none", model="gpt-4.1"):
    form = {"type": "json_schema", "json_schema": {"name": "recipe", "schema": SCHEMA}}
    body = {"model": model, "messages": [{"role": "user", "content": page}], "response_format": form}
    headers = {"authorization": "Bearer " + api_key}
    answer = httpx2.post(base_url + "/chat/completions", json=body, headers=headers)
    CHECK
    return answer.json()["choices"][0]["message"]["content"]
"""


@pytest.mark.parametrize(
    ("check", "code", "text"),
    [
        ("answer.raise_for_status()", 0, "Nothing is wrong"),
        ("if answer.status_code != 200: return ''", 1, "answered with an error (status 400)"),
    ],
)
def test_a_function_with_an_answer_format_of_its_own_is_run_as_a_program(
    harness: Command, folder: Path, check: str, code: int, text: str
) -> None:
    (folder / "reading.py").write_text(READING.replace("CHECK", check))

    done = harness("try", "reading:read_recipe")

    assert done.code == code, done.out + done.err
    assert "recognised as code of openai-chat with an answer format of its own" in done.out
    assert text in done.out


CHAT = """
import json, os, sys, urllib.request

body = {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hello."}]}
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
choice = answer["choices"][0]
text, is_cut = choice["message"]["content"], choice["finish_reason"] == "length"
match sys.argv[1]:
    case "marks" if is_cut:
        print(text, "[...]")
    case "warns" if is_cut:
        print(text)
        print("The answer is incomplete.", file=sys.stderr)
    case "raw":
        print(json.dumps(choice))
    case "counts":
        print(len(text))
    case _:
        print("Assistant: " + text)
"""


@pytest.mark.parametrize(
    ("way", "is_found"), [("plain", True), ("marks", False), ("warns", False), ("raw", False), ("counts", False)]
)
def test_a_program_tells_its_user_if_an_answer_is_cut_off(
    harness: Command, folder: Path, way: str, is_found: bool
) -> None:
    (folder / "chat.py").write_text(CHAT)

    done = harness("try", "--command", f"{sys.executable} chat.py {way}")

    assert done.code == 0
    assert ("(loop-stop-reason, 1 cell)" in done.out, "Nothing is wrong" in done.out) == (is_found, not is_found)


OWN_TOOLS = """
import httpx2

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

class Finder:
    def __init__(self, base_url, api_key="", model="gpt-4.1"):
        self.url, self.model = base_url + "/chat/completions", model
        self.headers = {"authorization": f"Bearer {api_key}"}

    def find(self, question):
        messages = [{"role": "user", "content": question}]
        for _ in range(5):
            body = {"model": self.model, "messages": messages, "tools": [LOOK]}
            answer = httpx2.post(self.url, json=body, headers=self.headers)
            answer.raise_for_status()
            choice = answer.json()["choices"][0]
            CHECK
            messages.append(choice["message"])
            calls = choice["message"].get("tool_calls") or []
            if not calls:
                return choice["message"]["content"]
            messages += [{"role": "tool", "tool_call_id": each["id"], "content": "It is here."} for each in calls]
        raise RuntimeError("no answer")
"""


def test_code_with_tools_of_its_own_may_get_its_model_from_the_environment(harness: Command, folder: Path) -> None:
    code = OWN_TOOLS.replace("CHECK", "pass").replace('model="gpt-4.1"', "model=None")
    (folder / "finding.py").write_text(code)

    done = harness("try", "finding:Finder")

    assert "PASS" in done.out, done.out + done.err


OWN_TOOLS_OF_TWO = """
import os
import httpx2

LOOK = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}

class Guide:
    def __init__(self, provider=None, model=None, base_url=None, api_key=None):
        self.provider = provider or os.environ.get("GUIDE_PROVIDER", "openai")
        self.headers = {"authorization": f"Bearer {api_key}", "x-goog-api-key": api_key}
        if self.provider == "openai":
            self.url, self.model = base_url + "/chat/completions", model or "gpt-4.1"
        elif self.provider == "gemini":
            self.url = f"{base_url.removesuffix('/v1')}/v1beta/models/{model or 'gemini-3-pro'}:generateContent"

    def tell(self, question):
        messages = [question]
        for _ in range(5):
            if self.provider == "openai":
                body = {"model": self.model, "messages": [one for each in messages for one in as_chat(each)]}
                body["tools"] = [{"type": "function", "function": LOOK}]
                choice = self._post(body)["choices"][0]
                answer, reason = choice["message"], choice["finish_reason"]
                text, calls = answer["content"], [each["id"] for each in answer.get("tool_calls") or []]
            else:
                contents = [as_content(each) for each in messages]
                body = {"contents": contents, "tools": [{"functionDeclarations": [LOOK]}]}
                [candidate] = self._post(body)["candidates"]
                answer, reason = candidate["content"], candidate["finishReason"]
                parts = [KEPT for part in answer["parts"]]
                answer = {**answer, "parts": parts}
                calls = [part["functionCall"].get("id") for part in parts if "functionCall" in part]
                text = "".join(part.get("text", "") for part in parts)
            if reason in ("length", "MAX_TOKENS"):
                raise RuntimeError("the answer is truncated")
            messages.append(answer)
            if not calls:
                return text
            messages.append([(each, "It is here.") for each in calls])

    def _post(self, body):
        done = httpx2.post(self.url, json=body, headers=self.headers)
        done.raise_for_status()
        return done.json()


def as_chat(message):
    if isinstance(message, list):
        return [{"role": "tool", "tool_call_id": each, "content": result} for each, result in message]
    return [{"role": "user", "content": message} if isinstance(message, str) else message]


def as_content(message):
    if isinstance(message, list):
        results = [{"id": each, "name": "look", "response": {"output": result}} for each, result in message]
        return {"role": "user", "parts": [{"functionResponse": each} for each in results]}
    return {"role": "user", "parts": [{"text": message}]} if isinstance(message, str) else message
"""


@pytest.mark.parametrize(("kept", "is_lost"), [("part", False), ("without_signature(part)", True)])
def test_code_with_tools_of_its_own_is_run_with_each_provider(
    harness: Command, folder: Path, kept: str, is_lost: bool
) -> None:
    code = OWN_TOOLS_OF_TWO.replace("KEPT", kept)
    code += "\n\ndef without_signature(part):\n    return {k: v for k, v in part.items() if k != 'thoughtSignature'}\n"
    (folder / "guiding.py").write_text(code)

    done = harness("try", "guiding:Guide")

    assert ", with the provider 'openai' (another one: --api gemini)" in done.out, done.out + done.err
    assert "The first conversation was also run with --api gemini." in done.out
    assert (done.code, "(opaque-state-lost," in done.out) == (int(is_lost), is_lost), done.out


RETURNS_FIELDS = "if not choice['message'].get('tool_calls'): return {'answer': choice['message']['content'], "


@pytest.mark.parametrize(
    ("check", "is_found"),
    [
        ("pass", True),
        ("if choice['finish_reason'] == 'length': raise RuntimeError('truncated')", False),
        ("self.reason = choice['finish_reason']", False),
        (f"{RETURNS_FIELDS}'tokens': answer.json()['usage']['completion_tokens']}}", True),
        (f"{RETURNS_FIELDS}'finish_reason': choice['finish_reason']}}", False),
    ],
)
def test_code_with_tools_of_its_own_tells_its_caller_if_an_answer_is_cut_off(
    harness: Command, folder: Path, check: str, is_found: bool
) -> None:
    (folder / "finding.py").write_text(OWN_TOOLS.replace("CHECK", check))

    done = harness("try", "finding:Finder")

    assert "code of openai-chat with tools of its own" in done.out, done.out + done.err
    assert ("but the call returned it like a complete one" in done.out) == is_found
    assert RETURNED_TEXT not in done.err


BLOCKS = """
import json, os, sys, textwrap, urllib.request

limit = int(os.environ.get("OWN_MAX_TOKENS", "900"))
body = {"model": "claude-haiku-4-5", "max_tokens": limit, "messages": [{"role": "user", "content": "Hello."}]}
headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
texts = [each["text"] for each in answer["content"]]
if answer["stop_reason"] == "max_tokens" and sys.argv[1] != "hide":
    sys.exit("The answer is incomplete.")
match sys.argv[1]:
    case "first":
        print(texts[0])
    case "last":
        print(texts[-1])
    case "wrapped":
        print("".join(f"\\x1b[1m{each}\\x1b[0m\\n" for each in textwrap.wrap("".join(texts), 25)))
    case "raw":
        print("Done. The answer is 42." if len(texts) == 1 else json.dumps(answer["content"]))
    case "counts":
        print("Done. The answer is 42." if len(texts) == 1 else len("".join(texts)))
    case "reversed":
        print("\\n".join(texts[::-1]))
    case _:
        print("".join(f"\\x1b[1m{each}\\x1b[0m" for each in "".join(texts).partition("answer")))
"""


@pytest.mark.parametrize(
    ("way", "found"),
    [
        ("all", ""),
        ("wrapped", ""),
        ("raw", ""),
        ("counts", ""),
        ("reversed", ""),
        ("first", "printed only the first one (loop-answer, 1 cell)"),
        ("last", "printed only the second one (loop-answer, 1 cell)"),
        ("hide", "(loop-stop-reason, 1 cell)"),
    ],
)
def test_a_program_prints_all_parts_of_an_answer(harness: Command, folder: Path, way: str, found: str) -> None:
    (folder / "blocks.py").write_text(BLOCKS)

    done = harness("try", "--command", f"{sys.executable} blocks.py {way}")

    assert (found or "Nothing is wrong") in done.out, done.out + done.err
    assert done.code == ("loop-answer" in found)


def test_a_first_defect_does_not_hide_that_an_answer_is_cut_off(harness: Command, folder: Path) -> None:
    limited = CHAT.replace('"gpt-5.4", ', '"gpt-5.4", "max_tokens": 500, ')
    (folder / "chat.py").write_text(limited)

    done = harness("try", "--command", f"{sys.executable} chat.py plain")

    assert "(openai-chat-max-tokens, " in done.out
    assert "(loop-stop-reason, 1 cell)" in done.out


def test_the_answer_after_a_result_may_be_cut_off(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)

    shown = harness("try", "--command", f"{sys.executable} program.py show")
    assert (shown.code, "(loop-stop-reason, 1 cell)" in shown.out) == (0, True), shown.out
    failed = harness("try", "--command", f"{sys.executable} program.py show exit")
    assert (failed.code, "Nothing is wrong" in failed.out) == (0, True), failed.out


STREAMING = """
import json, os, sys, urllib.request

body = {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hello."}], "stream": True}
headers = {"authorization": "Bearer none", "content-type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
way = sys.argv[1]

def ask():
    failed, used = False, 0
    for line in urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)):
        if line.startswith(b"data: {"):
            event, used = json.loads(line[6:]), used + 1
            failed |= "error" in event
            for choice in event.get("choices", []) if way != "silent" else []:
                print(choice["delta"].get("content") or "", end="", flush=True)
                if choice["finish_reason"] == "length":
                    sys.exit("The answer is incomplete.")
    print()
    print(f"[{used} events]", file=sys.stderr)
    return failed

failed = ask()
if way == "counts":
    print(f"[{failed:d} errors]")
if failed and way == "repeats":
    ask()
elif failed and way == "words":
    print("The connection was lost.")
elif failed and way == "exits":
    sys.exit(3)
"""


@pytest.mark.parametrize(
    ("way", "is_found"),
    [("hides", True), ("repeats", False), ("words", False), ("counts", False), ("exits", False), ("silent", False)],
)
def test_a_program_reports_an_error_inside_a_stream(harness: Command, folder: Path, way: str, is_found: bool) -> None:
    (folder / "chat.py").write_text(STREAMING)

    done = harness("try", "--command", f"{sys.executable} chat.py {way}")

    assert (done.code, "(chat-failure, 1 cell)" in done.out) == (int(is_found), is_found), done.out + done.err
    assert ("the stream of the answer ended with an error" in done.out) == is_found


def test_a_program_may_send_another_request_after_an_error_but_not_the_same(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)

    repeated = harness("try", "--command", f"{sys.executable} program.py retry retry")
    assert (repeated.code, "chat-failure" in repeated.out) == (0, False), repeated.out
    assert "the same request is sent 2 more times after status 400 (loop-retry, 1 cell)" in repeated.out
    hidden = harness("try", "--command", f"{sys.executable} program.py retry ignore")
    assert hidden.code == 1
    assert "(chat-failure, 1 cell)" in hidden.out
    assert "(loop-retry, 1 cell)" in hidden.out
    endless = harness("try", "--command", f"{sys.executable} program.py {'retry ' * 12}")
    assert (endless.code, "(loop-retry, 1 cell)" in endless.out) == (1, True), endless.out
    adapted = harness("try", "--command", f"{sys.executable} program.py adapt")
    assert (adapted.code, "Nothing is wrong" in adapted.out) == (0, True), adapted.out


WORDED = """
import httpx2

def translate(text: str, base_url, model="gpt-4.1"):
    body = {"model": model, "messages": [{"role": "user", "content": "In German: " + text}]}
    answer = httpx2.post(base_url + "/chat/completions", json=body, headers={"authorization": "Bearer none"})
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]
"""


def test_a_client_may_put_words_around_its_prompt(harness: Command, folder: Path) -> None:
    (folder / "worded.py").write_text(WORDED)

    done = harness("try", "worded:translate")

    assert done.code == 0, done.out + done.err
    assert "--ignore text-changed" in done.out


def test_a_function_that_needs_a_schema_gets_one(harness: Command, folder: Path) -> None:
    code = READING.replace("CHECK", "answer.raise_for_status()")
    code = code.replace("(page: str, *,", "(page: str, schema, *,").replace('"schema": SCHEMA', '"schema": schema')
    (folder / "reading.py").write_text(code)

    done = harness("try", "reading:read_recipe")

    assert done.code == 0, done.out + done.err
    assert "starter" in done.err


STRIPPED = "{**schema, 'properties': {name: {'type': 'string'} for name in schema['properties']}}"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"content": page', '"content": page.encode("ascii", "replace").decode()', "(text-changed, 1 cell)"),
        ('"content": page', '"content": page[:20]', "Nothing is wrong"),
        ('"schema": SCHEMA', f'"schema": {STRIPPED}', "the schema that it was given lost its enumeration"),
        ('"schema": SCHEMA', '"schema": {**schema, "title": "Recipe"}', "Nothing is wrong"),
    ],
)
def test_code_that_is_run_as_a_program_sends_what_it_is_given(
    harness: Command, folder: Path, old: str, new: str, text: str
) -> None:
    code = READING.replace("CHECK", "answer.raise_for_status()").replace(old, new)
    (folder / "reading.py").write_text(
        code.replace("(page: str, *,", "(page: str, schema, *,") if "schema" in new else code
    )

    done = harness("try", "reading:read_recipe")

    assert text in done.out, done.out + done.err


def test_a_program_that_was_stopped_has_an_unknown_end(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(try_program, "_PROGRAM_SECONDS", 3.0)
    monkeypatch.setattr(try_program, "_MIN_PROGRAM_SECONDS", 1.0)
    (folder / "program.py").write_text(
        PROGRAM.replace("    message = answer", "    time.sleep(60)\n    message = answer")
    )
    (folder / "program.py").write_text("import time\n" + (folder / "program.py").read_text())

    done = harness("try", "--command", f"{sys.executable} program.py")

    assert (done.code, "script-unplayed" in done.out) == (2, False), done.out
    assert "UNFINISHED  it was stopped after 3 seconds, before it had all answers" in done.out


def test_a_program_runs_with_its_own_prompts_and_tools(harness: Command, folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)

    right = harness("try", "--command", f"{sys.executable} program.py")
    assert right.code == 0, right.out
    assert "recognised as a program that calls a model; 4 conversations run.\nOtherwise: " in right.out
    skipped = harness("try", "--command", f"{sys.executable} program.py skip")
    assert "must be followed by tool messages" in skipped.out
    stopped = harness("try", "--command", f"{sys.executable} program.py stop")
    assert (stopped.code, "4 conversations run" in stopped.out) == (0, True), stopped.out

    wrong = harness("try", "--command", f"{sys.executable} program.py swap")
    assert wrong.code == 1
    assert "of read is answered more than once, and the call" in wrong.out
    assert "4 conversations run, then it ended with exit code 1" in wrong.out

    quiet = harness("try", "--command", f"{sys.executable} program.py swap quiet own")
    assert quiet.code == 1
    assert "recognised as a program that calls a model; 4 conversations run.\n" in quiet.out

    limited = harness("try", "--command", f"{sys.executable} program.py limit swap")
    assert limited.code == 1
    assert "(openai-chat-max-tokens, " in limited.out
    assert "of read is answered more than once, and the call" in limited.out
    mended = harness("try", "--command", f"{sys.executable} program.py limit")
    assert "(openai-chat-max-tokens, " in mended.out
    assert "\n2  " not in mended.out

    dropped = harness("try", "--command", f"{sys.executable} program.py drop")
    assert dropped.code == 1
    assert "the system prompt of the first request is left out here (" in dropped.out
    assert harness("try", "--command", f"{sys.executable} program.py change").code == 0
    repeated = harness("try", "--command", f"{sys.executable} program.py repeat")
    assert "the system prompt is repeated in this request (loop-system, " in repeated.out

    printed = harness("try", "--command", f"{sys.executable} program.py print order")
    assert "the result of read is the name of an object, without its content (result-changed, " in printed.out
    encoded = harness("try", "--command", f"{sys.executable} program.py encode")
    assert "the result of read is encoded as JSON twice (result-changed, " in encoded.out
    ordered = harness("try", "--command", f"{sys.executable} program.py order")
    assert "of read is answered with the result of another call" in ordered.out
    assert "(result-swapped, 1 cell)" in " ".join(ordered.out.split())
    ignored = harness("try", "--command", f"{sys.executable} program.py ignore")
    assert ignored.code == 1
    assert "ended with exit code 0 and reported nothing (chat-failure, 1 cell)" in " ".join(ignored.out.split())
    assert harness("try", "--command", f"{sys.executable} program.py report").code == 0

    mended_call = harness("try", "--command", f"{sys.executable} program.py mend")
    assert mended_call.code == 1
    assert "(cut-call-answered, 1 cell)" in " ".join(mended_call.out.split()), mended_call.out
    joined = harness("try", "--command", f"{sys.executable} program.py join")
    assert "of read get the same text, with the results of both" in " ".join(joined.out.split())

    silent = harness("try", "--command", "true")
    assert silent.code == 2
    assert "it sent no request to OPENAI_BASE_URL" in silent.err
    adapter = harness("try", "--command", f"{sys.executable} -m harness.stdio tests.examples.plain_http:ADAPTER")
    assert "recognised as an adapter that reads and writes JSON lines.\nOtherwise: " in adapter.out
    assert adapter.code == 0, adapter.out


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]}, {"a": 3}),
        ({"type": ["string", "null"], "minLength": 9}, "examplexx"),
        ({"anyOf": [{"enum": ["north"]}, {"type": "null"}]}, "north"),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}}},
            [True] * 2,
        ),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}}, {}),
    ],
)
def test_arguments_fit_the_schema_of_a_tool(schema: dict[str, object], value: object) -> None:
    assert example_value(schema, {}) == value  # type: ignore[arg-type] - JSON


def test_a_default_model_that_refuses_tools_does_not_hide_the_other_defects(harness: Command, project: Path) -> None:
    (project / "keyed.py").write_text(
        "import own_client\n\n\nclass Client(own_client.Wrong):\n"
        "    def __init__(self, base_url, api_key, model='gpt-5.5'):\n"
        "        super().__init__(base_url, api_key, model)\n"
    )
    done = harness("try", "keyed:Client")

    assert "Its default model gpt-5.5 refuses the first request, so the other requests are for gpt-" in done.out
    for rule in ("result-orphan", "json-mode-ignored", "system-in-message"):
        assert f"({rule}" in done.out
    assert "4  Function tools with reasoning_effort are not supported for gpt-5.5" in done.out


def test_an_option_that_is_refused_after_an_answer_is_named_as_the_client_named_it(
    harness: Command, project: Path
) -> None:
    (project / "late.py").write_text(
        "import own_client\n\n\nclass Client(own_client.Client):\n"
        "    def chat(self, messages, tools=None, **options):\n"
        "        answer = super().chat(messages, tools, **options)\n"
        "        if len(answer['choices'][0]['message'].get('tool_calls') or []) > 1:\n"
        "            raise ValueError('tools: more than one call')\n"
        "        return answer\n"
    )
    done = harness("try", "late:Client")

    assert "raises ValueError, although the answer is valid (late.py, line 8): tools: more than one call" in done.out
    assert 'returned request 1  "ValueError"' in done.out


def test_the_model_is_the_one_that_is_named(harness: Command, project: Path) -> None:
    harness("try", "own_client:Wrong", "--model", "gpt-4.1")

    assert "own_client:Wrong=gpt-4.1" in (project / ".harness" / "try.json").read_text()


def test_keys_are_kept_from_what_is_tried(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    (folder / "keyed.py").write_text(
        "import os\n\n\ndef chat(messages, base_url):\n"
        "    open('seen', 'w').write(str(os.environ.get('OPENAI_API_KEY')))\n"
    )

    assert harness("try", "keyed:chat").code == 2
    assert (folder / "seen").read_text() == "no-key"


SCRIPT = """
import os
first = os.environ.get("WRITER_URL", "https://api.openai.com/v1/chat/completions")
second = os.getenv("FORECAST_URL") or "https://weather.example/api"
third = os.environ["DATABASE_URL"], os.environ["MODEL_HOST"], os.environ["WRITER_TOKEN"], os.environ["WRITER_NAME"]
"""
NODE_SCRIPT = "const base = process.env.WRITER_URL ?? 'https://api.anthropic.com', own = process.env['WRITER_BASE'];"


def test_the_variables_of_a_program_are_the_usual_ones_and_those_that_its_script_reads(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SCRIPT)
    (tmp_path / "main.mjs").write_text(NODE_SCRIPT)
    known = {"DATABASE_URL": "sqlite://", "WRITER_URL": "https://models.example"}

    python = program_variables(f"{sys.executable} {tmp_path}/main.py --verbose", "http://here", known)
    node = program_variables(f"node {tmp_path}/main.mjs", "http://here", {})
    usual = program_variables("npm start 'unclosed", "http://here", {})

    assert usual["OPENAI_API_BASE"] == "http://here/v1"
    assert (usual["GEMINI_BASE_URL"], usual["ANTHROPIC_API_URL"]) == ("http://here", "http://here")
    own = {"WRITER_URL": "http://here/v1/chat/completions", "MODEL_HOST": "http://here/v1", "WRITER_TOKEN": "not-a-key"}
    assert {name: value for name, value in python.items() if name not in usual} == own
    assert node == {**usual, "WRITER_URL": "http://here", "WRITER_BASE": "http://here/v1"}


_ASKED = '"How much is 6 times 7?"'


@pytest.mark.parametrize(
    ("command", "printed", "arguments"),
    [
        ("python a.py", "usage: a [-h] prompt\na: error: the following arguments are required: prompt", _ASKED),
        ("python a.py", "a: error: the following arguments are required: -q/--query", f"--query {_ASKED}"),
        ("python a.py", "a: error: the following arguments are required: --model, x", f"--model VALUE {_ASKED}"),
        ("python a.py", "usage: a {ask,chat}\na: error: the following arguments are required: cmd", f"ask {_ASKED}"),
        ("python a.py", "Usage: a.py [OPTIONS] TEXT\n\nError: Missing argument 'TEXT'.", _ASKED),
        ("python a.py", "Usage: a.py [OPTIONS]\n\nError: Missing option '--text' / '-t'.", f"--text {_ASKED}"),
        (
            "python a.py",
            "Usage: a.py COMMAND [ARGS]...\n\nCommands:\n  ask  Ask.\n  repl",
            f"ask {_ASKED}",
        ),
        ("python a.py", "Usage: a.py COMMAND [ARGS]...\n╭─ Commands ──╮\n│ chat   Chat.  │\n╰────╯", f"chat {_ASKED}"),
        ("python a.py", "    text = sys.argv[1]\nIndexError: list index out of range", _ASKED),
        ("node a.mjs", "error: required option '-p, --prompt <text>' not specified", f"--prompt {_ASKED}"),
        ("node a.mjs", "Not enough non-option arguments: got 0, need at least 1", _ASKED),
        ("npm start", "Missing required argument: prompt", f"-- --prompt {_ASKED}"),
        ("./a", "Usage of ./a:\n  -model string", _ASKED),
        ("./a", 'Error: required flag(s) "prompt" not set', f"--prompt {_ASKED}"),
        ("./a --fast", "Usage: a PROMPT", "ARGUMENTS"),
        ("bash a.sh", "a.sh: line 3: $1: unbound variable", _ASKED),
        ("node a.mjs", "Please provide a question.", _ASKED),
        ("node a.mjs", "Token usage: 0", None),
        ("node a.mjs", "Error: the file is empty", None),
    ],
)
def test_a_program_that_lacks_arguments_is_given_examples(command: str, printed: str, arguments: str | None) -> None:
    assert missing_arguments(command, f"{printed}\n") == (arguments and f"{command} {arguments}")


ASKING = """
import argparse, os, sys
if sys.argv[1:] == ["fail"]:
    sys.exit("The file of prompts is empty.")
if sys.argv[1:] == ["connect"]:
    raise ConnectionError("no answer from api.example.com")
if sys.argv[1:] == ["key"]:
    sys.exit("Usage: ask PROMPT. First set OWN_API_TOKEN.")
parser = argparse.ArgumentParser("ask", epilog="Reads OPENAI_API_KEY.")
parser.add_argument("--prompt", required=True)
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("", "it needs arguments, and ended with exit code 2 before it sent a request. What it printed is above. Give"),
        ("fail", "it ended with exit code 1 before it sent a request. Its last lines are above. If it needs arguments"),
        ("connect", "If it only defines code that calls the model, name the function: harness try my_file:chat"),
        ("key", "it needs the environment variable OWN_API_TOKEN."),
    ],
)
def test_a_program_that_sends_no_request_is_answered_with_the_way_out(
    harness: Command, folder: Path, argument: str, error: str
) -> None:
    (folder / "asking.py").write_text(ASKING)
    (folder / "client.mjs").write_text(JAVASCRIPT_CLIENT)

    done = harness("try", "--command", f"{sys.executable} asking.py {argument}".strip())

    assert done.code == 2
    assert error in done.err
    assert argument or "--prompt" in done.err


@pytest.mark.parametrize(
    ("suffix", "source", "keys"),
    [
        (".mjs", "Number(process.env.OWN_MAX_TOKENS || 2048), process.env.TOKEN_WINDOW ?? 100", []),
        (
            ".mjs",
            "parseInt(process.env['SOME_TOKEN'], 10), process.env.OUTPUT_TOKENS, process.env.OWN_KEY",
            ["OWN_KEY"],
        ),
        (
            ".py",
            "int(os.environ['READ_TOKEN']), os.getenv('TOKEN_LIMIT'), os.environ['READER_TOKEN']",
            ["READER_TOKEN"],
        ),
        (".py", "os.environ.get('KEY_FILE'), os.environ.get('OWN_APIKEY', ''), os.environ['KEYWORDS']", ["OWN_APIKEY"]),
        (".sh", 'curl -H "x-api-key: ${OWN_TOKEN:-none}" ${MAX_TOKENS:-100}', ["OWN_TOKEN"]),
    ],
)
def test_a_number_of_tokens_is_no_key(tmp_path: Path, suffix: str, source: str, keys: list[str]) -> None:
    (tmp_path / f"main{suffix}").write_text(source)

    usual = program_variables("npm start", "http://here", {})
    found = program_variables(f"run {tmp_path}/main{suffix}", "http://here", {})

    assert [name for name in found if name not in usual] == keys


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/chat/completions", "openai-chat"),
        ("/v1/v1/chat/completions", "openai-chat"),
        ("/responses", "openai-responses"),
        ("/messages", "anthropic"),
        ("/v1/v1/messages?beta=true", "anthropic"),
        ("/models/gemini-3-pro-preview:generateContent", "gemini"),
        ("/v1/v1beta/models/gemini-3-pro-preview:generateContent", "gemini"),
    ],
)
def test_a_program_may_use_a_base_url_with_or_without_the_version(path: str, api: str) -> None:
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None)
    router.origin = "http://127.0.0.1:1"

    router(HttpRequest("POST", f"{router.origin}{BASE_PATH}{path}", {"authorization": "Bearer none"}, b"{}"))

    assert [each.target for each in router.run().cells] == [f"{api}/1"]


def test_a_tool_for_which_no_script_can_be_made_is_answered_all_the_same() -> None:
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None)
    router.origin = "http://127.0.0.1:1"
    tool = {"type": "function", "function": {"name": "", "parameters": {"type": "array", "minItems": "many"}}}
    body = {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hello"}], "tools": [tool]}
    headers = {"authorization": "Bearer none", "content-type": "application/json"}
    url = f"{router.origin}{BASE_PATH}/v1/chat/completions"

    response = router(HttpRequest("POST", url, headers, json.dumps(body).encode()))

    assert response.status in (200, 400)
    assert len(router.run().cells) == 1


@pytest.mark.parametrize(("answer_format", "text"), [(None, "Let me look."), ({"type": "json_object"}, None)])
def test_calls_have_no_text_if_a_program_requests_json(answer_format: dict[str, str] | None, text: str | None) -> None:
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None)
    router.origin = "http://127.0.0.1:1"
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    body: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "As JSON"}], "tools": [tool]}
    body |= {"response_format": answer_format} if answer_format else {}
    headers = {"authorization": "Bearer none", "content-type": "application/json"}
    url = f"{router.origin}{BASE_PATH}/v1/chat/completions"

    sent = HttpRequest("POST", url, headers, json.dumps(body).encode())
    message = json.loads(router(sent).body)["choices"][0]["message"]

    assert (message["content"], len(message["tool_calls"])) == (text, 2)


@pytest.mark.parametrize(
    ("previous", "texts", "rules"),
    [
        (None, ["", "", ANSWER], set()),
        ("resp_unknown", [""], {"request-turned-away", "script-unplayed"}),
    ],
)
def test_a_program_may_continue_a_stored_answer(previous: str | None, texts: list[str], rules: set[str]) -> None:
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None, "one call")
    router.origin = "http://127.0.0.1:1"
    parameters = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tools = [{"type": "function", "name": name, "parameters": parameters, "strict": True} for name in ("a", "b")]
    given: Any = {"input": "How many are there?"}
    received: list[str] = []
    while given:
        body = json.dumps({"model": "gpt-5.4", "tools": tools, **given}).encode()
        headers = {"authorization": "Bearer none", "content-type": "application/json"}
        sent = HttpRequest("POST", f"{router.origin}{BASE_PATH}/v1/responses", headers, body)
        answer = json.loads(router(sent).body)
        if answer.get("error"):
            break
        parts = [part for item in answer["output"] for part in item.get("content") or [] if "text" in part]
        calls = [item["call_id"] for item in answer["output"] if item["type"] == "function_call"]
        received.append("" if calls else "".join(part["text"] for part in parts))
        results = [{"type": "function_call_output", "call_id": each, "output": "3"} for each in calls]
        given = calls and {"previous_response_id": previous or answer["id"], "input": results}

    cells = router.run().cells

    assert received == texts
    assert {finding.rule for cell in cells for finding in cell.findings} == rules


@pytest.mark.parametrize(
    ("kept", "rules"),
    [(9, set[str]()), (2, {"loop-history"}), (1, {"result-orphan"})],
)
def test_a_program_that_trims_its_history_stays_in_its_conversation(kept: int, rules: set[str]) -> None:
    router = ImprovisedRouter(SessionOptions(fact_selection=FactSelection()), lambda _: None, "one call")
    router.origin = "http://127.0.0.1:1"
    headers = {"authorization": "Bearer none", "content-type": "application/json"}
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("a", "b")]
    messages: list[Any] = [{"role": "user", "content": "How many are there?"}]
    while messages[-1]["role"] != "assistant":
        body = json.dumps({"model": "gpt-5.4", "tools": tools, "messages": messages[-kept:]}).encode()
        answer = json.loads(
            router(HttpRequest("POST", f"{router.origin}{BASE_PATH}/v1/chat/completions", headers, body)).body
        )
        if answer.get("error"):
            break
        messages += [message := answer["choices"][0]["message"]]
        for call in message.get("tool_calls") or []:
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "3"}]

    [cell] = router.run().cells

    assert {finding.rule for finding in cell.findings} >= rules
    assert bool(cell.findings) == bool(rules)


@pytest.mark.usefixtures("apart")
def test_a_client_without_a_base_url_is_redirected_and_keeps_its_model(harness: Command, folder: Path) -> None:
    (folder / "fixed.py").write_text(
        "import requests\n\n\n"
        "def chat(messages, tools=()):\n"
        "    body = {'model': 'gpt-4.1', 'messages': messages, 'tools': list(tools) or None}\n"
        "    answer = requests.post('https://api.openai.com/v1/chat/completions', json=body)\n"
        "    answer.raise_for_status()\n"
        "    return answer.json()['choices'][0]['message']\n"
    )

    done = harness("try", "fixed.py")

    assert done.code == 0, done.out
    assert (
        "called as fixed:chat(messages, tools), with its requests to https://api.openai.com/v1 redirected." in done.out
    )
    assert "Nothing is wrong in the cells that were run." in done.out
    more = done.out.splitlines()[-1]
    assert more.endswith("fixed:chat' --model fixed:chat=gpt-4.1")
    assert harness(*shlex.split(more.removeprefix("More: harness ")), "--generate", "1").code == 0


@pytest.mark.parametrize(
    ("target", "is_fixed", "model"),
    [
        ("openai-chat", False, "gpt-4.1"),
        ("openai-chat", True, "gpt-6-sol"),
        ("anthropic", False, "claude-opus-4-6"),  # which takes adaptive thinking, as the target's own model does
    ],
)
def test_settings_of_older_models_are_requested_from_one(target: str, is_fixed: bool, model: str) -> None:
    found = TrialCheck(is_fixed=is_fixed).select_cells([cell("settings-sampling", target)])

    assert [each.target.model for each in found] == [model]


@pytest.mark.parametrize("is_loop", [True, False])
def test_a_loop_waits_for_its_retries_after_the_other_cells(is_loop: bool) -> None:
    def wrap(adapter: Adapter) -> Adapter:
        return replace(adapter, drive=(lambda *_: None) if is_loop else None)

    names = ["error-in-tool-loop", "error-400", "call-sequential"]
    found = TrialCheck().select_cells([cell(name, "openai-chat", wrap) for name in names])

    last = ["error-400", "error-in-tool-loop"] if is_loop else ["error-in-tool-loop", "error-400"]
    assert [each.scenario.id for each in found] == ["call-sequential", *last]


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (HttpResponse(502, {"content-type": "application/json"}, b"{}"), "HTTP 502"),
        (HttpResponse(200, {}, b"{}", Delivery(cuts=(1,), ending="cut")), "a closed connection"),
    ],
)
def test_a_gateway_without_its_provider_gets_the_question_that_decides_it(
    harness: Command, folder: Path, answer: HttpResponse, failure: str
) -> None:
    with serve(lambda _: answer) as server:
        done = harness("try", f"{server.origin}/v1")

    assert (done.code, done.out) == (2, "")
    assert f"a simple request results in {failure}. Is it a gateway that cannot reach its provider?" in done.err
    assert done.err.endswith(f"Then: harness try {server.origin}/v1\n")


@pytest.mark.parametrize("model", [(), ("--model", "mine")])
def test_a_gateway_that_requests_the_probed_port_is_checked_at_both_ends(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, model: tuple[str, ...]
) -> None:
    port, gate = free_port(), Gate()
    gate.gateway.upstream = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(try_server, "_UPSTREAM_PORT", port)
    monkeypatch.setattr(gateway_traffic, "SHIPPED", (gateway_traffic.FIRST_SCENARIO, "system-plain", "json-mode"))
    monkeypatch.setattr(gateway_traffic, "own_folder", lambda: shipped_folder("scenarios") / "system-empty.yaml")

    with serve(gate) as server:
        done = harness("try", f"{server.origin}/v1", *model)
    gate.gateway.close()

    assert done.code == 0, done.out
    assert "recognised as a gateway from openai-chat to openai-chat, which requests 127.0.0.1:" in done.out
    assert done.out.splitlines()[-1].endswith(" --model mine --upstream-model mine" if model else f"-port {port}")


def test_the_sample_of_a_server_is_a_finished_verdict(harness: Command, folder: Path) -> None:
    with serve(ScriptedServer(registry.api("openai-chat"), "toy-1")) as server:
        done = harness("try", f"{server.origin}/v1", "--model", "toy-1")

    assert (done.code, "UNFINISHED" in done.out) == (0, False), done.out
    assert "Nothing is wrong in the cells that were run." in done.out


KEYED_AGENT = """
import inspect
import os

import httpx2


class Agent:
    def __init__(self, tools, system_prompt, model="claude-opus-4-8"):
        self.model = model
        self.url, self.key = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", os.environ["ANTHROPIC_API_KEY"]
        self.tools, self.system = {each.__name__: each for each in tools}, system_prompt

    def declared(self, tool):
        names = {name: {"type": "string"} for name in inspect.signature(tool).parameters}
        schema = {"type": "object", "properties": names, "required": [*names]}
        return {"name": tool.__name__, "description": tool.__doc__, "input_schema": schema}

    def run(self, prompt):
        messages = [{"role": "user", "content": prompt}]
        while True:
            body = {"model": self.model, "max_tokens": 500, "messages": messages}
            body |= {"system": self.system} if self.system else {}
            body["tools"] = [self.declared(each) for each in self.tools.values()]
            headers = {"x-api-key": self.key, "anthropic-version": "2023-06-01", "content-type": "application/json"}
            content = httpx2.post(self.url, json=body, headers=headers).raise_for_status().json()["content"]
            messages.append({"role": "assistant", "content": content})
            uses = [each for each in content if each["type"] == "tool_use"]
            if not uses:
                return content[0]["text"]
            done = [self.done(each) for each in uses]
            messages.append({"role": "user", "content": done})

    def done(self, use):
        return {"type": "tool_result", "tool_use_id": use["id"], "content": self.tools[use["name"]](**use["input"])}


class Wrong(Agent):
    def done(self, use):
        return {**super().done(use), "content": "None"}
"""


@pytest.mark.usefixtures("apart")
def test_an_agent_with_a_model_of_its_own_is_judged_by_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "own_agent", raising=False)
    code = KEYED_AGENT.replace('system_prompt, model="claude-opus-4-8"):', 'system_prompt, mode="claude-opus-4-8"):')
    (folder / "own_agent.py").write_text(code.replace("self.model = model", "self.model = mode"))

    assert recognise_here("own_agent:Agent").model == "claude-opus-4-8"


OWN_FUNCTIONS = """
import inspect
import json

import httpx2


def declared(name, tool):
    names = {each: {"type": "string"} for each in inspect.signature(tool).parameters}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": names}}}


def sending(tools, base_url, model):
    schemas = [declared(name, tool) for name, tool in tools.items()]

    def send(messages):
        body = {"model": model, "messages": messages, **({"tools": schemas} if schemas else {})}
        return httpx2.post(base_url + "/chat/completions", json=body).raise_for_status().json()["choices"][0]["message"]

    return send


def make_agent(tools, base_url=None, model="gpt-4.1"):
    send = sending(tools, base_url, model)

    def ask(question):
        messages = [{"role": "user", "content": question}]
        while (answer := send(messages)).get("tool_calls"):
            messages.append(answer)
            for call in answer["tool_calls"]:
                done = tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": done})
        return answer["content"]

    return ask


def make_client(tools, base_url=None, model="gpt-4.1"):
    send = sending(tools, base_url, model)

    def ask(question):
        return send([{"role": "user", "content": question}])

    return ask
"""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("name", "spec"), [("make_agent", "drive@openai-chat own_functions:make_agent"), ("make_client", "")]
)
def test_a_factory_of_a_function_is_a_loop_if_the_function_runs_the_tools(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, spec: str
) -> None:
    monkeypatch.delitem(sys.modules, "own_functions", raising=False)
    (folder / "own_functions.py").write_text(OWN_FUNCTIONS)

    found = recognise_here(f"own_functions:{name}")

    assert (found.spec, bool(found.question)) == (spec, not spec)


OWN_BLOCKS = """
from dataclasses import dataclass

import httpx2


@dataclass
class Text:
    text: str

    def wire(self):
        return {"type": "text", "text": self.text}


@dataclass
class Call:
    id: str
    name: str
    args: dict

    def wire(self):
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.args}


@dataclass
class Result:
    call_id: str
    output: str

    def wire(self):
        return {"type": "tool_result", "tool_use_id": self.call_id, "content": self.output}


@dataclass
class Entry:
    role: str
    pieces: list[Text | Call | Result]


class Client:
    def __init__(self, base_url, model="claude-opus-4-8"):
        self.url, self.model = base_url + "/v1/messages", model

    def send(self, messages: list[Entry], tools: list[dict] | None = None):
        sent = [{"role": each.role, "content": [piece.wire() for piece in each.pieces]} for each in messages]
        body = {"model": self.model, "max_tokens": 500, "messages": sent, "tools": tools or []}
        return httpx2.post(self.url, json=body).raise_for_status().json()
"""


@pytest.mark.usefixtures("apart")
def test_messages_that_consist_of_blocks_have_the_format_of_their_api(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "own_blocks", raising=False)
    (folder / "own_blocks.py").write_text(OWN_BLOCKS)

    assert recognise_here("own_blocks:Client").spec == "native@anthropic own_blocks:Client"


OWN_WORDS = """
import os

import httpx2


class Butler:
    def __init__(self, opening=None):
        self.opening, self.chores = opening, {}

    def chore(self, title, blurb, form, act):
        self.chores[title] = blurb, form, act
        return self

    def ring(self, wish):
        messages = [{"role": "user", "content": wish}]
        while True:
            body = {"model": "gpt-4.1", "messages": messages, **self.declared()}
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            answer = httpx2.post(url, json=body).raise_for_status().json()["choices"][0]["message"]
            if not answer.get("tool_calls"):
                return answer["content"]
            messages.append({"role": "assistant", "tool_calls": answer["tool_calls"]})
            messages += [self.carried_out(each) for each in answer["tool_calls"]]

    def declared(self):
        cards = [{"name": t, "description": b, "parameters": f} for t, (b, f, _) in self.chores.items()]
        return {"tools": [{"type": "function", "function": each} for each in cards]} if cards else {}

    def carried_out(self, call):
        _, _, act = self.chores[call["function"]["name"]]
        done = act(**__import__("json").loads(call["function"]["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": done}


class Forgetful(Butler):
    def declared(self):
        return {}
"""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("name", "kind"), [("Butler", "drive"), ("Forgetful", "client")])
def test_a_trial_shows_whether_a_method_of_any_name_registers_a_tool(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.delitem(sys.modules, "own_words", raising=False)
    (folder / "own_words.py").write_text(OWN_WORDS)

    found = recognise_here(f"own_words:{name}")

    assert (found.spec.partition("@")[0], found.question) == (kind, "")


OWN_STEPS = """
import os

import httpx2

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


class Agent:
    def generate(self, messages):
        body = {"model": "gpt-4.1", "messages": messages, "tools": TOOLS}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        return httpx2.post(url, json=body).raise_for_status().json()["choices"][0]["message"]

    def answer(self, question):
        messages = [{"role": "user", "content": question}]
        LOOP
        return messages[-1]["content"]
"""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("loop", "method"),
    [
        ("for _ in range(5):\n            messages.append(self.generate(messages))", "answer(question)"),
        ("messages.append(self.generate(messages))", "generate(messages)"),
    ],
)
def test_an_agent_with_tools_of_its_own_is_called_by_its_loop_and_not_by_a_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, loop: str, method: str
) -> None:
    monkeypatch.delitem(sys.modules, "own_steps", raising=False)
    (folder / "own_steps.py").write_text(OWN_STEPS.replace("LOOP", loop))

    assert f"called as own_steps:Agent.{method}" in recognise_here("own_steps:Agent").sentence


OWN_DRIVE = """
import httpx2

async def drive(endpoint, model, conversation):
    body = {"model": MODEL, "messages": [{"role": "user", "content": conversation.turns[0].text}]}
    async with httpx2.AsyncClient() as client:
        await client.post(f"{endpoint.base_url}/chat/completions", json=body)
"""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("model", "own"), [("'gpt-4.1'", "gpt-4.1"), ("model", None)])
def test_a_loop_may_be_asynchronous_and_have_a_model_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, own: str | None
) -> None:
    monkeypatch.delitem(sys.modules, "own_drive", raising=False)
    (folder / "own_drive.py").write_text(OWN_DRIVE.replace("MODEL", model))

    found = recognise_here("own_drive:drive")

    assert (found.spec, found.model) == ("drive@openai-chat own_drive:drive", own)


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("name", "code"), [("Agent", 0), ("Wrong", 1)])
def test_an_agent_may_read_its_key_and_base_url_from_the_environment(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.delitem(sys.modules, "own_agent", raising=False)
    (folder / "own_agent.py").write_text(KEYED_AGENT)

    assert recognise_here(f"own_agent:{name}").spec == f"drive@anthropic own_agent:{name}"
    done = harness(
        *("run", "--conversation", f"own_agent:{name}@anthropic", "--target", "anthropic", "--mode", "reference"),
        *("-k", "call-sequential", "--ignore", "loop-tools"),
    )

    assert done.code == code, done.out
    assert ("result-changed" in done.out) == bool(code), done.out


SESSION = """
import httpx2


class Session:
    def __init__(self, api_key, url="https://api.openai.com/v1/chat/completions", model="m", tools=(), system=None):
        self.url, self.key, self.model, self.tools = url, api_key, model, list(tools)
        self.messages = [{"role": "system", "content": system}] if system else []

    def ask(self, question):
        self.messages.append({"role": "user", "content": question})
        return self.post()

    def submit_tool_outputs(self, outputs):
        for call_id, output in self.order(outputs.items()):
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
        return self.post()

    def order(self, pairs):
        return pairs

    def post(self):
        body = {"model": self.model, "messages": self.messages, **({"tools": self.tools} if self.tools else {})}
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        answer = httpx2.post(self.url, json=body, headers=headers).raise_for_status().json()
        message = answer["choices"][0]["message"]
        kept = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}
        self.messages.append({"content": None, **kept})
        return self.messages[-1]


class Toolless(Session):
    def __init__(self, api_key, url="https://api.openai.com/v1/chat/completions", model="m"):
        super().__init__(api_key, url, model)


class Wrong(Session):
    def order(self, pairs):
        ids, outputs = zip(*pairs)
        return zip(ids, reversed(outputs))
"""


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("name", "code"), [("Session", 0), ("Wrong", 1)])
def test_a_client_that_keeps_its_history_gets_results_by_its_second_method(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.delitem(sys.modules, "own_session", raising=False)
    (folder / "own_session.py").write_text(SESSION)

    found = recognise_here(f"own_session:{name}")
    assert (found.spec, found.sentence) == (
        f"drive@openai-chat own_session:{name}",
        f"a tool loop of openai-chat: {name}, which keeps its history",
    )
    done = harness(
        *("run", "--conversation", f"own_session:{name}@openai-chat", "--target", "openai-chat"),
        *("--mode", "reference", "-k", "call-parallel-different-tools", "--model", "openai-chat=gpt-4.1"),
    )

    assert done.code == code, done.out
    assert ("result-swapped" in done.out or "result-changed" in done.out) == bool(code), done.out


SETTINGS = """
import httpx2


class Session:
    def __init__(
        self, api_key, url="https://api.openai.com/v1/chat/completions", model="m", tools=(), system=None,
        temperature=None, json_mode=False, json_schema=None,
    ):
        self.url, self.key, self.model, self.tools = url, api_key, model, list(tools)
        self.temperature, self.json_mode, self.json_schema = temperature, json_mode, json_schema
        self.messages = [{"role": "system", "content": system}] if system else []

    def ask(self, question):
        self.messages.append({"role": "user", "content": question})
        return self.post()

    def submit_tool_outputs(self, outputs):
        for call_id, output in outputs.items():
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
        return self.post()

    def settings(self):
        found = {} if self.temperature is None else {"temperature": self.temperature}
        if self.json_mode:
            found["response_format"] = {"type": "json_object"}
        if self.json_schema is not None:
            schema = {"name": "answer", "schema": self.json_schema}
            found["response_format"] = {"type": "json_schema", "json_schema": schema}
        return found

    def post(self):
        body = {"model": self.model, "messages": self.messages, **self.settings()}
        body |= {"tools": self.tools} if self.tools else {}
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        answer = httpx2.post(self.url, json=body, headers=headers).raise_for_status().json()
        message = answer["choices"][0]["message"]
        kept = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}
        self.messages.append({"content": None, **kept})
        return self.messages[-1]


class Unset(Session):
    def settings(self):
        return {key: value for key, value in super().settings().items() if value and key == "temperature"}


class InPrompt(Session):
    def settings(self):
        if not self.json_mode or self.messages[0]["role"] == "system":
            return super().settings()
        self.messages.insert(0, {"role": "system", "content": "Reply with JSON."})
        return {}
"""

_SETTINGS_FOUND = {
    "Session": [],
    "InPrompt": [],
    "Unset": [
        "temperature was changed or left out",
        "JSON was requested, but no part of the request asks for it",
        "JSON with a schema was requested, but no part of the request has this schema",
    ],
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("name", _SETTINGS_FOUND)
def test_the_settings_of_a_constructor_are_those_of_its_requests(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delitem(sys.modules, "own_settings", raising=False)
    (folder / "own_settings.py").write_text(SETTINGS)

    done = harness(
        *("run", "settings-temperature", "json-mode", "json-schema", "--target", "openai-chat", "--mode", "reference"),
        *("--conversation", f"own_settings:{name}@openai-chat", "--model", "openai-chat=gpt-4.1"),
        *("--report", "json:run.json"),
    )

    cells = RunResult.from_json((folder / "run.json").read_text()).cells
    assert {cell.scenario for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE} == {
        "settings-temperature",
        "json-mode",
        "json-schema",
    }, done.out
    assert sorted(each.message for cell in cells for each in cell.findings) == sorted(_SETTINGS_FOUND[name])


@pytest.mark.usefixtures("apart")
def test_the_reason_why_little_applies_to_a_loop_is_printed(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "own_session", raising=False)
    (folder / "own_session.py").write_text(SESSION)

    done = harness("try", "own_session:Toolless")

    assert "do not apply, most of them because of this: " in done.out
    assert "its constructor has no such argument" in done.out


LIBRARY = """
from typing import Any, Callable, Mapping, Sequence
import httpx2


class Acme:
    def __init__(self, base_url: str, api_key: str = "", model: str = "m"):
        self.base_url, self.model = base_url, model

    def chat(self, messages, tools: Sequence[Mapping[str, Any] | Callable] | None = None):
        return httpx2.post(self.base_url + "/talk", json={"messages": messages}).json()


def prompt(messages, tools=(), model="m") -> Callable:
    def decorate(function):
        return function

    return decorate


def Bedrock(*, model: str = "m", api_key: str = "", user: str | None = None):
    raise ImportError("Bedrock() requires boto3. Install it with `pip install acme[bedrock]`")


class Window:
    def __init__(self, base_url: str, api_key: str = "", model: str = "m"):
        self.base_url, self.model = base_url, model

    def chat(self, prompt: str):
        raise ImportError("it needs rich. Run `pip install rich`")
"""


@pytest.fixture
def library(folder: Path, monkeypatch: pytest.MonkeyPatch, apart: None) -> Path:
    """A library whose client is in a module of a subpackage."""
    monkeypatch.setattr(recognition, "is_installed", lambda name: name.startswith("acme_llm"))
    for name in ("acme_llm", "acme_llm.models", "acme_llm.models.openai"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    package = folder / "acme_llm" / "models"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "openai.py").write_text(LIBRARY)
    return package / "openai.py"


def test_the_clients_of_a_library_are_found_in_its_modules(library: Path) -> None:
    two = recognise_here("acme_llm").question
    assert "Which part of it do you use? harness try acme_llm.models.openai:Acme or harness try acme_llm.mod" in two
    assert "openai:Window. For another part" in two

    library.write_text(LIBRARY.partition("class Window")[0].replace("/talk", "/chat/completions"))
    for name in ("acme_llm", "acme_llm.models", "acme_llm.models.openai"):
        sys.modules.pop(name, None)
    assert recognise_here("acme_llm").spec == "client@openai-chat acme_llm.models.openai:Acme"


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("Bedrock", "acme_llm.models.openai:Bedrock failed: ImportError: Bedrock() requires boto3. Install it with"),
        ("Window", ", line 30)). Install that package where harness is installed, and try again."),
        ("Acme", "its first request goes to /v1/talk, which is a path of no known API"),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_part_of_a_library_that_cannot_be_tried_gets_its_reason(name: str, question: str) -> None:
    found = recognise(f"acme_llm.models.openai:{name}")

    assert question in found.question
    assert not found.failure


@pytest.mark.parametrize(
    ("error", "text", "expected"),
    [
        ("TypeError", "Client.__init__() got an unexpected keyword argument 'proxies'", True),
        ("ImportError", "cannot import name 'ToolCall' from 'sdk'", True),
        ("AttributeError", "module 'sdk' has no attribute 'ChatCompletion'", True),
        ("AttributeError", "'str' object has no attribute 'content'", False),  # it is given something else
        ("TypeError", "create() got an unexpected keyword argument 'tools'", False),  # it passes on what it is given
        ("ImportError", "Bedrock needs boto3. Install it with `pip install chain[bedrock]`.", False),
    ],
)
def test_a_library_fails_itself_only_if_it_does_not_fit_another_one(error: str, text: str, expected: bool) -> None:
    assert is_mismatch(ExceptionOrigin("the library chain", error, text, "")) is expected


def test_a_program_that_fails_at_once_is_not_asked_for_its_base_url(harness: Command) -> None:
    failing = harness("try", "--command", f"{sys.executable} -c \"raise KeyError('model')\"")

    assert failing.code == 2
    assert "it failed before it sent a request, then it ended with exit code 1." in failing.err
    assert "  KeyError: 'model'\n" in failing.err


OWN_SERVICE = """
import httpx2

def post(messages, **fields):
    body = {"model": "acme-large", "messages": messages, **fields}
    answer = httpx2.post("https://llm.example.com/api/v1/chat/completions", json=body, timeout=5)
    answer.raise_for_status()
    return answer.json()["choices"][0]["message"]

def look_up(place):
    return f"sunny in {place}"

class Graph:
    def transform(self, messages, tools=None):
        return post([{"role": "user", "content": PROMPT.format(messages)}], tools=tools)["content"]

class Talk:
    def transform(self, messages, tools=None):
        return post(messages, tools=tools)["content"]

class Careful:
    def __init__(self, base_url):
        self.base_url = base_url

    def chat(self, messages, tools=None, model="gpt-4.1"):
        httpx2.get(self.base_url + "/own-models")
        body = {"model": model, "messages": messages, "tools": tools}
        return httpx2.post(self.base_url + "/chat/completions", json=body).json()

PROMPT = "Summarise."

if __name__ == "__main__":
    print(post([{"role": "user", "content": "Hi."}])["content"])
"""


@pytest.mark.usefixtures("apart")
def test_the_requests_of_a_program_to_a_fixed_base_url_are_redirected(harness: Command, folder: Path) -> None:
    (folder / "own_service.py").write_text(OWN_SERVICE)

    done = harness("try", "--command", f"{sys.executable} own_service.py")

    assert done.code == 0, done.out + done.err
    assert "a program that calls a model, whose requests to a fixed base URL are redirected; " in done.out
    assert "\nMore: " not in done.out

    keyed = OWN_SERVICE.replace("llm.example.com/api", "api.openai.com").replace(
        "timeout=5", "headers={'authorization': 'Bearer none'}"
    )
    (folder / "own_service.py").write_text(keyed)
    done = harness("try", "--command", f"{sys.executable} own_service.py")
    assert "there is no model 'acme-large'" in done.out


@pytest.mark.usefixtures("apart")
def test_a_program_is_redirected_from_its_first_run_on(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request leaves the machine, and the start-up code of the program's own environment is run too."""
    (folder / "own_service.py").write_text(OWN_SERVICE + "    open('answered', 'a').write('x')\n")
    (folder / "own").mkdir()
    (folder / "own/sitecustomize.py").write_text("open('started', 'a').write('x')\n")
    monkeypatch.setenv("PYTHONPATH", str(folder / "own"))

    done = harness("try", "--command", f"{sys.executable} own_service.py")

    assert "whose requests to a fixed base URL are redirected; " in done.out, done.out + done.err
    failed = 1  # the run in which the server answers with an error
    assert len((folder / "started").read_text()) == len((folder / "answered").read_text()) + failed


@pytest.mark.usefixtures("apart")
def test_a_guessed_method_has_to_send_what_it_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_service.py").write_text(OWN_SERVICE)
    monkeypatch.delitem(sys.modules, "own_service", raising=False)

    assert "which of its methods sends a conversation? " in recognise_here("own_service:Graph").question
    assert (
        recognise_here("own_service:Talk").spec == "client@openai-chat=https://llm.example.com/api/v1 own_service:Talk"
    )
    assert recognise_here("own_service:Careful").spec == "client@openai-chat own_service:Careful"


ITEMS_CLIENT = """
from dataclasses import dataclass
import httpx2

@dataclass
class Output:
    call_id: str
    output: str

class Runner:
    def __init__(self, base_url, api_key=""):
        self.base_url = base_url

    @staticmethod
    def message(text):
        return {"role": "user", "content": text}

    def run(self, items: list[dict | Output], *, instructions=None, tools=None):
        body = {"model": "gpt-5.2", "input": items, "instructions": instructions, "tools": tools}
        answer = httpx2.post(self.base_url + "/responses", json=body).json()
        return answer
"""


@pytest.mark.usefixtures("apart")
def test_a_method_that_makes_a_message_does_not_make_a_client_a_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "items_client", raising=False)
    (folder / "items_client.py").write_text(ITEMS_CLIENT)

    found = recognise_here("items_client:Runner")

    assert found.spec == "client@openai-responses items_client:Runner", found.question


@pytest.mark.usefixtures("apart")
def test_a_function_for_something_else_is_not_taken_for_the_client_of_a_module(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "own_service", raising=False)
    (folder / "own_service.py").write_text(
        "def look_up(place):\n    return place\n\nif __name__ == '__main__':\n    pass\n"
    )

    done = harness("try", "own_service")

    assert done.code == 2
    assert (
        "own_service: which object in it is the client? Name it: own_service:Client; or, if it is a program: h"
        in done.err
    )


def test_incompatible_libraries_are_a_failure_and_other_errors_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    error = TypeError("Client.__init__() got an unexpected keyword argument 'proxies'")
    assert "creates it, calls it and returns its answer" in recognition._after_failure("mine:Client", error).question  # pyright: ignore[reportPrivateUsage]

    place = ExceptionOrigin("the library acme", "TypeError", str(error), " (acme.py, line 1)")
    monkeypatch.setattr(recognition, "origin", lambda _: place)
    found = recognition._after_failure("mine:Client", error)  # pyright: ignore[reportPrivateUsage]
    assert found.failure.startswith("the library acme raises TypeError (acme.py, line 1): Client.__init__()")


LOCAL = """
import httpx2

class Client:
    def __init__(self, path):
        self.url = f"http://localhost:1{path}"

    def chat(self, messages, tools=None):
        body = {"model": "m", "messages": messages, **({"tools": tools} if tools else {})}
        return httpx2.post(self.url, json=body).raise_for_status().json()

known, unknown = Client("/v1/chat/completions"), Client("/api/chat")
"""


@pytest.mark.usefixtures("apart")
def test_a_client_of_a_server_on_this_computer_is_redirected_if_its_api_is_known(folder: Path) -> None:
    (folder / "local_client.py").write_text(LOCAL)

    known, unknown = (recognise_here(f"local_client:{name}") for name in ("known", "unknown"))

    assert known.spec == "client@openai-chat=http://localhost:1/v1 local_client:known"
    assert "its first request goes to http://localhost:1/api/chat, which is a path of no known API" in unknown.question
