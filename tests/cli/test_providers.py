"""`harness providers`: what is installed, which keys are set, and what each target can do."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from harness.apis import registry
from harness.kit.factories import PROVIDERS
from harness.model.protocols import Capability
from harness.runner.costs import models
from harness.stdio import adapter_specs
from tests.cli.conftest import Command
from tests.cli.test_list import table

SECRET = "sk-very-secret-0123456789"
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_AUTH_TOKEN")
OTHERS = ("LLM_PROVIDER", "EMBEDDING_PROVIDER", "OPENAI_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_MODEL", "GEMINI_MODEL")
MORE = ("CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_EMBEDDING_MODEL", "GEMINI_EMBEDDING_DIMS")


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, *OTHERS, *MORE):
        monkeypatch.delenv(name, raising=False)


def rows(text: str) -> dict[str, dict[str, str]]:
    lines = text.split("\n\n", maxsplit=1)[0]
    return {row["PROVIDER"]: row for row in table(lines, "PROVIDER", "TARGET", "MODEL", "NEEDS", "KEY", "BASE URL")}


def test_each_provider_has_a_row_with_its_sdk_and_its_key(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    monkeypatch.setenv("OPENAI_BASE_URL", f"proxy.example/{SECRET}")

    outcome = harness("providers")

    found = rows(outcome.out)
    assert outcome.code == 0
    assert list(found) == list(PROVIDERS)
    gemini = ("gemini", "gemini-4", registry.target_named("gemini-4").model)
    needs = f"google-genai {metadata.version('google-genai')}"
    assert tuple(found["gemini"].values()) == (*gemini, needs, "GEMINI_API_KEY: set", "-")
    assert found["anthropic"]["KEY"] == "ANTHROPIC_API_KEY: not set"
    every = "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN"
    assert found["claude-cli"]["KEY"] == f"{every}: not set"
    assert found["openai-chat"]["BASE URL"] == "set, and no URL"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_secret_is_ever_shown(harness: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{SECRET}@proxy.example:4000/v1?key={SECRET}")

    outcome = harness("providers", *options)

    assert "https://proxy.example:4000/v1" in outcome.out
    assert all(name in outcome.out for name in KEYS)
    assert SECRET not in outcome.out + outcome.err


def test_what_is_missing_or_too_old_is_shown_with_its_install_command(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = {"openai": "2.54.0"}
    monkeypatch.setattr("harness.cli.providers.installed_version", installed.get)
    monkeypatch.setenv("PATH", str(folder))

    found = {name: row["NEEDS"] for name, row in rows(harness("providers").out).items()}
    (folder / "claude").touch(0o755)

    assert found["gemini"] == "google-genai: not installed: pip install 'toolcall-harness[gemini]'"
    assert found["openai-chat"] == "openai 2.54.0: too old, needs 3.0: pip install 'toolcall-harness[openai]'"
    assert found["claude-cli"] == "claude: not on the path"
    assert rows(harness("providers").out)["claude-cli"]["NEEDS"] == "claude: on the path"


def test_what_chats_and_what_embeds_is_shown(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = harness("providers").out.splitlines()
    variables = "LLM_PROVIDER=anthropic ANTHROPIC_MODEL=claude-haiku-5-5 EMBEDDING_PROVIDER=openai-chat"
    for each in (*variables.split(), "OPENAI_EMBEDDING_DIMS=256"):
        monkeypatch.setenv(*each.split("="))
    changed = harness("providers").out

    assert {"LLM_PROVIDER        gemini", "EMBEDDING_PROVIDER  gemini: gemini-embedding-2, 768 dimensions"} <= {*usual}
    assert "LLM_PROVIDER        anthropic" in changed.splitlines()
    assert "EMBEDDING_PROVIDER  openai-chat: text-embedding-3-small, 256 dimensions" in changed.splitlines()
    assert rows(changed)["anthropic"]["MODEL"] == "claude-haiku-5-5"


WRONG = {
    "LLM_PROVIDER=opnai-chat": "LLM_PROVIDER        LLM_PROVIDER: unknown provider 'opnai-chat'. Did you mean "
    "'openai-chat'? Known: anthropic, claude-cli, gemini, openai-chat, openai-responses.",
    "EMBEDDING_PROVIDER=anthropic": "EMBEDDING_PROVIDER  the provider 'anthropic' has no embedding API; use gemini or "
    "openai-chat (EMBEDDING_PROVIDER).",
    "GEMINI_EMBEDDING_DIMS=many": "EMBEDDING_PROVIDER  GEMINI_EMBEDDING_DIMS: 'many' is not a vector length; set a "
    "number above 0, such as 768.",
}


@pytest.mark.parametrize("variable", WRONG)
def test_a_variable_that_is_wrong_is_shown_with_the_way_out(
    harness: Command, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(*variable.split("="))
    outcome = harness("providers")
    assert outcome.code == 0
    assert WRONG[variable] in outcome.out.splitlines()


def test_each_target_has_what_its_adapter_can_do_with_its_model(harness: Command) -> None:
    document = json.loads(harness("providers", "--json").out)
    shown_rows = harness("providers").out.split("\n\n")[2].splitlines()
    heads = shown_rows[0].split()

    assert heads == ["CAPABILITY", *(each.name for each in registry.targets())]
    assert [line.split()[0] for line in shown_rows[1:-1]] == [each.value for each in Capability]
    for target in document["targets"]:
        able = {name for name, is_able in target["capabilities"].items() if is_able}
        assert able <= {each.value for each in adapter_specs.adapter(target["adapter"]).capabilities}
        column = heads.index(target["name"])
        assert able == {line.split()[0] for line in shown_rows[1:-1] if line.split()[column] == "yes"}
        assert target["models"] == [each.id for each in models(target["api"])]
        assert shown_rows[-1].split()[column + 1] == str(len(target["models"]))
    lacking = {each["name"]: not each["capabilities"]["json-with-tools"] for each in document["targets"]}
    assert (lacking["gemini-2.5"], lacking["gemini-3"]) == (True, False)  # by their profiles


def test_the_json_says_of_keys_only_whether_they_are_set(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    document = json.loads(harness("providers", "--json").out)

    openai = next(each for each in document["providers"] if each["name"] == "openai-chat")
    install = "pip install 'toolcall-harness[openai]'"
    version = metadata.version("openai")
    assert openai.pop("requires") == {"name": "openai", "version": version, "at_least": "3.0", "install": install}
    model = registry.target_named("openai-chat").model
    keys = {"OPENAI_API_KEY": True}
    assert openai == {"name": "openai-chat", "target": "openai-chat", "model": model, "keys": keys, "base_url": None}
    embeddings = {"provider": "gemini", "model": "gemini-embedding-2", "dimensions": 768, "problem": None}
    assert document["embeddings"] == embeddings
