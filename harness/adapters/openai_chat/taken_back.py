"""Which fields of an answer a server takes back, and which it only shows.

The dialects are told apart by the names of their fields, since a field goes back only to where it came from. A strict
server refuses any it does not know: OpenAI (openai-chat-no-reasoning-field), Cerebras (proxysoul/Empryo#209), Mistral
(BerriAI/litellm#30835). What no dialect is known to take back is kept for the caller, under `RECEIVED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.metadata import parted
from harness.adapters.openai_chat.api import API, RECEIVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.contract.model import JSON, ProviderMetadata

REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""Where the dialects put the text of the reasoning: DeepSeek and most others; OpenRouter, Groq, Cerebras and Ollama;
Copilot."""

_MESSAGE = frozenset(
    {
        # openai-chat-deepseek-reasoning-back; accepted in recordings of DeepSeek, Ollama and Crusoe;
        # anomalyco/opencode#8900 (Copilot)
        *REASONING,
        "reasoning_details",  # OpenRouter: its guide to reasoning tokens, and a recording; Snowflake: a recording
        "reasoning_opaque",  # Copilot: the signature (anomalyco/opencode#8900)
        "thinking_blocks",  # LiteLLM: signed thinking of Claude (its page on reasoning content)
        "extra_content",  # Gemini's compatible endpoint: a thought signature (openai-chat-gemini-signature)
    }
)
_CALL = frozenset(
    {
        "extra_content",  # openai-chat-gemini-signature
        "provider_specific_fields",  # LiteLLM: a thought signature (its notes on Gemini 3)
        "custom",  # OpenAI: the call of a custom tool
    }
)
_FUNCTION = frozenset({"provider_specific_fields"})  # LiteLLM, where it is streamed


def received(fields: Mapping[str, JSON]) -> ProviderMetadata:
    """The metadata that holds fields which do not go back; nothing if there are none."""
    return {RECEIVED: dict(fields)} if fields else {}


def of_message(fields: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The fields of a message that go back, as they do, and those that do not."""
    back, shown = parted(fields, _MESSAGE)
    match shown:  # both by the SDK's chat_completion_assistant_message_param; some servers send them empty
        case {"audio": {"id": str(audio_id)}} if audio_id:
            back["audio"] = {"id": audio_id}
        case {"function_call": {"name": str(name)}} if name:
            back["function_call"] = shown.pop("function_call")
        case _:
            pass
    return back, shown


def of_call(fields: Mapping[str, JSON], function: Mapping[str, JSON]) -> ProviderMetadata:
    """What to keep of a call: those of its own fields and of its function's that have no canonical place."""
    back, shown = parted(fields, _CALL)
    inner, inner_shown = parted(function, _FUNCTION)
    if inner:
        back["function"] = inner
    if inner_shown:
        shown["function"] = inner_shown
    return {name: kept for name, kept in ((API, back), (RECEIVED, shown)) if kept}
