"""The words of an API for what a remedy names, each with its article or place, ready for a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The words of one API; the defaults fit any API.

    `results` is where the results of a turn go, `failed` how a result says that its tool failed, `state` what the
    provider wants back untouched, `end` what ends a stream that is whole.
    """

    system: str = "the field of the API that is made for it"
    call: str = "a call"
    call_id: str = "the id of the call"
    arguments: str = "the arguments of the call"
    result: str = "a result"
    result_id: str = "the call's id in the result"
    results: str = "the turn right after the calls"
    failed: str = "the words of the error"
    tools: str = "the declarations of tools"
    parameters: str = "the schema of the tool's parameters"
    choice: str = "the field for the tool choice"
    json: str = "the field for the form of the answer"
    state: str = "the opaque state of the answer"
    stop: str = "the reason why the model stopped"
    usage: str = "the token counts"
    stream: str = "the API's way of asking for a stream"
    end: str = "the event that ends the stream"

    def fill(self, remedy: str) -> str:
        """The remedy with this API's words in the place of `{system}` and the like."""
        return remedy.format_map(asdict(self)) if "{" in remedy else remedy


PLAIN = Terms()
"""General words, for an API that has none of its own."""
