"""The contenders: ways to lead the same conversations through the same SDK without a provider.

Each is given the recordings and whatever may be shared before the clock starts: one SDK client, one server.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import vcr

from harness.apis import registry
from harness.apis.registry import Target
from harness.cassettes.cassette import REFERENCE_URL
from harness.cassettes.library import CassetteLibrary
from harness.model.protocols import Endpoint
from harness.rules.replays import RULES as COMPARISON
from harness.rules.rule import Rule, all_rules
from harness.runner.backends import ReplayBackend
from harness.runner.cells import cells
from harness.runner.suite_run import Run
from harness.runner.tool_loop import run_scenario
from tests.benchmarks.bare import SDKS, Converse
from tests.benchmarks.conversations import Conversation
from tests.benchmarks.recordings import Canned, bodies

FLOOR = "bare SDK, in-memory transport"
NO_KEEPALIVE = "our adapter and thread alone"
JUDGED = "harness, all rules"

BODY_MATCHING = ("method", "scheme", "host", "port", "path", "query", "body")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True, slots=True)
class Field:
    """What all contenders of one API play: conversations, recorded in `library` for `target`; `folder` is scratch."""

    target: Target
    conversations: Sequence[Conversation]
    library: CassetteLibrary
    folder: Path

    @property
    def base_url(self) -> str:
        return REFERENCE_URL + registry.api(self.target.api).base_path

    def recorded(self, conversations: Sequence[Conversation]) -> list[bytes]:
        """The bodies of the answers, in order."""
        return [body for each in conversations for body in bodies(self.library, each, self.target)]

    def sdk(self, http_client: httpx2.Client) -> Converse:
        """The bare SDK on one client that all conversations share."""
        return SDKS[self.target.name](self.base_url, self.target.model, http_client)


Round = Callable[[], float]
"""Plays all conversations once; the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to play; `enter` makes it ready. `missing` says why it cannot take part here."""

    name: str
    enter: Callable[[Field], Generator[Round, None, None]]
    missing: str | None = None


def lead(converse: Converse, conversations: Sequence[Conversation]) -> None:
    for conversation in conversations:
        answer = converse(conversation)
        if answer != conversation.answer:
            raise SystemExit(f"conversation {conversation.number} ended in {answer!r}")


def timed(work: Callable[[], object]) -> Round:
    """`work` in seconds of the processor, which no other process on the machine affects."""

    def measure() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return measure


def floor(field: Field) -> Generator[Round, None, None]:
    canned = Canned()
    with httpx2.Client(transport=canned, trust_env=False) as client:
        converse = field.sdk(client)
        recorded = field.recorded(field.conversations)

        def measure() -> float:
            canned.bodies.extend(recorded)
            return timed(lambda: lead(converse, field.conversations))()

        yield measure


def alone(field: Field) -> Generator[Round, None, None]:
    """Our adapter and the thread that ships, without the harness: what a conversation takes that nobody judges."""
    canned = Canned()
    recorded = field.recorded(field.conversations)
    scenarios = [each.scenario() for each in field.conversations]
    with httpx2.Client(transport=canned, trust_env=False) as client:
        endpoint = Endpoint(field.base_url, "not-a-key", client)

        def work() -> None:
            for scenario in scenarios:
                last = run_scenario(scenario, field.target, endpoint, lambda _chat: None).chats[-1]
                if last.response is None or last.response.tool_calls:
                    raise SystemExit(f"{scenario.id} ended in {last.error_text or 'a call'}")

        def round_() -> float:
            canned.bodies.extend(recorded)
            return timed(work)()

        yield round_


def harness(rules: Sequence[Rule]) -> Callable[[Field], Generator[Round, None, None]]:
    def enter(field: Field) -> Generator[Round, None, None]:
        chosen = cells([each.scenario() for each in field.conversations], [field.target], ["whole"])

        def work() -> None:
            result = Run(ReplayBackend([field.library]), rules)(chosen, jobs=1)
            if result.summary["pass"] != len(chosen):
                raise SystemExit(f"not every cell passed: {result.summary}, {result.cells[0].findings}")

        yield timed(work)

    return enter


def plain_vcr(field: Field) -> Generator[Round, None, None]:
    folder = recorded_by_vcr(field)
    recorder = vcr.VCR(match_on=BODY_MATCHING, record_mode="none")
    with httpx2.Client(transport=httpx2.HTTPTransport(trust_env=False), trust_env=False) as client:
        converse = field.sdk(client)

        def work() -> None:
            for each in field.conversations:
                with recorder.use_cassette(str(folder / cassette_name(each.number))):
                    lead(converse, [each])

        yield timed(work)


def cassette_name(number: int) -> str:
    """The name under which pytest-recording looks for it."""
    return f"test_conversation[{number}].yaml"


def recorded_by_vcr(field: Field) -> Path:
    """A folder of what vcrpy itself records of the bare SDK, a cassette per conversation."""
    folder = field.folder / "vcr"
    recorder = vcr.VCR(match_on=BODY_MATCHING, record_mode="all")
    canned = Canned()
    transport = httpx2.MockTransport(canned.handle_request)  # vcrpy patches it as it does a real one
    with httpx2.Client(transport=transport, trust_env=False) as client:
        converse = field.sdk(client)
        for each in field.conversations:
            canned.bodies.extend(field.recorded([each]))
            with recorder.use_cassette(str(folder / cassette_name(each.number))):
                lead(converse, [each])
    return folder


def pytest_recording(field: Field) -> Generator[Round, None, None]:
    """A test per conversation, in a pytest of its own that loads no other plugin. Its clock runs only while the tests
    do, not while it starts and collects."""
    clock = field.folder / "pytest-seconds"
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
        "BENCHMARK": json.dumps(
            {
                "target": field.target.name,
                "model": field.target.model,
                "base_url": field.base_url,
                "cassettes": str(recorded_by_vcr(field)),
                "conversations": len(field.conversations),
                "clock": str(clock),
            }
        ),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_recording.plugin"]
    command += ["-c", os.devnull, "--rootdir", str(field.folder), str(HERE / "suite.py")]

    def measure() -> float:
        subprocess.run(command, env=environment, cwd=field.folder, check=True, stdout=subprocess.DEVNULL)
        return float(clock.read_text())

    yield measure


def contenders() -> list[Contender]:
    """The floor first."""
    no_plugin = None if importlib.util.find_spec("pytest_recording") else "pytest-recording is not installed"
    return [
        Contender(FLOOR, floor),
        Contender(NO_KEEPALIVE, alone),
        Contender("harness, play and compare", harness(COMPARISON)),
        Contender(JUDGED, harness(all_rules())),
        Contender("plain vcrpy", plain_vcr),
        Contender("pytest-recording", pytest_recording, no_plugin),
    ]


@contextmanager
def ready(contender: Contender, field: Field) -> Generator[Round, None, None]:
    yield from contender.enter(field)
