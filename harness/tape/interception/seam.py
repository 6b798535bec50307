"""What the patched clients ask, and what they patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.contract.http import HttpRequest, HttpResponse

Keep: TypeAlias = Callable[[HttpResponse], None]
"""Takes the answer to a request that was sent."""

Asked: TypeAlias = Callable[[HttpRequest], "HttpResponse | Keep | None"]
"""What becomes of a request: it gets this answer; it is sent, and its answer is kept; or it is sent, and let be. Called
from any thread."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A method of a class of a client, and what stands in its place."""

    owner: Any
    name: str
    replacement: Callable[..., Any]
