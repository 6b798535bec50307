"""What the Messages API refuses, and what it takes with a loss.

"Captured" is what somebody has seen the provider refuse; what only its documents or nobody at all says warns.
"""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit(
    "anthropic-body",
    "The body is a JSON object.",
    "anthropic-required-fields",
    remedy="send a JSON object as the body",
)
BODY_SIZE = Limit(
    "anthropic-body-size",
    "The body has at most 32 MB.",
    "anthropic-body-at-most-32-mb",
    remedy="send less: shorten the history, or send files by reference",
)
VERSION = Limit(
    "anthropic-version",
    "The header `anthropic-version` is there once, and is a date.",
    "anthropic-version-header",
    remedy="send the header `anthropic-version` once, as a date such as 2023-06-01",
)
FIELD_MISSING = Limit(
    "anthropic-field-missing",
    "Every required field is there.",
    "anthropic-required-fields, anthropic-call-fields, anthropic-block-fields, anthropic-no-extra-inputs",
    remedy="send the field that is named",
)
FIELD_TYPE = Limit(
    "anthropic-field-type",
    "Every field is of its JSON type.",
    "anthropic-required-fields, anthropic-call-fields, anthropic-block-fields",
    remedy="send the field as the JSON type that is named",
)
EXTRA_INPUT = Limit(
    "anthropic-extra-input",
    "There is no field that the API does not know.",
    "anthropic-no-extra-inputs",
    remedy="leave out the field that the API does not know",
)
MAX_TOKENS = Limit(
    "anthropic-max-tokens",
    "`max_tokens` is not negative.",
    "anthropic-required-fields",
    remedy="send `max_tokens` as a number from 0 on",
)
MESSAGES_EMPTY = Limit(
    "anthropic-messages-empty",
    "There is at least one message.",
    "anthropic-required-fields",
    remedy="send at least one message",
)
MESSAGES_MANY = Limit(
    "anthropic-messages-many",
    "There are at most 100,000 messages.",
    "anthropic-messages-at-most-100000",
    remedy="send at most 100,000 messages: drop or summarise the oldest",
)
SAMPLING = Limit(
    "anthropic-sampling",
    "From API version 2026-10-21 on there are no sampling parameters; models from 4.7 on take the default only.",
    "anthropic-version-2026-10-21, anthropic-default-sampling-only, anthropic-default-sampling-unseen",
    remedy="leave out `temperature`, `top_p` and `top_k` for this model or API version",
)

ROLE = Limit(
    "anthropic-role",
    "The role of a message is `user`, `assistant` or `system`.",
    "anthropic-role-known",
    remedy="use the role `user`, `assistant` or, where the model knows it, `system`",
)
BLOCK_TYPE = Limit(
    "anthropic-block-type",
    "Every content block is of a type that may stand where it does.",
    "anthropic-no-extra-inputs",
    remedy="use a type of block that may be there, or leave the block out",
)
MEDIA_TYPE = Limit(
    "anthropic-media-type",
    "As base64 a picture is JPEG, PNG, GIF or WebP, and a document PDF.",
    "anthropic-media-types",
    remedy="send base64 pictures as JPEG, PNG, GIF or WebP and base64 documents as PDF; a text goes as a text source",
)
BLOCK_ROLE = Limit(
    "anthropic-block-role",
    "Calls are the assistant's, results the user's.",
    "anthropic-call-fields",
    remedy="put calls into assistant messages and results into user messages",
)
TEXT_EMPTY = Limit(
    "anthropic-text-empty",
    "No text block of a message is empty, and the last assistant text is not blank.",
    "anthropic-no-empty-text",
    remedy="leave out empty text blocks, and strip a last assistant text",
)
RESULT_TEXT_EMPTY = Limit(
    "anthropic-result-text-empty",
    "No text block inside a result is empty.",
    "anthropic-no-empty-text-in-result",
    remedy="leave out empty text blocks of the result",
)
MESSAGE_EMPTY = Limit(
    "anthropic-message-empty",
    "Every message but a last assistant one has content.",
    "anthropic-no-empty-text",
    remedy="leave out the message, or give it content",
)
PREFILL = Limit(
    "anthropic-prefill",
    "On models from 4.6 on the conversation does not end with an assistant message.",
    "anthropic-no-prefill, anthropic-no-prefill-by-documents, anthropic-fable-5-2-prefill-refused",
    remedy="end the conversation with a user message: ask for the form of the answer in words or by a schema",
)
DOCUMENT_ROLE = Limit(
    "anthropic-document-role",
    "From API version 2026-10-21 on no document stands directly in an assistant message.",
    "anthropic-version-2026-10-21",
    remedy="put the document into a user message or into a result",
)
USER_CITATIONS = Limit(
    "anthropic-user-citations",
    "From API version 2026-10-21 on no text of the user has citations.",
    "anthropic-version-2026-10-21",
    remedy="leave `citations` out of the user's text",
)
CACHE_MARKS = Limit(
    "anthropic-cache-marks",
    "There are at most four cache marks.",
    "anthropic-four-cache-marks",
    remedy="set at most four cache marks",
)
CACHE_MARK = Limit(
    "anthropic-cache-mark",
    "A cache mark is ephemeral, for `5m` or `1h`.",
    "anthropic-four-cache-marks",
    remedy="send `cache_control` as type `ephemeral`, with the ttl `5m` or `1h`",
)

CALL_ID_PATTERN = Limit(
    "anthropic-call-id-pattern",
    "The id of a call matches ^[a-zA-Z0-9_-]+$.",
    "anthropic-call-id-form",
    remedy="replace what is no letter, digit, `_` or `-` in the id, in the call and its result alike",
)
CALL_ID_DUPLICATE = Limit(
    "anthropic-call-id-duplicate",
    "The ids of the calls of one turn differ.",
    "anthropic-call-ids-differ",
    remedy="give each call of the turn an id of its own",
)
RESULT_MISSING = Limit(
    "anthropic-result-missing",
    "Every call has a result in the next user turn.",
    "anthropic-call-answered-next",
    remedy="send a `tool_result` block for each call in the user message right after it",
)
RESULT_ORDER = Limit(
    "anthropic-result-order",
    "Results come first in their turn.",
    "anthropic-results-first",
    remedy="put the `tool_result` blocks before the text of the user message",
)
RESULT_ORPHAN = Limit(
    "anthropic-result-orphan",
    "Every result answers a call of the turn before it.",
    "anthropic-result-has-call",
    remedy="send the call that the result answers in the assistant message before it, or leave the result out",
)
RESULT_DUPLICATE = Limit(
    "anthropic-result-duplicate",
    "A call has a single result.",
    "anthropic-one-result-a-call",
    remedy="send one `tool_result` block for each call",
)
SERVER_CALL_PENDING = Limit(
    "anthropic-server-call-pending",
    "While one of the provider's tools is at work, the next message holds only results.",
    "anthropic-server-call-alone",
    remedy="send only results in the next message while the provider's tool is at work",
)
TOOLSET_NAME = Limit(
    "anthropic-toolset-name",
    "A result names the toolset that its call names.",
    "anthropic-toolset-echoed",
    remedy="give the result the toolset that its call names",
)
THINKING_ALTERED = Limit(
    "anthropic-thinking-altered",
    "The thinking of the latest assistant message goes back as it came.",
    "anthropic-thinking-verbatim",
    remedy="send the thinking blocks of the latest assistant message back as they came",
)
THINKING_SIGNATURE = Limit(
    "anthropic-thinking-signature",
    "Thinking that goes back was issued by the provider, with its signature.",
    "anthropic-thinking-foreign-signature-refused",
    remedy="send thinking back with the signature that the provider issued, or leave the block out",
)

SYSTEM_BLOCK = Limit(
    "anthropic-system-block",
    "System text is text; a system message may also add or remove tools.",
    "anthropic-system-field, anthropic-system-in-messages",
    remedy="send text blocks in `system`",
)
SYSTEM_EMPTY = Limit(
    "anthropic-system-empty",
    "System text is neither empty nor blank.",
    "anthropic-no-empty-text, anthropic-system-in-messages",
    remedy="leave `system` out where it is empty",
)
SYSTEM_PLACEMENT = Limit(
    "anthropic-system-placement",
    "A system message stands behind a user message, and before an assistant message or at the end.",
    "anthropic-system-in-messages, anthropic-system-not-first",
    remedy="put the system message after a user message, or the text into the field `system`",
)
SYSTEM_ROLE = Limit(
    "anthropic-system-role",
    "No message has the role `system`, on models that do not know it.",
    "anthropic-system-role-unknown, anthropic-sonnet-5-system-role",
    remedy="put the text into the field `system`: the model takes no message with the role `system`",
)

TOOL_NAME = Limit(
    "anthropic-tool-name",
    "The name of a tool matches ^[a-zA-Z0-9_-]{1,128}$.",
    "anthropic-tool-name-pattern",
    remedy="name the tool with 1 to 128 letters, digits, `_` and `-`",
)
TOOL_NAME_LONG = Limit(
    "anthropic-tool-name-long",
    "The name of a tool has at most 64 characters. The documents say so; captured refusals name 128.",
    "anthropic-tool-name-64",
    remedy="shorten the tool's name to 64 characters",
)
TOOL_NAME_DUPLICATE = Limit(
    "anthropic-tool-name-duplicate",
    "The names of tools differ.",
    "anthropic-tool-names-differ",
    remedy="give each tool a name of its own",
)
TOOL_SCHEMA = Limit(
    "anthropic-tool-schema",
    "`input_schema` is a valid JSON schema of an object.",
    "anthropic-tool-schema-object",
    remedy="send `input_schema` as a valid JSON schema with `type: object`",
)
TOOL_SCHEMA_UNION = Limit(
    "anthropic-tool-schema-union",
    "`input_schema` has no oneOf, anyOf or allOf at its root.",
    "anthropic-tool-schema-no-root-union",
    remedy="take oneOf, anyOf and allOf off the root of `input_schema`: put the union below a property",
)
TOOL_EXAMPLES = Limit(
    "anthropic-tool-examples",
    "Each of `input_examples` is valid by its schema.",
    "anthropic-tool-examples-valid",
    remedy="correct the example by the schema, or leave it out",
)
TOOL_TYPE = Limit(
    "anthropic-tool-type",
    "Models get only versions of the provider's tools that they know. The documents say so; Bedrock takes them.",
    "anthropic-old-computer-tool",
    remedy="use the version of the provider's tool that the model knows",
)
TOOLS_MISSING = Limit(
    "anthropic-tools-missing",
    "A conversation with calls or results declares tools.",
    "anthropic-tools-with-history",
    remedy="send `tools` with each request of a conversation that has calls or results",
)
STRICT_SCHEMA = Limit(
    "anthropic-strict-schema",
    "Every object of a strict schema has `additionalProperties: false`.",
    "anthropic-strict-closed",
    remedy="set `additionalProperties: false` on every object of the strict schema",
)
STRICT_KEYWORD = Limit(
    "anthropic-strict-keyword",
    "A strict schema bounds neither numbers nor lengths. The documents say so, and some models take it.",
    "anthropic-strict-bounds",
    remedy="take bounds of numbers and lengths out of the strict schema, or leave `strict` out",
)
STRICT_MAP = Limit(
    "anthropic-strict-map",
    "A strict schema has no maps: `additionalProperties` is no schema.",
    "anthropic-strict-closed",
    remedy="set `additionalProperties: false` in place of a schema, or leave `strict` out",
)
STRICT_RECURSION = Limit(
    "anthropic-strict-recursion",
    "No `$ref` of a strict schema leads back to itself.",
    "anthropic-strict-closed",
    remedy="take the recursion out of the schema, or leave `strict` out",
)
STRICT_TOOLS = Limit(
    "anthropic-strict-tools",
    "At most 20 tools are strict.",
    "anthropic-strict-complexity",
    remedy="set `strict` on at most 20 tools",
)
STRICT_OPTIONAL = Limit(
    "anthropic-strict-optional",
    "All strict tools together have at most 24 optional parameters.",
    "anthropic-strict-complexity",
    remedy="require more of the parameters, or set `strict` on fewer tools",
)
STRICT_UNIONS = Limit(
    "anthropic-strict-unions",
    "All strict tools together have at most 16 parameters of a union type.",
    "anthropic-strict-complexity",
    remedy="use fewer union types, or set `strict` on fewer tools",
)

CHOICE_TYPE = Limit(
    "anthropic-choice-type",
    "`tool_choice` is auto, any, none or tool.",
    "anthropic-choice-form",
    remedy="send `tool_choice` with the type auto, any, none or tool",
)
CHOICE_THINKING = Limit(
    "anthropic-choice-thinking",
    "No call is forced while manual thinking is enabled.",
    "anthropic-choice-and-budget",
    remedy="send `tool_choice` auto or none, or leave manual thinking off",
)
CHOICE_FORCED = Limit(
    "anthropic-choice-forced",
    "No call is forced on models that choose by themselves.",
    "anthropic-no-forced-choice, anthropic-fable-5-no-forced-choice",
    remedy="send `tool_choice` auto or none: the model takes no forced call",
)
CHOICE_WITHOUT_TOOLS = Limit(
    "anthropic-choice-without-tools",
    "`tool_choice` comes with tools.",
    "anthropic-choice-needs-tools",
    remedy="leave out `tool_choice`, or send tools",
)
CHOICE_UNKNOWN = Limit(
    "anthropic-choice-unknown",
    "The tool that is chosen is declared.",
    "anthropic-choice-needs-tools",
    remedy="declare the tool that is chosen",
)

THINKING_TYPE = Limit(
    "anthropic-thinking-type",
    "`thinking` is of a type that there is.",
    "anthropic-thinking-form",
    remedy="send `thinking` with a type that the API has",
)
THINKING_UNSUPPORTED = Limit(
    "anthropic-thinking-unsupported",
    "`thinking` is of a type that the model takes.",
    "anthropic-no-thinking-budget, anthropic-no-adaptive-thinking, anthropic-fable-always-thinks, "
    "anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks",
    remedy="send the type of `thinking` that the model takes, or leave it out",
)
THINKING_EFFORT = Limit(
    "anthropic-thinking-effort",
    "Thinking that goes together with an effort up to high only has none beyond.",
    "anthropic-opus-5-disabled-up-to-high, anthropic-between-tools-up-to-high, anthropic-haiku-5-5-thinking",
    remedy="lower `output_config.effort` to high at most, or choose another type of `thinking`",
)
THINKING_BUDGET = Limit(
    "anthropic-thinking-budget",
    "A budget of thinking has at least 1024 tokens, and less than `max_tokens`.",
    "anthropic-thinking-budget-form, anthropic-budget-tokens-equal-max-tokens-refused",
    remedy="send a `budget_tokens` of at least 1024 and below `max_tokens`",
)

EFFORT = Limit(
    "anthropic-effort",
    "`output_config.effort` is low, medium, high, xhigh or max.",
    "anthropic-effort-levels",
    remedy="send `output_config.effort` as low, medium, high, xhigh or max",
)
FORMAT_TYPE = Limit(
    "anthropic-format-type",
    "`output_config.format` is a JSON schema.",
    "anthropic-output-format",
    remedy="send `output_config.format` with the type json_schema",
)
FORMAT_PREFILL = Limit(
    "anthropic-format-prefill",
    "An output format comes without a prefilled answer.",
    "anthropic-output-format-alone",
    remedy="end the conversation with a user message where an output format is set",
)
FORMAT_CITATIONS = Limit(
    "anthropic-format-citations",
    "An output format comes without citations.",
    "anthropic-output-format-alone",
    remedy="leave out citations, or the output format",
)

LIMITS = limits_among(globals())
