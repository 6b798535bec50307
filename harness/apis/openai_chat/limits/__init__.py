"""What Chat Completions refuses, and what it takes with a loss (wire-facts, section 3).

Where a sentence does not say so, it holds at OpenAI's own service alone or at every server that speaks the format, as
`chat` tells apart.
"""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("openai-chat-body", "The body is a JSON object.", "OC-1")
UNKNOWN_FIELD = Limit("openai-chat-unknown-field", "There is no field that the service does not know.", "OC-1")
MODEL_MISSING = Limit("openai-chat-model-missing", "The request names a model.", "OC-1")
STREAM_OPTIONS = Limit("openai-chat-stream-options", "`stream_options` comes with `stream: true`.", "OC-13")
LEGACY_FUNCTIONS = Limit(
    "openai-chat-legacy-functions",
    "Tools stand in `tools` and `tool_choice`; `functions` and `function_call` are deprecated.",
    "OC-14",
    "warning",
)
MAX_TOKENS = Limit("openai-chat-max-tokens", "Reasoning models are bound by `max_completion_tokens`.", "OC-10")
TEMPERATURE = Limit(
    "openai-chat-temperature", "Models that take one temperature only get no other one.", "RS-D1, OC-D3"
)
SAMPLING = Limit(
    "openai-chat-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "OC-10, RS-D1",
    "warning",
)

MESSAGES_MISSING = Limit("openai-chat-messages-missing", "There is at least one message.", "OC-1")
MESSAGE_TYPE = Limit("openai-chat-message-type", "Every message is an object.", "OC-1")
ROLE_UNKNOWN = Limit("openai-chat-role-unknown", "Every message has a role that there is.", "OC-1")
SYSTEM_UNSUPPORTED = Limit(
    "openai-chat-system-unsupported",
    "Models that take no system prompt get none.",
    "janhq/jan#4392 (OpenAI's guide to o1), microsoft/agent-framework#1077",
)
CONTENT_MISSING = Limit(
    "openai-chat-content-missing", "A message has content, unless it is the assistant's and calls tools.", "OC-5, OC-8"
)
CONTENT_TYPE = Limit("openai-chat-content-type", "Content is a string or a list of parts.", "OC-5, OC-8")
CONTENT_PART = Limit("openai-chat-content-part", "Each role gets only content parts of its own kinds.", "OC-8")
NAME_PATTERN = Limit("openai-chat-name-pattern", "Names in the history match ^[a-zA-Z0-9_-]{1,64}$.", "OC-2")

CALLS_TYPE = Limit("openai-chat-calls-type", "`tool_calls` is a list of objects.", "OC-5")
CALLS_EMPTY = Limit(
    "openai-chat-calls-empty", "`tool_calls` is left out rather than empty.", "OC-3, unverified", "warning"
)
CALL_TYPE = Limit("openai-chat-call-type", "A call is of the type `function` or `custom`.", "OC-5")
CALL_NAME_MISSING = Limit("openai-chat-call-name-missing", "A call names its function.", "OC-5")
CALL_ID_MISSING = Limit("openai-chat-call-id-missing", "A call has an id.", "OC-5")
CALL_ID_LENGTH = Limit("openai-chat-call-id-length", "The id of a call has at most 40 characters.", "OC-5", "warning")
CALL_ID_MISTRAL = Limit(
    "openai-chat-call-id-mistral",
    "At Mistral the id of a call has nine letters and digits.",
    "editor-code-assistant/eca#233",
)
ARGUMENTS_TYPE = Limit("openai-chat-arguments-type", "Arguments are a string.", "OC-5")
ARGUMENTS_JSON = Limit(
    "openai-chat-arguments-json", "Arguments are the text of a JSON object.", "OC-5, OC-P1", "warning"
)

RESULT_ID_MISSING = Limit("openai-chat-result-id-missing", "A result names the call that it answers.", "OC-7")
RESULT_MISSING = Limit(
    "openai-chat-result-missing", "Every call has a result right behind the message that makes it.", "OC-6"
)
RESULT_ORPHAN = Limit("openai-chat-result-orphan", "A result stands behind a message with calls.", "OC-7")
RESULT_UNKNOWN_ID = Limit("openai-chat-result-unknown-id", "A result answers a call of the message before it.", "OC-7")
RESULT_DUPLICATE = Limit(
    "openai-chat-result-duplicate",
    "A call has a single result.",
    # Wire-facts has this as not confirmed; refusals with this text were captured since then from OpenAI and DeepSeek.
    "OC-7; agno-agi/agno#5116, neuron-core/neuron-ai#46, HKUDS/nanobot#3945",
)

TOOLS_TYPE = Limit("openai-chat-tools-type", "`tools` is a list of objects.", "OC-2")
TOOLS_EMPTY = Limit("openai-chat-tools-empty", "`tools` is left out rather than empty.", "OC-3, unverified", "warning")
TOOLS_MANY = Limit(
    "openai-chat-tools-many",
    "There are at most 128 tools. The refusals that were captured end with gpt-5.1.",
    "OC-3, OC-D5",
    "warning",
)
TOOLS_UNSUPPORTED = Limit("openai-chat-tools-unsupported", "Models that take no tools here get none.", "OC-0, OC-D1")
TOOLS_WITH_REASONING = Limit(
    "openai-chat-tools-with-reasoning",
    "Models from gpt-5.4 on get tools only with reasoning switched off.",
    "OC-0, OC-D1",
)
TOOL_TYPE = Limit("openai-chat-tool-type", "A tool is of the type `function` or `custom`.", "OC-2")
TOOL_NAME_MISSING = Limit("openai-chat-tool-name-missing", "A tool has a name.", "OC-2")
TOOL_NAME = Limit("openai-chat-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.", "OC-2")
TOOL_DUPLICATE = Limit(
    "openai-chat-tool-duplicate", "The names of tools differ.", "router-for-me/CLIProxyAPI#4788", "warning"
)
TOOL_PARAMETERS_TYPE = Limit("openai-chat-tool-parameters-type", "`parameters` is an object.", "OC-3")
TOOL_PARAMETERS_ROOT = Limit(
    "openai-chat-tool-parameters-root",
    "`parameters` is the schema of an object.",
    "ComposioHQ/composio#1829, end-4/dots-hyprland#3640",
)
TOOL_PARAMETERS_UNION = Limit(
    "openai-chat-tool-parameters-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "RS-D12",
    "warning",
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-chat-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "RS-D10, AnswerDotAI/fastcore#798",
)

CHOICE_WITHOUT_TOOLS = Limit(
    "openai-chat-choice-without-tools", "`tool_choice` and `parallel_tool_calls` come with tools.", "OC-4"
)
CHOICE_VALUE = Limit(
    "openai-chat-choice-value",
    "`tool_choice` is none, auto, required or an object.",
    "O/types/chat/chat_completion_tool_choice_option_param.py (wire-facts 1.2)",
)
CHOICE_SHAPE = Limit(
    "openai-chat-choice-shape",
    "A choice that is an object has its type and what belongs to it.",
    "O/types/chat/chat_completion_named_tool_choice_param.py (wire-facts 1.2)",
)
CHOICE_UNDECLARED = Limit(
    "openai-chat-choice-undeclared", "The tool that is chosen is declared.", "vllm-project/vllm#40399", "warning"
)

FORMAT_TYPE = Limit(
    "openai-chat-format-type",
    "`response_format` is text, json_object or json_schema.",
    "O/types/chat/completion_create_params.py ResponseFormat",
)
FORMAT_NAME = Limit(
    "openai-chat-format-name", "A schema of the answer has a name that matches ^[a-zA-Z0-9_-]{1,64}$.", "OC-11"
)
JSON_WORD = Limit("openai-chat-json-word", "With json_object the messages contain the word json.", "OC-12")
STRICT_ADDITIONAL_PROPERTIES = Limit(
    "openai-chat-strict-additional-properties",
    "Every object of a strict schema has `additionalProperties: false`.",
    "OC-11",
)
STRICT_REQUIRED = Limit(
    "openai-chat-strict-required", "Every object of a strict schema requires all of its properties.", "OC-11"
)

_EMBEDDINGS = "SDK openai 3, Embeddings.create"

EMBEDDINGS_BODY = Limit(
    "openai-embeddings-body", "A request for embeddings has a text or a list of texts as its input.", _EMBEDDINGS
)
EMBEDDINGS_MODEL = Limit("openai-embeddings-model", "A request for embeddings names a model.", _EMBEDDINGS)
EMBEDDINGS_COUNT = Limit("openai-embeddings-count", "One to 2048 texts are embedded at once.", _EMBEDDINGS)
EMBEDDINGS_EMPTY = Limit("openai-embeddings-empty", "No text to embed is empty.", _EMBEDDINGS)
EMBEDDINGS_DIMENSIONS = Limit(
    "openai-embeddings-dimensions", "Dimensions are asked only of a model that has them, and no more.", _EMBEDDINGS
)

LIMITS = limits_among(globals())
