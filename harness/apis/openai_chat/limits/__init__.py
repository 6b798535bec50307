"""What Chat Completions refuses, and what it takes with a loss.

Where a sentence does not say so, it holds at OpenAI's own service alone or at every server that speaks the format, as
`chat` tells apart.
"""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("openai-chat-body", "The body is a JSON object.", "openai-chat-required-fields")
UNKNOWN_FIELD = Limit(
    "openai-chat-unknown-field", "There is no field that the service does not know.", "openai-chat-required-fields"
)
PARAMETER_TYPE = Limit("openai-chat-parameter-type", "Every field is of its JSON type.", "openai-chat-parameter-types")
PARAMETER_RANGE = Limit(
    "openai-chat-parameter-range", "Every number is within its bounds.", "openai-chat-parameter-ranges"
)
MODEL_MISSING = Limit("openai-chat-model-missing", "The request names a model.", "openai-chat-required-fields")
STREAM_OPTIONS = Limit(
    "openai-chat-stream-options", "`stream_options` comes with `stream: true`.", "openai-chat-stream-options-streamed"
)
LEGACY_FUNCTIONS = Limit(
    "openai-chat-legacy-functions",
    "Tools stand in `tools` and `tool_choice`; `functions` and `function_call` are deprecated.",
    "openai-chat-functions-deprecated",
)
MAX_TOKENS = Limit(
    "openai-chat-max-tokens",
    "Reasoning models are bound by `max_completion_tokens`.",
    "openai-chat-max-completion-tokens",
)
TEMPERATURE = Limit(
    "openai-chat-temperature",
    "Models that take one temperature only get no other one.",
    "openai-chat-default-temperature",
)
SAMPLING = Limit(
    "openai-chat-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "openai-chat-reasoning-sampling",
)

MESSAGES_MISSING = Limit(
    "openai-chat-messages-missing", "There is at least one message.", "openai-chat-required-fields"
)
MESSAGE_TYPE = Limit("openai-chat-message-type", "Every message is an object.", "openai-chat-message-form")
ROLE_UNKNOWN = Limit("openai-chat-role-unknown", "Every message has a role that there is.", "openai-chat-message-form")
SYSTEM_UNSUPPORTED = Limit(
    "openai-chat-system-unsupported", "Models that take no system prompt get none.", "openai-chat-no-system-role"
)
CONTENT_MISSING = Limit(
    "openai-chat-content-missing",
    "A message has content, unless it is the assistant's and calls tools.",
    "openai-chat-message-form, openai-chat-call-form",
)
CONTENT_TYPE = Limit("openai-chat-content-type", "Content is a string or a list of parts.", "openai-chat-message-form")
CONTENT_PART = Limit(
    "openai-chat-content-part",
    "Each role gets only content parts of its own kinds.",
    "openai-chat-message-form, openai-chat-result-text-only",
)
AUDIO_FORMAT = Limit("openai-chat-audio-format", "Sound is WAV or MP3.", "openai-chat-audio-form")
AUDIO_MODEL = Limit(
    "openai-chat-audio-model",
    "Models that are not made for sound get none.",
    "openai-chat-audio-models",
)
FILE_TYPE = Limit("openai-chat-file-type", "A file is a PDF.", "openai-chat-file-inline-pdf")
NAME_PATTERN = Limit(
    "openai-chat-name-pattern", "Names in the history match ^[a-zA-Z0-9_-]{1,64}$.", "openai-chat-names"
)

CALLS_TYPE = Limit("openai-chat-calls-type", "`tool_calls` is a list of objects.", "openai-chat-call-form")
CALL_TYPE = Limit("openai-chat-call-type", "A call is of the type `function` or `custom`.", "openai-chat-call-form")
CALL_NAME_MISSING = Limit("openai-chat-call-name-missing", "A call names its function.", "openai-chat-call-form")
CALL_ID_MISSING = Limit("openai-chat-call-id-missing", "A call has an id.", "openai-chat-call-form")
CALL_ID_MISTRAL = Limit(
    "openai-chat-call-id-mistral",
    "At Mistral the id of a call has nine letters and digits.",
    "openai-chat-mistral-call-id",
)
ARGUMENTS_TYPE = Limit("openai-chat-arguments-type", "Arguments are a string.", "openai-chat-call-form")
ARGUMENTS_JSON = Limit(
    "openai-chat-arguments-json",
    "Arguments are the text of a JSON object.",
    "openai-chat-minimax-arguments, openai-chat-message-answer",
)

RESULT_ID_MISSING = Limit(
    "openai-chat-result-id-missing", "A result names the call that it answers.", "openai-chat-result-has-call"
)
RESULT_MISSING = Limit(
    "openai-chat-result-missing",
    "Every call has a result right behind the message that makes it.",
    "openai-chat-calls-answered",
)
RESULT_ORPHAN = Limit(
    "openai-chat-result-orphan", "A result stands behind a message with calls.", "openai-chat-result-has-call"
)
RESULT_UNKNOWN_ID = Limit(
    "openai-chat-result-unknown-id",
    "A result answers a call of the message before it.",
    "openai-chat-result-has-call, openai-chat-minimax-result-has-call",
)
RESULT_DUPLICATE = Limit("openai-chat-result-duplicate", "A call has a single result.", "openai-chat-one-result-a-call")

TOOLS_TYPE = Limit("openai-chat-tools-type", "`tools` is a list of objects.", "openai-chat-tools-form")
TOOLS_EMPTY = Limit("openai-chat-tools-empty", "`tools` is left out rather than empty.", "openai-chat-lists-not-empty")
TOOLS_MANY = Limit(
    "openai-chat-tools-many",
    "There are at most 128 tools. The refusals that were captured end with gpt-5.1.",
    "openai-chat-at-most-128-tools",
)
TOOLS_UNSUPPORTED = Limit(
    "openai-chat-tools-unsupported",
    "Models that take no tools here get none.",
    "openai-chat-no-tools-at-all, openai-chat-o1-preview-no-tools",
)
TOOLS_WITH_REASONING = Limit(
    "openai-chat-tools-with-reasoning",
    "Models from gpt-5.4 on get tools only with reasoning switched off.",
    "openai-chat-tools-want-no-reasoning, openai-chat-tools-want-effort-none, "
    "openai-chat-gpt-6-luna-tools-effort-none-only",
)
TOOL_TYPE = Limit("openai-chat-tool-type", "A tool is of the type `function` or `custom`.", "openai-chat-tools-form")
TOOL_NAME_MISSING = Limit("openai-chat-tool-name-missing", "A tool has a name.", "openai-chat-tools-form")
TOOL_NAME = Limit("openai-chat-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.", "openai-chat-names")
TOOL_DUPLICATE = Limit("openai-chat-tool-duplicate", "The names of tools differ.", "openai-chat-duplicate-tools")
TOOL_FIELD = Limit(
    "openai-chat-tool-field",
    "A function has a name, a description, `parameters` and `strict`, and nothing else.",
    "openai-chat-tool-fields",
)
TOOL_PARAMETERS_TYPE = Limit("openai-chat-tool-parameters-type", "`parameters` is an object.", "openai-chat-tools-form")
TOOL_PARAMETERS_ROOT = Limit(
    "openai-chat-tool-parameters-root",
    "`parameters` is the schema of an object.",
    "openai-chat-tools-parameters-object",
)
TOOL_PARAMETERS_UNION = Limit(
    "openai-chat-tool-parameters-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "openai-chat-azure-union-root",
)
TOOL_PARAMETERS_SCHEMA = Limit(
    "openai-chat-tool-parameters-schema", "`parameters` is a valid JSON schema.", "openai-chat-schema-valid"
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-chat-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "openai-chat-array-items",
)

CHOICE_WITHOUT_TOOLS = Limit(
    "openai-chat-choice-without-tools",
    "`tool_choice` and `parallel_tool_calls` come with tools.",
    "openai-chat-choice-needs-tools",
)
CHOICE_VALUE = Limit(
    "openai-chat-choice-value", "`tool_choice` is none, auto, required or an object.", "openai-chat-choice-form"
)
CHOICE_SHAPE = Limit(
    "openai-chat-choice-shape",
    "A choice that is an object has its type and what belongs to it.",
    "openai-chat-choice-form",
)
CHOICE_UNDECLARED = Limit(
    "openai-chat-choice-undeclared", "The tool that is chosen is declared.", "openai-chat-choice-declared"
)

FORMAT_TYPE = Limit(
    "openai-chat-format-type", "`response_format` is text, json_object or json_schema.", "openai-chat-format-form"
)
FORMAT_NAME = Limit(
    "openai-chat-format-name",
    "A schema of the answer has a name that matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-chat-format-form",
)
FORMAT_SCHEMA = Limit(
    "openai-chat-format-schema",
    "A schema of the answer is in `schema`, and is a valid one.",
    "openai-chat-format-has-schema, openai-chat-schema-valid",
)
JSON_WORD = Limit(
    "openai-chat-json-word",
    "With json_object the messages contain the word json.",
    "openai-chat-word-json",
    word="json",
)
STRICT_ADDITIONAL_PROPERTIES = Limit(
    "openai-chat-strict-additional-properties",
    "Every object of a strict schema has `additionalProperties: false`.",
    "openai-chat-strict-schema",
)
STRICT_REQUIRED = Limit(
    "openai-chat-strict-required",
    "Every object of a strict schema requires all of its properties.",
    "openai-chat-strict-schema",
)

EMBEDDINGS_BODY = Limit(
    "openai-embeddings-body",
    "A request for embeddings has a text or a list of texts as its input.",
    "openai-chat-embeddings",
)
EMBEDDINGS_MODEL = Limit("openai-embeddings-model", "A request for embeddings names a model.", "openai-chat-embeddings")
EMBEDDINGS_COUNT = Limit(
    "openai-embeddings-count", "One to 2048 texts are embedded at once.", "openai-chat-embeddings-at-most-2048"
)
EMBEDDINGS_EMPTY = Limit("openai-embeddings-empty", "No text to embed is empty.", "openai-chat-embeddings")
EMBEDDINGS_DIMENSIONS = Limit(
    "openai-embeddings-dimensions",
    "Dimensions are asked only of a model that has them, and no more.",
    "openai-chat-embeddings",
)

LIMITS = limits_among(globals())
