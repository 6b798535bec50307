"""The SDK: a client of it, how its answers are read, and what its failures mean here. Imported only when a client is
wanted."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, cast

import httpx2
import openai

from harness.contract.errors import ConnectionFailed, MalformedResponse, ProviderError, Unsupported, provider_error

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from contextlib import AbstractContextManager

    from harness.contract.protocols import Endpoint


OMIT = openai.omit
"""What the SDK leaves out of a body, of a parameter that has to be given."""


class Sdk(openai.OpenAI):
    """The SDK's client, without what it takes from the environment.

    Its HTTP client is that of the endpoint, or its own, which `release` closes.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._owned = httpx2.Client(follow_redirects=False, trust_env=False) if endpoint.http_client is None else None
        super().__init__(
            api_key=endpoint.api_key,
            admin_api_key="",
            organization="",  # keeps the SDK from looking; the header itself goes below
            project="",
            webhook_secret="",
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=self._owned or cast("httpx2.Client", endpoint.http_client),
        )
        self.organization = None
        self.project = None
        self._custom_headers = {}

    def release(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        if self._owned:
            self._owned.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """The SDK's response to one request, its body not read yet."""

    response: Any

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status_code

    @property
    def is_whole(self) -> bool:
        """It is one JSON text and no stream."""
        return self.response.headers.get("content-type", "").startswith("application/json")

    def read(self) -> bytes:
        """The whole body."""
        return self.response.read()

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives. Raises `ConnectionFailed` where it breaks off."""
        try:
            yield from self.response.iter_bytes()
        except (httpx2.TransportError, OSError) as error:
            raise ConnectionFailed(f"the stream broke off: {error}") from error


@contextmanager
def exchange(call: AbstractContextManager[Any], api: str) -> Generator[Answer]:
    """Send the request of `call` and read its answer inside: the one door through which failures of the SDK come, as
    errors of `harness.contract.errors`."""
    try:
        with call as response:
            yield Answer(response)
    except openai.APIStatusError as error:
        if error.status_code < 400:
            raise ConnectionFailed(f"HTTP {error.status_code}, a redirect, which is not followed") from error
        raise _provider_error(error) from error
    except openai.APIConnectionError as error:
        raise ConnectionFailed(str(error.__cause__ or error)) from error
    except httpx2.TimeoutException as error:  # raised by the transport while the body was read
        raise ConnectionFailed(f"no end of the answer: {error}") from error
    except httpx2.RequestError as error:
        raise MalformedResponse(f"the body was cut: {error}") from error
    except OSError as error:  # of an injected transport: the SDK passes on what is none of its HTTP client's
        raise ConnectionFailed(str(error) or type(error).__name__) from error
    except UnicodeEncodeError as error:
        raise Unsupported(api, "text", f"it cannot be written as UTF-8: {error.reason}") from error


def _provider_error(error: openai.APIStatusError) -> ProviderError:
    message = error.message
    match error.body:
        case {"message": str(text)} | str(text) if text:
            message = text
        case _:
            pass
    return provider_error(
        error.status_code,
        message,
        code=error.code or error.type,
        retry_after=_retry_after(error.response.headers),
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: `retry-after-ms`, else `retry-after`, which is seconds or a date."""
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        else:
            seconds = _seconds(headers.get("retry-after", ""))
    except (ValueError, OverflowError):  # neither, or a date in a year that no clock has
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
