from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from harness.apis import registry
from harness.kit.factories import PROVIDERS
from harness.model.errors import MissingDependency
from harness.model.protocols import Capability, Endpoint
from harness.runner.costs import models
from harness.stdio import adapter_specs
from tests.cli.conftest import Command
from tests.cli.test_list import table

ROOT = Path(__file__).parent.parent.parent
SECRET = "sk-very-secret-0123456789"
VARIABLES = ("LLM_PROVIDER", "EMBEDDING_PROVIDER", "OPENAI_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_MODEL", "GEMINI_MODEL")
MORE = ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_EMBEDDING_MODEL", "GEMINI_EMBEDDING_DIMS")


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, *MORE):
        monkeypatch.delenv(name, raising=False)


def shown(harness: Command) -> dict[str, Any]:
    return json.loads(harness("providers", "--json").out)


def rows(text: str) -> dict[str, dict[str, str]]:
    lines = text.split("\n\n", maxsplit=1)[0]
    return {row["PROVIDER"]: row for row in table(lines, "PROVIDER", "TARGET", "MODEL", "NEEDS", "KEY", "BASE URL")}


def test_each_provider_has_a_row_with_its_sdk_and_its_key(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")

    outcome = harness("providers")

    found = rows(outcome.out)
    assert outcome.code == 0
    assert list(found) == list(PROVIDERS)
    assert found["gemini"] == {
        "PROVIDER": "gemini",
        "TARGET": "gemini-4",
        "MODEL": registry.target("gemini-4").model,
        "NEEDS": f"google-genai {metadata.version('google-genai')}",
        "KEY": "GEMINI_API_KEY: set",
        "BASE URL": "-",
    }
    assert found["anthropic"]["KEY"] == "ANTHROPIC_API_KEY: not set"
    assert found["claude-cli"]["KEY"] == (
        "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN: not set"
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_secret_is_ever_shown(harness: Command, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", *MORE[:2])
    for name in keys:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{SECRET}@proxy.example:4000/v1?key={SECRET}")

    outcome = harness("providers", *options)

    assert "https://proxy.example:4000/v1" in outcome.out
    assert all(name in outcome.out for name in keys)
    assert SECRET not in outcome.out + outcome.err


@pytest.mark.parametrize("url", ["http://[", "not a url", f"proxy.example/{SECRET}"])
def test_a_base_url_that_is_none_is_shown_without_a_traceback(
    harness: Command, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)

    outcome = harness("providers")

    assert outcome.code == 0
    assert rows(outcome.out)["openai-chat"]["BASE URL"] == "set, and no URL"
    assert url not in outcome.out


def test_it_says_what_the_models_that_are_shown_hold_for(harness: Command) -> None:
    assert (
        "MODEL               of harness.kit.factories (OPENAI_MODEL ...); 'run' and 'record' take --model TARGET=NAME"
    ) in harness("providers").out.splitlines()


def test_a_missing_sdk_is_shown_with_its_install_command(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("harness.cli.providers.version", version)
    monkeypatch.setenv("PATH", "")

    found = rows(harness("providers").out)

    assert found["gemini"]["NEEDS"] == "google-genai: not installed: pip install 'toolcall-harness[gemini]'"
    assert found["openai-chat"]["NEEDS"] == "openai: not installed: pip install 'toolcall-harness[openai]'"
    assert found["claude-cli"]["NEEDS"] == "claude: not on the path"


def test_a_command_on_the_path_is_found(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "claude").write_text("#!/bin/sh\n")
    (folder / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert rows(harness("providers").out)["claude-cli"]["NEEDS"] == "claude: on the path"


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai-chat", "openai-responses"])
def test_the_sdk_that_an_adapter_misses_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapter_specs.adapter(name)
    assert adapter.requires is not None
    module = {"google-genai": "google.genai"}.get(adapter.requires.name, adapter.requires.name)
    folders = (f"harness.adapters.{name.replace('-', '_')}.", "harness.adapters._openai.")
    for loaded in [each for each in sys.modules if each.startswith(folders)]:
        monkeypatch.delitem(sys.modules, loaded)
    for loaded in [each for each in sys.modules if each == module or each.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingDependency) as caught:
        adapter.connect(Endpoint("http://127.0.0.1:9", "none"), "none")

    assert (caught.value.module, caught.value.extra) == (adapter.requires.name, adapter.requires.extra)


def test_an_sdk_that_is_too_old_is_shown_with_the_way_out(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.providers.version", lambda _: "2.54.0")

    assert rows(harness("providers").out)["openai-chat"]["NEEDS"] == (
        "openai 2.54.0: too old, needs 3.0: pip install 'toolcall-harness[openai]'"
    )


def test_what_chats_and_what_embeds_is_said(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = harness("providers").out.splitlines()
    for name, value in {
        "LLM_PROVIDER": "anthropic",
        "ANTHROPIC_MODEL": "claude-haiku-5-5",
        "EMBEDDING_PROVIDER": "openai-chat",
        "OPENAI_EMBEDDING_DIMS": "256",
    }.items():
        monkeypatch.setenv(name, value)
    changed = harness("providers").out

    assert "LLM_PROVIDER        gemini" in usual
    assert "EMBEDDING_PROVIDER  gemini: gemini-embedding-2, 768 dimensions" in usual
    assert "LLM_PROVIDER        anthropic" in changed.splitlines()
    assert "EMBEDDING_PROVIDER  openai-chat: text-embedding-3-small, 256 dimensions" in changed.splitlines()
    assert rows(changed)["anthropic"]["MODEL"] == "claude-haiku-5-5"


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        (
            "LLM_PROVIDER",
            "opnai-chat",
            (
                "LLM_PROVIDER        LLM_PROVIDER: unknown provider 'opnai-chat'. Did you mean 'openai-chat'? "
                "Known: anthropic, claude-cli, gemini, openai-chat, openai-responses."
            ),
        ),
        (
            "EMBEDDING_PROVIDER",
            "anthropic",
            (
                "EMBEDDING_PROVIDER  the provider 'anthropic' has no embedding API; use gemini or openai-chat "
                "(EMBEDDING_PROVIDER)."
            ),
        ),
        (
            "GEMINI_EMBEDDING_DIMS",
            "many",
            (
                "EMBEDDING_PROVIDER  GEMINI_EMBEDDING_DIMS: 'many' is no length of vectors; "
                "set a number above 0, such as 768."
            ),
        ),
    ],
)
def test_a_variable_that_is_wrong_is_shown_with_the_way_out(
    harness: Command, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, line: str
) -> None:
    monkeypatch.setenv(variable, value)

    outcome = harness("providers")

    assert outcome.code == 0
    assert line in outcome.out.splitlines()


def test_each_target_has_what_its_adapter_can_do_with_its_model(harness: Command) -> None:
    document = shown(harness)
    shown_rows = harness("providers").out.split("\n\n")[2].splitlines()
    heads = shown_rows[0].split()

    assert heads == ["CAPABILITY", *(each.name for each in registry.targets())]
    assert [line.split()[0] for line in shown_rows[1:-1]] == [each.value for each in Capability]
    for target in document["targets"]:
        has = adapter_specs.adapter(target["adapter"]).capabilities
        able = {name for name, is_able in target["capabilities"].items() if is_able}
        assert able <= {each.value for each in has}
        column = heads.index(target["name"])
        assert able == {line.split()[0] for line in shown_rows[1:-1] if line.split()[column] == "yes"}
        assert target["models"] == [each.id for each in models(target["api"])]
        assert shown_rows[-1].split()[column + 1] == str(len(target["models"]))
    lacking = {each["name"]: not each["capabilities"]["json-with-tools"] for each in document["targets"]}
    assert lacking["gemini-2.5"]  # by its profile
    assert not lacking["gemini-3"]


def test_the_json_says_of_keys_only_whether_they_are_set(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    document = shown(harness)

    openai = next(each for each in document["providers"] if each["name"] == "openai-chat")
    assert openai == {
        "name": "openai-chat",
        "target": "openai-chat",
        "model": registry.target("openai-chat").model,
        "requires": {
            "name": "openai",
            "version": metadata.version("openai"),
            "at_least": "3.0",
            "install": "pip install 'toolcall-harness[openai]'",
        },
        "keys": {"OPENAI_API_KEY": True},
        "base_url": None,
    }
    assert document["embeddings"] == {
        "provider": "gemini",
        "model": "gemini-embedding-2",
        "dimensions": 768,
        "problem": None,
    }
