"""Where a finding has to lead: one regular expression for each API, matched against the whole pointer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of place in a body. Without a pattern for an API nothing of the kind can be pointed at."""

    anthropic: str | None
    openai_chat: str | None
    openai_responses: str | None
    gemini: str | None

    def pattern(self, api: str) -> str:
        """The pattern of an API."""
        found: str | None = getattr(self, api.replace("-", "_"))
        assert found is not None, f"no pattern for {api}"
        return found


def everywhere(pattern: str) -> Place:
    """One pattern for all APIs."""
    return Place(pattern, pattern, pattern, pattern)


BODY = everywhere("")
"""The body as a whole: something is not there, or belongs to the exchange and not to a place in it."""

CALL = Place(
    r"/messages/\d+/content/\d+",
    r"/messages/\d+/tool_calls/\d+",
    r"/input/\d+",
    r"/contents/\d+/parts/\d+(/functionCall)?",
)
TOOL_CALLS = Place(None, r"/messages/\d+/tool_calls", None, None)
CALL_ID = Place(
    r"/messages/\d+/content/\d+/id",
    r"/messages/\d+/tool_calls/\d+/id",
    r"/input/\d+/call_id",
    r"/contents/\d+/parts/\d+/functionCall/id",
)
ARGUMENTS = Place(
    r"/messages/\d+/content/\d+/input",
    r"/messages/\d+/tool_calls/\d+/function/arguments",
    r"/input/\d+/arguments",
    r"/contents/\d+/parts/\d+/functionCall/args",
)
RESULT = Place(
    r"/messages/\d+/content/\d+", r"/messages/\d+", r"/input/\d+", r"/contents/\d+/parts/\d+(/functionResponse)?"
)
ANSWERS = Place(None, "/n", None, "/generationConfig/candidateCount")
RESULT_TURN = Place(None, None, None, r"/contents/\d+(/parts/\d+)?")
RESULT_ID = Place(
    r"/messages/\d+/content/\d+/tool_use_id",
    r"/messages/\d+/tool_call_id",
    r"/input/\d+/call_id",
    r"/contents/\d+/parts/\d+/functionResponse/(id|name)",
)
RESULT_CONTENT = Place(
    r"/messages/\d+/content/\d+(/content)?",
    r"/messages/\d+(/content)?",
    r"/input/\d+(/output)?",
    r"/contents/\d+/parts/\d+(/functionResponse(/response)?)?",
)
TEXT = Place(
    r"/messages/\d+/content(/\d+(/text)?)?",
    r"/messages/\d+/content(/\d+(/text)?)?",
    r"/input/\d+/content(/\d+(/text)?)?",
    r"/contents/\d+/parts/\d+(/text)?",
)
TURN = Place(r"/messages/\d+", r"/messages/\d+", r"/input/\d+", r"/contents/\d+")
SYSTEM = Place(
    r"/system(/\d+(/text)?)?", r"/messages/\d+(/content)?", r"/instructions", r"/systemInstruction(/parts/\d+(/text)?)?"
)
SYSTEM_IN_CONVERSATION = Place(
    r"/messages/\d+(/content(/\d+)?)?", r"/messages/\d+(/content)?", r"/input/\d+(/content(/\d+)?)?", None
)
TOOL = Place(r"/tools/\d+", r"/tools/\d+(/function)?", r"/tools/\d+", r"/tools/\d+/functionDeclarations/\d+")
CHOICE = Place(r"/tool_choice", r"/tool_choice", r"/tool_choice", r"/toolConfig/functionCallingConfig")
FORMAT = Place(r"/output_config/format", r"/response_format", r"/text/format", r"/generationConfig(/response\w+)?")
ANSWER_SCHEMA = Place(
    r"/output_config/format/schema/.*",
    r"/response_format/json_schema/schema/.*",
    r"/text/format/schema/.*",
    r"/generationConfig/responseJsonSchema/.*",
)
MAX_TOKENS = Place(
    r"/max_tokens", r"/max_completion_tokens", r"/max_output_tokens", r"/generationConfig/maxOutputTokens"
)
STOP = Place(r"/stop_sequences", r"/stop", None, r"/generationConfig/stopSequences")

RESPONSE_CALL = Place(
    r"/content/\d+",
    r"/choices/0/message/tool_calls/\d+",
    r"/output/\d+",
    r"/candidates/0/content/parts/\d+(/functionCall)?",
)
RESPONSE_CALL_ID = Place(
    r"/content/\d+/id",
    r"/choices/0/message/tool_calls/\d+/id",
    r"/output/\d+/call_id",
    r"/candidates/0/content/parts/\d+/functionCall(/id)?",
)
RESPONSE_ARGUMENTS = Place(
    r"/content/\d+/input",
    r"/choices/0/message/tool_calls/\d+/function/arguments",
    r"/output/\d+/arguments",
    r"/candidates/0/content/parts/\d+/functionCall/args",
)
RESPONSE_TEXT = Place(
    r"/content/\d+(/text)?",
    r"/choices/0/message/content",
    r"/output/\d+/content/\d+(/text)?",
    r"/candidates/0/content/parts/\d+(/text)?",
)
