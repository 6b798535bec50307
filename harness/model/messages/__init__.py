"""Canonical values that every adapter accepts and returns. They are frozen, have no behaviour and need no SDK.

The constructors check their arguments, because most values are sent to a provider much later. They accept short forms
(`Message("user", "Hi")`, a list for a tuple, `response_format="json"`). Anything else raises `InvalidValue`, which
lists the allowed values.

Rules for adapters:

- The system prompt is `ChatRequest.system`, never a message. `Role` has only two members.
- Ids that an API issued are sent back to it unchanged. For a call without an id, the adapter makes a unique one from
  the call's position in the history and marks it with `SYNTHESISED_ID`. It never sends that id as if the provider had
  issued it.
- `provider_metadata[api]` holds verbatim wire fields. An adapter sends back the fields of its own API unchanged and
  ignores all others. `Opaque` does the same for whole parts that have no class.
- Text is preserved to the code point and integers exactly; other numbers are preserved as doubles.
- An adapter honours `response_format` or raises `errors.Unsupported`; it never drops it silently.

Names in the five designs that this contract was written for, and the names used here:

=================================================  ==================================================
design                                             here
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

from harness.model.messages.chat import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Effort,
    Finish,
    JsonMode,
    JsonSchema,
    NamedTool,
    ResponseFormat,
    StopReason,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ThinkingSettings,
    Tool,
    ToolCallEnd,
    ToolCallStart,
    ToolChoice,
    Usage,
)
from harness.model.messages.parts import (
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
