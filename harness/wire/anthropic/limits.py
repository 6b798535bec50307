"""What the Messages API refuses, and what it takes with a loss (wire-facts, section 2).

"Captured" is what somebody has seen the provider refuse; what only its documents or nobody at all says warns.
"""

from __future__ import annotations

from harness.wire.limit import Limit, limits_among

BODY = Limit("anthropic-body", "The body is a JSON object.", "AN-1")
BODY_SIZE = Limit("anthropic-body-size", "The body has at most 32 MB.", "AN-1")
VERSION = Limit(
    "anthropic-version",
    "The header `anthropic-version` is there once, and is a date.",
    "captured: https://github.com/envoyproxy/ai-gateway/pull/1909 (2026-03-02), "
    "https://github.com/decolua/9router/issues/2357 (2026-07-04)",
)
FIELD_MISSING = Limit("anthropic-field-missing", "Every required field is there.", "AN-1, AN-7, AN-13, AN-22")
FIELD_TYPE = Limit("anthropic-field-type", "Every field is of its JSON type.", "AN-1, AN-7, AN-13")
EXTRA_INPUT = Limit("anthropic-extra-input", "There is no field that the API does not know.", "AN-22")
MAX_TOKENS = Limit("anthropic-max-tokens", "`max_tokens` is not negative.", "AN-1")
MESSAGES_EMPTY = Limit("anthropic-messages-empty", "There is at least one message.", "AN-1")
MESSAGES_MANY = Limit("anthropic-messages-many", "There are at most 100,000 messages.", "AN-1")
SAMPLING = Limit(
    "anthropic-sampling",
    "From API version 2026-10-21 on there are no sampling parameters; models from 4.7 on take the default only.",
    "AN version 2026-10-21, AN-D24",
)

ROLE = Limit("anthropic-role", "The role of a message is `user`, `assistant` or `system`.", "AN-17")
BLOCK_TYPE = Limit("anthropic-block-type", "Every content block is of a type that may stand where it does.", "AN-22")
BLOCK_ROLE = Limit("anthropic-block-role", "Calls are the assistant's, results the user's.", "AN-7")
TEXT_EMPTY = Limit("anthropic-text-empty", "No text block is empty, and the last assistant text is not blank.", "AN-16")
MESSAGE_EMPTY = Limit("anthropic-message-empty", "Every message but a last assistant one has content.", "AN-16")
PREFILL = Limit(
    "anthropic-prefill",
    "On models from 4.6 on the conversation does not end with an assistant message.",
    "AN-18, AN-D19",
)
DOCUMENT_ROLE = Limit(
    "anthropic-document-role",
    "From API version 2026-10-21 on no document stands directly in an assistant message.",
    "AN version 2026-10-21",
)
USER_CITATIONS = Limit(
    "anthropic-user-citations",
    "From API version 2026-10-21 on no text of the user has citations.",
    "AN version 2026-10-21",
)
CACHE_MARKS = Limit("anthropic-cache-marks", "There are at most four cache marks.", "AN-23")
CACHE_MARK = Limit("anthropic-cache-mark", "A cache mark is ephemeral, for `5m` or `1h`.", "AN-23")

CALL_ID_PATTERN = Limit("anthropic-call-id-pattern", "The id of a call matches ^[a-zA-Z0-9_-]+$.", "AN-7")
CALL_ID_DUPLICATE = Limit("anthropic-call-id-duplicate", "The ids of the calls of one turn differ.", "AN-7")
RESULT_MISSING = Limit("anthropic-result-missing", "Every call has a result in the next user turn.", "AN-8")
RESULT_ORDER = Limit("anthropic-result-order", "Results come first in their turn.", "AN-9")
RESULT_ORPHAN = Limit("anthropic-result-orphan", "Every result answers a call of the turn before it.", "AN-10")
RESULT_DUPLICATE = Limit("anthropic-result-duplicate", "A call has a single result.", "AN-11")
SERVER_CALL_PENDING = Limit(
    "anthropic-server-call-pending",
    "While one of the provider's tools is at work, the next message holds only results.",
    "AN-14",
)
TOOLSET_NAME = Limit("anthropic-toolset-name", "A result names the toolset that its call names.", "AN-15")
THINKING_ALTERED = Limit(
    "anthropic-thinking-altered", "The thinking of the latest assistant message goes back as it came.", "AN-51"
)

SYSTEM_BLOCK = Limit(
    "anthropic-system-block", "System text is text; a system message may also add or remove tools.", "AN-30, AN-31"
)
SYSTEM_EMPTY = Limit("anthropic-system-empty", "System text is neither empty nor blank.", "AN-16, AN-31")
SYSTEM_PLACEMENT = Limit(
    "anthropic-system-placement",
    "A system message stands behind a user message, and before an assistant message or at the end.",
    "AN-31, AN-D10",
)
SYSTEM_ROLE = Limit(
    "anthropic-system-role", "No message has the role `system`, on models that do not know it.", "AN-31, AN-D13"
)

TOOL_NAME = Limit("anthropic-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,128}$.", "AN-2")
TOOL_NAME_LONG = Limit(
    "anthropic-tool-name-long",
    "The name of a tool has at most 64 characters. The documents say so; captured refusals name 128.",
    "AN-2",
    "warning",
)
TOOL_NAME_DUPLICATE = Limit("anthropic-tool-name-duplicate", "The names of tools differ.", "AN-3")
TOOL_SCHEMA = Limit("anthropic-tool-schema", "`input_schema` is a valid JSON schema of an object.", "AN-4, AN-D2")
TOOL_SCHEMA_UNION = Limit(
    "anthropic-tool-schema-union", "`input_schema` has no oneOf, anyOf or allOf at its root.", "AN-D21"
)
TOOL_EXAMPLES = Limit("anthropic-tool-examples", "Each of `input_examples` is valid by its schema.", "AN-5")
TOOL_TYPE = Limit(
    "anthropic-tool-type",
    "Models get only versions of the provider's tools that they know. The documents say so; Bedrock takes them.",
    "AN-D31",
    "warning",
)
TOOLS_MISSING = Limit(
    "anthropic-tools-missing", "A conversation with calls or results declares tools.", "AN-19", "warning"
)
STRICT_SCHEMA = Limit(
    "anthropic-strict-schema", "Every object of a strict schema has `additionalProperties: false`.", "AN-6"
)
STRICT_KEYWORD = Limit(
    "anthropic-strict-keyword",
    "A strict schema bounds neither numbers nor lengths. The documents say so, and some models take it.",
    "AN-6",
    "warning",
)
STRICT_MAP = Limit(
    "anthropic-strict-map", "A strict schema has no maps: `additionalProperties` is no schema.", "AN-6, AN-D16"
)
STRICT_RECURSION = Limit("anthropic-strict-recursion", "No `$ref` of a strict schema leads back to itself.", "AN-6")
STRICT_TOOLS = Limit("anthropic-strict-tools", "At most 20 tools are strict.", "AN-6, AN-D15, AN-D16")
STRICT_OPTIONAL = Limit(
    "anthropic-strict-optional", "All strict tools together have at most 24 optional parameters.", "AN-6, AN-D16"
)
STRICT_UNIONS = Limit(
    "anthropic-strict-unions",
    "All strict tools together have at most 16 parameters of a union type.",
    "AN-6, AN-D16",
)

CHOICE_TYPE = Limit("anthropic-choice-type", "`tool_choice` is auto, any, none or tool.", "AN-20")
CHOICE_THINKING = Limit("anthropic-choice-thinking", "No call is forced while manual thinking is enabled.", "AN-20")
CHOICE_FORCED = Limit("anthropic-choice-forced", "No call is forced on models that choose by themselves.", "AN-D1")
CHOICE_WITHOUT_TOOLS = Limit(
    "anthropic-choice-without-tools", "`tool_choice` comes with tools.", "AN-20, unverified", "warning"
)
CHOICE_UNKNOWN = Limit(
    "anthropic-choice-unknown", "The tool that is chosen is declared.", "AN-20, unverified", "warning"
)

THINKING_TYPE = Limit("anthropic-thinking-type", "`thinking` is of a type that there is.", "AN-50")
THINKING_UNSUPPORTED = Limit(
    "anthropic-thinking-unsupported", "`thinking` is of a type that the model takes.", "AN-50, AN-D4 to AN-D6, AN-D28"
)
THINKING_EFFORT = Limit(
    "anthropic-thinking-effort",
    "Thinking that goes together with an effort up to high only has none beyond.",
    "AN-D7, AN-D30",
    "warning",
)
THINKING_BUDGET = Limit(
    "anthropic-thinking-budget", "A budget of thinking has at least 1024 tokens, and less than `max_tokens`.", "AN-50"
)

EFFORT = Limit("anthropic-effort", "`output_config.effort` is low, medium, high, xhigh or max.", "AN-41")
FORMAT_TYPE = Limit("anthropic-format-type", "`output_config.format` is a JSON schema.", "AN-40")
FORMAT_PREFILL = Limit("anthropic-format-prefill", "An output format comes without a prefilled answer.", "AN-40")
FORMAT_CITATIONS = Limit("anthropic-format-citations", "An output format comes without citations.", "AN-40")

LIMITS = limits_among(globals())
