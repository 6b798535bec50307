"""What the Responses API refuses, and what it takes with a loss."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit(
    "openai-responses-body",
    "The body is a JSON object.",
    "openai-responses-input",
    remedy="send a JSON object as the body",
)
INPUT_MISSING = Limit(
    "openai-responses-input-missing",
    "There is input.",
    "openai-responses-input",
    remedy="send `input`",
)
PARAMETER_UNKNOWN = Limit(
    "openai-responses-parameter-unknown",
    "There is no parameter that the service does not know.",
    "openai-responses-input",
    remedy="leave out the parameter that the service does not know",
)
PARAMETER_TYPE = Limit(
    "openai-responses-parameter-type",
    "Every parameter is of its JSON type.",
    "openai-responses-input",
    remedy="send the parameter as the JSON type that is named",
)
PARAMETER_RANGE = Limit(
    "openai-responses-parameter-range",
    "Every number lies within its bounds.",
    "openai-responses-input",
    remedy="send a number within the bounds that are named",
)
STREAM_OPTIONS = Limit(
    "openai-responses-stream-options",
    "`stream_options` comes with `stream: true`.",
    "openai-responses-stream-options-streamed",
    remedy="leave out `stream_options`, or send `stream: true`",
)
STATE_CONFLICT = Limit(
    "openai-responses-state-conflict",
    "The conversation is continued in one way, not in two.",
    "openai-responses-choice-form",
    remedy="send `previous_response_id` or `conversation`, not both",
)
TEMPERATURE = Limit(
    "openai-responses-temperature",
    "Models that take no temperature get none.",
    "openai-responses-no-temperature",
    remedy="leave out `temperature` for this model",
)
SAMPLING = Limit(
    "openai-responses-sampling",
    "Reasoning models get no sampling parameters; some take them.",
    "openai-responses-reasoning-sampling",
    remedy="leave out sampling parameters for reasoning models",
)

ITEM_TYPE = Limit(
    "openai-responses-item-type",
    "Every item of the input is of a type that there is.",
    "openai-responses-item-form",
    remedy="use a type of item that the API has",
)
ITEM_ID = Limit(
    "openai-responses-item-id",
    "The id of an item has the prefix of its type and at most 64 characters.",
    "openai-responses-call-form",
    remedy="send the id that the API issued, or leave it out",
)
ITEM_CALL_ID = Limit(
    "openai-responses-item-call-id",
    "A call_id has from 1 to 64 characters.",
    "openai-responses-call-form",
    remedy="send a `call_id` of 1 to 64 characters",
)
CALL_SHAPE = Limit(
    "openai-responses-call-shape",
    "A call has call_id, name and arguments, all strings.",
    "openai-responses-call-form",
    remedy="send `call_id`, `name` and `arguments` of the call, all as strings",
)
CALL_NAME = Limit(
    "openai-responses-call-name",
    "The name in a call matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-responses-tool-form",
    remedy="use 1 to 64 letters, digits, `_` and `-` for the name of the call",
)
RESULT_SHAPE = Limit(
    "openai-responses-result-shape",
    "An output has a call_id, and text or content parts.",
    "openai-responses-result-has-call, openai-responses-output-content",
    remedy="send the output with its `call_id`, and text or content parts as `output`",
)
RESULT_CONTENT = Limit(
    "openai-responses-result-content",
    "The content parts of an output are those of input.",
    "openai-responses-output-content",
    remedy="use the content parts of input in the output of a call",
)
REASONING_SHAPE = Limit(
    "openai-responses-reasoning-shape",
    "A reasoning item has a summary.",
    "openai-responses-reasoning-summary",
    remedy="send the reasoning item with its `summary`, an empty list where there is none",
)
REASONING_STATUS = Limit(
    "openai-responses-reasoning-status",
    "A reasoning item goes back without its status. Compatible servers may take it, and OpenAI may take a null.",
    "openai-responses-reasoning-status-refused",
    remedy="leave `status` out of the reasoning item",
)
MESSAGE_SHAPE = Limit(
    "openai-responses-message-shape",
    "A message has role and content.",
    "openai-responses-message-form",
    remedy="send the message with `role` and `content`",
)
MESSAGE_CONTENT = Limit(
    "openai-responses-message-content",
    "The assistant's content parts are those of output, all others' those of input.",
    "openai-responses-message-form",
    remedy="use `output_text` for the assistant and `input_text` for all others",
)
ROLE = Limit(
    "openai-responses-role",
    "The role of a message is user, assistant, system or developer.",
    "openai-responses-message-form",
    remedy="use the role user, assistant, system or developer",
)

RESULT_ORPHAN = Limit(
    "openai-responses-result-orphan",
    "Every output stands behind the call that it answers.",
    "openai-responses-result-has-call",
    remedy="send the call before its output, or leave the output out",
)
RESULT_DUPLICATE = Limit(
    "openai-responses-result-duplicate",
    "A call has a single output.",
    "openai-responses-result-has-call",
    remedy="send one output for each call",
)
RESULT_MISSING = Limit(
    "openai-responses-result-missing",
    "Every call has an output.",
    "openai-responses-result-has-call",
    remedy="send a `function_call_output` item for each call",
)
RESULT_DETACHED = Limit(
    "openai-responses-result-detached",
    "At DeepSeek no message stands between a call and its output.",
    "openai-responses-deepseek-adjacent",
    remedy="send the output right after its call at DeepSeek",
)
REASONING_ALONE = Limit(
    "openai-responses-reasoning-alone",
    "Reasoning that is sent by its id stands before the output item that it was stored with.",
    "openai-responses-reasoning-back",
    remedy="send the reasoning item together with the output item that followed it",
)

TOOL_SHAPE = Limit(
    "openai-responses-tool-shape",
    "A tool has a type, and a function its name beside it.",
    "openai-responses-tool-form",
    remedy="send the tool with its `type`, and a function with its `name` next to it",
)
TOOL_NAME = Limit(
    "openai-responses-tool-name",
    "The name of a tool matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-responses-tool-form",
    remedy="name the tool with 1 to 64 letters, digits, `_` and `-`",
)
TOOL_SCHEMA = Limit(
    "openai-responses-tool-schema",
    "`parameters` is the valid schema of an object, with its properties.",
    "openai-responses-tool-parameters, openai-responses-schema-valid",
    remedy="send `parameters` as a valid JSON schema of an object with `properties`",
)
TOOL_SCHEMA_UNION = Limit(
    "openai-responses-tool-schema-union",
    "`parameters` says `type: object` beside a union. Azure refuses it without, OpenAI takes it.",
    "openai-responses-azure-union-root",
    remedy="add `type: object` next to the union",
)
TOOL_ARRAY_ITEMS = Limit(
    "openai-responses-tool-array-items",
    "Every array in `parameters` says what its items are, strict or not; `prefixItems` alone do not.",
    "openai-responses-array-items",
    remedy="give every array in `parameters` its `items`",
)
TOOL_STRICT_SCHEMA = Limit(
    "openai-responses-tool-strict-schema",
    "Every object of a strict tool is closed and requires all of its properties.",
    "openai-responses-strict-schema",
    remedy="close every object of the strict tool and list all its properties in `required`, or send `strict: false`",
)
TOOL_STRICT_UNSAID = Limit(
    "openai-responses-tool-strict-unsaid",
    "A function whose schema is not strict says so: the default makes it strict where it can.",
    "openai-responses-strict-default",
    remedy="send `strict: false` with a tool whose schema is not strict",
)
TOOL_DUPLICATE = Limit(
    "openai-responses-tool-duplicate",
    "The names of tools differ.",
    "openai-responses-duplicate-tools",
    remedy="give each tool a name of its own",
)
TOOL_CHOICE_SHAPE = Limit(
    "openai-responses-tool-choice-shape",
    "`tool_choice` is none, auto, required or an object with what belongs to its type.",
    "openai-responses-choice-form",
    remedy="send `tool_choice` as none, auto, required or an object with what belongs to its type",
)
TOOL_CHOICE_TOOLLESS = Limit(
    "openai-responses-tool-choice-toolless",
    "A choice that asks for a call comes with tools.",
    "openai-responses-choice-form",
    remedy="leave out `tool_choice`, or send tools",
)
TOOL_CHOICE_UNKNOWN = Limit(
    "openai-responses-tool-choice-unknown",
    "The tool that is chosen is declared.",
    "openai-responses-choice-declared",
    remedy="declare the tool that is chosen",
)

TOOL_FIELD = Limit(
    "openai-responses-tool-field",
    "A function has no field that the service does not know.",
    "openai-responses-tool-fields",
    remedy="leave the field out of the function: the service does not know it",
)

FORMAT_SHAPE = Limit(
    "openai-responses-format-shape",
    "`text.format` has a type that there is, and a valid schema its name.",
    "openai-responses-format-form, openai-responses-schema-valid",
    remedy="send `text.format` with a type of the API, and a schema with its `name`",
)
FORMAT_NAME = Limit(
    "openai-responses-format-name",
    "The name of a format matches ^[a-zA-Z0-9_-]{1,64}$.",
    "openai-responses-format-form",
    remedy="name the format with 1 to 64 letters, digits, `_` and `-`",
)
FORMAT_WORD = Limit(
    "openai-responses-format-word",
    "With json_object the input contains the word json.",
    "openai-responses-word-json",
    word="json",
    remedy="write the word JSON into the input, such as a developer message, where json_object is asked for",
)
FORMAT_STRICT_SCHEMA = Limit(
    "openai-responses-format-strict-schema",
    "Every object of a strict format is closed and requires all of its properties.",
    "openai-responses-strict-schema, openai-responses-strict-format-required-every-key",
    remedy="close every object of the strict format and list all its properties in `required`",
)

LIMITS = limits_among(globals())
