"""A capability is claimed by who names it: a new one must not become four adapters' claim at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import harness.adapters
from harness.model.protocols import Capability
from harness.stdio import adapter_specs

STATE = (Capability.ASYNC_TOOLS, Capability.PREVIOUS_RESPONSE)
MISSING = {
    "anthropic": {*STATE, Capability.AUDIO, Capability.EMBEDDINGS, Capability.RETRIES},
    "gemini": {*STATE, Capability.RETRIES},
    "openai-chat": {*STATE, Capability.RETRIES, Capability.THINKING},
    "openai-responses": {Capability.AUDIO, Capability.EMBEDDINGS, Capability.RETRIES},
}
FILES = sorted(Path(harness.adapters.__path__[0]).rglob("*.py"))


def whole(tree: ast.AST) -> list[int]:
    """The lines at which the vocabulary is used as a whole: all that is not one of its names."""
    named = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "Capability")
    return [node.lineno for node in uses if id(node) not in named]


def test_no_adapter_claims_what_it_does_not_name() -> None:
    found = {path: whole(ast.parse(path.read_text())) for path in FILES}
    assert {path: lines for path, lines in found.items() if lines} == {}
    assert any("Capability.STREAMING" in path.read_text() for path in FILES)


@pytest.mark.parametrize("claim", ["frozenset(Capability) - {Capability.RETRIES}", "{*Capability}", "set(Capability)"])
def test_a_claim_of_all_is_seen(claim: str) -> None:
    assert whole(ast.parse(f"can = {claim}")) == [1]


@pytest.mark.parametrize(("name", "missing"), MISSING.items())
def test_what_an_adapter_does_not_claim(name: str, missing: set[Capability]) -> None:
    adapter = adapter_specs.adapter(name)
    assert (adapter.name, adapter.api) == (name, name)
    of_loops = {Capability.ANSWERS, Capability.TEMPERATURE}
    assert set(Capability) - of_loops - adapter.capabilities == missing
