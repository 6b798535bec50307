"""Hand-overs between two providers, for which a local server stands in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from harness.runner.hand_over import hand_over_cells
from tests.backends import shipped_scenarios, shipped_targets
from tests.cli.conftest import Command


@pytest.mark.parametrize("variant", ["whole", "stream"])
def test_a_conversation_with_one_provider_is_continued_with_another(
    harness: Command, monkeypatch: pytest.MonkeyPatch, folder: Path, variant: str
) -> None:
    first, second = (shipped_targets()[name] for name in ("anthropic", "openai-chat"))
    cells = hand_over_cells([shipped_scenarios()["result-error"]], [first, second], [])
    (cell,) = (each for each in cells if each.target.name == "openai-chat")
    sessions = {
        api.name: ScriptSession(scenario, api, target.model, target.profile)
        for scenario, target in ((cell.start, first), (cell.scenario, second))
        for api in (registry.api(target.api),)
    }

    def provider(request: HttpRequest) -> HttpResponse:
        (name,) = (name for name in sessions if registry.api(name).recognises(request))
        return sessions[name](request)

    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    with serve() as server:
        url = server.mount(provider)
        targets = ("--target", first.name, "--target", second.name)
        urls = ("--base-url", f"anthropic={url}", "--base-url", f"openai-chat={url}/v1")
        wanted = ("--mode", "live", "-k", "error-text-after-anthropic", "--variant", variant)
        done = harness("run", "--hand-over", *wanted, *targets, *urls, "--report", "json:r")
    assert done.code == 0, done.out + done.err
    (result,) = json.loads((folder / "r").read_text())["cells"]
    assert (result["variant"], result["hand_over"]["outcome"], result["hand_over"]["source"]) == (
        variant,
        "translated",
        "anthropic",
    )
