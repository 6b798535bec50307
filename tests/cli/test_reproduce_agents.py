"""`harness reproduce`: scripts for agents that harness recognises."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_reproduce import apart, code_of, run

__all__ = ["apart"]

POST = """
import json
from dataclasses import dataclass
from typing import Any, Awaitable, Callable

import httpx2


def post(url, body):
    answer = httpx2.post(url, json=body, headers={"authorization": "Bearer none"}, timeout=60)
    return answer.raise_for_status().json()["choices"][0]["message"]


def declared(name, description, parameters):
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
"""

LOOP = """
    def run(self, prompt: str) -> str:
        history = [{"role": "system", "content": self.system}] if self.system else []
        history.append({"role": "user", "content": prompt})
        while True:
            body = {"model": self.model, "messages": history}
            if self.declared:
                body["tools"] = self.declared
            message = post(f"{self.base_url}/chat/completions", body)
            history.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                function = self.functions[call["function"]["name"]]
                result = function(**json.loads(call["function"]["arguments"]))
                text = result if isinstance(result, str) else json.dumps(result)
                history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
"""

FUNCTIONS = f"""{POST}
import inspect

KINDS = {{str: "string", int: "integer", float: "number", bool: "boolean"}}


def schema(function):
    found = inspect.signature(function).parameters.values()
    properties = {{each.name: {{"type": KINDS[each.annotation]}} for each in found}}
    required = [each.name for each in found if each.default is each.empty]
    return {{"type": "object", "properties": properties, "required": required}}


class Agent:
    def __init__(self, base_url: str, api_key: str, model: str, tools: list[Callable[..., Any]], system: str = ""):
        self.base_url, self.model, self.system = base_url, model, system
        self.functions = {{each.__name__: each for each in tools}}
        self.declared = [declared(each.__name__, each.__doc__, schema(each)) for each in tools]
{LOOP}"""

REGISTERING = f"""{POST}
class Agent:
    def __init__(self, base_url: str, api_key: str, model: str, system: str = ""):
        self.base_url, self.model, self.system = base_url, model, system
        self.functions, self.declared = {{}}, []

    def register(self, name: str, description: str, parameters: dict, handler: Callable[..., Any]) -> None:
        self.functions[name] = handler
        self.declared.append(declared(name, description, parameters))
{LOOP}"""

DECORATOR = f"""{POST}
class Agent:
    def __init__(self, base_url: str, api_key: str, model: str, system: str = ""):
        self.base_url, self.model, self.system = base_url, model, system
        self.functions, self.declared = {{}}, []

    def tool(self, name: str, description: str, parameters: dict):
        def add(function):
            self.functions[name] = function
            self.declared.append(declared(name, description, parameters))
            return function

        return add
{LOOP}"""

OBJECTS = f"""{POST}
@dataclass
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]
    fn: Callable[..., Any]


class Agent:
    def __init__(self, base_url: str, api_key: str, model: str, tools: list[Tool], system: str = ""):
        self.base_url, self.model, self.system = base_url, model, system
        self.functions = {{each.name: each.fn for each in tools}}
        self.declared = [declared(each.name, each.description, each.parameters) for each in tools]
{LOOP}"""

FUNCTION = f"""{POST}
def ask(prompt: str, tools: list[dict], handlers: dict[str, Callable[..., Any]], model="gpt-5.4", base_url=""):
    history = [{{"role": "user", "content": prompt}}]
    while True:
        message = post(f"{{base_url}}/chat/completions", {{"model": model, "messages": history, "tools": tools}})
        history.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            result = handlers[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            history.append({{"role": "tool", "tool_call_id": call["id"], "content": str(result)}})
"""

ASYNC = OBJECTS.replace("    def run(", "    async def run(").replace("= function(**", "= await function(**")
TYPED_ASYNC = ASYNC.replace("fn: Callable[..., Any]", "fn: Callable[..., Awaitable[Any]]")

SESSION = f"""{POST}
@dataclass
class Call:
    id: str
    name: str
    arguments: dict[str, Any]


@dataclass
class Reply:
    text: str
    calls: list[Call]


class Chat:
    def __init__(self, base_url: str, api_key: str, model: str, tools: list[dict] | None = None, system: str = ""):
        self.url, self.model, self.tools = f"{{base_url}}/chat/completions", model, tools
        self.history = [{{"role": "system", "content": system}}] if system else []

    def send(self, prompt: str) -> Reply:
        self.history.append({{"role": "user", "content": prompt}})
        return self.ask()

    def submit_tool_results(self, results: dict[str, str]) -> Reply:
        for call_id, content in results.items():
            self.history.append({{"role": "tool", "tool_call_id": call_id, "content": content}})
        return self.ask()

    def ask(self) -> Reply:
        body = {{"model": self.model, "messages": self.history}}
        if self.tools:
            body["tools"] = self.tools
        message = post(self.url, body)
        self.history.append(message)
        calls = [(each["id"], each["function"]) for each in message.get("tool_calls") or []]
        made = [Call(id, each["name"], json.loads(each["arguments"])) for id, each in calls]
        return Reply(message["content"] or "", made)
"""

INHERITED = (
    OBJECTS.replace(
        "@dataclass\nclass Tool:\n",
        "class Tool:\n    def run(self, **arguments: Any) -> Any:\n        raise NotImplementedError\n\n",
    )
    .replace("    fn: Callable[..., Any]\n", "")
    .replace("each.fn for", "each.run for")
)

CONTEXT = FUNCTIONS.replace(
    "inspect.signature(function).parameters.values()", "list(inspect.signature(function).parameters.values())[1:]"
).replace("function(**json", "function(self, **json")
"""An agent whose functions get a context before their arguments."""

LOST_ID = ('"tool_call_id": call["id"]', '"tool_call_id": call["id"][:9]')
NO_SYSTEM = (
    '"messages": history}',
    '"messages": [each for each in history if each["role"] != "system"] if len(history) > 2 else history}',
)
NOT_RUN = ('for call in message["tool_calls"]:', 'for call in message["tool_calls"][:1]:')
SESSION_ID = ('"tool_call_id": call_id', '"tool_call_id": call_id[:9]')


@pytest.mark.parametrize(
    ("right", "fault", "scenario", "words"),
    [
        (FUNCTIONS, LOST_ID, "call-single", "sent: "),
        (FUNCTIONS, NO_SYSTEM, "system-with-tools", "sent: "),
        (REGISTERING, NOT_RUN, "call-parallel-same-tool", "sent: [('get_weather', {"),
        (REGISTERING, NO_SYSTEM, "system-with-tools", "sent: "),
        (DECORATOR, LOST_ID, "call-single", "sent: "),
        (OBJECTS, NOT_RUN, "call-parallel-same-tool", "sent: [('get_weather', {"),
        (FUNCTION, NOT_RUN, "call-parallel-same-tool", "sent: [('get_weather', {"),
        (FUNCTION, LOST_ID, "call-single", "sent: "),
        (ASYNC, LOST_ID, "call-single", "sent: "),
        (TYPED_ASYNC, NOT_RUN, "call-parallel-same-tool", "sent: [('get_weather', {"),
        (SESSION, SESSION_ID, "call-single", "sent: "),
        (INHERITED, LOST_ID, "call-single", "sent: "),
        (CONTEXT, NOT_RUN, "call-parallel-same-tool", "sent: [('get_weather', {"),
    ],
    ids=[
        *("functions id", "functions system", "register run", "register system", "decorator id", "objects run"),
        *("function run", "function id", "async id", "typed async run", "session id"),
        *("inherited id", "context run"),
    ],
)
def test_the_script_of_an_agent_fails_with_the_fault_and_passes_without_it(  # noqa: PLR0917 - a case
    harness: Command, folder: Path, right: str, fault: tuple[str, str], scenario: str, words: str
) -> None:
    assert fault[0] in right
    (folder / "own_loop.py").write_text(right.replace(*fault))
    name = next(each for each in ("Chat", "Agent", "ask") if f"class {each}:" in right or f"def {each}(prompt" in right)
    rules = ("--rule", "tool-run-missing") if fault == NOT_RUN else ()
    file = "_".join(("reproduce", scenario, *rules[1:])).replace("-", "_")
    words_of_target = ("--target", "openai-chat", "--model", f"{name}=gpt-5.4")

    done = harness("reproduce", scenario, "--conversation", f"own_loop:{name}", *words_of_target, *rules)

    assert done.code == 0, done.out + done.err
    assert f"Written: {file}.py, {file}.md" in done.out, done.out
    assert "harness" not in code_of(folder, f"{file}.py")
    failed = run(folder, f"{file}.py")
    assert failed.stderr.splitlines()[-1].startswith("AssertionError: ")
    assert words in failed.stdout

    (folder / "own_loop.py").write_text(right)
    mended = run(folder, f"{file}.py")
    assert mended.returncode == 0, mended.stderr


def test_the_code_of_an_agent_is_copied_into_its_script(harness: Command, folder: Path) -> None:
    (folder / "own_loop.py").write_text(OBJECTS.replace(*LOST_ID))
    words = ("--conversation", "own_loop:Agent", "--target", "openai-chat", "--model", "Agent=gpt-5.4")

    done = harness("reproduce", "call-single", *words, "--copy-client")

    assert done.code == 0, done.out + done.err
    code = code_of(folder, "reproduce_call_single.py")
    assert "own_loop" not in code
    script = (folder / "reproduce_call_single.py").read_text()
    (folder / "mended.py").write_text(script.replace(LOST_ID[1], LOST_ID[0]))
    assert run(folder, "mended.py").returncode == 0


def test_no_script_is_written_for_a_tool_that_is_no_python_code(harness: Command, folder: Path) -> None:
    subclasses = INHERITED.replace("    description: str\n", "    def description(self): raise NotImplementedError\n\n")
    subclasses = subclasses.replace("each.description,", "each.description(),")
    (folder / "own_loop.py").write_text(subclasses.replace(*LOST_ID))
    words = ("--conversation", "own_loop:Agent", "--target", "openai-chat", "--model", "Agent=gpt-5.4")

    run_words = ("run", "call-single", "--mode", "reference", "--report", "json:run.json", *words)
    assert harness(*run_words).code == 1

    done = harness("reproduce", "call-single", "--from", "run.json")

    assert done.code == 0, done.out + done.err
    assert "No script of the library's call: an argument of the library's call cannot be written as code: " in done.out
    assert "reproduce_call_single.sh" in done.out
    (shown,) = [line for line in done.out.splitlines() if line.startswith("The requests and answers: harness ")]
    again = harness(*shlex.split(shown.partition(": harness ")[2]))
    assert "result-missing" in again.out, again.err
    issue = (folder / "reproduce_call_single.md").read_text()
    assert issue.startswith("# own_loop:Agent: ")


def test_an_answer_of_an_agent_that_no_script_reads_gets_an_issue(harness: Command, folder: Path) -> None:
    (folder / "own_loop.py").write_text(OBJECTS.replace('return message["content"]', 'return "Done."'))
    words = ("--conversation", "own_loop:Agent", "--target", "openai-chat", "--model", "Agent=gpt-5.4")

    done = harness("reproduce", "call-single", *words, "--rule", "loop-answer")

    assert "Written: reproduce_call_single_loop_answer." in done.out, done.out + done.err
    assert "No script of the library's call: " in done.out


@pytest.mark.usefixtures("apart")
def test_a_trial_of_an_agent_names_the_command_that_writes_a_script(harness: Command, folder: Path) -> None:
    (folder / "own_loop.py").write_text(OBJECTS.replace(*LOST_ID))

    done = harness("try", "own_loop:Agent")

    seen = [line for line in done.out.splitlines() if line.startswith("   see ")]
    assert seen, done.out + done.err
    assert all("harness reproduce " in line and line.endswith(" --from .harness/try.json") for line in seen)
    assert len(done.out.splitlines()) <= 25
