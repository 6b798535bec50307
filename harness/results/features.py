"""Features of tool calling, and the scenarios that prove that an adapter carries them."""

from __future__ import annotations

from collections.abc import Mapping

FEATURES: Mapping[str, tuple[str, ...]] = {
    "system prompt": ("system-plain",),
    "system prompt that changes": ("system-changed",),
    "system prompt in blocks": ("fields-system-blocks",),
    "system text in mid-conversation": ("system-in-conversation",),
    "parallel calls": ("call-parallel-different-tools",),
    "parallel calls switched off": ("fields-parallel-calls-off",),
    "forced tool choice": ("choice-required", "choice-named"),
    "choice among some tools": ("fields-choice-among-some",),
    "strict tools": ("fields-strict-tool",),
    "deferred tools, tool search": ("fields-deferred-tool",),
    "calls by programs": ("fields-called-by-program",),
    "asynchronous tools": ("tool-asynchronous",),
    "provider tools": ("history-opaque-parts", "thinking-provider-tool"),
    "free-form tools": ("free-form-tool",),
    "computer use": ("free-form-tool",),
    "approval of calls": ("approval-of-a-call",),
    "paused turns": ("stop-pause",),
    "compaction": ("compaction-item",),
    "context editing": ("fields-context-editing",),
    "conversations kept by the provider": ("conversation-kept",),
    "responses not stored": ("fields-not-stored",),
    "thinking sent back": ("thinking-tool-loop", "thinking-parallel-calls"),
    "cache marks": ("seeds-code-generator-cache",),
    "JSON mode": ("json-mode",),
    "JSON schema": ("json-schema",),
    "JSON with tools": ("json-with-tools",),
    "images": ("image-from-user",),
    "files": ("file-from-user",),
    "audio": ("audio-from-user",),
    "images in results": ("result-image",),
    "citations": ("citations-sent-back",),
    "refusals": ("stop-refusal",),
    "calls with empty arguments": ("call-provoked-empty-arguments",),
    "service tier": ("fields-service-tier",),
    "request metadata": ("fields-request-metadata",),
    "seed": ("fields-seed",),
    "safety settings": ("fields-safety-settings",),
    "fields for one turn": ("fields-for-one-turn",),
    "embeddings": ("seeds-code-search-embeddings",),
}
"""Names of features, with the ids of their scenarios."""
