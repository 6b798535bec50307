"""The pytest plug-in: cells as tests, their marks, and what is said of them."""

from __future__ import annotations

import gc
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from harness.apis import registry
from harness.apis.response_rules import Subject
from harness.cassettes.library import CassetteLibrary
from harness.cli.main import main
from harness.model.protocols import Capability
from harness.platform.files import shipped_folder
from harness.results import Severity
from harness.rules.rule import all_rules
from tests.cli.conftest import without_workers
from tests.pytest_plugin.project import FORGETFUL, configure, run_pytest, run_pytest_apart, scenario

BOTH = ("whole", "stream")
SCENARIOS = {"harness_scenarios": "scenarios"}
OURS = """\
api: openai-chat
facts:
  - id: openai-chat-ours-no-user
    verdict: refused
    says: Our gateway takes nothing that a user says.
    since: 2026-11-01
    evidence: [{kind: probe, date: 2026-11-01, address: "https://wiki.example.com/gateway"}]
    when: [{at: "messages[].role", is: user}]
"""


IMPORTS = """\
import sys
def test_imports():
    loaded = {name for name in sys.modules if name.split('.')[0] in OURS}
    assert loaded == {'harness', 'harness.pytest_plugin'}
OURS = {'harness', 'pydantic', 'yaml', 'vcr', 'httpx2', 'jsonschema', 'anthropic', 'openai', 'google'}
"""

LOADERS = """import sys
import forgetful
def test_loaders():
    ours = {name: module.__loader__ for name, module in sys.modules.items() if name.startswith('harness.')}
    assert len(ours) > 100
    rewritten = {name for name, loader in ours.items() if type(loader).__name__ != 'SourceFileLoader'}
    assert rewritten == PLUGIN
    assert type(forgetful.__loader__).__name__ == 'AssertionRewritingHook'
PLUGIN = {'harness.pytest_plugin'}
"""


REWRITTEN = "import pytest\npytest.register_assert_rewrite('harness', 'forgetful')\n"
"""As pytest does with packages that have plugins and that pip installed."""


@pytest.mark.parametrize(
    ("test", "chosen", "asked", "outcomes"),
    [
        (IMPORTS, {}, ("tests", "scenarios"), {"passed": 2}),
        (IMPORTS, SCENARIOS, ("tests/test_own.py::test_imports",), {"passed": 1}),
        (LOADERS, SCENARIOS, ("-W", "ignore::pytest.PytestAssertRewriteWarning"), {"passed": 4, "failed": 2}),
    ],
    ids=["no scenarios", "other tests than scenarios", "scenarios"],
)
def test_the_harness_is_loaded_only_for_scenarios_and_then_as_it_is(
    project: pytest.Pytester, test: str, chosen: dict[str, str], asked: tuple[str, ...], outcomes: dict[str, int]
) -> None:
    (project.path / "conftest.py").write_text(REWRITTEN if test is LOADERS else "")
    (project.path / "tests" / "test_own.py").write_text(test)
    configure(project, **chosen)
    run_pytest_apart(project, *asked).assert_outcomes(**outcomes)


@pytest.mark.parametrize(
    ("before", "chosen", "expected"),
    [
        ((700, 10, 10), SCENARIOS, (20_000, 10, 10)),
        ((50_000, 5, 5), SCENARIOS, (50_000, 5, 5)),
        ((0, 10, 10), SCENARIOS, (0, 10, 10)),
    ],
    ids=["played", "seldom enough", "switched off"],
)
def test_garbage_is_collected_less_often_while_scenarios_run(
    project: pytest.Pytester, before: tuple[int, int, int], chosen: dict[str, str], expected: tuple[int, int, int]
) -> None:
    (project.path / "tests" / "test_collector.py").write_text(
        f"import gc\ndef test_collector(): assert gc.get_threshold() == {expected}\n"
    )
    configure(project, **chosen)
    usual = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        run_pytest(project, "tests", "scenarios", "-k", "collector").assert_outcomes(passed=1, deselected=5)
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*usual)


@pytest.mark.parametrize("given", [".", "scenarios/prompted.yaml", "tests scenarios", ""])
def test_scenarios_are_collected_wherever_they_are_asked_for(project: pytest.Pytester, given: str) -> None:
    configure(project, **SCENARIOS)
    done = run_pytest(project, *given.split(), "--collect-only")
    done.stdout.fnmatch_lines(["*<ScenarioFile prompted.yaml>", "*<CellItem forgetful[[]whole]>"])


def test_each_cell_is_an_item_and_findings_are_the_text_of_a_failure(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS)
    done = run_pytest(project)
    done.assert_outcomes(passed=3, failed=2)
    words = "--mode reference --variant whole scenarios/prompted.yaml --target openai-chat --adapter forgetful:ADAPTER"
    done.stdout.fnmatch_lines(
        [
            "*_ prompted on forgetful[[]whole] _*",
            "system-missing (loss, error, blame: adapter): the request has no system prompt where the API expects it",
            "  at:       request 1",
            "  actual:   (nothing)",
            '  expected: "Be brief."',
            "  source:   harness.model.messages*",
            f"  run again:  harness run {words}",
            f"  look:       harness show {words}",
            "*_ prompted on forgetful[[]stream] _*",
            "FAILED scenarios/prompted.yaml::forgetful[[]whole]*",
            "FAILED scenarios/prompted.yaml::forgetful[[]stream]*",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*pytest_cells.py*")


LOOP = """
import httpx2

def drive(endpoint, model, conversation):
    messages = [{"role": "user", "content": turn.text} for turn in conversation.turns]
    url, headers = f"{endpoint.base_url}/chat/completions", {"authorization": "Bearer k"}
    httpx2.post(url, json={"model": model, "messages": messages}, headers=headers, trust_env=False)
"""


def test_the_evidence_is_said_once_be_the_summary_as_long_as_it_may(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    configure(project, **SCENARIOS)
    done = run_pytest(project, "scenarios/prompted.yaml::forgetful[whole]", "-rA", "--junitxml=junit.xml")
    said = [line for line in done.stdout.lines if "blame: adapter" in line or "Be brief." in line]
    assert [line.partition(": the request has")[0] for line in said] == [
        "system-missing (loss, error, blame: adapter)",
        '  expected: "Be brief."',
        "FAILED scenarios/prompted.yaml::forgetful[whole] - system-missing (loss, error, blame: adapter)",
    ]
    failure = next(ET.parse(project.path / "junit.xml").iter("failure"))  # noqa: S314 - pytest wrote it
    message = "system-missing (loss, error, blame: adapter): the request has no system prompt where the API expects it"
    assert failure.get("message") == message
    assert (failure.text or "").count("Be brief.") == 1


def test_only_the_last_failures_are_run(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS)
    project.runpytest_inprocess("-p", "harness.pytest_plugin").assert_outcomes(passed=3, failed=2)
    again = project.runpytest_inprocess("-p", "harness.pytest_plugin", "--lf")
    again.assert_outcomes(failed=2)


@pytest.mark.usefixtures("workers")
def test_a_tool_loop_runs_like_an_adapter(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)
    (project.path / "looping.py").write_text(LOOP)
    configure(project, **SCENARIOS, harness_adapters="'drive@openai-chat looping:drive'")
    done = run_pytest(project)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["loop-system (loss, error, blame: client): the system prompt is nowhere in the request"])


def test_only_named_scenarios_are_run(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS)
    scenario(project.path / "tests", "elsewhere")  # is left alone
    run_pytest(project, "scenarios/plain.yaml").assert_outcomes(passed=2)
    run_pytest(project, "scenarios/plain.yaml::forgetful").assert_outcomes(passed=2)
    run_pytest(project, "scenarios/plain.yaml::forgetful[stream]").assert_outcomes(passed=1)
    run_pytest(project, "tests").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("expression", "outcomes"),
    [
        ("system-prompt", {"failed": 2, "deselected": 3}),
        ("forgetful and stream and not prompted", {"passed": 1, "deselected": 4}),
        ("usual", {"passed": 1, "deselected": 4}),
    ],
)
def test_k_selects_by_scenario_target_variant_and_subject(
    project: pytest.Pytester, expression: str, outcomes: dict[str, int]
) -> None:
    configure(project, **SCENARIOS)
    run_pytest(project, "-k", expression).assert_outcomes(**outcomes)


def test_cells_are_spread_over_processes_and_recorded_once(project: pytest.Pytester) -> None:
    chosen = {"harness_adapters": "forgetful:ADAPTER", "harness_cassettes": "cassettes"}
    configure(project, **_expect(project, "prompted", "call-missing"), **chosen)
    done = run_pytest_apart(project, "-p", "xdist", "-n", "2", "--dist", "load", "--harness-record=all", "-v")
    done.assert_outcomes(passed=3, failed=2)
    done.stdout.fnmatch_lines_random(
        ["*PASSED scenarios/plain.yaml::forgetful[[]whole]*", "*FAILED scenarios/prompted.yaml::forgetful[[]stream]*"]
    )
    done.stdout.fnmatch_lines(["harness: 4 cassettes recorded: *"])
    done.stdout.fnmatch_lines(["expected failure that did not happen: call-missing in prompted on forgetful (known *"])
    done.stderr.fnmatch_lines(["harness: 4 cassettes to be recorded from the reference server into */cassettes."])


def test_junit_has_the_findings_and_where_responses_came_from(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS)
    run_pytest(project, "--junitxml", "junit.xml", "-o", "junit_family=xunit1")
    cases = {
        case.get("classname"): case
        for case in ET.parse(project.path / "junit.xml").iter("testcase")  # noqa: S314 - pytest wrote it
        if case.get("name") == "forgetful[stream]"
    }
    assert len(cases) == 2
    failed = next(case for name, case in cases.items() if "prompted" in str(name))
    failure = failed.find("failure")
    assert failure is not None
    assert (failure.text or "").startswith("system-missing (loss, error, blame: adapter): the request has no")
    properties = {item.get("name"): item.get("value") for item in failed.iter("property")}
    assert properties == {"verdict": "fail", "responses_from": "reference"}
    assert all(case.find("failure") is None for name, case in cases.items() if "plain" in str(name))


def test_a_missing_cassette_fails_and_says_what_to_do(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS, harness_mode="replay", harness_cassettes="cassettes")
    done = run_pytest(project, "scenarios/plain.yaml")
    done.assert_outcomes(failed=2)
    item, cell = (
        "scenarios/plain.yaml::forgetful",
        "scenarios/plain.yaml --target openai-chat --adapter forgetful:ADAPTER",
    )
    for variant, suffix in (("whole", ""), ("stream", ".stream")):
        done.stdout.fnmatch_lines(
            [
                f"not checked: */cassettes/plain/openai-chat{suffix}.yaml: there is no such cassette.",
                f"  record it:              harness record --cassettes */cassettes --variant {variant} {cell}",
                f"  or while it is tested:  pytest --harness-record=missing '{item}[[]{variant}]'",
                f"  or run it without:      harness run --mode reference --variant {variant} {cell}",
            ]
        )


def test_what_does_not_apply_is_skipped_with_its_reason(project: pytest.Pytester) -> None:
    scenario(project.path / "scenarios", "elsewhere", more="profiles: [gemini-2]")
    configure(project, **SCENARIOS)
    done = run_pytest(project, "scenarios/elsewhere.yaml", "-rs")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED*not applicable: it is only for the profiles gemini-2*"])


def _expect(project: pytest.Pytester, pattern: str, rule: str = "system-missing", *, more: str = "") -> dict[str, str]:
    text = f"- {{scenario: '{pattern}', target: forgetful, rule: {rule}, reason: 'known as #7'{more}}}\n"
    (project.path / "known.yaml").write_text(text)
    return {**SCENARIOS, "harness_expected_failures": "known.yaml"}


def test_an_expected_failure_xfails_with_its_reason(project: pytest.Pytester) -> None:
    configure(project, **_expect(project, "p*"))
    done = run_pytest(project, "-rx")
    done.assert_outcomes(passed=3, xfailed=2)
    done.stdout.fnmatch_lines(["XFAIL scenarios/prompted.yaml::forgetful[[]whole]*known as #7*"])


def test_an_expected_failure_of_one_variant_leaves_the_other_red(project: pytest.Pytester) -> None:
    configure(project, **_expect(project, "prompted", more=", variant: stream"))
    done = run_pytest(project, "-rxf")
    done.assert_outcomes(passed=3, xfailed=1, failed=1)
    done.stdout.fnmatch_lines(["XFAIL scenarios/prompted.yaml::forgetful[[]stream]*known as #7*"])
    configure(project, **_expect(project, "plain", "call-missing", more=", variant: stream"))
    done = run_pytest(project, "scenarios/plain.yaml")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["expected failure that did not happen: call-missing in plain on forgetful[[]stream] (*"])


def test_an_expected_failure_of_a_rule_that_there_is_not_is_a_usage_error(project: pytest.Pytester) -> None:
    configure(project, **_expect(project, "*", "sistem-missing"))
    done = run_pytest(project)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: *known.yaml:1: *no rule 'sistem-missing'. The nearest id is 'system-missing'.*"])


def test_facts_of_one_s_own_are_named_and_hold_on_the_day_that_is_asked_for(project: pytest.Pytester) -> None:
    (project.path / "ours.yaml").write_text(OURS)
    configure(project, **SCENARIOS, harness_facts="ours.yaml")
    done = run_pytest(project, "scenarios/plain.yaml", "--junitxml=junit.xml")
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        ["harness: judged by the facts of *ours.yaml", "openai-chat-ours-no-user (limit, error, *"]
    )
    assert '<property name="facts" value="' in (project.path / "junit.xml").read_text()
    configure(project, **SCENARIOS, harness_facts="ours.yaml", harness_as_of="2026-10-31")
    run_pytest(project, "scenarios/plain.yaml").assert_outcomes(passed=2)


def test_what_the_project_ignores_fails_nothing_and_is_named(project: pytest.Pytester) -> None:
    (project.path / "ours.yaml").write_text(OURS)
    settings = '[tool.harness]\nfacts = ["ours.yaml"]\nignore = ["{}", "chat-refused"]\n'
    (project.path / "pyproject.toml").write_text(settings.format("openai-chat-ours-*"))
    configure(project, **SCENARIOS)
    done = run_pytest(project, "scenarios/plain.yaml", "--junitxml=junit.xml")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["harness: findings of these rules are ignored: openai-chat-ours-[*], chat-refused"])
    assert '<property name="ignored: openai-chat-ours-no-user" value="1"' in (project.path / "junit.xml").read_text()
    (project.path / "pyproject.toml").write_text(settings.format("openai-chat-our-*"))
    done = run_pytest(project, "scenarios/plain.yaml")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: pyproject.toml at tool.harness.ignore openai-chat-our-[*]: no finding has *"])


def test_a_recording_that_is_older_than_the_project_says_fails_where_it_is_strict(project: pytest.Pytester) -> None:
    recorded = ["scenarios/plain.yaml", "--target=openai-chat", "--variant=whole", "--report=json:run.json"]
    assert main(["record", "--from=reference", *recorded]) == 0
    library = CassetteLibrary(project.path / "cassettes")
    cassette = library.load("openai-chat", "plain", "whole")
    assert cassette.metadata is not None
    metadata = replace(cassette.metadata, origin="provider", recorded_at="2026-01-02T03:04:05+00:00")
    library.save(replace(cassette, metadata=metadata), force=True)
    (project.path / "pyproject.toml").write_text('[tool.harness]\nmax-age = "1d"\nvariants = ["whole"]\n')
    replay = {**SCENARIOS, "harness_mode": "replay", "harness_adapters": "openai-chat"}
    configure(project, **replay)
    run_pytest(project, "scenarios/plain.yaml").assert_outcomes(passed=1)
    configure(project, **replay, harness_strict="true")
    strict = run_pytest(project, "scenarios/plain.yaml")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["cassette-old (loss, error, blame: cassette): recorded on 2026-01-02, * days ago: *"])


def test_a_scenario_that_cannot_be_read_is_an_error_with_its_place(project: pytest.Pytester) -> None:
    path = scenario(project.path / "scenarios", "wrong")
    path.write_text(path.read_text().replace("title:", "titel:"))
    configure(project, **SCENARIOS)
    done = run_pytest(project)
    done.assert_outcomes(errors=1)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*scenarios/wrong.yaml:4:1 at titel: *"])
    done.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"harness_mode": "live"}, "harness_mode: unknown mode 'live'. Known: reference, replay."),
        ({"harness_adapters": "nothing"}, "unknown adapter 'nothing'.*"),
        ({"harness_targets": "nowhere"}, "*unknown target 'nowhere'.*"),
        ({"harness_scenarios": "nowhere"}, "*nowhere: harness_scenarios names it, but there is no such*"),
        (
            {"harness_variants": "whole streamed"},
            "harness_variants: unknown variant 'streamed'. Did you mean 'stream'? *",
        ),
        ({"harness_recut": "-1"}, "harness_recut: it must be a whole number of at least 0."),
        ({"harness_recut": "some"}, "harness_recut: it must be a whole number of at least 0."),
        ({"harness_as_of": "soon"}, "harness_as_of: 'soon' is not a date. Write it as in 2026-07-01, or today."),
        ({"harness_facts": "none.yaml"}, "*none.yaml: there is no such file."),
        ({"harness_expected_failures": "nowhere.yaml"}, "*nowhere.yaml: cannot be read: No such file*"),
        ({"harness_cell_timeout": "0"}, "harness_cell_timeout 0: must be a number of seconds greater than 0."),
        ({"harness_cell_timeout": "soon"}, "harness_cell_timeout soon: must be a number of seconds greater than 0."),
    ],
)
def test_a_wrong_option_is_a_usage_error(project: pytest.Pytester, options: dict[str, str], words: str) -> None:
    configure(project, **{**SCENARIOS, **options})
    done = run_pytest(project)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {words}"])
    done.stderr.no_fnmatch_line("*Traceback*")


def test_the_shipped_targets_are_the_default(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS, harness_adapters="", harness_targets="openai-chat anthropic")
    done = run_pytest(project, "--collect-only", "-q", "scenarios/plain.yaml")
    done.stdout.fnmatch_lines(
        [f"scenarios/plain.yaml::{target}[[]{variant}]" for target in ("openai-chat", "anthropic") for variant in BOTH]
    )
    configure(project, **SCENARIOS, harness_adapters="")
    shown = run_pytest(project, "--collect-only", "-q", "scenarios/plain.yaml").stdout
    commands = 1  # which cannot stream
    shown.fnmatch_lines([f"{2 * len(registry.targets()) - commands} tests collected*"])


def test_only_the_configured_variant_is_run(project: pytest.Pytester) -> None:
    configure(project, **SCENARIOS, harness_variants="stream")
    done = run_pytest(project, "-v", "scenarios/plain.yaml")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["scenarios/plain.yaml::forgetful[[]stream] PASSED*"])


def test_streams_are_cut_elsewhere_as_often_as_configured(project: pytest.Pytester) -> None:
    noting = FORGETFUL.replace("def stream(self, request):", "def stream(self, request):\n        print('a stream')")
    project.makepyfile(noting=noting)
    configure(project, **SCENARIOS, harness_adapters="noting:ADAPTER", harness_recut="2")
    done = run_pytest(project, "-rP", "scenarios/plain.yaml")
    done.assert_outcomes(passed=2)
    assert done.stdout.lines.count("a stream") == 3


def test_warnings_are_shown_with_a_cell_that_passes(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (strict,) = (rule for rule in all_rules() if rule.id == "system-missing")
    monkeypatch.setattr("harness.runner.suite_run.all_rules", lambda: [replace(strict, severity=Severity.WARNING)])
    configure(project, **SCENARIOS)
    done = run_pytest(project, "scenarios/prompted.yaml", "-rP")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*harness findings*", "system-missing (loss, warning, blame: adapter): *"])


@pytest.mark.usefixtures("workers")
def test_an_adapter_that_ends_its_process_or_hangs_fails_its_cell_alone(project: pytest.Pytester) -> None:
    ends = "print('a last word'); request.system and __import__('os')._exit(0); return self._client.chat"
    hangs = "request.system and __import__('time').sleep(600); return self._client.stream"
    broken = FORGETFUL.replace("return self._client.chat", ends).replace("return self._client.stream", hangs)
    project.makepyfile(breaking=broken.replace('"forgetful"', '"breaking"'))
    configure(project, **SCENARIOS, harness_adapters="breaking:ADAPTER", harness_cell_timeout="3")
    done = run_pytest(project, "scenarios")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines_random(
        [
            "the adapter ended the process with exit code 0",
            "  to do:    The adapter or harness broke*",
            "a last word",
            "the adapter did not come back within 3 seconds (*breaking.py, line *); --cell-timeout*",
        ]
    )


CLIENTS = """
import pytest
from harness import Capability, InvalidRequest, Message, Thread, ToolResult, ToolCall, ChatRequest, UnknownName, ask

def weather(call):
    return {"temp_c": 18, "sky": "clear"}

@pytest.mark.parametrize("target", ["anthropic", "gemini-2.5"])
def test_an_agent(harness_client, target):
    client = harness_client("call-single", target=target)
    tools = harness_client("call-single", target=target)
    assert client.name == ("gemini" if target.startswith("gemini") else target)
    assert ask(client, "What is the weather in Paris?", tool=weather) == ask(tools, "The same?", tool=weather)

def test_a_file_of_ones_own(harness_client):
    assert ask(harness_client("scenarios/plain.yaml"), "Hello.") == "Good morning."

def test_the_provider_would_refuse_it(harness_client):
    lost = ToolResult("call_nobody", "get_weather", 18)
    with pytest.raises(InvalidRequest):
        harness_client("call-single").chat(ChatRequest(messages=[Message("user", [lost])]))

def test_a_scenario_that_does_not_exist(harness_client):
    with pytest.raises(UnknownName, match="harness_client: unknown scenario 'call-singel'. Did you mean 'call-single'"):
        harness_client("call-singel")
"""


def test_a_library_user_gets_a_client_that_works_offline(project: pytest.Pytester) -> None:
    (project.path / "tests" / "test_clients.py").write_text(CLIENTS)
    configure(project)
    run_pytest(project, "tests/test_clients.py").assert_outcomes(passed=5)


def test_the_settings_of_the_project_are_those_of_its_tests(pytester: pytest.Pytester) -> None:
    scenario = (shipped_folder("scenarios") / "call-single.yaml").read_text()
    pytester.makefile(".toml", pyproject='[tool]\nharness = {scenarios = ["llm"], targets = ["anthropic"]}\n')
    (pytester.path / "llm").mkdir()
    (pytester.path / "llm" / "call-single.yaml").write_text(scenario)

    missing = pytester.runpytest("-p", "no:cacheprovider", "llm")

    missing.assert_outcomes(failed=2)  # never from the shipped cassette of the same name
    missing.stdout.fnmatch_lines(["not checked: *cassettes/call-single/anthropic.yaml: there is no such cassette.*"])
    missing.stdout.fnmatch_lines(
        ["*record it: *harness record --variant whole llm/call-single.yaml --target anthropic"]
    )
    result = pytester.runpytest("-p", "no:cacheprovider", "--harness-mode=reference", "llm")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("expression", "outcomes"),
    [
        ("not harness", {"passed": 1, "deselected": 4}),
        ("harness_system_prompt", {"failed": 2, "deselected": 3}),
        ("harness_needs_streaming and harness_history", {"passed": 1, "deselected": 4}),
        ("harness(variant='whole', api='openai-chat')", {"passed": 1, "failed": 1, "deselected": 3}),
    ],
)
def test_m_selects_by_what_a_cell_is_about_and_what_it_needs(
    project: pytest.Pytester, expression: str, outcomes: dict[str, int]
) -> None:
    configure(project, harness_scenarios="scenarios")
    run_pytest(project, "--strict-markers", "-m", expression).assert_outcomes(**outcomes)


def test_all_marks_are_listed(project: pytest.Pytester) -> None:
    configure(project, harness_scenarios="scenarios")
    shown = run_pytest(project, "--markers").stdout.str()
    names = [f"harness_{subject.value}" for subject in Subject] + [f"harness_needs_{each.value}" for each in Capability]
    assert [name for name in names if f"@pytest.mark.{name.replace('-', '_')}: " not in shown] == []
    assert "@pytest.mark.harness(scenario, target, adapter, api, variant): " in shown
