"""Canonical values off requests of generateContent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from typing_extensions import override

from harness.apis.lift import Lift, System, without
from harness.apis.view import JsonView, MediaView, ResultView, TextView
from harness.contract.model import JSON, Text, ToolResult

_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


class GeminiLift(Lift):
    """A result that is an object of `output` alone is its value, one of `error` alone an error
    (gemini-function-response-form)."""

    api = "gemini"

    @override
    def system(self) -> System:
        first, *others = list(self.view.system) or [None]
        if first is None:
            return System()
        parts: list[JSON] = [self.raw(text) for text in others if text is not None]
        return System(first.text, {"systemInstruction": {"parts": parts}} if parts else {})

    @override
    def hosted_metadata(self) -> Mapping[str, JSON]:
        return {"tools": [{tool.name: self.raw(tool)} for tool in self.hosted]} if self.hosted else {}

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        part = _camelised(self.raw(view))
        response = _camelised(part.get("functionResponse"))
        payload = response.get("response")
        media = tuple(self.part(each) for each in view.payload if not isinstance(each, JsonView))
        fields = without(part, "functionResponse")
        inner = without(response, "id", "name", "response", "parts")
        content, is_error = _content(payload)
        if media and payload in (None, {}):
            content = media
        elif media and isinstance(content, str):
            content = (Text(content), *media)
        elif media:
            inner["parts"] = response["parts"]
        if inner:
            fields["functionResponse"] = inner
        return ToolResult(call_id, name, content, is_error=is_error, provider_metadata=self._kept(fields))

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return without(_camelised(raw), "name", "description", "parameters", "parametersJsonSchema")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        part = _camelised(raw)
        if isinstance(view, TextView):
            return without(part, "text")
        key = "inlineData" if "inlineData" in part else "fileData"
        rest = without(_camelised(part.get(key)), "mimeType", "data", "fileUri")
        return {**without(part, key), **({key: rest} if rest else {})}


def _content(payload: JSON) -> tuple[JSON, bool]:
    match payload:
        case {"error": value} if len(payload) == 1:
            return value, True
        case {"output": value} if len(payload) == 1 and not isinstance(value, dict):
            return value, False
        case _:
            return payload, False


def _camelised(value: JSON) -> dict[str, JSON]:
    """The object with its own keys in camelCase: the API reads them whatever their spelling (gemini-casing)."""
    fields = value if isinstance(value, dict) else {}
    return {_UNDERSCORED.sub(lambda match: match[1].upper(), key): each for key, each in fields.items()}
