"""Ids that a recording's owner has made unreadable."""

from __future__ import annotations

import re

_MARK = re.compile(r"redacted|scrubbed|\*{3}|…|^[<\[{].*[>\]}]$", re.IGNORECASE)


def is_scrubbed(value: str) -> bool:
    """Whether something was written over this id, so that it is no evidence about ids: neither of the form that a
    provider gives or takes, nor of which is which."""
    return _MARK.search(value) is not None
