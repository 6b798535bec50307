"""A secret that is planted in one of ten places is in nothing that leaves the harness: 56 kinds of canary × 10 places.

The places: what an adapter sends in headers and in the query of its URL (1); the base URL, in its user, password, path
and query, repeated by the server's error (2); the text of a request (3), of an answer (4), the arguments of a tool (5),
cut over the deltas where it is streamed; the provider's error (6); headers of a response (7); what an adapter prints
and raises (8); malformed `data:` lines, and a body that is cut off (9); other lines of a stream (10).

Each is recorded live with every report, whole and streamed, and some are shown; the APIs take turns with the kinds.
Looked through are cassettes, journals, temporary files, the reports archive, html, json, junit, markdown and terminal,
standard output and standard error, and `harness show`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from harness.apis import registry
from harness.cassettes import library
from harness.cassettes.loopback_server import LoopbackServer, serve
from harness.cassettes.redact import Redactor
from harness.cli.main import main
from tests.hardness.canaries import CANARIES, KEYS, Canary, left
from tests.hardness.echo import TARGETS, Echo, scenarios

VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY")
OTHER = "sk-ant-another-key-0123456789"
"""What is sent where the canary is nobody's key."""

IN_ANSWERS = {
    "request text": "request-text",
    "response text": "response-text",
    "tool argument": "tool-argument",
    "error message": "error-message",
    "response header": "response-header",
    "malformed line": "malformed-line",
    "frame line": "frame-line",
}
PLACES = ("sent along", "base URL", *IN_ANSWERS, "adapter")
SHOWN = list(IN_ANSWERS.values())
FAITHFUL = {"request-text", "response-text", "tool-argument", "response-header", "frame-line"}
"""Scenarios that an adapter plays as it should, whatever is said in them."""

ATTRIBUTES = dict(zip(TARGETS, ("ANTHROPIC", "CHAT", "RESPONSES", "GEMINI"), strict=True))


@dataclass
class Outputs:
    """What came out of some commands, by what it is."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    journals: list[bytes] = field(default_factory=list[bytes])
    found: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def run(self, *words: str) -> None:
        main(words)
        out, err = self.capsys.readouterr()
        name = " ".join(words[:2])
        self.found[f"stdout of {name}"] = self.found.get(f"stdout of {name}", b"") + out.encode()
        self.found[f"stderr of {name}"] = self.found.get(f"stderr of {name}", b"") + err.encode()

    def all(self) -> dict[str, bytes]:
        """Standard streams, journals, and every file but the scenarios, which the user wrote."""
        files = {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        files = {name: data for name, data in files.items() if "/scenarios/" not in name}
        return {**self.found, **files, **{f"journal {at}": data for at, data in enumerate(self.journals)}}


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with serve() as server:
        yield server


@pytest.fixture
def outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Outputs]:
    """A place to work in, with its own temporary folder, and with journals kept that would be gone."""
    made: list[Outputs] = []
    remove = library.Journal.remove

    def kept(self: library.Journal) -> None:
        made[-1].journals.append(self.path.read_bytes() if self.path.exists() else b"")
        remove(self)

    monkeypatch.setattr(library.Journal, "remove", kept)

    def make(name: str) -> Outputs:
        folder = tmp_path / name
        (folder / "scenarios").mkdir(parents=True)
        (folder / "temporary").mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
        made.append(Outputs(folder, capsys))
        return made[-1]

    return make


def reports(name: str) -> list[str]:
    kinds = ("archive", "html", "json", "junit", "markdown", "terminal")
    return ["--report", "terminal", *(word for kind in kinds for word in ("--report", f"{kind}:{name}.{kind}"))]


def plant(
    canary: Canary,
    out: Outputs,
    server: LoopbackServer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    target: str,
    shown: Collection[str],
) -> dict[str, int]:
    """Plant a canary in every place; how many cells were run of each. The scenarios `shown` are shown as well."""
    for name in VARIABLES:
        monkeypatch.setenv(name, canary.secret if canary.known and canary.variable is None else OTHER)
    if canary.variable is not None:
        monkeypatch.setenv(canary.variable, canary.secret)
    monkeypatch.setenv("CANARY", canary.line)
    written = scenarios(out.folder / "scenarios", canary)
    counts = dict.fromkeys(PLACES, 0)
    wire = registry.api(registry.target_named(target).api)
    origin = server.mount(Echo(target, written, canary))
    base = origin + wire.base_path
    folder = ("--cassettes", "cassettes", "--verbose")
    try:
        there = ("--target", target, "--base-url", f"{target}={base}")
        files = [f"scenarios/{name}.yaml" for name in IN_ANSWERS.values()]
        out.run("record", *files, *there, *folder, *reports("answers"))
        run = json.loads((out.folder / "answers.json").read_text())
        failed = [cell for cell in run["cells"] if cell["scenario"] in FAITHFUL and cell["verdict"] == "fail"]
        assert failed == [], "an adapter is not to blame for what an answer says"
        for place, scenario in IN_ANSWERS.items():
            counts[place] += sum(cell["scenario"] == scenario for cell in run["cells"])
        for scenario in shown:
            out.run("show", f"scenarios/{scenario}.yaml", *there, "--variant", "stream", "--mode", "live")
        # What is said of a replay is not looked through: it repeats what the scenario itself says.
        again = ("run", "scenarios/response-text.yaml", "scenarios/tool-argument.yaml", "--target", target, *folder)
        assert main(again) == 0, out.capsys.readouterr().out  # else a cassette contradicts itself
        out.capsys.readouterr()

        secret = quote(canary.secret.split()[0], safe="")
        odd = f"http://{secret}:{secret}@{base.partition('//')[2]}?token={secret}&x={secret}"
        there = ("--target", target, "--base-url", f"{target}={odd}")
        out.run("record", "scenarios/error-message.yaml", *there, *folder, *reports("address"))
        counts["base URL"] += len(json.loads((out.folder / "address.json").read_text())["cells"])

        for place, kind in (("sent along", "SENDING"), ("adapter", "RAISING")):
            spec = f"tests.hardness.leaky:{kind}_{ATTRIBUTES[target]}"
            there = ("--adapter", spec, "--base-url", f"leaky-{target}={base}", "--target", target)
            out.run("record", "scenarios/plain.yaml", *there, *folder, "--force", *reports(kind))
            counts[place] += len(json.loads((out.folder / f"{kind}.json").read_text())["cells"])
    finally:
        server.unmount(origin)
    return counts


def leaks(canary: Canary, out: Outputs) -> list[str]:
    found = {name: left(canary, data) for name, data in out.all().items()}
    return [f"{canary.kind}: {name}: {what}" for name, what in found.items() if what is not None]


@pytest.mark.parametrize("at", [20])
def test_a_canary_is_in_nothing_that_comes_out(
    at: int, server: LoopbackServer, outputs: Callable[[str], Outputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    canary, out = CANARIES[at], outputs("one")

    counts = plant(canary, out, server, monkeypatch, target=TARGETS[at % 4], shown=["tool-argument"])

    assert set(counts.values()) == {2}
    assert leaks(canary, out) == []
    assert any(out.journals)


@pytest.mark.long
def test_560_canaries_over_all_apis_whole_and_streamed(
    server: LoopbackServer,
    outputs: Callable[[str], Outputs],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = dict.fromkeys(PLACES, 0)
    found: list[str] = []
    looked_at = 0
    for at, canary in enumerate(CANARIES):
        out = outputs(str(at))
        cells = plant(canary, out, server, monkeypatch, target=TARGETS[at % 4], shown=[SHOWN[at % len(SHOWN)]])
        counts = {place: count + cells[place] for place, count in counts.items()}
        found += leaks(canary, out)
        looked_at += len(out.all())
    count = len(CANARIES) * len(PLACES)
    lines = [f"{len(CANARIES)} kinds × {len(PLACES)} places = {count} canaries, whole and streamed"]
    lines += [f"  {place:16} {cells} cells" for place, cells in counts.items()]
    lines += [f"  {looked_at} outputs looked through: {len(found)} leaks", *found]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert count == 560
    assert set(counts.values()) == {len(CANARIES) * 2}
    assert found == []


def test_the_detector_sees_every_canary() -> None:
    for canary in CANARIES:
        for said in (canary.text, json.dumps(canary.text), json.dumps(json.dumps(canary.text))):
            assert left(canary, f"before {said} after".encode()), canary.kind
        assert left(canary, b"before REDACTED after, and AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") is None
    assert {canary.secret for canary in CANARIES if canary.known} == set(KEYS)


@pytest.mark.parametrize("size", [4, 30])
def test_the_deltas_of_a_redacted_answer_say_what_the_whole_says(size: int) -> None:
    for canary in CANARIES:
        redactor = Redactor([canary.secret if canary.known else OTHER], shaped=True)
        for said in (f"it is {canary.text}, see", json.dumps({"q": f"it is {canary.text}, see"})):
            pieces = [said[at : at + size] for at in range(0, len(said), size)]
            events = ({"index": 0, "delta": {"text": piece}} for piece in pieces)
            stream = redactor.body("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())
            whole = json.loads(redactor.body(json.dumps({"text": said}).encode()))["text"]
            reported = [json.loads(line[5:]) for line in stream.splitlines() if line]
            assert "".join(event["delta"]["text"] for event in reported) == whole, canary.kind
            assert left(canary, stream) is None
            assert left(canary, whole.encode()) is None
