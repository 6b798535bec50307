"""The client, embeddings, and the translation of the SDK's exceptions. Importing this module imports the SDK."""

from __future__ import annotations

import json
import re
import ssl
from contextlib import closing, contextmanager
from functools import cached_property
from http import HTTPStatus
from threading import local
from typing import TYPE_CHECKING, Any, cast

import httpx2
from google import genai
from google.genai import errors, types

from harness.adapters._common import as_object, loads, vector
from harness.adapters.gemini.requests import encode
from harness.adapters.gemini.responses import build_error, read_response, read_stream
from harness.model.errors import ChatError, ConnectionFailed, MalformedResponse, Unsupported

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from harness.model.messages import JSON, ChatRequest, ChatResponse, StreamEvent
    from harness.model.protocols import Endpoint

TIMEOUT_SECONDS = 600.0
"""Replaces the SDK's default, which is to wait forever."""

API_VERSION = "v1"
"""The SDK's default, set explicitly to override GOOGLE_GENAI_API_VERSION."""

_EMPTY_CONTENT = types.Content()
"""Empty contents for the SDK, which would otherwise inspect every field. The real contents are sent in the extra body.
"""

_MAX_TEXTS_PER_REQUEST = 100

_VERSIONED = re.compile(r"(?P<base>.+)/(?P<version>v\d+(?:(?:alpha|beta)\d*)?)/?")


class _Config(types.GenerateContentConfig):
    """Settings whose `in` operator is fast, because it always returns false.

    The SDK tests for many fields with `in`, and none of them is present. Pydantic would iterate over all fields for
    each test.
    """

    def __contains__(self, _field: object) -> bool:
        return False


class GeminiClient:
    """A `StreamingChatClient` of one Gemini model. A base URL may end in an API version (`…/v1beta`)."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._model = model
        versioned = _VERSIONED.fullmatch(endpoint.base_url)
        self._own_http = None if endpoint.http_client else httpx2.Client(follow_redirects=False, trust_env=False)
        self._http = cast("httpx2.Client", endpoint.http_client or self._own_http)
        # The SDK also sets up asynchronous clients and websockets. With this context they do not read the system's
        # certificates, which would take most of the time of creating a client.
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._api_key = endpoint.api_key
        self._options = types.HttpOptions(
            base_url=versioned["base"] if versioned else endpoint.base_url,
            api_version=versioned["version"] if versioned else API_VERSION,
            timeout=round(TIMEOUT_SECONDS * 1000),
            async_client_args={"verify": unused, "ssl": unused},
        )
        self._sdk = self._connect(self._http)

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        parameters = self._parameters(request, should_return_http_response=True)
        models = cast("Any", self._sdk.models)  # its annotations name optional packages
        with _failures_translated():
            response: types.GenerateContentResponse = models.generate_content(**parameters)
        raw = response.sdk_http_response
        return read_response(loads((raw and raw.body) or ""), request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`."""
        with closing(self._open_stream(request)) as response, _transport_failures_translated():
            yield from read_stream(response.iter_bytes(), request)

    def embed(self, texts: Sequence[str], dimensions: int) -> bytes:
        """Send one request for the vectors of these texts and return the response body."""
        http, models = self._bypass
        # a content for each text: on gemini-embedding-2, bare strings become parts of one content, with one vector
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        config = types.EmbedContentConfig(output_dimensionality=dimensions)
        with _failures_translated():
            models.embed_content(model=self._model, contents=contents, config=config)
        with closing(http.response) as response, _transport_failures_translated():
            return response.read()

    def close(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        self._sdk.close()
        if self._own_http is not None:
            self._own_http.close()

    def _connect(self, http: httpx2.Client) -> genai.Client:
        return genai.Client(
            api_key=self._api_key,
            vertexai=False,
            debug_config=genai.client.DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
            http_options=self._options.model_copy(update={"httpx_client": http}),
        )

    @cached_property
    def _bypass(self) -> tuple[ResponseKeeper, Any]:
        """A `ResponseKeeper`, and the `models` interface of an SDK client that sends its requests through it. Both are
        created on first use.
        """
        http = ResponseKeeper(self._http)
        return http, self._connect(http).models

    def _open_stream(self, request: ChatRequest) -> httpx2.Response:
        """Send a streamed request and return the response, with its body unread."""
        http, models = self._bypass
        with _failures_translated():
            for _ in models.generate_content_stream(**self._parameters(request)):
                pass  # iterating sends the request; the body bypasses the SDK
        return http.response

    def _parameters(self, request: ChatRequest, **settings: Any) -> dict[str, Any]:
        # The body is an extra body: the SDK's types drop unknown fields, rename others and write signatures in another
        # alphabet (gemini-casing, gemini-sdk-drops-fields; `test_metadata_of_tool_and_request`).
        body = cast("dict[str, Any]", encode(request, self._model))
        headers = body.pop("extra_headers", None)
        _check_text(body)
        config = _Config(
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            http_options=types.HttpOptions(extra_body=body, headers=headers),
            **settings,
        )
        return {"model": request.model or self._model, "contents": _EMPTY_CONTENT, "config": config}


def _check_text(body: dict[str, Any]) -> None:
    """Raise `Unsupported` for a lone surrogate, which the SDK would escape to invalid text."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Unsupported("gemini", "text", f"it cannot be written as UTF-8: {error.reason}") from error


@contextmanager
def _failures_translated() -> Generator[None]:
    try:
        with _transport_failures_translated():
            yield
    except errors.APIError as error:
        raise translate_error(error) from error
    except UnicodeDecodeError as error:
        raise MalformedResponse("the body is not UTF-8") from error
    except ValueError as error:  # the SDK rejects a request before it is sent
        raise Unsupported("gemini", "the request", str(error)) from error


@contextmanager
def _transport_failures_translated() -> Generator[None]:
    try:
        yield
    except (httpx2.HTTPError, OSError) as error:
        raise ConnectionFailed(str(error) or type(error).__name__) from error


def translate_error(error: errors.APIError) -> ChatError:
    """Translate a response other than HTTP 200 to a `ChatError`."""
    if 300 <= error.code < 400:
        return ConnectionFailed(f"redirected with HTTP {error.code}, which is refused")
    if error.code < 300:
        return MalformedResponse(f"HTTP {error.code} is not an answer", error.code)
    untyped = cast("Any", error)  # its annotations name optional packages
    body = as_object(untyped.details)
    text = str(body.get("message") or "")[:500]
    return build_error(error.code, as_object(body.get("error")), text, untyped.response.headers)


class ResponseKeeper(httpx2.Client):
    """HTTP client for an SDK client. It sends requests through `http` and keeps the successful responses.

    The SDK gives no raw access to streams, loses unknown fields and accepts a truncated stream
    (gemini-sdk-drops-fields). The SDK therefore gets a successful response without its body. It gets an error response
    unchanged and raises an exception for it. The caller closes `response`.
    """

    def __init__(self, http: httpx2.Client) -> None:
        # no super().__init__(): `http` builds and sends all requests, and a second connection pool takes time
        self._http = http
        self._kept = local()

    @property
    def response(self) -> httpx2.Response:
        """The successful response to the last request of this thread."""
        return self._kept.response

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:
        """Build a request with `http`."""
        return self._http.build_request(*args, **options)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request with `http` and keep a successful response."""
        response = self._http.send(request, **options)
        if response.status_code != HTTPStatus.OK:
            return response
        self._kept.response = response
        return httpx2.Response(HTTPStatus.OK, request=request)


class GeminiEmbeddings:
    """An `EmbeddingProvider` of Gemini: `models/…:batchEmbedContents`.

    - A request has at most 100 texts: "at most 100 requests can be in one batch" (HTTP 400).
    - Each text is sent as a separate content. For gemini-embedding-2, the SDK converts a list of bare strings to a
      single content. The API then returns a single vector without an error (googleapis/python-genai, issue 2523).
    - Every request has `outputDimensionality`. The API truncates vectors without scaling them: those of
      gemini-embedding-001 are unit length only with all 3072 dimensions. Compare vectors by cosine similarity.
    - The response has no indices; the vectors are in the order of the texts.
    - No task type is sent. gemini-embedding-2 does not support task types; put such an instruction into the text.
    """

    provider = "gemini"

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = GeminiClient(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; see `harness.model.protocols.EmbeddingProvider.embed`."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _MAX_TEXTS_PER_REQUEST):
            batch = texts[start : start + _MAX_TEXTS_PER_REQUEST]
            vectors += _vectors(loads(self._client.embed(batch, self.dimensions)), len(batch), self.dimensions)
        return vectors

    def close(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        self._client.close()


def _vectors(body: JSON, count: int, dimensions: int) -> list[list[float]]:
    """Return the vectors of a response. Raises `MalformedResponse`."""
    match body:
        case {"embeddings": list(entries)}:
            pass
        case _:
            raise MalformedResponse("there are no embeddings")
    if len(entries) != count:
        raise MalformedResponse(f"{len(entries)} embeddings for {count} texts")
    vectors: list[list[float]] = []
    for place, entry in enumerate(entries):
        match entry:
            case {"values": list(numbers)}:
                vectors.append(vector(numbers, place, dimensions))
            case _:
                raise MalformedResponse(f"embedding {place} is not a vector")
    return vectors
