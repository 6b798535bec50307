"""Somebody's project: an agent and its tests, which are recorded by one plug-in or another and then played.

The traffic is the reference server's, never a provider's. `WEATHER_URL` is the beginning of a URL of it: one session is
one conversation, and each test has its own.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from harness.apis.fact_files import FactSelection
from harness.cassettes.loopback_server import serve
from harness.platform.files import shipped_folder
from harness.runner.serve_router import ServeRouter
from harness.runner.served_session import SessionOptions, cut_rewrite
from harness.scenarios.load import load_file

AGENT = '''
"""An agent that looks the weather up, on nothing but an HTTP client."""

import json
import os
import ssl

import httpx2

TLS = ssl.create_default_context()  # once: it takes longer than all the rest of a test
MODEL = "gpt-4o"
SYSTEM = "You are a weather assistant."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"Paris": {"temp_c": 18, "sky": "clear"}, "Tokyo": {"temp_c": 31, "sky": "thunder"}}
BEFORE = [
    {"role": "assistant", "tool_calls": [
        {"id": "before-1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    ]},
    {"role": "tool", "tool_call_id": "before-1", "content": "17"},
]


class Agent:
    def __init__(self, url):
        self.url = url + "/chat/completions"
        self.client = httpx2.Client(verify=TLS, headers={"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.client.close()

    def body(self, question, **more):
        messages = [
            {"role": "system", "content": SYSTEM},
            *BEFORE,
            {"role": "user", "content": question},
        ]
        function = {"name": "get_weather", "description": "Current weather in a city.", "parameters": CITY}
        return {"model": MODEL, "messages": messages, "tools": [{"type": "function", "function": function}], **more}

    def post(self, body):
        return self.client.post(self.url, json=body).raise_for_status().json()["choices"][0]["message"]

    def ask(self, question):
        body = self.body(question)
        message = self.post(body)
        while message.get("tool_calls"):
            body["messages"] += [message, *map(self.result, message["tool_calls"])]
            message = self.post(body)
        return message["content"]

    def result(self, call):
        city = json.loads(call["function"]["arguments"])["city"]
        return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(WEATHER[city])}

    def stream(self, question):
        """The arguments of the calls, as they come."""
        said, left = {}, b""
        with self.client.stream("POST", self.url, json=self.body(question, stream=True)) as answer:
            for piece in answer.iter_raw():
                left += piece
                *lines, left = left.replace(b"\\r", b"\\n").split(b"\\n")
                for line in lines:
                    if not line.startswith(b"data:") or b"{" not in line:
                        continue
                    for choice in json.loads(line[5:])["choices"]:
                        for call in choice["delta"].get("tool_calls") or ():
                            at = call["index"]
                            said[at] = said.get(at, "") + (call["function"].get("arguments") or "")
        return [json.loads(each) for each in said.values()]
'''

TESTS = """
import os

import pytest
from agent import Agent

QUESTION = "What is the weather in Paris and in Tokyo? Look both up at once."


def agent(session):
    return Agent(f"{os.environ['WEATHER_URL']}-{session}/v1")


@pytest.mark.tape
def test_weather():
    with agent("whole") as asked:
        assert "31" in asked.ask(QUESTION)


@pytest.mark.tape
def test_stream():
    with agent("stream") as asked:
        assert asked.stream(QUESTION) == [{"city": "Paris"}, {"city": "Tokyo"}]
"""


def write(folder: Path, mark: str = "tape") -> None:
    """Lay the project out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "test_agent.py").write_text(TESTS.replace("mark.tape", f"mark.{mark}"), encoding="utf-8")


def cassette(folder: Path, test: str = "test_weather") -> Path:
    """Where both plug-ins have the cassette of a test."""
    return folder / "cassettes" / "test_agent" / f"{test}.yaml"


SCENARIO = "call-parallel-same-tool"
PACE = 0.002


@contextmanager
def serving(*, recut: int | None = None) -> Generator[str, None, None]:
    """Its origin. Below `/SCENARIO/SESSION` there is a conversation, whose streams come in pieces: an event each, or
    cut in the way of a number."""
    found = load_file(shipped_folder("scenarios") / f"{SCENARIO}.yaml")
    ways = None if recut is None else (lambda _: [cut_rewrite(recut)])
    reception = ServeRouter([found], {}, SessionOptions(fact_selection=FactSelection(), pace=PACE, ways=ways), print)
    with serve(reception) as server:
        reception.origin = server.origin
        yield server.origin
