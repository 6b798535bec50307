"""The day of a recorded request: by its facts it is judged."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from harness.audit.cassette_audit import made_on
from harness.cassettes.cassette_files import read
from tests.audit.audit.cassettes import ANSWER, exchange, response, write

MAY = 1780014425
"""2026-05-29, 00:27:05 UTC."""

HEADER = {"date": ["Sat, 30 May 2026 10:00:00 GMT"]}


def _events(*data: object) -> str:
    return "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in data)


@pytest.mark.parametrize(
    ("body", "headers", "day"),
    [
        (json.dumps({**ANSWER, "created": MAY}), {}, "2026-05-29"),
        (_events({"object": "chat.completion.chunk", "created": MAY}, "[DONE]"), {}, "2026-05-29"),
        (_events({"type": "ping"}, {"created": MAY}), HEADER, "2026-05-29"),
        (json.dumps({"created_at": MAY}), HEADER, "2026-05-29"),
        (_events({"type": "response.created", "response": {"created_at": MAY}}), {}, "2026-05-29"),
        (_events({"type": "response.created", "response": {"created_at": MAY}}), HEADER, "2026-05-30"),
        (json.dumps([{"createTime": "2026-05-29T10:00:00Z"}]), {}, "2026-05-29"),
        (_events({"type": "message_start"}), HEADER, "2026-05-30"),
        (json.dumps({**ANSWER, "created": 0}), HEADER, "2026-05-30"),  # a placeholder
        (json.dumps({**ANSWER, "created": True}), {}, None),
        (json.dumps({**ANSWER, "created": 10**15}), {}, None),
        ("<html>", {"date": ["yesterday"]}, None),
    ],
)
def test_the_day_is_that_of_the_recording(tmp_path: Path, body: str, headers: object, day: str | None) -> None:
    answered = response(body) | {"headers": headers}
    cassette = read(write(tmp_path / "a.yaml", exchange(answered=answered)))
    found = made_on(cassette, cassette.interactions[0])
    assert found == (dt.date.fromisoformat(day) if day else None)
