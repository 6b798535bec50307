"""`harness try` runs agents with tools of their own as programs, whatever their constructors take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

AGENTS = """
import json
import sqlite3

import httpx2

SCHEMA = {"type": "object", "properties": {"lamp": {"type": "string"}}, "required": ["lamp"]}
TOOLS = [{"type": "function", "function": {"name": "switch", "description": "Switches a lamp.", "parameters": SCHEMA}}]


class Lamps:
    def switch(self, lamp):
        return f"{lamp} is on"


class Home:
    ends = ("stop", "tool_calls")

    def __init__(self, registry=None, db: sqlite3.Connection | None = None, base_url="https://api.openai.com/v1"):
        self.registry, self.db = registry or Lamps(), db or sqlite3.connect(":memory:")
        self.url, self.log = base_url + "/chat/completions", []

    def say(self, question):
        self.log.append({"role": "user", "content": question})
        while True:
            self.log.append(message := self.complete())
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                content = self.registry.switch(**json.loads(call["function"]["arguments"]))
                self.log.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    def complete(self):
        body = {"model": "gpt-4.1", "messages": self.log, "tools": TOOLS}
        answer = httpx2.post(self.url, json=body, headers={"authorization": "Bearer none"})
        choice = answer.raise_for_status().json()["choices"][0]
        if choice["finish_reason"] not in self.ends:
            raise RuntimeError("the answer is not complete")
        return choice["message"]


class Yielding(Home):
    def say(self, question):
        text = super().say(question)
        yield text[:5]
        yield text[5:]


class Stripping(Home):
    def say(self, question):
        text = super().say(question)
        yield text[:6].strip()
        yield text[6:]
"""

DECLARING = """

class Switches:
    def declarations(self):
        described = (("switch", "Switches a lamp."), ("dim", "Dims a lamp."))
        functions = [{"name": name, "description": text, "parameters": SCHEMA} for name, text in described]
        return [{"type": "function", "function": each} for each in functions]

    def run(self, name, arguments):
        return getattr(self, name)(**arguments)

    def switch(self, lamp):
        return f"{lamp} is on"

    def dim(self, lamp):
        return f"{lamp} is dim"


class Declaring(Home):
    def __init__(self, tools: Switches | None = None, base_url="https://api.openai.com/v1"):
        super().__init__(base_url=base_url)
        self.tools = tools or Switches()

    def say(self, who, question):
        return super().say(f"{who}: {question}")
"""
"""An agent whose tools are the methods of a class that declares them."""

REGISTERING = """

class Registering(Home):
    def __init__(self, base_url="https://api.openai.com/v1"):
        super().__init__(base_url=base_url)
        self.tools = {}
        self._add_tool(self.switch, "Switches a lamp.")

    def _add_tool(self, function, description):
        declared = {"name": function.__name__, "description": description, "parameters": SCHEMA}
        self.tools[function.__name__] = (function, {"type": "function", "function": declared})

    def switch(self, lamp):
        return f"{lamp} is on"
"""
"""An agent whose constructor fills its tools with its own methods."""

EAGER = AGENTS.replace(
    """        if choice["finish_reason"] not in self.ends:
            raise RuntimeError("the answer is not complete")
""",
    "",
)
DECLARED = AGENTS.replace('"tools": TOOLS}', '"tools": self.tools.declarations()}') + DECLARING
DECLARED = DECLARED.replace("self.registry.switch(**", 'self.tools.run(call["function"]["name"], ')
REGISTERED = AGENTS.replace('"tools": TOOLS}', '"tools": [each for _, each in self.tools.values()]}') + REGISTERING
REGISTERED = REGISTERED.replace("self.registry.switch(", 'self.tools[call["function"]["name"]][0](')
CUT = "the model's answer was cut off by max_tokens, but the call returned it like a complete one"


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("Home", AGENTS, None),
        ("Yielding", AGENTS, None),
        ("Yielding", EAGER, CUT),
        ("Declaring", DECLARED, None),
        ("Registering", REGISTERED, None),
        ("Stripping", AGENTS, "the answer that the call returned lost spaces of the model's answer"),
    ],
)
def test_tools_are_own_although_a_parameter_may_take_some(
    harness: Command, folder: Path, name: str, code: str, found: str | None
) -> None:
    (folder / "home.py").write_text(code)

    done = harness("try", f"home:{name}")

    assert f"with tools of its own, called as home:{name}.say(question) and run as a program" in done.out, done.err
    assert (found or "Nothing is wrong") in " ".join(done.out.split()), done.out


KEPT = """

def new_chat():
    return {"messages": [{"role": "system", "content": "You switch the lamps."}]}


def say_again(chat, question):
    home = Home()
    home.log = chat["messages"]
    home.complete = lambda: Home.complete(SENT)
    return home.say(question)
"""


@pytest.mark.parametrize(("sent", "found"), [("home", None), ("cut(home)", "openai-chat-result-orphan, 1 cell")])
def test_an_object_for_the_conversation_is_given_with_each_question(
    harness: Command, folder: Path, sent: str, found: str | None
) -> None:
    cut = """
def cut(home):
    short = Home()
    short.log = [home.log[0], *home.log[1:][-11:]]
    return short
"""
    (folder / "home.py").write_text(AGENTS + cut + KEPT.replace("SENT", sent))

    done = harness("try", "home:say_again")

    assert (found or "Nothing is wrong") in done.out, done.out + done.err


RETURNING = """
import json
import os

import httpx2

SCHEMA = {"type": "object", "properties": {"lamp": {"type": "string"}}, "required": ["lamp"]}
TOOLS = [{"type": "function", "function": {"name": "switch", "description": "Switches a lamp.", "parameters": SCHEMA}}]
SYSTEM = {"role": "system", "content": "You switch the lamps."}


def say(question, history=None):
    messages = [*(history or [SYSTEM]), {"role": "user", "content": question}]
    while True:
        body = {"model": "gpt-4.1", "messages": messages, "tools": TOOLS}
        url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
        answer = httpx2.post(url, json=body, headers={"authorization": "Bearer none"})
        choice = answer.raise_for_status().json()["choices"][0]
        if choice["finish_reason"] == "length":
            raise RuntimeError("the answer is cut off")
        messages.append(message := choice["message"])
        if not message.get("tool_calls"):
            return message["content"], messages[FIRST:]
        for call in message["tool_calls"]:
            content = json.loads(call["function"]["arguments"])["lamp"] + " is on"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
"""
LEFT_OUT = "the system prompt of the first request is left out here (loop-system, 1 cell)"


@pytest.mark.parametrize(("first", "found"), [("0", None), ("1", LEFT_OUT)])
def test_a_function_gets_the_history_that_it_returned(
    harness: Command, folder: Path, first: str, found: str | None
) -> None:
    (folder / "lamps.py").write_text(RETURNING.replace("FIRST", first))

    done = harness("try", "lamps:say")

    assert (done.code, (found or "Nothing is wrong") in done.out) == (found is not None, True), done.out


GEMINI = """
import os

import httpx2

LAMP = {"type": "object", "properties": {"lamp": {"type": "string"}}, "required": ["lamp"]}
TOOLS = [{"functionDeclarations": [{"name": "switch", "description": "Switches a lamp.", "parameters": LAMP}]}]


class CutOff(Exception):
    pass


def say(question):
    contents = [{"role": "user", "parts": [{"text": question}]}]
    while True:
        url = os.environ.get("GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")
        url += "/v1beta/models/gemini-2.5-flash:generateContent"
        answer = httpx2.post(url, json={"contents": contents, "tools": TOOLS}, headers={"x-goog-api-key": "none"})
        candidate = answer.raise_for_status().json()["candidates"][0]
        if candidate["finishReason"] COMPARISON:
            raise CutOff(candidate["finishReason"])
        contents.append(candidate["content"])
        calls = [each["functionCall"] for each in candidate["content"]["parts"] if "functionCall" in each]
        if not calls:
            return "".join(each.get("text", "") for each in candidate["content"]["parts"])
        given = [{**each, "response": {"lamp": each["args"]["lamp"]}} for each in calls]
        given = [{key: each[key] for key in ("id", "name", "response") if key in each} for each in given]
        contents.append({"role": "user", "parts": [{"functionResponse": each} for each in given]})
"""
FILTERED = "the model's answer was cut off by a filter of the provider, but the call returned it like a complete one"


@pytest.mark.parametrize(("comparison", "found"), [('!= "STOP"', None), ('== "MAX_TOKENS"', FILTERED)])
def test_an_answer_that_a_filter_cut_off_is_not_complete(
    harness: Command, folder: Path, comparison: str, found: str | None
) -> None:
    (folder / "lamps.py").write_text(GEMINI.replace("COMPARISON", comparison))

    done = harness("try", "lamps:say")

    assert (found or "Nothing is wrong") in " ".join(done.out.split()), done.out + done.err


FAILING = """

class Failing(Home):
    def say(self, question):
        self.log.append({"role": "user", "content": question})
        while True:
            self.log.append(message := self.complete())
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                try:
                    content = self.switch(**json.loads(call["function"]["arguments"]))
                except Exception as problem:
                    content = REPORT
                self.log.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    def switch(self, lamp):
        TOOL
"""

SENTENCE = 'raise ValueError(f"there is no lamp {lamp}")'
LOOKED_UP = """try:
            return {}[lamp]
        except KeyError:
            return "[]"
"""


@pytest.mark.parametrize(("tool", "report"), [(SENTENCE, "str(problem)"), (LOOKED_UP, "'null'")])
def test_a_failure_is_not_hidden_if_the_result_says_so_or_the_tool_handles_it(
    harness: Command, folder: Path, tool: str, report: str
) -> None:
    (folder / "lamps.py").write_text(AGENTS + FAILING.replace("REPORT", report).replace("TOOL", tool))

    done = harness("try", "lamps:Failing")

    assert "Nothing is wrong in the cells that were run." in done.out, done.out
