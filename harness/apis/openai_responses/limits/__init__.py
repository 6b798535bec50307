"""What the Responses API refuses, and what it takes with a loss (wire-facts, section 4)."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

_PARAMS = "S response_create_params"

BODY = Limit("openai-responses-body", "The body is a JSON object.", "RS-1")
INPUT_MISSING = Limit("openai-responses-input-missing", "There is input.", "RS-1")
PARAMETER_UNKNOWN = Limit(
    "openai-responses-parameter-unknown",
    "There is no parameter that the service does not know.",
    f"RS-1, OC-1, {_PARAMS}",
)
PARAMETER_UNCONFIRMED = Limit(
    "openai-responses-parameter-unconfirmed",
    "There is no parameter that only some backends are known to take.",
    "public clients send client_metadata to the provider's own backend; no refusal captured",
    "warning",
)
PARAMETER_TYPE = Limit("openai-responses-parameter-type", "Every parameter is of its JSON type.", _PARAMS)
PARAMETER_RANGE = Limit("openai-responses-parameter-range", "Every number lies within its bounds.", _PARAMS)
STREAM_OPTIONS = Limit(
    "openai-responses-stream-options", "`stream_options` comes with `stream: true`.", f"OC-13, {_PARAMS}"
)
STATE_CONFLICT = Limit(
    "openai-responses-state-conflict",
    "The conversation is continued in one way, not in two.",
    f"RS-9, {_PARAMS}",
)
TEMPERATURE = Limit("openai-responses-temperature", "Models that take no temperature get none.", "RS-D1")
SAMPLING = Limit(
    "openai-responses-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "OC-10, RS-D1",
    "warning",
)

ITEM_TYPE = Limit(
    "openai-responses-item-type",
    "Every item of the input is of a type that there is.",
    "RS-1, S response_input_item_param",
)
ITEM_ID = Limit(
    "openai-responses-item-id", "The id of an item has the prefix of its type and at most 64 characters.", "RS-3"
)
ITEM_CALL_ID = Limit(
    "openai-responses-item-call-id", "A call_id has from 1 to 64 characters.", "RS-3, BigPizzaV3/CodexPlusPlus#315"
)
CALL_SHAPE = Limit(
    "openai-responses-call-shape",
    "A call has call_id, name and arguments, all strings.",
    "RS-3, S response_custom_tool_call_param",
)
CALL_NAME = Limit(
    "openai-responses-call-name", "The name in a call matches ^[a-zA-Z0-9_-]{1,64}$.", "RS-2, openai/codex#9447"
)
RESULT_SHAPE = Limit(
    "openai-responses-result-shape",
    "An output has a call_id, and text or content parts.",
    "RS-4, S response_custom_tool_call_output_param",
)
RESULT_CONTENT = Limit("openai-responses-result-content", "The content parts of an output are those of input.", "RS-4")
REASONING_SHAPE = Limit(
    "openai-responses-reasoning-shape", "A reasoning item has a summary.", "RS-7, RS-D7, newo-ether/Agora#126"
)
REASONING_STATUS = Limit(
    "openai-responses-reasoning-status",
    "A reasoning item goes back without its status. Compatible servers may take it, and OpenAI may take a null.",
    "RS-D4, 1jehuang/jcode#1028",
)
MESSAGE_SHAPE = Limit(
    "openai-responses-message-shape", "A message has role and content.", "RS-6, S easy_input_message_param"
)
MESSAGE_CONTENT = Limit(
    "openai-responses-message-content",
    "The assistant's content parts are those of output, all others' those of input.",
    "RS-6, RS-D13, openai/openai-go#485",
)
ROLE = Limit("openai-responses-role", "The role of a message is user, assistant, system or developer.", "RS-5, RS-6")

RESULT_ORPHAN = Limit("openai-responses-result-orphan", "Every output stands behind the call that it answers.", "RS-4")
RESULT_DUPLICATE = Limit("openai-responses-result-duplicate", "A call has a single output.", "RS-4")
RESULT_MISSING = Limit("openai-responses-result-missing", "Every call has an output.", "RS-4")
RESULT_DETACHED = Limit(
    "openai-responses-result-detached",
    "At DeepSeek no message stands between a call and its output.",
    "RS-4, ranxianglei/billion-context#766",
)
REASONING_ALONE = Limit(
    "openai-responses-reasoning-alone",
    "Reasoning that is sent by its id stands before the output item that it was stored with.",
    "RS-7",
)

TOOL_SHAPE = Limit("openai-responses-tool-shape", "A tool has a type, and a function its name beside it.", "RS-2")
TOOL_NAME = Limit("openai-responses-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.", "RS-2")
TOOL_SCHEMA = Limit(
    "openai-responses-tool-schema",
    "`parameters` is the schema of an object, with its properties.",
    "S function_tool_param, ComposioHQ/composio#1829, inboxapi/cli#106",
)
TOOL_SCHEMA_UNION = Limit(
    "openai-responses-tool-schema-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "RS-D12",
    "warning",
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-responses-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "RS-D10, AnswerDotAI/fastcore#798",
)
TOOL_STRICT_SCHEMA = Limit(
    "openai-responses-tool-strict-schema",
    "Every object of a strict tool is closed and requires all of its properties.",
    "OC-11",
)
TOOL_STRICT_UNSAID = Limit(
    "openai-responses-tool-strict-unsaid",
    "A function says whether it is strict: the default is disputed.",
    "RS-2",
    "warning",
)
TOOL_DUPLICATE = Limit(
    "openai-responses-tool-duplicate", "The names of tools differ.", "AN-3, GM-4; unverified here", "warning"
)
TOOL_CHOICE_SHAPE = Limit(
    "openai-responses-tool-choice-shape",
    "`tool_choice` is none, auto, required or an object with what belongs to its type.",
    "RS-9, table 1.2",
)
TOOL_CHOICE_TOOLLESS = Limit(
    "openai-responses-tool-choice-toolless",
    "A choice that asks for a call comes with tools.",
    "RS-9, anomalyco/opencode#48857",
)
TOOL_CHOICE_UNKNOWN = Limit(
    "openai-responses-tool-choice-unknown", "The tool that is chosen is declared.", "RS-9; unverified here", "warning"
)

FORMAT_SHAPE = Limit(
    "openai-responses-format-shape", "`text.format` has a type that there is, and a schema its name.", "RS-8"
)
FORMAT_NAME = Limit(
    "openai-responses-format-name", "The name of a format matches ^[a-zA-Z0-9_-]{1,64}$.", "RS-8, OC-11"
)
FORMAT_WORD = Limit("openai-responses-format-word", "With json_object the input contains the word json.", "RS-8")
FORMAT_STRICT_SCHEMA = Limit(
    "openai-responses-format-strict-schema",
    "Every object of a strict format is closed and requires all of its properties.",
    "OC-11",
)

LIMITS = limits_among(globals())
