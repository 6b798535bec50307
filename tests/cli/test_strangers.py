"""Files and answers of strangers: a reference in them opens no file and no connection, wherever a schema may stand."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.apis import registry
from harness.cassettes.cassette import REFERENCE_URL, Cassette
from harness.cassettes.cassette_files import read
from harness.model.http import HttpResponse
from tests.backends import shipped_targets
from tests.cli.conftest import Command

SECRET = "hunter-of-the-snark"
KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema")
SHIPPED = Path(__file__).parents[2] / "cassettes"


class Trap:
    """A server that nobody is to reach, and a file that nobody is to read."""

    def __init__(self, folder: Path) -> None:
        self.visitors = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._hang_up, daemon=True).start()
        file = folder / "secret.json"
        file.write_text(json.dumps({"const": SECRET, "type": SECRET}))
        at = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.references = (f"http://{at}/a", f"http://{at}/a#/$defs/a", f"file://{file}", str(file))

    def _hang_up(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = self._listener.accept()
                self.visitors += 1
                connection.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def trap(folder: Path) -> Iterator[Trap]:
    made = Trap(folder)
    yield made
    made.close()


def baited(value: Any, bait: dict[str, str]) -> Any:
    """A JSON value with a reference in each of its objects but maps of schemas, and in each text that is one."""
    match value:
        case {"properties": {**properties}, **rest}:
            return {**baited(rest, bait), "properties": {key: baited(each, bait) for key, each in properties.items()}}
        case dict():
            return {**{key: baited(each, bait) for key, each in value.items()}, **bait}
        case list():
            return [baited(each, bait) for each in value]
        case str() if value.startswith("{"):
            return json.dumps(baited(json.loads(value), bait))
        case _:
            return value


def baits(trap: Trap) -> list[dict[str, str]]:
    """Each keyword with an address, and `$ref` with each reference."""
    return [{keyword: trap.references[0]} for keyword in KEYWORDS] + [{"$ref": each} for each in trap.references[1:]]


def exchanges(scenario: str, target: str) -> Cassette:
    return read(SHIPPED / scenario / f"{target}.yaml")


FACT: dict[str, Any] = {
    "id": "anthropic-ours-no-schema",
    "verdict": "refused",
    "says": "Ours takes no such schema.",
    "evidence": [{"kind": "probe", "date": "2026-11-01", "address": "https://wiki.example.com/gateway"}],
    "when": [{"schema": "tools", "keyword": "type", "is": "object"}],
    "refuses": [{"tools": [{"name": "a", "input_schema": {"type": "object"}}]}],
}


def test_facts_of_a_stranger_open_nothing(harness: Command, folder: Path, trap: Trap) -> None:
    for bait in baits(trap):
        condition = {**FACT["when"][0], "is": {"type": "object", **bait}}
        written = {
            **FACT,
            "when": [FACT["when"][0], condition],
            "refuses": baited(FACT["refuses"], bait),
        }
        (folder / "ours.yaml").write_text(json.dumps({"api": "anthropic", "facts": [written]}))
        options = ("call-single", "--target=anthropic", "--variant=whole", "--facts=ours.yaml", "--mode=reference")
        for command in (("run", *options), ("list", "facts", "--facts=ours.yaml")):
            outcome = harness(*command)
            assert outcome.code == 0, outcome.err
            assert SECRET not in outcome.out + outcome.err
    assert trap.visitors == 0


@pytest.mark.parametrize(
    ("scenario", "target"),
    [("json-schema", name) for name in ("anthropic", "openai-chat", "openai-responses", "gemini-3")]
    + [("call-single", "anthropic"), ("call-single", "gemini-3")],
)
def test_a_cassette_and_an_answer_of_a_stranger_open_nothing(
    harness: Command, folder: Path, trap: Trap, scenario: str, target: str
) -> None:
    wire = registry.api(shipped_targets()[target].api)
    interactions: list[dict[str, Any]] = []
    for each in exchanges(scenario, target).interactions:
        for bait in baits(trap):
            asked = baited(json.loads(each.request.body), bait)
            for tool in asked.get("tools", ()) if target == "anthropic" else ():
                tool["input_examples"] = [{"city": "Oslo"}]  # which is checked by the schema
            answered = baited(json.loads(each.response.body if each.response else b"{}"), bait)
            url = each.request.url.replace(REFERENCE_URL, wire.provider_url.removesuffix(wire.base_path))
            request = {"method": "POST", "uri": url, "headers": {}, "body": json.dumps(asked)}
            reported = {"status": {"code": 200, "message": "OK"}, "headers": {"content-type": ["application/json"]}}
            interactions.append(
                {"request": request, "response": {**reported, "body": {"string": json.dumps(answered)}}}
            )
            response = HttpResponse(200, {"content-type": "application/json"}, json.dumps(answered).encode())
            assert wire.check_response is not None
            departures = wire.check_response(response, wire.view(each.request))
            assert all(departure.rule.id.startswith("server-") for departure in departures)
            assert wire.read(response).error is None
    (folder / "theirs.yaml").write_text(json.dumps({"version": 1, "interactions": interactions}))

    outcome = harness("audit", "theirs.yaml", "--verbose")

    assert outcome.code in (0, 1), outcome.err
    assert f"{len(interactions)} " in outcome.out
    assert SECRET not in outcome.out + outcome.err
    assert trap.visitors == 0


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_settings_of_a_stranger_open_nothing(harness: Command, folder: Path, trap: Trap, keyword: str) -> None:
    for reference in trap.references:
        schema = {"type": "object", "properties": {"q": {keyword: reference}}}
        tool = {"name": "look", "description": "Looks.", "parameters": schema, "results": [{"return": 1}]}
        scenario = {"version": 1, "id": "one", "title": "One", "covers": ["tools"], "tools": [tool]}
        (folder / "theirs").mkdir(exist_ok=True)
        (folder / "theirs" / "one.yaml").write_text(
            json.dumps({**scenario, "turns": [{"user": "Hi.", "model": [{"text": "Hello."}]}]})
        )
        models = f'models = {{"{keyword}" = "{reference}"}}'
        (folder / "pyproject.toml").write_text(f'[tool.harness]\nscenarios = ["theirs"]\n{models}\n')
        outcome = harness("run", "--target=anthropic")
        assert outcome.code == 2
        assert f"{keyword}: the reference {reference!r} has no target" in outcome.out + outcome.err
        assert SECRET not in outcome.out + outcome.err
    assert trap.visitors == 0
