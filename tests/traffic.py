"""Real provider traffic in `../shared/traffic`, where it is present. Data to read, never copied into the project."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.model.http import HttpRequest, HttpResponse

ROOT = Path(__file__).resolve().parents[2] / "shared" / "traffic"

CASES = ROOT.with_name("cases")
"""Small recordings, each made after one class of real ones, beside the traffic."""

needs_traffic = pytest.mark.skipif(not ROOT.is_dir(), reason="../shared/traffic is not here: no real traffic to read")

FOLDERS = {
    "anthropic-messages": "anthropic",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "gemini-generateContent": "gemini",
    "openai-compat-chat": "openai-chat",
    "openai-compat-responses": "openai-responses",
}
"""Folder → the API that it speaks."""


@dataclass(frozen=True)
class Recorded:
    """One recorded exchange: `path` is relative to the traffic folder, `pairs` the cassette's (i, j) pairs."""

    path: str
    index: int
    api: str
    request: HttpRequest
    response: HttpResponse
    pairs: tuple[tuple[int, int], ...]

    @property
    def follow_up(self) -> bool:
        """An accepted request that carries back the calls of an earlier response with their results."""
        return any(j == self.index for _, j in self.pairs)


def recorded(*folders: str) -> list[Recorded]:
    """The exchanges of some folders (names of `FOLDERS`, or `errors/<name>`), in order."""
    return [exchange for folder in folders for exchange in _folder(folder)]


@cache
def _folder(folder: str) -> tuple[Recorded, ...]:
    return tuple(_read(folder))


def _read(folder: str) -> Iterator[Recorded]:
    for file in sorted((ROOT / folder).glob("*.yaml")):
        cassette: dict[str, Any] = yaml.load(file.read_bytes(), Loader=yaml.CSafeLoader)
        pairs = tuple((pair["i"], pair["j"]) for pair in cassette["metadata"].get("pairs", ()))
        for index, exchange in enumerate(cassette["interactions"]):
            request, response = exchange["request"], exchange["response"]
            yield Recorded(
                path=f"{folder}/{file.name}",
                index=index,
                api=FOLDERS[folder.removeprefix("errors/")],
                request=HttpRequest(
                    request["method"], request["uri"], _headers(request["headers"]), _bytes(request["body"])
                ),
                response=HttpResponse(
                    response["status"]["code"], _headers(response["headers"]), _bytes(response["body"].get("string"))
                ),
                pairs=pairs,
            )


def _headers(headers: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value[0] if isinstance(value, list) else value for name, value in headers.items()}


def _bytes(body: str | bytes | None) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""
