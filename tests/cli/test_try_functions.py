"""`harness try` gives Python functions as tools to code that describes them by their signatures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.bridge.clients.signature_reading import reads_signatures
from harness.bridge.clients.sources import passed_on
from tests.cli.conftest import Command

DESCRIBING = """
import inspect
import json
import typing

KINDS = {str: "string", int: "integer", float: "number", bool: "boolean"}


class Described:
    def __init__(self, f):
        self.f, self.name = f, f.__name__
        shape, hints = inspect.signature(f).parameters, typing.get_type_hints(f)
        self.spec = {"type": "function", "function": {"name": f.__name__, "description": inspect.getdoc(f),
            "parameters": {"type": "object", "properties": {each: {"type": KINDS[hints[each]]} for each in shape},
                           "required": [each for each, one in shape.items() if one.default is one.empty]}}}

    def use(self, text):
        try:
            return str(self.f(**json.loads(text)))
        except Exception as error:
            return f"failed: {error}"


def described(f):
    return f if isinstance(f, Described) else Described(f)
"""

TALKING = '''
import httpx2
from .describing import described


class Refused(Exception):
    pass


class Talk:
    """Its constructor does not show that its tools are functions."""

    def __init__(self, url, key, model, system, tools, history=()):
        self.http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, trust_env=False)
        self.model, self.tools = model, {each.name: each for each in tools}
        self.history = [*history] or ([{"role": "system", "content": system}] if system else [])

    def ask(self, text):
        self.history.append({"role": "user", "content": text})
        while True:
            specs = {"tools": [each.spec for each in self.tools.values()]} if self.tools else {}
            reply = self.http.post("chat/completions", json={"model": self.model, "messages": self.history, **specs})
            if reply.status_code != 200:
                raise Refused(reply.text)
            choice = reply.json()["choices"][0]
            self.history.append(choice["message"])
            if not self.wants(choice["message"]):
                if choice["finish_reason"] != "stop":
                    raise Refused(choice["finish_reason"])
                return choice["message"]["content"]

    def wants(self, message):
        for call in message.get("tool_calls") or ():
            found = self.tools[call["function"]["name"]].use(call["function"]["arguments"])
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": found})
        return bool(message.get("tool_calls"))


class OneCall(Talk):
    def wants(self, message):
        return super().wants({**message, "tool_calls": (message.get("tool_calls") or [])[:1]})


def talk(model="gpt-5.4-mini", *, system=None, tools=(), base_url="", api_key=""):
    return Talk(base_url, api_key, model, system, [described(each) for each in tools])


def talk_once(model="gpt-5.4-mini", *, system=None, tools=(), base_url="", api_key=""):
    return OneCall(base_url, api_key, model, system, [described(each) for each in tools])
'''

RUNNING = """
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from .describing import described
from .talking import OneCall, Talk


@dataclass
class Outcome:
    answer: str
    history: list


def carry_out(prompt: str, tools: Sequence[Callable] = (), *, system: str | None = None, history: Sequence = (),
              model: str = "gpt-5.4-mini", base_url: str = "", api_key: str = ""):
    talk = Talk(base_url, api_key, model, system, [*map(described, tools)], history)
    return Outcome(talk.ask(prompt), talk.history)


def carry_out_one(prompt: str, tools: Sequence[Callable] = (), *, system: str | None = None, history: Sequence = (),
                  model: str = "gpt-5.4-mini", base_url: str = "", api_key: str = ""):
    talk = OneCall(base_url, api_key, model, system, [*map(described, tools)], history)
    return Outcome(talk.ask(prompt), talk.history)


def propose(prompt: str, tools: Sequence[Callable], *, base_url: str = "", api_key: str = "", model: str = "m"):
    talk = Talk(base_url, api_key, model, None, [*map(described, tools)])
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    return talk.http.post("chat/completions", json=body | {"tools": [each.spec for each in talk.tools.values()]}).json()
"""


ASKING = """
from collections.abc import Callable, Sequence
import httpx2
from .describing import described
from .talking import Refused


def send(messages: list, specs: list, options: dict, base_url: str, api_key: str, model: str):
    body = {"model": model, "messages": messages, **({"tools": specs} if specs else {}), **options}
    reply = httpx2.post(f"{base_url}/chat/completions", headers={"authorization": f"Bearer {api_key}"}, json=body)
    if reply.status_code != 200:
        raise Refused(reply.text)
    return reply.json()["choices"][0] | {"usage": reply.json().get("usage")}


def ask(messages: list, tools: Sequence[Callable] = (), *, base_url: str, api_key: str, model: str, **options):
    return send(messages, [described(each).spec for each in tools], options, base_url, api_key, model)


def ask_for_one(messages: list, tools: Sequence[Callable] = (), *, base_url: str, api_key: str, model: str, **options):
    found = ask(messages, tools, base_url=base_url, api_key=api_key, model=model, **options)
    calls = found["message"].get("tool_calls")
    return found | {"message": found["message"] | ({"tool_calls": calls[:1]} if calls else {})}


def ask_and_run(messages: list, tools: Sequence[Callable] = (), *, base_url: str, api_key: str, model: str):
    known = {each.__name__: described(each) for each in tools}
    while True:
        found = ask(messages, tools, base_url=base_url, api_key=api_key, model=model)
        messages = [*messages, found["message"]]
        if not found["message"].get("tool_calls"):
            return found
        for call in found["message"]["tool_calls"]:
            text = known[call["function"]["name"]].use(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of several modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "functional"
    folder.mkdir()
    for name, code in (
        ("__init__", ""),
        ("describing", DESCRIBING),
        ("talking", TALKING),
        ("running", RUNNING),
        ("asking", ASKING),
    ):
        (folder / f"{name}.py").write_text(code)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("talking:talk", None),
        ("talking:talk_once", "tool-run-missing"),
        ("running:carry_out", None),
        ("running:carry_out_one", "tool-run-missing"),
    ],
)
def test_a_loop_gets_functions_if_its_package_reads_their_signatures(
    package: None, harness: Command, name: str, cause: str | None
) -> None:
    done = harness("try", f"functional.{name}")

    assert "recognised as a tool loop of openai-chat" in done.out, done.err
    assert "with functions as tools" in done.out
    assert re.findall(r"\(([\w-]+), \d+ cell", done.out)[:1] == ([] if cause is None else [cause]), done.out


def test_a_function_that_returns_its_calls_is_no_loop(package: None, harness: Command) -> None:
    done = harness("try", "functional.running:propose")

    assert "a tool loop" not in done.out


@pytest.mark.parametrize(("name", "cause"), [("ask", None), ("ask_for_one", "response-calls")])
def test_a_client_that_only_describes_functions_gets_functions(
    package: None, harness: Command, name: str, cause: str | None
) -> None:
    done = harness("try", f"functional.asking:{name}")

    assert f"recognised as a client of openai-chat, called as functional.asking:{name}(" in done.out, done.err
    assert re.findall(r"\(([\w-]+), \d+ cell", done.out)[:1] == ([] if cause is None else [cause]), done.out


def test_it_is_asked_whether_a_client_that_runs_functions_is_a_loop(package: None, harness: Command) -> None:
    done = harness("try", "functional.asking:ask_and_run")

    assert "takes functions as tools. Does it run them itself?" in done.err, done.out


ONE_BY_ONE = "def add(tools):\n    for one in tools:\n        keep(one)\ndef keep(f):\n"

KEPT = """
def add(tools):
    return [Tool(*each) for each in tools]
class Tool:
    def __init__(self, a, b):
        self.made = a
    def spec(self):
        return getdoc(self.made)
"""


@pytest.mark.parametrize(
    ("source", "describes"),
    [
        (f"{ONE_BY_ONE}    return f.__name__", True),
        (f"{ONE_BY_ONE}    return f['name']", False),
        (KEPT, True),
        ("def add(tools):\n    return tools\ndef tool(f):\n    return inspect.signature(f)", False),
        ("def add(tools):\n    try:\n        send(tools)\n    except Exception as e:\n        e.__name__", False),
        ("def add(tools): return map(keep, tools)\ndef keep(*f):\n    return getattr(f, '__name__')", True),
        ("def add(*tools): return [each.__doc__ for each in tools]", True),
        (f"{ONE_BY_ONE}    kept.append(f)\n    return [each.__name__ for each in kept]", True),
        (f"{ONE_BY_ONE}    f.known[0] = f\ndef all(self): return [each.__name__ for each in self.known]", True),
        (f"{ONE_BY_ONE}    return f.name\ndef report(error): return error.__name__", False),
        ("def add(tools", False),
    ],
)
def test_the_code_that_gets_tools_shows_whether_it_reads_signatures(source: str, describes: bool) -> None:
    assert reads_signatures(source, "tools") is describes
    assert not passed_on("def add(tools", "tools")


@pytest.mark.parametrize(("given", "is_found"), [("tools", True), ("list(tools or ())", True), ("len(tools)", False)])
def test_tools_are_passed_on_in_a_new_list(given: str, is_found: bool) -> None:
    source = f"def add(tools): send({given})\ndef send(every): return every"
    assert bool(passed_on(source, "tools")) is is_found


OWN_PROMPTS = """
import functools

import httpx2

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks at a place.", "parameters": SCHEMA}}


def send(messages, **more):
    url, headers = "https://api.openai.com/v1/chat/completions", {"authorization": "Bearer none"}
    answer = httpx2.post(url, json={"model": "gpt-4.1", "messages": messages, **more}, headers=headers)
    answer.raise_for_status()
    return answer.json()


class Call:
    def __init__(self, function, **options):
        self.function, self.options = function, options
        functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        return send([{"role": "user", "content": self.function(*args, **kwargs)}], **self.options)

    def format(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def call(**options):
    return lambda function: Call(function, **options)


@call()
def plain(subject: str):
    return f"Write about {subject}"


@call(tools=[TOOL])
def with_tools(subject: str):
    return subject


class Agent:
    def __init__(self, **options):
        self.options = options

    def run(self, messages: list, temperature=None):
        *before, last = messages
        task = {**last, "content": "Current task: " + last["content"]}
        return send([{"role": "system", "content": "You help."}, *before, task], **self.options)


agent, handy = Agent(), Agent(tools=[TOOL])


class Choosy:
    def invoke(self, messages: list, **arguments):
        for name in {"tools", "response_format"} & arguments.keys():
            raise ValueError(f"Argument {name!r} is no text")
        return send([{"role": "system", "content": "You help."}, *messages])


choosy, kept = Choosy(), []


class Reply:
    def __init__(self, message):
        self.content, self.calls = message.get("content") or "", message.get("tool_calls") or []


def reply(messages: list):
    return Reply(send(messages, tools=[TOOL])["choices"][0]["message"])


def talk(question):
    answer = send([*kept, {"role": "user", "content": question}])["choices"][0]["message"]
    kept.extend([{"role": "user", "content": question}, answer])
    return answer["content"]


def settle(question, **overrides):
    settings = {"model": "gpt-4.1", **overrides}
    answer = send([{"role": "user", "content": question}], tools=[TOOL], model=settings["model"])
    return Reply(answer["choices"][0]["message"])


def choose(question):
    answer = send([{"role": "user", "content": question}], logit_bias={"16": 100, "17": 100}, max_tokens=1)
    return answer["choices"][0]["message"]["content"]
"""


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("plain", ["a client of openai-chat, called as own:plain(subject)", "Nothing is wrong"]),
        ("with_tools", ["with tools of its own, called as own:with_tools(subject)", " pass", "Nothing is wrong"]),
        ("reply", ["with tools of its own, called as own:reply(messages)", "Nothing is wrong"]),
        ("handy", ["with tools of its own, called as own:handy.run(messages)", " pass", "Nothing is wrong"]),
        ("settle", ["with tools of its own, called as own:settle(question) and", " pass", "Nothing is wrong"]),
        ("agent", ["called as own:agent.run(messages)", "Nothing is wrong"]),
        ("choosy", ["called as own:choosy.invoke(messages, tools, response_format)", "Nothing is wrong"]),
        ("talk", ["called as own:talk(question)", "Nothing is wrong", "--ignore text-changed"]),
        ("choose", ["with an answer format of its own, called as own:choose(question)", "Nothing is wrong"]),
    ],
)
def test_code_with_prompts_or_tools_of_its_own_is_not_blamed_for_them(
    harness: Command, folder: Path, name: str, texts: list[str]
) -> None:
    (folder / "own.py").write_text(OWN_PROMPTS)

    done = harness("try", f"own:{name}")

    assert done.code == 0, done.out + done.err
    for text in texts:
        assert text in done.out, done.out


TALKATIVE = """
import os

import httpx2

SYSTEM = {"role": "system", "content": "You keep an inn."}
SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOL = {"type": "function", "function": {"name": "price", "description": "The price.", "parameters": SCHEMA}}


class Keeper:
    def __init__(self, base_url="https://api.openai.com/v1"):
        self.url, self.history = base_url + "/chat/completions", []

    def say(self, line):
        self.history.append({"role": "user", "content": line})
        while True:
            body = {"model": "gpt-4.1", "messages": [*self.system(), *self.history], "tools": [TOOL]}
            answer = httpx2.post(self.url, json=body, headers={"authorization": "Bearer none"})
            choice = answer.raise_for_status().json()["choices"][0]
            if choice["finish_reason"] == "length":
                return self.cut(choice["message"])
            self.history.append(message := choice["message"])
            if not message.get("tool_calls"):
                self.end_turn()
                return message["content"]
            self.history += self.results(message["tool_calls"])

    def results(self, calls):
        prices = [f"{len(each['function']['arguments'])} gold" for each in calls]
        ids = [each["id"] for each in calls]
        return [{"role": "tool", "tool_call_id": id, "content": each} for id, each in zip(ids, prices)]

    def cut(self, message):
        raise RuntimeError("the answer was cut off")

    def system(self):
        return [SYSTEM]

    def end_turn(self):
        pass


class Keeping(Keeper):
    def cut(self, message):
        self.history.append(message)
        return "The answer was cut off."


class Brief(Keeper):
    def end_turn(self):  # keeps the texts only
        self.history = [each for each in self.history if "tool_calls" not in each and each["role"] != "tool"]


class Shortened(Keeper):
    def end_turn(self):
        for each in self.history:
            for call in each.get("tool_calls") or ():
                call["function"]["arguments"] = '{"item": "a sword"}'


class Silent(Keeper):
    def end_turn(self):
        self.history.pop()


class Crossed(Keeper):
    def results(self, calls):
        right = super().results(calls)
        contents = [each["content"] for each in right]
        return [{**each, "content": content} for each, content in zip(right, reversed(contents))]


class Overtaxed(Keeper):
    def results(self, calls):
        if len(calls) > 1:
            raise RuntimeError("one call at a time")
        return super().results(calls)


class Windowed(Keeper):
    def end_turn(self):
        users = [index for index, each in enumerate(self.history) if each["role"] == "user"]
        self.history = self.history[users[-5:][0]:]


class Orphaning(Keeper):
    def end_turn(self):
        self.history = self.history[-18:]


class Unled(Keeper):
    def system(self):
        return [SYSTEM] if len(self.history) < 30 else []


class Forgetful(Keeper):
    def system(self):
        return [SYSTEM] if sum(each["role"] == "user" for each in self.history) == 1 else []
"""

LEFT_OUT = "the system prompt of the first request is left out here (loop-system, 1 cell)"
ORPHAN = "a message with role 'tool' must respond to a preceding message with 'tool_calls'"
KEPT = "is sent back, and it was cut off when the answer reached max_tokens (cut-call-answered, 1 cell)"
CROSSED = "is answered with the result of another call"
UNSAID = "the model's final answer is not in the request with the user's next question (loop-history, 1 cell)"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Keeper", None),
        ("Brief", None),
        ("Windowed", None),
        ("Overtaxed", "the client stopped before 1 of the 2 answers of the script"),
        ("Orphaning", ORPHAN),
        ("Keeping", KEPT),
        ("Crossed", CROSSED),
        ("Unled", LEFT_OUT),
        ("Shortened", "are sent back changed (arguments-changed, 1 cell)"),
        ("Silent", UNSAID),
        ("Forgetful", LEFT_OUT),
    ],
)
def test_code_that_keeps_its_history_is_called_twice(
    harness: Command, folder: Path, name: str, found: str | None
) -> None:
    (folder / "inn.py").write_text(TALKATIVE)

    done = harness("try", f"inn:{name}")

    assert f"with tools of its own, called as inn:{name}.say(line) and run as a program" in done.out
    assert (done.code, found is None or found in " ".join(done.out.split())) == (found is not None, True), done.out


STREAMED = """
import json

import httpx2

SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOL = {"type": "function", "function": {"name": "price", "description": "The price.", "parameters": SCHEMA}}


class Keeper:
    def __init__(self, base_url="https://api.openai.com/v1"):
        self.url, self.history = base_url + "/chat/completions", []

    def say(self, line):
        self.history.append({"role": "user", "content": line})
        while True:
            self.history.append(message := self.complete())
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = f"{len(call['function']['arguments'])} gold"
                self.history.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    def complete(self):
        body = {"model": "gpt-4.1", "messages": self.history, "tools": [TOOL], "stream": True}
        text, calls, reason = "", [], None
        with httpx2.stream("POST", self.url, json=body, headers={"authorization": "Bearer none"}) as answer:
            answer.read() if answer.status_code >= 400 else None
            answer.raise_for_status()
            for line in answer.iter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise RuntimeError(chunk["error"]["message"])
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
                    reason = choice["finish_reason"] or reason
                    for piece in choice["delta"].get("tool_calls") or []:
                        self.add(calls, piece)
        if reason in (None, "length"):
            raise RuntimeError("the answer was cut off")
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def add(self, calls, piece):
        if piece.get("id"):
            function = {"name": piece["function"]["name"], "arguments": ""}
            calls.append({"id": piece["id"], "type": "function", "function": function})
        place = calls[PLACE]
        place["function"]["arguments"] += piece["function"].get("arguments") or ""
"""


@pytest.mark.parametrize(("place", "is_wrong"), [('piece["index"]', False), ("-1", True)])
def test_pieces_of_parallel_calls_come_in_turns(harness: Command, folder: Path, place: str, is_wrong: bool) -> None:
    (folder / "streamed_inn.py").write_text(STREAMED.replace("PLACE", place))

    done = harness("try", "streamed_inn:Keeper")

    assert (done.code, "sent back changed (arguments-changed, 1 cell)" in done.out) == (is_wrong, is_wrong), done.out


EXECUTING = """
import json
import os

import httpx2


def run(task, tools, execute, system=None):
    with httpx2.Client(base_url=os.environ["OPENAI_BASE_URL"], trust_env=False) as http:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": task})
        while True:
            body = {"model": "gpt-5.4-mini", "messages": messages, "tools": tools, "reasoning_effort": "none"}
            body = {name: each for name, each in body.items() if each}
            response = http.post("chat/completions", json=body, headers={"authorization": "Bearer none"})
            response.raise_for_status()
            choice = response.json()["choices"][0]
            message = choice["message"]
            messages.append(message)
            if choice["finish_reason"] in ("length", "content_filter") or message.get("refusal"):
                raise RuntimeError(choice["finish_reason"])
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                function = call["function"]
                try:
                    result = execute(function["name"], json.loads(function["arguments"]))
                except Exception as error:
                    result = f"error: {error}"
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
"""


def test_a_function_of_three_parameters_may_run_its_tools(harness: Command, folder: Path) -> None:
    (folder / "executing.py").write_text(EXECUTING, encoding="utf-8")
    done = harness("try", "executing:run")

    assert "a tool loop of openai-chat: run, which runs the tools that it gets by tools and execute" in done.out
    assert done.code == 0, done.out


SECRETIVE = """
import json
import os

import httpx2

HANDLERS = {}


class Odd:
    def chat(self, messages, tools=None):
        while True:
            body = {"model": "gpt-4.1", "messages": messages, **({"tools": tools} if tools else {})}
            url, headers = os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"authorization": "Bearer none"}
            message = httpx2.post(url, json=body, headers=headers).raise_for_status().json()["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                run = HANDLERS.get(call["function"]["name"], dict)
                content = run(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(content)})
"""


def test_a_client_that_answers_calls_itself_gets_a_question(harness: Command, folder: Path) -> None:
    (folder / "secretive.py").write_text(SECRETIVE)

    done = harness("try", "secretive:Odd")

    assert (done.code, "so it runs its tools itself. How does it get them?" in done.err) == (2, True), (
        done.out + done.err
    )
