"""Which members of a module are asked about, if only the module is named."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from harness.checks.module_clients import possible_clients

SENDER = """
import httpx2


class Client:
    def ask(self, messages):
        return httpx2.post("https://api.openai.com/v1/chat/completions", json={"messages": messages}).json()
"""

LOOP = """
class Agent:
    def __init__(self):
        self.client = Client()

    def run(self, prompt):
        return self.client.ask([prompt])
"""

FACTORY = """
class Other(Client):
    pass


KINDS = {"a": Client, "b": Other}


def connect(kind):
    return KINDS[kind]().ask([])
"""

PASSED_ON = """
del Client


def ask(prompt):
    return httpx2.post("https://api.openai.com/v1/chat/completions", json={"prompt": prompt})


def ask_now(*args, **options):
    return ask(*args, **options)
"""

SESSION = """
class Thread:
    def ask(self, prompt):
        return httpx2.post("https://api.openai.com/v1/chat/completions", json={"prompt": prompt})


class Client:
    def thread(self):
        return Thread()

    def close(self):
        httpx2.post("https://api.openai.com/v1/closing")
"""

ANOTHER = """
class Another:
    def ask(self, messages):
        return httpx2.post("https://api.openai.com/v1/chat/completions", json={"messages": messages})
"""

MODULES = {
    "a helper": ("def user(text):\n    return {'role': 'user', 'content': text}", ["Client"]),
    "a program": ("def main(prompt):\n    print(Client().ask([prompt]))", ["Client"]),
    "a shortcut": ("def ask_once(prompt):\n    return Client().ask([prompt])", ["Client"]),
    "an object": ("client = Client()", ["client"]),
    "a loop of a client": (LOOP, ["Agent"]),
    "a factory": (FACTORY, ["connect"]),
    "arguments that are passed on": (PASSED_ON, ["ask"]),
    "a session": (SESSION, ["Client"]),
    "two clients": (ANOTHER, ["Client", "Another"]),
}


@pytest.mark.parametrize("kind", MODULES)
def test_only_the_members_that_may_be_meant_are_possible_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    code, expected = MODULES[kind]
    name = f"own_{kind.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(f"{SENDER}\n\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    members = vars(importlib.import_module(name))

    found = possible_clients(name, members, lambda value, _name: callable(value) or type(value).__name__ == "Client")

    assert found == expected
