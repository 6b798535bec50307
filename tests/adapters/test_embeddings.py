from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters import gemini, openai_chat
from harness.model import errors
from harness.model.protocols import Adapter, EmbeddingProvider, Endpoint

SIZE = 3


def numbers(text: str) -> list[float]:
    """A vector that is another one for each text."""
    return [float(len(text)), math.fsum(map(ord, text)) / 7, -0.1]


class OpenAI:
    """Answers as OpenAI does, the vectors in the order of their index turned round."""

    adapter = openai_chat.ADAPTER
    model = "text-embedding-3-small"
    base = "http://127.0.0.1:9/cell-7/v1"
    path = "/cell-7/v1/embeddings"

    @staticmethod
    def texts(body: dict[str, Any]) -> list[str]:
        return body["input"]

    @staticmethod
    def answer(vectors: Sequence[Any]) -> dict[str, Any]:
        entries = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": entries[::-1], "model": "text-embedding-3-small", "usage": usage}


class Gemini:
    """Answers as Gemini does."""

    adapter = gemini.ADAPTER
    model = "gemini-embedding-2"
    base = "http://127.0.0.1:9/cell-7"
    path = "/cell-7/v1/models/gemini-embedding-2:batchEmbedContents"

    @staticmethod
    def texts(body: dict[str, Any]) -> list[str]:
        return ["".join(part["text"] for part in each["content"]["parts"]) for each in body["requests"]]

    @staticmethod
    def answer(vectors: Sequence[Any]) -> dict[str, Any]:
        return {"embeddings": [{"values": each} for each in vectors]}


APIS: list[Any] = [OpenAI, Gemini]
every_api = pytest.mark.parametrize("api", APIS, ids=["openai", "gemini"])


class Service:
    """An endpoint for embeddings and what reached it."""

    def __init__(self, api: Any, respond: Callable[[list[str]], httpx2.Response] | None = None) -> None:
        self.api = api
        self.requests: list[httpx2.Request] = []
        self.respond = respond or (lambda texts: httpx2.Response(200, json=api.answer([*map(numbers, texts)])))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        return self.respond(self.api.texts(json.loads(request.content)))

    def provider(self, model: str | None = None, dimensions: int = SIZE) -> EmbeddingProvider:
        return connected(self.api.adapter, self.api.base, model or self.api.model, dimensions, self)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]


def connected(
    adapter: Adapter, base: str, model: str, size: int, respond: Callable[[httpx2.Request], httpx2.Response]
) -> EmbeddingProvider:
    http_client = httpx2.Client(transport=httpx2.MockTransport(respond), trust_env=False)
    assert adapter.embeddings is not None
    return adapter.embeddings.connect(Endpoint(base, "key-1", http_client), model, size)


def answered(api: Any, body: object, status: int = 200, headers: dict[str, str] | None = None) -> EmbeddingProvider:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Service(api, lambda _: httpx2.Response(status, content=content, headers=headers)).provider()


def failure(provider: EmbeddingProvider, texts: Sequence[str] = ("a", "bb")) -> errors.ChatError:
    with pytest.raises(errors.ChatError) as raised:
        provider.embed(texts)
    return raised.value


@every_api
def test_one_vector_for_each_text_in_their_order(api: Any) -> None:
    service = Service(api)
    provider = service.provider()

    assert provider.embed(["a", "bb", "a"]) == [numbers("a"), numbers("bb"), numbers("a")]

    (request,) = service.requests
    assert (request.method, request.url.path) == ("POST", api.path)
    assert provider.dimensions == SIZE
    assert provider.model == api.model


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_texts_arrive_to_the_code_point(texts: list[str]) -> None:
    for api in APIS:
        service = Service(api)
        assert service.provider().embed(texts) == [*map(numbers, texts)]
        assert api.texts(service.bodies[0]) == texts


@every_api
def test_no_texts_no_request(api: Any) -> None:
    service = Service(api)
    assert service.provider().embed([]) == []
    assert service.requests == []


def test_openai_gets_the_declared_length() -> None:
    service = Service(OpenAI)
    service.provider().embed(["a"])
    assert service.bodies == [
        {"model": "text-embedding-3-small", "input": ["a"], "encoding_format": "float", "dimensions": SIZE}
    ]


def test_a_model_with_one_length_gets_no_length() -> None:
    service = Service(OpenAI)
    service.provider("text-embedding-ada-002").embed(["a"])
    assert "dimensions" not in service.bodies[0]


@pytest.mark.parametrize("model", ["gemini-embedding-2", "gemini-embedding-001"])
def test_gemini_gets_a_content_for_each_text(model: str) -> None:
    service = Service(Gemini)
    service.provider(model).embed(["a", "bb"])
    assert service.bodies == [
        {
            "requests": [
                {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, "outputDimensionality": SIZE}
                for text in ("a", "bb")
            ]
        }
    ]


def test_an_empty_text_is_refused_where_the_api_refuses_it() -> None:
    service = Service(OpenAI)
    error = failure(service.provider(), ["a", ""])
    assert str(error) == "openai-chat: an empty text is not supported: the API has no vector for it"
    assert service.requests == []


@pytest.mark.parametrize(("api", "most"), [(OpenAI, 2048), (Gemini, 100)], ids=["openai", "gemini"])
def test_many_texts_go_out_in_batches(api: Any, most: int) -> None:
    service = Service(api)
    texts = [f"text {number}" for number in range(2 * most + 1)]

    assert service.provider().embed(texts) == [*map(numbers, texts)]

    assert [len(api.texts(body)) for body in service.bodies] == [most, most, 1]


def test_long_texts_go_to_openai_in_batches_of_fewer() -> None:
    service = Service(OpenAI)
    texts = ["é" * 100_000, "b" * 100_000, "c", "d" * 300_000, "e"]  # é takes two bytes

    assert service.provider().embed(texts) == [*map(numbers, texts)]

    assert [len(body["input"]) for body in service.bodies] == [2, 1, 1, 1]


VECTORS = [numbers("a"), numbers("bb")]


@every_api
@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        (VECTORS[:1], "malformed response: 1 embeddings for 2 texts"),
        ([*VECTORS, VECTORS[0]], "malformed response: 3 embeddings for 2 texts"),
        ([VECTORS[0], [1.0, 2.0]], "has 2 dimensions, and not 3"),
        ([VECTORS[0], [1.0, 2.0, 3.0, 4.0]], "has 4 dimensions, and not 3"),
        ([VECTORS[0], [1.0, "2", 3.0]], "contains something that is not a number"),
        ([VECTORS[0], [1.0, True, 3.0]], "contains something that is not a number"),
        ([VECTORS[0], [1.0, None, 3.0]], "contains something that is not a number"),
        ([VECTORS[0], [1.0, 10**400, 3.0]], "contains something that is not a number"),
        ([VECTORS[0], "AACAPwAAAEA="], "is not a vector"),
        ([VECTORS[0], None], "is not a vector"),
    ],
)
def test_wrong_numbers_of_vectors_or_values_are_malformed(api: Any, vectors: list[Any], text: str) -> None:
    error = failure(answered(api, api.answer(vectors)))
    assert isinstance(error, errors.MalformedResponse)
    assert text in str(error)


@every_api
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "JSON"),
        (b"<html>", "JSON"),
        (b'{"data": [NaN]}', "JSON"),
        (b"[" * 100_000, "nested too deeply"),
        ([], "there are no embeddings"),
        ({}, "there are no embeddings"),
        ({"data": {}, "embeddings": 1}, "there are no embeddings"),
    ],
)
def test_other_bodies_are_malformed(api: Any, body: object, text: str) -> None:
    error = failure(answered(api, body))
    assert isinstance(error, errors.MalformedResponse)
    assert text in str(error)


@pytest.mark.parametrize(("indices", "wrong"), [((0, 0), 0), ((0, 2), 2), ((0, -1), -1)])
def test_a_wrong_index_of_openai_is_malformed(indices: tuple[int, ...], wrong: int) -> None:
    data = [{"index": at, "embedding": vector} for at, vector in zip(indices, VECTORS, strict=True)]
    assert str(failure(answered(OpenAI, {"data": data}))) == (
        f"malformed response: embedding 1 has the index {wrong}, which is taken or none"
    )


def test_an_error_inside_http_200_says_what_it_is() -> None:
    error = failure(answered(OpenAI, {"error": {"message": "no such model"}}))
    assert str(error) == "malformed response: an error inside HTTP 200: no such model"


@every_api
def test_failures_are_those_of_chat(api: Any) -> None:
    body = {"error": {"message": "no", "code": 429, "status": "WHATEVER", "type": "whatever"}}
    service = Service(api, lambda _: httpx2.Response(429, json=body, headers={"retry-after": "2"}))

    error = failure(service.provider())

    assert isinstance(error, errors.RateLimited)
    assert (error.message, error.retry_after) == ("no", 2.0)
    assert len(service.requests) == 1  # nothing is sent again


@every_api
def test_the_callers_http_client_stays_open(api: Any) -> None:
    service = Service(api)
    provider = service.provider()
    provider.close()
    assert provider.embed(["a"]) == [numbers("a")]


@every_api
def test_a_client_of_its_own_is_closed(api: Any) -> None:
    provider = api.adapter.embeddings.connect(Endpoint(api.base, "key-1"), api.model, SIZE)
    provider.close()
    with pytest.raises((RuntimeError, errors.ChatError)):
        provider.embed(["a"])
