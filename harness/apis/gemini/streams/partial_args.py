"""Calls whose arguments come in pieces (`streamFunctionCallArguments`, Vertex only: gemini-allowed-names,
gemini-vertex).

The first part names the call; `partialArgs` of it and of the following ones each set the value at a JSON path, or
continue the string there; `willContinue` says whether more is to come.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harness.contract.model import JSON

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\['(?P<quoted>[^']*)'\]")
_VALUES = ("stringValue", "numberValue", "boolValue")


def whole_calls(parts: Iterable[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """The parts with every call in one part and its arguments under `args`."""
    whole: list[dict[str, JSON]] = []
    growing: _GrowingCall | None = None
    for part in parts:
        call = part.get("functionCall")
        if not isinstance(call, dict) or not (growing or "willContinue" in call or "partialArgs" in call):
            whole.append(part)
            continue
        if growing is None or call.get("name"):
            growing = _GrowingCall(part)
            whole.append(growing.part)
        growing.grow(call)
        if not call.get("willContinue"):
            growing = None
    return whole


class _GrowingCall:
    def __init__(self, part: dict[str, JSON]) -> None:
        call: Any = part["functionCall"]
        self._call = {name: value for name, value in call.items() if name not in ("partialArgs", "willContinue")}
        self._call["args"] = self._call.get("args") or {}
        self._unfinished: set[str] = set()
        self.part: dict[str, JSON] = {**part, "functionCall": self._call}

    def grow(self, call: dict[str, JSON]) -> None:
        pieces = call.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._set(piece)

    def _set(self, piece: dict[str, JSON]) -> None:
        path = str(piece.get("jsonPath"))
        value = next((piece[name] for name in _VALUES if name in piece), None)
        self._call["args"] = _placed(self._call["args"], _steps(path), value, continues=path in self._unfinished)
        if piece.get("willContinue"):
            self._unfinished.add(path)
        else:
            self._unfinished.discard(path)


def _steps(path: str) -> list[str | int]:
    return [
        int(step["index"]) if step["index"] else step["name"] or step["quoted"] or "" for step in _STEP.finditer(path)
    ]


def _placed(place: JSON, steps: list[str | int], value: JSON, *, continues: bool) -> JSON:
    """`place` with the value at the end of the steps; a string that continues is put behind the one that is there."""
    if not steps:
        return place + value if continues and isinstance(place, str) and isinstance(value, str) else value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        items = [*place] if isinstance(place, list) else []
        if step >= len(items):  # elements come in order, so that a large index makes no large list
            step = len(items)
            items.append(None)
        items[step] = _placed(items[step], rest, value, continues=continues)
        return items
    members = {**place} if isinstance(place, dict) else {}
    members[step] = _placed(members.get(step), rest, value, continues=continues)
    return members
