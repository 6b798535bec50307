"""Saying no before anything is sent."""

from __future__ import annotations

from harness.contract.errors import Unsupported
from harness.contract.model import ChatRequest, File, Image, JsonMode, JsonSchema, NamedTool
from harness.contract.protocols import Capability


def asked(request: ChatRequest) -> frozenset[Capability]:
    """What a request asks for that a library may have no way to say."""
    parts = [part for message in request.messages for part in message.parts]
    results = [part for message in request.messages for part in message.tool_results]
    forced = request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)
    uses = {
        Capability.SYSTEM_PROMPT: bool(request.system),
        Capability.TOOLS: bool(request.tools),
        Capability.TOOL_CHOICE: request.tool_choice is not None,
        Capability.FORCED_TOOL_CHOICE: forced,
        Capability.JSON_MODE: isinstance(request.response_format, JsonMode),
        Capability.JSON_SCHEMA: isinstance(request.response_format, JsonSchema),
        Capability.JSON_WITH_TOOLS: bool(request.response_format and request.tools),
        Capability.VISION: any(isinstance(part, Image) for part in parts),
        Capability.IMAGE_RESULTS: any(
            isinstance(part, Image)
            for result in results
            if isinstance(result.content, tuple)
            for part in result.content
        ),
        Capability.FILES: any(isinstance(part, File) and not _is_sound(part) for part in parts),
        Capability.AUDIO: any(isinstance(part, File) and _is_sound(part) for part in parts),
        Capability.THINKING: request.thinking is not None,
        Capability.CACHE_MARKS: request.cache,
        Capability.PROVIDER_TOOLS: any(
            isinstance(fields, dict) and "tools" in fields for fields in request.provider_metadata.values()
        ),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _is_sound(part: File) -> bool:
    return part.media_type.startswith("audio/")


def decline(adapter: str, request: ChatRequest, *cannot: Capability, reason: str = "the library has no way to") -> None:
    """Decline a request that asks for any of these.

    Raises:
        Unsupported: it does.
    """
    for capability in cannot:
        if capability in asked(request):
            raise Unsupported(adapter, capability.value, reason)
