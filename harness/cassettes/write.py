"""Writing of cassettes in vcrpy's format, atomically and with vcrpy's serialisation.

The text is formatted for human readers: provenance first, bodies as text, JSON indented, event streams as blocks.
Before writing, a check ensures that the exact bytes can be restored.
"""

from __future__ import annotations

import http.client
import importlib
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import yaml

from harness.cassettes.cassette import FORMAT, Cassette, Metadata, checksum, stored_delivery
from harness.cassettes.cassette_text import indented
from harness.cassettes.content_encoding import MAX_BYTES
from harness.cassettes.read import loads
from harness.model.errors import CassetteError
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import files

_ONE_LINE = 2**31 - 1
"""Maximum line width of libyaml. With it, no text is folded."""


def _represent_text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _never(_dumper: Any, _data: Any) -> bool:
    return True  # "ignore": never write an alias


def _dumper() -> Any:
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("_Dumper", (base,), {"ignore_aliases": _never})
    dumper.add_representer(str, _represent_text)
    return dumper


_DUMPER = _dumper()


class _Serializer:
    @staticmethod
    def serialize(cassette: dict[str, Any]) -> str:
        ordered = {
            "version": cassette["version"],
            "metadata": cassette["metadata"],
            "interactions": [_for_readers(each) for each in cassette["interactions"]],
        }
        return yaml.dump(ordered, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=_ONE_LINE)


def _for_readers(interaction: dict[str, Any]) -> dict[str, Any]:
    """Return an interaction with indented JSON, and the names of the original formats. The names are stored outside
    request and response because vcrpy's requests accept no additional keys.
    """
    request, response = interaction["request"], interaction["response"]
    content_type = request["headers"].get("content-type", [""])[0]
    is_matched_as_json = "application/json" in content_type.lower()  # by vcrpy, and any other body to the byte
    sent = indented(request["body"]) if is_matched_as_json else None
    told = indented(response["body"]["string"])
    if sent is not None:
        request = {**request, "body": sent[0]}
    if told is not None:
        response = {**response, "body": {"string": told[0]}}
    names = {key: found[1] for key, found in (("request", sent), ("response", told)) if found is not None}
    return {"request": request, "response": response} | ({"spelling": names} if names else {})


def dumps(cassette: Cassette, file: str) -> bytes:
    """Serialise a cassette; equal cassettes give equal text. `file` is the name to use in errors.

    Raises:
        CassetteError: an interaction has no response, the cassette has no metadata or is too large, or the format
            cannot represent it.
    """
    if cassette.metadata is None:
        raise CassetteError(file, "a cassette is written with its origin; this one has none.")
    return _text(cassette, _metadata(cassette, cassette.metadata), file)


def dumps_of_test(cassette: Cassette, note: str, file: str) -> bytes:
    """Serialise the cassette of a user's test, with a note for readers.

    Raises:
        CassetteError: an interaction has no response, the cassette is too large, or the format cannot represent it.
    """
    return _text(cassette, {"note": note}, file)


def _text(cassette: Cassette, metadata: Mapping[str, Any], file: str) -> bytes:
    requests: list[Any] = []
    responses: list[dict[str, Any]] = []
    for index, interaction in enumerate(cassette.interactions):
        if interaction.response is None:
            raise CassetteError(file, "no answer came, so there is nothing to play.", f"interaction {index}")
        requests.append(_request(interaction.request))
        responses.append(_response(interaction.response))
    parts = {"requests": requests, "responses": responses, "metadata": metadata}
    text: str = _vcr("serialize").serialize(parts, _Serializer)
    data = text.encode()
    if len(data) > MAX_BYTES:
        raise CassetteError(file, f"{len(data)} bytes are more than the {MAX_BYTES} that a cassette may have.")
    if loads(data, file) != cassette:
        raise CassetteError(file, "this recording does not survive YAML, so nothing was written.")
    return data


def _metadata(cassette: Cassette, metadata: Metadata) -> dict[str, Any]:
    head = {"format": FORMAT, "origin": metadata.origin, "note": metadata.note}
    tail = {
        "interactions": len(cassette.interactions),
        "checksum": checksum(metadata, cassette.interactions),
    }
    return head | metadata.to_dict() | tail


def prepare() -> None:
    """Import the modules needed for writing. Call it before anything is sent, and before several threads could import
    them at once.
    """
    for module in ("serialize", "request"):
        _vcr(module)


def _vcr(module: str) -> Any:
    """Import a module of vcrpy on first use.

    A lock keeps threads that import at the same time from seeing half-initialised modules.
    """
    with _IMPORTING:
        return importlib.import_module(f"vcr.{module}")


_IMPORTING = Lock()


def _request(request: HttpRequest) -> Any:
    headers = dict(sorted(request.headers.items()))
    return _vcr("request").Request(request.method, request.url, request.body, headers)


def _response(response: HttpResponse) -> dict[str, Any]:
    delivered = stored_delivery(response.delivery)
    return {
        "status": {"code": response.status, "message": http.client.responses.get(response.status, "")},
        "headers": {name: [value] for name, value in sorted(response.headers.items())},
        "body": {"string": response.body},
        **({"delivery": delivered} if delivered else {}),
    }


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically. After a crash or with a full disk, the file has either the old or the new
    content.

    Raises:
        CassetteError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace_file(path, data)
    except OSError as error:
        raise CassetteError(str(path), f"cannot be written: {error.strerror}. What was there is unchanged.") from None
