"""The scene agent's design by this library: its system prompt, ids, settings and capabilities.

Its `GenerateRequest` is a `ChatRequest`, its `SystemPrompt` the field `system`, its `FunctionCall.ID` a `ToolCall.id`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from harness.apis.registry import Target
from harness.apis.view import TextView
from harness.kit.handlers import CollectingHandler, ToolResultEvent, ToolUseEvent
from harness.kit.thread import Thread
from harness.model.messages import SYNTHESISED_ID, ToolCall, ToolResult
from harness.model.protocols import Capability
from harness.results import Verdict
from harness.scenarios.canonical import system_of, user_message
from tests.backends import shipped_scenarios, shipped_targets
from tests.broken.running import run_cell
from tests.seeds.connected import connected


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


@dataclass
class Scene:
    """The scene: the state that a thread passes to its tools."""

    lines: list[str] = field(default_factory=list[str])
    ran: list[str] = field(default_factory=list[str])
    locked: tuple[str, ...] = ()

    def prompt(self) -> str:
        """The design's `buildSystemPrompt(sceneContext)`."""
        reported = "You are an autonomous 3D scene assistant. Work with the tools, and name the objects that you touch."
        return f"{reported}\n\nCURRENT SCENE:\n" + "".join(f"{line}\n" for line in self.lines or ["(empty)"])


def edit(call: ToolCall, scene: Scene) -> ToolResult:
    """The design's `executeToolRequests(operation, callID)`."""
    scene.ran.append(call.id)
    if call.name == "create_shape":
        position = call.arguments["position"]
        assert isinstance(position, list)
        place = ", ".join(map(str, position))
        scene.lines.append(
            f'- obj-{len(scene.lines) + 1} {call.arguments["shape"]} "{call.arguments["name"]}" at {place}'
        )
        return ToolResult(call.id, call.name, {"id": f"obj-{len(scene.lines)}", "name": call.arguments["name"]})
    if call.arguments["id"] in scene.locked:
        raise PermissionError(f"{call.arguments['id']} is locked by another editor")
    return ToolResult(call.id, call.name, {"done": call.arguments["id"]})


def test_the_system_prompt_changes_with_each_turn(target: Target) -> None:
    scenario = shipped_scenarios()["seeds-scene-agent-context"]
    scene = Scene()
    with connected(scenario.id, target) as made:
        thread = Thread(made.template, state=scene)
        prompts: list[str] = []
        for index, turn in enumerate(scenario.turns):
            thread.template = replace(thread.template, system=scene.prompt())
            prompts += [scene.prompt()] * len(turn.model)
            assert scene.prompt() == system_of(scenario, index)  # the scene that the tools made is the scripted one
            thread.send(made.client, user_message(turn), edit)

        assert [[system.text for system in asked.system] for asked in made.asked] == [[prompt] for prompt in prompts]
        texts = [
            part.text
            for asked in made.asked
            for turn in asked.turns
            for part in turn.parts
            if isinstance(part, TextView)
        ]
    assert texts
    assert not [text for text in texts if "CURRENT SCENE" in text]
    assert "CURRENT SCENE" not in str(thread.messages)


def test_a_call_id_reaches_events_tool_and_result(target: Target) -> None:
    scene, handler = Scene(), CollectingHandler()
    with connected("seeds-scene-agent-ids", target) as made:
        thread = Thread(made.template, state=scene)
        thread.send(made.client, "Copy obj-1 twice.", edit, handler)
        thread.send(made.client, "And twice more.", edit, handler)
        issued = [call.id for answer in made.answered for call in answer.calls]
        last = made.asked[-1]

    called = [event.call.id for event in handler.events if isinstance(event, ToolUseEvent)]
    answered = [event.result.call_id for event in handler.events if isinstance(event, ToolResultEvent)]
    assert called == answered == scene.ran
    assert len(set(called)) == len(called) == 4
    kinds = [type(event).__name__ for event in handler.events]
    assert kinds == ["ToolUseEvent", "ToolResultEvent", "ToolUseEvent", "ToolResultEvent", "TextEvent", "Done"] * 2
    if target.profile.call_ids:
        assert called == issued == [call.id for call in last.calls] == [result.call_id for result in last.results]
    else:
        assert {*issued, *(call.id for call in last.calls), *(result.call_id for result in last.results)} == {None}
        calls = [event.call for event in handler.events if isinstance(event, ToolUseEvent)]
        assert [call.provider_metadata["harness"] for call in calls] == [{SYNTHESISED_ID: True}] * 4


@pytest.mark.parametrize(
    ("scenario", "capability"),
    [("seeds-scene-agent-screenshot", Capability.VISION), ("seeds-scene-agent-thinking", Capability.THINKING)],
)
def test_capabilities_decide_which_scenarios_apply(scenario: str, capability: Capability, target: Target) -> None:
    """The design's `SupportsVision()` and `SupportsThinking()`."""
    has = capability in target.adapter.capabilities - target.profile.lacks
    assert run_cell(scenario, target.name).verdict is (Verdict.PASS if has else Verdict.NOT_APPLICABLE)
    without = run_cell(
        scenario, target.name, lambda adapter: replace(adapter, capabilities=adapter.capabilities - {capability})
    )
    assert without.verdict is Verdict.NOT_APPLICABLE
    assert capability.value in (without.reason or "")
