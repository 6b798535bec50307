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


def loaded(code: str) -> set[str]:
    """The modules that are loaded once `code` has run, those of Python itself excepted."""
    script = f"import sys; before = {{*sys.modules}}; {code}; print(*sorted({{*sys.modules}} - before))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {*run.stdout.split()}


def test_importing_harness_loads_nothing() -> None:
    assert loaded("import harness") - {"__future__"} == {"harness"}


def test_a_name_loads_what_it_needs() -> None:
    packages = {name.partition(".")[0] for name in loaded("from harness import Message, Thread, ask")}
    assert packages - {*sys.stdlib_module_names} == {"harness", "typing_extensions"}


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
