"""What generateContent refuses, and what it takes with a loss."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("gemini-body", "The body is a JSON object.", "gemini-no-unknown-fields")
UNKNOWN_FIELD = Limit(
    "gemini-unknown-field",
    "There is no field that the API does not know.",
    "gemini-no-unknown-fields, gemini-schema-fields",
)
FIELD_TYPE = Limit(
    "gemini-field-type",
    "Every field is of its type.",
    "gemini-no-unknown-fields, gemini-schema-fields, gemini-function-call-form, gemini-function-response-form, "
    "gemini-response-schema-number-enum-refused",
)

CONTENTS_EMPTY = Limit("gemini-contents-empty", "There are contents.", "gemini-contents")
PARTS_EMPTY = Limit("gemini-parts-empty", "Every content has parts.", "gemini-contents")
PART_DATA = Limit(
    "gemini-part-data", "Every part has exactly one data field; a thought signature may stand alone.", "gemini-contents"
)
ROLE = Limit("gemini-role", "The role of a content is `user` or `model`; on Vertex it is said.", "gemini-roles")
ROLE_FUNCTION = Limit(
    "gemini-role-function",
    "Function responses stand under the role `user`. Models up to 3.5 may take `function`, the older word.",
    "gemini-function-role",
)

MODEL_TURN_LAST = Limit(
    "gemini-model-turn-last",
    "The contents do not end with the model's turn, on models that refuse it.",
    "gemini-no-model-turn-last",
)
CALL_ROLE = Limit("gemini-call-role", "Function calls are the model's.", "gemini-function-call-form")
CALL_MISPLACED = Limit("gemini-call-misplaced", "No history begins with a function call.", "gemini-turn-order")
CALL_AFTER_MODEL = Limit(
    "gemini-call-after-model",
    "What the model says before a call stands in one content with it. Google's own chat helpers send it apart.",
    "gemini-call-after-text",
)
NAME_EMPTY = Limit(
    "gemini-name-empty",
    "Function calls and responses have a name.",
    "gemini-function-call-form, gemini-function-response-form",
)
RESULT_MISPLACED = Limit(
    "gemini-result-misplaced", "Function responses come right behind their calls.", "gemini-turn-order"
)
RESULT_COUNT = Limit(
    "gemini-result-count", "There are as many function responses as calls.", "gemini-responses-counted"
)
RESULTS_SPLIT = Limit(
    "gemini-results-split",
    "All function responses of a step stand in one content. Recorded 2.5 models took more.",
    "gemini-responses-counted",
)
RESULT_NAME = Limit(
    "gemini-result-name",
    "A function response has the name of its call. A recorded 2.5 model took another.",
    "gemini-function-response-call",
)
RESULT_ID_MISSING = Limit(
    "gemini-result-id-missing", "A function response has the id of its call, if that has one.", "gemini-response-ids"
)
RESULT_ID_UNKNOWN = Limit(
    "gemini-result-id-unknown", "The id of a function response is that of a call.", "gemini-function-response-call"
)
RESULT_ID_REPEATED = Limit(
    "gemini-result-id-repeated", "No two function responses have one id.", "gemini-function-response-call"
)
SIGNATURE_MISSING = Limit(
    "gemini-signature-missing",
    "From Gemini 3 on the first call of each step of the current turn has its thought signature.",
    "gemini-thought-signature, gemini-4-thought-signature",
)
SIGNATURE_CORRUPTED = Limit(
    "gemini-signature-corrupted",
    "A thought signature is one that was issued, or a documented stand-in.",
    "gemini-signature-altered, gemini-4-signature-altered",
)

TOOL_NAME = Limit(
    "gemini-tool-name",
    "The name of a function begins with a letter or an underscore, and has at most 128 of A-Za-z0-9_.:-",
    "gemini-tool-name-form",
)
TOOL_NAME_LONG = Limit(
    "gemini-tool-name-long",
    "The name of a function has at most 64 characters: some servers refuse more, the SDK says 128.",
    "gemini-tool-name-64",
)
TOOL_DUPLICATE = Limit("gemini-tool-duplicate", "The names of functions differ.", "gemini-tool-name-form")
TOOL_SCHEMAS = Limit("gemini-tool-schemas", "A function has its schema in one language.", "gemini-schema-fields")
SCHEMA_TYPE = Limit(
    "gemini-schema-type", "The types of an OpenAPI schema are those that there are.", "gemini-schema-fields"
)
FUNCTIONS_APART = Limit(
    "gemini-functions-apart", "All functions are declared in one tool.", "gemini-functions-in-one-tool"
)
MIXED_TOOLS = Limit(
    "gemini-mixed-tools",
    "A server tool stands beside functions only with `toolConfig.includeServerSideToolInvocations`; not so on Vertex.",
    "gemini-mixed-tools-refused",
)
SCHEMA_ITEMS = Limit(
    "gemini-schema-items",
    "Every array in the OpenAPI `parameters` of a function says what its items are.",
    "gemini-array-items",
)
SCHEMA_ENUM_EMPTY = Limit(
    "gemini-schema-enum-empty",
    "No value of an enum in the OpenAPI `parameters` of a function is empty.",
    "gemini-enum-not-empty",
)
SCHEMA_ENUM_TYPE = Limit(
    "gemini-schema-enum-type",
    "An enum in the OpenAPI `parameters` of a function stands beside `type: string`.",
    "gemini-enum-of-strings",
)
CHOICE_IGNORED = Limit(
    "gemini-choice-ignored", "Allowed functions are named only with ANY or VALIDATED.", "gemini-allowed-names"
)

JSON_WITH_TOOLS = Limit(
    "gemini-json-with-tools", "Models up to 2.5 get no JSON mode together with functions.", "gemini-json-with-functions"
)
SCHEMA_MIME_TYPE = Limit(
    "gemini-schema-mime-type", "A schema of the answer comes with its MIME type.", "gemini-schema-needs-mime"
)
OUTPUT_SCHEMAS = Limit(
    "gemini-output-schemas",
    "The answer has its schema in one language.",
    "gemini-schema-needs-mime, gemini-response-schema-and-json-schema-together-refused",
)
THINKING_LEVEL = Limit(
    "gemini-thinking-level",
    "The level of thinking is one that the model has.",
    "gemini-no-levels, gemini-no-minimal-level",
)
THINKING = Limit("gemini-thinking", "Thinking has a level or a budget, not both.", "gemini-level-or-budget")

EMBEDDINGS_BODY = Limit(
    "gemini-embeddings-body",
    "A request for embeddings is for texts of one model and one length.",
    "gemini-embeddings, gemini-no-unknown-fields",
)
EMBEDDINGS_COUNT = Limit(
    "gemini-embeddings-count", "One to 100 texts are embedded at once.", "gemini-embeddings-at-most-100"
)
EMBEDDINGS_DIMENSIONS = Limit(
    "gemini-embeddings-dimensions", "From 1 to 3072 dimensions are asked for.", "gemini-embeddings"
)

LIMITS = limits_among(globals())
