"""Requests of an API in their plainest form, written by the witness: what is sent to a server that is to be judged.

No adapter makes them, so that what a server gets is the API's own format and nothing of anybody's SDK. A conversation
goes on with the answer as it came, byte for byte: what a server has issued, it has to take back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.apis.view import CallView
from harness.contract.model import JSON, ChatRequest

Body: TypeAlias = dict[str, JSON]

Answered: TypeAlias = tuple[CallView, Mapping[str, JSON]]
"""A call of an answer, and what its tool has returned."""


@dataclass(frozen=True, slots=True)
class Questions:
    """How to ask an API.

    `path` and `stream_path` stand behind the SDK's base URL; `{}` in them is the model, which else the body names.
    `write(request, bound)`: the body of a request that is not streamed; the field `bound` keeps the answer short.
    `bounds`: those fields, the one to be tried first in front.
    `streaming`: the fields that ask for a stream.
    `goes_on(body, answer, results)`: the same conversation behind an answer, which is as it came, and the results of
    its calls.
    `says(body, text)`: the same conversation with one more message of the user.
    `one_call(body)`: the same request, to which no answer may have several calls (`None`: the API has no such switch).
    `parted(body)`: the same request, whose texts of the user are lists of parts (`None`: they are always).
    `plain(body)`: the same request, whose messages of one text are plain strings (`None`: they are always, or never).
    `developer(body)`: the same request with the system prompt as a message of the developer (`None`: as before).
    `keeps_schemas`: how the API promises arguments that fit their tool's schema: a tool that is `strict`, or any call
    that is `forced`.
    `stop_sequences`: a request can name texts at which the answer stops.
    `exact_integers`: integers beyond those that a double holds arrive as they were written.
    """

    path: str
    stream_path: str
    bounds: tuple[str, ...]
    write: Callable[[ChatRequest, str], Body]
    goes_on: Callable[[Body, JSON, Sequence[Answered]], Body]
    says: Callable[[Body, str], Body]
    streaming: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    one_call: Callable[[Body], Body] | None = None
    parted: Callable[[Body], Body] | None = None
    plain: Callable[[Body], Body] | None = None
    developer: Callable[[Body], Body] | None = None
    keeps_schemas: str = "strict"
    stop_sequences: bool = True
    exact_integers: bool = True
