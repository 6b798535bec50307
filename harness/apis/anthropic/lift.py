"""Canonical values off requests of the Messages API."""

from __future__ import annotations

from typing_extensions import override

from harness.apis.lift import Lift, System, without
from harness.apis.view import MediaView, ResultView, TextView
from harness.contract.model import JSON, ToolResult


class AnthropicLift(Lift):
    """A text block beside the first one of the system prompt, and hosted tools, grow the lists of the request."""

    api = "anthropic"

    @override
    def system(self) -> System:
        first, *others = [text for text in self.view.system if text.place == "system"] or [None]
        if first is None:
            return System()
        blocks = [self.raw(text) for text in others if text is not None]
        return System(first.text, {"system": blocks} if blocks else {})

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        raw = self.raw(view)
        block = raw if isinstance(raw, dict) else {}
        content = block.get("content")
        parts = tuple(self.part(part) for part in view.payload)
        fields = self._kept(without(block, "type", "tool_use_id", "content", "is_error"))
        said = content if isinstance(content, str) else parts
        return ToolResult(call_id, name, said, is_error=block.get("is_error") is True, provider_metadata=fields)

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return without(raw, "name", "description", "input_schema", "type")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        return without(raw, "type", "source")
