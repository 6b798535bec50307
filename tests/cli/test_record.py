from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import harness as package
from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.cli import execution
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.files import shipped_folder
from harness.reference_server.script_session import ScriptSession
from harness.reports.words import money
from harness.runner.cells import Cell, not_applicable
from harness.runner.costs import estimate
from harness.scenarios.load import load_file
from tests.backends import shipped_scenarios, shipped_targets
from tests.cli.conftest import Command

KEY = "sk-ant-not-a-real-key-0123456789"


class Provider:
    """Stands in for Anthropic: answers with a scenario's script, to whoever has the key."""

    def __init__(self) -> None:
        self.requests = 0
        self._scenario = load_file(shipped_folder("scenarios") / "call-single.yaml")
        self._session = self._begun()

    def _begun(self) -> ScriptSession:
        wire, model = registry.api("anthropic"), registry.targets()[0].model
        return ScriptSession(self._scenario, wire, model, registry.api("anthropic").profile_for(model))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests += 1
        if not any(value.endswith(KEY) for value in request.headers.values()):
            return HttpResponse(
                401, {"content-type": "application/json"}, b'{"error": {"type": "authentication_error"}}'
            )
        if len(json.loads(request.body)["messages"]) == 1:  # another conversation
            self._session = self._begun()
        return self._session(request)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[tuple[Provider, str]]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made = Provider()
    with serve() as server:
        yield made, server.mount(made)


def test_a_recording_from_a_provider_says_so_and_holds_no_key(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    outcome = harness("record", "call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")
    replayed = harness("run", "call-single", "--target", "anthropic")

    places = [folder / "cassettes" / "call-single" / name for name in ("anthropic.yaml", "anthropic.stream.yaml")]
    cassettes = [place.read_text() for place in places]
    assert outcome.code == 0
    assert provider[0].requests == 4
    assert KEY not in "".join([*cassettes, outcome.out])
    address = provider[1].rpartition("/")[0]
    assert all(f"origin: server\n  note: Recorded from {address}, not from the provider." in each for each in cassettes)
    assert all(f"\n  versions:\n    anthropic: {version('anthropic')}\n  recorded_from:" in each for each in cassettes)
    assert f"Recorded from {address}, not from the provider: 2 cells of anthropic (claude-opus-5-5," in replayed.out


def test_a_cell_whose_chat_failed_is_said_to_be_unrecorded(
    harness: Command, folder: Path, provider: tuple[Provider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key-that-is-not-taken")

    outcome = harness("record", "call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")

    assert outcome.code == 1
    assert "call-single . anthropic: not recorded: a chat failed, and what was there before stays" in outcome.out
    assert "Recorded from" not in outcome.out
    assert list(folder.glob("cassettes/*/*.yaml")) == []


@pytest.mark.parametrize(
    "edit",
    [lambda text: text.replace("_requested: claude-opus-5-5", "_requested: a"), lambda _: ""],
    ids=["edited", "empty"],
)
def test_what_cannot_be_read_is_replaced_by_force_only(
    harness: Command, folder: Path, edit: Callable[[str], str]
) -> None:
    first = ("record", "call-single", "--from", "reference", "--target", "anthropic")
    place = folder / "cassettes" / "call-single" / "anthropic.yaml"
    harness(*first)
    before = edit(place.read_text())
    place.write_text(before)

    refused, forced = harness(*first), harness(*first, "--force")

    assert refused.code == 2
    assert refused.err.startswith("harness: cassettes/call-single/anthropic.yaml")
    assert "with --force" in refused.err
    assert forced.code == 0
    assert place.read_text() != before


def test_nothing_is_written_into_the_installed_package(harness: Command) -> None:
    inside = Path(package.__file__).parent / "_shipped" / "cassettes"

    outcome = harness("record", "call-single", "--from", "reference", "--cassettes", str(inside))

    assert outcome.code == 2
    assert outcome.err == (
        f"harness: --cassettes {inside}: this is inside the installed package, which an update replaces. "
        "Name another folder.\n"
    )
    assert not inside.exists()


def test_a_live_run_writes_nothing(harness: Command, folder: Path, provider: tuple[Provider, str]) -> None:
    words = ("--mode=live", "--target=anthropic", f"--base-url=anthropic={provider[1]}", "--report=json")
    outcome = harness("run", "call-single", *words)

    assert json.loads(outcome.out)["cells"][0]["provenance"]["recorded_from"] == provider[1].rpartition("/")[0]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [("run", "--mode", "live"), ("record",)])
def test_a_command_that_is_not_installed_is_one_message(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(folder))

    outcome = harness(*words, "call-single", "--target", "claude-cli")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("harness: the target 'claude-cli' runs the command 'claude', which is not on PATH")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "target"), [(("run", "--mode", "live"), "openai-chat"), (("record",), "openai-responses")]
)
def test_the_base_url_that_is_set_is_where_it_is_sent(
    harness: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], target: str
) -> None:
    asked: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        asked.append(request.headers["authorization"])
        return HttpResponse(404, {"content-type": "application/json"}, b'{"error": {"message": "no such model"}}')

    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-a-proxy")
    command = (*words, "call-single", "--target", target, "--variant", "whole")
    with serve() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.mount(answer)}/v1")
        harness(*command)
        assert asked == ["Bearer the-key-of-a-proxy"]
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        harness(*command, "--base-url", f"{target}={server.mount(answer)}/v1")
        assert asked == ["Bearer the-key-of-a-proxy"] * 2


def test_the_base_url_of_openai_is_not_sent_to_by_others(
    harness: Command, provider: tuple[Provider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", provider[1])
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    outcome = harness("run", "call-single", "--mode", "live", "--target", "anthropic")

    assert outcome.err.startswith("harness: the target 'anthropic' needs a key")  # no server of one's own
    assert provider[0].requests == 0


def test_an_invalid_base_url_is_named_without_secrets(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"proxy.example/v1?key={KEY}")

    outcome = harness("run", "call-single", "--mode", "live", "--target", "openai-chat")

    text = "not a URL: it must begin with http:// or https://, as in http://127.0.0.1:4000/v1."
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"harness: OPENAI_BASE_URL: {text}\n")
    assert harness("run", "call-single", "--mode", "reference", "--target", "openai-chat").code == 0


def test_costs_are_printed_without_a_terminal_report(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    words = ("call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}", "--max-requests", "2")

    outcome = harness("record", *words, "--report", "json")

    said = outcome.err.splitlines()
    assert said[0].startswith("To be sent: about 2 requests, ")
    assert said[2].startswith("Cost: not known for 2 requests: anthropic (claude-opus-5-5)")
    assert json.loads(outcome.out)["costs"]["anthropic"]["requests"] == 2


def test_the_estimate_names_each_target_with_its_part(capsys: pytest.CaptureFixture[str]) -> None:
    scenarios = shipped_scenarios()
    cells = [
        Cell(scenarios[name], shipped_targets()[target], "whole")
        for name in ("call-single", "seeds-code-search-embeddings", "error-429")
        for target in ("anthropic", "gemini-3")
    ]
    parts = estimate([cell for cell in cells if not_applicable(cell, "live") is None])

    execution.print_cost_forecast(cells, {}, None)

    shown = capsys.readouterr().err.splitlines()
    anthropic, gemini = parts["anthropic"].dollars, parts["gemini-3"].dollars
    embedded = parts["gemini-3"].requests - 2
    assert anthropic is not None
    assert gemini is not None
    assert shown[0].startswith(f"To be sent: about {4 + embedded} requests, about {money(anthropic + gemini)}")
    assert shown[1] == f"  anthropic (claude-opus-5-5): about 2 requests, about {money(anthropic)}"
    assert shown[2].startswith(
        f"  gemini-3 ({registry.target_named('gemini-3').model}, gemini-embedding-2): about {2 + embedded} requests"
    )
    assert len(shown) == 3
