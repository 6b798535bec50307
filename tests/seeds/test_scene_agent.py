"""The scene agent's design by this library: the system prompt, the ids, the settings and the capabilities it asked for.

Its `GenerateRequest` is a `ChatRequest`, its `SystemPrompt` the field `system`, its `FunctionCall.ID` a `ToolCall.id`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from harness.apis.targets import Target
from harness.apis.view import MediaView, TextView
from harness.contract.model import (
    SYNTHESISED_ID,
    ChatRequest,
    ChatResponse,
    Image,
    Message,
    Role,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.contract.protocols import Capability
from harness.kit.handlers import Answered, Called, CollectingHandler
from harness.kit.thread import Thread
from harness.results import Verdict
from harness.scenarios.canonical import settings_of, system_of, user_message
from tests.broken.playing import played
from tests.seeds.connected import connected
from tests.stages import shipped_scenarios, shipped_targets


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


@dataclass
class Scene:
    """What the agent works on: the state that a thread hands to its tools."""

    lines: list[str] = field(default_factory=list[str])
    ran: list[str] = field(default_factory=list[str])
    locked: tuple[str, ...] = ()

    def prompt(self) -> str:
        """The design's `buildSystemPrompt(sceneContext)`."""
        told = "You are an autonomous 3D scene assistant. Work with the tools, and name the objects that you touch."
        return f"{told}\n\nCURRENT SCENE:\n" + "".join(f"{line}\n" for line in self.lines or ["(empty)"])


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


def test_the_scene_is_told_anew_in_each_turn_and_no_message_ever_holds_it(target: Target) -> None:
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


def test_an_id_travels_from_the_call_to_its_events_to_its_execution_to_its_result(target: Target) -> None:
    scene, handler = Scene(), CollectingHandler()
    with connected("seeds-scene-agent-ids", target) as made:
        thread = Thread(made.template, state=scene)
        thread.send(made.client, "Copy obj-1 twice.", edit, handler)
        thread.send(made.client, "And twice more.", edit, handler)
        issued = [call.id for answer in made.answered for call in answer.calls]
        last = made.asked[-1]

    called = [event.call.id for event in handler.events if isinstance(event, Called)]
    answered = [event.result.call_id for event in handler.events if isinstance(event, Answered)]
    assert called == answered == scene.ran
    assert len(set(called)) == len(called) == 4
    kinds = [type(event).__name__ for event in handler.events]
    assert kinds == ["Called", "Answered", "Called", "Answered", "Said", "Done"] * 2
    if target.profile.call_ids:
        assert called == issued == [call.id for call in last.calls] == [result.call_id for result in last.results]
    else:
        assert {*issued, *(call.id for call in last.calls), *(result.call_id for result in last.results)} == {None}
        calls = [event.call for event in handler.events if isinstance(event, Called)]
        assert [call.provider_metadata["harness"] for call in calls] == [{SYNTHESISED_ID: True}] * 4


def test_of_parallel_edits_the_one_that_fails_fails_alone(target: Target) -> None:
    scene = Scene(locked=("obj-2",))
    with connected("seeds-scene-agent-parallel-edits", target) as made:
        thread = Thread(made.template, state=scene)
        answer = thread.send(made.client, "Paint three, delete one.", edit)
        results = made.asked[-1].results

    given = [result for message in thread.messages for result in message.tool_results]
    assert [(result.content, result.is_error) for result in given] == [
        ({"done": "obj-1"}, False),
        ("obj-2 is locked by another editor", True),
        ({"done": "obj-9"}, False),
        ({"done": "obj-3"}, False),
    ]
    assert [result.error_mark is not None for result in results] == [False, True, False, False]
    for name, result in zip(["obj-1", "obj-2", "obj-9", "obj-3"], results, strict=True):
        assert name in str(result.payload)
    assert answer.text.startswith("obj-1 and obj-3 are painted")


def test_stop_reasons_are_of_one_vocabulary_whatever_the_api_calls_them(target: Target) -> None:
    heard: list[tuple[StopReason, str | None]] = []

    class Listening:
        def chat(self, request: ChatRequest) -> ChatResponse:
            response = made.client.chat(request)
            heard.append((response.stop_reason, response.raw_stop_reason))
            return response

        def close(self) -> None:
            made.client.close()

    with connected("seeds-scene-agent-stop-reason", target) as made:
        thread = Thread(made.template, state=Scene())
        thread.send(Listening(), "Put up a tower.", edit)
        thread.send(Listening(), "Describe the castle.", edit)
        raw = [answer.raw_stop_reason for answer in made.answered]

    assert [reason for reason, _ in heard] == [StopReason.TOOL_USE, StopReason.END_TURN, StopReason.MAX_TOKENS]
    assert [word for _, word in heard] == raw


def test_settings_are_fields_of_the_request_and_hold_for_as_long_as_they_stand_there(target: Target) -> None:
    scenario = shipped_scenarios()["seeds-scene-agent-settings"]
    with connected(scenario.id, target) as made:
        thread = Thread(made.template)
        for index, turn in enumerate(scenario.turns):
            thread.template = replace(thread.template, max_tokens=settings_of(scenario, index).max_tokens)
            thread.send(made.client, user_message(turn), no_tool)
        bounds = [asked.settings["max_tokens"].value for asked in made.asked]
    assert bounds == [4096, 1024, 4096]


def test_a_screenshot_goes_to_the_model_to_the_byte(target: Target) -> None:
    (turn,) = shipped_scenarios()["seeds-scene-agent-screenshot"].turns
    message = user_message(turn)
    (screenshot,) = (part for part in message.parts if isinstance(part, Image))
    with connected("seeds-scene-agent-screenshot", target) as made:
        Thread(made.template, state=Scene()).send(made.client, message, edit)
        seen = [
            [part for turn in asked.turns for part in turn.parts if isinstance(part, MediaView)] for asked in made.asked
        ]
    assert screenshot.data is not None
    assert screenshot.data.startswith(b"\x89PNG\r\n")
    assert [[(medium.media_type, medium.data) for medium in media] for media in seen] == [
        [("image/png", screenshot.data)]
    ] * 2


@pytest.mark.parametrize(
    ("scenario", "capability"),
    [
        ("seeds-scene-agent-screenshot", Capability.VISION),
        ("seeds-scene-agent-thinking", Capability.THINKING),
    ],
)
def test_what_a_provider_says_that_it_supports_decides_what_it_is_asked(
    scenario: str, capability: Capability, target: Target
) -> None:
    """The design's `SupportsVision()` and `SupportsThinking()`."""
    has = capability in target.adapter.capabilities - target.profile.lacks
    assert played(scenario, target.name).verdict is (Verdict.PASS if has else Verdict.NOT_APPLICABLE)
    without = played(
        scenario,
        target.name,
        lambda adapter: replace(adapter, capabilities=adapter.capabilities - {capability}),
    )
    assert without.verdict is Verdict.NOT_APPLICABLE
    assert capability.value in (without.reason or "")


def test_a_mock_provider_is_a_chat_method() -> None:
    class MockProvider:
        def chat(self, request: ChatRequest) -> ChatResponse:
            text = f"System: {request.system}\nMessage: {request.messages[0].text}"
            return ChatResponse(Message(Role.ASSISTANT, (Text(text),)), StopReason.END_TURN, Usage())

        def close(self) -> None: ...

    thread = Thread(ChatRequest("mock", (), system="You build scenes."))
    assert thread.send(MockProvider(), "Hello", no_tool).text == "System: You build scenes.\nMessage: Hello"
    assert [message.role for message in thread.messages] == [Role.USER, Role.ASSISTANT]


def test_roles_are_two_and_a_misspelt_one_is_none() -> None:
    assert [*Role] == ["user", "assistant"]
    with pytest.raises(ValueError, match="'asistant' is not a valid Role"):
        Role("asistant")


def no_tool(call: ToolCall) -> ToolResult:
    raise AssertionError(f"nobody calls {call.name}")
