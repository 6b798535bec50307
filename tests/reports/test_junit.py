from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.reports import REPORTS
from harness.reports.ci_reports import JUNIT
from harness.results import Definition, Presentation, RunResult, Verdict
from tests.reports.runs import cell, failed, finding, red, whole_suite


def parsed(run: RunResult) -> ET.Element:
    return ET.fromstring(JUNIT.render(run, Presentation()))  # noqa: S314 - our own XML


def test_the_counts_are_those_of_the_cases() -> None:
    root = parsed(red())

    for element in (root, *root.findall("testsuite")):
        assert int(element.attrib["tests"]) == len(element.findall(".//testcase"))
        assert int(element.attrib["failures"]) == len(element.findall(".//failure"))
        assert int(element.attrib["errors"]) == len(element.findall(".//error"))
        if element is not root:  # Jenkins' schema of `testsuites` does not have it
            assert int(element.attrib["skipped"]) == len(element.findall(".//skipped"))
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("9", "3", "2", None)


def test_no_two_cases_of_a_suite_have_one_name() -> None:
    for suite in parsed(whole_suite()).iter("testsuite"):
        names = [case.get("name") for case in suite.iter("testcase")]
        assert len(names) == len(set(names)) > 0


def test_what_xml_cannot_hold_is_replaced() -> None:
    hostile = "a\x00b\x1b\ufffe ]]> <tag> & \ud83d end"

    root = parsed(RunResult("replay", (failed("a", "anthropic", finding(message=hostile, actual=hostile)),)))

    failure = root.find(".//failure")
    assert failure is not None
    assert "]]> <tag> &" in failure.attrib["message"]
    assert failure.attrib["message"].endswith(" end")


ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "properties": set[str](),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set[str](),
}
"""What of the schema of Jenkins' xUnit plugin is made use of: see `harness.reports.ci_reports`."""
NEEDED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}, "property": {"name", "value"}}
INSIDE = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


def placed() -> RunResult:
    """A run of scenarios of one's own, with times, and with what adapters printed."""
    run = red()
    at = Definition("d1", ("tools",), file="scenarios/call-parallel.yaml", line=2, turns=(14, 20))
    cells = tuple(replace(cell, seconds=0.1234 + number) for number, cell in enumerate(run.cells))
    first = replace(cells[1], findings=(replace(cells[1].findings[0], turn=1),), printed="hello\n[[ATTACHMENT|/etc/x]]")
    cells = (cells[0], first, *cells[2:])
    return replace(run, cells=cells, definitions={"call-parallel": at}, played_at="2026-11-23T08:00:00+00:00")


@pytest.mark.parametrize("name", ["junit", "xunit"])
def test_the_structure_is_what_jenkins_and_gitlab_read(name: str) -> None:
    text = REPORTS.load(name).render(replace(placed(), stopped="interrupted"), Presentation())
    more = {"file", "line"} if name == "junit" else set[str]()

    for element in ET.fromstring(text).iter():  # noqa: S314 - our own XML
        extra = more if element.tag == "testcase" else set[str]()
        assert set(element.attrib) <= ALLOWED[element.tag] | extra
        assert set(element.attrib) >= NEEDED.get(element.tag, set())
        assert {child.tag for child in element} <= INSIDE.get(element.tag, set())
        assert TIME.fullmatch(element.get("time", ""))
        if element.tag in ("failure", "error", "skipped"):
            assert element.get("message")
            assert element.text  # GitLab shows it, and not the message


def test_a_case_names_the_line_of_the_turn_and_the_time_it_took() -> None:
    root = parsed(placed())

    suite = root.find("testsuite[@name='anthropic']")
    case = root.find("testsuite[@name='anthropic']/testcase[@name='call-parallel']")
    assert suite is not None
    assert case is not None
    assert suite.get("timestamp") == "2026-11-23T08:00:00+00:00"
    assert suite.get("time") == "9.494"
    assert (case.get("file"), case.get("line"), case.get("time")) == ("scenarios/call-parallel.yaml", "20", "1.123")
    assert "in scenarios/call-parallel.yaml, line 20" in (case.findtext("failure") or "")
    other = root.find("testsuite[@name='anthropic']/testcase[@name='call-single']")
    assert other is not None
    assert other.get("file") is None  # it ships: no file of the repository


def test_files_are_named_from_the_top_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def named(root: Path) -> str | None:
        case = ET.fromstring(JUNIT.render(placed(), Presentation(root=str(root)))).find(  # noqa: S314 - our own XML
            "testsuite/testcase[@name='call-parallel']"
        )
        return None if case is None else case.get("file")

    assert named(tmp_path.parent) == f"{tmp_path.name}/scenarios/call-parallel.yaml"
    assert named(tmp_path / "elsewhere") is None


def test_what_an_adapter_printed_is_no_command_of_the_server() -> None:
    printed = parsed(placed()).findtext("testsuite/testcase/system-out")

    assert printed == "hello\n[ [ATTACHMENT|/etc/x]]"


def test_texts_are_bounded_and_have_no_control_characters() -> None:
    long = "x" * 9_000 + "\x1b[31m\x85" + "y" * 9_000
    cells = (failed("a", "anthropic", finding(message=long)), cell("b", verdict=Verdict.ERROR, traceback=long))

    text = JUNIT.render(RunResult("replay", cells), Presentation())

    assert len(text) < 2 * (12_000 + 1_000) + 2_000
    assert "characters are left out" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
