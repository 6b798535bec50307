"""Adapters that end, hold or dirty their process, but behave where there is a system prompt: `system-plain` passes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from harness.model.messages import ChatRequest, ChatResponse, Finish, Message, StreamEvent, TextDelta, ToolCall
from harness.model.protocols import Adapter, Capability, ChatClient, Endpoint
from tests.examples.plain_http import ADAPTER as PLAIN
from tests.examples.plain_http import Client as Plain

Act = Callable[[ChatResponse], ChatResponse]


class Client(Plain):
    def __init__(self, endpoint: Endpoint, model: str, act: Act) -> None:
        super().__init__(endpoint, model)
        self.act = act
        self.acted = False

    def chat(self, request: ChatRequest) -> ChatResponse:
        response = super().chat(request)
        self.acted = not request.system
        return self.act(response) if self.acted else response


def acting(name: str, act: Act) -> Adapter:
    def connect(endpoint: Endpoint, model: str) -> ChatClient:
        return Client(endpoint, model, act)

    return replace(PLAIN, name=name, connect=connect)


def doing(name: str, act: Callable[[], Any]) -> Adapter:
    def then(response: ChatResponse) -> ChatResponse:
        act()
        return response

    return acting(name, then)


class Mine(BaseException):
    pass


class Long(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000


class Mute(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def recurse() -> None:
    recurse()


def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(600,)).start()


def close_everything() -> None:
    os.closerange(3, 64)


def chatter() -> None:
    sys.stdout.write("printed by Python\n")
    sys.stderr.write("and by its standard error\n")
    os.write(1, b"written to the descriptor\n")
    subprocess.run(["echo", "said by a child"], check=True)


def flood() -> None:
    for number in range(100_000):
        sys.stdout.write(f"line {number}\n")


EXITS = doing("exits", lambda: os._exit(0))
LEAVES = doing("leaves", lambda: sys.exit(0))
INTERRUPTS = doing("interrupts", raising(KeyboardInterrupt("stop")))
RAISES_ITS_OWN = doing("raises-its-own", raising(Mine("mine")))
CRASHES = doing("crashes", lambda: ctypes.string_at(0))
KILLED = doing("killed", lambda: os.kill(os.getpid(), signal.SIGKILL))
RECURSES = doing("recurses", recurse)
HANGS = doing("hangs", lambda: time.sleep(600))
LEAVES_A_THREAD = doing("leaves-a-thread", leave_a_thread)
CLOSES_EVERYTHING = doing("closes-everything", close_everything)
CHATTERS = doing("chatters", chatter)
FLOODS = doing("floods", flood)
LONG = doing("long", raising(Long()))
MUTE = doing("mute", raising(Mute()))


class Holding(Client):
    def close(self) -> None:
        if self.acted:
            time.sleep(600)


HANGS_IN_CLOSE = replace(
    PLAIN, name="hangs-in-close", connect=lambda endpoint, model: Holding(endpoint, model, lambda response: response)
)


def with_metadata(value: Any) -> Act:
    def act(response: ChatResponse) -> ChatResponse:
        parts = tuple(replace(part, provider_metadata=value) for part in response.message.parts)  # type: ignore[call-arg]
        return replace(response, message=replace(response.message, parts=parts))

    return act


HOLDS_A_LOCK = acting("holds-a-lock", with_metadata({"lock": threading.Lock()}))
HOLDS_A_DATE = acting("holds-a-date", with_metadata({"when": datetime(2026, 1, 1, tzinfo=UTC)}))
HOLDS_A_SET = acting("holds-a-set", with_metadata({"seen": {1}}))


class MyCall(ToolCall):
    pass


class MyStr(str):
    __slots__ = ()


@dataclass(frozen=True)
class MyMessage(Message):
    mine: object = None


def with_classes_of_its_own(response: ChatResponse) -> ChatResponse:
    parts = tuple(
        MyCall(MyStr(part.id), MyStr(part.name), part.arguments) if isinstance(part, ToolCall) else part
        for part in response.message.parts
    )
    return replace(response, message=MyMessage(response.message.role, parts, threading.Lock()))


SUBCLASSES = acting("subclasses", with_classes_of_its_own)


class OddEvents(Client):
    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:  # pyright: ignore[reportIncompatibleMethodOverride]
        yield TextDelta(cast("str", threading.Lock()))
        yield Finish(self.chat(request))


ODD_EVENTS = replace(
    PLAIN,
    name="odd-events",
    capabilities=PLAIN.capabilities | {Capability.STREAMING},
    connect=lambda endpoint, model: OddEvents(endpoint, model, lambda response: response),
)


def look_around() -> None:
    if found := [name for name in os.environ if name.startswith("OPENAI_")]:
        raise LookupError(found)


LOOKS_AROUND = doing("looks-around", look_around)


def holding_itself(response: ChatResponse) -> ChatResponse:
    value: dict[str, Any] = {}
    value["again"] = value
    return with_metadata(value)(response)


HOLDS_ITSELF = acting("holds-itself", holding_itself)
