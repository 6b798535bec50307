"""What the Messages API refuses, and what it takes with a loss.

"Captured" is what somebody has seen the provider refuse; what only its documents or nobody at all says warns.
"""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("anthropic-body", "The body is a JSON object.", "anthropic-required-fields")
BODY_SIZE = Limit("anthropic-body-size", "The body has at most 32 MB.", "anthropic-body-at-most-32-mb")
VERSION = Limit(
    "anthropic-version", "The header `anthropic-version` is there once, and is a date.", "anthropic-version-header"
)
FIELD_MISSING = Limit(
    "anthropic-field-missing",
    "Every required field is there.",
    "anthropic-required-fields, anthropic-call-fields, anthropic-block-fields, anthropic-no-extra-inputs",
)
FIELD_TYPE = Limit(
    "anthropic-field-type",
    "Every field is of its JSON type.",
    "anthropic-required-fields, anthropic-call-fields, anthropic-block-fields",
)
EXTRA_INPUT = Limit(
    "anthropic-extra-input", "There is no field that the API does not know.", "anthropic-no-extra-inputs"
)
MAX_TOKENS = Limit("anthropic-max-tokens", "`max_tokens` is not negative.", "anthropic-required-fields")
MESSAGES_EMPTY = Limit("anthropic-messages-empty", "There is at least one message.", "anthropic-required-fields")
MESSAGES_MANY = Limit(
    "anthropic-messages-many", "There are at most 100,000 messages.", "anthropic-messages-at-most-100000"
)
SAMPLING = Limit(
    "anthropic-sampling",
    "From API version 2026-10-21 on there are no sampling parameters; models from 4.7 on take the default only.",
    "anthropic-version-2026-10-21, anthropic-default-sampling-only, anthropic-default-sampling-unseen",
)

ROLE = Limit("anthropic-role", "The role of a message is `user`, `assistant` or `system`.", "anthropic-role-known")
BLOCK_TYPE = Limit(
    "anthropic-block-type",
    "Every content block is of a type that may stand where it does.",
    "anthropic-no-extra-inputs",
)
MEDIA_TYPE = Limit(
    "anthropic-media-type",
    "As base64 a picture is JPEG, PNG, GIF or WebP, and a document PDF.",
    "anthropic-media-types",
)
BLOCK_ROLE = Limit("anthropic-block-role", "Calls are the assistant's, results the user's.", "anthropic-call-fields")
TEXT_EMPTY = Limit(
    "anthropic-text-empty",
    "No text block of a message is empty, and the last assistant text is not blank.",
    "anthropic-no-empty-text",
)
RESULT_TEXT_EMPTY = Limit(
    "anthropic-result-text-empty", "No text block inside a result is empty.", "anthropic-no-empty-text-in-result"
)
MESSAGE_EMPTY = Limit(
    "anthropic-message-empty", "Every message but a last assistant one has content.", "anthropic-no-empty-text"
)
PREFILL = Limit(
    "anthropic-prefill",
    "On models from 4.6 on the conversation does not end with an assistant message.",
    "anthropic-no-prefill, anthropic-no-prefill-by-documents, anthropic-fable-5-2-prefill-refused",
)
DOCUMENT_ROLE = Limit(
    "anthropic-document-role",
    "From API version 2026-10-21 on no document stands directly in an assistant message.",
    "anthropic-version-2026-10-21",
)
USER_CITATIONS = Limit(
    "anthropic-user-citations",
    "From API version 2026-10-21 on no text of the user has citations.",
    "anthropic-version-2026-10-21",
)
CACHE_MARKS = Limit("anthropic-cache-marks", "There are at most four cache marks.", "anthropic-four-cache-marks")
CACHE_MARK = Limit("anthropic-cache-mark", "A cache mark is ephemeral, for `5m` or `1h`.", "anthropic-four-cache-marks")

CALL_ID_PATTERN = Limit(
    "anthropic-call-id-pattern", "The id of a call matches ^[a-zA-Z0-9_-]+$.", "anthropic-call-id-form"
)
CALL_ID_DUPLICATE = Limit(
    "anthropic-call-id-duplicate", "The ids of the calls of one turn differ.", "anthropic-call-ids-differ"
)
RESULT_MISSING = Limit(
    "anthropic-result-missing", "Every call has a result in the next user turn.", "anthropic-call-answered-next"
)
RESULT_ORDER = Limit("anthropic-result-order", "Results come first in their turn.", "anthropic-results-first")
RESULT_ORPHAN = Limit(
    "anthropic-result-orphan", "Every result answers a call of the turn before it.", "anthropic-result-has-call"
)
RESULT_DUPLICATE = Limit("anthropic-result-duplicate", "A call has a single result.", "anthropic-one-result-a-call")
SERVER_CALL_PENDING = Limit(
    "anthropic-server-call-pending",
    "While one of the provider's tools is at work, the next message holds only results.",
    "anthropic-server-call-alone",
)
TOOLSET_NAME = Limit(
    "anthropic-toolset-name", "A result names the toolset that its call names.", "anthropic-toolset-echoed"
)
THINKING_ALTERED = Limit(
    "anthropic-thinking-altered",
    "The thinking of the latest assistant message goes back as it came.",
    "anthropic-thinking-verbatim",
)
THINKING_SIGNATURE = Limit(
    "anthropic-thinking-signature",
    "Thinking that goes back was issued by the provider, with its signature.",
    "anthropic-thinking-foreign-signature-refused",
)

SYSTEM_BLOCK = Limit(
    "anthropic-system-block",
    "System text is text; a system message may also add or remove tools.",
    "anthropic-system-field, anthropic-system-in-messages",
)
SYSTEM_EMPTY = Limit(
    "anthropic-system-empty",
    "System text is neither empty nor blank.",
    "anthropic-no-empty-text, anthropic-system-in-messages",
)
SYSTEM_PLACEMENT = Limit(
    "anthropic-system-placement",
    "A system message stands behind a user message, and before an assistant message or at the end.",
    "anthropic-system-in-messages, anthropic-system-not-first",
)
SYSTEM_ROLE = Limit(
    "anthropic-system-role",
    "No message has the role `system`, on models that do not know it.",
    "anthropic-system-role-unknown, anthropic-sonnet-5-system-role",
)

TOOL_NAME = Limit(
    "anthropic-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,128}$.", "anthropic-tool-name-pattern"
)
TOOL_NAME_LONG = Limit(
    "anthropic-tool-name-long",
    "The name of a tool has at most 64 characters. The documents say so; captured refusals name 128.",
    "anthropic-tool-name-64",
)
TOOL_NAME_DUPLICATE = Limit(
    "anthropic-tool-name-duplicate", "The names of tools differ.", "anthropic-tool-names-differ"
)
TOOL_SCHEMA = Limit(
    "anthropic-tool-schema", "`input_schema` is a valid JSON schema of an object.", "anthropic-tool-schema-object"
)
TOOL_SCHEMA_UNION = Limit(
    "anthropic-tool-schema-union",
    "`input_schema` has no oneOf, anyOf or allOf at its root.",
    "anthropic-tool-schema-no-root-union",
)
TOOL_EXAMPLES = Limit(
    "anthropic-tool-examples", "Each of `input_examples` is valid by its schema.", "anthropic-tool-examples-valid"
)
TOOL_TYPE = Limit(
    "anthropic-tool-type",
    "Models get only versions of the provider's tools that they know. The documents say so; Bedrock takes them.",
    "anthropic-old-computer-tool",
)
TOOLS_MISSING = Limit(
    "anthropic-tools-missing", "A conversation with calls or results declares tools.", "anthropic-tools-with-history"
)
STRICT_SCHEMA = Limit(
    "anthropic-strict-schema",
    "Every object of a strict schema has `additionalProperties: false`.",
    "anthropic-strict-closed",
)
STRICT_KEYWORD = Limit(
    "anthropic-strict-keyword",
    "A strict schema bounds neither numbers nor lengths. The documents say so, and some models take it.",
    "anthropic-strict-bounds",
)
STRICT_MAP = Limit(
    "anthropic-strict-map",
    "A strict schema has no maps: `additionalProperties` is no schema.",
    "anthropic-strict-closed",
)
STRICT_RECURSION = Limit(
    "anthropic-strict-recursion", "No `$ref` of a strict schema leads back to itself.", "anthropic-strict-closed"
)
STRICT_TOOLS = Limit("anthropic-strict-tools", "At most 20 tools are strict.", "anthropic-strict-complexity")
STRICT_OPTIONAL = Limit(
    "anthropic-strict-optional",
    "All strict tools together have at most 24 optional parameters.",
    "anthropic-strict-complexity",
)
STRICT_UNIONS = Limit(
    "anthropic-strict-unions",
    "All strict tools together have at most 16 parameters of a union type.",
    "anthropic-strict-complexity",
)

CHOICE_TYPE = Limit("anthropic-choice-type", "`tool_choice` is auto, any, none or tool.", "anthropic-choice-form")
CHOICE_THINKING = Limit(
    "anthropic-choice-thinking", "No call is forced while manual thinking is enabled.", "anthropic-choice-and-budget"
)
CHOICE_FORCED = Limit(
    "anthropic-choice-forced",
    "No call is forced on models that choose by themselves.",
    "anthropic-no-forced-choice, anthropic-fable-5-no-forced-choice",
)
CHOICE_WITHOUT_TOOLS = Limit(
    "anthropic-choice-without-tools", "`tool_choice` comes with tools.", "anthropic-choice-needs-tools"
)
CHOICE_UNKNOWN = Limit(
    "anthropic-choice-unknown", "The tool that is chosen is declared.", "anthropic-choice-needs-tools"
)

THINKING_TYPE = Limit("anthropic-thinking-type", "`thinking` is of a type that there is.", "anthropic-thinking-form")
THINKING_UNSUPPORTED = Limit(
    "anthropic-thinking-unsupported",
    "`thinking` is of a type that the model takes.",
    "anthropic-no-thinking-budget, anthropic-no-adaptive-thinking, anthropic-fable-always-thinks, "
    "anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks",
)
THINKING_EFFORT = Limit(
    "anthropic-thinking-effort",
    "Thinking that goes together with an effort up to high only has none beyond.",
    "anthropic-opus-5-disabled-up-to-high, anthropic-between-tools-up-to-high, anthropic-haiku-5-5-thinking",
)
THINKING_BUDGET = Limit(
    "anthropic-thinking-budget",
    "A budget of thinking has at least 1024 tokens, and less than `max_tokens`.",
    "anthropic-thinking-budget-form, anthropic-budget-tokens-equal-max-tokens-refused",
)

EFFORT = Limit(
    "anthropic-effort", "`output_config.effort` is low, medium, high, xhigh or max.", "anthropic-effort-levels"
)
FORMAT_TYPE = Limit("anthropic-format-type", "`output_config.format` is a JSON schema.", "anthropic-output-format")
FORMAT_PREFILL = Limit(
    "anthropic-format-prefill", "An output format comes without a prefilled answer.", "anthropic-output-format-alone"
)
FORMAT_CITATIONS = Limit(
    "anthropic-format-citations", "An output format comes without citations.", "anthropic-output-format-alone"
)

LIMITS = limits_among(globals())
