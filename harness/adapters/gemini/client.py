"""The client, the way past the SDK for the bodies of its answers, its failures, and embeddings."""

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

from harness.adapters._common import loads, vector
from harness.adapters.gemini import decode, encode
from harness.adapters.gemini.stream import answer
from harness.contract.errors import ChatError, ConnectionFailed, MalformedResponse, Unsupported

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Endpoint

TIMEOUT = 600.0
"""Seconds. The SDK by itself waits for ever."""

API_VERSION = "v1"
"""The SDK's own default, given so that GOOGLE_GENAI_API_VERSION does not replace it."""

_NOTHING = types.Content()
"""What is said, for the SDK: which asks a text for each field that a part can have."""

_MOST_TEXTS = 100

_VERSIONED = re.compile(r"(?P<base>.+)/(?P<version>v\d+(?:(?:alpha|beta)\d*)?)/?")


class _Config(types.GenerateContentConfig):
    """Settings that are quickly looked through: the SDK asks for each of its fields whether it is in them, to which the
    answer is always no, and which pydantic finds out by walking all of them."""

    def __contains__(self, _field: object) -> bool:
        return False


class GeminiClient:
    """A `StreamingChatClient` of one Gemini model.

    A base URL that ends in an API version (`…/v1beta`) chooses that one.
    """

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._model = model
        versioned = _VERSIONED.fullmatch(endpoint.base_url)
        self._own_http = None if endpoint.http_client else httpx2.Client(follow_redirects=False, trust_env=False)
        self._http = cast("httpx2.Client", endpoint.http_client or self._own_http)
        # The SDK sets up asynchronous clients and websockets too. They are not used here, and this spares them
        # reading the system's certificates, which is most of the time that a client takes to make.
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._api_key = endpoint.api_key
        self._options = types.HttpOptions(
            base_url=versioned["base"] if versioned else endpoint.base_url,
            api_version=versioned["version"] if versioned else API_VERSION,
            timeout=round(TIMEOUT * 1000),
            async_client_args={"verify": unused, "ssl": unused},
        )
        self._sdk = self._connected(self._http)

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient`."""
        parameters = self._parameters(request, should_return_http_response=True)
        models = cast("Any", self._sdk.models)  # its annotations name optional packages
        with _failures_translated():
            response: types.GenerateContentResponse = models.generate_content(**parameters)
        raw = response.sdk_http_response
        return decode.answer(loads((raw and raw.body) or ""), request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient`."""
        with closing(self._opened(request)) as response, _transport_failures_translated():
            yield from answer(response.iter_bytes(), request)

    def embedded(self, texts: Sequence[str], dimensions: int) -> bytes:
        """The body of the answer to one request for the vectors of these texts."""
        http, models = self._past_the_sdk
        # A content for each text: bare strings become the parts of one content on gemini-embedding-2, and one vector.
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        config = types.EmbedContentConfig(output_dimensionality=dimensions)
        with _failures_translated():
            models.embed_content(model=self._model, contents=contents, config=config)
        with closing(http.response) as response, _transport_failures_translated():
            return response.read()

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._sdk.close()
        if self._own_http is not None:
            self._own_http.close()

    def _connected(self, http: httpx2.Client) -> genai.Client:
        return genai.Client(
            api_key=self._api_key,
            vertexai=False,
            debug_config=genai.client.DebugConfig(client_mode=None, replays_directory=None, replay_id=None),
            http_options=self._options.model_copy(update={"httpx_client": http}),
        )

    @cached_property
    def _past_the_sdk(self) -> tuple[BodyKeeper, Any]:
        """The models of an SDK's client whose answers go past it, and what keeps them."""
        http = BodyKeeper(self._http)
        return http, self._connected(http).models

    def _opened(self, request: ChatRequest) -> httpx2.Response:
        """The answer to a streamed request, its body still to be read."""
        http, models = self._past_the_sdk
        with _failures_translated():
            for _ in models.generate_content_stream(**self._parameters(request)):
                pass  # to send the request takes iterating; the body goes past the SDK
        return http.response

    def _parameters(self, request: ChatRequest, **settings: Any) -> dict[str, Any]:
        # The SDK's types drop unknown fields, rename others and write signatures in another alphabet (gemini-casing,
        # gemini-sdk-drops-fields; `test_metadata_of_tool_and_request`): the body goes beside them.
        body = cast("dict[str, Any]", encode.body(request, self._model))
        _check_text(body)
        config = _Config(
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            http_options=types.HttpOptions(extra_body=body),
            **settings,
        )
        return {"model": request.model or self._model, "contents": _NOTHING, "config": config}


def _check_text(body: dict[str, Any]) -> None:
    """Raises `Unsupported`: half of a surrogate pair, which the SDK would write as an escape of no character."""
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
        raise translated(error) from error
    except UnicodeDecodeError as error:
        raise MalformedResponse("the body is not UTF-8") from error
    except ValueError as error:  # the SDK refuses a request before it is sent
        raise Unsupported("gemini", "the request", str(error)) from error


@contextmanager
def _transport_failures_translated() -> Generator[None]:
    try:
        yield
    except (httpx2.HTTPError, OSError) as error:
        raise ConnectionFailed(str(error) or type(error).__name__) from error


def translated(error: errors.APIError) -> ChatError:
    """Translate a response other than HTTP 200 into an error of the contract."""
    if 300 <= error.code < 400:
        return ConnectionFailed(f"redirected with HTTP {error.code}, which is refused")
    if error.code < 300:
        return MalformedResponse(f"HTTP {error.code} is no answer", error.code)
    untyped = cast("Any", error)  # its annotations name optional packages
    body = decode.as_object(untyped.details)
    text = str(body.get("message") or "")[:500]
    return decode.build_error(error.code, decode.as_object(body.get("error")), text, untyped.response.headers)


class BodyKeeper(httpx2.Client):
    """The HTTP client that the SDK gets for streamed requests: sends through `http` and keeps the answer.

    The SDK, which has no raw access to streams, loses unknown fields and takes a cut stream for whole
    (gemini-sdk-drops-fields). So it sees an accepted answer without its body, and a refusal as it is, which is its to
    raise. `response` is the accepted answer to the last request of this thread, not read yet; it is set once the SDK
    has sent the request, and the caller's to close.
    """

    def __init__(self, http: httpx2.Client) -> None:
        # Not super().__init__(): `http` builds and sends everything, and a connection pool of its own takes time.
        self._http = http
        self._kept = local()

    @property
    def response(self) -> httpx2.Response:
        """The accepted answer to the last request that this thread has sent."""
        return self._kept.response

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:
        """Return the request that `http` builds."""
        return self._http.build_request(*args, **options)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send through `http`."""
        response = self._http.send(request, **options)
        if response.status_code != HTTPStatus.OK:
            return response
        self._kept.response = response
        return httpx2.Response(HTTPStatus.OK, request=request)


class GeminiEmbeddings:
    """An `EmbeddingProvider` of Gemini: `models/…:batchEmbedContents`.

    - A request holds at most 100 texts: "at most 100 requests can be in one batch" (HTTP 400).
    - Each text is a content of its own. Several parts of one content make one vector, which is what the SDK makes of a
      list of bare strings for gemini-embedding-2, without an error (googleapis/python-genai, issue 2523).
    - `outputDimensionality` goes out with every request. A vector that was shortened this way is cut off, not scaled:
      that of gemini-embedding-001 has the length 1 only with all its 3072 dimensions. Vectors are passed on to the last
      bit, so compare them by their cosine, which does not mind, or scale them first.
    - The answer names no index: its vectors are in the order of the texts.
    - No task type is sent. gemini-embedding-2 has none, and takes such an instruction in the text.
    """

    provider = "gemini"

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = GeminiClient(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _MOST_TEXTS):
            batch = texts[start : start + _MOST_TEXTS]
            vectors += _vectors(loads(self._client.embedded(batch, self.dimensions)), len(batch), self.dimensions)
        return vectors

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._client.close()


def _vectors(body: JSON, count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer. Raises `MalformedResponse`."""
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
                raise MalformedResponse(f"embedding {place} is no vector")
    return vectors
