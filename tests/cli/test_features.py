"""`harness list features`: what adapters carry, refuse or lose."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.reports.published_reports import FEATURES
from harness.runner import suite_run
from tests.backends import shipped_scenarios
from tests.cli.conftest import Command

LOSING = """
from dataclasses import replace

from harness.adapters.openai_chat import ADAPTER as SHIPPED
from harness.model.messages import Refusal, Text


class Losing:
    def __init__(self, client):
        self.client = client

    def chat(self, request):
        response = self.client.chat(replace(request, provider_metadata={}))
        parts = [Text(part.text) if isinstance(part, Refusal) else part for part in response.message.parts]
        return replace(response, message=replace(response.message, parts=tuple(parts)))

    def close(self):
        self.client.close()


ADAPTER = replace(
    SHIPPED,
    name="losing",
    capabilities=SHIPPED.capabilities - {"streaming", "vision", "embeddings"},
    connect=lambda endpoint, model: Losing(SHIPPED.connect(endpoint, model)),
    embeddings=None,
)
"""


def rows(text: str) -> dict[str, str]:
    """Feature → the word of its first target."""
    lines = text.partition("\n\n")[0].splitlines()
    width = lines[0].index(lines[0].split()[1])
    return {line[:width].strip(): line[width:].split()[0] for line in lines[1:]}


def test_each_feature_has_a_shipped_scenario() -> None:
    assert {scenario for proofs in FEATURES.values() for scenario in proofs} <= shipped_scenarios().keys()


def test_the_features_of_shipped_adapters_are_listed(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "MIN_CELLS_PER_FORK", 10_000)
    done = harness("list", "features", "--target", "anthropic", "--target", "gemini-3")

    assert done.code == 0
    found = rows(done.out)
    assert [*found] == [*FEATURES]
    assert (found["strict tools"], found["seed"], found["embeddings"]) == ("carried", "absent", "refused")
    assert "LOST" not in found.values()


@pytest.mark.usefixtures("in_process")
def test_a_feature_that_an_adapter_loses_is_named(
    harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "losing.py").write_text(LOSING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    done = harness("list", "features", "--adapter", "losing:ADAPTER")

    assert done.code == 1
    found = rows(done.out)
    assert (found["service tier"], found["seed"], found["images"]) == ("LOST", "LOST", "refused")
    assert (found["safety settings"], found["JSON mode"]) == ("absent", "carried")
    assert found["refusals"] == "changed"  # it arrives as text


def test_a_feature_without_a_recording_is_unknown_and_not_lost(harness: Command, tmp_path: Path) -> None:
    arguments = ("--report", "features", "--cassettes", str(tmp_path), "--target", "anthropic")
    done = harness("run", "call-parallel-different-tools", *arguments)

    assert rows(done.out) == {"parallel calls": "unknown"}


def test_the_table_says_what_lacks_a_feature(harness: Command) -> None:
    done = harness("run", "audio-from-user", "fields-seed", "--target", "anthropic", "--report", "table")

    lines = [line.split("|")[1:3] for line in done.out.splitlines() if line.startswith("| ")]
    assert {name.strip(): word.strip() for name, word in lines if name.strip() in {"audio", "seed"}} == {
        "audio": "refused",
        "seed": "absent",
    }


@pytest.mark.usefixtures("in_process")
def test_what_the_provider_refuses_whatever_the_feature_is_not_called_lost(
    harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "{'openai-chat': {**request.provider_metadata.get('openai-chat', {}), 'colour': 'blue'}}"
    (tmp_path / "losing.py").write_text(LOSING.replace("provider_metadata={}", f"provider_metadata={wrong}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "losing", raising=False)
    scenarios = ("fields-service-tier", "fields-seed", "json-mode", "choice-required")
    done = harness("run", *scenarios, "--report", "features", "--mode", "reference", "--adapter", "losing:ADAPTER")

    assert {*rows(done.out).values()} == {"blocked"}
    assert "requests of many features alike: openai-chat-" in done.out
