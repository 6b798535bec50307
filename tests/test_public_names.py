"""What `import harness` gives."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import harness


@pytest.mark.parametrize("name", harness.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(harness, name) is not None
    assert name in dir(harness)


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(harness.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {alias.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(homes) == sorted(harness.__all__)
    for name, home in homes.items():
        assert getattr(harness, name) is getattr(sys.modules[str(home)], name)


def test_an_unknown_name_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'harness' has no attribute 'Treads'"):
        _ = harness.Treads  # type: ignore[attr-defined]


LOADING = """
import socket, sys, threading
before = {*sys.modules}
import harness
print(*({*sys.modules} - before))
from harness import Message, Thread, Usage, ask
print(*({*sys.modules} - before))

def refuse(*_, **__):
    raise AssertionError("a connection")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from harness.apis.prices import cost, priced_models
assert cost("anthropic", "claude-opus-5-5", Usage(10, 5)) and priced_models("gemini", "")
assert [each.name for each in threading.enumerate()] == ["MainThread"]

import harness.cli.main
from harness.equivalence.schema_changes import change
change({"not": {"type": "string"}}, {"not": {"type": "null"}})
assert not [name for name in sys.modules if name.startswith("hypothesis")]
"""


def test_names_prices_and_judging_load_what_they_need_alone() -> None:
    """In a process of its own. Prices need no request, and judging a schema no generator of tests."""
    run = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    package, names = run.stdout.splitlines()
    assert {*package.split()} - {"__future__"} == {"harness"}
    assert {name.partition(".")[0] for name in names.split()} - {*sys.stdlib_module_names} == {
        "harness",
        "typing_extensions",
    }


def test_an_adapter_can_be_written_with_public_names_alone() -> None:
    class Echo:
        def chat(self, request: harness.ChatRequest) -> harness.ChatResponse:
            answer = harness.Message("assistant", request.messages[-1].text)
            return harness.ChatResponse(answer, harness.StopReason.END_TURN, harness.Usage())

        def close(self) -> None:
            pass

    adapter = harness.Adapter(
        "echo", "anthropic", frozenset({harness.Capability.TOOLS}), lambda endpoint, model: Echo()
    )
    with harness.Client(adapter, harness.Endpoint("http://127.0.0.1:9", "key"), "claude-opus-5") as client:
        assert harness.ask(client, "Ahoy") == "Ahoy"
