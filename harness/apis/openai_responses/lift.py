"""Canonical values off requests of the Responses API."""

from __future__ import annotations

from typing_extensions import override

from harness.apis.lift import Lift, System, without
from harness.apis.view import MediaView, ResultView, TextView
from harness.contract.model import JSON, ToolResult


class OpenAIResponsesLift(Lift):
    """The system prompt is `instructions`, or else the first system item; other such items are items of their own.

    There is no error flag: a result's text is all that a failed tool has said. A function without `strict` keeps it
    unsaid, since the default is to be strict where it can (openai-responses-strict-default).
    """

    api = "openai-responses"

    @override
    def system(self) -> System:
        texts = [text for text in self.view.system if not text.before_turn]
        said = next((text.text for text in texts if text.place == "instructions"), None)
        inside = [text for text in texts if text.place != "instructions"]
        items = self.entries(inside)
        if said is None and inside and len(items) == len(inside):  # each item has one text
            return System(inside[0].text, opening=items[1:])
        return System(said, opening=items)

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        raw = self.raw(view)
        item = raw if isinstance(raw, dict) else {}
        output = item.get("output")
        parts = tuple(self.part(part) for part in view.payload)
        fields = self._kept(without(item, "type", "call_id", "output"))
        return ToolResult(call_id, name, output if isinstance(output, str) else parts, provider_metadata=fields)

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return {"strict": None, **without(raw, "type", "name", "description", "parameters")}

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        match raw:
            case {"type": "input_image", "image_url": str()}:
                return without(raw, "type", "image_url")
            case {"type": "input_file", "file_data": str()} | {"type": "input_file", "file_url": str()}:
                return without(raw, "type", "file_data", "file_url")
            case _:
                return None
