from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import harness as package
from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.cli import execution
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from harness.reports.words import money
from harness.runner.budget import estimate
from harness.runner.cells import Cell, not_applicable
from harness.scenarios.load import load_file
from harness.scenarios.suite import shipped
from tests.cli.conftest import Command
from tests.stages import shipped_scenarios, shipped_targets

KEY = "sk-ant-not-a-real-key-0123456789"


class Provider:
    """Stands in for Anthropic: answers with a scenario's script, to whoever has the key."""

    def __init__(self) -> None:
        self.requests = 0
        self._scenario = load_file(shipped("scenarios") / "call-single.yaml")
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


def test_a_recording_from_the_reference_server_can_be_played(harness: Command, folder: Path) -> None:
    recorded = harness("record", "call-single", "--from", "reference", "--target", "gemini-3", "--target", "anthropic")
    played = harness("run", "call-single", "--target", "gemini-3", "--target", "anthropic")

    assert (recorded.code, played.code) == (0, 0)
    assert "The cassettes are in cassettes." in recorded.out.splitlines()
    assert all("versions" not in path.read_text() for path in folder.glob("cassettes/*/*.yaml"))
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("cassettes/*/*.yaml")) == [
        "cassettes/call-single/anthropic.stream.yaml",
        "cassettes/call-single/anthropic.yaml",
        "cassettes/call-single/gemini-3.stream.yaml",
        "cassettes/call-single/gemini-3.yaml",
    ]


@pytest.mark.parametrize(("variant", "name"), [("whole", "gemini-3.yaml"), ("stream", "gemini-3.stream.yaml")])
def test_a_variant_that_is_named_is_recorded_alone(harness: Command, folder: Path, variant: str, name: str) -> None:
    words = ("call-single", "--target", "gemini-3", "--variant", variant)

    recorded, played = harness("record", "--from", "reference", *words), harness("run", *words)

    assert (recorded.code, played.code) == (0, 0)
    assert [path.name for path in folder.glob("cassettes/*/*.yaml")] == [name]


def test_a_recording_from_a_provider_says_so_and_holds_no_key(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    outcome = harness("record", "call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")
    played = harness("run", "call-single", "--target", "anthropic")

    places = [folder / "cassettes" / "call-single" / name for name in ("anthropic.yaml", "anthropic.stream.yaml")]
    cassettes = [place.read_text() for place in places]
    assert outcome.code == 0
    assert provider[0].requests == 4
    assert KEY not in "".join([*cassettes, outcome.out])
    address = provider[1].rpartition("/")[0]
    assert all(f"origin: server\n  note: Recorded from {address}, not from the provider." in each for each in cassettes)
    assert all(f"\n  versions:\n    anthropic: {version('anthropic')}\n  recorded_from:" in each for each in cassettes)
    assert f"Recorded from {address}, not from the provider: 2 cells of anthropic (claude-opus-5-5," in played.out


def test_a_cell_whose_chat_failed_is_said_to_be_unrecorded(
    harness: Command, folder: Path, provider: tuple[Provider, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another-key-that-is-not-taken")

    outcome = harness("record", "call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")

    assert outcome.code == 1
    assert "call-single . anthropic: not recorded: a chat failed, and what was there before stays" in outcome.out
    assert "Recorded from" not in outcome.out
    assert list(folder.glob("cassettes/*/*.yaml")) == []


def test_no_cell_is_begun_after_the_last_request_that_is_allowed(harness: Command, folder: Path) -> None:
    arguments = ("record", "call-single", "json-mode", "--from", "reference", "--target", "anthropic")

    outcome = harness(*arguments, "--max-requests", "4")

    assert outcome.code == 2
    assert "Not recorded: 2 cells" in outcome.out.splitlines()
    assert "--max-requests allows" in outcome.out
    assert "harness record --from reference json-mode --target anthropic" in outcome.out
    assert sorted(path.parent.name for path in folder.glob("cassettes/*/*.yaml")) == ["call-single", "call-single"]


def test_another_models_cassette_is_replaced_by_force_only(harness: Command, folder: Path) -> None:
    first = ("record", "call-single", "--from", "reference", "--target", "anthropic")
    place = folder / "cassettes" / "call-single" / "anthropic.yaml"
    harness(*first)
    place.write_text(place.read_text().replace("model_requested: claude-opus-5-5", "model_requested: claude-opus-4-1"))
    before = place.read_text()

    refused, forced = harness(*first), harness(*first, "--force")

    assert refused.code == 2
    assert "cassettes/call-single/anthropic.yaml" in refused.err
    assert "Traceback" not in refused.err
    assert forced.code == 0
    assert place.read_text() != before


def test_what_cannot_be_read_is_replaced_by_force_only(harness: Command, folder: Path) -> None:
    words = ("record", "call-single", "--from", "reference", "--target", "anthropic")
    place = folder / "cassettes" / "call-single" / "anthropic.yaml"
    harness(*words)
    place.write_bytes(b"")

    refused, forced = harness(*words), harness(*words, "--force")

    assert (refused.code, forced.code) == (2, 0)
    assert refused.err.startswith("harness: cassettes/call-single/anthropic.yaml: what is there cannot be read: ")
    assert "Record with --force to replace it" in refused.err
    assert harness("run", *words[1:2], *words[4:]).code == 0


def test_another_model_is_recorded_beside_the_first(harness: Command, folder: Path) -> None:
    arguments = ("record", "call-single", "--from", "reference", "--target", "gemini-3")

    outcomes = [harness(*arguments), harness(*arguments, "--model", "gemini-3=gemini-3.6-pro")]

    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert sorted(path.name for path in folder.glob("cassettes/call-single/*.yaml")) == [
        "gemini-3.stream.yaml",
        "gemini-3.yaml",
        "gemini-3@gemini-3.6-pro.stream.yaml",
        "gemini-3@gemini-3.6-pro.yaml",
    ]


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
    outcome = harness(
        "run",
        "call-single",
        "--mode",
        "live",
        "--target",
        "anthropic",
        "--base-url",
        f"anthropic={provider[1]}",
        "--report",
        "json",
    )

    assert json.loads(outcome.out)["cells"][0]["provenance"]["recorded_from"] == provider[1].rpartition("/")[0]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [("run", "--mode", "live"), ("record",)])
def test_a_command_that_is_not_installed_is_one_message(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(folder))

    outcome = harness(*words, "call-single", "--target", "claude-cli")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("harness: the target 'claude-cli' runs the command 'claude', which is not on the")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("words", [("run", "--mode", "live"), ("record",)])
@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
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

    assert (outcome.code, outcome.out, outcome.err) == (
        2,
        "",
        (
            "harness: OPENAI_BASE_URL: this is no URL: it must begin with http:// or https://, "
            "as in http://127.0.0.1:4000/v1.\n"
        ),
    )
    assert harness("run", "call-single", "--mode", "reference", "--target", "openai-chat").code == 0


def test_what_it_will_cost_is_said_before_anything_is_sent(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    words = ("call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")

    outcome = harness("record", *words)

    first, second = outcome.err.splitlines()
    assert first.startswith("To be sent: about 4 requests, at an unknown cost; reasoning costs extra (genai-")
    assert second == "  anthropic (claude-opus-5-5): about 4 requests, at an unknown cost"
    assert provider[0].requests == 4
    assert "Cost: not known for 4 requests: anthropic (claude-opus-5-5)" in outcome.out


def test_costs_are_printed_without_a_terminal_report(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    words = ("call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}", "--max-requests", "2")

    outcome = harness("record", *words, "--report", "json")

    said = outcome.err.splitlines()
    assert said[0].startswith("To be sent: about 2 requests, ")
    assert said[2].startswith("Cost: not known for 2 requests: anthropic (claude-opus-5-5)")
    assert json.loads(outcome.out)["costs"]["anthropic"]["requests"] == 2


def test_a_key_that_is_missing_is_told_before_any_estimate(harness: Command) -> None:
    outcome = harness("record", "call-single", "--target", "gemini-3")
    assert outcome.code == 2
    assert "To be sent" not in outcome.err


def test_a_reference_recording_prints_no_estimate(harness: Command) -> None:
    assert harness("record", "call-single", "--from", "reference", "--target", "gemini-3").err == ""


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
        f"  gemini-3 ({registry.target('gemini-3').model}, gemini-embedding-2): about {2 + embedded} requests"
    )
    assert len(shown) == 3


def test_where_nothing_would_be_sent_there_is_no_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    execution.print_cost_forecast(
        [Cell(shipped_scenarios()["error-429"], shipped_targets()["anthropic"], "whole")], {}, None
    )
    assert capsys.readouterr().err == ""


def test_the_estimate_says_of_how_much_the_cost_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    scenarios, targets = shipped_scenarios(), shipped_targets()
    cells = [Cell(scenarios["call-single"], targets[name], "whole") for name in ("anthropic", "gemini-3")]

    execution.print_cost_forecast(cells, {"gemini-3": "http://127.0.0.1:4000"}, None)

    total, _, gemini = capsys.readouterr().err.splitlines()
    dollars = estimate(cells)["anthropic"].dollars
    assert dollars is not None
    assert total.startswith(
        f"To be sent: about 4 requests, about {money(dollars)}, and 2 of them at an unknown cost; reasoning"
    )
    assert gemini == f"  gemini-3 ({registry.target('gemini-3').model}): about 2 requests, at an unknown cost"


def test_an_estimate_too_small_to_be_shown_is_not_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell(shipped_scenarios()["seeds-code-search-embeddings"], shipped_targets()["openai-chat"], "whole")

    execution.print_cost_forecast([cell], {}, None)

    assert "requests, less than $0.0001; reasoning" in capsys.readouterr().err
