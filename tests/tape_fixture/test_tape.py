"""The fixture as a user has it: a project is recorded, changed, and replayed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import harness.pytest_plugin.taping  # noqa: F401 - what is loaded here is not loaded anew by each run in this process
from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from tests.tape_fixture import project
from tests.tape_fixture.faults import FAULTS, HARMLESS, Fault
from tests.tape_fixture.project import SCENARIO, serving

KEY = "sk-secret-of-mine-123456789"
CUT = 3
"""By which streams are cut within their events."""

GOLDEN = (Path(__file__).parent / "golden.txt").read_text(encoding="utf-8")
GONE = "http://127.0.0.1:9/session"


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving(recut=CUT) as server:
        yield server


@dataclass
class Done:
    """A run of pytest: the outcome of each test, and the message of a failed test or of a report section."""

    outcomes: dict[str, str]
    messages: dict[str, str]
    code: int


class Project:
    """A project in a pytester folder."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = pytester.path
        self._pytester = pytester
        self._environment = monkeypatch

    def run(self, *arguments: str, url: str = GONE) -> Done:
        self._environment.setenv("WEATHER_URL", url)
        own = ("-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist")
        done = self._pytester.inline_run(*own, *arguments)
        outcomes: dict[str, str] = {}
        messages: dict[str, str] = {}
        for report in done.getreports("pytest_runtest_logreport"):
            test = report.nodeid.rpartition("::")[2]
            if report.when == "call" or report.failed:
                outcomes[test] = report.outcome if report.when == "call" else f"error at {report.when}"
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                messages[test] = str(report.longrepr) if crash is None else crash.message.removeprefix("Failed: ")
            if report.when == "call":
                said = [text for name, text in report.sections if "harness tape" in name]
                messages[test] = "\n\n".join([*filter(None, [messages.get(test)]), *said])
        return Done(outcomes, messages, int(done.ret))

    def test(self, text: str) -> None:
        (self.folder / "test_agent.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded") / "cassettes"


@pytest.fixture
def bare(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that nobody has recorded."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.syspath_prepend(pytester.path)
    project.write(pytester.path)
    return Project(pytester, monkeypatch)


@pytest.fixture
def recorded(bare: Project, shelf: Path, origin: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One that was recorded; there is no key any more."""
    if not shelf.exists():
        done = bare.run("--harness-record=missing", url=f"{origin}/{SCENARIO}/first")
        assert done.outcomes == {"test_weather": "passed", "test_stream": "passed"}
        shutil.copytree(bare.folder / "cassettes", shelf)
    else:
        shutil.copytree(shelf, bare.folder / "cassettes")
    monkeypatch.delenv("OPENAI_API_KEY")
    return bare


def test_a_recording_is_replayed_without_key_and_server(recorded: Project) -> None:
    assert recorded.run().outcomes == {"test_weather": "passed", "test_stream": "passed"}
    text = project.cassette(recorded.folder).read_text()
    assert KEY not in text
    assert "Recorded by a test, with harness, on 20" in text


@pytest.mark.parametrize("fault", [each for each in FAULTS if not each.while_recording], ids=lambda each: each.name)
def test_a_fault_turns_the_test_red_and_is_named(recorded: Project, fault: Fault) -> None:
    fault.plant(recorded.folder)
    done = recorded.run("-k", fault.test)
    assert done.outcomes != {fault.test: "passed"}
    if fault.test == "test_weather":
        check(fault.name, done.messages[fault.test])


@pytest.mark.parametrize("change", HARMLESS, ids=lambda each: each.name)
def test_what_means_the_same_turns_nothing_red(recorded: Project, change: Fault) -> None:
    change.plant(recorded.folder)
    done = recorded.run()
    assert done.outcomes == {"test_weather": "passed", "test_stream": "passed"}


def test_a_key_that_an_agent_sends_in_a_body_is_not_recorded(bare: Project, origin: str) -> None:
    (fault,) = (each for each in FAULTS if each.while_recording)
    fault.plant(bare.folder)
    done = bare.run("--harness-record=missing", url=f"{origin}/{SCENARIO}/leaking")
    assert done.outcomes["test_weather"] == "passed"
    text = project.cassette(bare.folder).read_text()
    assert KEY not in text
    assert '"user": "REDACTED"' in text
    assert bare.run().code == 0


def test_what_a_lenient_server_takes_is_recorded_and_judged_without_keys_in_the_log(bare: Project) -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        answered = json.loads(request.body)["messages"][-1]["role"] == "tool"
        calls = [
            {
                "id": f"call-{city}",
                "type": "function",
                "function": {"name": KEY, "arguments": json.dumps({"city": city})},
            }
            for city in ("Paris", "Tokyo")
        ]
        message = {"role": "assistant", "content": "31"} if answered else {"role": "assistant", "tool_calls": calls}
        body = {"model": "gpt-4o", "choices": [{"message": message, "finish_reason": "stop"}]}
        return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())

    (unanswered,) = (each for each in FAULTS if "without its result" in each.name)
    replace(unanswered, recorded=None).plant(bare.folder)
    with serve(answer) as server:
        done = bare.run("--harness-record=missing", "-k", "weather", url=f"{server.origin}/s")
    assert done.outcomes == {"test_weather": "failed"}
    check("broken while recording", done.messages["test_weather"])
    assert KEY not in project.cassette(bare.folder).read_text()


def test_a_test_without_a_cassette_names_the_command_that_records_it(bare: Project) -> None:
    done = bare.run("-k", "weather")
    assert done.outcomes == {"test_weather": "failed"}
    check("no cassette", done.messages["test_weather"].partition("\n\n")[2])


def test_a_test_that_sends_nothing_needs_no_cassette(bare: Project) -> None:
    bare.test("import pytest\n\n@pytest.mark.tape\ndef test_nothing(): pass\n")
    assert bare.run().outcomes == {"test_nothing": "passed"}
    assert bare.run("--harness-record=missing").outcomes == {"test_nothing": "passed"}
    assert not (bare.folder / "cassettes").exists()


def test_a_test_that_fails_writes_no_cassette(bare: Project, origin: str) -> None:
    source = bare.folder / "test_agent.py"
    source.write_text(source.read_text().replace('"31" in', '"32" in'))
    done = bare.run("--harness-record=missing", "-k", "weather", url=f"{origin}/{SCENARIO}/failing")
    assert done.outcomes == {"test_weather": "failed"}
    assert not project.cassette(bare.folder).exists()


def test_what_is_there_is_recorded_anew_only_if_all_is(
    recorded: Project, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = project.cassette(recorded.folder)
    before = path.read_text()
    recorded.run("--harness-record=missing", "-k", "weather")
    assert path.read_text() == before
    done = recorded.run("--harness-record=all", "-k", "weather", url=f"{origin}/{SCENARIO}/anew")
    assert done.outcomes == {"test_weather": "passed"}
    assert path.read_text() != before
    assert "/anew-whole/" in path.read_text()


SETTINGS = {
    "setting-unknown": "@pytest.mark.tape(ignored=['model'])",
    "setting-of-vcrpy": "@pytest.mark.tape(filter_headers=['authorization'])",
    "cassette-twice": "@pytest.mark.tape('one', 'two')",
    "cassette-no-name": "@pytest.mark.tape(cassette=5)",
    "list-wanted": "@pytest.mark.tape(ignore='model')",
    "judge-wanted": "@pytest.mark.tape(judge='no')",
    "limit-unknown": "@pytest.mark.tape(ignore=['openai-chat-result-mising'])",
    "cassette-broken": "@pytest.mark.tape('broken')",
}


def test_a_wrong_setting_is_named_with_what_there_is(bare: Project) -> None:
    folder = bare.folder / "cassettes" / "test_agent"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("version: 1\ninteractions: 5\n")
    tests = (f"{mark}\ndef test_{name.replace('-', '_')}(): pass\n" for name, mark in SETTINGS.items())
    bare.test("\n".join(("import pytest", *tests)))

    done = bare.run()

    for name in SETTINGS:
        test = f"test_{name.replace('-', '_')}"
        assert done.outcomes[test] == "error at setup"
        messages = done.messages[test].replace(str(bare.folder), "FOLDER").replace(f"::{test}:", "::test_it:")
        check(name, re.sub(r"Known: .{200,}", "Known: ….", messages))


def test_what_is_ignored_is_let_be(recorded: Project) -> None:
    (unanswered,) = (each for each in FAULTS if "without its result" in each.name)
    source = recorded.folder / "test_agent.py"
    unanswered.plant(recorded.folder)
    ids = "['openai-chat-result-missing']"
    source.write_text(source.read_text().replace("mark.tape", f"mark.tape(ignore={ids})"))
    done = recorded.run("-k", "weather")
    assert done.outcomes == {"test_weather": "passed"}
    assert done.messages["test_weather"].startswith("result-missing (loss, warning)")
    source.write_text(source.read_text().replace(f"ignore={ids}", "judge=False"))
    assert recorded.run("-k", "weather").messages == {"test_weather": ""}


def test_a_place_that_changes_from_run_to_run_is_ignored_by_its_pointer(recorded: Project) -> None:
    source = recorded.folder / "agent.py"
    source.write_text(source.read_text().replace('"content": SYSTEM', '"content": SYSTEM + " It is noon."'))
    assert recorded.run().outcomes == {"test_weather": "failed", "test_stream": "failed"}
    (recorded.folder / "pytest.ini").write_text("[pytest]\nharness_tape_ignore = /messages/0/*\n")
    assert recorded.run().outcomes == {"test_weather": "passed", "test_stream": "passed"}


CLASS = """
import os

import pytest
from agent import Agent


@pytest.mark.tape
class TestOf:
    @pytest.mark.parametrize("city", ["a/b:c", "é"])
    def test_weather(self, city):
        with Agent(f"{os.environ['WEATHER_URL']}-{ord(city[0])}/v1") as asked:
            assert asked.post(asked.body(city))
"""


def test_tests_of_a_class_and_with_parameters_have_names_that_any_file_system_takes(bare: Project, origin: str) -> None:
    bare.test(CLASS)
    bare.run("--harness-record=missing", "-k", "weather", url=f"{origin}/{SCENARIO}/named")
    folder = bare.folder / "cassettes" / "test_agent"
    names = {"TestOf.test_weather[a-b-c].yaml", "TestOf.test_weather[-xe9].yaml"}
    assert {path.name for path in folder.iterdir()} == names
    assert bare.run("-k", "weather").code == 0


def test_two_tests_do_not_record_into_one_cassette(bare: Project, origin: str) -> None:
    source = bare.folder / "test_agent.py"
    source.write_text(source.read_text().replace("mark.tape", "mark.tape('same')"))
    done = bare.run("--harness-record=all", url=f"{origin}/{SCENARIO}/same")
    assert done.outcomes == {"test_weather": "passed", "test_stream": "error at setup"}
    check("cassette-of-two", done.messages["test_stream"])


def test_the_fixture_says_what_was_sent(recorded: Project) -> None:
    source = recorded.folder / "test_agent.py"
    source.write_text(
        source.read_text().replace(
            'def test_weather():\n    with agent("whole") as asked:\n        assert "31" in asked.ask(QUESTION)',
            'def test_weather(tape):\n    with agent("whole") as asked:\n        assert "31" in asked.ask(QUESTION)\n'
            "    assert [each.response.status for each in tape.exchanges] == [200, 200]\n"
            '    assert b"Paris" in tape.exchanges[0].request.body\n    assert not tape.recording',
        )
    )
    assert recorded.run("-k", "weather").outcomes == {"test_weather": "passed"}


def test_a_refusal_that_was_recorded_fails_nobody(bare: Project, origin: str) -> None:
    """A test may be about it; what is wrong stands in a section all the same."""
    (unanswered,) = (each for each in FAULTS if "without its result" in each.name)
    replace(unanswered, recorded=None).plant(bare.folder)
    source = bare.folder / "test_agent.py"
    source.write_text(
        source.read_text().replace(
            '        assert "31" in asked.ask(QUESTION)',
            "        with pytest.raises(Exception, match='400'):\n            asked.ask(QUESTION)",
        )
    )
    for words, url in ((("--harness-record=missing",), f"{origin}/{SCENARIO}/refused"), ((), GONE)):
        done = bare.run("-k", "weather", *words, url=url)
        assert done.outcomes == {"test_weather": "passed"}
        assert "openai-chat-result-missing (limit, error)" in done.messages["test_weather"]


def test_a_request_in_the_teardown_of_a_fixture_is_one_of_the_test(bare: Project, origin: str) -> None:
    bare.test(
        project.TESTS.replace("def test_weather():", "def test_weather(late):")
        + "\n\n@pytest.fixture\ndef late():\n    yield\n"
        "    with agent('late') as asked:\n        asked.post(asked.body('Bye.'))\n"
    )
    done = bare.run("--harness-record=missing", "-k", "weather", url=f"{origin}/{SCENARIO}/late")
    assert done.outcomes == {"test_weather": "passed"}
    assert project.cassette(bare.folder).read_text().count("uri:") == 3
    assert bare.run("-k", "weather").outcomes == {"test_weather": "passed"}


def check(name: str, messages: str) -> None:
    """Hold what was told against the golden text of that name."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", re.sub(r"call_\w{24}", "call_ID", messages))
    blocks = dict(re.findall(r"^== (.+)\n((?:(?!^== ).*\n)*)", GOLDEN, re.MULTILINE))
    assert text.strip() == blocks.get(name, "nothing").strip()
