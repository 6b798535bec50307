from __future__ import annotations

import re

import pytest

from harness.apis import registry
from harness.apis.registry import target_for, targets_for
from harness.model.errors import UnknownName, UsageError
from harness.model.protocols import Adapter


def adapter(name: str, api: str) -> Adapter:
    return Adapter(name, api, frozenset(), lambda endpoint, model: pytest.fail("not to be connected"))


ALL = [adapter(name, name) for name in ("anthropic", "openai-chat", "openai-responses", "gemini")]


def test_the_shipped_adapters_make_the_shipped_targets() -> None:
    made = targets_for(ALL, [], {})
    assert [(t.name, t.model, t.profile.name, t.cassettes, t.api) for t in made] == [
        ("anthropic", "claude-opus-5-5", "claude-opus-5-5", "anthropic", "anthropic"),
        ("anthropic-opus-5", "claude-opus-5", "claude-opus-5", "anthropic-opus-5", "anthropic"),
        ("openai-chat", "gpt-6-sol", "gpt-5.5-chat", "openai-chat", "openai-chat"),
        ("openai-responses", "gpt-6-astra", "gpt-5.6-responses", "openai-responses", "openai-responses"),
        ("gemini-4", "gemini-4-argon", "gemini-4", "gemini-4", "gemini"),
        ("gemini-3", "gemini-3.8-flash", "gemini-3.7", "gemini-3", "gemini"),
        ("gemini-2.5", "gemini-2.5-flash-lite", "gemini-2", "gemini-2.5", "gemini"),
    ]
    assert len({shipped.name for shipped in registry.targets()}) == len(registry.targets())


def test_a_third_party_adapter_has_its_own_targets_with_the_shipped_cassettes() -> None:
    made = targets_for([adapter("mine", "gemini")], [], {})
    assert [(t.name, t.cassettes) for t in made] == [
        ("mine-4", "gemini-4"),
        ("mine-3", "gemini-3"),
        ("mine-2.5", "gemini-2.5"),
    ]
    made = targets_for([adapter("mine", "anthropic")], [], {})
    assert [(t.name, t.cassettes) for t in made] == [("mine", "anthropic"), ("mine-opus-5", "anthropic-opus-5")]
    (made,) = targets_for([adapter("mine", "openai-chat")], [], {})
    assert (made.name, made.cassettes) == ("mine", "openai-chat")


def test_named_targets_only() -> None:
    assert [t.name for t in targets_for([ALL[3]], ["gemini-2.5"], {})] == ["gemini-2.5"]


@pytest.mark.parametrize("name", ["mine-3", "gemini-3"])
def test_a_model_is_replaced_by_the_name_of_its_column_or_of_its_target(name: str) -> None:
    made = targets_for([adapter("mine", "gemini")], [], {name: "gemini-3-pro-preview"})
    assert [(t.model, t.profile.name) for t in made] == [
        ("gemini-4-argon", "gemini-4"),
        ("gemini-3-pro-preview", "gemini-3"),
        ("gemini-2.5-flash-lite", "gemini-2"),
    ]


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("gpt-6-sol", "openai-chat"),
        ("gpt-5.4-mini", "openai-chat@gpt-5.4-mini"),
        ("meta-llama/Llama-4:free", "openai-chat@meta-llama-Llama-4-free"),
        ("../../etc", "openai-chat@..-..-etc"),
    ],
)
def test_another_model_has_a_folder_of_its_own(model: str, folder: str) -> None:
    made = target_for(registry.target_named("openai-chat"), ALL[1], {"openai-chat": model})
    assert (made.model, made.cassettes) == (model, folder)
    assert re.fullmatch(r"[A-Za-z0-9._@-]+", made.cassettes)


def test_an_unknown_target() -> None:
    with pytest.raises(UnknownName) as raised:
        targets_for(ALL, ["gemini3"], {})
    known = ", ".join(sorted(target.name for target in registry.all_targets()))
    assert str(raised.value) == f"unknown target 'gemini3'. Did you mean 'gemini-3'? Known: {known}."
    assert "deepseek-anthropic" in known


def test_a_model_of_a_target_that_is_not_in_the_run() -> None:
    with pytest.raises(UnknownName) as raised:
        targets_for([ALL[0]], [], {"gemini-3": "x"})
    assert str(raised.value) == "--model: unknown target 'gemini-3'. Known: anthropic, anthropic-opus-5."


def test_an_adapter_without_a_target() -> None:
    with pytest.raises(UsageError) as raised:
        targets_for(ALL[:2], ["anthropic"], {})
    assert str(raised.value) == (
        "the adapter 'openai-chat' speaks 'openai-chat', and none of the chosen targets does: anthropic (anthropic)"
    )


def test_a_named_target_without_an_adapter() -> None:
    with pytest.raises(UsageError) as raised:
        targets_for([ALL[0]], ["anthropic", "gemini-3"], {})
    assert str(raised.value) == (
        "the target 'gemini-3' needs an adapter that speaks 'gemini', and none of the chosen ones does."
    )


def test_two_adapters_of_one_name() -> None:
    with pytest.raises(UsageError) as raised:
        targets_for([adapter("mine", "anthropic"), adapter("mine", "anthropic")], [], {})
    assert str(raised.value) == (
        "two of the chosen adapters would be the target 'mine'. Give one of them another name."
    )
