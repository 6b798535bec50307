"""The canonical contract: the values that every adapter takes and gives. Frozen, without behaviour, without an SDK.

Values check what they are given, since most of them reach a provider only much later: what can be meant in one way only
is taken (`Message("user", "Hi")`, a list for a tuple, `response_format="json"`), and anything else is `InvalidValue`,
which says what is allowed.

What an adapter must do with them:

- The system prompt is `ChatRequest.system`, never a message. `Role` has no third member.
- Ids that an API issued return to it unchanged. A call that came without one gets an id from the adapter: a function
  of its position in the history, unique, marked by `SYNTHESISED_ID`, never sent as if the provider had issued it.
- `provider_metadata[api]` are verbatim wire fields. An adapter returns what stands under its own API untouched and
  ignores the rest. `Opaque` does the same for whole parts that have no type of their own.
- Text is equal to the code point; integers are exact, other numbers equal as doubles.
- `response_format` is honoured or refused with `errors.Unsupported`; it is never silently dropped.

How the names of the five designs that asked for this map onto these:

=================================================  ==================================================
their name                                         here
=================================================  ==================================================
`ToolCallRequest(id, name, args)`, `FunctionCall`  `ToolCall(id, name, arguments)`
`ToolResult.result`, `FunctionResponse.Response`   `ToolResult.content`
`Message.text`, `.tool_calls`, `.tool_results`     the same, derived from `Message.parts`
`tool_mode`                                        `ChatRequest.tool_choice`
`json_mode=True`                                   `ChatRequest.response_format = JsonMode()`
`GenerateRequest.SystemPrompt`, `system`           `ChatRequest.system`
`prompt_tokens`, `completion_tokens`               `Usage.input_tokens`, `Usage.output_tokens`
`InvokeParams`, `InvokeResult`                     `protocols.GenerationProvider.generate`, `Generation`
`HandleText`, `HandleToolUse`, …                   `protocols.MessageHandler.on_text`, `.on_tool_use`, …
`StopReason == "tool_use"`                         `ChatResponse.tool_calls` (the loop follows the calls)
=================================================  ==================================================
"""

from harness.contract.model.conversation import (
    JSON,
    JSON_INSTRUCTION,
    PART_CLASSES,
    SYNTHESISED_ID,
    File,
    Image,
    Message,
    Opaque,
    Part,
    ProviderMetadata,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.contract.model.events import (
    ArgumentsDelta,
    Finish,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from harness.contract.model.requests import (
    ChatRequest,
    Effort,
    JsonMode,
    JsonSchema,
    NamedTool,
    ResponseFormat,
    ThinkingSettings,
    Tool,
    ToolChoice,
)
from harness.contract.model.responses import ChatResponse, StopReason, Usage

__all__ = [
    "JSON",
    "JSON_INSTRUCTION",
    "PART_CLASSES",
    "SYNTHESISED_ID",
    "ArgumentsDelta",
    "ChatRequest",
    "ChatResponse",
    "Effort",
    "File",
    "Finish",
    "Image",
    "JsonMode",
    "JsonSchema",
    "Message",
    "NamedTool",
    "Opaque",
    "Part",
    "ProviderMetadata",
    "Refusal",
    "ResponseFormat",
    "Role",
    "StopReason",
    "StreamEvent",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ThinkingSettings",
    "Tool",
    "ToolCall",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolChoice",
    "ToolResult",
    "Usage",
]
