"""Adapter `gemini`: generateContent through Google's official SDK `google-genai`, for models with and without call ids.

Differences between the contract and the API:

- A call without an id gets one that is marked with `SYNTHESISED_ID` and never sent.
- Thought signatures stay on their parts, byte for byte. On Gemini 3, a call made by another model gets the documented
  placeholder signature, because the API requires one (gemini-thought-signature).
- A result must be an object: other values are sent as `output`, errors as `error` (gemini-function-response-form).
- Schemas are sent as JSON Schema, unchanged (`parametersJsonSchema`, `responseJsonSchema`); a tool without arguments
  has no schema (gemini-schema-fields).
- Before Gemini 3, JSON output together with tools is `Unsupported`, and so are media in results (gemini-json-output,
  gemini-function-response-form).
- Effort becomes a thinking level for Gemini 3 and later, and a token budget for older models (gemini-level-or-budget).
- Streams bypass the SDK, which loses parts of them (`client.ResponseKeeper`). A call whose arguments arrive in pieces
  (Vertex only, gemini-allowed-names) is `Opaque`.
- `cache` sends nothing: the API has no cache marks.
- `provider_metadata["gemini"]` of the request is merged into the body: objects are merged, lists are extended, and
  other values are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters import CHAT_CAPABILITIES
from harness.model.protocols import Adapter, Capability, Embeddings, Requirement, Route
from harness.platform.environment import importing_sdk

if TYPE_CHECKING:
    from harness.adapters.gemini.client import GeminiClient
    from harness.model.protocols import EmbeddingProvider, Endpoint

SDK = Requirement("google-genai", "gemini", "3.0")


def connect(endpoint: Endpoint, model: str) -> GeminiClient:
    """Return a client of `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk("gemini", SDK, "google", "google.genai"):
        from harness.adapters.gemini.client import GeminiClient  # noqa: PLC0415 - imports the SDK
    return GeminiClient(endpoint, model)


def connect_embeddings(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
    """Return an embedding provider for vectors with `dimensions` components; see `client.GeminiEmbeddings`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk("gemini", SDK, "google", "google.genai"):
        from harness.adapters.gemini.client import GeminiEmbeddings  # noqa: PLC0415 - imports the SDK
    return GeminiEmbeddings(endpoint, model, dimensions)


ADAPTER = Adapter(
    name="gemini",
    api="gemini",
    capabilities=CHAT_CAPABILITIES
    | {
        Capability.AUDIO,
        Capability.THINKING,
        Capability.PROVIDER_FIELDS,
        Capability.PROVIDER_TOOLS,
        Capability.EMBEDDINGS,
    },
    connect=connect,
    embeddings=Embeddings("gemini-embedding-2", 768, connect_embeddings),
    requires=SDK,
    route=Route.CLIENT,
)
