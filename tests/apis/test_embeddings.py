from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.api import EmbeddingFormat, EmbeddingView
from harness.apis.view import TextView, WireError
from harness.model.http import HttpRequest, HttpResponse

OPENAI = "https://api.openai.com/v1/embeddings"
GEMINI = "https://generativelanguage.googleapis.com/v1/models/gemini-embedding-2:batchEmbedContents"


def of(api: str) -> EmbeddingFormat:
    found = registry.api(api).embeddings
    assert found is not None
    return found


def openai(**body: Any) -> HttpRequest:
    whole = {"model": "text-embedding-3-small", "input": ["a"], **body}
    return HttpRequest("POST", OPENAI, {}, json.dumps(whole).encode())


def entry(*texts: str, **fields: Any) -> dict[str, Any]:
    parts = [{"text": text} for text in texts]
    return {"model": "models/gemini-embedding-2", "content": {"parts": parts}, **fields}


def gemini(*requests: Any) -> HttpRequest:
    return HttpRequest("POST", GEMINI, {}, json.dumps({"requests": list(requests)}).encode())


def answer(body: Any) -> HttpResponse:
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())


def rules(api: str, request: HttpRequest) -> list[tuple[str, str]]:
    rule_set = registry.api(api).services.rules_at(registry.api(api).profile_for(""), "", request.url)
    return [(each.rule, each.pointer) for each in of(api).violations(request, rule_set)]


def test_the_apis_with_embeddings() -> None:
    assert [api.name for api in registry.apis() if api.embeddings] == ["openai-chat", "gemini"]


@pytest.mark.parametrize(
    ("api", "method", "url", "is_one"),
    [
        ("openai-chat", "POST", OPENAI, True),
        ("openai-chat", "POST", "http://127.0.0.1:4000/any/prefix/embeddings?api-version=1", True),
        ("openai-chat", "GET", OPENAI, False),
        ("openai-chat", "POST", "https://api.openai.com/v1/chat/completions", False),
        ("gemini", "POST", GEMINI, True),
        ("gemini", "POST", GEMINI.replace("batchEmbedContents", "embedContent"), True),
        ("gemini", "GET", GEMINI, False),
        ("gemini", "POST", GEMINI.replace("batchEmbedContents", "generateContent"), False),
    ],
)
def test_a_request_for_embeddings_is_recognised_by_its_path(api: str, method: str, url: str, is_one: bool) -> None:
    request = HttpRequest(method, url, {}, b"{}")
    assert of(api).recognises(request) is is_one
    assert not (is_one and registry.api(api).recognises(request))


def test_openai_is_read() -> None:
    seen = of("openai-chat").view(openai(input=["a", "b\ud800"], dimensions=7))
    texts = (TextView("a", "/input/0"), TextView("b\ud800", "/input/1"))
    assert seen == EmbeddingView("text-embedding-3-small", texts, 7, "/dimensions")
    assert of("openai-chat").view(openai(input="a")).texts == (TextView("a", "/input"),)


def test_gemini_is_read() -> None:
    seen = of("gemini").view(gemini(entry("a", outputDimensionality=7), entry("b", output_dimensionality=7)))
    texts = (TextView("a", "/requests/0/content"), TextView("b", "/requests/1/content"))
    assert seen == EmbeddingView("gemini-embedding-2", texts, 7, "/requests/0/outputDimensionality")


def test_the_parts_of_one_content_are_one_text() -> None:
    assert [text.text for text in of("gemini").view(gemini(entry("a", "b"))).texts] == ["a\nb"]


def test_one_text_alone_at_gemini() -> None:
    url = GEMINI.replace("batchEmbedContents", "embedContent")
    request = HttpRequest("POST", url, {}, json.dumps(entry("a")).encode())
    assert of("gemini").view(request).texts == (TextView("a", "/content"),)


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("openai-chat", HttpRequest("POST", OPENAI, {}, b"nothing")),
        ("openai-chat", HttpRequest("POST", OPENAI, {}, b"[]")),
        ("openai-chat", HttpRequest("POST", "http://127.0.0.1/elsewhere", {}, b"{}")),
        ("openai-chat", openai(input=None)),
        ("openai-chat", openai(input=[[1, 2]])),
        ("gemini", HttpRequest("POST", GEMINI, {}, b"nothing")),
        ("gemini", HttpRequest("POST", "http://127.0.0.1/elsewhere", {}, b"{}")),
        ("gemini", gemini("a")),
        ("gemini", gemini(entry("a"), {**entry("b"), "model": "models/gemini-embedding-001"})),
        ("gemini", gemini(entry("a", outputDimensionality=7), entry("b"))),
    ],
)
def test_what_cannot_be_read_is_refused(api: str, request_: HttpRequest) -> None:
    with pytest.raises(WireError):
        of(api).view(request_)
    assert [rule for rule, _ in rules(api, request_)] == [f"{api.removesuffix('-chat')}-embeddings-body"]


@pytest.mark.parametrize(
    ("api", "request_", "found"),
    [
        ("openai-chat", openai(), []),
        ("openai-chat", openai(input=["a"] * 2048, dimensions=1536), []),
        ("openai-chat", openai(input=["a"] * 2049), [("openai-embeddings-count", "/input")]),
        ("openai-chat", openai(input=[]), [("openai-embeddings-count", "/input")]),
        ("openai-chat", openai(input=["a", ""]), [("openai-embeddings-empty", "/input/1")]),
        ("openai-chat", openai(model=None), [("openai-embeddings-model", "")]),
        ("openai-chat", openai(dimensions=1537), [("openai-embeddings-dimensions", "/dimensions")]),
        ("openai-chat", openai(dimensions=0), [("openai-embeddings-dimensions", "/dimensions")]),
        ("openai-chat", openai(model="text-embedding-3-large", dimensions=3072), []),
        (
            "openai-chat",
            openai(model="text-embedding-ada-002", dimensions=1536),
            [("openai-embeddings-dimensions", "/dimensions")],
        ),
        ("gemini", gemini(entry("a", outputDimensionality=3072)), []),
        ("gemini", gemini(*[entry("a")] * 100), []),
        ("gemini", gemini(*[entry("a")] * 101), [("gemini-embeddings-count", "/requests")]),
        ("gemini", gemini(), [("gemini-embeddings-count", "")]),
        (
            "gemini",
            gemini(entry("a", outputDimensionality=3073)),
            [("gemini-embeddings-dimensions", "/requests/0/outputDimensionality")],
        ),
    ],
)
def test_what_the_provider_refuses(api: str, request_: HttpRequest, found: list[tuple[str, str]]) -> None:
    assert rules(api, request_) == found


@pytest.mark.parametrize(("api", "request_"), [("openai-chat", openai), ("gemini", gemini)])
def test_what_is_built_is_read_back(api: str, request_: Any) -> None:
    fields = {"input": ["a", "b", "a"], "dimensions": 5}
    texts = [entry(text, outputDimensionality=5) for text in ("a", "b", "a")]
    view = of(api).view(openai(**fields) if api == "openai-chat" else gemini(*texts))

    body = of(api).build(view)
    vectors = of(api).read(answer(body))

    assert [len(vector.values) for vector in vectors] == [5, 5, 5]
    assert vectors[0].values == vectors[2].values != vectors[1].values
    assert of(api).build(view) == body


def test_the_default_length_is_the_model_s() -> None:
    (vector,) = of("openai-chat").read(answer(of("openai-chat").build(of("openai-chat").view(openai()))))
    assert len(vector.values) == 1536
    (vector,) = of("gemini").read(answer(of("gemini").build(of("gemini").view(gemini(entry("a"))))))
    assert len(vector.values) == 3072


def test_vectors_of_openai_are_in_the_order_of_their_index() -> None:
    data = [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]
    vectors = of("openai-chat").read(answer({"data": data}))
    assert [(vector.values, vector.pointer) for vector in vectors] == [
        ((1.0,), "/data/1/embedding"),
        ((2.0,), "/data/0/embedding"),
    ]


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("openai-chat", {}),
        ("openai-chat", {"data": [{"embedding": [1]}]}),
        ("openai-chat", {"data": [{"index": 0, "embedding": "AAAA"}]}),
        ("openai-chat", {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}),
        ("openai-chat", {"data": [{"index": 1, "embedding": [1]}]}),
        ("gemini", {}),
        ("gemini", {"embeddings": [1]}),
    ],
)
def test_an_answer_without_vectors_cannot_be_read(api: str, body: Any) -> None:
    with pytest.raises(WireError):
        of(api).read(answer(body))
