"""Settings of a tool loop, and clients that are created with them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.clients.client_makers import ClientMaker
from harness.bridge.clients.client_state import set_attribute, system_attribute, system_parameter
from harness.bridge.clients.constructors import constructor_names, make_client
from harness.bridge.clients.forms import ANTHROPIC, FORMS, OPENAI
from harness.bridge.clients.methods import Method, method_of
from harness.bridge.clients.names import MODELS, SYNONYMS, THINKING_PARAMETERS, first_known
from harness.bridge.clients.tool_choices import choice_as_text, takes_choice_as_text
from harness.bridge.clients.tool_declarations import SAMPLE_MESSAGES
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, ThinkingSettings, Tool
from harness.model.protocols import PLAIN_LOOP, Capability, Conversation, Endpoint


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """The settings that a method for a prompt or for results takes, or a constructor: a tool choice, a temperature, and
    a format of the answer.
    """

    method: Method
    api: str

    @property
    def _names(self) -> frozenset[str]:
        """The method's parameters, and the names that its module reads from any keyword arguments."""
        read = READS_OPTION.findall(self.method.module) if self.method.is_open else list[str]()
        return frozenset(each for each in (*self.method.names, *read) if not self._takes_class(each))

    def _takes_class(self, name: str) -> bool:
        """Return whether a parameter is a class, by its annotation or by what the code does with it."""
        by_code = rf"(\bissubclass\(|\bisinstance\()(self\.)?_?{name}\b(?!, *(dict|str))|\b{name}\.model_\w+\("
        return (
            re.search(r"\btype\b|BaseModel", str(self.method.hints.get(name))) is not None
            or re.search(by_code, self.method.module) is not None
        )

    @property
    def _json_switch(self) -> str | None:
        """The parameter that requests JSON without a schema."""
        return first_known(SYNONYMS["json_mode"], self._names) or first_known(("json",), self.method.switches)

    @property
    def _takes_format(self) -> bool:
        """True if there is a parameter for OpenAI's `response_format`. A text is another setting."""
        is_text = re.search(r"\bstr\b|Literal", str(self.method.hints.get("response_format"))) is not None
        return self.api == OPENAI.name and "response_format" in self._names and not is_text

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of a loop with these settings."""
        found = {*PLAIN_LOOP, Capability.ANSWERS}
        if first_known(SYNONYMS["tool_config"], self._names):
            found |= {Capability.TOOL_CHOICE, Capability.FORCED_TOOL_CHOICE, Capability.NAMED_TOOL_CHOICE}
        if self._takes_format or (self.api != ANTHROPIC.name and self._json_switch):
            found |= {Capability.JSON_MODE}
        if self._takes_format or first_known(SYNONYMS["json_schema"], self._names):
            found |= {Capability.JSON_SCHEMA, Capability.JSON_WITH_TOOLS}
        if first_known(SYNONYMS["temperature"], self._names):
            found |= {Capability.TEMPERATURE}
        return frozenset(found)

    def arguments(self, conversation: Conversation, model: str) -> dict[str, object]:
        """Return the arguments for the settings of a conversation."""
        tools = tuple(Tool(each.name, each.description, each.parameters) for each in conversation.tools)
        request = ChatRequest(model, SAMPLE_MESSAGES, tools=tools, response_format=conversation.response_format)
        known = {
            "response_format": "response_format" if self._takes_format else None,
            "json_mode": self._json_switch,
            "json_schema": first_known(SYNONYMS["json_schema"], self._names),
        }
        made = OPENAI.arguments(request, Memory(), model, frozenset(key for key, name in known.items() if name))
        found = {name: made[key] for key, name in known.items() if key in made and name}
        parameter = first_known(SYNONYMS["temperature"], self._names)
        if conversation.temperature is not None and parameter is not None:
            found[parameter] = conversation.temperature
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


def settings_of_constructor(drive: ClassDrive) -> LoopSettings:
    """Return the settings that the constructor of a class takes, without a tool choice.

    A parameter for a schema counts only if the code names a field of a request for one. Others send the schema as that
    of a tool, or write it into the prompt.
    """
    made = drive.maker.constructor
    code = f"{drive.maker.class_source}\n{made.module}"
    omitted = {*SYNONYMS["tool_config"], "schema"}
    if not _SCHEMA_FIELD.search(code):
        omitted |= {*SYNONYMS["json_schema"]}
    return LoopSettings(replace(made, names=made.names - omitted, is_open=False), drive.api)


_SCHEMA_FIELD = re.compile(
    r"[\"']json_schema[\"']|[\"']?(response_?(json_?)?schema|response_format|output_(config|format))[\"']?\s*[\]=:]",
    re.IGNORECASE,
)
"""Code that names a field of a request for a schema of the answer."""


class ClassDrive(Protocol):
    """A tool loop made from a class (see `harness.model.protocols.Drive`)."""

    @property
    def maker(self) -> ClientMaker:
        """The maker of the clients that run the conversations."""
        ...

    @property
    def api(self) -> str:
        """The API that the clients call."""
        ...

    @property
    def sending(self) -> Method:
        """The method that sends the requests of a turn."""
        ...


def client_with_settings(
    drive: ClassDrive,
    endpoint: Endpoint,
    model: str,
    conversation: Conversation,
    own: Mapping[str, object],
) -> tuple[object, dict[str, object]]:
    """Create a client. Return it with the argument for the system prompt, if its method takes that prompt and its
    constructor does not.

    If neither takes the system prompt, it is set by another method or as an attribute.
    """
    made = drive.maker.constructor
    system = _system_argument(made, conversation)
    setters = {
        key: setter
        for key, known in _SETTING_METHODS.items()
        if not first_known(known, made.names) and (setter := _setting_method(drive.maker.made_class, known)) is not None
    }
    has_limit = conversation.max_tokens is not None and "max_tokens" not in setters
    if has_limit and conversation.thinking is None and takes_budget(drive):
        raise Unsupported(RECOGNISED_CLIENT, "max_tokens", "its reasoning has a number of tokens of its own")
    limit = {_limit_argument(drive): conversation.max_tokens} if has_limit else {}
    own = {**system, **{name: each for name, each in limit.items() if name in made.names}, **own}
    own |= thinking_argument(made, conversation.thinking)
    own |= settings_of_constructor(drive).arguments(conversation, model)
    if "model" not in constructor_names(drive.maker.make) and (name := first_known(MODELS, made.names)) is not None:
        own |= {name: model}  # the function passes it on to the class
    client = make_client(drive.maker.make, endpoint.base_url, endpoint.api_key, model, api=drive.api, **own)
    for name in limit.keys() - made.names:
        call(setattr, client, name, limit[name])
    values = {"model": model, "system": conversation.system, "max_tokens": conversation.max_tokens}
    for key, setter in setters.items():
        if values[key] is not None:
            changed = call(BoundMethod(client, (setter,)), values[key])
            client = changed if isinstance(changed, type(client)) else client
    per_call = thinking_argument(drive.sending, conversation.thinking)
    if system or not conversation.system or "system" in setters:
        return client, per_call
    if of_call := _system_argument(drive.sending, conversation):
        return client, per_call | of_call
    attribute = system_attribute(client, drive.sending.module)
    if attribute is not None:
        call(set_attribute, client, attribute, conversation.system)
        return client, per_call
    name = None if setters else system_parameter(drive.maker)
    if name is None or name in own:
        raise Unsupported(RECOGNISED_CLIENT, "system", "it has no such argument")
    own[name] = conversation.system
    client = make_client(drive.maker.make, endpoint.base_url, endpoint.api_key, model, api=drive.api, **own)
    return client, per_call


def takes_thinking(drive: ClassDrive) -> bool:
    """Return whether a class takes an amount of reasoning, by its constructor or by its method for a prompt."""
    names = drive.maker.constructor.names | drive.sending.names
    return any(first_known(known, names) for known in THINKING_PARAMETERS.values())


def takes_budget(drive: ClassDrive) -> bool:
    """Return whether a class takes a number of tokens for reasoning, or sends one of its own."""
    names = drive.maker.constructor.names | drive.sending.names
    is_sent = re.search(r"budget_?tokens|thinking_?budget", drive.sending.module, re.IGNORECASE)
    return first_known(THINKING_PARAMETERS["budget"], names) is not None or is_sent is not None


_SETTING_METHODS: Mapping[str, tuple[str, ...]] = {
    "model": MODELS,
    "system": SYNONYMS["system"],
    "max_tokens": SYNONYMS["max_tokens"],
}
"""Maps a setting to its names. A method with such a name, perhaps after `with_`, `set_` or `use_`, sets it."""


def _setting_method(kind: type | None, known: tuple[str, ...]) -> str | None:
    """Return the name of the method of a class that sets one setting, if it has one."""
    for name in (f"{prefix}{each}" for each in known for prefix in ("", "with_", "set_", "use_")):
        method = getattr(kind, name, None)
        if inspect.isfunction(method) and len(method_of((), method).required - {"self"}) == 1:
            return name
    return None


def _system_argument(method: Method, conversation: Conversation) -> dict[str, str]:
    """Return the argument for the system prompt. Without a system prompt, an argument with a default is left out. A
    required one gets any text, because the APIs refuse an empty one.
    """
    names = method.names & {*SYNONYMS["system"]}
    given = conversation.system or _ANY_SYSTEM_PROMPT
    return dict.fromkeys(names if conversation.system else names & method.required, given)


_ANY_SYSTEM_PROMPT = "You are a helpful assistant."


def _limit_argument(drive: ClassDrive) -> str:
    """Return the constructor's parameter, or the attribute, for the maximum number of tokens of an answer."""
    found = re.search(rf"\bself\.({'|'.join(SYNONYMS['max_tokens'])})\s*=", drive.maker.class_source)
    names = drive.maker.constructor.names
    name = first_known(SYNONYMS["max_tokens"], names) or (found[1] if found else None)
    if name is None:
        raise Unsupported(RECOGNISED_CLIENT, "max_tokens", "it has no such argument")
    return name
