"""Content encodings undone: gzip and deflate, within bounds."""

from __future__ import annotations

import zlib

MAX_BYTES = 64 * 1024 * 1024
"""Bound on a cassette and on any body in it, unpacked."""

_GZIP = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


def decode(body: bytes, header: str, *, whole: bool = True) -> bytes:
    """Undo what a `content-encoding` header names.

    Recorders that store bodies decoded often keep the header, so a body that does not look encoded stays as it is. Of
    one that is not `whole`, what came of it is unpacked.

    Raises:
        ValueError: the body is damaged, too large, or in an encoding that cannot be undone here.
    """
    for name in reversed([part.strip().lower() for part in header.split(",")]):
        body = _undo(body, name, whole=whole)
    return body


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
    raise ValueError(f"the content encoding {name!r} cannot be undone here")


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
