"""The client: one chat, whole or streamed, or one batch of texts to embed is one request through the SDK, answered by
the raw body."""

from __future__ import annotations

import json
import re
import ssl
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import httpx2
from google import genai
from google.genai import errors, types

from harness.adapters.gemini import decode, encode
from harness.adapters.gemini.body_keeper import BodyKeeper
from harness.adapters.gemini.failures import connection_failed, refused_by_sdk, translated
from harness.adapters.gemini.stream import answer
from harness.contract.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from harness.contract.model import ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Endpoint

TIMEOUT = 600.0
"""Seconds. The SDK by itself waits for ever."""

API_VERSION = "v1"
"""The SDK's own default, given so that GOOGLE_GENAI_API_VERSION does not replace it."""

_NOTHING = types.Content()
"""What is said, for the SDK: which asks a text for each field that a part can have."""

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
        return decode.response((raw and raw.body) or "", request)

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
        # gemini-sdk-drops-fields): the body goes beside them in both directions.
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
    except ValueError as error:
        raise refused_by_sdk(error) from error


@contextmanager
def _transport_failures_translated() -> Generator[None]:
    try:
        yield
    except (httpx2.HTTPError, OSError) as error:
        raise connection_failed(error) from error
