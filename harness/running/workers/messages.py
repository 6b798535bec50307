"""What goes between a run and its workers. What comes from a worker is values of ours, and nothing else.

A value of an adapter's own class would import the adapter here when it is read, or could not be sent at all.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

from harness.apis.profile import Profile
from harness.contract.model import ChatRequest, ChatResponse, Finish, Message, ToolCall, ToolResult
from harness.contract.process import Command, Completed
from harness.contract.protocols import Requirement
from harness.host.crash import Origin
from harness.host.shortened import shortened
from harness.results import Chat
from harness.running.play import Playing
from harness.running.serving.order import Place
from harness.scenarios.schema import Scenario, Variant


@dataclass(frozen=True, slots=True)
class Load:
    """Import this adapter."""

    spec: str


@dataclass(frozen=True, slots=True)
class Job:
    """Play a scenario with the adapter, as a target, against a base URL. `limit` is in seconds; `offline` takes the
    variables out of the environment that would lead the adapter elsewhere."""

    scenario: Scenario
    target: str
    model: str
    profile: Profile
    cassettes: str
    variant: Variant
    base_url: str
    api_key: str
    limit: float
    offline: bool


@dataclass(frozen=True, slots=True)
class Go:
    """The chat may be sent."""


@dataclass(frozen=True, slots=True)
class Stop:
    """It may not: end the playing."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    completed: Completed


@dataclass(frozen=True, slots=True)
class NotRun:
    """The command was ended for its time-out, or could not be run."""

    reason: str
    errno: int | None = None
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """The result of a tool that a loop ran, and the place of the call in the model's answer."""

    result: ToolResult
    place: Place | None = None


Order: TypeAlias = Load | Job | Go | Stop | Ran | NotRun | ToolAnswered
"""What a worker is told."""


@dataclass(frozen=True, slots=True)
class Described:
    """The adapter, without what it does. `embeddings` are the model and the dimensions of those that it makes;
    `runs_commands` says that it sends no HTTP request, `owns_loop` that it is driven."""

    name: str
    api: str
    capabilities: tuple[str, ...]
    embeddings: tuple[str, int] | None
    requires: Requirement | None
    runs_commands: bool
    owns_loop: bool


@dataclass(frozen=True, slots=True)
class Unusable:
    """A `UsageError`, by its text: it ends the run."""

    reason: str


@dataclass(frozen=True, slots=True)
class Begin:
    """This chat is about to be sent; answered by `Go` or `Stop`."""

    chat: int


@dataclass(frozen=True, slots=True)
class RunCommand:
    """The adapter runs a command; answered by `Ran` or `NotRun`."""

    command: Command
    timeout: float


@dataclass(frozen=True, slots=True)
class Played:
    """The cell was played."""

    playing: Playing


@dataclass(frozen=True, slots=True)
class Stopped:
    """The playing has ended because it was told to."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The adapter broke outside of a chat: when it was connected or closed, or in a way that no chat survives."""

    reason: str
    traceback: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """A loop runs a tool; answered by `ToolAnswered`."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Driven:
    """A loop has come to its end: in good order, or by a `failure`, in words; or it has `declined` the conversation.
    `printed` is what it printed, which is read from elsewhere."""

    failure: str | None = None
    traceback: str | None = None
    declined: str | None = None
    printed: str = ""


Answer: TypeAlias = Described | Unusable | Begin | RunCommand | Played | Stopped | Failed | RunTool | Driven
"""What a worker says."""

_OURS = frozenset(
    each.__module__
    for each in (Described, Playing, Chat, Origin, Message, ChatRequest, ChatResponse, Finish, Command, Requirement)
)
"""The modules whose values may come from a worker, each named by one of them."""


LARGEST = 32 << 20
"""Bytes of one message: more than any conversation has. What is larger would fill the memory of the run."""

CUT_OFF = 75
"""Exit code of a worker that can no longer be heard."""


def plain(value: object, place: str) -> Any:
    """A copy of a value of the contract in which everything is of our classes or of Python's own: a subclass becomes
    what it is a subclass of, and what occurs twice does so in the copy.

    Raises:
        TypeError: something at or below `place` is no value of the contract.
    """
    try:
        return _Copier().copy(value, place)
    except RecursionError:
        raise TypeError(f"{place} is nested too deeply, or holds itself") from None


class _Copier:
    """Copies a value once, however often it occurs: rules tell by its identity what went where."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[object, Any]] = {}  # with the value itself, whose id must stay its own

    def copy(self, value: object, place: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = value, self._made(value, place)
        return self._copies[id(value)][1]

    def _made(self, value: object, place: str) -> Any:
        ours = next((kind for kind in type(value).__mro__ if kind.__module__ in _OURS), None)
        if ours is not None and isinstance(value, Enum):
            return value
        if ours is not None and is_dataclass(ours):
            names = [each.name for each in fields(ours)]
            return ours(**{name: self._field(getattr(value, name), f"{place}.{name}") for name in names})
        for kind, exact in ((str, str.__str__), (int, int.__int__), (float, float.__float__)):
            if isinstance(value, kind):
                return exact(cast("Any", value))
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value).items()
            return {self.copy(key, f"a key of {place}"): self.copy(item, f"{place}[{key!r}]") for key, item in entries}
        if isinstance(value, list | tuple):
            items = [self.copy(item, f"{place}[{index}]") for index, item in enumerate(cast("list[object]", value))]
            return tuple(items) if isinstance(value, tuple) else items
        kind = type(value)
        raise TypeError(
            f"{shortened(place, 300)} is a {kind.__module__}.{kind.__qualname__}, which is no value of the contract "
            "(harness.contract.model)"
        )

    def _field(self, value: object, place: str) -> Any:
        return bytes(value) if isinstance(value, bytes) else self.copy(value, place)  # the data of media


def encode(message: Order | Answer) -> bytes:
    """The message as bytes."""
    written = io.BytesIO()
    _Writer(written).dump(message)
    return written.getvalue()


def decode_order(data: bytes) -> Order:
    """What a worker was told, which comes from us."""
    order: Order = pickle.loads(data)  # noqa: S301 - our own process has written it
    return order


def decode_answer(data: bytes) -> Answer:
    """What a worker says. Raises `ValueError`: it is not made of values of ours."""
    try:
        answer = _Reader(io.BytesIO(data)).load()
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not isinstance(answer, Answer):
        raise ValueError(f"it is a {type(answer).__name__}")  # noqa: TRY004 - one error for all of it
    return answer


class _Writer(pickle.Pickler):
    def reducer_override(self, value: object, /) -> Any:
        """Members of enumerations by their value, as Python itself does but for 3.11.0 to 3.11.3, which call `getattr`:
        that is none of ours, and is refused where it is read."""
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name not in _OURS:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is none of ours")
        return super().find_class(module_name, global_name)
