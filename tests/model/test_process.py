from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.http import Command, Completed, HttpResponse, from_request, from_response, to_request, to_response

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
COMMAND = Command(("/opt/bin/claude", "--print", ""), "18 °C\n", {"BOUND": "64"}, ("HOME", "PATH"))


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_a_command_survives_the_way_there_and_back(argv: list[str], stdin: str, environment: dict[str, str]) -> None:
    command = Command(tuple(argv), stdin, environment, ("HOME",))

    assert from_request(to_request(command)) == command


@given(st.integers(-64, 255), TEXTS, TEXTS)
def test_so_does_what_it_leaves_behind(status: int, stdout: str, stderr: str) -> None:
    completed = Completed(status, stdout, stderr)

    assert from_response(to_response(completed)) == completed


def test_a_request_is_named_after_the_executable_and_can_be_read() -> None:
    request = to_request(COMMAND)

    assert (request.method, request.url) == ("RUN", "process://local/claude")
    assert request.headers == {"content-type": "application/json"}
    assert "18 °C" in request.body.decode()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"argv": []}, "a command has argv, stdin, environment and inherited"),
        ({"argv": ["claude", 1]}, "a command has argv, stdin, environment and inherited"),
        ({"stdin": None}, "a command has argv, stdin, environment and inherited"),
        ({"inherited": "HOME"}, "a command has argv, stdin, environment and inherited"),
        ({"environment": {"A": 1}}, "the environment of a command maps names to texts"),
        ({"environment": []}, "the environment of a command maps names to texts"),
    ],
)
def test_a_body_that_is_no_command_is_refused(change: dict[str, object], reason: str) -> None:
    request = to_request(COMMAND)
    body = json.dumps(json.loads(request.body) | change).encode()

    with pytest.raises(ValueError, match=reason):
        from_request(replace(request, body=body))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "not an object"),
        (b"", "Expecting value"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"status": "0", "stdout": "", "stderr": ""}', "the result of a command has status, stdout and stderr"),
        (b'{"status": 0, "stdout": ""}', "the result of a command has status, stdout and stderr"),
    ],
)
def test_a_body_that_no_command_leaves_behind_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_response(HttpResponse(200, {}, body))
