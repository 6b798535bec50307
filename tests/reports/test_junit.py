from __future__ import annotations

from xml.etree import ElementTree as ET

from harness.reports.junit import render
from harness.results import Presentation, RunResult, StaleExpectation, Verdict
from tests.reports.runs import both, cell, failed, finding, red, whole_suite

OUTCOMES = {
    Verdict.PASS: None,
    Verdict.WARN: "system-out",
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.MISSING: "error",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.EXPECTED_FAILURE: "skipped",
}


def parsed(run: RunResult) -> ET.Element:
    return ET.fromstring(render(run, Presentation()))  # noqa: S314 - our own XML


def test_every_cell_is_a_case_of_its_targets_suite_with_its_outcome() -> None:
    root, run = parsed(red()), red()

    for each in run.cells:
        case = root.find(f"testsuite[@name='{each.target}']/testcase[@name='{each.scenario}']")
        assert case is not None
        assert case.get("classname") == each.target
        assert [child.tag for child in case] == ([OUTCOMES[each.verdict]] if OUTCOMES[each.verdict] else [])


def test_the_counts_are_those_of_the_cases() -> None:
    root = parsed(red())

    for element in (root, *root.findall("testsuite")):
        assert int(element.attrib["tests"]) == len(element.findall(".//testcase"))
        assert int(element.attrib["failures"]) == len(element.findall(".//failure"))
        assert int(element.attrib["errors"]) == len(element.findall(".//error"))
        assert int(element.attrib["skipped"]) == len(element.findall(".//skipped"))
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("9", "3", "2", "2")


def test_a_failure_holds_the_findings_with_evidence_and_advice() -> None:
    failure = parsed(red()).find("testsuite[@name='anthropic']/testcase[@name='call-parallel']/failure")

    assert failure is not None
    assert failure.get("message") == (
        "result-swapped: the result of one call is sent as that of another (and 1 more cause)"
    )
    assert failure.text is not None
    assert (
        'at: request 2 /messages/3/content/0\nactual: "18 °C"\nexpected: "31 °C"\nsource: anthropic-call-answered-next'
        in failure.text
    )
    assert "what to do: correct what the adapter sends or reads there" in failure.text


def test_a_missing_cassette_is_an_error_that_says_how_to_record_it() -> None:
    error = parsed(red()).find("testsuite[@name='anthropic']/testcase[@name='result-null']/error")

    assert error is not None
    assert error.get("message") == "could not look: no cassette"
    assert error.text == "Record it: harness record --cassettes 'my cassettes' result-null --target anthropic"


def test_a_stale_expectation_is_a_failing_case() -> None:
    case = parsed(red()).find("testsuite[@name='expected-failures']/testcase")

    assert case is not None
    assert case.get("name") == "call-* anthropic usage"
    assert case.find("failure") is not None


def test_streamed_cells_have_names_of_their_own() -> None:
    run = RunResult("replay", (failed(), failed(variant="stream")))

    assert [case.get("name") for case in parsed(run).iter("testcase")] == ["call-single", "call-single [stream]"]


def test_no_two_cases_of_a_suite_have_one_name() -> None:
    for suite in parsed(whole_suite()).iter("testsuite"):
        names = [case.get("name") for case in suite.iter("testcase")]
        assert len(names) == len(set(names)) > 0


def test_a_missing_stream_comes_with_the_command_that_records_it_and_not_what_is_there() -> None:
    missing = {"verdict": Verdict.MISSING, "provenance": None}
    cells = (cell("a"), cell("a", variant="stream", **missing), *both("b", **missing))

    cases = {case.get("name"): case.findtext("error") for case in parsed(RunResult("replay", cells)).iter("testcase")}

    assert cases == {
        "a": None,
        "a [stream]": "Record it: harness record --variant stream a --target anthropic",
        "b": "Record it: harness record b --target anthropic",
        "b [stream]": "Record it: harness record b --target anthropic",
    }


def test_a_stale_expectation_of_one_variant_says_which() -> None:
    stale = StaleExpectation("call-*", "anthropic", "usage", "old", "stream")

    case = parsed(RunResult("replay", (), stale=(stale,))).find(".//testcase")

    assert case is not None
    assert case.get("name") == "call-* stream anthropic usage"


def test_what_xml_cannot_hold_is_replaced() -> None:
    hostile = "a\x00b\x1b\ufffe ]]> <tag> & \ud83d end"

    root = parsed(RunResult("replay", (failed("a", "anthropic", finding(message=hostile, actual=hostile)),)))

    failure = root.find(".//failure")
    assert failure is not None
    assert "]]> <tag> &" in failure.attrib["message"]
    assert failure.attrib["message"].endswith(" end")


def test_the_whole_suite_is_all_there() -> None:
    assert parsed(whole_suite()).get("tests") == str(len(whole_suite().cells))
