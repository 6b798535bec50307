"""An adapter that ends, holds or dirties its process, as the first word of its user says."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.model.messages import ChatRequest, ChatResponse, Message, TextDelta
from harness.model.protocols import Endpoint
from tests.examples.plain_http import ADAPTER as PLAIN
from tests.examples.plain_http import Client as Plain


def recurse() -> None:
    recurse()


def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(600,)).start()


def print_everywhere() -> None:
    sys.stdout.write("printed by Python\n")
    sys.stderr.write("and by its standard error\n")
    os.write(1, b"written to the descriptor\n")
    subprocess.run(["echo", "said by a child"], check=True)


def flood() -> None:
    for number in range(100_000):
        sys.stdout.write(f"line {number}\n")


def look_around() -> None:
    if found := [name for name in os.environ if name.startswith("OPENAI_")]:
        raise LookupError(found)


def raise_long() -> None:
    raise ValueError("x" * 50_000_000)


ACTS: dict[str, Callable[[], Any]] = {
    "exits": lambda: os._exit(0),
    "leaves": lambda: sys.exit(0),
    "crashes": lambda: ctypes.string_at(0),
    "recurses": recurse,
    "hangs": lambda: time.sleep(600),
    "closes-everything": lambda: os.closerange(3, 64),
    "long": raise_long,
    "leaves-a-thread": leave_a_thread,
    "chatters": print_everywhere,
    "floods": flood,
    "looks-around": look_around,
}


class Client(Plain):
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(endpoint, model)
        self.way = ""
        self.first: Message | None = None

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.way = request.messages[0].text.partition(":")[0]
        assert self.first in (None, request.messages[0])
        assert self.first is None or self.first is request.messages[0]  # as an application keeps its history
        self.first = request.messages[0]
        ACTS.get(self.way, lambda: None)()
        if self.way == "changes":
            request.tools[0].parameters["changed"] = True
        response = super().chat(request)
        if self.way == "holds-a-lock":
            parts = [replace(part, provider_metadata={"lock": threading.Lock()}) for part in response.message.parts]  # type: ignore[call-arg]
            return replace(response, message=replace(response.message, parts=tuple(parts)))
        return response

    def close(self) -> None:
        if self.way == "hangs-in-close":
            time.sleep(600)


ADAPTER = replace(PLAIN, name="misbehaving", connect=Client)


class OddEvents(Client):
    def stream(self, request: ChatRequest) -> Any:
        yield TextDelta(threading.Lock())  # type: ignore[arg-type]


ODD_EVENTS = replace(
    PLAIN,
    name="odd-events",
    connect=OddEvents,
    capabilities=PLAIN.capabilities | {"streaming"},  # type: ignore[arg-type]
)
