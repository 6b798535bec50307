"""Settings of a tool loop: the tool choice, the format of the answer and the amount of reasoning."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from harness.bridge.clients.forms import ANTHROPIC, FORMS, OPENAI
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import SYNONYMS, THINKING_PARAMETERS, first_known
from harness.bridge.clients.tool_choices import choice_as_text, takes_choice_as_text
from harness.bridge.clients.tool_declarations import SAMPLE_MESSAGES
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, ThinkingSettings, Tool
from harness.model.protocols import PLAIN_LOOP, Capability, Conversation


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings that a method for a prompt or for results takes: a tool choice, and a format of the answer."""

    method: Method
    api: str

    @property
    def _names(self) -> frozenset[str]:
        """The method's parameters, and the names that its module reads from any keyword arguments."""
        read = READS_OPTION.findall(self.method.module) if self.method.is_open else list[str]()
        is_class = {name for name, each in self.method.hints.items() if re.search(r"\btype\b|BaseModel", str(each))}
        return (self.method.names | {*read}) - is_class

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of a loop with these settings."""
        found = {*PLAIN_LOOP, Capability.ANSWERS}
        if first_known(SYNONYMS["tool_config"], self._names):
            found |= {Capability.TOOL_CHOICE, Capability.FORCED_TOOL_CHOICE, Capability.NAMED_TOOL_CHOICE}
        takes_object = self.api == OPENAI.name and "response_format" in self._names
        if takes_object or (self.api != ANTHROPIC.name and first_known(SYNONYMS["json_mode"], self._names)):
            found |= {Capability.JSON_MODE}
        if takes_object or first_known(SYNONYMS["json_schema"], self._names):
            found |= {Capability.JSON_SCHEMA, Capability.JSON_WITH_TOOLS}
        return frozenset(found)

    def arguments(self, conversation: Conversation, model: str) -> dict[str, object]:
        """Return the arguments for the settings of a conversation."""
        tools = tuple(Tool(each.name, each.description, each.parameters) for each in conversation.tools)
        request = ChatRequest(model, SAMPLE_MESSAGES, tools=tools, response_format=conversation.response_format)
        made = OPENAI.arguments(request, Memory(), model, self._names)
        known = {
            "response_format": ("response_format",),
            **{key: SYNONYMS[key] for key in ("json_mode", "json_schema")},
        }
        found = {
            name: made[key] for key, names in known.items() if key in made and (name := first_known(names, self._names))
        }
        name = first_known(SYNONYMS["tool_config"], self._names)
        if conversation.tool_choice is None or name is None:
            return found
        compares = self.method.hints.get(name) is None and _COMPARES_CHOICE.search(self.method.module)
        if takes_choice_as_text(self.method, name) or compares:
            return {**found, name: choice_as_text(conversation.tool_choice, self.method, name, self.api)}
        request, form = replace(request, tool_choice=conversation.tool_choice), FORMS.get(self.api, OPENAI)
        made = form.arguments(request, Memory(), model, frozenset())
        return {**found, name: made.get("tool_choice", made.get("tool_config"))}


_COMPARES_CHOICE = re.compile(r"\b\w*(choice|mode)\s+(not\s+)?in\b|[\"']name[\"']:\s*\w*(choice|mode)\b")
"""Code that compares the tool choice with words, or sends it as the name of a tool."""

READS_OPTION = re.compile(r"\b(?:options|opts|kwargs|kw|params|extra|overrides)(?:\.(?:get|pop)\(|\[)[\"'](\w+)[\"']")
"""Code that reads a keyword argument of any name."""


def thinking_argument(method: Method, thinking: ThinkingSettings | None) -> dict[str, object]:
    """Return the argument for an amount of reasoning, as a number of tokens or as an effort; `{}` if there is none.

    Raises:
        Unsupported: the method takes only the other kind of amount.
    """
    names = {kind: first_known(known, method.names) for kind, known in THINKING_PARAMETERS.items()}
    if thinking is None or not any(names.values()):
        return {}
    values = {"budget": thinking.budget_tokens, "effort": thinking.effort}
    found: dict[str, object] = {
        name: values[kind] for kind, name in names.items() if name is not None and values[kind] is not None
    }
    if not found:
        raise Unsupported(
            RECOGNISED_CLIENT, "this amount of reasoning", f"it takes {next(filter(None, names.values()))}"
        )
    return found
