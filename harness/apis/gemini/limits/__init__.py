"""What generateContent refuses, and what it takes with a loss (wire-facts, section 5)."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

BODY = Limit("gemini-body", "The body is a JSON object.", "GM-3")
UNKNOWN_FIELD = Limit("gemini-unknown-field", "There is no field that the API does not know.", "GM-3, GM-5, GM-D5")
FIELD_TYPE = Limit("gemini-field-type", "Every field is of its type.", "GM-3, GM-5, GM-6, GM-7")

CONTENTS_EMPTY = Limit("gemini-contents-empty", "There are contents.", "GM-1")
PARTS_EMPTY = Limit("gemini-parts-empty", "Every content has parts.", "GM-1")
PART_DATA = Limit("gemini-part-data", "Every part has exactly one data field.", "GM-1")
ROLE = Limit("gemini-role", "The role of a content is `user` or `model`; on Vertex it is said.", "GM-2")
ROLE_FUNCTION = Limit(
    "gemini-role-function",
    "Function responses stand under the role `user`. Models up to 2.5 may take `function`, the word of older days.",
    "GM-2; contested, no captured verdict",
    "warning",
)

MODEL_TURN_LAST = Limit(
    "gemini-model-turn-last", "The contents do not end with the model's turn, on models that refuse it.", "GM-D7"
)
CALL_ROLE = Limit("gemini-call-role", "Function calls are the model's.", "GM-6")
CALL_MISPLACED = Limit("gemini-call-misplaced", "No history begins with a function call.", "GM-9")
CALL_AFTER_MODEL = Limit(
    "gemini-call-after-model",
    "What the model says before a call stands in one content with it. Google's own chat helpers send it apart.",
    "GM-9; contested, no captured verdict",
    "warning",
)
NAME_EMPTY = Limit("gemini-name-empty", "Function calls and responses have a name.", "GM-6, GM-7")
RESULT_MISPLACED = Limit("gemini-result-misplaced", "Function responses come right behind their calls.", "GM-9")
RESULT_COUNT = Limit("gemini-result-count", "There are as many function responses as calls.", "GM-8")
RESULTS_SPLIT = Limit(
    "gemini-results-split",
    "All function responses of a step stand in one content. Recorded 2.5 models took more.",
    "GM-8",
)
RESULT_NAME = Limit(
    "gemini-result-name", "A function response has the name of its call. A recorded 2.5 model took another.", "GM-7"
)
RESULT_ID_MISSING = Limit(
    "gemini-result-id-missing", "A function response has the id of its call, if that has one.", "GM-7", "warning"
)
RESULT_ID_UNKNOWN = Limit("gemini-result-id-unknown", "The id of a function response is that of a call.", "GM-7")
RESULT_ID_REPEATED = Limit("gemini-result-id-repeated", "No two function responses have one id.", "GM-7")
SIGNATURE_MISSING = Limit(
    "gemini-signature-missing",
    "From Gemini 3 on the first call of each step of the current turn has its thought signature.",
    "GM-10, GM-D4",
)
SIGNATURE_CORRUPTED = Limit(
    "gemini-signature-corrupted",
    "A thought signature is one that was issued, or a documented stand-in.",
    "GM-10, GM-D16",
)

TOOL_NAME = Limit(
    "gemini-tool-name",
    "The name of a function begins with a letter or an underscore, and has at most 128 of A-Za-z0-9_.:-",
    "GM-4",
)
TOOL_NAME_LONG = Limit(
    "gemini-tool-name-long",
    "The name of a function has at most 64 characters: some servers refuse more, the SDK says 128.",
    "GM-4",
    "warning",
)
TOOL_DUPLICATE = Limit("gemini-tool-duplicate", "The names of functions differ.", "GM-4")
TOOL_SCHEMAS = Limit("gemini-tool-schemas", "A function has its schema in one language.", "GM-5")
SCHEMA_TYPE = Limit("gemini-schema-type", "The types of an OpenAPI schema are those that there are.", "GM-5")
MIXED_TOOLS = Limit(
    "gemini-mixed-tools",
    "A server tool stands beside functions only with `toolConfig.includeServerSideToolInvocations`; not so on Vertex.",
    "GM-D1",
)
SCHEMA_ITEMS = Limit(
    "gemini-schema-items", "Every array in the OpenAPI `parameters` of a function says what its items are.", "GM-D17"
)
SCHEMA_ENUM_EMPTY = Limit(
    "gemini-schema-enum-empty", "No value of an enum in the OpenAPI `parameters` of a function is empty.", "GM-D12"
)
SCHEMA_ENUM_TYPE = Limit(
    "gemini-schema-enum-type",
    "An enum in the OpenAPI `parameters` of a function stands beside `type: string`.",
    "GM-D14, diegosouzapw/OmniRoute#760",
)
CHOICE_IGNORED = Limit(
    "gemini-choice-ignored", "Allowed functions are named only with ANY or VALIDATED.", "GM-12", "warning"
)

JSON_WITH_TOOLS = Limit("gemini-json-with-tools", "Models up to 2.5 get no JSON mode together with functions.", "GM-13")
SCHEMA_MIME_TYPE = Limit("gemini-schema-mime-type", "A schema of the answer comes with its MIME type.", "GM-13")
OUTPUT_SCHEMAS = Limit("gemini-output-schemas", "The answer has its schema in one language.", "GM-13")
THINKING_LEVEL = Limit("gemini-thinking-level", "The level of thinking is one that the model has.", "GM-D3, GM-D15")
THINKING = Limit("gemini-thinking", "Thinking has a level or a budget, not both.", "GM-14")

EMBEDDINGS_BODY = Limit(
    "gemini-embeddings-body",
    "A request for embeddings is for texts of one model and one length.",
    "Gemini API, models.batchEmbedContents",
)
EMBEDDINGS_COUNT = Limit(
    "gemini-embeddings-count",
    "One to 100 texts are embedded at once.",
    "Gemini API, models.batchEmbedContents; langchain-ai/langchainjs 4491",
)
EMBEDDINGS_DIMENSIONS = Limit(
    "gemini-embeddings-dimensions", "From 1 to 3072 dimensions are asked for.", "Gemini API, models.batchEmbedContents"
)

LIMITS = limits_among(globals())
