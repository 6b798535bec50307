"""The code generator's design by this library: tools that work in a real folder, here or in a browser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import httpx2
import pytest

from harness.apis.registry import Target
from harness.kit.handlers import CollectingHandler, PartialArguments, Streamed, ToolResultEvent, ToolUseEvent
from harness.kit.thread import Handout, Thread, trimmed
from harness.kit.workspace import Workspace
from harness.model.messages import ArgumentsDelta, Message, StreamEvent, Tool, ToolCall, ToolCallStart, ToolResult
from harness.scenarios.canonical import answer, tools, user_message
from harness.scenarios.schema import Scenario
from tests.backends import shipped_scenarios, shipped_targets
from tests.seeds.connected import connected

HEADER = "export const header = '<h1>{}</h1>';\n"
LONG_WRITE = "seeds-code-generator-long-write"

needs_groups = pytest.mark.skipif(not hasattr(os, "killpg"), reason="commands cannot be allowed on Windows")


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


def scenario(name: str) -> Scenario:
    return shipped_scenarios()[f"seeds-code-generator-{name}"]


def scripted_calls(asked: Scenario) -> list[tuple[str, dict[str, object]]]:
    return [
        (name, dict(arguments)) for turn in asked.turns for step in turn.model for name, arguments in step.named_calls
    ]


@needs_groups
@pytest.mark.parametrize(
    "name", ["browser-order", "cache", "empty-folder", "long-write", "read-then-write", "refused-command"]
)
def test_the_scenarios_declare_the_tools_as_the_workspace_does(name: str, tmp_path: Path) -> None:
    theirs = {tool.name: tool for tool in Workspace(tmp_path, commands=["echo"]).tools}
    declared: tuple[Tool, ...] = tools(scenario(name))
    assert declared == tuple(theirs[tool.name] for tool in declared)


def project(root: Path) -> Path:
    """The project that the scenario about reading and writing speaks of."""
    (root / "src" / "pages").mkdir(parents=True)
    (root / "src" / "header.ts").write_text(HEADER.format("Adventure"), encoding="utf-8", newline="")
    return root


def test_a_file_is_listed_read_and_written_for_real(target: Target, tmp_path: Path) -> None:
    asked, workspace, handler = scenario("read-then-write"), Workspace(project(tmp_path)), CollectingHandler()
    with connected(asked.id, target) as made:
        thread = Thread(made.template)
        for turn in asked.turns:
            thread.send(made.client, user_message(turn), workspace.run, handler)
        results = made.asked[-1].results

    assert (tmp_path / "src" / "header.ts").read_text(encoding="utf-8") == HEADER.format("Expedition")
    calls = [event.call for event in handler.events if isinstance(event, ToolUseEvent)]
    given = [event.result for event in handler.events if isinstance(event, ToolResultEvent)]
    assert [call.name for call in calls] == ["list_directory", "read_file", "write_file"]
    assert given == [answer(asked, call) for call in calls]  # the scenario's tools say what the real ones say
    assert len(results) == 3
    assert HEADER.format("Adventure") in said(results[1].payload)


def said(payload: Iterable[object]) -> str:
    """Return the texts of a result on the wire, without escapes."""
    return "".join(getattr(part, "text", "") or " ".join(_strings(getattr(part, "value", None))) for part in payload)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, object]", value).values():
            yield from _strings(item)


class Cut(httpx2.BaseTransport):
    """Hands bodies on in pieces of eleven bytes, and counts those that came and those that there are."""

    def __init__(self, inner: httpx2.Client) -> None:
        self._inner = inner
        self.come = 0
        self.total = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = self._inner.send(request)
        self.come, self.total = 0, len(body.content)
        return httpx2.Response(body.status_code, headers=body.headers, stream=_Pieces(self, body.content))


class _Pieces(httpx2.SyncByteStream):
    def __init__(self, cut: Cut, body: bytes) -> None:
        self._cut = cut
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 11):
            piece = self._body[start : start + 11]
            self._cut.come += len(piece)
            yield piece


class Editor:
    """The browser's view: the content of each file so far, and the share of the body that had arrived."""

    def __init__(self) -> None:
        self.transport: Cut | None = None
        self.shown: list[list[tuple[str, float]]] = []
        self._arguments = PartialArguments()

    def through(self, inner: httpx2.Client) -> Cut:
        self.transport = Cut(inner)
        return self.transport

    def on_event(self, event: StreamEvent) -> None:
        assert self.transport is not None
        match event:
            case ToolCallStart():
                self._arguments = PartialArguments()
                self.shown.append([])
            case ArgumentsDelta(_, text):
                self._arguments.add(text)
                content = self._arguments.value.get("content")
                if isinstance(content, str):
                    self.shown[-1].append((content, self.transport.come / self.transport.total))
            case _:
                pass


def test_the_content_of_a_file_is_shown_while_it_arrives(target: Target, tmp_path: Path) -> None:
    editor = Editor()
    with connected(LONG_WRITE, target, editor.through) as made:
        client = Streamed(made.client, editor.on_event)
        Thread(made.template).send(client, "Write the component.", Workspace(tmp_path).run)

    contents = [str(arguments["content"]) for _, arguments in scripted_calls(scenario("long-write"))]
    assert [shown[-1][0] for shown in editor.shown] == contents
    for shown, content in zip(editor.shown, contents, strict=True):
        assert all(content.startswith(prefix) for prefix, _ in shown)
        assert [len(prefix) for prefix, _ in shown] == sorted(len(prefix) for prefix, _ in shown)
    if target.api == "gemini":  # whose calls come whole
        assert [len(shown) for shown in editor.shown] == [1, 1]
        return
    first = {prefix for prefix, _ in editor.shown[0]}
    assert len(first) > 10
    early = [prefix for prefix, come in editor.shown[0] if 0 < len(prefix) < len(contents[0]) and come < 0.5]
    assert early, "nothing was shown before half of the answer had come"


def test_a_browser_runs_tools_in_its_own_order(target: Target, tmp_path: Path) -> None:
    asked = scenario("browser-order")
    for name, arguments in scripted_calls(asked):
        result = answer(asked, ToolCall("", name, {"path": str(arguments["path"])}))
        path = tmp_path / str(arguments["path"])
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(result.content), encoding="utf-8", newline="")
    browser = Workspace(tmp_path)
    with connected(asked.id, target) as made:
        thread = Thread(made.template)
        handout = Handout(thread, made.client)
        assert handout.send(user_message(asked.turns[0])) is None
        events = [json.dumps({"id": c.id, "name": c.name, "arguments": c.arguments}) for c in handout.waiting]

        posted = [post(browser, event) for event in (events[2], events[0], events[1])]
        assert handout.take(posted[0]) is None
        assert handout.take(posted[1]) is None
        assert len(made.exchanges) == 1  # the model waits for the last of them
        response = handout.take(posted[2])
        view = made.asked[-1]

    assert response is not None
    assert response.text == "src/main.ts imports styles.css."
    calls = [call for message in thread.messages for call in message.tool_calls]
    results = [result for message in thread.messages for result in message.tool_results]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert [result.content for result in results] == [answer(asked, call).content for call in calls]
    assert [result.call_id for result in view.results] == [call.id for call in view.calls]
    for wire, result in zip(view.results, results, strict=True):
        assert str(result.content) in said(wire.payload)


def post(browser: Workspace, event: str) -> ToolResult:
    """Return the browser's result for an event, as JSON in both directions."""
    call = ToolCall(**json.loads(event))
    result = browser.run(call)
    answered = json.loads(json.dumps({"call_id": result.call_id, "name": result.name, "content": result.content}))
    return ToolResult(**answered)


def test_trimmed_reads_keep_calls_and_results(target: Target, tmp_path: Path) -> None:
    asked, workspace = scenario("trim"), Workspace(tmp_path)
    component = tmp_path / "src" / "app" / "app.component.ts"
    component.parent.mkdir(parents=True)
    component.write_text("// a long component\n" * 100, encoding="utf-8", newline="")
    with connected(asked.id, target) as made:
        thread = Thread(made.template)
        for turn in asked.turns:
            thread.send(made.client, user_message(turn), workspace.run)
            before = thread.messages
            thread.messages = trimmed(thread.messages, {"read_file"})
            assert ids(before) == ids(thread.messages)
        views, sizes = made.asked, [len(exchange.request.body) for exchange in made.exchanges]
        assert [each.response.status for each in made.exchanges if each.response] == [200] * 6  # nothing was refused

    assert "// a long component" not in str(thread.messages)
    assert (tmp_path / "src" / "app" / "title.ts").read_text(encoding="utf-8") == "export const title = 'Expedition';\n"
    within, after = views[2], views[3]
    assert "// a long component" in said(within.results[0].payload)
    assert "// a long component" not in said(after.results[0].payload)
    assert "[trimmed: 2000 characters" in said(after.results[0].payload)
    assert "No such file" in said(after.results[1].payload)  # an error is no read
    assert [call.id for call in after.calls] == [call.id for call in within.calls]
    assert [(r.call_id, r.name) for r in after.results] == [(r.call_id, r.name) for r in within.results]
    assert sizes[3] < sizes[2] - 1000


def ids(messages: Iterable[Message]) -> list[str]:
    """The ids of calls and results, in their order."""
    return [
        part.id if isinstance(part, ToolCall) else part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCall | ToolResult)
    ]
