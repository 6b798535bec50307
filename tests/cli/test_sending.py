"""What is sent live: at a rate, so much at once, as a provider asks, for so much money, and on when it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pytest

from harness.cassettes.loopback_server import serve
from harness.cli.progress import Progress
from harness.model.http import HttpRequest, HttpResponse
from harness.results import CellResult, RunResult
from harness.runner import live
from harness.runner.live import RateOptions
from tests.cli.conftest import Command, Outcome
from tests.cli.test_recordings import SCENARIO, Provider
from tests.closing import HUNG_UP, closing

LATER = {"content-type": "application/json"}


class Patient(Provider):
    """The same, which notes when it is asked; `waits` are the headers of a 429 by the number of the request, and by
    theirs it `hangs_up`, where the server can."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.at: list[float] = []
        self.waits: dict[int, dict[str, str]] = {}
        self.hangs_up: set[int] = set()
        self.around: Callable[[], None] = lambda: None
        self._one = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.around()
        with self._one:
            self.at.append(time.monotonic())
            if len(self.at) in self.hangs_up:
                return HUNG_UP
            if len(self.at) in self.waits:
                headers = LATER | self.waits[len(self.at)]
                return HttpResponse(429, headers, b'{"error": {"message": "slow down"}}')
            return super().__call__(request)


class Place:
    def __init__(self, harness: Command, provider: Patient, url: str) -> None:
        self.provider = provider
        self._url = url
        self._harness = harness

    def __call__(self, *words: str) -> Outcome:
        to = ("--mode=live", "--target=openai-chat", f"--base-url=openai-chat={self._url}/v1")
        return self._harness("run", "scenarios", *to, *words)


@pytest.fixture
def place(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-nobody-checks")
    (folder / "scenarios").mkdir()
    for name in "abc":
        (folder / "scenarios" / f"{name}.yaml").write_text(SCENARIO.format(id=name))
    provider = Patient(folder / "scenarios")
    with serve() as server:
        yield Place(harness, provider, server.mount(provider))


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(name).read_text())
    del found["timing"]
    return found


@pytest.fixture
def elsewhere(place: Place, harness: Command) -> Iterator[Callable[..., Outcome]]:
    """The run, against a server that closes a connection when it is used again."""
    with closing(place.provider) as url:
        yield lambda target, *words: harness(
            "run", "scenarios", "--mode=live", "--report=json", f"--base-url={target}={url}/v1", *words
        )


OURS_AND_ANOTHERS = {
    "openai-chat": "--target=openai-chat",
    "plain-http": "--adapter=tests.examples.plain_http:ADAPTER",
}


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("target", OURS_AND_ANOTHERS)
def test_an_idle_connection_that_closes_is_no_fault(
    elsewhere: Callable[..., Outcome], place: Place, target: str
) -> None:
    outcome = elsewhere(target, OURS_AND_ANOTHERS[target])

    assert (outcome.code, json.loads(outcome.out)["summary"]["pass"]) == (0, 3)
    assert len(place.provider.at) == 6


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("target", "verdict"), [("openai-chat", "fail"), ("plain-http", "note")])
def test_a_closed_connection_is_reported_without_a_retry(
    elsewhere: Callable[..., Outcome], place: Place, target: str, verdict: str
) -> None:
    place.provider.hangs_up = {2}

    outcome = elsewhere(target, OURS_AND_ANOTHERS[target])

    first, *others = json.loads(outcome.out)["cells"]
    assert first["verdict"] == verdict
    assert [each["rule"] for each in first["findings"] if each["follows"] is None] == ["chat-failure"]
    assert [cell["verdict"] for cell in others] == ["pass", "pass"]
    assert len(place.provider.at) == 6


def test_a_retry_after_delay_is_respected(place: Place) -> None:
    place.provider.waits = {2: {"retry-after-ms": "80"}, 5: {"retry-after": "0"}}

    outcome = place("--report=json:run.json")

    assert outcome.code == 0, outcome.out
    assert len(place.provider.at) == 8
    assert place.provider.at[2] - place.provider.at[1] >= 0.08
    cells = RunResult.from_json(Path("run.json").read_text()).cells
    assert [(cell.findings, cell.exchanges) for cell in cells] == [((), 2)] * 3


@pytest.mark.parametrize(
    ("headers", "requests"),
    [({"retry-after-ms": "1"}, live.MAX_TRIES), ({"retry-after": "3600"}, 1), ({}, 1)],
    ids=["again and again", "in an hour", "unsaid"],
)
def test_long_or_unspecified_rate_limits_are_refusals(place: Place, headers: dict[str, str], requests: int) -> None:
    place.provider.waits = dict.fromkeys(range(1, 99), headers)

    outcome = place("-x")

    assert outcome.code == 1
    assert len(place.provider.at) == requests


def test_as_many_cells_of_a_target_are_under_way_as_are_to_be(place: Place) -> None:
    together, arrived, most, under_way, lock = Barrier(2, timeout=20), 0, 0, 0, Lock()

    def around() -> None:
        nonlocal arrived, most, under_way
        with lock:
            arrived += 1
            is_early = arrived <= 2
            under_way += 1
            most = max(most, under_way)
        if is_early:
            together.wait()
        with lock:
            under_way -= 1

    place.provider.around = around

    assert place("--concurrency=openai-chat=2").code == 0
    assert most == 2


def test_nothing_is_sent_that_could_pass_the_budget(place: Place) -> None:
    outcome = place("--budget=0.016", "--report=json:run.json")

    run = RunResult.from_json(Path("run.json").read_text())
    assert outcome.code == 2
    assert place.provider.asked == ["a 1", "a 2"]
    assert [cell.verdict for cell in run.cells] == ["pass", "missing", "missing"]
    assert run.cells[2].reason == (
        "not sent: $0.0076 of the budget of $0.016 is spent, what is under way may cost $0.0000, and this request "
        "$0.0104"
    )
    assert outcome.err == "Budget: $0.0076 of $0.016 spent, by list prices.\n"


def test_a_run_that_ran_out_of_money_is_gone_on_with(place: Place) -> None:
    assert place("--report=json:whole.json").code == 0
    asked = len(place.provider.asked)
    assert place("--budget=0.016", "--report=json:run.json").code == 2
    spent = place.provider.asked[asked:]

    again = place("--resume=run.json", "--report=json:run.json")

    kept = sorted({each.partition(" ")[0] for each in spent if each.endswith(" 2")})
    assert again.code == 0
    assert again.err == f"--resume run.json: {len(kept)} cell{'s' * (len(kept) != 1)} kept, {3 - len(kept)} to run.\n"
    assert not {each.partition(" ")[0] for each in place.provider.asked[asked + len(spent) :]} & set(kept)
    assert document("run.json") == document("whole.json")


def test_a_run_that_was_interrupted_is_gone_on_with(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Progress, cell: CellResult) -> None:
        if cell.scenario == "b":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__call__", interrupt)
        assert place("--report=json:run.json").code == 130
    assert RunResult.from_json(Path("run.json").read_text()).stopped == "interrupted"

    assert place("--resume=run.json", "--report=json:again.json").code == 0

    assert place.provider.asked == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]
    again = RunResult.from_json(Path("again.json").read_text())
    assert [cell.scenario for cell in again.cells] == ["a", "b", "c"]
    assert again.finished
    assert {row.values["openai-chat"] for row in again.differences} > {"not observed"}


def test_what_was_paid_for_is_on_the_disk_before_the_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    begun: set[str] = set()

    def look(self: Progress, cell: CellResult) -> None:
        seen.append(len(RunResult.from_json(Path("run.json").read_text()).cells))
        begun.add(Path("run.xml").read_text())

    monkeypatch.setattr("harness.cli.progress._WRITE_INTERVAL_SECONDS", -1.0)
    monkeypatch.setattr(Progress, "__call__", look)

    assert place("--report=json:run.json", "--report=junit:run.xml").code == 0
    assert seen == [1, 2, 3]
    assert len(begun) == 1  # with which no run can be gone on
    assert begun != {Path("run.xml").read_text()}


def test_a_changed_scenario_is_run_again(place: Place, folder: Path) -> None:
    assert place("--report=json:run.json").code == 0
    file = folder / "scenarios" / "b.yaml"
    file.write_text(file.read_text().replace("A tool is called", "A tool is called once"))

    assert place("--resume=run.json").err == "--resume run.json: 2 cells kept, 1 to run.\n"
    assert place("--resume=run.json", "--model=openai-chat=gpt-6-astra").err.startswith(
        "--resume run.json: 0 cells kept"
    )


def test_other_versions_are_not_gone_on_with(place: Place) -> None:
    assert place("--report=json:run.json").code == 0
    run = json.loads(Path("run.json").read_text())
    run["versions"]["openai"] = "0.1"
    Path("run.json").write_text(json.dumps(run))

    assert place("--resume=run.json").err.startswith(
        "harness: --resume run.json: that run was made with openai 0.1, and here is "
    )


def test_a_project_says_how_fast(place: Place, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.harness]\nrates = {openai-chat = "20/s", anthropic = "1/h"}\nconcurrency = {openai-chat = "3"}\n'
    )
    assert place().code == 0
    assert place.provider.at[-1] - place.provider.at[0] >= 5 * 0.05 / 2


def test_each_target_has_its_own_or_that_of_all() -> None:
    tempo = RateOptions.parse(["60/min", "a=7200/h"], ["b=3"], ["a", "b"])
    assert tempo.interval_seconds == {None: 1.0, "a": 0.5}
    assert tempo.concurrent_cells == {"b": 3}
    assert live.RateLimits(tempo).limiter("b") is not live.RateLimits(tempo).limiter("a")
