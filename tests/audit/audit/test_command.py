from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.cli.main import main
from harness.results import Outcome, RunResult, Verdict
from tests.audit.audit.cassettes import ACCEPTED, REFUSAL, UNANSWERED, exchange, request, response, write


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: object) -> Done:
        code = main(["audit", *map(str, arguments)])
        return Done(code, *capsys.readouterr())

    return command


def test_the_text_report_counts_accepted_and_refused_requests(run: Run, tmp_path: Path) -> None:
    file = write(
        tmp_path / "mixed.yaml",
        exchange(),
        exchange(request(UNANSWERED)),
        exchange(request(UNANSWERED), response(REFUSAL, 400)),
        exchange(request({}, "https://example.com/")),
        exchange(answer=False),
    )
    done = run(file)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    heads = ["API", "exchanges", "unread", "accepted", "flagged", "refused", "flagged", "streamed", "broken"]
    assert [line.split()[:9] for line in lines if line.startswith(("API", "openai-chat", "unknown"))] == [
        heads,
        ["openai-chat", "4", "0", "2", "1", "1", "1", "0", "0"],
        ["unknown", "1", "no", "chat", "of", "these", "APIs:", "not", "audited"],
    ]
    accepted = lines.index("Found in requests that were accepted")
    refused = lines.index("Found in requests that were refused")
    assert f"    {file}, interaction 1 /messages/1/tool_calls/0" in lines[accepted:refused]
    assert f"    {file}, interaction 2 /messages/1/tool_calls/0" in lines[refused:]
    expected = "1 of 2 accepted and 1 of 1 refused requests break a limit. The server of 1 did not judge them."
    assert lines[-1] == expected


def test_unexplained_refusal_quotes_the_server(run: Run, tmp_path: Path) -> None:
    words = {"error": {**REFUSAL["error"], "message": "The sky is too blue. Your key is xai-" + "aB3dE5gH7j" * 8}}
    key = {"error": {**REFUSAL["error"], "message": "Incorrect API key provided."}}
    file = write(
        tmp_path / "a.yaml",
        exchange(),
        exchange(answered=response(words, 400)),
        exchange(request(UNANSWERED), response(REFUSAL, 400)),  # a limit says why
        exchange(answered=response(key, 401)),  # not for what the request says
    )

    done = run(file)

    assert "\nRefused, and no rule explains why: 1. The server's messages:\n" in done.stdout
    assert f"  {file}, interaction 1\n    HTTP 400: The sky is too blue. Your key is " in done.stdout
    assert "xai-aB3" not in done.stdout
    assert "no rule explains why" not in run(file, "--quiet").stdout
    assert "### Refused, and no rule explains why: 1 request" in run(file, "--report", "markdown").stdout
    (kept,) = json.loads(run(file, "--report", "json").stdout)["audit"]["unexplained"]
    assert (kept["index"], kept["status"]) == (1, 400)


def test_a_clean_audit_ends_well(run: Run, tmp_path: Path) -> None:
    done = run(write(tmp_path / "good.yaml", exchange()))
    assert done.exit_code == 0
    assert "Found" not in done.stdout
    assert done.stdout.endswith("0 of 1 accepted and 0 of 0 refused requests break a limit.\n")


def test_an_audit_of_nothing_is_no_success(run: Run, tmp_path: Path) -> None:
    done = run(write(tmp_path / "none.yaml", exchange(request({}, "https://example.com/"))))
    assert done.exit_code == 2
    assert "NOTHING AUDITED" in done.stdout


def test_files_that_were_not_read_are_named(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "good.yaml", exchange())
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    (tmp_path / "cut.yaml").write_text("interactions:\n- request: {")
    done = run(tmp_path)
    assert done.exit_code == 2
    assert f"Skipped, because it is not a cassette: 1 file ({tmp_path / 'compose.yaml'})" in done.stdout
    assert "Not audited, since it cannot be read: 1 cassette" in done.stdout
    assert f"  {tmp_path / 'cut.yaml'} (line " in done.stdout


def test_many_findings_fit_on_a_page_and_verbose_shows_them_all(run: Run, tmp_path: Path) -> None:
    bad = {
        **UNANSWERED,
        "tools": [{"type": "function", "function": {"name": "no name"}}, {"type": "nothing"}],
        "tool_choice": "perhaps",
        "temperature": "hot",
        "response_format": {"type": "xml"},
        "stream": "yes",
        "n": "x",
        "stop": [1],
        "max_tokens": "many",
        "parallel_tool_calls": 1,
        "modalities": 1,
    }
    answers = (response(), response(REFUSAL, 400), response(REFUSAL, 500))
    file = write(tmp_path / "bad.yaml", *(exchange(request(bad), answer) for answer in answers for _ in range(9)))
    short, full = run(file).stdout, run(file, "-v").stdout
    assert len(short.splitlines()) <= 60
    assert "more rules: --verbose shows all findings" in short
    assert full.count("/tool_choice") >= 27
    assert 'actual: "perhaps"' in full
    assert "more rules" not in full


def test_control_characters_of_a_recording_are_escaped(run: Run, tmp_path: Path) -> None:
    bad = {**ACCEPTED, "messages": [{"role": "\x1b[2J\x07user", "content": "x"}]}
    done = run(write(tmp_path / "bad.yaml", exchange(request(bad))), "-v")
    assert done.exit_code == 1
    assert "[2J" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with a request that breaks a limit, a good one, a damaged cassette and a file that is none."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    write(folder / "bad.yaml", exchange(request(UNANSWERED)))
    write(folder / "good.yaml", exchange())
    (folder / "cut.yaml").write_text("interactions:\n- request: {")
    (folder / "compose.yaml").write_text("services: {}\n")
    return folder


def test_an_audit_is_a_run_whose_cells_are_recordings(run: Run, mixed: Path) -> None:
    done = run(mixed, "--json")
    reported = RunResult.from_json(done.stdout)
    assert done.exit_code == reported.exit_code == 1
    assert reported.to_json() == done.stdout
    assert {(Path(cell.scenario).name, cell.target): cell.verdict for cell in reported.cells} == {
        ("bad.yaml", "openai-chat"): Verdict.FAIL,
        ("good.yaml", "openai-chat"): Verdict.PASS,
        ("cut.yaml", "unread"): Verdict.MISSING,
    }
    assert {finding.outcome for cell in reported.cells for finding in cell.findings} == {Outcome.ACCEPTED}


def test_junit_has_a_case_for_each_recording(run: Run, mixed: Path) -> None:
    root = ET.fromstring(run(mixed, "--report", "junit").stdout)  # noqa: S314 - our own output
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    cases = {Path(each.get("name") or "").name: each for each in root.iter("testcase")}
    failure, error = cases["bad.yaml"].find("failure"), cases["cut.yaml"].find("error")
    assert failure is not None
    assert error is not None
    assert f"at: {mixed / 'bad.yaml'}, interaction 0 /messages/1/tool_calls/0" in (failure.text or "")
    assert (error.get("message") or "").startswith(f"not checked: {mixed / 'cut.yaml'} (line ")
    assert (error.text or "").endswith(f"\nin {mixed / 'cut.yaml'}, line 1")
    assert [*cases["good.yaml"]] == []


def test_markdown_has_counts_causes_and_unread_files(run: Run, mixed: Path) -> None:
    text = run(mixed, "--report", "markdown").stdout
    assert text.startswith("## harness: FAIL\n\n1 of 2 accepted and 0 of 0 refused requests break a limit.\n")
    assert "| openai-chat | 2 | 0 | 2 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "bad.yaml, interaction 0 /messages/1/tool_calls/0" in text
    assert "### Not audited, since it cannot be read: 1 cassette" in text
    assert "harness show" not in text  # nothing was run that could be run again


def test_the_fewest_exchanges_that_fail_are_saved_without_secrets(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "long.yaml", exchange(), exchange(request(UNANSWERED), response(REFUSAL, 400)), exchange())
    done = run(file, "--save", tmp_path / "small")
    (saved,) = (tmp_path / "small").iterdir()
    assert done.stderr == f"{saved}: 1 of 3 exchanges, for {saved.stem.removeprefix('long-')}\n"
    assert run(saved).exit_code == 1
