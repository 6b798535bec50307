"""Reading and writing of cassette files in vcrpy's format, version 1.

Files of several projects can be read. Supported variants are: `!!binary` and compressed bodies, `base64_string`,
pydantic-ai's `parsed_body`, the `status_code` and `content` of early httpx recordings, header values with or without
lists, and interactions without a response. harness adds two keys of its own: `delivery` (how a response arrived) and
`spelling` (the original format of an indented body).

Files are written atomically and with vcrpy's serialisation. The text is formatted for human readers: provenance first,
bodies as text, JSON indented, event streams as blocks. Before writing, a check ensures that the exact bytes can be
restored.
"""

from __future__ import annotations

import base64
import binascii
import glob
import http.client
import importlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, TypeGuard

import yaml
from pydantic import ValidationError

from harness.cassettes.cassette import (
    FORMAT,
    FORMATS,
    Cassette,
    Interaction,
    Metadata,
    checksum,
    is_mapping,
    loaded_delivery,
    stored_delivery,
)
from harness.cassettes.cassette_text import MAX_BYTES, RESTORE, indent_body, parse, restore_body
from harness.cassettes.content_encoding import decode
from harness.model.errors import CassetteError, CassetteMissing
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import files
from harness.platform.files import read_file

_OBSOLETE_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that are no longer correct once the body is decoded."""


def read(path: Path) -> Cassette:
    """Read a cassette file.

    Raises:
        CassetteMissing: the file does not exist.
        CassetteError: the file cannot be read, or is not a complete cassette.
    """
    with _opening(path):
        data = read_file(path, MAX_BYTES)
    return loads(data, str(path))


@contextmanager
def _opening(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except FileNotFoundError:
        if path.is_symlink():
            raise CassetteError(str(path), "a symbolic link that leads nowhere. Remove the link.") from None
        raise CassetteMissing(str(path), f"there is no such cassette{_of_another_model(path)}.") from None
    except OSError as error:
        raise CassetteError(str(path), f"cannot be opened: {error.strerror}.") from None


def _of_another_model(path: Path) -> str:
    """Return a hint that recordings of other models exist for this target, or an empty string. Their files are
    `TARGET.yaml` or `TARGET@MODEL.yaml`.
    """
    target, _, _ = path.stem.partition("@")
    variant = ".stream" if path.stem.endswith(".stream") else ""
    target = target.removesuffix(".stream")
    others = sorted(path.parent.glob(f"{glob.escape(target)}@*{variant}.yaml"))
    models = [other.stem.removesuffix(variant).partition("@")[2] for other in others if other != path]
    models = [model for model in models if variant or not model.endswith(".stream")]
    if not models:
        return ""
    return f"; there is one of {models[0]}: --model {target}={models[0]} replays it"


def loads(data: bytes, file: str) -> Cassette:
    """Read a cassette from its text. `file` is the name to use in errors.

    Raises:
        CassetteError: the text is not a complete cassette.
    """
    return _Reader(file).cassette(parse(data, file))


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._unpacked = 0

    def cassette(self, document: Any) -> Cassette:
        if not is_mapping(document) or "interactions" not in document:
            self._refuse("not a cassette: vcrpy's format has `version` and `interactions` at its top.")
        version: Any = document.get("version")
        if type(version) is not int or version != 1:
            stated = "missing" if version is None else f"{_describe(version)}, not 1"
            reason = f"`version` is {stated}: another format, or a truncated file. {RESTORE}"
            self._refuse(reason)
        entries: Any = document["interactions"]
        if not _is_list(entries):
            self._refuse(f"`interactions` is {_kind(entries)} and not a list. {RESTORE}", "interactions")
        interactions = tuple(self._interaction(entry, index) for index, entry in enumerate(entries))
        metadata: Any = document.get("metadata")
        if not is_mapping(metadata) or not str(metadata.get("format")).startswith("harness "):
            return Cassette(interactions)
        return Cassette(interactions, self.metadata(metadata, interactions))

    def metadata(self, stored: dict[Any, Any], interactions: tuple[Interaction, ...]) -> Metadata:
        if stored["format"] not in FORMATS:
            known = " and ".join(map(repr, FORMATS))
            reason = f"written in the format {stored['format']!r}; this version reads {known}. Record it again."
            self._refuse(reason, "metadata.format")
        values = {str(key): value for key, value in stored.items()}
        stated = {key: values.pop(key, None) for key in ("format", "note", "interactions", "checksum")}
        if stated["interactions"] != len(interactions):
            reason = (
                f"{len(interactions)} of {stated['interactions']} interactions are there: the file was cut or edited."
            )
            self._refuse(f"{reason} {RESTORE}", "metadata.interactions")
        try:
            metadata = Metadata.from_dict(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in ("metadata", *first["loc"]))
            self._refuse(f"{first['msg']}. The file was edited. {RESTORE}", key)
        expected = (metadata.note, checksum(metadata, interactions))
        if (stated["note"], stated["checksum"]) != expected:
            reason = "the content does not match its checksum: the file was cut or edited."
            self._refuse(f"{reason} {RESTORE}", "metadata.checksum")
        return metadata

    def _interaction(self, entry: Any, index: int) -> Interaction:
        place = f"interaction {index}"
        if not is_mapping(entry) or not is_mapping(entry.get("request")):
            self._refuse(f"no request in it. The file was cut or edited. {RESTORE}", place)
        response: Any = entry.get("response")
        if response is not None and not is_mapping(response):
            self._refuse(f"the response is {_kind(response)} and not a mapping. {RESTORE}", place)
        read = Interaction(
            self._request(entry["request"], f"{place}, request"),
            self._response(response, f"{place}, response") if response else None,
        )
        return self._as_spelled(read, entry["spelling"], f"{place}.spelling") if "spelling" in entry else read

    def _as_spelled(self, read: Interaction, names: Any, place: str) -> Interaction:
        if not is_mapping(names):
            self._refuse(f"{_kind(names)} and not a mapping. {RESTORE}", place)
        request, response = read.request, read.response
        for key, name in names.items():
            try:
                if key == "request":
                    request = replace(request, body=restore_body(request.body, name))
                elif key == "response" and response is not None:
                    response = replace(response, body=restore_body(response.body, name))
                else:
                    self._refuse(f"no body is called {_describe(key)}. {RESTORE}", place)
            except ValueError as error:
                self._refuse(f"{error}. {RESTORE}", f"{place}.{key}")
        return Interaction(request, response)

    def _request(self, stored: dict[Any, Any], place: str) -> HttpRequest:
        headers, body = self._content(stored, "body", place)
        method = self._text(stored.get("method"), f"{place}.method").upper()
        return HttpRequest(method, self._text(stored.get("uri"), f"{place}.uri"), headers, body)

    def _response(self, stored: dict[Any, Any], place: str) -> HttpResponse:
        status: Any = stored.get("status", stored.get("status_code"))
        if is_mapping(status):
            status = status.get("code")
        if not isinstance(status, int) or not 100 <= status <= 999:
            self._refuse(f"the status is {_describe(status)} and no HTTP status. {RESTORE}", place)
        headers, body = self._content(stored, "body" if "body" in stored else "content", place)
        if "delivery" not in stored:
            return HttpResponse(int(status), headers, body)
        try:
            return HttpResponse(int(status), headers, body, loaded_delivery(stored["delivery"]))
        except ValueError as error:
            self._refuse(f"{error}. {RESTORE}", f"{place}.delivery")

    def _content(self, stored: dict[Any, Any], body_key: str, place: str) -> tuple[dict[str, str], bytes]:
        headers = self._headers(stored.get("headers"), f"{place}.headers")
        body = self._body(stored.get(body_key), f"{place}.body")
        if not body and stored.get("parsed_body") is not None:
            body = self._body_bytes(stored["parsed_body"], f"{place}.parsed_body")
        encoding = headers.get("content-encoding")
        if encoding is not None:
            try:
                body = decode(body, encoding)
            except ValueError as error:
                self._refuse(f"{error}. {RESTORE}", f"{place}.body")
            self._unpacked += len(body)
            if self._unpacked > MAX_BYTES:
                self._refuse(f"the bodies up to here unpack to more than {MAX_BYTES} bytes. {RESTORE}", f"{place}.body")
            headers = {name: value for name, value in headers.items() if name not in _OBSOLETE_HEADERS}
        return headers, body

    def _headers(self, stored: Any, place: str) -> dict[str, str]:
        if stored is None:
            return {}
        if not is_mapping(stored):
            self._refuse(f"headers are {_kind(stored)} and not a mapping. {RESTORE}", place)
        headers: dict[str, str] = {}
        for name, value in stored.items():
            values: list[Any] = value if _is_list(value) else [value]
            key = self._text(name, place).lower()
            joined = ", ".join(self._text(each, f"{place}.{key}") for each in values if each is not None)
            headers[key] = f"{headers[key]}, {joined}" if key in headers else joined
        return headers

    def _body(self, stored: Any, place: str) -> bytes:
        if stored is None:
            return b""
        if isinstance(stored, bytes):
            return stored
        if is_mapping(stored):
            if "base64_string" in stored:
                return self._base64(stored["base64_string"], place)
            if stored.get("encoding") == "base64":
                return self._base64(stored.get("string"), place)
            if stored and "string" not in stored:
                self._refuse("a body without `string` or `base64_string`, the forms that are read.", place)
            return self._body(stored.get("string"), place) if not is_mapping(stored.get("string")) else b""
        return self._text(stored, place).encode()

    def _base64(self, stored: Any, place: str) -> bytes:
        text = stored.decode("ascii", "replace") if isinstance(stored, bytes) else self._text(stored, place)
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            self._refuse(f"the body is not base64, as its key says. {RESTORE}", place)

    def _body_bytes(self, value: Any, place: str) -> bytes:
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            self._refuse(f"not a JSON value. {RESTORE}", place)

    def _text(self, value: Any, place: str) -> str:
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            self._refuse(f"{_kind(value)} where text belongs. {RESTORE}", place)
        try:
            value.encode()
        except UnicodeEncodeError:
            self._refuse(f"a lone surrogate, which no text has. {RESTORE}", place)
        return value

    def _refuse(self, reason: str, place: str | None = None) -> NoReturn:
        raise CassetteError(self._file, reason, place)


_KINDS: Mapping[str, str] = {
    "NoneType": "nothing",
    "dict": "a mapping",
    "list": "a list",
    "str": "text",
    "bytes": "binary data",
    "bool": "a truth value",
    "int": "a number",
    "float": "a number",
}


def _kind(value: Any) -> str:
    name = type(value).__name__
    return _KINDS.get(name, name)


def _describe(value: Any) -> str:
    return _kind(value) if value is None or isinstance(value, dict | list) else repr(value)[:80]


_ONE_LINE = 2**31 - 1
"""Maximum line width of libyaml. With it, no text is folded."""


def _represent_text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def _ignore_aliases(_dumper: Any, _data: Any) -> bool:
    return True  # "ignore": never write an alias


def _dumper() -> Any:
    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("_Dumper", (base,), {"ignore_aliases": _ignore_aliases})
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
    is_matched_as_json = "application/json" in content_type.lower()  # vcrpy compares other bodies byte by byte
    sent = indent_body(request["body"]) if is_matched_as_json else None
    received = indent_body(response["body"]["string"])
    if sent is not None:
        request = {**request, "body": sent[0]}
    if received is not None:
        response = {**response, "body": {"string": received[0]}}
    names = {key: found[1] for key, found in (("request", sent), ("response", received)) if found is not None}
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
            raise CassetteError(file, "no answer came, so there is nothing to replay.", f"interaction {index}")
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


def write_file(path: Path, data: bytes) -> None:
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
