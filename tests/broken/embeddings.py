"""Faults at embeddings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import httpx2

from harness.model.protocols import Adapter, EmbeddingProvider, Endpoint
from tests.broken.fault import Expected, Fault, Table, Wrap
from tests.broken.places import BODY, Place

EMBEDDING = ("openai-chat", "gemini-4", "gemini-3", "gemini-2.5")
TEXT = Place(None, r"/input/\d+", None, r"/requests/\d+/content")
VECTOR = Place(None, r"/data/\d+/embedding", None, r"/embeddings/\d+/values")

INDEX, SWITCHED = "seeds-code-search-embeddings", "seeds-code-search-embedding-switched"

Vectors = list[list[float]]


class Wrapped:
    """A provider between the caller and the shipped one, faithful as it stands."""

    def __init__(self, inner: EmbeddingProvider) -> None:
        self.inner = inner

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def dimensions(self) -> int:
        return self.inner.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.inner.embed(texts)

    def close(self) -> None:
        self.inner.close()


def provider(make: Callable[[EmbeddingProvider], EmbeddingProvider]) -> Wrap:
    """At the contract: the shipped provider is wrapped by another one."""
    return connected(lambda connect, endpoint, model, size: make(connect(endpoint, model, size)))


def connected(
    make: Callable[[Callable[[Endpoint, str, int], EmbeddingProvider], Endpoint, str, int], EmbeddingProvider],
) -> Wrap:
    """Where the provider is made: `make` gets the shipped `connect` and its arguments."""

    def wrap(adapter: Adapter) -> Adapter:
        embeddings = adapter.embeddings
        assert embeddings is not None

        def connect(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
            return make(embeddings.connect, endpoint, model, dimensions)

        return replace(adapter, embeddings=replace(embeddings, connect=connect))

    return wrap


def gives(edit: Callable[[Sequence[str]], Sequence[str]]) -> Wrap:
    """Other texts are embedded than those that were given."""

    class Giving(Wrapped):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return self.inner.embed(edit(texts))

    return provider(Giving)


def hands_on(edit: Callable[[Vectors], Vectors]) -> Wrap:
    """Other vectors are handed on than those that came."""

    class Handing(Wrapped):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return edit(self.inner.embed(texts))

    return provider(Handing)


class _Probing(Wrapped):
    """Finds out how long its vectors are by asking for one."""

    @property
    def dimensions(self) -> int:
        (vector,) = self.inner.embed(["How long is a vector?"])
        return len(vector)


class _Crashing(Wrapped):
    """Looks for the vectors where there are none."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.inner.embed(texts)
        raise KeyError("embedding")


class _OtherLength(Wrapped):
    """Declares a length that is neither asked for nor what comes."""

    @property
    def dimensions(self) -> int:
        return 768


def _switched(connect: Any, endpoint: Endpoint, model: str, size: int) -> EmbeddingProvider:
    """Asks another model than it declares."""

    class Declaring(Wrapped):
        @property
        def model(self) -> str:
            return model

    return Declaring(connect(endpoint, f"{model}-next", size))


class _Rewriting(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, edit: Callable[[dict[str, Any]], None]) -> None:
        self._inner = inner
        self._edit = edit

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        self._edit(body)
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        content = json.dumps(body, ensure_ascii=False).encode()
        answer = self._inner.send(
            self._inner.build_request(request.method, request.url, headers=headers, content=content)
        )
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


def sends(edit: Callable[[dict[str, Any]], None]) -> Wrap:
    """At the transport: `edit` changes the JSON body."""

    def make(connect: Any, endpoint: Endpoint, model: str, size: int) -> EmbeddingProvider:
        transport = _Rewriting(cast("httpx2.Client", endpoint.http_client), edit)
        outer = httpx2.Client(transport=transport, trust_env=False)
        return connect(replace(endpoint, http_client=outer), model, size)

    return connected(make)


def _one_content(body: dict[str, Any]) -> None:
    """All texts as the parts of one content, as google-genai makes it of a list of texts for gemini-embedding-2."""
    first, *rest = body["requests"]
    first["content"]["parts"] += [part for each in rest for part in each["content"]["parts"]]
    body["requests"] = [first]


FAULTS: Table = {
    Expected("embedding-dimensions", None, None): [
        Fault("embedding-length-of-another-declared", INDEX, provider(_OtherLength), EMBEDDING)
    ],
    Expected("embedding-failed", BODY, 0): [Fault("embedding-crashes", INDEX, provider(_Crashing), EMBEDDING)],
    Expected("embedding-mismatch", BODY, 2): [
        Fault("embedding-probed-length", SWITCHED, provider(_Probing), EMBEDDING)
    ],
    Expected("embedding-model", BODY, 0): [
        Fault("embedding-model-switched-of-an-index", SWITCHED, connected(_switched), EMBEDDING)
    ],
    Expected("embedding-text", BODY, 0): [
        Fault("embedding-text-lost", INDEX, gives(lambda texts: texts[:-1]), EMBEDDING)
    ],
    Expected("embedding-text", TEXT, 0): [
        Fault("embedding-texts-in-one-content", INDEX, sends(_one_content), ("gemini-3", "gemini-2.5"))
    ],
    Expected("embedding-vector", VECTOR, 0): [
        Fault("embedding-vectors-turned-round", INDEX, hands_on(lambda v: v[::-1]), EMBEDDING),
        Fault(
            "embedding-vectors-by-position", "embeddings-provoked-order", hands_on(lambda v: v[::-1]), ("openai-chat",)
        ),
    ],
}
