"""Clients by the name of a provider, with what the environment says.

| variable | what it sets | where it is not set |
|---|---|---|
| LLM_PROVIDER | who chats and generates: anthropic, claude-cli, gemini, openai-chat, openai-responses | gemini |
| EMBEDDING_PROVIDER | who embeds: gemini, openai-chat | gemini |
| ANTHROPIC_API_KEY, ANTHROPIC_MODEL | for anthropic; the model for claude-cli, which logs in by itself, as well | |
| GOOGLE_API_KEY or GEMINI_API_KEY, GEMINI_MODEL | for gemini | |
| GEMINI_EMBEDDING_MODEL, GEMINI_EMBEDDING_DIMS | its embeddings | gemini-embedding-2, 768 |
| OPENAI_API_KEY, OPENAI_MODEL | for openai-chat and openai-responses | |
| OPENAI_BASE_URL | a LiteLLM proxy or a local server, with its `/v1`; such a server may take any key | OpenAI |
| OPENAI_MAX_TOKENS_FIELD | for openai-chat: the field that bounds an answer, `max_tokens` for a server that knows no \
  other | max_completion_tokens |
| OPENAI_EMBEDDING_MODEL, OPENAI_EMBEDDING_DIMS | its embeddings | text-embedding-3-small, 1536 |

OPENAI_BASE_URL holds for live runs and recordings as well, the others only here. Models of chats are those of the
shipped targets where nothing is set. A variable that is set to nothing counts as not set. A provider has the name of
its adapter, here and everywhere. Whatever is made here is the caller's to close, by `with` or `close`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args
from urllib.parse import urlsplit

from harness import catalog
from harness.contract.errors import MissingKey, UnknownName, UsageError
from harness.contract.protocols import Adapter, Capability, Embeddings, Endpoint, MaxTokensField, Route
from harness.host.keys import key
from harness.kit.client import AsyncClient, AsyncEmbedder, Client, Embedder
from harness.kit.embeddings import EmbeddingRecord
from harness.kit.generation import AsyncChatGeneration, ChatGeneration
from harness.kit.processes import LocalRunner


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, by the name of its adapter.

    `target` is the shipped target whose model is taken; `prefix` begins the names of its variables.
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

NO_BASE_URL = "this is no URL: it has to begin with http:// or https://, as in http://127.0.0.1:4000/v1."
"""What is said of a base URL that `is_base_url` refuses."""


def chat_client(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> Client:
    """A chat client of a provider (`None`: of LLM_PROVIDER), for requests that name no model of their own.

    `http_client` is an `httpx2.Client` to send through, which stays the caller's to close.

    Raises:
        UnknownName: there is no such provider.
        UsageError: the base URL that is set is none, no header takes the key, or there is no such field for
            `max_tokens`.
        MissingDependency: its SDK is not installed.
        MissingKey: its key is not set.
    """
    return Client(*_connection(_chosen("LLM_PROVIDER", provider, environ), environ, http_client))


def async_chat_client(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncClient:
    """`chat_client` for asynchronous callers. `http_client` is the same, a synchronous one."""
    return AsyncClient(*_connection(_chosen("LLM_PROVIDER", provider, environ), environ, http_client))


def generation_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> ChatGeneration:
    """Prompt to text by a provider (`None`: that of LLM_PROVIDER); see `chat_client`, which raises the same."""
    return ChatGeneration(chat_client(provider, environ=environ, http_client=http_client))


def async_generation_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncChatGeneration:
    """`generation_provider` for asynchronous callers. `http_client` is the same, a synchronous one."""
    return AsyncChatGeneration(async_chat_client(provider, environ=environ, http_client=http_client))


def embedding_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> Embedder:
    """Texts to vectors by a provider (`None`: that of EMBEDDING_PROVIDER); see `chat_client`.

    Raises:
        UnknownName: there is no such provider.
        UsageError: it has no embeddings, or what is set is no base URL or no length above 0.
        MissingDependency: its SDK is not installed.
        MissingKey: its key is not set.
    """
    return Embedder(*_embedding_connection(provider, environ, http_client))


def async_embedding_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> AsyncEmbedder:
    """`embedding_provider` for asynchronous callers. `http_client` is the same, a synchronous one."""
    return AsyncEmbedder(*_embedding_connection(provider, environ, http_client))


def configured_embeddings(provider: str | None = None, *, environ: Mapping[str, str] = os.environ) -> EmbeddingRecord:
    """What `embedding_provider` would make vectors with; needs neither SDK nor key.

    Raises:
        UnknownName: there is no such provider.
        UsageError: it has no embeddings, or the length of vectors that is set is no number above 0.
    """
    chosen, embeddings = _embedding(provider, environ)
    model = environ.get(f"{chosen.prefix}_EMBEDDING_MODEL") or embeddings.model
    dimensions = _dimensions(f"{chosen.prefix}_EMBEDDING_DIMS", embeddings.dimensions, environ)
    return EmbeddingRecord(chosen.name, model, dimensions)


def configured_provider(*, environ: Mapping[str, str] = os.environ) -> Provider:
    """The provider that chats and generates where nobody names one. Raises `UnknownName` if LLM_PROVIDER is none."""
    return _chosen("LLM_PROVIDER", None, environ)


def configured_model(provider: Provider, *, environ: Mapping[str, str] = os.environ) -> str:
    """The model of requests to a provider that name none of their own."""
    return environ.get(f"{provider.prefix}_MODEL") or catalog.target(provider.target).model


def configured_base_url(provider: Provider, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The server that stands in for a provider, if one is set; see `base_url_for`."""
    return base_url_for(catalog.adapter(provider.name).api, environ=environ)


def base_url_for(api: str, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The server that stands in for the provider of an API, if one is set.

    Raises:
        UsageError: what is set is no URL. It is not repeated, since there may be a secret in it.
    """
    variable = catalog.api(api).base_url_variable
    url = environ.get(variable) if variable else None
    if url and not is_base_url(url):
        raise UsageError(f"{variable}: {NO_BASE_URL}")
    return url or None


def is_base_url(text: str) -> bool:
    """Whether it is the URL of a server that can be sent requests."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def embedding_providers() -> list[str]:
    """The names of the providers that have embeddings."""
    return [name for name in PROVIDERS if Capability.EMBEDDINGS in catalog.adapter(name).capabilities]


def _chosen(variable: str, provider: str | None, environ: Mapping[str, str]) -> Provider:
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
        catalog.adapter(provider.name),
        _endpoint(provider, environ, http_client),
        configured_model(provider, environ=environ),
    )


def _embedding(provider: str | None, environ: Mapping[str, str]) -> tuple[Provider, Embeddings]:
    chosen = _chosen("EMBEDDING_PROVIDER", provider, environ)
    embeddings = catalog.adapter(chosen.name).embeddings
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
    adapter = catalog.adapter(provider.name)
    if adapter.route is Route.PROCESS:
        return Endpoint("", "", processes=LocalRunner())
    wire = catalog.api(adapter.api)
    found = key(wire.key_variables, environ)
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
        raise UsageError(f"{variable}: {given!r} is no such field; set {' or '.join(get_args(MaxTokensField))}.")
    return None


def _dimensions(variable: str, default: int, environ: Mapping[str, str]) -> int:
    text = environ.get(variable)
    if not text:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise UsageError(f"{variable}: {text!r} is no length of vectors; set a number above 0, such as {default}.")
    return int(text)
