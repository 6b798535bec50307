"""Exceptions of third-party clients, translated to the harness's errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from http import HTTPStatus

from harness.bridge.error_translation import failures
from harness.model.errors import RECOGNISED_CLIENT, ChatError, HarnessError, Unsupported, provider_error

_MIN_COMMON_LENGTH = 12
"""Length of the text before a phrase that must also be in the client's source, so that the phrase counts as the
client's own.
"""

_HTTP_STATUS = re.compile(r"\b([45]\d\d)\b")


@contextlib.contextmanager
def client_failures(source: str = "") -> Generator[None]:
    """Translate exceptions as `failures` does. Any other exception of the client is translated by the HTTP status in
    its text. Without a status, a `RuntimeError` or an exception of a class that is not built in becomes a `ChatError`.
    """
    try:
        with failures(), _unsupported_requests(source):
            yield
    except (HarnessError, ChatError):
        raise
    except Exception as error:
        text = str(error)
        if isinstance(error, LookupError | TypeError | AttributeError):
            raise
        found = _HTTP_STATUS.search(text)
        status = int(found[1]) if found else HTTPStatus.BAD_REQUEST if "invalid_request" in text else None
        if status is not None:
            raise provider_error(status, text) from error
        if isinstance(error, RuntimeError) or type(error).__module__ != "builtins":
            raise ChatError(text) from error
        raise


@contextlib.contextmanager
def _unsupported_requests(source: str) -> Generator[None]:
    """Raise `Unsupported` if an exception says in words of the client's `source` that something is not supported.

    The same words of a provider, which a client may put into its exception, are an error of the provider.
    """
    try:
        yield
    except Exception as error:
        before, word, _ = (text := str(error)).partition("support")
        if word and before[-_MIN_COMMON_LENGTH:] + word in source:
            raise Unsupported(RECOGNISED_CLIENT, "this request", text) from error
        raise
