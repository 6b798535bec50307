from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness as package
from harness.http import HttpRequest, HttpResponse
from harness.profiles import profile_for
from harness.reference.session import Session
from harness.scenarios.load import load_paths
from harness.suite import shipped
from harness.tape.server import serve
from harness.targets import SHIPPED
from harness.wire.apis import wire_format
from tests.cli.conftest import Command

KEY = "sk-ant-not-a-real-key-0123456789"


class Provider:
    """Stands in for Anthropic: answers with a scenario's script, to whoever has the key."""

    def __init__(self) -> None:
        self.requests = 0
        wire, model = wire_format("anthropic"), SHIPPED[0].model
        scenario = next(each for each in load_paths([shipped("scenarios")]) if each.id == "call-single")
        self._session = Session(scenario, wire, model, profile_for("anthropic", model))

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests += 1
        if not any(value.endswith(KEY) for value in request.headers.values()):
            return HttpResponse(
                401, {"content-type": "application/json"}, b'{"error": {"type": "authentication_error"}}'
            )
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
    assert sorted(path.parent.name for path in folder.glob("cassettes/*/call-single.yaml")) == ["anthropic", "gemini-3"]


def test_a_recording_from_a_provider_says_so_and_holds_no_key(
    harness: Command, folder: Path, provider: tuple[Provider, str]
) -> None:
    outcome = harness("record", "call-single", "--target", "anthropic", "--base-url", f"anthropic={provider[1]}")
    played = harness("run", "call-single", "--target", "anthropic")

    cassette = (folder / "cassettes" / "anthropic" / "call-single.yaml").read_text()
    assert outcome.code == 0
    assert provider[0].requests == 2
    assert KEY not in cassette + outcome.out
    assert "origin: provider" in cassette
    assert "Recorded from the provider: 1 cell of anthropic (claude-opus-5-5, 20" in played.out


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

    outcome = harness(*arguments, "--max-requests", "2")

    assert outcome.code == 2
    assert "Not recorded: 1 cell" in outcome.out.splitlines()
    assert "--max-requests allows" in outcome.out
    assert "harness record --from reference json-mode --target anthropic" in outcome.out
    assert [path.stem for path in folder.glob("cassettes/anthropic/*.yaml")] == ["call-single"]


def test_another_models_cassette_is_replaced_by_force_only(harness: Command, folder: Path) -> None:
    first = ("record", "call-single", "--from", "reference", "--target", "anthropic")
    place = folder / "cassettes" / "anthropic" / "call-single.yaml"
    harness(*first)
    place.write_text(place.read_text().replace("model_requested: claude-opus-5-5", "model_requested: claude-opus-4-1"))
    before = place.read_text()

    refused, forced = harness(*first), harness(*first, "--force")

    assert refused.code == 2
    assert "cassettes/anthropic/call-single.yaml" in refused.err
    assert "Traceback" not in refused.err
    assert forced.code == 0
    assert place.read_text() != before


def test_another_model_is_recorded_beside_the_first(harness: Command, folder: Path) -> None:
    arguments = ("record", "call-single", "--from", "reference", "--target", "gemini-3")

    outcomes = [harness(*arguments), harness(*arguments, "--model", "gemini-3=gemini-3.6-pro")]

    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert len(list(folder.glob("cassettes/*/call-single.yaml"))) == 2


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

    assert json.loads(outcome.out)["cells"][0]["provenance"]["origin"] == "provider"
    assert list(folder.iterdir()) == []
