"""Canonical values off requests of Chat Completions."""

from __future__ import annotations

from typing_extensions import override

from harness.model import JSON, ToolResult
from harness.redrive.lift import Lift, System, without
from harness.wire.jsonvalue import resolve
from harness.wire.view import MediaView, ResultView, TextView


class OpenAIChatLift(Lift):
    """System messages beside the first one are messages of their own. There is no error flag: a result's text is all
    that a failed tool has said."""

    api = "openai-chat"

    @override
    def system(self) -> System:
        texts = [text for text in self.view.system if not text.before_turn]
        places = list(dict.fromkeys("/".join(text.pointer.split("/")[:3]) for text in texts))
        messages = [resolve(self._body, place) for place in places]
        match messages:
            case [{"content": str(text)}, *others]:
                return System(text or None, opening=tuple(others))
            case _:
                return System(opening=tuple(messages))

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        raw = self.raw(view)
        message = raw if isinstance(raw, dict) else {}
        content = message.get("content")
        parts = tuple(self.part(part) for part in view.payload)
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
        match raw:
            case {"type": "image_url", "image_url": dict(image)}:
                return {"image_url": rest} if (rest := without(image, "url")) else {}
            case {"type": "input_audio"}:
                return {}
            case {"type": "file", "file": dict(file)}:
                return {"file": without(file, "file_data")}
            case _:
                return None
