"""Keys and passwords, from the environment and the command line: what is refused, what is said, and whose it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.loopback_server import serve
from harness.cassettes.redact.secret_patterns import display_url, secrets
from harness.cli import execution
from harness.kit import factories
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.script_session import ScriptSession
from harness.reports import REPORTS
from harness.scenarios.load import load_file
from tests.cli.conftest import Command

FORMS = {name: REPORTS.load(name).forms or (".out",) for name in sorted(REPORTS.modules())}
EVERY_REPORT = [f"--report={name}:{name}{form}" for name, forms in FORMS.items() for form in forms]
KEY = "sk-proj-" + "Zq3aB9xK2mP7wL4tR8vN1cY6dF0gH5jS3kU" * 2
ECHO = {
    "version": 1,
    "id": "echo",
    "title": "The answer repeats the key",
    "covers": ["tools"],
    "requires": ["tools"],
    "tools": [
        {
            "name": "note",
            "description": "Notes.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "results": [{"when": {}, "return": "noted"}],
        }
    ],
    "turns": [{"user": "What is my key?", "model": [{"calls": [{"note": {"text": KEY}}]}, {"text": f"It is {KEY}."}]}],
}


@dataclass
class Echoing:
    """A server whose answers repeat the key that it was sent."""

    address: str
    requests: list[HttpRequest]


@pytest.fixture
def echoing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Echoing]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (folder / "echo.yaml").write_text(json.dumps(ECHO))
    scenario, model = load_file(folder / "echo.yaml"), registry.targets()[0].model
    sessions: list[ScriptSession] = []
    requests: list[HttpRequest] = []

    def answer(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        if len(json.loads(request.body)["messages"]) == 1:
            sessions.append(
                ScriptSession(scenario, registry.api("anthropic"), model, registry.api("anthropic").profile_for(model))
            )
        return sessions[-1](replace(request, url=request.url.partition("?")[0]))

    with serve() as server:
        yield Echoing(server.mount(answer), requests)


@pytest.mark.parametrize("words", [("run", "--mode", "live"), ("record",), ("show", "--mode", "live")])
def test_a_key_that_no_header_can_hold_is_refused(
    harness: Command, echoing: Echoing, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY + "\n")

    outcome = harness(
        *words, "call-single", "--target", "anthropic", "--variant", "whole", f"--base-url=anthropic={echoing.address}"
    )

    said = "harness: ANTHROPIC_API_KEY: the key ends in a newline, which is not allowed in a header. "
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"{said}Set the variable again without it.\n")
    assert echoing.requests == []


@pytest.mark.parametrize(
    ("key", "flaw"),
    [
        (f"{KEY}\n", "ends in a newline"),
        (f"{KEY}\r\n", "ends in a newline"),
        (f"{KEY} ", "ends in a space"),
        (f"{KEY}\t", "ends in a tab"),
        (f"{KEY}\r", "ends in a carriage return"),
        (f"{KEY}ä", "contains a character that is not ASCII"),
        (f"{KEY}\x01", "contains a control character"),
        (" \n", "contains only white space"),
        (f"\n{KEY}", "begins with a newline"),
        (f"{KEY[:9]}\n{KEY[9:]}", "contains a newline"),
        (f"{KEY[:9]} {KEY[9:]}", "contains a space"),
    ],
)
def test_where_the_flaw_of_a_key_is(key: str, flaw: str) -> None:
    with pytest.raises(UsageError) as refusal:
        factories.chat_client("openai-chat", environ={"OPENAI_API_KEY": key})
    assert str(refusal.value) == (
        f"OPENAI_API_KEY: the key {flaw}, which is not allowed in a header. Set the variable again without it."
    )


def test_an_adapter_that_returns_a_redacted_key_passes(harness: Command, folder: Path, echoing: Echoing) -> None:
    words = ("echo.yaml", "--target", "anthropic")

    outcome = harness("record", *words, "--base-url", f"anthropic={echoing.address}", "--verbose", *EVERY_REPORT)

    run = json.loads((folder / "json.out").read_text())
    assert (outcome.code, run["summary"]["pass"]) == (0, 2)
    assert KEY.encode() in echoing.requests[-1].body  # the adapter sent back what it had got
    written = [path.read_text() for path in folder.rglob("*") if path.is_file() and path != folder / "echo.yaml"]
    assert len(written) == len(EVERY_REPORT) + 2
    assert KEY[:16] not in "".join([*written, outcome.out, outcome.err])
    (streamed,) = folder.glob("cassettes/echo/anthropic.stream.yaml")
    assert "REDACTED" in streamed.read_text()


def test_what_is_secret_of_a_base_url_is_shown_nowhere(harness: Command, folder: Path, echoing: Echoing) -> None:
    address = echoing.address.removeprefix("http://")
    url = f"http://me:pass-w0rd-77@{address}/tok_9f8e7d6c5b4a?token=t0ken-in-the-query"
    words = ("call-single", "--target", "anthropic", "--base-url", f"anthropic={url}")

    outcomes = [
        harness("run", *words, "--mode", "live", "--verbose", *EVERY_REPORT),
        harness("record", *words),
        harness("show", *words, "--mode", "live", "--variant", "whole"),
    ]

    files = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    said = "".join([*files, *(outcome.out + outcome.err for outcome in outcomes)])
    host = address.partition("/")[0]
    assert f"--base-url 'anthropic=http://REDACTED@{address}/REDACTED?token=REDACTED'" in " ".join(said.split())
    assert host in said
    for secret in ("me:pass", "pass-w0rd-77", "tok_9f8e7d6c5b4a", "t0ken-in-the-query"):
        assert secret not in said


def test_what_is_no_base_url_is_not_repeated(harness: Command) -> None:
    for given in ("http://me:pass-w0rd@host/", "http://me:pass-w0rd@host/?a=b", "anthropic=me:pass-w0rd@host"):
        outcome = harness("run", "--mode", "live", "--base-url", given)
        assert outcome.code == 2
        assert "pass-w0rd" not in outcome.err
        assert "as in" in outcome.err


@pytest.mark.parametrize("error", [UsageError(f"not with {KEY}"), ValueError(f"not with {KEY}")])
def test_an_error_that_ends_a_run_names_no_key(
    harness: Command, folder: Path, echoing: Echoing, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(execution, "select", fail)
    try:
        said = harness("run", "--mode", "live", "--report", "json:run.json").err
    except RuntimeError as raised:
        said = str(raised)
    assert "not with REDACTED" in said
    assert "not with REDACTED" in (folder / "run.json").read_text()
    assert KEY not in said + (folder / "run.json").read_text()


def test_every_report_says_that_a_recording_is_not_the_providers(
    harness: Command, folder: Path, echoing: Echoing
) -> None:
    origin = echoing.address.rpartition("/")[0]
    words = ("echo.yaml", "--target", "anthropic")
    harness("record", *words, "--base-url", f"anthropic={echoing.address}")
    reports = [f"--report={kind}:{kind}.out" for kind in ("html", "json", "junit", "markdown", "terminal")]

    harness("run", *words, *reports)

    sentence = f"Recorded from {origin}, not from the provider: 2 cells of anthropic"
    for kind in ("html", "junit", "markdown", "terminal"):
        assert sentence in " ".join((folder / f"{kind}.out").read_text().replace("\\", "").split())
    finished = json.loads((folder / "json.out").read_text())["cells"]
    assert [(cell["provenance"]["origin"], cell["provenance"]["recorded_from"]) for cell in finished] == [
        ("server", origin),
        ("server", origin),
    ]
    live = harness("run", *words, "--mode", "live", "--base-url", f"anthropic={echoing.address}")
    assert f"Answered by {origin}, not by the provider: 2 cells of anthropic" in " ".join(live.out.split())


def test_a_recording_of_another_server_is_detected(harness: Command, folder: Path, echoing: Echoing) -> None:
    harness("record", "echo.yaml", "--target", "anthropic", "--base-url", f"anthropic={echoing.address}")
    library = CassetteLibrary(folder / "cassettes")
    for variant in ("whole", "stream"):
        cassette = library.load("anthropic", "echo", variant)
        assert cassette.metadata is not None
        older = replace(cassette.metadata, origin="provider", recorded_from=None)
        library.save(replace(cassette, metadata=older), force=True)

    outcome = harness("run", "echo.yaml", "--target", "anthropic")

    origin = echoing.address.rpartition("/")[0]
    assert f"Recorded from {origin}, not from the provider: 2 cells" in " ".join(outcome.out.split())


@pytest.mark.parametrize(
    ("api", "url", "is_its_own"),
    [
        ("anthropic", "https://api.anthropic.com", True),
        ("openai-chat", "https://eu.api.openai.com/v1", True),
        ("gemini", "https://generativelanguage.googleapis.com", True),
        ("claude-cli", "process://local", True),
        ("openai-chat", "http://api.openai.com/v1", False),
        ("openai-chat", "https://api.openai.com.example/v1", False),
        ("openai-chat", "https://api.openai.com@127.0.0.1:4010/v1", False),
        ("openai-chat", "https://notopenai.com/v1", False),
        ("openai-responses", "https://mine.openai.azure.com/v1", False),
        ("openai-responses", "http://127.0.0.1:4010/v1", False),
        ("openai-responses", "http://[", False),
    ],
)
def test_whose_address_it_is(api: str, url: str, is_its_own: bool) -> None:
    assert registry.api(api).is_provider(url) is is_its_own
    assert all(wire.is_provider(wire.provider_url) for wire in registry.apis())


@pytest.mark.parametrize(
    ("url", "said", "searched"),
    [
        ("http://127.0.0.1:4000/v1", "http://127.0.0.1:4000/v1", []),
        (
            "https://us-central1-aiplatform.example/v1beta1/projects/acme/locations/us-central1?api-version=2024-10-21",
            "https://us-central1-aiplatform.example/v1beta1/projects/acme/locations/us-central1?api-version=2024-10-21",
            [],
        ),
        (
            "https://me:p%40ssword@host:8/v1/s3cr3t-t0ken/x?key=short&tenant=9f8e7d6c5b4a#frag",
            "https://REDACTED@host:8/v1/REDACTED/x?key=REDACTED&tenant=REDACTED",
            ["me", "p@ssword", "me:p%40ssword@", "short", "key=short", "9f8e7d6c5b4a", "tenant=9f8e7d6c5b4a",
             "s3cr3t-t0ken", "frag"],
        ),
    ],
)  # fmt: skip
def test_what_of_a_url_is_secret(url: str, said: str, searched: list[str]) -> None:
    assert display_url(url) == said
    assert list(secrets(url)) == searched
