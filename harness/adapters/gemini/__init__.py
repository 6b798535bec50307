"""Adapter on Google's official SDK `google-genai`, for generateContent.

One adapter for models with ids on the wire and without. What it does where the API and the contract differ:

- A call that came without an id gets one, marked by `SYNTHESISED_ID`, which never goes onto the wire.
- Thought signatures stay on their parts, byte for byte. On Gemini 3 a call from elsewhere that lacks one gets the
  documented stand-in, since the API refuses it else (gemini-thought-signature).
- A result is an object: one that is none stands under `output`, an error under `error` (gemini-function-response-form).
- Schemas travel as JSON Schema, unchanged (`parametersJsonSchema`, `responseJsonSchema`); a tool that takes no
  arguments has none (gemini-schema-fields).
- JSON together with tools, and media in results: `Unsupported` before Gemini 3 (gemini-json-output,
  gemini-function-response-form).
- Effort is a thinking level on Gemini 3 and a token budget before that (gemini-level-or-budget).
- A stream is read past the SDK, which loses parts of it (`client.BodyKeeper`). A call whose arguments come in pieces
  (Vertex only, gemini-allowed-names) is `Opaque`.
- `cache` asks for nothing: the API has no cache marks.
- `provider_metadata["gemini"]` of the request is merged into the body: objects merge, lists grow, the rest replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contract.protocols import Adapter, Capability, Embeddings, Requirement, Route
from harness.host.environment import needing

if TYPE_CHECKING:
    from harness.adapters.gemini.client import GeminiClient
    from harness.contract.protocols import EmbeddingProvider, Endpoint

SDK = Requirement("google-genai", "gemini", "3.0")


def connect(endpoint: Endpoint, model: str) -> GeminiClient:
    """A client of `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing("gemini", SDK, "google", "google.genai"):
        from harness.adapters.gemini.client import GeminiClient  # noqa: PLC0415 - imports the SDK
    return GeminiClient(endpoint, model)


def connect_embeddings(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
    """A provider of `model`'s vectors, each with so many `dimensions`; see `client.GeminiEmbeddings`.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing("gemini", SDK, "google", "google.genai"):
        from harness.adapters.gemini.client import GeminiEmbeddings  # noqa: PLC0415 - imports the SDK
    return GeminiEmbeddings(endpoint, model, dimensions)


ADAPTER = Adapter(
    name="gemini",
    api="gemini",
    capabilities=frozenset(
        {
            Capability.SYSTEM_PROMPT,
            Capability.TOOLS,
            Capability.PARALLEL_TOOL_CALLS,
            Capability.TOOL_CHOICE,
            Capability.FORCED_TOOL_CHOICE,
            Capability.JSON_MODE,
            Capability.JSON_SCHEMA,
            Capability.JSON_WITH_TOOLS,
            Capability.VISION,
            Capability.IMAGE_RESULTS,
            Capability.FILES,
            Capability.AUDIO,
            Capability.THINKING,
            Capability.CACHE_MARKS,
            Capability.PROVIDER_TOOLS,
            Capability.HISTORY,
            Capability.TRUNCATION,
            Capability.STREAMING,
            Capability.EMBEDDINGS,
        }
    ),
    connect=connect,
    embeddings=Embeddings("gemini-embedding-2", 768, connect_embeddings),
    requires=SDK,
    route=Route.CLIENT,
)
