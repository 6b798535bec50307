"""Removal of secrets from requests, responses and texts.

Headers are kept only if they are on an allow-list. Secrets of the run are found in all encodings: escaped for JSON,
percent-encoded, as HTML entities, as numbers, in hexadecimal, base32 or base64, broken over lines, split over stream
deltas, or cut off at the end of a body. A match of 16 characters is enough. In recordings, texts that look like a
provider's key or account id are removed as well.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from harness.apis import registry
from harness.cassettes.redact.json_strings import (
    REDACTED,
    ByteSlice,
    Redaction,
    Replacement,
    SecretSpan,
    StringGroup,
    apply_redactions,
    join_group,
    parts,
    pieces,
)
from harness.cassettes.redact.secret_encodings import (
    FRAME,
    Alphabet,
    DecodedText,
    SecretEncoding,
    encodings_of,
    fold,
    number_lists,
)
from harness.cassettes.redact.secret_patterns import FieldFilter, find_key_shapes, secrets, url_without_secrets, without
from harness.model.errors import HarnessError, UsageError
from harness.model.http import EXHAUSTED, Delivery, HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.platform import environment
from harness.platform.exceptions import traceback_text

T = TypeVar("T")

REQUEST_HEADERS = frozenset({"accept", "anthropic-beta", "anthropic-version", "content-type"})
RESPONSE_HEADERS = frozenset({"content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id", EXHAUSTED})

_HALF_ESCAPE = re.compile(rb"[\\%&][A-Za-z0-9\\%&#]{0,11}\Z")
"""Matches an incomplete escape at the end of a body."""


class Redactor:
    """Removes `secrets` (keys, tokens and passwords of this run) from HTTP messages, values and texts.

    With `shaped`, texts that look like a key or account id are removed, too; use it for exchanges with providers.
    `answered` lists the response headers that may be stored. Without secrets and `shaped`, bodies and texts are left
    unchanged.
    """

    def __init__(
        self, secrets: Collection[str] = (), *, shaped: bool = False, answered: Collection[str] = RESPONSE_HEADERS
    ) -> None:
        self._encodings = [encoding for secret in sorted(set(secrets)) for encoding in encodings_of(secret)]
        self._plain = [encoding for encoding in self._encodings if encoding.alphabet == "any case"]
        self._shaped = shaped
        self._answered = answered

    @classmethod
    def of_run(
        cls,
        urls: Iterable[str],
        *,
        shaped: bool = False,
        models: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Redactor:
        """Create a redactor for the secrets of a run: the providers' keys in the environment, the values of `headers`,
        and the secrets in base URLs. Names of APIs, targets and models never count as secrets.
        """
        # APIs of other packages have variables of their own.
        own = [name for api in registry.apis() for name in api.key_variables if os.environ.get(name)]
        servers = [name for api in registry.apis() if (name := api.base_url_variable) and os.environ.get(name)]
        at = (*urls, *environment.secret_addresses(), *(os.environ[name] for name in servers))
        in_urls = (secret for url in at for secret in secrets(url))
        in_headers = [part for value in (headers or {}).values() for part in (value, *value.split())]
        public = {*models, *(name for each in registry.targets() for name in (each.name, each.api, each.model))}
        every = [*environment.secret_values(), *(os.environ[name] for name in own), *in_urls, *in_headers]
        return cls([each for each in every if each not in public], shaped=shaped)

    def request(self, request: HttpRequest, *, fields: FieldFilter | None = None) -> HttpRequest:
        """Return the request without secrets and without the values of fields that `fields` selects."""
        headers = self._headers(request.headers, REQUEST_HEADERS)
        body = without(request.body, fields) if fields else request.body
        return HttpRequest(request.method, self.url(request.url), headers, self.body(body))

    def response(self, response: HttpResponse, *, fields: FieldFilter | None = None) -> HttpResponse:
        """Return the response without secrets and without the values of fields that `fields` selects."""
        headers = self._headers(response.headers, self._answered)
        body = without(response.body, fields) if fields else response.body
        body = self.body(body, whole=response.delivery.ending == "complete")
        return HttpResponse(response.status, headers, body, _still_fitting(response, body))

    def url(self, url: str) -> str:
        """Return a URL without credentials."""
        try:
            return self.text(url_without_secrets(url))
        except ValueError:  # no URL
            return self.text(url)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if not (self._encodings or self._shaped):
            return text
        data = text.encode("utf-8", "surrogatepass")
        found = [*self._known_spans(data), *(_shapes(data) if self._shaped else ())]
        taken = parts(data, StringGroup(((0, len(data)),), is_cut_up=True), found, 0)
        return apply_redactions(data, taken).decode("utf-8", "surrogatepass")

    def value(self, value: JSON) -> JSON:
        """Return a JSON value without secrets, even if they are split over list entries."""
        if not (self._encodings or self._shaped):
            return value
        data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        clean = self.body(data)
        return value if clean == data else json.loads(clean.decode("utf-8", "surrogatepass"))

    def result(self, value: T) -> T:
        """Return a copy of any value, with secrets removed from its texts, JSON values and exchanges."""
        return value if not (self._encodings or self._shaped) else cast("T", self._redact_value(value))

    def body(self, body: bytes, *, whole: bool = True) -> bytes:
        """Return a body without secrets. All other bytes are kept. If `whole` is false, the body may be cut off inside
        a secret.
        """
        if not (self._encodings or self._shaped):
            return body
        body = self._redact_frames(body)
        strings = pieces(body)
        taken = [*self._parts(body, StringGroup(((0, len(body)),), is_cut_up=False), 0, whole=whole)]
        for rank, groups in ((2, strings.groups), (1, strings.loose)):
            for group in groups:
                taken += self._parts(body, group, rank, whole=whole, opaque=strings.opaque)
        if self._shaped and find_key_shapes(DecodedText(body, squeezed=False).text):
            alone = (where for group in strings.groups if not group.is_cut_up for where in group.slices)
            for where in (*strings.alone, *(each for each in alone if each not in strings.opaque)):
                taken += parts(body, StringGroup((where,), is_cut_up=True), _shapes(body[slice(*where)]), 0)
        return apply_redactions(body, taken)

    @contextmanager
    def redact_exceptions(self) -> Generator[None, None, None]:
        """Context manager that removes secrets from the messages of exceptions.

        Raises:
            UsageError: replaces a harness error that contains a secret.
            RuntimeError: replaces any other exception that contains a secret.
        """
        try:
            yield
        except HarnessError as error:
            redacted = self.text(str(error))
            if redacted == str(error):
                raise
            raise UsageError(redacted) from None
        except Exception as error:
            text = traceback_text(error)
            redacted = self.text(text)
            if redacted == text:
                raise
            raise RuntimeError(redacted) from None

    def finds(self, data: bytes) -> bool:
        """Return whether `data` contains a secret of this run."""
        return next(self._known_spans(data), None) is not None

    def _redact_frames(self, body: bytes) -> bytes:
        """Return the body without secrets in those lines of an event stream that are not `data:` lines."""
        if not FRAME.search(body):
            return body
        lines = (StringGroup((match.span(1),), is_cut_up=True) for match in FRAME.finditer(body))
        return apply_redactions(body, [part for line in lines for part in self._parts(body, line, 0, whole=True)])

    def _headers(self, headers: Mapping[str, str], allowed: Collection[str]) -> dict[str, str]:
        return {
            name: self.url(value) if name == "location" else self.text(value)
            for name, value in headers.items()
            if name in allowed
        }

    def _parts(
        self, body: bytes, group: StringGroup, rank: int, *, whole: bool, opaque: Collection[ByteSlice] = ()
    ) -> Iterator[Redaction]:
        """Yield the redactions for a text that may be in several pieces, or for the whole body. Opaque strings are not
        checked for key shapes, because they may look like a key by coincidence.
        """
        text = join_group(body, group)
        found = [*self._known_spans(text, whole=whole)] if len(group.slices) > 1 or not rank else []
        if self._shaped and group.is_cut_up and not any(each in opaque for each in group.slices):
            found += _shapes(text)
        return parts(body, group, found, rank)

    def _known_spans(self, data: bytes, *, whole: bool = True) -> Iterator[SecretSpan]:
        """Yield the positions of known secrets. If `whole` is false, `data` may end with the beginning of a secret."""
        if not self._encodings:
            return
        view = DecodedText(data, squeezed=True)
        for encoding, begin, end in self._hits(view.text):
            yield SecretSpan(
                *view.source(begin, end), Replacement.LETTERS if encoding.alphabet == "base64" else Replacement.CUT
            )
        for begin, end, parsed in number_lists(data):
            if any(next(encoding.spans(parsed.lower()), None) for encoding in self._plain):
                yield SecretSpan(begin, end, Replacement.NUMBERS)
        if not whole:
            yield from self._begun_spans(data)

    def _hits(self, text: bytes) -> list[tuple[SecretEncoding, int, int]]:
        texts: dict[Alphabet, bytes] = {each: fold(text, each) for each in ("any case", "base64")}
        return [(encoding, *span) for encoding in self._encodings for span in encoding.spans(texts[encoding.alphabet])]

    def _begun_spans(self, data: bytes) -> Iterator[SecretSpan]:
        half = _HALF_ESCAPE.search(data, max(len(data) - 12, 0))
        for each in (DecodedText(text, squeezed=True) for text in ([data, data[: half.start()]] if half else [data])):
            for encoding in self._encodings:
                begin = encoding.find_beginning(fold(each.text, encoding.alphabet))
                if begin is not None:
                    yield SecretSpan(each.source(begin, len(each.text))[0], len(data))

    def _redact_value(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, HttpRequest | HttpResponse):
            return self._redact_exchange(value)
        if isinstance(value, list | dict):
            return self.value(cast("JSON", value))
        if isinstance(value, tuple):
            return tuple(map(self._redact_value, cast("tuple[Any, ...]", value)))
        if is_dataclass(value) and not isinstance(value, type):
            changed = {each.name: self._redact_value(getattr(value, each.name)) for each in fields(value) if each.init}
            return replace(value, **changed)
        return value

    def _redact_exchange(self, message: HttpRequest | HttpResponse) -> HttpRequest | HttpResponse:
        headers = {name: self.text(value) for name, value in message.headers.items()}
        clean = self.request(message) if isinstance(message, HttpRequest) else self.response(message)
        return replace(clean, headers=headers)


def mask_headers(headers: Mapping[str, str], allowed: Collection[str]) -> dict[str, str]:
    """Return all headers. Values of headers that are not `allowed` are replaced by a placeholder."""
    return {name: value if name in allowed else REDACTED for name, value in headers.items()}


def _shapes(data: bytes) -> list[SecretSpan]:
    view = DecodedText(data, squeezed=False)
    return [SecretSpan(*view.source(begin, end)) for begin, end in find_key_shapes(view.text)]


def _still_fitting(response: HttpResponse, body: bytes) -> Delivery:
    """Return the delivery for a changed body. Only cuts up to the first change are kept."""
    delivery = response.delivery
    if not delivery.cuts or body == response.body:
        return delivery
    pairs = zip(response.body, body, strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(body), len(response.body)))
    return replace(delivery, cuts=tuple(cut for cut in delivery.cuts if cut <= same))
