from dataclasses import replace
from pathlib import Path

from harness.apis.registry import targets_for
from harness.cassettes.library import CassetteLibrary
from harness.model.messages import ChatRequest, ChatResponse, Message, ToolResult
from harness.model.protocols import Adapter
from harness.platform.files import shipped_folder
from harness.results import Blame, CellResult, RunResult, Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import cells
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths
from harness.stdio import adapter_specs
from tests.examples import plain_http

SPEC = "tests.examples.plain_http:ADAPTER"
FEW = {"call-parallel-same-tool", "result-parts", "system-plain"}


def run(adapter: Adapter, backend: Backend, only: set[str] | None = None) -> RunResult:
    """Run these scenarios, or every eighth one whose tools have names that OpenAI accepts as they are."""
    scenarios = [each for each in load_paths([shipped_folder("scenarios")]) if each.id != "tool-name-uncommon"]
    scenarios = scenarios[::8] if only is None else [scenario for scenario in scenarios if scenario.id in only]
    chosen = cells(scenarios, targets_for([adapter], ["openai-chat"], {}))
    return Run(backend, all_rules())(chosen)


def unclean(result: RunResult) -> list[tuple[str, str, list[str]]]:
    fine = (Verdict.PASS, Verdict.NOT_APPLICABLE)
    return [
        (cell.scenario, cell.reason or "", [finding.message for finding in cell.findings])
        for cell in result.cells
        if cell.verdict not in fine
    ]


def test_the_example_is_short() -> None:
    body = Path(plain_http.__file__).read_text().split('"""', 2)[2]
    lines = [line.strip() for line in body.splitlines()]

    assert len([line for line in lines if line and not line.startswith(("#", "import ", "from "))]) < 50


def test_it_passes_every_cell_that_it_has_the_capabilities_for() -> None:
    result = run(adapter_specs.adapter(SPEC), ReferenceBackend())

    assert unclean(result) == []
    assert result.summary["pass"] > 8
    without = [cell for cell in result.cells if cell.verdict is Verdict.NOT_APPLICABLE]
    assert without
    words = ("'plain-http' does not have", "the API openai-chat has no field", "the provider of openai-chat")
    by_profile = [cell.reason or "" for cell in without if not any(each in (cell.reason or "") for each in words)]
    assert {reason.split()[6].partition("-")[0] for reason in by_profile} <= {"gemini", "claude"}


def test_the_shipped_cassettes_replay_through_it_on_loopback() -> None:
    result = run(plain_http.ADAPTER, ReplayBackend([CassetteLibrary(shipped_folder("cassettes"))]))

    assert unclean(result) == []
    assert result.summary["pass"] > 8
    assert [cell.findings for cell in result.cells if cell.findings] == []  # it spells otherwise, and means the same


class MatchesByName(plain_http.Client):
    """The typical bug: a result goes to the first call of its tool."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        first: dict[str, str] = {}
        for message in request.messages:
            for call in message.tool_calls:
                first.setdefault(call.name, call.id)
        broken = tuple(
            Message(
                message.role,
                tuple(
                    replace(part, call_id=first[part.name]) if isinstance(part, ToolResult) else part
                    for part in message.parts
                ),
            )
            for message in request.messages
        )
        return super().chat(replace(request, messages=broken))


def test_the_same_adapter_with_a_typical_bug_is_caught() -> None:
    adapter = Adapter("by-name", "openai-chat", plain_http.ADAPTER.capabilities, MatchesByName)

    result = run(adapter, ReferenceBackend(), FEW)

    verdicts = {cell.scenario: cell for cell in result.cells}
    assert verdicts["system-plain"].verdict is Verdict.PASS
    assert verdicts["result-parts"].verdict is Verdict.PASS
    broken: CellResult = verdicts["call-parallel-same-tool"]
    assert broken.verdict is Verdict.FAIL
    errors = [finding for finding in broken.findings if finding.severity is Severity.ERROR]
    assert {"result-missing", "openai-chat-result-missing"} <= {finding.rule for finding in errors}
    assert {finding.blame for finding in errors} == {Blame.ADAPTER}
