"""The messages of a request body, read so that no shape of them fails: what the limits go over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON


class Block(NamedTuple):
    """A content block. `kind` is its `type`, empty where it has none; a string content is one `text` block."""

    kind: str
    pointer: str
    data: dict[str, JSON]

    @property
    def path(self) -> str:
        """The place as the provider writes it: `messages.1.content.0`."""
        return dotted(self.pointer)

    def string(self, key: str) -> str | None:
        """The value of `key` if it is a string."""
        value = self.data.get(key)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, eq=False)
class Entry:
    """A member of `messages` with those of its blocks that are objects."""

    role: str
    pointer: str
    data: dict[str, JSON]
    blocks: tuple[Block, ...]

    @cached_property
    def marked(self) -> tuple[tuple[str, dict[str, JSON]], ...]:
        """Its blocks that have a cache mark, and those inside its results."""
        every = (inner for block in self.blocks for inner in (block, *nested(block)))
        return marked((block.pointer, block.data) for block in every)


@dataclass(frozen=True, eq=False)
class Turn:
    """Consecutive entries of one role, which the provider combines into one turn (anthropic-roles), with all blocks.

    `wrong` is for `pairing`: the turn that followed it last, and what was wrong with the two.
    """

    role: str
    entries: tuple[Entry, ...]
    blocks: tuple[Block, ...]
    wrong: list[tuple[Turn, list[Violation]]] = field(default_factory=list["tuple[Turn, list[Violation]]"])

    def of_kind(self, kind: str) -> tuple[Block, ...]:
        """The blocks of one type."""
        return tuple(block for block in self.blocks if block.kind == kind)


def marked(places: Iterable[tuple[str, dict[str, JSON]]]) -> tuple[tuple[str, dict[str, JSON]], ...]:
    """Those of the objects that have a cache mark."""
    return tuple((pointer, data) for pointer, data in places if data.get("cache_control") is not None)


def dotted(pointer: str) -> str:
    """A JSON pointer as the provider's messages write it."""
    return pointer.removeprefix("/").replace("/", ".")


def objects(value: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """The members of a list that are objects, each with its pointer."""
    for index, member in enumerate(value if isinstance(value, list) else ()):
        if isinstance(member, dict):
            yield join(pointer, index), member


def blocks(content: JSON, pointer: str) -> tuple[Block, ...]:
    """The blocks of a `content` or a `system`."""
    if isinstance(content, str):
        return (Block("text", pointer, {"type": "text", "text": content}),)
    return tuple(Block(_kind(data), place, data) for place, data in objects(content, pointer))


def entries(body: dict[str, JSON]) -> list[Entry]:
    """The members of `messages` that are objects."""
    return [entry for entry in _entries(body.get("messages"), "/messages") if entry is not None]


@entrywise
def _entries(data: JSON, pointer: str) -> Entry | None:
    if not isinstance(data, dict):
        return None
    return Entry(_word(data.get("role")), pointer, data, blocks(data.get("content"), join(pointer, "content")))


def turns(conversation: list[Entry]) -> list[Turn]:
    """The entries, consecutive ones of a role combined."""
    found = [(role, tuple(group)) for role, group in groupby(_alone(conversation, ""), key=attrgetter("role"))]
    return [group[0] if len(group) == 1 else _combined(role, group) for role, group in found]


@entrywise
def _alone(entry: Entry, _pointer: str) -> Turn:
    """The turn that an entry is, if its neighbours are not of its role."""
    return Turn(entry.role, (entry,), entry.blocks)


def _combined(role: str, every: Iterable[Turn]) -> Turn:
    members = tuple(entry for turn in every for entry in turn.entries)
    return Turn(role, members, tuple(block for entry in members for block in entry.blocks))


def is_server_work(block: Block) -> bool:
    """Whether the provider's own tools made this block: a call to one, or its result."""
    return block.kind in ("server_tool_use", "mcp_tool_use") or (
        block.kind.endswith("_tool_result") and block.kind != "tool_result"
    )


def nested(block: Block) -> tuple[Block, ...]:
    """The blocks inside a `tool_result`, none for any other block. Its content may be any string
    (anthropic-result-content)."""
    content = block.data.get("content")
    if block.kind != "tool_result" or isinstance(content, str):
        return ()
    return blocks(content, join(block.pointer, "content"))


def _kind(data: dict[str, JSON]) -> str:
    return _word(data.get("type"))


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else ""
