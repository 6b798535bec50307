"""The messages of a request body, read so that no shape of them fails: what the limits go over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from harness.apis.facts import Facts
from harness.apis.jsonvalue import join
from harness.apis.limit import Limit
from harness.contract.model import JSON

FACTS = Facts.beside(__file__)


def limit(name: str) -> Limit:
    """Return a limit of the API by its id without the API's name."""
    return FACTS.limits[f"anthropic-{name}"][0]


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


@dataclass(frozen=True, eq=False)
class Turn:
    """Consecutive entries of one role, which the provider combines into one turn (anthropic-roles), with all blocks."""

    role: str
    entries: tuple[Entry, ...]
    blocks: tuple[Block, ...]

    def of_kind(self, kind: str) -> tuple[Block, ...]:
        """The blocks of one type."""
        return tuple(block for block in self.blocks if block.kind == kind)


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
    return tuple(Block(_word(data.get("type")), place, data) for place, data in objects(content, pointer))


def entries(body: dict[str, JSON]) -> list[Entry]:
    """The members of `messages` that are objects."""
    return [
        Entry(_word(data.get("role")), place, data, blocks(data.get("content"), join(place, "content")))
        for place, data in objects(body.get("messages"), "/messages")
    ]


def turns(conversation: list[Entry]) -> list[Turn]:
    """The entries, consecutive ones of a role combined."""
    groups = [(role, tuple(group)) for role, group in groupby(conversation, key=attrgetter("role"))]
    return [Turn(role, group, tuple(block for entry in group for block in entry.blocks)) for role, group in groups]


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


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else ""
