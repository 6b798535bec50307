"""Recordings that stop, and those that go on: what is asked, what is kept, and what is said of it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cassettes.cassette import Metadata
from harness.cassettes.cassette_files import read
from harness.cassettes.library import Journal, journal_path
from harness.cassettes.loopback_server import serve
from harness.cli.progress import Progress
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import files
from harness.reference_server.script_session import ScriptSession
from harness.results import RunResult
from harness.scenarios.load import load_file
from tests.cli.conftest import Command, Outcome

MODEL = "gpt-5.6"
SCENARIO = """\
version: 1
id: {id}
title: A tool is called
covers: [tools]
requires: [tools]
variants: [whole]
tools:
  - name: look
    parameters: {{type: object, properties: {{at: {{type: string}}}}, required: [at]}}
    results: [{{return: seen}}]
turns:
  - user: Look at {id}.
    model: [{{calls: [{{look: {{at: there}}}}]}}, {{text: Seen.}}]
"""


class Provider:
    """Stands in for OpenAI: plays each scenario's script. `failing` is answered with 529 as often as it says."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.failing: dict[int, int] = {}
        self._folder = folder
        self._sessions: dict[str, ScriptSession] = {}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        (name,) = (
            path.stem for path in self._folder.glob("*.yaml") if f"Look at {path.stem}.".encode() in request.body
        )
        later = b'"role":"tool"' in request.body
        self.asked.append(f"{name} {1 + later}")
        if self.failing.get(len(self.asked)):
            return HttpResponse(529, {"content-type": "application/json"}, b'{"error": {"message": "overloaded"}}')
        if not later or name not in self._sessions:
            scenario = load_file(self._folder / f"{name}.yaml")
            self._sessions[name] = ScriptSession(
                scenario, registry.api("openai-chat"), MODEL, registry.api("openai-chat").profile_for(MODEL)
            )
        return self._sessions[name](request)


class Place:
    """A folder with the scenarios `a`, `b` and `c`, a provider to record them from, and the command."""

    def __init__(self, harness: Command, provider: Provider, url: str) -> None:
        self.provider = provider
        self.url = url
        self._harness = harness

    def __call__(self, *words: str) -> Outcome:
        return self._harness(
            "record", "--target", "openai-chat", "--base-url", f"openai-chat={self.url}/v1", *(words or ("scenarios",))
        )

    def again(self, command: str) -> Outcome:
        return self._harness(*shlex.split(command)[1:])


@pytest.fixture
def place(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-nobody-checks")
    (folder / "scenarios").mkdir()
    for name in "abc":
        (folder / "scenarios" / f"{name}.yaml").write_text(SCENARIO.format(id=name))
    provider = Provider(folder / "scenarios")
    with serve() as server:
        yield Place(harness, provider, server.mount(provider))


def cassette(name: str) -> Path:
    return Path("cassettes") / name / "openai-chat.yaml"


def said(outcome: Outcome) -> list[str]:
    """What was said of recordings on standard error, without estimates."""
    return [line for line in outcome.err.splitlines() if not line.startswith(("To be sent", "  openai-chat (gpt"))]


def test_what_was_answered_before_a_failure_is_not_asked_again(place: Place) -> None:
    place.provider.failing = {2: 1}

    failed, again = place("scenarios/a.yaml"), place("scenarios/a.yaml")

    assert (failed.code, again.code) == (1, 0)
    assert place.provider.asked == ["a 1", "a 2", "a 2"]
    assert said(failed) == [
        (
            "cassettes/a/openai-chat.yaml is not complete. Its responses so far (1 exchange) are in "
            "openai-chat.yaml.journal, and the next recording of the cell reuses them. To request them again, delete "
            "the file."
        )
    ]
    assert said(again) == [
        (
            "cassettes/a/openai-chat.yaml.journal has 1 answered exchange of an unfinished recording. They are used "
            "where the adapter sends the same requests again."
        ),
        "Reused 1 answered exchange of cassettes/a/openai-chat.yaml without sending a request.",
    ]
    assert len(read(cassette("a")).interactions) == 2
    assert not journal_path(cassette("a")).exists()


def test_answers_that_are_taken_up_count_for_nothing(place: Place) -> None:
    place("scenarios/a.yaml", "--max-requests", "1")

    assert place("scenarios/a.yaml", "--max-requests", "1").code == 0
    assert place.provider.asked == ["a 1", "a 2"]


def test_what_another_scenario_has_left_is_put_away_and_said(place: Place, folder: Path) -> None:
    place("scenarios/a.yaml", "--max-requests", "1")
    scenario = folder / "scenarios" / "a.yaml"
    scenario.write_text(scenario.read_text().replace("user: Look", "user: Please. Look"))

    outcome = place("scenarios/a.yaml")

    assert outcome.code == 0
    assert place.provider.asked == ["a 1", "a 1", "a 2"]
    assert said(outcome)[-1] == (
        "cassettes/a/openai-chat.yaml: the responses of an unfinished recording (1 exchange) were not "
        "reused, because the requests have changed. They are kept in cassettes/a/openai-chat.yaml.journal.left."
    )
    assert Path("cassettes/a/openai-chat.yaml.journal.left").exists()


def test_what_was_recorded_live_is_replaced_by_force_only(place: Place) -> None:
    place("scenarios/a.yaml")
    day = str(read(cassette("a")).metadata.recorded_at)[:10]  # type: ignore[union-attr]

    refused = place()
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"harness: cassettes/a/openai-chat.yaml: it was recorded live on {day}, and may have been paid for. Record "
        "with --missing to keep it, with --force to replace it, or into another folder (--cassettes DIR) to keep "
        "both.\n"
    )
    assert place.provider.asked == ["a 1", "a 2"]
    assert place("scenarios/a.yaml", "--force").code == 0
    assert len(place.provider.asked) == 4


def test_all_obstacles_are_found_before_anything_is_sent(place: Place) -> None:
    place("scenarios/a.yaml")
    cassette("b").parent.mkdir()
    cassette("b").write_text("version: 1\ninteractions: []\n")
    metadata = read(cassette("a")).metadata
    assert isinstance(metadata, Metadata)
    recorder = Journal(cassette("c"), metadata)

    refused = place("scenarios", "--report", "json:run.json")

    recorder.remove()
    assert refused.code == 2
    assert refused.err.startswith("harness: 3 of 3 cells cannot be recorded, so nothing was sent for any. cassettes/")
    assert "b/openai-chat.yaml: it was recorded with an unknown model" in refused.err
    assert "c/openai-chat.yaml: another process is recording it. Wait until it has finished, or stop it." in refused.err
    assert place.provider.asked == ["a 1", "a 2"]
    assert "another process" in str(RunResult.from_json(Path("run.json").read_text()).stopped)


def test_missing_records_what_is_missing(place: Place) -> None:
    place("scenarios/b.yaml")

    some, none = place("scenarios", "--missing"), place("scenarios", "--missing", "--report", "json:run.json")

    assert (some.code, none.code, none.out) == (0, 0, "")
    assert place.provider.asked == ["b 1", "b 2", "a 1", "a 2", "c 1", "c 2"]
    assert said(some) == ["1 chosen cell with a fresh cassette, which --missing does not replace; 2 cells to record."]
    assert said(none) == ["3 chosen cells with a fresh cassette, which --missing does not replace; nothing to record."]
    assert RunResult.from_json(Path("run.json").read_text()).finished


def test_missing_leaves_what_may_have_been_paid_for_and_says_so(place: Place, folder: Path) -> None:
    place("scenarios/a.yaml", "scenarios/b.yaml")
    for name, words in (("a", "user: Please. Look"), ("b", "user: Look")):
        scenario = folder / "scenarios" / f"{name}.yaml"
        scenario.write_text(scenario.read_text().replace("user: Look", words).replace("is called", "was called"))
    before = cassette("a").read_bytes()

    outcome = place("scenarios", "--missing")

    assert outcome.code == 2
    assert place.provider.asked[4:] == ["c 1", "c 2"]  # a title is not sent, so that b is as fresh as it was
    assert "Not recorded: 1 cell" in outcome.out
    assert "before the scenario or the model changed, and may have been" in " ".join(outcome.out.split())
    assert cassette("a").read_bytes() == before
    assert place("scenarios", "--missing", "--force").code == 0
    assert place.provider.asked[6:] == ["a 1", "a 2"]


def test_reference_recordings_count_as_missing_for_a_provider(place: Place, harness: Command) -> None:
    harness("record", "scenarios/a.yaml", "--target", "openai-chat", "--from", "reference")

    assert place("scenarios/a.yaml", "--missing").code == 0
    assert place.provider.asked == ["a 1", "a 2"]


def interrupted(place: Place, monkeypatch: pytest.MonkeyPatch, after: int, *words: str) -> Outcome:
    """The command, interrupted once so many cells are done."""
    done = 0

    def adding(self: Progress, result: object) -> None:
        nonlocal done
        done += 1
        if done == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "__call__", adding)
        return place(*words)


def test_an_interrupt_prints_the_command_that_continues(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = interrupted(place, monkeypatch, 2, "scenarios", "--report", "json:run.json")

    assert outcome.code == 130
    command = f"harness record --base-url openai-chat={place.url}/v1 --missing scenarios --target openai-chat"
    assert said(outcome) == [
        "Recorded before it stopped: 2 of 3 cells:",
        "  openai-chat: a, b",
        f"To go on: {command}",
        "harness: interrupted. Cassettes that were complete by then are kept.",
    ]
    assert [cell.scenario for cell in RunResult.from_json(Path("run.json").read_text()).cells] == ["a", "b"]
    assert place.again(command).code == 0
    assert place.provider.asked == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]


def test_what_was_to_be_replaced_goes_on_with_what_was_not(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place()
    outcome = interrupted(place, monkeypatch, 1, "scenarios", "--force")

    (line,) = (line for line in said(outcome) if line.startswith("To go on: "))
    assert line == (
        f"To go on: harness record --base-url openai-chat={place.url}/v1 --force scenarios/b.yaml scenarios/c.yaml "
        "--target openai-chat"
    )
    assert place.again(line.removeprefix("To go on: ")).code == 0
    assert place.provider.asked[6:] == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]


def test_a_journal_of_a_complete_cassette_is_removed(place: Place) -> None:
    place("scenarios/a.yaml", "--max-requests", "1")
    journal = journal_path(cassette("a"))
    left = journal.read_bytes()
    place("scenarios/a.yaml")
    journal.write_bytes(left)

    outcome = place("scenarios/a.yaml", "--missing")

    assert outcome.code == 0
    assert said(outcome)[0] == (
        "cassettes/a/openai-chat.yaml.journal was left by a recording that was killed after its cassette was complete. "
        "It had nothing that the cassette does not have, and was removed."
    )
    assert not journal.exists()


def test_a_fresh_cassette_keeps_the_journal_of_its_replacement(place: Place) -> None:
    place("scenarios/a.yaml")
    before = cassette("a").read_bytes()
    place.provider._sessions.clear()
    (Path("scenarios") / "a.yaml").write_text(SCENARIO.format(id="a").replace("user: Look", "user: Now. Look"))
    place("scenarios/a.yaml", "--force", "--max-requests", "1")
    (Path("scenarios") / "a.yaml").write_text(SCENARIO.format(id="a"))

    outcome = place("scenarios/a.yaml", "--missing")

    assert said(outcome)[0] == (
        "cassettes/a/openai-chat.yaml.journal has 1 answered exchange of an unfinished recording. It is kept, but not "
        "used, because openai-chat.yaml is fresh. To continue it, record with --force and without --missing."
    )
    assert cassette("a").read_bytes() == before


def test_only_files_of_dead_writers_are_removed(place: Place) -> None:
    folder = cassette("a").parent
    folder.mkdir(parents=True)
    names = (
        ".openai-chat.yaml.0123456789abcdef.tmp",
        ".z.stream.yaml.0123456789abcdef.tmp",
        ".z.yaml.0000000000000000.tmp",
    )
    dead, other, living = (folder / name for name in names)
    foreign = folder / ".notes.tmp"
    report = Path(".run.json.0123456789abcdef.tmp")
    for path in (dead, other, living, foreign, report):
        path.write_text("half")
    handle = os.open(living, os.O_RDONLY)
    assert files.lock_file(handle)

    place("scenarios/a.yaml", "--report", "json:run.json")

    os.close(handle)
    assert [path.exists() for path in (dead, other, report, living, foreign)] == [False, False, False, True, True]


def test_a_possible_secret_is_refused_with_its_place(place: Place, folder: Path) -> None:
    scenario = folder / "scenarios" / "a.yaml"
    scenario.write_text(scenario.read_text().replace("user: Look", "user: The password=hunter2-Zx9 is new. Look"))

    refused = place("scenarios/a.yaml")
    journal = cassette("a").with_name("openai-chat.yaml.journal")
    left = journal.stat().st_mode & 0o777
    allowed = place("scenarios/a.yaml", "--allow-secret", "a/openai-chat request 0 /messages/*")

    assert refused.code == 2
    assert left == 0o600
    reported = " ".join(refused.out.split())
    assert (
        f"The responses so far are in {journal}, which only you may read. To delete them: rm '{journal}'." in reported
    )
    assert "a/openai-chat request 0 /messages/0/content (The password)" in " ".join(refused.out.split())
    assert "--allow-secret 'a/openai-chat request 0 /messages/0/content'" in " ".join(refused.out.split())
    assert allowed.code == 0
    assert place.provider.asked == ["a 1", "a 2"]
    assert "hunter2-Zx9" in cassette("a").read_text()


@pytest.mark.parametrize(
    ("line", "place_of"), [("user: ", "turns[0].user"), ("return: ", "tools[0].results[0].return")]
)
def test_a_key_in_a_scenario_is_refused_before_sending(place: Place, folder: Path, line: str, place_of: str) -> None:
    scenario = folder / "scenarios" / "a.yaml"
    text = scenario.read_text()
    assert line in text
    scenario.write_text(text.replace(line, f"{line}ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8 "))

    refused = place("scenarios/a.yaml")
    scenario.write_text(text.replace(line, f"{line}ghp_a1B2 "))
    recorded = place("scenarios/a.yaml")

    assert refused.code == 2
    reported = " ".join(refused.out.split())
    assert (
        f"nothing was sent: the scenario has what looks like a key, at {place_of}. No cassette stores one" in reported
    )
    assert recorded.code == 0
    assert place.provider.asked == ["a 1", "a 2"]
