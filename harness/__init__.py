"""Record-and-replay conformance harness for LLM tool calling.

The names in `__all__` are public: values and errors of the contract, what an adapter needs, and the kit for
applications. Each name is imported on first use, so that `import harness` loads nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than `harness --help` does
if TYPE_CHECKING:
    from harness.kit.client import AsyncClient, AsyncEmbedder, Client, Embedder
    from harness.kit.embeddings import EmbeddingRecord
    from harness.kit.factories import (
        async_chat_client,
        async_embedding_provider,
        async_generation_provider,
        chat_client,
        embedding_provider,
        generation_provider,
    )
    from harness.kit.generation import AsyncChatGeneration, ChatGeneration
    from harness.kit.handlers import CollectingHandler, ConsoleHandler, QueueHandler
    from harness.kit.handout import Handout
    from harness.kit.processes import LocalRunner
    from harness.kit.streamed import PartialArguments, Streamed
    from harness.kit.thread import Thread, ask
    from harness.kit.trimming import trimmed
    from harness.kit.workspace import Workspace
    from harness.model.errors import (
        AuthenticationFailed,
        BillingFailed,
        ChatError,
        Conflict,
        ConnectionFailed,
        EmbeddingMismatch,
        HarnessError,
        InvalidRequest,
        InvalidValue,
        IterationLimit,
        MalformedResponse,
        MissingDependency,
        MissingKey,
        NotFound,
        OutdatedDependency,
        Overloaded,
        PermissionDenied,
        ProviderError,
        RateLimited,
        RequestTooLarge,
        ServerError,
        TimedOut,
        ToolFailed,
        UnknownName,
        Unsupported,
        UsageError,
        provider_error,
    )
    from harness.model.loops import Conversation, ConversationTool, Loop
    from harness.model.messages import (
        JSON,
        SYNTHESISED_ID,
        ArgumentsDelta,
        ChatRequest,
        ChatResponse,
        File,
        Finish,
        Image,
        JsonMode,
        JsonSchema,
        Message,
        NamedTool,
        Opaque,
        Part,
        ProviderMetadata,
        Refusal,
        ResponseFormat,
        Role,
        StopReason,
        StreamEvent,
        Text,
        TextDelta,
        Thinking,
        ThinkingDelta,
        ThinkingSettings,
        Tool,
        ToolCall,
        ToolCallEnd,
        ToolCallStart,
        ToolChoice,
        ToolResult,
        Usage,
    )
    from harness.model.process import Command, Completed
    from harness.model.protocols import (
        Adapter,
        AsyncChatClient,
        AsyncEmbeddingProvider,
        AsyncGenerationProvider,
        AsyncStreamingChatClient,
        Capability,
        ChatClient,
        EmbeddingProvider,
        Embeddings,
        Endpoint,
        FinalCall,
        Generation,
        GenerationProvider,
        MessageHandler,
        PauseHandler,
        ProcessRunner,
        Requirement,
        Route,
        StreamingChatClient,
        UsageHandler,
    )

_MODULES = (
    "model.errors",
    "model.messages",
    "model.protocols",
    "model.process",
    "model.loops",
    "kit.thread",
    "kit.handlers",
    "kit.streamed",
    "kit.handout",
    "kit.trimming",
    "kit.generation",
    "kit.processes",
    "kit.workspace",
    "kit.client",
    "kit.embeddings",
    "kit.factories",
)
"""The modules of the names, searched in this order; slow imports come last."""

__all__ = [
    "JSON",
    "SYNTHESISED_ID",
    "Adapter",
    "ArgumentsDelta",
    "AsyncChatClient",
    "AsyncChatGeneration",
    "AsyncClient",
    "AsyncEmbedder",
    "AsyncEmbeddingProvider",
    "AsyncGenerationProvider",
    "AsyncStreamingChatClient",
    "AuthenticationFailed",
    "BillingFailed",
    "Capability",
    "ChatClient",
    "ChatError",
    "ChatGeneration",
    "ChatRequest",
    "ChatResponse",
    "Client",
    "CollectingHandler",
    "Command",
    "Completed",
    "Conflict",
    "ConnectionFailed",
    "ConsoleHandler",
    "Conversation",
    "ConversationTool",
    "Embedder",
    "EmbeddingMismatch",
    "EmbeddingProvider",
    "EmbeddingRecord",
    "Embeddings",
    "Endpoint",
    "File",
    "FinalCall",
    "Finish",
    "Generation",
    "GenerationProvider",
    "Handout",
    "HarnessError",
    "Image",
    "InvalidRequest",
    "InvalidValue",
    "IterationLimit",
    "JsonMode",
    "JsonSchema",
    "LocalRunner",
    "Loop",
    "MalformedResponse",
    "Message",
    "MessageHandler",
    "MissingDependency",
    "MissingKey",
    "NamedTool",
    "NotFound",
    "Opaque",
    "OutdatedDependency",
    "Overloaded",
    "Part",
    "PartialArguments",
    "PauseHandler",
    "PermissionDenied",
    "ProcessRunner",
    "ProviderError",
    "ProviderMetadata",
    "QueueHandler",
    "RateLimited",
    "Refusal",
    "RequestTooLarge",
    "Requirement",
    "ResponseFormat",
    "Role",
    "Route",
    "ServerError",
    "StopReason",
    "StreamEvent",
    "Streamed",
    "StreamingChatClient",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ThinkingSettings",
    "Thread",
    "TimedOut",
    "Tool",
    "ToolCall",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolChoice",
    "ToolFailed",
    "ToolResult",
    "UnknownName",
    "Unsupported",
    "Usage",
    "UsageError",
    "UsageHandler",
    "Workspace",
    "ask",
    "async_chat_client",
    "async_embedding_provider",
    "async_generation_provider",
    "chat_client",
    "embedding_provider",
    "generation_provider",
    "provider_error",
    "trimmed",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module  # noqa: PLC0415 - who asks for nothing pays nothing

        for module in _MODULES:
            found = vars(import_module(f"harness.{module}")).get(name)
            if found is not None:
                return globals().setdefault(name, found)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
