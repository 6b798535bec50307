"""Source code of a method: whether it sends requests, always streams, or reads images and parts of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.bridge.clients.sources import functions_in, source_with_imports


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCode:
    """Source code of a method, of its class and of its module, if they are known, and the name of that module."""

    source: str = ""
    class_source: str = ""
    module: str = ""
    module_name: str = ""

    @property
    def with_imports(self) -> str:
        """The source of its module and of the modules of its package that define what its module imports."""
        return source_with_imports(self.module_name) or self.module

    @property
    def sends_requests(self) -> bool:
        """Return whether the method sends a request, itself or by another function of its module."""
        return any(map(_SENDS_REQUEST.search, self._called_sources()))

    def _called_sources(self) -> Iterator[str]:
        """Yield the source of the method, and of the functions of its module that it calls, also through others."""
        known, left, seen = functions_in(self.module), [self.source], set[str]()
        while left:
            source = left.pop()
            yield source
            called = {*_CALLED_NAME.findall(source)} & known.keys() - seen
            seen |= called
            left += [known[each] for each in called]

    @property
    def receives_by_send(self) -> bool:
        """Return whether the method is a generator that its caller sends the messages to."""
        return re.search(r"=\s*\(?yield\b", self.source) is not None

    @property
    def always_streams(self) -> bool:
        """Return whether each call of the method requests a stream. The functions that it calls may do it, unless they
        decide about it.
        """
        if re.search(rf"\byield\b|{_REQUESTS_STREAM}", self.source):
            return True
        code = "\n".join(self._called_sources())
        return re.search(_REQUESTS_STREAM, code) is not None and not re.search(_DECIDES_ABOUT_STREAM, code)

    @property
    def mentions_images(self) -> bool:
        """Return whether the client's module mentions images. If not, the client is not expected to send them."""
        return bool(re.search(r"image|inline_?data", self.module, re.IGNORECASE))

    @property
    def joins_parts(self) -> bool:
        """Return whether the client's module takes content that is a list of parts, and joins the texts among them.

        It skips the parts that have no text. A client that fails for them accepts only texts.
        """
        return _JOINS_PARTS.search(self.module) is not None

    @property
    def reads_parts(self) -> bool:
        """Return whether the source of the client's module handles content that is a list of parts."""
        tested = "" if self.mentions_images else r"content[^)]*"
        return re.search(rf"image_url|isinstance\([^)]*{tested}\b(list|str)\b", self.module) is not None


_JOINS_PARTS = re.compile(
    r"isinstance\((?P<parts>\w+), \(?list\b[^\n]*(?:\n[^\n]*){0,3}?\.join\("
    r"[^\n]*\n?[^\n]*\bfor (?P<part>\w+) in (?P=parts)\s+if [^\n]*\b(?P=part)(?:\.get\(|\[)[\"'](?:text|type)[\"']"
)
"""Code that tests for a list and joins the texts of those of its items that have one."""

_REQUESTS_STREAM = r"[\"']?\bstream[\"']?\s*[:=]\s*True|stream_generate|streamGenerate"

_DECIDES_ABOUT_STREAM = r"\b(if|not|while|and|or)\b[^\n:]*\bstream|\bstream\w*\s*[:=]\s*(False|bool|None)"

_CALLED_NAME = re.compile(r"\b(\w+)\(")

_SENDS_REQUEST = re.compile(
    r"\.(create|stream|parse|post|request|urlopen|generate_content\w*|send_message\w*|a?completion|complete)\(|\burlopen\("
)
"""Code that sends a request by an SDK or an HTTP client."""
