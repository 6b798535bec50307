"""What `import harness` gives."""

from __future__ import annotations

import ast
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
