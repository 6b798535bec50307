"""The agent REPL's design by this library: prompt to text, and a conversation with eleven tools that run for real.

Its `AIProvider.Invoke` is `ChatGeneration.generate`, its `ConversationHandler` a `Thread`, and what it keeps of the
Anthropic SDK (`history`, `tools`, `MaxConversationIterations`) works with every chat adapter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.apis.registry import Target
from harness.kit.client import ChatGeneration
from harness.kit.thread import Thread, run_tool
from harness.model.messages import JSON, Message, Role, ToolCall, ToolResult
from harness.model.protocols import ChatClient, Generation
from tests.backends import every_target, shipped_scenarios, shipped_targets
from tests.seeds.connected import Connected, connected


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


@dataclass
class Issue:
    id: str
    title: str
    status: str = "open"
    priority: int = 2
    blocked_by: list[str] = field(default_factory=list[str])


class Tracker:
    """An issue tracker in memory: the design's storage layer, which is where its tools live."""

    def __init__(self, *issues: Issue, next_number: int = 1) -> None:
        self.issues = {issue.id: issue for issue in issues}
        self.activity: list[JSON] = []
        self.ran: list[str] = []
        self._next = next_number

    def execute(self, call: ToolCall) -> ToolResult:
        """The design's `executeTool(toolUse.Name, toolUse.Input)`."""
        self.ran.append(call.name)
        operation: Callable[..., JSON] = getattr(self, f"_{call.name}")
        return ToolResult(call.id, call.name, operation(**call.arguments))

    def _create_issue(self, title: str, priority: int = 2, **_: Any) -> JSON:
        made = Issue(f"vc-{self._next}", title, priority=priority)
        self._next += 1
        self.issues[made.id] = made
        return self._noted("created", made.id, {"id": made.id, "status": made.status})

    def _search_issues(self, query: str, limit: int = 10) -> JSON:
        found = [issue for issue in self.issues.values() if query.lower() in issue.title.lower()]
        return [{"id": issue.id, "title": issue.title} for issue in found[:limit]]

    def _continue_execution(self, issue_id: str) -> JSON:
        issue = self._issue(issue_id)
        if issue.status == "locked":
            raise PermissionError(f"executor: worktree {issue_id} is locked by another agent")
        issue.status = "closed"
        return self._noted("closed", issue_id, {"issue": issue_id, "status": "closed"})

    def _get_issue(self, issue_id: str) -> JSON:
        issue = self._issue(issue_id)
        return {"id": issue.id, "title": issue.title, "status": issue.status, "blocked_by": [*issue.blocked_by]}

    def _update_issue(self, issue_id: str, **fields: Any) -> JSON:
        self.issues[issue_id] = replace(self._issue(issue_id), **fields)
        return self._noted("updated", issue_id, {"id": issue_id, **fields})

    def _close_issue(self, issue_id: str, reason: str = "") -> JSON:
        self._issue(issue_id).status = "closed"
        return self._noted("closed", issue_id, {"id": issue_id, "status": "closed", "reason": reason})

    def _list_ready(self) -> JSON:
        return [issue.id for issue in self._open() if not self._blockers(issue)]

    def _list_blocked(self) -> JSON:
        return [issue.id for issue in self._open() if self._blockers(issue)]

    def _add_dependency(self, issue_id: str, blocked_by: str) -> JSON:
        self._issue(issue_id).blocked_by.append(self._issue(blocked_by).id)
        return {"issue_id": issue_id, "blocked_by": blocked_by}

    def _get_status(self) -> JSON:
        return {"open": len(self._open()), "closed": len(self.issues) - len(self._open())}

    def _get_activity(self, limit: int = 5) -> JSON:
        return self.activity[-limit:]

    def _issue(self, issue_id: str) -> Issue:
        if issue_id not in self.issues:
            raise LookupError(f"no such issue: {issue_id}")
        return self.issues[issue_id]

    def _open(self) -> list[Issue]:
        return [issue for issue in self.issues.values() if issue.status != "closed"]

    def _blockers(self, issue: Issue) -> list[str]:
        return [each for each in issue.blocked_by if self.issues[each].status != "closed"]

    def _noted(self, event: str, issue: str, result: JSON) -> JSON:
        self.activity.append({"event": event, "issue": issue})
        return result


class Repl:
    """The design's `ConversationHandler`, whole: its history is the thread's."""

    def __init__(self, made: Connected, tracker: Tracker, iterations: int = 10) -> None:
        self._client = made.client
        self._tracker = tracker
        self.thread = Thread(made.template, max_iterations=iterations)

    def say(self, text: str) -> str:
        return self.thread.send(self._client, text, self._tracker.execute).text


def said(scenario: str) -> list[tuple[str, str]]:
    """Return the user's text and the last response of each turn."""
    return [(str(turn.user), turn.model[-1].text or "") for turn in shipped_scenarios()[scenario].turns]


def results_of(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [result for message in messages for result in message.tool_results]


@pytest.mark.parametrize("name", every_target())
def test_an_assessment_is_one_prompt_and_one_text(name: str) -> None:
    [(prompt, text)] = said("seeds-issue-tracker-assessment")
    with connected("seeds-issue-tracker-assessment", every_target()[name]) as made:
        assert isinstance(made.client, ChatClient)
        result = ChatGeneration(made.client, model=made.template.model).generate(prompt, max_tokens=4096)
    [asked], [answered] = made.asked, made.answered
    assert result == Generation(text, answered.usage.input_tokens, answered.usage.output_tokens)
    assert result.input_tokens
    assert (asked.system, asked.tools, len(asked.turns)) == ((), (), 1)
    assert asked.settings["max_tokens"].value == 4096


def test_eleven_tools_run_for_real_over_a_session(target: Target) -> None:
    tracker = Tracker(Issue("vc-7", "Storage layer", "closed"), next_number=31)
    with connected("seeds-issue-tracker-session", target) as made:
        repl = Repl(made, tracker)
        for text, answer in said("seeds-issue-tracker-session"):
            assert repl.say(text) == answer
    declared = [tool.name for tool in made.template.tools]
    assert (len(declared), set(tracker.ran)) == (11, set(declared))
    assert {each.id: each.status for each in tracker.issues.values()} == dict.fromkeys(
        ["vc-7", "vc-31", "vc-32"], "closed"
    )
    results = {result.name: result.content for result in results_of(repl.thread.messages)}
    assert not [result for result in results_of(repl.thread.messages) if result.is_error]
    assert results["search_issues"] == [
        {"id": "vc-7", "title": "Storage layer"},
        {"id": "vc-31", "title": "Flaky test in storage"},
    ]
    assert (results["list_ready"], results["list_blocked"]) == (["vc-32"], ["vc-31"])
    assert results["get_activity"] == [{"event": "closed", "issue": "vc-32"}, {"event": "closed", "issue": "vc-31"}]


def test_the_designs_own_loop_gives_the_same_history(target: Target) -> None:
    [(text, answer)] = said("seeds-issue-tracker-parallel")
    with connected("seeds-issue-tracker-parallel", target) as made:
        tracker, history = Tracker(next_number=51), [Message.user(text)]
        for _ in range(5):
            response = made.client.chat(replace(made.template, messages=tuple(history)))
            history.append(response.message)
            if not response.tool_calls:
                break
            results = tuple(run_tool(tracker.execute, call) for call in response.tool_calls)
            history.append(Message(Role.USER, results))
    with connected("seeds-issue-tracker-parallel", target) as again:
        repl = Repl(again, Tracker(next_number=51))
        assert repl.say(text) == answer
    assert tuple(history) == repl.thread.messages
    assert [issue.title for issue in tracker.issues.values()][1:] == ["Tag the release", "Announce the release"]
    [of_first, of_second, _] = [result for message in history for result in message.tool_results]
    assert (of_first.content, of_second.content) == (
        {"id": "vc-51", "status": "open"},
        {"id": "vc-52", "status": "open"},
    )
    assert of_first.call_id != of_second.call_id
