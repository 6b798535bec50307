"""Canonical values off requests of Chat Completions."""

from __future__ import annotations

from typing_extensions import override

from harness.apis.lift import Lift, System, without
from harness.apis.view import MediaView, ResultView, TextView
from harness.contract.model import JSON, Opaque, ToolResult

_HELD = {"image_url": ("url",), "input_audio": ("data", "format"), "file": ("file_data",)}
"""Kind of a content part → the fields of what it holds that have a canonical place."""


class OpenAIChatLift(Lift):
    """System messages beside the first one are messages of their own. There is no error flag: a result's text is all
    that a failed tool has said."""

    api = "openai-chat"

    @override
    def system(self) -> System:
        messages = self.entries(text for text in self.view.system if not text.before_turn)
        match messages:
            case ({"content": str(text)}, *others):
                return System(text or None, opening=tuple(others))
            case _:
                return System(opening=messages)

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        raw = self.raw(view)
        message = raw if isinstance(raw, dict) else {}
        content = message.get("content")
        # results hold text only (openai-chat-result-text-only): a medium among them is the client's own, and stays
        parts = tuple(
            Opaque(self.api, self.raw(part)) if isinstance(part, MediaView) else self.part(part)
            for part in view.payload
        )
        fields = self._kept(without(message, "role", "tool_call_id", "content"))
        return ToolResult(call_id, name, content if isinstance(content, str) else parts, provider_metadata=fields)

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        function = raw.get("function")
        return without(function if isinstance(function, dict) else raw, "name", "description", "parameters")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        kind = raw.get("type")
        held = raw.get(kind) if isinstance(kind, str) and kind in _HELD else None
        if not isinstance(kind, str) or not isinstance(held, dict):
            return None
        is_pdf = view.media_type == "application/pdf"  # only these are files everywhere (openai-chat-file-inline-pdf)
        rest = held if kind == "file" and not is_pdf else without(held, *_HELD[kind])
        return {**without(raw, "type", kind), **({kind: rest} if rest else {})}
