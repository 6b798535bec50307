"""HTTP requests and responses with decoded bodies, and commands with their results. All of them are immutable.

`to_request` and `to_response` convert a run of a command to an HTTP exchange. Cassettes, redaction, replay, rules and
reports therefore need no special case for commands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

Ending: TypeAlias = Literal["complete", "cut", "reset"]
"""End of a response: complete, the connection closed too early, or the connection was reset (TCP RST)."""

SERVICE_HEADER = "x-harness-service"
"""Header of a redirected request, with the base URL of the service to which the program sent it."""


def _no_headers() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request. Header names are lower case; the content encoding of `body` is removed."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The pieces and the timing in which the bytes of a response are delivered.

    `cuts` are ascending offsets into the body where a piece ends; without cuts the body is delivered at once. `pause`
    is the delay before each further piece, in seconds.
    """

    cuts: tuple[int, ...] = ()
    pause: float = 0.0
    ending: Ending = "complete"

    def pieces(self, body: bytes) -> list[bytes]:
        """Split a body into its pieces, without empty ones."""
        bounds = [0, *(cut for cut in self.cuts if 0 < cut < len(body)), len(body)]
        return [body[start:end] for start, end in pairwise(bounds) if start < end]


AT_ONCE = Delivery()


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An HTTP response. Header names are lower case; `body` is the received part, with its content encoding removed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=_no_headers)
    body: bytes = b""
    delivery: Delivery = AT_ONCE


EXHAUSTED = "x-harness-exhausted"
"""Header of a response that harness generated because the script or the cassette has no response left."""


def endpoint(url: str) -> str:
    """Return the last two segments of a URL's path. They identify the endpoint under any base URL."""
    return "/".join(urlsplit(url).path.rsplit("/", 2)[-2:])


COMMAND_METHOD = "RUN"
"""HTTP method of a command."""

COMMAND_ORIGIN = "process://local"
"""Origin of the URL of a command; the path is the name of the executable."""

_JSON = {"content-type": "application/json"}


def _nothing_set() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run, without a shell. `argv[0]` is looked up on the path.

    `environment` holds variables to set; none of them may be secret. `inherited` names variables to pass on from the
    caller's environment; their values are never recorded. The command gets no other variables.
    """

    argv: tuple[str, ...]
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=_nothing_set)
    inherited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of a command. `status` is its exit status, or the negated number of the signal that killed it."""

    status: int
    stdout: str = ""
    stderr: str = ""


def to_request(command: Command) -> HttpRequest:
    """Return the command as a request."""
    body = {
        "argv": [*command.argv],
        "stdin": command.stdin,
        "environment": dict(command.environment),
        "inherited": [*command.inherited],
    }
    return HttpRequest(COMMAND_METHOD, f"{COMMAND_ORIGIN}/{PurePath(command.argv[0]).name}", dict(_JSON), _encode(body))


def to_response(completed: Completed) -> HttpResponse:
    """Return the result as a response, with HTTP 200 for every exit status."""
    body = {"status": completed.status, "stdout": completed.stdout, "stderr": completed.stderr}
    return HttpResponse(200, dict(_JSON), _encode(body))


def from_request(request: HttpRequest) -> Command:
    """Return the command of a request. Raises `ValueError` if the request does not describe a command."""
    body = _object(request.body)
    argv, inherited, environment = (body.get(key) for key in ("argv", "inherited", "environment"))
    stdin = body.get("stdin")
    if not (_are_texts(argv) and argv and _are_texts(inherited) and isinstance(stdin, str)):
        raise ValueError("a command has argv, stdin, environment and inherited")
    if not (isinstance(environment, dict) and _are_texts([*cast("dict[str, Any]", environment).values()])):
        raise ValueError("the environment of a command maps names to texts")
    return Command(
        tuple(cast("list[str]", argv)),
        stdin,
        cast("dict[str, str]", environment),
        tuple(cast("list[str]", inherited)),
    )


def from_response(response: HttpResponse) -> Completed:
    """Return the result of a response. Raises `ValueError` if the response does not describe a result."""
    body = _object(response.body)
    status, stdout, stderr = (body.get(key) for key in ("status", "stdout", "stderr"))
    if not (isinstance(status, int) and isinstance(stdout, str) and isinstance(stderr, str)):
        raise ValueError("the result of a command has status, stdout and stderr")  # noqa: TRY004 - documented as ValueError
    return Completed(status, stdout, stderr)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - documented as ValueError
    return cast("dict[str, Any]", value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


def _encode(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, indent=2)
    return text.encode("utf-8", "backslashreplace")  # writes a lone surrogate as a JSON escape
