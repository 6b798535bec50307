"""What the Responses API refuses, and what it takes with a loss."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("openai-responses-body", "The body is a JSON object.", "openai-responses-input")
INPUT_MISSING = Limit("openai-responses-input-missing", "There is input.", "openai-responses-input")
PARAMETER_UNKNOWN = Limit(
    "openai-responses-parameter-unknown",
    "There is no parameter that the service does not know.",
    "openai-responses-input",
)
PARAMETER_TYPE = Limit(
    "openai-responses-parameter-type", "Every parameter is of its JSON type.", "openai-responses-input"
)
PARAMETER_RANGE = Limit(
    "openai-responses-parameter-range", "Every number lies within its bounds.", "openai-responses-input"
)
STREAM_OPTIONS = Limit(
    "openai-responses-stream-options",
    "`stream_options` comes with `stream: true`.",
    "openai-responses-stream-options-streamed",
)
STATE_CONFLICT = Limit(
    "openai-responses-state-conflict",
    "The conversation is continued in one way, not in two.",
    "openai-responses-choice-form",
)
TEMPERATURE = Limit(
    "openai-responses-temperature", "Models that take no temperature get none.", "openai-responses-no-temperature"
)
SAMPLING = Limit(
    "openai-responses-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "openai-responses-reasoning-sampling",
)

ITEM_TYPE = Limit(
    "openai-responses-item-type", "Every item of the input is of a type that there is.", "openai-responses-item-form"
)
ITEM_ID = Limit(
    "openai-responses-item-id",
    "The id of an item has the prefix of its type and at most 64 characters.",
    "openai-responses-call-form",
)
ITEM_CALL_ID = Limit(
    "openai-responses-item-call-id", "A call_id has from 1 to 64 characters.", "openai-responses-call-form"
)
CALL_SHAPE = Limit(
    "openai-responses-call-shape", "A call has call_id, name and arguments, all strings.", "openai-responses-call-form"
)
CALL_NAME = Limit(
    "openai-responses-call-name", "The name in a call matches ^[a-zA-Z0-9_-]{1,64}$.", "openai-responses-tool-form"
)
RESULT_SHAPE = Limit(
    "openai-responses-result-shape",
    "An output has a call_id, and text or content parts.",
    "openai-responses-result-has-call, openai-responses-output-content",
)
RESULT_CONTENT = Limit(
    "openai-responses-result-content",
    "The content parts of an output are those of input.",
    "openai-responses-output-content",
)
REASONING_SHAPE = Limit(
    "openai-responses-reasoning-shape", "A reasoning item has a summary.", "openai-responses-reasoning-summary"
)
REASONING_STATUS = Limit(
    "openai-responses-reasoning-status",
    "A reasoning item goes back without its status. Compatible servers may take it, and OpenAI may take a null.",
    "openai-responses-reasoning-status-refused",
)
MESSAGE_SHAPE = Limit(
    "openai-responses-message-shape", "A message has role and content.", "openai-responses-message-form"
)
MESSAGE_CONTENT = Limit(
    "openai-responses-message-content",
    "The assistant's content parts are those of output, all others' those of input.",
    "openai-responses-message-form",
)
ROLE = Limit(
    "openai-responses-role",
    "The role of a message is user, assistant, system or developer.",
    "openai-responses-message-form",
)

RESULT_ORPHAN = Limit(
    "openai-responses-result-orphan",
    "Every output stands behind the call that it answers.",
    "openai-responses-result-has-call",
)
RESULT_DUPLICATE = Limit(
    "openai-responses-result-duplicate", "A call has a single output.", "openai-responses-result-has-call"
)
RESULT_MISSING = Limit(
    "openai-responses-result-missing", "Every call has an output.", "openai-responses-result-has-call"
)
RESULT_DETACHED = Limit(
    "openai-responses-result-detached",
    "At DeepSeek no message stands between a call and its output.",
    "openai-responses-deepseek-adjacent",
)
REASONING_ALONE = Limit(
    "openai-responses-reasoning-alone",
    "Reasoning that is sent by its id stands before the output item that it was stored with.",
    "openai-responses-reasoning-back",
)

TOOL_SHAPE = Limit(
    "openai-responses-tool-shape", "A tool has a type, and a function its name beside it.", "openai-responses-tool-form"
)
TOOL_NAME = Limit(
    "openai-responses-tool-name", "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.", "openai-responses-tool-form"
)
TOOL_SCHEMA = Limit(
    "openai-responses-tool-schema",
    "`parameters` is the valid schema of an object, with its properties.",
    "openai-responses-tool-parameters, openai-responses-schema-valid",
)
TOOL_SCHEMA_UNION = Limit(
    "openai-responses-tool-schema-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "openai-responses-azure-union-root",
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-responses-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "openai-responses-array-items",
)
TOOL_STRICT_SCHEMA = Limit(
    "openai-responses-tool-strict-schema",
    "Every object of a strict tool is closed and requires all of its properties.",
    "openai-responses-strict-schema",
)
TOOL_STRICT_UNSAID = Limit(
    "openai-responses-tool-strict-unsaid",
    "A function whose schema is not strict says so: the default makes it strict where it can.",
    "openai-responses-strict-default",
)
TOOL_DUPLICATE = Limit(
    "openai-responses-tool-duplicate", "The names of tools differ.", "openai-responses-duplicate-tools"
)
TOOL_CHOICE_SHAPE = Limit(
    "openai-responses-tool-choice-shape",
    "`tool_choice` is none, auto, required or an object with what belongs to its type.",
    "openai-responses-choice-form",
)
TOOL_CHOICE_TOOLLESS = Limit(
    "openai-responses-tool-choice-toolless",
    "A choice that asks for a call comes with tools.",
    "openai-responses-choice-form",
)
TOOL_CHOICE_UNKNOWN = Limit(
    "openai-responses-tool-choice-unknown", "The tool that is chosen is declared.", "openai-responses-choice-declared"
)

TOOL_FIELD = Limit(
    "openai-responses-tool-field",
    "A function has no field that the service does not know.",
    "openai-responses-tool-fields",
)

FORMAT_SHAPE = Limit(
    "openai-responses-format-shape",
    "`text.format` has a type that there is, and a valid schema its name.",
    "openai-responses-format-form, openai-responses-schema-valid",
)
FORMAT_NAME = Limit(
    "openai-responses-format-name",
    "The name of a format matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-responses-format-form",
)
FORMAT_WORD = Limit(
    "openai-responses-format-word",
    "With json_object the input contains the word json.",
    "openai-responses-word-json",
    word="json",
)
FORMAT_STRICT_SCHEMA = Limit(
    "openai-responses-format-strict-schema",
    "Every object of a strict format is closed and requires all of its properties.",
    "openai-responses-strict-schema, openai-responses-strict-format-required-every-key",
)

LIMITS = limits_among(globals())
