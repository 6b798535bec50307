"""smolagents, for OpenAI: a loop with a tool-calling agent, which ends each turn by calling `final_answer`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false, reportCallIssue=false
from __future__ import annotations

from typing import Any

from smolagents import LogLevel, OpenAIModel, Tool, ToolCallingAgent

from harness import Capability, Conversation, ConversationTool, Endpoint, FinalCall, Loop, Unsupported

TYPES = {"string", "boolean", "integer", "number", "image", "audio", "array", "object", "any", "null"}


class GivenSmolTool(Tool):
    """A smolagents tool that runs the given tool. The library requires a type and a description for each argument."""

    skip_forward_signature_validation = True
    output_type = "string"
    name, description, inputs = "given", "", {}

    def __init__(self, given: ConversationTool) -> None:
        parameters: Any = given.parameters
        schema, required = parameters.get("properties", {}), parameters.get("required", [])
        kinds = [
            each.get("type") if isinstance(each.get("type"), list) else [each.get("type")] for each in schema.values()
        ]
        if not TYPES.issuperset(kind for every in kinds for kind in every):
            raise Unsupported("smolagents", "a schema without a plain type", "its tools have none")
        if not given.name.isidentifier():
            raise Unsupported("smolagents", f"a tool with the name {given.name}", "it must be a Python identifier")
        self.name, self.description, self._given = given.name, given.description, given
        optional = {name: {} if name in required else {"nullable": True} for name in schema}
        self.inputs = {name: {"description": "", **each, **optional[name]} for name, each in schema.items()}
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        return self._given.text(arguments)


def drive(endpoint: Endpoint, model: str, given: Conversation) -> None:
    """Run a conversation."""
    where: dict[str, Any] = {"api_base": endpoint.base_url, "api_key": endpoint.api_key}
    longest = {"max_completion_tokens": given.max_tokens} if given.max_tokens else {}
    agent = ToolCallingAgent(
        [GivenSmolTool(each) for each in given.tools],
        OpenAIModel(model, **where, **longest),
        instructions=given.system,
        stream_outputs=given.stream,
        max_steps=given.max_answers,
        verbosity_level=LogLevel.OFF,
    )
    for at, turn in enumerate(given.turns):
        agent.run(turn.text, reset=at == 0)


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "streaming", "retries")
_CAPABILITIES = frozenset(map(Capability, _NAMES))
OPENAI = Loop("smolagents-openai", "openai-chat", drive, _CAPABILITIES, FinalCall("final_answer", "answer"))
