"""Stands in for a provider of Chat Completions, in a process of its own: `python -m tests.hardness.provider LOG`.

It prints its port. What it answers follows from the request alone, but for ids that it gives out once: a call of `step`
until there were as many as the user asked for, then a text. Every request is a line in LOG before it is answered.
"""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SLOWEST = 0.03
"""Seconds that an answer takes at most."""


_HTML = b"<html>busy</html>"
_HEAD = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

FAILURES: dict[str, bytes] = {
    "reset": b"",
    "closed": b"",
    "cut": _HEAD % (b"200 OK", 400) + b'{"id": "chatcmpl-half", "choices": [{"ind',
    "no JSON": _HEAD % (b"200 OK", len(_HTML)) + _HTML,
    "overloaded": _HEAD % (b"529 Overloaded", 2) + b"{}",
    "no body": _HEAD % (b"200 OK", 0),
}
"""How an answer can fail, and what comes of it."""


@dataclass(frozen=True)
class Asked:
    """A request: which cell it is of, how many answers it has in its history, and the id that its answer got."""

    cell: str
    step: int
    answer: str


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    log: Any
    fault: Path
    numbers = count()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        said = re.fullmatch(r"Take (\d) steps in (\S+)", next(m["content"] for m in messages if m["role"] == "user"))
        assert said is not None
        step = sum(message["role"] == "assistant" for message in messages)
        number = f"{next(self.numbers)}x{random.getrandbits(64):016x}"
        self.log.write(json.dumps([said[2], step, number]) + "\n")
        self.log.flush()
        if step == 1 and self.fault.exists():
            self._fail(self.fault.read_text())
            return
        time.sleep(random.random() * SLOWEST)  # noqa: S311 - no secret
        call = {"id": f"call_{number}", "type": "function"}
        call["function"] = {"name": "step", "arguments": json.dumps({"n": step + 1})}
        calls = {"role": "assistant", "content": None, "tool_calls": [call]}
        done = {"role": "assistant", "content": f"Done {number}."}
        message, reason = (calls, "tool_calls") if step < int(said[1]) else (done, "stop")
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        answer = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"]}
        data = json.dumps(answer | {"choices": choices, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _fail(self, failure: str) -> None:
        self.fault.unlink()
        self.close_connection = True
        if failure == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        if failure != "closed":
            self.wfile.write(FAILURES[failure])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # as clients end their connections that are killed
            super().handle_error(request, client_address)


class Provider:
    """The running provider, as tests see it."""

    def __init__(self, url: str, log: Path, first: int = 0) -> None:
        self.url = url
        self._log = log
        self._first = first

    def from_now(self) -> Provider:
        """The same, of which nothing has been asked yet."""
        return Provider(self.url, self._log, self._first + len(self.asked()))

    def fail(self, failure: str) -> None:
        """The next second answer of a conversation fails like this."""
        self._log.with_name("fault.txt").write_text(failure)

    def size(self) -> int:
        """How many requests there were, ever."""
        return self._log.read_bytes().count(b"\n")

    def asked(self) -> list[Asked]:
        """All requests so far, in their order."""
        return [Asked(*json.loads(line)) for line in self._log.read_text().splitlines()[self._first :]]


@contextmanager
def providing(folder: Path) -> Iterator[Provider]:
    """A running provider with its log in `folder`."""
    log = folder / "asked.jsonl"
    log.touch()
    command = [sys.executable, "-m", "tests.hardness.provider", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield Provider(f"http://127.0.0.1:{process.stdout.readline().strip()}/v1", log)
        finally:
            process.kill()


def write_scenarios(folder: Path, cells: int, steps: int) -> None:
    """Scenarios of one cell each, which take `steps` answers with a call and one with a text."""
    folder.mkdir()
    for number in range(cells):
        name = f"steps-{number:02}"
        script: list[dict[str, Any]] = [{"calls": [{"step": {"n": step + 1}}]} for step in range(steps)]
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        scenario = {
            "version": 1,
            "id": name,
            "title": "Steps are taken",
            "covers": ["tools"],
            "requires": ["tools"],
            "variants": ["whole"],
            "tools": [{"name": "step", "parameters": schema, "results": [{"return": "taken"}]}],
            "turns": [{"user": f"Take {steps} steps in {name}", "model": [*script, {"text": "Done."}]}],
        }
        (folder / f"{name}.yaml").write_text(json.dumps(scenario))


def serve(log: Path) -> None:
    """Serve until this process is killed."""
    Handler.fault = log.with_name("fault.txt")
    with log.open("a") as Handler.log, Server(("127.0.0.1", 0), Handler) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
