from __future__ import annotations

import asyncio
import builtins
import json
import sys
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from harness.apis import registry
from harness.apis.view import ModelStep
from harness.kit import factories
from harness.kit.client import EmbeddingRecord
from harness.kit.factories import (
    PROVIDERS,
    async_embedding_provider,
    async_generation_provider,
    chat_client,
    embedding_provider,
    generation_provider,
)
from harness.model.errors import MissingDependency, MissingKey, UnknownName, UsageError
from harness.model.messages import ChatRequest, Message
from harness.model.protocols import Capability
from harness.stdio import adapter_specs
from tests.backends import every_target

SECRET = "sk-very-secret"
KEYS = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET, "GEMINI_API_KEY": SECRET}
OVER_HTTP = [name for name in PROVIDERS if name != "claude-cli"]


class Service:
    """An HTTP client whose server answers chats in the provider's API, and the requests."""

    def __init__(self, provider: str) -> None:
        self.target = every_target()[PROVIDERS[provider].target]
        self.requests: list[httpx2.Request] = []
        self.http = httpx2.Client(transport=httpx2.MockTransport(self._answer), trust_env=False)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        step = ModelStep("Ahoy")
        body = registry.api(self.target.api).build(step, "seed", self.target.model, self.target.profile)
        return httpx2.Response(200, json=body)

    @property
    def request(self) -> httpx2.Request:
        (request,) = self.requests
        return request

    @property
    def model(self) -> str:
        path = self.request.url.path
        return (
            path.split("/models/")[1].split(":")[0] if "/models/" in path else json.loads(self.request.content)["model"]
        )


@pytest.mark.parametrize("provider", OVER_HTTP)
def test_a_client_by_the_name_of_its_provider(provider: str) -> None:
    service = Service(provider)
    client = chat_client(provider, environ=KEYS, http_client=service.http)

    assert client.chat(ChatRequest("", (Message.user("hi"),))).text == "Ahoy"

    shipped = registry.target_named(PROVIDERS[provider].target)
    assert service.model == shipped.model
    assert str(service.request.url).startswith(registry.api(shipped.api).provider_url)
    assert SECRET in "".join(service.request.headers.values())


@pytest.mark.parametrize("provider", OVER_HTTP)
def test_generation_for_asynchronous_callers(provider: str) -> None:
    service = Service(provider)

    async def use() -> None:
        async with async_generation_provider(provider, environ=KEYS, http_client=service.http) as generated:
            assert (await generated.generate("hi")).text == "Ahoy"
            assert (generated.name, Capability.TOOLS in generated.capabilities) == (provider, True)

    asyncio.run(use())
    assert service.model == registry.target_named(PROVIDERS[provider].target).model


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_has_the_name_of_its_adapter(name: str) -> None:
    assert PROVIDERS[name].name == name == adapter_specs.adapter(name).name
    assert registry.target_named(PROVIDERS[name].target).adapter == name


@pytest.mark.parametrize(("field", "sent"), [("max_tokens", "max_tokens"), ("", "max_completion_tokens")])
def test_a_local_server_can_be_sent_max_tokens(field: str, sent: str) -> None:
    service = Service("openai-chat")
    environ = {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "OPENAI_MAX_TOKENS_FIELD": field}
    chat_client("openai-chat", environ=environ, http_client=service.http).chat(
        ChatRequest("local", (Message.user("hi"),), max_tokens=9)
    )
    body = json.loads(service.request.content)
    assert {name: value for name, value in body.items() if "max" in name} == {sent: 9}


@pytest.mark.parametrize("make", [chat_client, generation_provider])
def test_the_environment_chooses_provider_and_model(make: Callable[..., Any]) -> None:
    environ = {**KEYS, "LLM_PROVIDER": "anthropic", "ANTHROPIC_MODEL": "claude-other"}
    service = Service("anthropic")
    made = make(environ=environ, http_client=service.http)
    made.chat(ChatRequest("", (Message.user("hi"),), max_tokens=9)) if make is chat_client else made.generate("hi")
    assert service.model == "claude-other"
    assert service.request.url.host == "api.anthropic.com"


def test_the_default_provider_is_gemini() -> None:
    service = Service("gemini")
    generation_provider(environ={"GOOGLE_API_KEY": "g", "LLM_PROVIDER": ""}, http_client=service.http).generate("hi")
    assert service.model == registry.target_named("gemini-4").model
    assert service.request.headers["x-goog-api-key"] == "g"


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses"])
def test_a_compatible_server_by_its_base_url(provider: str) -> None:
    service = Service(provider)
    environ = {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1/", "OPENAI_MODEL": "local-model"}
    generation_provider(provider, environ=environ, http_client=service.http).generate("hi")
    assert str(service.request.url).startswith("http://127.0.0.1:4000/v1/")
    assert service.model == "local-model"


def test_the_command_line_needs_no_key() -> None:
    chat_client("claude-cli", environ={}).close()
    generation_provider("claude-cli", environ={}).close()


@pytest.mark.parametrize(
    ("environ", "record"),
    [
        ({}, EmbeddingRecord("gemini", "gemini-embedding-2", 768)),
        ({"EMBEDDING_PROVIDER": "openai-chat"}, EmbeddingRecord("openai-chat", "text-embedding-3-small", 1536)),
        (
            {
                "EMBEDDING_PROVIDER": "openai-chat",
                "OPENAI_EMBEDDING_MODEL": "text-embedding-3-large",
                "OPENAI_EMBEDDING_DIMS": "256",
            },
            EmbeddingRecord("openai-chat", "text-embedding-3-large", 256),
        ),
        (
            {"GEMINI_EMBEDDING_MODEL": "gemini-embedding-001", "GEMINI_EMBEDDING_DIMS": "3072"},
            EmbeddingRecord("gemini", "gemini-embedding-001", 3072),
        ),
        (
            {"LLM_PROVIDER": "anthropic", "OPENAI_EMBEDDING_DIMS": "9"},
            EmbeddingRecord("gemini", "gemini-embedding-2", 768),
        ),
    ],
)
def test_embeddings_as_the_environment_says(environ: dict[str, str], record: EmbeddingRecord) -> None:
    provider = embedding_provider(environ={**KEYS, **environ})
    assert EmbeddingRecord.of(provider) == record
    provider.close()


def test_embeddings_go_to_the_compatible_server_too() -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"data": [{"index": 0, "embedding": [0.5, 1]}]})

    http = httpx2.Client(transport=httpx2.MockTransport(answer), trust_env=False)
    environ = {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:4000/v1", "OPENAI_EMBEDDING_DIMS": "2"}
    assert embedding_provider("openai-chat", environ=environ, http_client=http).embed(["a"]) == [[0.5, 1.0]]
    assert str(seen[0].url) == "http://127.0.0.1:4000/v1/embeddings"

    async def use() -> None:
        async with async_embedding_provider("openai-chat", environ=environ, http_client=http) as provider:
            assert await provider.embed(["a"]) == [[0.5, 1.0]]
            assert EmbeddingRecord.of(provider) == EmbeddingRecord("openai-chat", "text-embedding-3-small", 2)

    asyncio.run(use())


REFUSED: list[tuple[Callable[..., Any], str | None, dict[str, str], type[UsageError], str]] = [
    (
        chat_client,
        "antropic",
        KEYS,
        UnknownName,
        (
            "unknown provider 'antropic'. Did you mean 'anthropic'? "
            "Known: anthropic, claude-cli, gemini, openai-chat, openai-responses."
        ),
    ),
    (
        generation_provider,
        None,
        {**KEYS, "LLM_PROVIDER": "xyz"},
        UnknownName,
        "LLM_PROVIDER: unknown provider 'xyz'. Known: anthropic, claude-cli, gemini, openai-chat, openai-responses.",
    ),
    (
        embedding_provider,
        None,
        {**KEYS, "EMBEDDING_PROVIDER": "openai"},
        UnknownName,
        (
            "EMBEDDING_PROVIDER: unknown embedding provider 'openai'. "
            "Did you mean 'openai-chat'? Known: gemini, openai-chat."
        ),
    ),
    *(
        (
            embedding_provider,
            name,
            KEYS,
            UsageError,
            f"the provider {name!r} has no embedding API; use gemini or openai-chat (EMBEDDING_PROVIDER).",
        )
        for name in ("anthropic", "claude-cli", "openai-responses")
    ),
    (
        chat_client,
        "gemini",
        {"OPENAI_API_KEY": SECRET, "GEMINI_API_KEY": ""},
        MissingKey,
        "the provider 'gemini' needs a key: set GOOGLE_API_KEY or GEMINI_API_KEY.",
    ),
    (
        generation_provider,
        "anthropic",
        {"OPENAI_API_KEY": SECRET},
        MissingKey,
        "the provider 'anthropic' needs a key: set ANTHROPIC_API_KEY.",
    ),
    (
        embedding_provider,
        "openai-chat",
        {"GEMINI_API_KEY": SECRET},
        MissingKey,
        "the provider 'openai-chat' needs a key: set OPENAI_API_KEY.",
    ),
    *(
        (
            embedding_provider,
            "openai-chat",
            {**KEYS, "OPENAI_EMBEDDING_DIMS": text},
            UsageError,
            f"OPENAI_EMBEDDING_DIMS: {text!r} is not a vector length; set a number above 0, such as 1536.",
        )
        for text in ("many", "0", "-1", "1.5", " 7", "٣", "1" * 5000)
    ),
    (
        chat_client,
        "openai-chat",
        {**KEYS, "OPENAI_MAX_TOKENS_FIELD": "maxTokens"},
        UsageError,
        "OPENAI_MAX_TOKENS_FIELD: 'maxTokens' is not a known field; set max_completion_tokens or max_tokens.",
    ),
    *(
        (
            make,
            "openai-chat",
            {**KEYS, "OPENAI_BASE_URL": text},
            UsageError,
            ("OPENAI_BASE_URL: not a URL: it must begin with http:// or https://, as in http://127.0.0.1:4000/v1."),
        )
        for make in (chat_client, embedding_provider)
        for text in ("127.0.0.1:4000/v1", f"me:{SECRET}@proxy.example", "http://", "http://[", "ftp://proxy.example")
    ),
]


@pytest.mark.parametrize(("make", "provider", "environ", "kind", "text"), REFUSED)
def test_an_error_of_configuration_names_the_way_out(
    make: Callable[..., Any], provider: str | None, environ: dict[str, str], kind: type[UsageError], text: str
) -> None:
    with pytest.raises(UsageError) as raised:
        make(provider, environ=environ)
    assert type(raised.value) is kind
    assert str(raised.value) == text
    assert SECRET not in repr(raised.value)


@pytest.mark.parametrize(
    ("make", "provider", "package"),
    [
        (chat_client, "openai-chat", "openai"),
        (generation_provider, "openai-responses", "openai"),
        (chat_client, "anthropic", "anthropic"),
        (chat_client, "gemini", "google-genai"),
        (embedding_provider, "openai-chat", "openai"),
        (embedding_provider, "gemini", "google-genai"),
    ],
)
def test_an_sdk_that_is_not_installed_is_named(
    make: Callable[..., Any], provider: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, adapter = package.partition("-")[0], registry.target_named(PROVIDERS[provider].target).adapter
    extra = provider.partition("-")[0]
    ours = (f"harness.adapters.{adapter.replace('-', '_')}.", "harness.adapters._openai.")
    for name in [*sys.modules]:
        if name == module or name.startswith((f"{module}.", *ours)):
            monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependency) as raised:
        make(provider, environ=KEYS)
    assert str(raised.value) == (
        f"the adapter {adapter!r} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install 'toolcall-harness[{extra}]' (in a checkout: pip install -e '.[{extra}]')"
    )


def test_the_providers_with_embeddings_are_known() -> None:
    assert factories.embedding_providers() == ["gemini", "openai-chat"]
