"""Malformed files: good ones, damaged by a seeded choice, and a list of nasty ones. Each goes to the command that reads
its kind."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from harness.platform.files import shipped_folder

SEED = 20261010


@dataclass(frozen=True)
class Malformed:
    """One malformed file: where it is put, in a folder of its own, and the command that reads it. `sure`: nobody can
    take it for a good one."""

    name: str
    path: str
    words: tuple[str, ...]
    put: Callable[[Path], object]
    sure: bool
    is_regular: bool = True


@dataclass(frozen=True)
class _Kind:
    name: str
    path: str
    words: tuple[str, ...]
    good: Callable[[], str]


def _scenario() -> str:
    return (shipped_folder("scenarios") / "call-parallel-same-tool.yaml").read_text()


def _cassette() -> str:
    return (shipped_folder("cassettes") / "call-single" / "anthropic.yaml").read_text()


def _foreign() -> dict[str, object]:
    document = yaml.safe_load(_cassette())
    return {"version": 1, "interactions": document["interactions"]}


def _entries() -> str:
    entry = '- scenario: call-*\n  target: my-*\n  rule: result-*\n  reason: "tracked as #1"\n  variant: stream\n'
    return entry + entry.replace("stream", "whole")


@cache
def _report() -> str:
    finding = {"rule": "x", "kind": "loss", "severity": "error", "blame": "adapter", "message": "m", "source": "s"}
    cell = {"scenario": "a", "target": "t", "adapter": "t", "api": "anthropic", "variant": "whole", "verdict": "fail"}
    return json.dumps({"mode": "replay", "cells": [{**cell, "findings": [finding]}]}, indent=1)


_PLAY = ("run", "call-single", "--target", "anthropic", "--variant", "whole")

_KINDS = (
    _Kind("scenario", "call-parallel-same-tool.yaml", ("validate", "call-parallel-same-tool.yaml"), _scenario),
    _Kind("cassette", "lib/call-single/anthropic.yaml", (*_PLAY, "--cassettes", "lib"), _cassette),
    _Kind("foreign", "theirs.yaml", ("audit", "theirs.yaml"), lambda: yaml.safe_dump(_foreign())),
    _Kind("foreign-json", "theirs.json", ("audit", "theirs.json"), lambda: json.dumps(_foreign(), indent=1)),
    _Kind("expected", "known.yaml", (*_PLAY, "--expected-failures", "known.yaml"), _entries),
    _Kind("report", "run.json", ("accept", "run.json"), _report),
)

_BYTES: dict[str, bytes] = {
    "empty": b"",
    "blanks": b" \n\n\n ",
    "nul-bytes": b"\0" * 4096,
    "utf-16": "version: 1\n".encode("utf-16"),
    "invalid-utf-8": b"version: 1\n\xff\xfe\x80: 1\n",
    "huge-number": b'{"version": ' + b"9" * 100_000 + b"}",
    "deep-lists": b"[" * 100_000,
    "deep-objects": b'{"a":' * 50_000,
    "deep-blocks": b"".join(b" " * depth + b"a:\n" for depth in range(2_000)),
    "alias-bomb": b"a: &a [x, x, x]\n"
    + b"".join(f"{b}: &{b} [*{a}, *{a}, *{a}]\n".encode() for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "merge-keys": b"version: 1\ninteractions:\n- <<: {request: {method: GET, uri: x}}\n",
    "tags": b"version: 1\ninteractions: !!python/object/apply:os.system [echo]\n",
    "duplicate-keys": b"version: 1\nversion: 1\ninteractions: []\n",
    "very-long-line": b"x" * 5_000_000,
    "two-documents": b"version: 1\n---\nversion: 1\n",
    "binary": bytes(range(256)) * 40,
}
"""What no command takes for what it reads."""


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    other = path.with_name(f"other-{path.name}")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


_NASTY: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": _folder,
    "dangling-link": lambda path: path.symlink_to("nowhere"),
    "loop-of-links": _loop,
    "terminal": lambda path: path.symlink_to("/dev/tty"),
}


def _damaged(text: str, random_: random.Random) -> tuple[str, bytes]:
    """A good text, damaged in one way."""
    lines = text.splitlines(keepends=True)
    at = random_.randrange(len(lines))
    where = random_.randrange(1, len(text) - 1)
    ways: dict[str, Callable[[], str]] = {
        "cut": lambda: text[:where],
        "line-missing": lambda: "".join(lines[:at] + lines[at + 1 :]),
        "line-twice": lambda: "".join([*lines[: at + 1], *lines[at:]]),
        "nul": lambda: f"{text[:where]}\0{text[where:]}",
        "tab": lambda: f"{text[:where]}\t{text[where:]}",
        "bracket": lambda: f"{text[:where]}{random_.choice('[]{}:&*!|>')}{text[where:]}",
        "other-type": lambda: "".join([*lines[:at], _other_type(lines[at], random_), *lines[at + 1 :]]),
        "byte-order-mark": lambda: f"\ufeff{text}",
        "returns": lambda: text.replace("\n", "\r\n"),
    }
    name = random_.choice([*ways, "cut", "other-type", "other-type", "other-type"])
    return name, ways[name]().encode()


def _other_type(line: str, random_: random.Random) -> str:
    value = random_.choice(["5", "[]", "{}", "null", '""', "1e999", "true", "[[1]]", "9" * 500])
    return re.sub(r"(?<=:) .*?(,?\n)|$", lambda found: f" {value}{found[1] or ''}", line, count=1)


def every() -> Iterator[Malformed]:
    """All of them, the same each time."""
    random_ = random.Random(SEED)  # noqa: S311 - the same files each time
    for kind in _KINDS:
        for name, put in _NASTY.items():
            yield Malformed(f"{kind.name}-{name}", kind.path, kind.words, put, sure=True, is_regular=False)
        for name, data in _BYTES.items():
            empty = kind.name == "expected" and name in {"empty", "blanks"}
            yield Malformed(f"{kind.name}-{name}", kind.path, kind.words, _writing(data), sure=not empty)
        good = kind.good()
        for number in range(30):
            name, data = _damaged(good, random_)
            yield Malformed(f"{kind.name}-{name}-{number}", kind.path, kind.words, _writing(data), sure=False)


def _writing(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)
