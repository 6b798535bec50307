"""What Chat Completions refuses, and what it takes with a loss.

Where a sentence does not say so, it holds at OpenAI's own service alone or at every server that speaks the format, as
`chat` tells apart.
"""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit(
    "openai-chat-body",
    "The body is a JSON object.",
    "openai-chat-required-fields",
    remedy="send a JSON object as the body",
)
UNKNOWN_FIELD = Limit(
    "openai-chat-unknown-field",
    "There is no field that the service does not know.",
    "openai-chat-required-fields",
    remedy="leave out the field that the service does not know",
)
PARAMETER_TYPE = Limit(
    "openai-chat-parameter-type",
    "Every field is of its JSON type.",
    "openai-chat-parameter-types",
    remedy="send the field as the JSON type that is named",
)
PARAMETER_RANGE = Limit(
    "openai-chat-parameter-range",
    "Every number is within its bounds.",
    "openai-chat-parameter-ranges",
    remedy="send a number within the bounds that are named",
)
MODEL_MISSING = Limit(
    "openai-chat-model-missing",
    "The request names a model.",
    "openai-chat-required-fields",
    remedy="send `model`",
)
STREAM_OPTIONS = Limit(
    "openai-chat-stream-options",
    "`stream_options` comes with `stream: true`.",
    "openai-chat-stream-options-streamed",
    remedy="leave out `stream_options`, or send `stream: true`",
)
LEGACY_FUNCTIONS = Limit(
    "openai-chat-legacy-functions",
    "Tools stand in `tools` and `tool_choice`; `functions` and `function_call` are deprecated.",
    "openai-chat-functions-deprecated",
    remedy="send tools in `tools` and `tool_choice`",
)
MAX_TOKENS = Limit(
    "openai-chat-max-tokens",
    "Reasoning models are bound by `max_completion_tokens`.",
    "openai-chat-max-completion-tokens",
    remedy="send the bound as `max_completion_tokens` instead of `max_tokens`",
)
TEMPERATURE = Limit(
    "openai-chat-temperature",
    "Models that take one temperature only get no other one.",
    "openai-chat-default-temperature",
    remedy="leave out `temperature` for this model",
)
SAMPLING = Limit(
    "openai-chat-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "openai-chat-reasoning-sampling",
    remedy="leave out sampling parameters for reasoning models",
)

MESSAGES_MISSING = Limit(
    "openai-chat-messages-missing",
    "There is at least one message.",
    "openai-chat-required-fields",
    remedy="send at least one message",
)
MESSAGE_TYPE = Limit(
    "openai-chat-message-type",
    "Every message is an object.",
    "openai-chat-message-form",
    remedy="send each message as an object",
)
ROLE_UNKNOWN = Limit(
    "openai-chat-role-unknown",
    "Every message has a role that there is.",
    "openai-chat-message-form",
    remedy="use a role of the API: developer, system, user, assistant or tool",
)
SYSTEM_UNSUPPORTED = Limit(
    "openai-chat-system-unsupported",
    "Models that take no system prompt get none.",
    "openai-chat-no-system-role",
    remedy="put the instructions into the first user message: the model takes no system prompt",
)
CONTENT_MISSING = Limit(
    "openai-chat-content-missing",
    "A message has content, unless it is the assistant's and calls tools.",
    "openai-chat-message-form, openai-chat-call-form",
    remedy="send `content`, or leave the message out",
)
CONTENT_TYPE = Limit(
    "openai-chat-content-type",
    "Content is a string or a list of parts.",
    "openai-chat-message-form",
    remedy="send `content` as a string or a list of parts",
)
CONTENT_PART = Limit(
    "openai-chat-content-part",
    "Each role gets only content parts of its own kinds.",
    "openai-chat-message-form, openai-chat-result-text-only",
    remedy="use a content part that the role may have",
)
AUDIO_FORMAT = Limit(
    "openai-chat-audio-format",
    "Sound is WAV or MP3.",
    "openai-chat-audio-form",
    remedy="send sound as WAV or MP3",
)
AUDIO_MODEL = Limit(
    "openai-chat-audio-model",
    "Models that are not made for sound get none.",
    "openai-chat-audio-models",
    remedy="send sound to a model that is made for it",
)
FILE_TYPE = Limit(
    "openai-chat-file-type",
    "A file is a PDF.",
    "openai-chat-file-inline-pdf",
    remedy="send the file as a PDF, or its text as a text part",
)
NAME_PATTERN = Limit(
    "openai-chat-name-pattern",
    "Names in the history match ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-chat-names",
    remedy="use 1 to 64 letters, digits, `_` and `-` for names",
)

CALLS_TYPE = Limit(
    "openai-chat-calls-type",
    "`tool_calls` is a list of objects.",
    "openai-chat-call-form",
    remedy="send `tool_calls` as a list of objects",
)
CALL_TYPE = Limit(
    "openai-chat-call-type",
    "A call is of the type `function` or `custom`.",
    "openai-chat-call-form",
    remedy="send the call with the type `function` or `custom`",
)
CALL_NAME_MISSING = Limit(
    "openai-chat-call-name-missing",
    "A call names its function.",
    "openai-chat-call-form",
    remedy="send `function.name` with the call",
)
CALL_ID_MISSING = Limit(
    "openai-chat-call-id-missing",
    "A call has an id.",
    "openai-chat-call-form",
    remedy="send the `id` of the call",
)
CALL_ID_MISTRAL = Limit(
    "openai-chat-call-id-mistral",
    "At Mistral the id of a call has nine letters and digits.",
    "openai-chat-mistral-call-id",
    remedy="use ids of nine letters and digits at Mistral, in calls and results alike",
)
ARGUMENTS_TYPE = Limit(
    "openai-chat-arguments-type",
    "Arguments are a string.",
    "openai-chat-call-form",
    remedy="send `function.arguments` as a string of JSON, not as an object",
)
ARGUMENTS_JSON = Limit(
    "openai-chat-arguments-json",
    "Arguments are the text of a JSON object.",
    "openai-chat-minimax-arguments, openai-chat-message-answer",
    remedy="send `function.arguments` as the text of a JSON object, `{}` where there are none",
)

RESULT_ID_MISSING = Limit(
    "openai-chat-result-id-missing",
    "A result names the call that it answers.",
    "openai-chat-result-has-call",
    remedy="send `tool_call_id` with the result",
)
RESULT_MISSING = Limit(
    "openai-chat-result-missing",
    "Every call has a result right behind the message that makes it.",
    "openai-chat-calls-answered",
    remedy="send a message with the role `tool` for each call, right after the message with the calls",
)
RESULT_ORPHAN = Limit(
    "openai-chat-result-orphan",
    "A result stands behind a message with calls.",
    "openai-chat-result-has-call",
    remedy="send the assistant's message with the call before its result, or leave the result out",
)
RESULT_UNKNOWN_ID = Limit(
    "openai-chat-result-unknown-id",
    "A result answers a call of the message before it.",
    "openai-chat-result-has-call, openai-chat-minimax-result-has-call",
    remedy="send the id of a call of the message before as `tool_call_id`",
)
RESULT_DUPLICATE = Limit(
    "openai-chat-result-duplicate",
    "A call has a single result.",
    "openai-chat-one-result-a-call",
    remedy="send one result for each call",
)

TOOLS_TYPE = Limit(
    "openai-chat-tools-type",
    "`tools` is a list of objects.",
    "openai-chat-tools-form",
    remedy="send `tools` as a list of objects",
)
TOOLS_EMPTY = Limit(
    "openai-chat-tools-empty",
    "`tools` is left out rather than empty.",
    "openai-chat-lists-not-empty",
    remedy="leave out `tools` where there are none",
)
TOOLS_MANY = Limit(
    "openai-chat-tools-many",
    "There are at most 128 tools. The refusals that were captured end with gpt-5.1.",
    "openai-chat-at-most-128-tools",
    remedy="send at most 128 tools",
)
TOOLS_UNSUPPORTED = Limit(
    "openai-chat-tools-unsupported",
    "Models that take no tools here get none.",
    "openai-chat-no-tools-at-all, openai-chat-o1-preview-no-tools",
    remedy="leave out the tools, or choose a model that takes them here",
)
TOOLS_WITH_REASONING = Limit(
    "openai-chat-tools-with-reasoning",
    "Models from gpt-5.4 on get tools only with reasoning switched off.",
    "openai-chat-tools-want-no-reasoning, openai-chat-tools-want-effort-none, "
    "openai-chat-gpt-6-luna-tools-effort-none-only",
    remedy="send `reasoning_effort: none` with tools, or use the Responses API",
)
TOOL_TYPE = Limit(
    "openai-chat-tool-type",
    "A tool is of the type `function` or `custom`.",
    "openai-chat-tools-form",
    remedy="send the tool with the type `function` or `custom`",
)
TOOL_NAME_MISSING = Limit(
    "openai-chat-tool-name-missing",
    "A tool has a name.",
    "openai-chat-tools-form",
    remedy="send `function.name` with the tool",
)
TOOL_NAME = Limit(
    "openai-chat-tool-name",
    "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-chat-names",
    remedy="name the tool with 1 to 64 letters, digits, `_` and `-`",
)
TOOL_DUPLICATE = Limit(
    "openai-chat-tool-duplicate",
    "The names of tools differ.",
    "openai-chat-duplicate-tools",
    remedy="give each tool a name of its own",
)
TOOL_FIELD = Limit(
    "openai-chat-tool-field",
    "A function has a name, a description, `parameters` and `strict`, and nothing else.",
    "openai-chat-tool-fields",
    remedy="leave everything but name, description, `parameters` and `strict` out of the function",
)
TOOL_PARAMETERS_TYPE = Limit(
    "openai-chat-tool-parameters-type",
    "`parameters` is an object.",
    "openai-chat-tools-form",
    remedy="send `parameters` as an object",
)
TOOL_PARAMETERS_ROOT = Limit(
    "openai-chat-tool-parameters-root",
    "`parameters` is the schema of an object.",
    "openai-chat-tools-parameters-object",
    remedy="send `parameters` with `type: object`",
)
TOOL_PARAMETERS_UNION = Limit(
    "openai-chat-tool-parameters-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "openai-chat-azure-union-root",
    remedy="add `type: object` next to the union",
)
TOOL_PARAMETERS_SCHEMA = Limit(
    "openai-chat-tool-parameters-schema",
    "`parameters` is a valid JSON schema.",
    "openai-chat-schema-valid",
    remedy="correct `parameters`: it is no valid JSON schema",
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-chat-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "openai-chat-array-items",
    remedy="give every array in `parameters` its `items`",
)

CHOICE_WITHOUT_TOOLS = Limit(
    "openai-chat-choice-without-tools",
    "`tool_choice` and `parallel_tool_calls` come with tools.",
    "openai-chat-choice-needs-tools",
    remedy="leave out `tool_choice` and `parallel_tool_calls`, or send tools",
)
CHOICE_VALUE = Limit(
    "openai-chat-choice-value",
    "`tool_choice` is none, auto, required or an object.",
    "openai-chat-choice-form",
    remedy="send `tool_choice` as none, auto, required or an object",
)
CHOICE_SHAPE = Limit(
    "openai-chat-choice-shape",
    "A choice that is an object has its type and what belongs to it.",
    "openai-chat-choice-form",
    remedy="send the choice with its type and what belongs to it",
)
CHOICE_UNDECLARED = Limit(
    "openai-chat-choice-undeclared",
    "The tool that is chosen is declared.",
    "openai-chat-choice-declared",
    remedy="declare the tool that is chosen",
)

FORMAT_TYPE = Limit(
    "openai-chat-format-type",
    "`response_format` is text, json_object or json_schema.",
    "openai-chat-format-form",
    remedy="send `response_format` with the type text, json_object or json_schema",
)
FORMAT_NAME = Limit(
    "openai-chat-format-name",
    "A schema of the answer has a name that matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-chat-format-form",
    remedy="name the schema with 1 to 64 letters, digits, `_` and `-`",
)
FORMAT_SCHEMA = Limit(
    "openai-chat-format-schema",
    "A schema of the answer is in `schema`, and is a valid one.",
    "openai-chat-format-has-schema, openai-chat-schema-valid",
    remedy="send a valid JSON schema in `json_schema.schema`",
)
JSON_WORD = Limit(
    "openai-chat-json-word",
    "With json_object the messages contain the word json.",
    "openai-chat-word-json",
    word="json",
    remedy="write the word JSON into a message, such as the system prompt, where json_object is asked for",
)
STRICT_ADDITIONAL_PROPERTIES = Limit(
    "openai-chat-strict-additional-properties",
    "Every object of a strict schema has `additionalProperties: false`.",
    "openai-chat-strict-schema",
    remedy="set `additionalProperties: false` on every object of the strict schema",
)
STRICT_REQUIRED = Limit(
    "openai-chat-strict-required",
    "Every object of a strict schema requires all of its properties.",
    "openai-chat-strict-schema",
    remedy="list all properties of every object of the strict schema in `required`",
)

EMBEDDINGS_BODY = Limit(
    "openai-embeddings-body",
    "A request for embeddings has a text or a list of texts as its input.",
    "openai-chat-embeddings",
    remedy="send a text or a list of texts as `input`",
)
EMBEDDINGS_MODEL = Limit(
    "openai-embeddings-model",
    "A request for embeddings names a model.",
    "openai-chat-embeddings",
    remedy="send `model`",
)
EMBEDDINGS_COUNT = Limit(
    "openai-embeddings-count",
    "One to 2048 texts are embedded at once.",
    "openai-chat-embeddings-at-most-2048",
    remedy="send 1 to 2048 texts in one request",
)
EMBEDDINGS_EMPTY = Limit(
    "openai-embeddings-empty",
    "No text to embed is empty.",
    "openai-chat-embeddings",
    remedy="leave out empty texts",
)
EMBEDDINGS_DIMENSIONS = Limit(
    "openai-embeddings-dimensions",
    "Dimensions are asked only of a model that has them, and no more.",
    "openai-chat-embeddings",
    remedy="leave out `dimensions`, or send no more than the model has",
)

LIMITS = limits_among(globals())
