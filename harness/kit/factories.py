"""Factories for clients, by the name of a provider, configured by environment variables.

| variable | meaning | default |
|---|---|---|
| LLM_PROVIDER | provider of chats and texts: anthropic, claude-cli, gemini, openai-chat, openai-responses | gemini |
| EMBEDDING_PROVIDER | provider of embeddings: gemini, openai-chat | gemini |
| ANTHROPIC_API_KEY, ANTHROPIC_MODEL | for anthropic; the model also for claude-cli, which has its own login | |
| GOOGLE_API_KEY or GEMINI_API_KEY, GEMINI_MODEL | for gemini | |
| GEMINI_EMBEDDING_MODEL, GEMINI_EMBEDDING_DIMS | Gemini's embeddings | gemini-embedding-2, 768 |
| OPENAI_API_KEY, OPENAI_MODEL | for openai-chat and openai-responses | |
| OPENAI_BASE_URL | a LiteLLM proxy or a local server, with its `/v1`; such a server may accept any key | OpenAI |
| OPENAI_MAX_TOKENS_FIELD | for openai-chat: the field that limits a response; `max_tokens` for servers that accept no \
  other | max_completion_tokens |
| OPENAI_EMBEDDING_MODEL, OPENAI_EMBEDDING_DIMS | OpenAI's embeddings | text-embedding-3-small, 1536 |

Live runs and recordings also use the API keys and OPENAI_BASE_URL; the other variables apply only here. The default
chat models are those of the shipped targets. An empty variable counts as not set. A provider has the name of its
adapter. The caller closes the returned clients, with `with` or `close`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args
from urllib.parse import urlsplit

from harness import plugins
from harness.apis import registry
from harness.kit.client import (
    AsyncChatGeneration,
    AsyncClient,
    AsyncEmbedder,
    ChatGeneration,
    Client,
    Embedder,
    EmbeddingRecord,
    LocalRunner,
)
from harness.model.errors import MissingKey, UnknownName, UsageError
from harness.model.protocols import Adapter, Capability, Embeddings, Endpoint, MaxTokensField, Route
from harness.platform.environment import read_key


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider. `target` is the shipped target that sets its default model. `prefix` begins the names of its
    environment variables.
    """

    name: str
    target: str
    prefix: str


PROVIDERS = {
    each.name: each
    for each in (
        Provider("anthropic", "anthropic", "ANTHROPIC"),
        Provider("claude-cli", "claude-cli", "ANTHROPIC"),
        Provider("gemini", "gemini-4", "GEMINI"),
        Provider("openai-chat", "openai-chat", "OPENAI"),
        Provider("openai-responses", "openai-responses", "OPENAI"),
    )
}

DEFAULT_PROVIDER = "gemini"

INVALID_BASE_URL = "not a URL: it must begin with http:// or https://, as in http://127.0.0.1:4000/v1."
"""Error for a base URL that `is_base_url` rejects."""


def chat_client(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> Client:
    """Return a chat client for a provider. If `provider` is `None`, the variable LLM_PROVIDER names it.

    `http_client` is an `httpx2.Client` that sends the requests; the caller closes it.

    Raises:
        UnknownName: the provider does not exist.
        UsageError: the base URL, the key or the field for `max_tokens` is invalid.
        MissingDependency: the provider's SDK is not installed.
        MissingKey: the provider's key is not set.
    """
    return Client(*_connection(_choose("LLM_PROVIDER", provider, environ), environ, http_client))


def async_chat_client(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncClient:
    """Return an asynchronous chat client; see `chat_client`. `http_client` is synchronous here, too."""
    return AsyncClient(*_connection(_choose("LLM_PROVIDER", provider, environ), environ, http_client))


def generation_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> ChatGeneration:
    """Return a `GenerationProvider`; see `chat_client` for parameters and errors."""
    return ChatGeneration(chat_client(provider, environ=environ, http_client=http_client))


def async_generation_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncChatGeneration:
    """Return an `AsyncGenerationProvider`; see `async_chat_client`."""
    return AsyncChatGeneration(async_chat_client(provider, environ=environ, http_client=http_client))


def embedding_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> Embedder:
    """Return an embedding client for a provider. If `provider` is `None`, the variable EMBEDDING_PROVIDER names it. See
    `chat_client`.

    Raises:
        UnknownName: the provider does not exist.
        UsageError: the provider has no embeddings, or the base URL or the number of dimensions is invalid.
        MissingDependency: the provider's SDK is not installed.
        MissingKey: the provider's key is not set.
    """
    return Embedder(*_embedding_connection(provider, environ, http_client))


def async_embedding_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncEmbedder:
    """Return an `AsyncEmbeddingProvider`; see `embedding_provider`. `http_client` is synchronous here, too."""
    return AsyncEmbedder(*_embedding_connection(provider, environ, http_client))


def configured_embeddings(provider: str | None = None, *, environ: Mapping[str, str] = os.environ) -> EmbeddingRecord:
    """Return the provider, the model and the length of the vectors that `embedding_provider` would make. This requires
    neither the SDK nor a key.

    Raises:
        UnknownName: the provider does not exist.
        UsageError: the provider has no embeddings, or the number of dimensions is invalid.
    """
    chosen, embeddings = _embedding(provider, environ)
    model = environ.get(f"{chosen.prefix}_EMBEDDING_MODEL") or embeddings.model
    dimensions = _dimensions(f"{chosen.prefix}_EMBEDDING_DIMS", embeddings.dimensions, environ)
    return EmbeddingRecord(chosen.name, model, dimensions)


def configured_provider(*, environ: Mapping[str, str] = os.environ) -> Provider:
    """Return the default provider of chats. Raises `UnknownName` if LLM_PROVIDER does not name a provider."""
    return _choose("LLM_PROVIDER", None, environ)


def configured_model(provider: Provider, *, environ: Mapping[str, str] = os.environ) -> str:
    """Return the default model of a provider."""
    return environ.get(f"{provider.prefix}_MODEL") or registry.target_named(provider.target).model


def configured_base_url(provider: Provider, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the configured base URL of a provider, if any; see `base_url_for`."""
    return base_url_for(plugins.adapter(provider.name).api, environ=environ)


def base_url_for(api: str, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the configured base URL of an API, if any.

    Raises:
        UsageError: the value is not a URL. The error does not repeat the value, which may contain a secret.
    """
    variable = registry.api(api).base_url_variable
    url = environ.get(variable) if variable else None
    if url and not is_base_url(url):
        raise UsageError(f"{variable}: {INVALID_BASE_URL}")
    return url or None


def is_base_url(text: str) -> bool:
    """Return whether the text is the HTTP URL of a server."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def embedding_providers() -> list[str]:
    """Return the names of the providers that have embeddings."""
    return [name for name in PROVIDERS if Capability.EMBEDDINGS in plugins.adapter(name).capabilities]


def _choose(variable: str, provider: str | None, environ: Mapping[str, str]) -> Provider:
    name = provider or environ.get(variable) or DEFAULT_PROVIDER
    if name not in PROVIDERS:
        kind = "embedding provider" if variable == "EMBEDDING_PROVIDER" else "provider"
        known = embedding_providers() if variable == "EMBEDDING_PROVIDER" else list(PROVIDERS)
        raise UnknownName(kind, name, known, None if provider else variable)
    return PROVIDERS[name]


def _connection(
    provider: Provider, environ: Mapping[str, str], http_client: object | None
) -> tuple[Adapter, Endpoint, str]:
    return (
        plugins.adapter(provider.name),
        _endpoint(provider, environ, http_client),
        configured_model(provider, environ=environ),
    )


def _embedding(provider: str | None, environ: Mapping[str, str]) -> tuple[Provider, Embeddings]:
    chosen = _choose("EMBEDDING_PROVIDER", provider, environ)
    embeddings = plugins.adapter(chosen.name).embeddings
    if embeddings is None:
        raise UsageError(
            f"the provider {chosen.name!r} has no embedding API; use {' or '.join(embedding_providers())} "
            "(EMBEDDING_PROVIDER)."
        )
    return chosen, embeddings


def _embedding_connection(
    provider: str | None, environ: Mapping[str, str], http_client: object | None
) -> tuple[Adapter, Embeddings, Endpoint, str, int]:
    chosen, embeddings = _embedding(provider, environ)
    record = configured_embeddings(chosen.name, environ=environ)
    adapter, endpoint, _ = _connection(chosen, environ, http_client)
    return adapter, embeddings, endpoint, record.model, record.dimensions


def _endpoint(provider: Provider, environ: Mapping[str, str], http_client: object | None) -> Endpoint:
    adapter = plugins.adapter(provider.name)
    if adapter.route is Route.PROCESS:
        return Endpoint("", "", processes=LocalRunner())
    wire = registry.api(adapter.api)
    found = read_key(wire.key_variables, environ)
    if found is None:
        raise MissingKey(provider.name, wire.key_variables, is_target=False)
    base = configured_base_url(provider, environ=environ) or wire.provider_url
    return Endpoint(base.rstrip("/"), found, http_client, max_tokens_field=_max_tokens_field(provider, environ))


def _max_tokens_field(provider: Provider, environ: Mapping[str, str]) -> MaxTokensField | None:
    variable = f"{provider.prefix}_MAX_TOKENS_FIELD"
    given = environ.get(variable)
    for field in get_args(MaxTokensField):
        if given == field:
            return field
    if given:
        raise UsageError(f"{variable}: {given!r} is not a known field; set {' or '.join(get_args(MaxTokensField))}.")
    return None


def _dimensions(variable: str, default: int, environ: Mapping[str, str]) -> int:
    text = environ.get(variable)
    if not text:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise UsageError(f"{variable}: {text!r} is not a vector length; set a number above 0, such as {default}.")
    return int(text)
