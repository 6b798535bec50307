"""`harness reproduce`: scripts that show a fault without harness."""

from __future__ import annotations

import ast
import io
import os
import re
import runpy
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from harness.bridge.call_log import LoggedCall
from harness.checks import python_script, script_parts
from harness.checks.script_code import ScriptCode
from harness.checks.script_sources import module_source
from tests.cli.conftest import Command
from tests.examples import plain_http

CLIENT = """
import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    def chat(self, messages, tools=None, **options):
        sent = [dict(each) for each in messages]
        for each in sent:
            if "tool_call_id" in each:
                each["tool_call_id"] = each["tool_call_id"]
        body = {"model": self.model, "messages": sent, "tools": tools, **options}
        headers = {"authorization": "Bearer none"}
        answer = self.http.post("chat/completions", json=body, headers=headers).raise_for_status().json()
        return answer

    def close(self):
        self.http.close()
"""
CUTS_IDS = CLIENT.replace('= each["tool_call_id"]', '= each["tool_call_id"][:9]')
LOSES_CALLS = CLIENT.replace(
    "        return answer\n",
    '        answer["choices"][0]["message"].get("tool_calls", [])[1:] = []\n        return answer\n',
)
OWN_ANSWER = CLIENT.replace("    def chat", "    async def chat").replace(
    "        return answer\n",
    """        message = answer["choices"][0]["message"]
        calls = [(each["id"], each["function"]) for each in message.get("tool_calls") or []]
        calls = [Namespace(id=id, name=each["name"], args=json.loads(each["arguments"])) for id, each in calls]
        return Namespace(text=message["content"] or "", blocks=["text", *calls], tool_calls=calls)
""",
)
OWN_ANSWER = f"import json\nfrom types import SimpleNamespace as Namespace\n{OWN_ANSWER}"
LOSES_OWN = OWN_ANSWER.replace("=calls)", "=calls[:1])").replace("*calls]", "*calls[:1]]")
CRASHES = CLIENT.replace("        return answer\n", '        answer["usage"]["prompt"]\n        return answer\n')
SPEC = "client@openai-chat own_client:Client"
TARGET = ("--adapter", SPEC, "--target", "openai-chat", "--model", "own_client:Client=gpt-5.4")

LOOP = """
import json
import urllib.request

from harness import Capability, Conversation, Endpoint, Loop


def post(url: str, body: dict) -> dict:
    heads = {"content-type": "application/json", "authorization": "Bearer none"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), heads)) as answer:
        return json.load(answer)["choices"][0]["message"]


def drive(endpoint: Endpoint, model: str, given: Conversation) -> None:
    names = ("name", "description", "parameters")
    tools = [{"type": "function", "function": {name: getattr(each, name) for name in names}} for each in given.tools]
    more = {"max_completion_tokens": given.max_tokens} if given.max_tokens else {}
    history = [{"role": "system", "content": given.system}] if given.system else []
    for turn in given.turns:
        history.append({"role": "user", "content": turn.text})
        while True:
            body = {"model": model, "messages": history, "tools": tools, **more}
            said = post(f"{endpoint.base_url}/chat/completions", body)
            history.append(said)
            if not said.get("tool_calls"):
                break
            for call in said["tool_calls"]:
                found = {tool.name: tool for tool in given.tools}[call["function"]["name"]]
                text = found.text(json.loads(call["function"]["arguments"]))
                history.append({"role": "tool", "tool_call_id": call["id"], "content": text.upper()})


LOOP = Loop("own", "openai-chat", drive, frozenset({Capability.TOOLS, Capability.SYSTEM_PROMPT, Capability.HISTORY}))
"""


OWN = ("own_client", "own_loop", "own_adapter", "thin", "lossy")


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, in_process: None) -> None:
    """Run scripts and clients in this process, as if no other test had imported modules of their names."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in OWN:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(subprocess, "run", started)


def started(command: list[str] | str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in this process, unless it redirects the requests of the whole process."""
    script = Path(command[-1]) if isinstance(command, list) and command[-1].endswith(".py") else None
    text = script.read_text() if script is not None else ""
    patches = [each.strip() for _, moved in python_script._REDIRECTIONS.values() for each in moved]
    if script is None or any(each in text for each in patches):
        return IN_A_PROCESS(command, **how)
    return run(script.parent, script.name)


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as Python would, with its own copies of the modules in its folder."""
    kept = {name: sys.modules.pop(name) for name in OWN if name in sys.modules}
    code, out, err = 0, io.StringIO(), io.StringIO()
    sys.path.insert(0, str(folder))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            runpy.run_path(str(folder / script), run_name="__main__")
        except Exception:  # noqa: BLE001 - as Python ends
            code = 1
            traceback.print_exc()
    sys.path.remove(str(folder))
    for name in OWN:
        sys.modules.pop(name, None)
    sys.modules.update(kept)
    return subprocess.CompletedProcess([script], code, out.getvalue(), err.getvalue())


IN_A_PROCESS = subprocess.run


def run_apart(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, script]
    return IN_A_PROCESS(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def code_of(folder: Path, script: str) -> str:
    return (folder / script).read_text().partition('"""\n\nfrom __future__')[2]


@pytest.mark.parametrize(
    ("faulty", "scenario", "words"),
    [
        (CUTS_IDS, "call-single", "sent: "),
        (LOSES_CALLS, "call-identical-twice", "returned: [('ping', {"),
        (CRASHES, "history-two-turns", "KeyError('prompt')"),
        (LOSES_OWN, "call-identical-twice", "returned: [('ping', {"),
    ],
    ids=["request", "answer", "exception", "own answer"],
)
def test_a_script_fails_with_the_fault_and_passes_without_it(
    harness: Command, folder: Path, faulty: str, scenario: str, words: str
) -> None:
    (folder / "own_client.py").write_text(faulty)
    name = f"reproduce_{scenario.replace('-', '_')}"

    done = harness("reproduce", scenario, *TARGET)

    assert done.code == 0, done.out + done.err
    assert f"Written: {name}.py, {name}.md" in done.out
    assert "harness" not in code_of(folder, f"{name}.py")
    play = run_apart if faulty == CUTS_IDS else run
    failed = play(folder, f"{name}.py")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].startswith("AssertionError: ")
    assert words in failed.stdout
    issue = (folder / f"{name}.md").read_text()
    assert "**What happens.**" in issue
    assert words in issue

    (folder / "own_client.py").write_text(OWN_ANSWER if faulty is LOSES_OWN else CLIENT)
    mended = play(folder, f"{name}.py")
    assert mended.returncode == 0, mended.stderr


RIGHT = """
import json
from dataclasses import dataclass
from types import SimpleNamespace as Namespace

import httpx2


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(answer.text)
        self.status_code = answer.status_code


@dataclass
class Call:
    id: str
    name: str
    arguments: dict


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    def chat(self, messages, tools=None, **options):
        sent = [self.message(dict(each)) for each in messages]
        body = {"model": self.model, "messages": sent, **options}
        if tools:
            body["tools"] = [*tools]
        answer = self.http.post("chat/completions", json=body, headers={"authorization": "Bearer none"})
        if answer.status_code >= 400:
            raise Refused(answer)
        answer = answer.json()
        choice, usage = answer["choices"][0], answer["usage"]
        message = choice["message"]
        return Namespace(
            text=message["content"] or message.get("refusal") or "",
            tool_calls=[self.call(each) for each in message.get("tool_calls") or []],
            finish_reason=choice["finish_reason"],
            usage=Namespace(input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"]),
        )

    def message(self, message):
        return message

    def call(self, call):
        arguments = json.loads(call["function"]["arguments"] or "{}")
        return Call(call["id"], call["function"]["name"], arguments)

    def close(self):
        self.http.close()
"""
MESSAGE, PARSED = "        return message\n", 'json.loads(call["function"]["arguments"] or "{}")'
FAULTS = {
    "a lost text": (
        "call-after-text",
        MESSAGE,
        MESSAGE.replace("message\n", "message | ({'content': None} if message.get('tool_calls') else {})\n"),
    ),
    "a lost system prompt": (
        "system-plain",
        "for each in messages]",
        "for each in messages if each['role'] != 'system']",
    ),
    "a changed text": (
        "history-two-turns",
        MESSAGE,
        "        message['content'] = message['content'].upper()\n" + MESSAGE,
    ),
    "another role": (
        "system-plain",
        MESSAGE,
        "        message['role'] = message['role'].replace('system', 'user')\n" + MESSAGE,
    ),
    "a changed result": (
        "result-json-text",
        MESSAGE,
        "        if message['role'] == 'tool':\n            message['content'] = message['content'].upper()\n"
        + MESSAGE,
    ),
    "a lost result": ("call-parallel-same-tool", '"messages": sent', '"messages": [*sent[:3], *sent[4:]]'),
    "a cut id": (
        "call-single",
        MESSAGE,
        "        if 'tool_call_id' in message:\n            message['tool_call_id'] = message['tool_call_id'][:9]\n"
        + MESSAGE,
    ),
    "a lost tool": ("call-parallel-different-tools", "[*tools]", "[*tools][:1]"),
    "a lost setting": ("json-mode", "**options}", "**{}}"),
    "a changed schema": ("schema-enums", "[*tools]", "json.loads(json.dumps([*tools]).replace('enum', 'enumeration'))"),
    "a cut answer": ("history-two-turns", 'text=message["content"]', 'text=(message["content"] or "")[:9]'),
    "a lost refusal": ("stop-refusal", ' or message.get("refusal")', ""),
    "another stop reason": ("stop-max-tokens", '=choice["finish_reason"]', '="stop"'),
    "another count": ("history-two-turns", '=usage["prompt_tokens"]', "=1"),
    "an empty call": ("call-truncated", PARSED, "{}"),
    "other arguments": (
        "call-single",
        PARSED,
        PARSED.replace("json.loads", "dict.fromkeys").replace('"{}")', '"{}", 1)'),
    ),
    "a lost status": ("error-400", "= answer.status_code", "= 500"),
    "no error": ("error-400", "raise Refused(answer)", 'return Namespace(text="", tool_calls=[])'),
}


@pytest.mark.parametrize(("scenario", "right", "wrong"), FAULTS.values(), ids=[*FAULTS])
def test_a_script_passes_when_the_fault_is_mended(
    harness: Command, folder: Path, scenario: str, right: str, wrong: str
) -> None:
    assert right in RIGHT
    (folder / "own_client.py").write_text(RIGHT.replace(right, wrong))
    name = f"reproduce_{scenario.replace('-', '_')}.py"

    done = harness("reproduce", scenario, *TARGET)

    assert (done.code, name in done.out) == (0, True), done.out + done.err
    assert run(folder, name).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(RIGHT)
    mended = run(folder, name)
    assert mended.returncode == 0, (folder / name).read_text() + mended.stdout + mended.stderr


OWN_REASONS = {
    "an enumeration": ("Enum", "Reason(choice['finish_reason'])", "Reason('stop')"),
    "an enumeration of texts": ("str, Enum", "Reason(choice['finish_reason'])", "Reason('stop')"),
    "a word of its own": ("Enum", "{'stop': 'fine'}.get(choice['finish_reason'], 'length')", "'fine'"),
}


@pytest.mark.parametrize("case", OWN_REASONS)
def test_a_stop_reason_is_read_in_the_form_of_the_client(harness: Command, folder: Path, case: str) -> None:
    base, right, wrong = OWN_REASONS[case]
    kind = f"class Reason({base}):\n    STOP, LENGTH, CALLS = 'stop', 'length', 'tool_calls'\n"
    code = RIGHT.replace('=choice["finish_reason"]', "=REASON").replace(
        "\n\n@dataclass", f"\n\n{kind}\n\n@dataclass", 1
    )
    code = f"from enum import Enum\n{code}"
    (folder / "own_client.py").write_text(code.replace("REASON", wrong))
    name = "reproduce_stop_max_tokens.py"

    done = harness("reproduce", "stop-max-tokens", *TARGET)

    assert (done.code, name in done.out) == (0, True), done.out + done.err
    assert run(folder, name).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(code.replace("REASON", right))
    mended = run(folder, name)
    assert mended.returncode == 0, (folder / name).read_text() + mended.stdout + mended.stderr


STREAMS = RIGHT.replace(
    "    def message",
    """    def stream(self, messages, tools=None, **options):
        body = {"model": self.model, "messages": [*messages], "stream": True, **options}
        if tools:
            body["tools"] = [*tools]
        calls, ids = {}, []
        with self.http.stream("POST", "chat/completions", json=body) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise Refused(answer)
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    if choice["delta"].get("content"):
                        yield choice["delta"]["content"]
                    for piece in choice["delta"].get("tool_calls") or []:
                        place = piece["index"]
                        call = calls.setdefault(place, {"id": piece.get("id"), "function": {"arguments": ""}})
                        call["function"].setdefault("name", piece["function"].get("name"))
                        call["function"]["arguments"] += piece["function"].get("arguments") or ""
        yield from map(self.call, calls.values())

    def message""",
)
CHUNKED = {
    "a lost call": ("stream-text-then-calls", "response-calls", "calls.values())", "[*calls.values()][1:])"),
    "a lost text": (
        "stream-text-then-calls",
        "response-text",
        'yield choice["delta"]["content"]',
        'yield choice["delta"]["content"].upper()',
    ),
    "pieces without an index": (
        "stream-provoked-interleaved-calls",
        "chat-failure",
        'place = piece["index"]',
        'place = len(calls) if piece.get("id") else len(calls) - 1',
    ),
    "arguments in the first piece": (
        "call-parallel-same-tool",
        "stream-recut",
        'piece["function"].get("arguments") or ""',
        '("" if piece.get("id") else piece["function"]["arguments"])',
    ),
    "lines that are cut": (
        "stream-text-then-calls",
        "stream-recut",
        "in answer.iter_lines():",
        "in (line for text in answer.iter_text() for line in text.splitlines()):",
    ),
}


@pytest.mark.parametrize("case", CHUNKED)
def test_a_script_sends_the_stream_that_is_read_wrongly(harness: Command, folder: Path, case: str) -> None:
    scenario, rule, right, wrong = CHUNKED[case]
    assert right in STREAMS
    (folder / "own_client.py").write_text(STREAMS.replace(right, wrong))
    words = ("--mode", "reference", "--recut", "1", "--report", "json:run.json", *TARGET)
    assert harness("run", scenario, *words).code == 1
    name = f"reproduce_{scenario}_stream_{rule}.py".replace("-", "_")

    done = harness("reproduce", scenario, "--variant", "stream", "--rule", rule, "--from", "run.json")

    assert (done.code, name in done.out) == (0, True), done.out + done.err
    assert run(folder, name).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(STREAMS)
    mended = run(folder, name)
    assert mended.returncode == 0, (folder / name).read_text() + mended.stdout + mended.stderr


ENDING = """
import json
from typing import NamedTuple

import httpx2


class Counts(NamedTuple):
    input_tokens: int
    output_tokens: int


class Answer(NamedTuple):
    text: str
    calls: list
    stop: str
    usage: Counts


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    def chat(self, messages, tools=None):
        raise NotImplementedError

    def stream(self, messages, tools=None):
        body = {"model": self.model, "messages": [*messages], **({"tools": [*tools]} if tools else {})}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        text, calls, stop, counts = "", {}, None, None
        for line in self.http.post("chat/completions", json=body | options).raise_for_status().text.split("\\n"):
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if usage := chunk.get("usage"):
                counts = Counts(usage["prompt_tokens"], usage["completion_tokens"])
            for choice in chunk["choices"]:
                stop = choice["finish_reason"] or stop
                if piece := choice["delta"].get("content"):
                    text += piece
                    yield PIECE
                for each in choice["delta"].get("tool_calls") or []:
                    call = calls.setdefault(each["index"], {"id": each.get("id"), "name": "", "args": ""})
                    call["name"] += each["function"].get("name") or ""
                    call["args"] += each["function"].get("arguments") or ""
        yield END

    def close(self):
        self.http.close()
"""
ENDS = {
    "texts and an answer": ("piece", "Answer(text, [*calls.values()], stop, counts)", "def stream"),
    "pairs": ('("text", piece)', '("answer", Answer(text, [*calls.values()], stop, counts))', "def stream"),
    "an asynchronous stream": ("piece", "Answer(text, [*calls.values()], stop, counts)", "async def stream"),
    "a dictionary": (
        "piece",
        '{"text": text, "calls": [*calls.values()], "stop": stop, "usage": counts._asdict()}',
        "def stream",
    ),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "fault",
    [
        ("stream-text-then-calls", "response-calls", "[*calls.values()]", "[*calls.values()][:1]"),
        ("stream-text-then-calls", "usage", 'usage["completion_tokens"]', "1"),
        ("stop-max-tokens", "stop-reason", 'choice["finish_reason"] or stop', '"stop"'),
    ],
)
def test_the_answer_at_the_end_of_a_stream_is_compared(
    harness: Command, folder: Path, end: str, fault: tuple[str, str, str, str]
) -> None:
    (scenario, rule, right, wrong), (piece, last, method) = fault, ENDS[end]
    mended = ENDING.replace("PIECE", piece).replace("END\n", f"{last}\n").replace("def stream", method)
    assert right in mended
    (folder / "own_client.py").write_text(mended.replace(right, wrong))
    name = f"reproduce_{scenario}_stream_{rule}.py".replace("-", "_")

    done = harness("reproduce", scenario, "--variant", "stream", "--rule", rule, *TARGET)

    assert (done.code, name in done.out) == (0, True), done.out + done.err
    assert run(folder, name).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(mended)
    passed = run(folder, name)
    assert passed.returncode == 0, (folder / name).read_text() + passed.stdout + passed.stderr


THINKING = """
import json
from dataclasses import dataclass

import httpx2


class Refused(Exception):
    pass


@dataclass(slots=True)
class Answer:
    blocks: list
    stop_reason: str
    usage: dict

    @property
    def text(self):
        return "".join(each["text"] for each in self.blocks if each["type"] == "text")

    @property
    def tool_calls(self):
        return [each for each in self.blocks if each["type"] == "tool_use"]

    def to_message(self):
        return {"role": "assistant", "content": self.blocks}


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    async def chat(self, messages, system=None, tools=None, tool_choice=None):
        body = {"model": self.model, "max_tokens": 1024, "messages": messages, "thinking": {"type": "adaptive"}}
        body |= {"system": system} if system else {}
        body |= {"tools": tools} if tools else {}
        body |= {"tool_choice": tool_choice} if tool_choice else {}
        answer = self.http.post("v1/messages", json=body, headers={"anthropic-version": "2023-06-01"})
        if answer.status_code >= 400:
            raise Refused(answer.text)
        answer = answer.json()
        blocks = answer["content"]
        return RETURNED

    def close(self):
        self.http.close()
"""
WHOLE = 'Answer(blocks, answer["stop_reason"], answer["usage"])'
PARTS = """{
            "text": "".join(each["text"] for each in blocks if each["type"] == "text"),
            "tool_calls": [each for each in blocks if each["type"] == "tool_use"],
            "stop_reason": answer["stop_reason"],
            "usage": answer["usage"],
            "message": {"role": "assistant", "content": blocks},
        }"""
NO_THOUGHTS = (
    'blocks = answer["content"]',
    'blocks = [each for each in answer["content"] if each["type"] != "thinking"]',
)
NO_CHOICE = ('{"tool_choice": tool_choice}', '{"tool_choice": {"type": "auto"}}')
LOST = {
    "a method for the message": ("call-single", "opaque-state-lost", WHOLE, *NO_THOUGHTS),
    "a message in a dictionary": ("call-single", "opaque-state-lost", PARTS, *NO_THOUGHTS),
    "a named choice": ("choice-named", "tool-choice", WHOLE, *NO_CHOICE),
    "a required choice": ("choice-required", "tool-choice", PARTS, *NO_CHOICE),
}


@pytest.mark.parametrize("case", LOST)
def test_a_script_passes_when_the_client_sends_what_it_lost(harness: Command, folder: Path, case: str) -> None:
    scenario, rule, returned, right, wrong = LOST[case]
    mended = THINKING.replace("RETURNED", returned)
    assert right in mended
    (folder / "own_client.py").write_text(mended.replace(right, wrong))
    name = f"reproduce_{scenario}_{rule}.py".replace("-", "_")
    spec = ("--adapter", "native@anthropic own_client:Client", "--target", "anthropic-opus-5")

    done = harness("reproduce", scenario, *spec, "--rule", rule)

    assert (done.code, name in done.out) == (0, True), done.out + done.err
    assert run(folder, name).stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(mended)
    passed = run(folder, name)
    assert passed.returncode == 0, (folder / name).read_text() + passed.stdout + passed.stderr


SIGNED = """
import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url, timeout=60), model

    def chat(self, contents, system=None, tools=None):
        body = {"contents": contents}
        body |= {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
        body |= {"tools": tools} if tools else {}
        answer = self.http.post(f"models/{self.model}:generateContent", json=body).raise_for_status().json()
        for part in answer["candidates"][0]["content"]["parts"]:
            if "text" in part:
                part.pop("thoughtSignature", None)
        return answer

    def close(self):
        self.http.close()
"""


def test_a_warning_is_reproduced_if_a_cell_has_no_error(harness: Command, folder: Path) -> None:
    (folder / "own_client.py").write_text(SIGNED)
    spec = ("--adapter", "native@gemini/v1beta own_client:Client", "--target", "gemini-3")
    run_command = ("run", "system-changed", "--mode", "reference", "--report", "json:run.json", *spec)
    assert harness(*run_command).code == 0

    done = harness("reproduce", "system-changed", "--from", "run.json")

    assert (done.code, "reproduce_system_changed.py" in done.out) == (0, True), done.out + done.err
    assert run(folder, "reproduce_system_changed.py").stderr.splitlines()[-1].startswith("AssertionError: ")
    (folder / "own_client.py").write_text(SIGNED.replace('part.pop("thoughtSignature", None)', "pass"))
    mended = run(folder, "reproduce_system_changed.py")
    assert mended.returncode == 0, mended.stdout + mended.stderr


def test_no_script_sends_back_a_state_that_the_client_does_not_return(harness: Command, folder: Path) -> None:
    parts = PARTS.replace('"message": {"role": "assistant", "content": blocks},', "")
    assert parts != PARTS
    (folder / "own_client.py").write_text(THINKING.replace("RETURNED", parts))
    spec = ("--adapter", "native@anthropic own_client:Client", "--target", "anthropic-opus-5")

    done = harness("reproduce", "call-single", *spec, "--rule", "opaque-state-lost")

    assert done.code == 1, done.out + done.err
    assert "the client returns nothing that a script could send back with the state" in done.out


def test_a_client_is_copied_into_the_script_for_the_maintainers_of_its_library(harness: Command, folder: Path) -> None:
    (folder / "own_client.py").write_text(LOSES_OWN)

    done = harness("reproduce", "call-identical-twice", *TARGET, "--copy-client")

    assert done.code == 0, done.out + done.err
    script = (folder / "reproduce_call_identical_twice.py").read_text()
    assert "own_client" not in script.partition("from __future__")[2]
    assert "    pip install 'httpx2==" in script
    assert "class Client:" in script
    (folder / "own_client.py").unlink()
    assert run(folder, "reproduce_call_identical_twice.py").stderr.splitlines()[-1].startswith("AssertionError: ")
    issue = (folder / "reproduce_call_identical_twice.md").read_text()
    assert "**What the provider says.**" in issue
    assert "https://github.com/openai/openai-python/" in issue


@pytest.mark.parametrize("loop", [("--adapter", "own_loop:LOOP"), ("--conversation", "own_loop:drive")])
def test_a_loop_is_copied_into_the_script_without_what_is_of_harness(
    harness: Command, folder: Path, loop: tuple[str, str]
) -> None:
    (folder / "own_loop.py").write_text(LOOP)

    name = "own" if loop[0] == "--adapter" else "own_loop"
    done = harness("reproduce", "call-single", *loop, *TARGET[2:4], "--model", f"{name}=gpt-5.4")

    assert done.code == 0, done.out + done.err
    code = code_of(folder, "reproduce_call_single.py")
    assert "def drive(endpoint, model: str, given) -> None:" in code
    assert "harness" not in code
    failed = run(folder, "reproduce_call_single.py")
    assert failed.stderr.splitlines()[-1].startswith("AssertionError: the result of")
    script = (folder / "reproduce_call_single.py").read_text()
    (folder / "mended.py").write_text(script.replace("text.upper()", "text"))
    assert run(folder, "mended.py").returncode == 0


def test_a_cell_of_a_saved_run_is_reproduced(harness: Command, folder: Path) -> None:
    (folder / "own_client.py").write_text(CUTS_IDS)
    command = ("run", "call-single", "--mode", "reference", "--report", "json:run.json", *TARGET)
    assert harness(*command).code == 1

    done = harness("reproduce", "call-single", "--from", "run.json")
    assert (done.code, "reproduce_call_single.py" in done.out) == (0, True), done.err

    none = harness("reproduce", "system-plain", "--from", "run.json")
    assert (none.code, "it has no cell of 'system-plain'" in none.err) == (2, True)


def test_the_wrong_request_of_an_adapter_without_a_library_is_a_command_of_curl(harness: Command, folder: Path) -> None:
    source = Path(plain_http.__file__).read_text(encoding="utf-8")
    (folder / "own_adapter.py").write_text(source.replace("short(call_id)", "short(call_id)[:9]"))
    words = ("--target", "openai-chat", "--output", "found")

    done = harness("reproduce", "call-single", "--adapter", "own_adapter:ADAPTER", *words)

    assert done.code == 0, done.err
    assert "No script of the library's call: how own_adapter:ADAPTER calls its library is not known" in done.out
    assert sorted(each.name for each in (folder / "found").iterdir()) == [
        "reproduce_call_single.md",
        "reproduce_call_single.sh",
    ]
    command = (folder / "found" / "reproduce_call_single.sh").read_text()
    assert "curl 'https://api.openai.com/v1/chat/completions'" in command
    assert '-H "authorization: Bearer $OPENAI_API_KEY"' in command
    assert '# Wrong is /messages/2/tool_call_id: "call_' in command

    again = harness("reproduce", "call-single", "--adapter", "own_adapter:ADAPTER", *words)
    assert (again.code, "exists. Remove it, or name another folder by --output." in again.err) == (2, True)


def test_a_cell_without_a_finding_is_not_reproduced(harness: Command, folder: Path) -> None:
    done = harness(
        "reproduce", "call-single", "--adapter", "tests.examples.plain_http:ADAPTER", "--target", "openai-chat"
    )

    assert done.code == 2
    assert "this cell has no error and no warning" in done.err
    assert not list(folder.glob("reproduce*"))


def test_a_stream_that_ends_early_is_reproduced_with_an_sdk(harness: Command, folder: Path) -> None:
    pytest.importorskip("openai")
    spec = "client@openai-chat openai:OpenAI"  # the SDK ends a cut stream without an error
    words = ("--variant", "stream", "--target", "openai-chat", "--model", "openai:OpenAI=gpt-5.4")

    done = harness("reproduce", "stream-cut-in-arguments", "--adapter", spec, *words)

    assert done.code == 0, done.out + done.err
    code = code_of(folder, "reproduce_stream_cut_in_arguments_stream.py")
    assert "client = OpenAI(" in code
    assert "answer = [*client.chat.completions.create(" in code


THIN = """
import requests


def chat(messages, tools=None):
    sent = [each for each in messages if each["role"] != "system"]
    url = "https://models.example/api/v1/chat/completions"
    response = requests.post(url, json={"model": "gpt-5.4", "messages": sent}, timeout=30)
    response.raise_for_status()
    return response.json()
"""


def test_the_script_of_a_client_without_a_base_url_redirects_its_requests(harness: Command, folder: Path) -> None:
    pytest.importorskip("requests")
    (folder / "thin.py").write_text(THIN)
    spec = "client@openai-chat=https://models.example/api/v1 thin:chat"

    done = harness("reproduce", "system-plain", "--adapter", spec, "--target", "openai-chat")

    assert done.code == 0, done.out + done.err
    script = (folder / "reproduce_system_plain.py").read_text()
    assert "HTTPSConnection.connect = connect" in script
    assert 'assert "You are a ship\'s cook. End every answer with the word Ahoy." in sent, ' in script


POSTS = {
    "httpx": "httpx.post(URL, content=BODY)",
    "httpx2": "httpx2.Client(base_url=URL).post('', content=BODY)",
    "http.client": (
        "it = http.client.HTTPSConnection('models.example'); it.request('POST', '/v1', BODY); it.getresponse()"
    ),
    "urllib.request": "urllib.request.urlopen(URL, BODY)",
    "urllib3": "urllib3.PoolManager().request('POST', URL, body=BODY)",
    "requests": "requests.post(URL, data=BODY)",
    "aiohttp": "asyncio.run(post())",
}
POST = """
async def post():
    async with aiohttp.ClientSession() as session:
        await session.post(URL, data=BODY)

"""
SAME = {"urllib.request": "http.client", "requests": "urllib3"}


@pytest.mark.parametrize("library", POSTS)
def test_requests_of_each_http_client_go_to_the_server_of_a_script(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    client = SAME.get(library, library)
    imports, moved = python_script._REDIRECTIONS[client]
    names = ["asyncio", "json", client, library]
    server = ["from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer", "from threading import Thread"]
    given = ["URL, BODY = 'https://models.example/v1', b'{}'", "ANSWERS, received = [(200, {}, '{}')], []"]
    post = [POST if library == "aiohttp" else "", POSTS[library], "assert received == [{}]"]
    started = [
        *module_source(script_parts, ["ProviderStub"])[1],
        python_script._START.format(stub="ProviderStub", port=0),
        *moved,
    ]
    text = [*(f"import {each}" for each in names), *server, *imports, *given, *started, *post]
    script = tmp_path / "script.py"
    script.write_text("\n".join(text))

    done = run_apart(tmp_path, script.name)

    assert done.returncode == 0, done.stderr


LOSES_A_FORM = """
import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url), model

    def chat(self, messages, tools=None, response_format=None, **settings):
        body = {"model": self.model, "messages": messages, **({"tools": tools} if tools else {})}
        if not tools:
            body["response_format"] = response_format
        return self.http.post("chat/completions", json=body).raise_for_status().json()

    def close(self):
        self.http.close()
"""


def test_a_script_checks_the_field_that_is_missing_and_no_other(harness: Command, folder: Path) -> None:
    (folder / "lossy.py").write_text(LOSES_A_FORM)
    spec = ("--adapter", "client@openai-chat lossy:Client", "--target", "openai-chat")

    done = harness("reproduce", "json-with-tools", *spec, "--rule", "json-mode-ignored")

    assert done.code == 0, done.out + done.err
    script = (folder / "reproduce_json_with_tools_json_mode_ignored.py").read_text()
    assert "sent = at(received[-1], 'response_format')" in script


LOSSY = """
import httpx2


class Client:
    def __init__(self, base_url, api_key, model):
        self.http, self.model = httpx2.Client(base_url=base_url), model

    def chat(self, messages, tools=None, **settings):
        sent = [{**each, "tool_call_id": "x"} if each["role"] == "tool" else each for each in messages]
        body = {"model": self.model, "messages": sent, **({"tools": tools} if tools else {}), **settings}
        response = self.http.post("chat/completions", json=body)
        response.raise_for_status()
        return response.json()

    def close(self):
        self.http.close()
"""


def test_the_conversation_of_a_script_has_only_what_the_fault_needs(harness: Command, folder: Path) -> None:
    (folder / "lossy.py").write_text(LOSSY)

    words = ("--adapter", "client@openai-chat lossy:Client", "--target", "openai-chat")
    done = harness("reproduce", "call-sequential", *words)

    assert done.code == 0, done.out + done.err
    script = (folder / "reproduce_call_sequential.py").read_text()
    assert "find_customer" in script or "track_parcel" in script or "last_order" in script
    assert script.count("'function': {") + script.count('"function": {') <= 6, script
    assert len(script.splitlines()) < 150


def test_a_script_gives_the_same_list_to_a_client_that_changes_it(harness: Command, folder: Path) -> None:
    taking = '        system = messages.pop(0) if messages[0]["role"] == "system" else None\n'
    sent = "        sent = [*([system] if system else []), *messages]\n"
    (folder / "taking.py").write_text(re.sub("        sent = .*\n", taking + sent, LOSSY))

    words = ("--adapter", "client@openai-chat taking:Client", "--target", "openai-chat")
    done = harness("reproduce", "system-changed", *words)

    assert done.code == 0, done.out + done.err
    script = (folder / "reproduce_system_changed.py").read_text()
    assert "messages = [" in script
    assert "messages += [" in script
    assert script.count("messages=messages") == 2


@pytest.mark.parametrize("width", [80, 500])
def test_a_text_of_several_lines_stays_a_text(width: int) -> None:
    page = "<html>\n" + "<p>" * 60 + "\n</html>\n"

    assert ast.literal_eval(ScriptCode(None, {}, width=width).code((200, page))) == (200, page)


class EitherWay:
    """A stream that can be read in both ways."""

    def __iter__(self) -> EitherWay:
        return self

    def __next__(self) -> str:
        raise StopIteration

    def __aiter__(self) -> EitherWay:
        return self

    async def __anext__(self) -> str:
        raise StopAsyncIteration


def test_a_stream_that_can_be_read_in_both_ways_is_read_without_a_loop() -> None:
    logged = LoggedCall(print, (), {}, result=EitherWay())

    assert (logged.is_stream, logged.is_async_stream) == (True, False)
