"""Clients by the name of a provider, with what the environment says.

| variable | what it sets | where it is not set |
|---|---|---|
| LLM_PROVIDER | who chats and generates: anthropic, claude-cli, gemini, openai, openai-responses | gemini |
| EMBEDDING_PROVIDER | who embeds: gemini, openai | gemini |
| ANTHROPIC_API_KEY, ANTHROPIC_MODEL | for anthropic; the model for claude-cli, which logs in by itself, as well | |
| GOOGLE_API_KEY or GEMINI_API_KEY, GEMINI_MODEL | for gemini | |
| GEMINI_EMBEDDING_MODEL, GEMINI_EMBEDDING_DIMS | its embeddings | gemini-embedding-2, 768 |
| OPENAI_API_KEY, OPENAI_MODEL | for openai and openai-responses | |
| OPENAI_BASE_URL | a LiteLLM proxy or a local server, with its `/v1`; such a server may take any key | OpenAI |
| OPENAI_EMBEDDING_MODEL, OPENAI_EMBEDDING_DIMS | its embeddings | text-embedding-3-small, 1536 |

OPENAI_BASE_URL holds for live runs and recordings as well, the models only here. Models of chats are those of the
shipped targets where nothing is set. A variable that is set to nothing counts as not set. Whatever is made here is the
caller's to close.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness import catalog
from harness.contract.errors import MissingKey, UnknownName, UsageError
from harness.contract.protocols import Capability, ChatClient, EmbeddingProvider, Embeddings, Endpoint
from harness.host.keys import key
from harness.kit.embeddings import EmbeddingRecord
from harness.kit.generation import ChatGeneration
from harness.kit.processes import LocalRunner


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider by the name that people say, and its variables.

    `target` is the shipped target whose adapter and model are taken; `prefix` begins the names of its variables.
    """

    name: str
    target: str
    prefix: str


PROVIDERS = {
    each.name: each
    for each in (
        Provider("anthropic", "anthropic", "ANTHROPIC"),
        Provider("claude-cli", "claude-cli", "ANTHROPIC"),
        Provider("gemini", "gemini-3", "GEMINI"),
        Provider("openai", "openai-chat", "OPENAI"),
        Provider("openai-responses", "openai-responses", "OPENAI"),
    )
}

DEFAULT_PROVIDER = "gemini"

NO_BASE_URL = "this is no URL: it has to begin with http:// or https://, as in http://127.0.0.1:4000/v1."
"""What is said of a base URL that `is_base_url` refuses."""


def chat_client(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> ChatClient:
    """A chat client of a provider (`None`: of LLM_PROVIDER), for requests that name no model of their own.

    `http_client` is an `httpx2.Client` to send through, which stays the caller's to close.

    Raises:
        UnknownName: there is no such provider.
        UsageError: the base URL that is set is none, or no header takes the key.
        MissingDependency: its SDK is not installed.
        MissingKey: its key is not set.
    """
    chosen = _chosen("LLM_PROVIDER", provider, environ)
    return _connected(chosen, environ, http_client)


def generation_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> ChatGeneration:
    """Prompt to text by a provider (`None`: that of LLM_PROVIDER); see `chat_client`, which raises the same."""
    chosen = _chosen("LLM_PROVIDER", provider, environ)
    return ChatGeneration(_connected(chosen, environ, http_client), model=configured_model(chosen, environ=environ))


def embedding_provider(
    provider: str | None = None, *, environ: Mapping[str, str] = os.environ, http_client: object | None = None
) -> EmbeddingProvider:
    """Texts to vectors by a provider (`None`: that of EMBEDDING_PROVIDER); see `chat_client`.

    Raises:
        UnknownName: there is no such provider.
        UsageError: it has no embeddings, or what is set is no base URL or no length above 0.
        MissingDependency: its SDK is not installed.
        MissingKey: its key is not set.
    """
    chosen, embeddings = _embedding(provider, environ)
    record = configured_embeddings(chosen.name, environ=environ)
    return embeddings.connect(_endpoint(chosen, environ, http_client), record.model, record.dimensions)


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
    return base_url_for(catalog.target(provider.target).api, environ=environ)


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
    return [
        name
        for name, each in PROVIDERS.items()
        if Capability.EMBEDDINGS in catalog.adapter(catalog.target(each.target).adapter).capabilities
    ]


def _chosen(variable: str, provider: str | None, environ: Mapping[str, str]) -> Provider:
    name = provider or environ.get(variable) or DEFAULT_PROVIDER
    if name not in PROVIDERS:
        kind = "embedding provider" if variable == "EMBEDDING_PROVIDER" else "provider"
        known = embedding_providers() if variable == "EMBEDDING_PROVIDER" else list(PROVIDERS)
        raise UnknownName(kind, name, known, None if provider else variable)
    return PROVIDERS[name]


def _connected(provider: Provider, environ: Mapping[str, str], http_client: object | None) -> ChatClient:
    adapter = catalog.adapter(catalog.target(provider.target).adapter)
    client = adapter.connect(_endpoint(provider, environ, http_client), configured_model(provider, environ=environ))
    assert isinstance(client, ChatClient)  # noqa: S101 - the shipped ones are synchronous
    return client


def _embedding(provider: str | None, environ: Mapping[str, str]) -> tuple[Provider, Embeddings]:
    chosen = _chosen("EMBEDDING_PROVIDER", provider, environ)
    embeddings = catalog.adapter(catalog.target(chosen.target).adapter).embeddings
    if embeddings is None:
        raise UsageError(
            f"the provider {chosen.name!r} has no embedding API; use {' or '.join(embedding_providers())} "
            "(EMBEDDING_PROVIDER)."
        )
    return chosen, embeddings


def _endpoint(provider: Provider, environ: Mapping[str, str], http_client: object | None) -> Endpoint:
    shipped = catalog.target(provider.target)
    adapter = catalog.adapter(shipped.adapter)
    if Capability.PROCESS in adapter.capabilities:
        return Endpoint("", "", processes=LocalRunner())
    wire = catalog.api(shipped.api)
    found = key(wire.key_variables, environ)
    if found is None:
        raise MissingKey(provider.name, wire.key_variables, is_target=False)
    base = configured_base_url(provider, environ=environ) or wire.provider_url
    return Endpoint(base.rstrip("/"), found, http_client)


def _dimensions(variable: str, default: int, environ: Mapping[str, str]) -> int:
    text = environ.get(variable)
    if not text:
        return default
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise UsageError(f"{variable}: {text!r} is no length of vectors; set a number above 0, such as {default}.")
    return int(text)
