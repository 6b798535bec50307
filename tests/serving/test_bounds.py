"""What one server keeps: a client that begins sessions without end, or sends without end, does not fill the memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis.fact_files import FactSelection
from harness.model.http import HttpRequest
from harness.runner import serve_router
from harness.runner.serve_router import ServeRouter
from harness.runner.served_session import SessionOptions
from tests.backends import shipped_scenarios
from tests.serving.served import KEYS, first_body

SCENARIO = shipped_scenarios()["call-single"]
CALL = {"name": SCENARIO.tools[0].name, "arguments": {"city": "Lisbon"}}


def opened(said: list[str]) -> ServeRouter:
    made = ServeRouter([SCENARIO], {}, SessionOptions(fact_selection=FactSelection()), said.append)
    made.origin = "http://127.0.0.1:1"
    return made


def asked(server: ServeRouter, session: str, **more: Any) -> int:
    body = first_body("anthropic", {"system": None, "tools": [], "turns": [{"user": "Hi.", "settings": {}}]}, **more)
    url = f"{server.origin}/call-single/{session}/v1/messages"
    return server(HttpRequest("POST", url, dict(KEYS["anthropic"]), json.dumps(body).encode())).status


def called(server: ServeRouter, session: str) -> int:
    url = f"{server.origin}/_harness/call-single/{session}/call"
    return server(HttpRequest("POST", url, {}, json.dumps(CALL).encode())).status


def test_sessions_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_router, "MAX_SESSIONS", 2)
    said: list[str] = []
    server = opened(said)

    assert [asked(server, f"s{number}") for number in range(2)] == [200, 200]
    assert [asked(server, f"s{number}") for number in (2, 3)] == [507, 507]
    assert asked(server, "s1") == 200  # one that has begun goes on
    assert len(server.conversations()) == 2
    why = "2 sessions have begun, and no more are kept. Start 'harness serve' again."
    assert said[-1] == f"POST /call-single/s3/v1/messages: {why}"
    assert [called(server, f"t{number}") for number in range(3)] == [200, 200, 507]


def test_bytes_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_router, "MAX_KEPT_BYTES", 1 << 20)
    server = opened([])

    statuses = [asked(server, "one", metadata={"user_id": "x" * (200 << 10)}) for _ in range(8)]

    assert statuses[0] == 200
    assert statuses[-1] == 507
    assert statuses == sorted(statuses)
