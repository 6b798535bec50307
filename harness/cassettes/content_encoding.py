"""Decoding of content encodings, with a size limit. Supports gzip, deflate, Brotli and Zstandard. The latter two need
the packages that httpx also uses.
"""

from __future__ import annotations

import contextlib
import importlib
import zlib
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a decoded body."""

_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "br": ("brotli", "brotlicffi"),
    "zstd": ("compression.zstd", "backports.zstd"),
}
"""Modules that can decode an encoding, in order of preference. The first installed one is used."""

_INSTALL: Mapping[str, str] = {"br": "brotli", "zstd": "backports.zstd"}

_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


def decode(body: bytes, header: str, *, whole: bool = True) -> bytes:
    """Decode a body according to its `content-encoding` header.

    Recorders that store decoded bodies often keep the header. A body that does not look encoded is therefore returned
    unchanged. If `whole` is false, the body may be truncated and is decoded as far as possible.

    Raises:
        ValueError: the body is damaged or too large, or its encoding is not supported here.
    """
    for name in reversed([part.strip().lower() for part in header.split(",")]):
        body = _undo(body, name, whole=whole)
    return body


def missing() -> dict[str, str]:
    """Return the encodings that cannot be decoded because a package is missing, each with that package's name."""
    return {name: _INSTALL[name] for name in _PACKAGES if _module(name) is None}


def _undo(body: bytes, name: str, *, whole: bool) -> bytes:
    if name in {"", "identity"} or not body:
        return body
    if name in {"gzip", "x-gzip"}:
        return _inflate(body, _GZIP, whole=whole) if body.startswith(_GZIP_MAGIC) else body
    if _is_text(body):
        return body
    if name == "deflate":
        try:
            return _inflate(body, zlib.MAX_WBITS, whole=whole)
        except ValueError:  # many servers send the bare stream, without zlib's header
            return _inflate(body, -zlib.MAX_WBITS, whole=whole)
    if name not in _PACKAGES:
        raise ValueError(f"the content encoding {name!r} cannot be undone here")
    module = _module(name)
    if module is None:
        raise ValueError(
            f"the content encoding {name!r} cannot be undone without a package: pip install {_INSTALL[name]}"
        )
    return _unpack(module, name, body, whole=whole)


def _module(name: str) -> Any:
    for each in _PACKAGES[name]:
        with contextlib.suppress(ImportError):
            return importlib.import_module(each)
    return None


def _unpack(module: Any, name: str, body: bytes, *, whole: bool) -> bytes:
    plain = bytearray()
    try:
        if name == "br":
            unpacker = module.Decompressor()
            plain += unpacker.process(body, output_buffer_limit=MAX_BYTES + 1)
            is_whole = unpacker.is_finished()
        else:
            left = body
            is_whole = False
            while left and len(plain) <= MAX_BYTES:  # one frame after the other
                unpacker = module.ZstdDecompressor()
                plain += unpacker.decompress(left, MAX_BYTES + 1)
                is_whole, left = unpacker.eof, unpacker.unused_data
    except Exception as error:  # noqa: BLE001 - each package has errors of its own
        raise ValueError(f"the compressed body is damaged: {error}") from None
    if len(plain) > MAX_BYTES:
        raise ValueError(f"the compressed body unpacks to more than {MAX_BYTES} bytes")
    if whole and not is_whole:
        raise ValueError("the compressed body is cut short")
    return bytes(plain)


def _inflate(body: bytes, window: int, *, whole: bool) -> bytes:
    unpacker = zlib.decompressobj(window)
    try:
        plain = unpacker.decompress(body, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"the compressed body is damaged: {error}") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"the compressed body unpacks to more than {MAX_BYTES} bytes")
    if whole and not unpacker.eof:
        raise ValueError("the compressed body is cut short")
    return plain


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
