"""Objects that constructors and methods of third-party code require, and that harness makes."""

from __future__ import annotations

import datetime as dt
import logging
import sqlite3
import threading
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import pytest

from harness.bridge.clients.constructors import make_client
from harness.bridge.clients.example_objects import example_maker
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.model.errors import PluginError
from tests.bridge.test_client_shapes import HERE


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Settings:
    model: str
    base_url: str
    shop: str
    levels: list[Level]
    level: Level


class Orders:
    def __init__(self, conn: sqlite3.Connection) -> None:
        self.rows = conn.execute("SELECT 1").fetchall()


class Stock(Protocol):
    def count(self, item: str) -> int: ...


class RemoteStock:
    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def count(self, item: str) -> int:
        self.pipe.send(item)
        return int(self.pipe.recv())


class LocalStock:
    def count(self, item: str) -> int:
        return len(item)


class Guard:
    """A class without annotations, whose code shows what its parameters are."""

    def __init__(self, conn, log, shelf, root) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        self.conn, self.log, self.shelf, self.root = conn, log, shelf, root

    def look(self) -> Any:
        self.log.info("looks")
        return self.conn.execute("SELECT 2").fetchall(), self.shelf.count("tea"), self.root.is_dir()


class Shop:
    """A client that requires objects of its application."""

    def __init__(self, orders: Orders, stock: Stock, settings: Settings, clock: Callable[[], dt.datetime]) -> None:
        self.orders, self.stock, self.settings, self.now = orders, stock, settings, clock()


def test_a_constructor_gets_objects_of_the_application() -> None:
    made: Any = make_client(Shop, HERE.base_url, "no-key", "m")

    assert (made.orders.rows, made.stock.count("tea"), type(made.stock)) == ([(1,)], 3, LocalStock)
    assert made.settings == Settings("m", HERE.base_url, "example", [], Level.LOW)
    assert made.now.tzinfo is dt.UTC


def test_the_code_shows_what_a_parameter_without_annotation_is() -> None:
    made: Any = make_client(Guard, HERE.base_url, "no-key", "m")

    assert made.look() == ([(2,)], 3, True)


@pytest.mark.parametrize(
    ("name", "hint", "kind"),
    [
        ("lock", threading.Lock, type(threading.Lock())),
        ("logger", logging.Logger, logging.Logger),
        ("rate", Decimal, Decimal),
        ("since", dt.date, dt.date),
        ("zone", dt.tzinfo, dt.tzinfo),
        ("stopped", threading.Event, threading.Event),
        ("notes", Path | None, Path),
        ("notes_path", str, str),
        ("output", typing.TextIO, object),
        ("catalog", dict[str, Settings], dict),
        ("rows", list[dict[str, str]], list),
    ],
)
def test_objects_of_the_standard_library_are_made(name: str, hint: object, kind: type) -> None:
    make = example_maker(name, hint, Shop, {})

    assert make is not None
    assert isinstance(make(), kind)


def test_a_path_is_that_of_a_folder_or_of_a_new_file() -> None:
    folder, file = (example_maker(each, Path, Shop, {}) for each in ("workspace", "notes_file"))

    assert folder is not None
    assert file is not None
    assert (Path(str(folder())).is_dir(), Path(str(file())).exists()) == (True, False)


@pytest.mark.parametrize(
    "hint",
    [Connection, RemoteStock, str, Any, Callable[[str], str], list[Orders], dict[str, Callable[..., str]], tuple[str]],
)
def test_other_objects_are_left_to_the_user(hint: object) -> None:
    assert example_maker("thing", hint, Shop, {}) is None


def test_the_question_names_what_cannot_be_made() -> None:
    class Sensor:
        def __init__(self, pipe: Connection, base_url: str) -> None: ...

        def chat(self, messages: list[dict[str, Any]]) -> str: ...

    with pytest.raises(PluginError, match="its constructor needs pipe"):
        recognise_shape(Sensor, "mine:Sensor")


def test_a_method_gets_objects_of_the_application() -> None:
    def ask(question: str, db: sqlite3.Connection, ctx: Settings, stock: Stock, when: dt.date) -> str: ...

    method = method_of((), ask)

    assert (method.prompt, method.example_names) == ("question", {"db", "when"})
    assert isinstance(method.examples["db"], sqlite3.Connection)
