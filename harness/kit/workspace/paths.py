"""A path as a model writes it → the names that lead there from the workspace's folder.

The same paths are refused on every platform, so that a scenario plays alike on all of them. What is not refused is
taken literally: `%2e%2e`, `$HOME` and look-alikes of a dot or a slash are file names like any other.
"""

from __future__ import annotations

import re
import unicodedata

from harness.contract.errors import ToolFailed
from harness.kit.workspace.excerpt import quoted

LONGEST = 1024
"""Bytes that a path may have in UTF-8."""

DEEPEST = 64
"""Names that a path may have. Deeper trees are what programs that clean up stumble over."""

_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?", re.IGNORECASE | re.DOTALL)
"""Names that Windows takes for a device, in any folder and with any extension."""


def names_of(path: str) -> tuple[str, ...]:
    """The names that `path` is made of; none for the workspace's folder itself (`.` or an empty path).

    Raises:
        ToolFailed: the path is absolute, climbs, is too long, or is no path on one of the platforms.
    """
    reason = _wrong(path)
    if reason:
        raise ToolFailed(f"the path {quoted(path)} {reason}")
    return tuple(name for name in path.split("/") if name not in {"", "."})


def _wrong(path: str) -> str | None:
    if len(path.encode(errors="surrogatepass")) > LONGEST:
        return f"is longer than {LONGEST} bytes."
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return "holds a control character or half of a surrogate pair."
    if path.startswith("/"):
        return "is absolute. Paths are relative to the workspace."
    if path.startswith("~"):
        return "begins with ~, which is not expanded. Paths are relative to the workspace."
    if "\\" in path or ":" in path:
        return "holds a backslash or a colon. Folders are separated by /, and there are no drives or streams."
    names = path.split("/")
    if len(names) > DEEPEST:
        return f"is deeper than {DEEPEST} folders."
    return next(filter(None, map(_wrong_name, names)), None)


def _wrong_name(name: str) -> str | None:
    if name == "..":
        return "holds '..'. Paths are relative to the workspace and do not climb."
    if name != "." and name.endswith((".", " ")):
        return "holds a name that ends in a dot or a space, which Windows drops."
    if _DEVICE.fullmatch(name):
        return f"holds {name!r}, which is a device on Windows."
    return None
