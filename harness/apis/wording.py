"""The provider's words of a refusal, said of another request than the one that was seen to be refused."""

from __future__ import annotations

import re

from harness.contract.model import JSON

_PATH = re.compile(r"\b([a-z_]+)((?:\[\d+\]|\.\d+)(?:\.[A-Za-z_]\w*|\[\d+\]|\.\d+)*)")
"""A place as APIs spell it: `messages[4].tool_calls[0].id`, `messages.92.content.0.tool_use.id`."""

_INDEX = re.compile(r"\d+(?=[\].]|$)")
_LENGTH = re.compile(r"(\bgot an? \w+ with length )\d+")


def said_of(words: str, pointer: str, value: JSON) -> str:
    """The words with this request's indices for those of the one that they were said of, and with the length of
    `value`, which stands at `pointer`. What the words say beyond that stays as it was said."""
    root, *rest = pointer.split("/")[1:] or [""]
    indices = [each for each in rest if each.isdecimal()]

    def at(match: re.Match[str]) -> str:
        if match[1] != root:
            return match[0]
        left = iter(indices)
        return match[1] + _INDEX.sub(lambda index: next(left, index[0]), match[2])

    told = _PATH.sub(at, words)
    return _LENGTH.sub(rf"\g<1>{len(value)}", told) if isinstance(value, str | list) else told
