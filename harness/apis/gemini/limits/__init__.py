"""What generateContent refuses, and what it takes with a loss."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit(
    "gemini-body",
    "The body is a JSON object.",
    "gemini-no-unknown-fields",
    remedy="send a JSON object as the body",
)
UNKNOWN_FIELD = Limit(
    "gemini-unknown-field",
    "There is no field that the API does not know.",
    "gemini-no-unknown-fields, gemini-schema-fields",
    remedy="leave out the field that the API does not know",
)
FIELD_TYPE = Limit(
    "gemini-field-type",
    "Every field is of its type.",
    "gemini-no-unknown-fields, gemini-schema-fields, gemini-function-call-form, gemini-function-response-form, "
    "gemini-response-schema-number-enum-refused",
    remedy="send the field as the type that is named",
)

CONTENTS_EMPTY = Limit(
    "gemini-contents-empty",
    "There are contents.",
    "gemini-contents",
    remedy="send at least one content",
)
PARTS_EMPTY = Limit(
    "gemini-parts-empty",
    "Every content has parts.",
    "gemini-contents",
    remedy="give every content at least one part, or leave it out",
)
PART_DATA = Limit(
    "gemini-part-data",
    "Every part has exactly one data field; a thought signature may stand alone.",
    "gemini-contents",
    remedy="give each part exactly one of `text`, `functionCall`, `functionResponse` and the like",
)
ROLE = Limit(
    "gemini-role",
    "The role of a content is `user` or `model`; on Vertex it is said.",
    "gemini-roles",
    remedy="send the role `user` or `model` with each content",
)
ROLE_FUNCTION = Limit(
    "gemini-role-function",
    "Function responses stand under the role `user`. Models up to 3.5 may take `function`, the older word.",
    "gemini-function-role",
    remedy="put function responses under the role `user`",
)

MODEL_TURN_LAST = Limit(
    "gemini-model-turn-last",
    "The contents do not end with the model's turn, on models that refuse it.",
    "gemini-no-model-turn-last",
    remedy="end the contents with a turn of the user",
)
CALL_ROLE = Limit(
    "gemini-call-role",
    "Function calls are the model's.",
    "gemini-function-call-form",
    remedy="put function calls under the role `model`",
)
CALL_MISPLACED = Limit(
    "gemini-call-misplaced",
    "No history begins with a function call.",
    "gemini-turn-order",
    remedy="begin the history with a turn of the user",
)
CALL_AFTER_MODEL = Limit(
    "gemini-call-after-model",
    "What the model says before a call stands in one content with it. Google's own chat helpers send it apart.",
    "gemini-call-after-text",
    remedy="put the text and the calls of one answer into one content",
)
NAME_EMPTY = Limit(
    "gemini-name-empty",
    "Function calls and responses have a name.",
    "gemini-function-call-form, gemini-function-response-form",
    remedy="send the name of the function with each call and response",
)
RESULT_MISPLACED = Limit(
    "gemini-result-misplaced",
    "Function responses come right behind their calls.",
    "gemini-turn-order",
    remedy="put the function responses right after their calls",
)
RESULT_COUNT = Limit(
    "gemini-result-count",
    "There are as many function responses as calls.",
    "gemini-responses-counted",
    remedy="send one function response for each call",
)
RESULTS_SPLIT = Limit(
    "gemini-results-split",
    "All function responses of a step stand in one content. Recorded 2.5 models took more.",
    "gemini-responses-counted",
    remedy="put all function responses of a step into one content",
)
RESULT_NAME = Limit(
    "gemini-result-name",
    "A function response has the name of its call. A recorded 2.5 model took another.",
    "gemini-function-response-call",
    remedy="give the function response the name of its call",
)
RESULT_ID_MISSING = Limit(
    "gemini-result-id-missing",
    "A function response has the id of its call, if that has one.",
    "gemini-response-ids",
    remedy="send the id of the call with its function response",
)
RESULT_ID_UNKNOWN = Limit(
    "gemini-result-id-unknown",
    "The id of a function response is that of a call.",
    "gemini-function-response-call",
    remedy="send the id of the call that the function response answers",
)
RESULT_ID_REPEATED = Limit(
    "gemini-result-id-repeated",
    "No two function responses have one id.",
    "gemini-function-response-call",
    remedy="send each id with one function response only",
)
SIGNATURE_MISSING = Limit(
    "gemini-signature-missing",
    "From Gemini 3 on the first call of each step of the current turn has its thought signature.",
    "gemini-thought-signature, gemini-4-thought-signature",
    remedy="send the `thoughtSignature` of the first call of each step back in its part",
)
SIGNATURE_CORRUPTED = Limit(
    "gemini-signature-corrupted",
    "A thought signature is one that was issued, or a documented stand-in.",
    "gemini-signature-altered, gemini-4-signature-altered",
    remedy="send the `thoughtSignature` back as it came",
)

TOOL_NAME = Limit(
    "gemini-tool-name",
    "The name of a function begins with a letter or an underscore, and has at most 128 of A-Za-z0-9_.:-",
    "gemini-tool-name-form",
    remedy="name the function with at most 128 of A-Za-z0-9_.:-, beginning with a letter or an underscore",
)
TOOL_NAME_LONG = Limit(
    "gemini-tool-name-long",
    "The name of a function has at most 64 characters: some servers refuse more, the SDK says 128.",
    "gemini-tool-name-64",
    remedy="shorten the function's name to 64 characters",
)
TOOL_DUPLICATE = Limit(
    "gemini-tool-duplicate",
    "The names of functions differ.",
    "gemini-tool-name-form",
    remedy="give each function a name of its own",
)
TOOL_SCHEMAS = Limit(
    "gemini-tool-schemas",
    "A function has its schema in one language.",
    "gemini-schema-fields",
    remedy="send `parameters` or `parametersJsonSchema`, not both",
)
SCHEMA_TYPE = Limit(
    "gemini-schema-type",
    "The types of an OpenAPI schema are those that there are.",
    "gemini-schema-fields",
    remedy="use a type that OpenAPI schemas have",
)
FUNCTIONS_APART = Limit(
    "gemini-functions-apart",
    "All functions are declared in one tool.",
    "gemini-functions-in-one-tool",
    remedy="put all functions into the `functionDeclarations` of one tool",
)
MIXED_TOOLS = Limit(
    "gemini-mixed-tools",
    "A server tool stands beside functions only with `toolConfig.includeServerSideToolInvocations`; not so on Vertex.",
    "gemini-mixed-tools-refused",
    remedy="set `toolConfig.includeServerSideToolInvocations`, or send server tools and functions in separate requests",
)
SCHEMA_ITEMS = Limit(
    "gemini-schema-items",
    "Every array in the OpenAPI `parameters` of a function says what its items are.",
    "gemini-array-items",
    remedy="give every array in `parameters` its `items`, or send `parametersJsonSchema`",
)
SCHEMA_ENUM_EMPTY = Limit(
    "gemini-schema-enum-empty",
    "No value of an enum in the OpenAPI `parameters` of a function is empty.",
    "gemini-enum-not-empty",
    remedy="take the empty value out of the enum",
)
SCHEMA_ENUM_TYPE = Limit(
    "gemini-schema-enum-type",
    "An enum in the OpenAPI `parameters` of a function stands beside `type: string`.",
    "gemini-enum-of-strings",
    remedy="set `type: string` next to the enum",
)
CHOICE_IGNORED = Limit(
    "gemini-choice-ignored",
    "Allowed functions are named only with ANY or VALIDATED.",
    "gemini-allowed-names",
    remedy="leave out `allowedFunctionNames`, or send the mode ANY or VALIDATED",
)

JSON_WITH_TOOLS = Limit(
    "gemini-json-with-tools",
    "Models up to 2.5 get no JSON mode together with functions.",
    "gemini-json-with-functions",
    remedy="leave out the JSON mode or the functions, or use a newer model",
)
SCHEMA_MIME_TYPE = Limit(
    "gemini-schema-mime-type",
    "A schema of the answer comes with its MIME type.",
    "gemini-schema-needs-mime",
    remedy="send `responseMimeType: application/json` with the schema",
)
OUTPUT_SCHEMAS = Limit(
    "gemini-output-schemas",
    "The answer has its schema in one language.",
    "gemini-schema-needs-mime, gemini-response-schema-and-json-schema-together-refused",
    remedy="send `responseSchema` or `responseJsonSchema`, not both",
)
THINKING_LEVEL = Limit(
    "gemini-thinking-level",
    "The level of thinking is one that the model has.",
    "gemini-no-levels, gemini-no-minimal-level",
    remedy="send a `thinkingLevel` that the model has",
)
THINKING = Limit(
    "gemini-thinking",
    "Thinking has a level or a budget, not both.",
    "gemini-level-or-budget",
    remedy="send `thinkingLevel` or `thinkingBudget`, not both",
)

EMBEDDINGS_BODY = Limit(
    "gemini-embeddings-body",
    "A request for embeddings is for texts of one model and one length.",
    "gemini-embeddings, gemini-no-unknown-fields",
    remedy="ask for texts of one model and one length in one request",
)
EMBEDDINGS_COUNT = Limit(
    "gemini-embeddings-count",
    "One to 100 texts are embedded at once.",
    "gemini-embeddings-at-most-100",
    remedy="send 1 to 100 texts in one request",
)
EMBEDDINGS_DIMENSIONS = Limit(
    "gemini-embeddings-dimensions",
    "From 1 to 3072 dimensions are asked for.",
    "gemini-embeddings",
    remedy="send `outputDimensionality` from 1 to 3072",
)

LIMITS = limits_among(globals())
