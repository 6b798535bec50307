"""A suite of pytest-recording's is taken over: its cassettes are vcrpy's, recorded by vcrpy itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import vcr
import yaml

from harness.cli.app import execute
from tests.tape_fixture import project
from tests.tape_fixture.faults import reworded, unanswered
from tests.tape_fixture.project import SCENARIO, serving

KEY = "sk-secret-of-mine-123456789"
GOLDEN = (Path(__file__).parent / "adopt.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cassette of vcrpy's, with the key in a header, as vcrpy records it if nobody tells it not to."""
    folder = tmp_path_factory.mktemp("vcrpy")
    project.write(folder, "vcr")
    with serving() as origin, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setattr(sys, "modules", dict(sys.modules))
        from agent import Agent  # pyright: ignore[reportMissingImports]

        question = "What is the weather in Paris and in Tokyo? Look both up at once."
        asked: Any = Agent(f"{origin}/{SCENARIO}/vcr-whole/v1")
        with vcr.use_cassette(str(project.cassette(folder))), asked:
            assert "31" in asked.ask(question)
    return folder


@pytest.fixture
def suite(pytester: pytest.Pytester, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project.write(pytester.path, "vcr")
    path = project.cassette(pytester.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(project.cassette(shelf).read_bytes())
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("WEATHER_URL", "http://127.0.0.1:9/s")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.syspath_prepend(pytester.path)
    return pytester.path


def adopt(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = execute(["adopt", *words])
    printed = capsys.readouterr()
    return code, re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", printed.out + printed.err)


def test_with_another_mark_the_suite_is_green_as_it_lies(suite: Path, pytester: pytest.Pytester) -> None:
    source = suite / "test_agent.py"
    source.write_text(re.sub(r"mark\.vcr\b", "mark.tape", source.read_text()))
    done = pytester.inline_run(
        "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "weather"
    )
    done.assertoutcome(passed=1)


def test_what_is_found_is_said_and_left_as_it_is(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project.cassette(suite).parent
    plant(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, said = adopt(capsys, ".")
    check("found", said)
    assert code == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_they_are_written_without_secrets_where_nothing_lies(
    suite: Path, capsys: pytest.CaptureFixture[str], pytester: pytest.Pytester
) -> None:
    code, said = adopt(capsys, "cassettes", "--to", "clean")
    assert code == 0, said
    clean = suite / "clean" / "test_agent" / "test_weather.yaml"
    assert KEY.encode() in project.cassette(suite).read_bytes()
    assert KEY.encode() not in clean.read_bytes()
    assert f"written: {clean.relative_to(suite)}" in said
    again, said = adopt(capsys, "cassettes", "--to", "clean")
    assert again == 1
    check("written", said)

    clean.replace(project.cassette(suite))
    source = suite / "test_agent.py"
    source.write_text(re.sub(r"mark\.vcr\b", "mark.tape", source.read_text()))
    done = pytester.inline_run(
        "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "weather"
    )
    done.assertoutcome(passed=1)


@pytest.mark.parametrize("words", [("nowhere",), ("empty",), ("note.yaml",), ("other",)], ids=str)
def test_where_there_is_no_cassette_it_says_so(
    suite: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (suite / "empty").mkdir()
    (suite / "other").mkdir()
    (suite / "other" / "settings.yaml").write_text("a: b\n")
    (suite / "note.yaml").write_text("a: b\n")
    code, said = adopt(capsys, *words)
    check(words[0], said)
    assert code == (1 if words == ("note.yaml",) else 2)


def plant(folder: Path) -> None:
    """What lies about in real suites: a limit broken, an earlier message reworded, a file that was cut, an exchange
    without an answer, one with something else than a model, a key in a body."""
    whole = yaml.safe_load((folder / "test_weather.yaml").read_text())
    unanswered(whole)
    write(folder / "test_limit.yaml", whole)
    whole = yaml.safe_load((folder / "test_weather.yaml").read_text())
    reworded(whole)
    write(folder / "test_prefix.yaml", whole)
    text = (folder / "test_prefix.yaml").read_text()  # the reference server's answers are of several days
    (folder / "test_prefix.yaml").write_text(re.sub(r"(created\W+)\d{10}", r"\g<1>1786164223", text))
    (folder / "test_cut.yaml").write_text((folder / "test_weather.yaml").read_text()[:700])
    (folder / "test_settings.yaml").write_text("a: b\n")
    other = {
        "request": {
            "method": "GET",
            "uri": "https://api.weather.example/paris?token=t0ken-of-mine",
            "body": None,
            "headers": {},
        },
        "response": {"status": {"code": 200, "message": "OK"}, "headers": {}, "body": {"string": "sunny"}},
    }
    write(folder / "test_other.yaml", {"version": 1, "interactions": [other]})
    write(folder / "test_silent.yaml", {"version": 1, "interactions": [{**other, "response": None}]})
    scrubbed = {**other, "request": {**other["request"], "uri": "https://[scrubbed/v1"}}
    write(folder / "test_scrubbed.yaml", {"version": 1, "interactions": [scrubbed]})
    write(folder / "test_empty.yaml", {"version": 1, "interactions": []})


def write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def check(name: str, reported: str) -> None:
    """Hold what was said against the golden text of that name."""
    blocks = dict(re.findall(r"^== (.+)\n((?:(?!^== ).*\n)*)", GOLDEN, re.MULTILINE))
    assert reported.strip() == blocks.get(name, "nothing").strip()
