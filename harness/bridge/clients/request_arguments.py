"""Arguments of a client's method for a request, in the form that the client's shape describes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from harness.adapters.openai_chat.servers import with_accepted_ids
from harness.adapters.openai_responses.requests import wire_items
from harness.bridge.call_log import ContinuedList
from harness.bridge.clients.annotations import item_class, members_of, own_classes, subclasses_of
from harness.bridge.clients.answer_fields import own_calls
from harness.bridge.clients.complete_answers import READS_CALLS
from harness.bridge.clients.format_records import make_format
from harness.bridge.clients.forms import ANTHROPIC, GEMINI, OPENAI, OPENAI_APIS, RESPONSES
from harness.bridge.clients.inherited_tools import model_of_tool
from harness.bridge.clients.message_classes import as_annotated, has_role_for_results, listed_roles
from harness.bridge.clients.message_dictionaries import (
    compared_role_of_results,
    is_result_message,
    mentions_tool_role,
    reads_answered_calls,
    text_pairs,
    with_answered_calls,
    with_joined_results,
    with_own_fields,
    with_own_roles,
    without_answered_calls,
)
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import (
    ERROR_FLAG,
    FUNCTION_LISTS,
    SETTINGS,
    SYNONYMS,
    SYSTEM_MESSAGE,
    THINKING_PARAMETERS,
    TOOL_MESSAGES,
)
from harness.bridge.clients.own_keys import Declaration
from harness.bridge.clients.prompt_records import make_record
from harness.bridge.clients.result_helpers import with_callers_results
from harness.bridge.clients.shapes import ClientShape
from harness.bridge.clients.tool_choices import choice_as_text, takes_choice_as_text
from harness.bridge.clients.tool_declarations import wraps_tools
from harness.bridge.clients.tool_functions import make_empty_function
from harness.bridge.clients.values import jsonable
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import JSON, ChatRequest, Tool


@dataclass(frozen=True, slots=True)
class RequestArguments:
    """Builds the arguments of a client's methods from requests. `server` is the name of the compatible server that the
    client calls, or `None` if it calls the provider.
    """

    shape: ClientShape
    memory: Memory
    model: str
    api: str
    server: str | None

    def build(self, method: Method, request: ChatRequest) -> dict[str, Any]:
        """Return the arguments of a method for a request."""
        form, arguments = self.shape.form, dict[str, Any]()
        for name, made in self._of_form(method, request).items():
            parameter = method.parameter(name, form)
            if parameter is not None:
                arguments[parameter] = self._argument(method, name, parameter, request, made)
            elif name not in SETTINGS and self.shape.setting_attribute(name) is None:
                raise Unsupported(RECOGNISED_CLIENT, name, "its method has no such argument")
        tools = method.parameter("tools", form)
        if tools in arguments and not self.shape.describes_functions:
            arguments[tools] = [*map(Declaration, arguments[tools])]
        arguments |= {name: [] for name in method.required & {*SYNONYMS["tools"]} - arguments.keys()}
        arguments |= dict.fromkeys(method.required & {*SYNONYMS["system"]} - arguments.keys(), "")
        given = method.parameter(form.messages, form)
        if given in arguments:
            arguments[given] = self._adjusted_messages(arguments[given], request, method, given)
        typed = {given} if self.shape.describes_functions else {given, tools}
        instances = {
            name: as_annotated(value, method.hints.get(name)) for name, value in arguments.items() if name in typed
        }
        if form is OPENAI and given in instances:
            _check_instances(instances[given], method.hints.get(given))
            instances[given] = without_answered_calls(instances[given])
        return {**arguments, **instances}

    def _adjusted_messages(self, messages: list[Any], request: ChatRequest, method: Method, name: str) -> list[Any]:
        """Return the messages for the parameter `name`, with those that the client made itself, and with what its code
        reads.
        """
        form = self.shape.form
        if form is RESPONSES and own_classes(method.hints.get(name)):
            return self._kept_items(messages, request)
        if form is ANTHROPIC and self.shape.lists_blocks:
            messages = self._kept_messages(messages, request)
        if form is ANTHROPIC and not self.shape.is_sdk:
            return with_callers_results(messages, request, method.module_name)
        if form is OPENAI and not self.shape.is_sdk:
            messages = self._own_messages(messages, request, method)
        is_sent = form is OPENAI and self.shape.passes_ids_on
        return with_accepted_ids(messages, self.server) if is_sent else messages

    def attributes(self, method: Method, request: ChatRequest) -> dict[str, Any]:
        """Return the values of the client's attributes for the settings of a request."""
        made = self._of_form(method, request)
        found = {name: each for name in made if (each := self.shape.setting_attribute(name)) is not None}
        given = {each: self._argument(method, name, each, request, made[name]) for name, each in found.items()}
        if (tools := found.get("tools")) is not None:
            given[tools] = as_annotated([*map(Declaration, given[tools])], self.shape.attribute_hints.get(tools))
        return {**self.shape.default_settings, **given}

    def _of_form(self, method: Method, request: ChatRequest) -> dict[str, Any]:
        """Return the arguments of the client's message format, by their names in it."""
        has_flag = self.api not in OPENAI_APIS and self.shape.reads_error_flag
        names = method.names | self.shape.default_settings.keys()
        names |= {"output_config"} if method.parameter("output_config", self.shape.form) else frozenset[str]()
        names |= {ERROR_FLAG} if has_flag or self.shape.marks_errors else frozenset[str]()
        if "tool_use_id" in method.source and re.search(r"==\s*[\"']tool[\"']", method.source):
            names |= {TOOL_MESSAGES}
        names |= {SYSTEM_MESSAGE} if self.shape.takes_system_message else frozenset[str]()
        names |= {"messages"} if method.text_pairs is not None else frozenset[str]()
        names |= {"json_schema"} if method.format_parameter is not None else frozenset[str]()
        return self.shape.form.arguments(request, self.memory, self.model, names)

    def _argument(self, method: Method, name: str, parameter: str, request: ChatRequest, made: Any) -> Any:
        """Return an argument of the client's message format in the form that this parameter takes."""
        if name == "tools" and self.shape.describes_functions:
            return [*map(make_empty_function, request.tools)]
        if name == "tools":
            tools = self._tools(method, parameter, request, made)
            takes_bare = parameter in FUNCTION_LISTS or wraps_tools(method) or own_classes(method.hints.get(parameter))
            if not takes_bare:
                return tools
            lists = (each.get("functionDeclarations", [each.get("function", each)]) for each in tools)
            return [*chain.from_iterable(lists)]
        if name == "json_schema" and (parameter == method.format_class or method.format_kind(parameter)):
            kind = method.format_kind(parameter)
            return model_of_tool(Tool("Answer", "", made)) if kind is None else make_format(kind, made)
        if name == "messages" and parameter == method.text_pairs:
            return text_pairs(made, parameter, method.source)
        if parameter == method.prompt_list:
            return [made]
        if parameter == method.prompt and (kind := method.prompt_record) is not None:
            return make_record(kind, str(made))
        if name == "thinking":
            is_switch = parameter in method.switches or isinstance(self.shape.default_settings.get(parameter), bool)
            return _thinking_value(parameter, made, is_switch=is_switch)
        is_choice = name in ("tool_choice", "tool_config") and not self.shape.is_sdk
        if is_choice and takes_choice_as_text(method, parameter):
            return choice_as_text(request.tool_choice, method, parameter, self.api)
        return made

    def _kept_messages(self, messages: list[Any], request: ChatRequest) -> list[Any]:
        """Return messages of Anthropic's format, with those that the client made itself in place of the same ones."""
        if len(messages) != len(request.messages):
            return messages
        kept = [self.memory.own(place, each) for place, each in enumerate(request.messages)]
        return [each if own is None else own for own, each in zip(kept, messages, strict=True)]

    def _kept_items(self, items: list[Any], request: ChatRequest) -> list[Any]:
        """Return items of OpenAI Responses, with those that the client made itself in place of the same ones."""
        ends = [len(wire_items(request.messages[:count])) for count in range(len(request.messages) + 1)]
        start = len(items) - ends[-1]
        found = items[:start]
        for place, each in enumerate(request.messages):
            own = self.memory.own(place, each)
            found += own if isinstance(own, list) else items[start + ends[place] : start + ends[place + 1]]
        return found

    def _own_messages(self, messages: list[Any], request: ChatRequest, method: Method) -> list[Any]:
        """Return messages with the client's own roles, and with fields that it can read under its own names. The
        client's own messages are returned unchanged. For a client with classes, a result also has its call.
        """
        source, form = method.module, self.shape.form
        if classes := own_classes(method.hints.get(method.parameter(form.messages, form) or "")):
            package = "" if any(map(listed_roles, classes)) else method.with_imports
            kinds = [each for kind in classes for each in (kind, *subclasses_of(kind))]
            has_tool_role = self.api in OPENAI_APIS or len(kinds) > 1 or any(map(has_role_for_results, kinds))
            word = None if any(map(listed_roles, classes)) else compared_role_of_results(method.with_imports)
            has_tool_role = has_tool_role or word is not None or mentions_tool_role(method.with_imports)
            answered = with_answered_calls(messages, request, self._own_calls(request))
            made = with_own_roles(answered, source, package, has_tool_role=has_tool_role)
            return [{**each, "role": word} if word and is_result_message(each) else each for each in made]
        if self.api == ANTHROPIC.name and source and not READS_CALLS.search(source):
            foreign = (each for each in messages if "tool_calls" in each and not self.memory.has_kept(each))
            if next(foreign, None) is not None:
                raise Unsupported(RECOGNISED_CLIENT, "a history with calls", "its messages have no place for them")
        code = f"{method.class_source}\n{method.called_source}"
        if not method.path and compared_role_of_results(method.module) is not None:
            code = method.module  # the function may call others by variables
        messages = with_joined_results(messages, request, code)
        if reads_answered_calls(source):
            messages = with_answered_calls(messages, request, self._own_calls(request), is_read=True)
        return [each if self.memory.has_kept(each) else with_own_fields(each, {}, (), source) for each in messages]

    def _own_calls(self, request: ChatRequest) -> dict[str, object]:
        """Return the calls in the client's own messages, by their ids."""
        kept = [self.memory.own(place, each) for place, each in enumerate(request.messages)]
        return {str(call_id): own for message in kept if message is not None for own, call_id, *_ in own_calls(message)}

    def _tools(self, method: Method, parameter: str | None, request: ChatRequest, made: Any) -> Any:
        """Return the tools in the format that the client expects. `made` has the format of the messages."""
        form = self.shape.tool_form
        is_bare = parameter in FUNCTION_LISTS or wraps_tools(method)
        if is_bare and self.api == GEMINI.name and "parameters" not in method.module:
            form = GEMINI
        return made if form is None else form.arguments(request, self.memory, self.model, method.names)["tools"]


def _thinking_value(parameter: str, made: Mapping[str, Any], *, is_switch: bool) -> object:
    """Return an amount of reasoning in the form that a parameter or an attribute takes: a switch, a number of tokens
    or, as in `made`, an object of Anthropic's API.
    """
    if parameter in THINKING_PARAMETERS["budget"]:
        if "budget_tokens" not in made:
            raise Unsupported(RECOGNISED_CLIENT, "this amount of reasoning", f"{parameter} is a number of tokens")
        return made["budget_tokens"]
    if not is_switch:
        return made
    if made.get("type") != "adaptive":
        raise Unsupported(RECOGNISED_CLIENT, "an amount of reasoning", f"{parameter} only switches it on or off")
    return True


def _check_instances(messages: Sequence[object], hint: object) -> None:
    """Check that each message is an instance of the client's own classes, if its annotation has only such classes."""
    classes = own_classes(hint)
    if classes and not any(isinstance(each, classes) for each in messages):
        return
    if classes and dict not in members_of(item_class(hint)) and not all(isinstance(each, classes) for each in messages):
        reason = "its classes have no place for a message that it did not write"
        raise Unsupported(RECOGNISED_CLIENT, "a history", reason)


@dataclass(slots=True)
class CallersMessages:
    """The list of messages that an application keeps for its conversation, and gives to a client for each request.

    A client that removes messages from the list, changes them or puts others before them also changes its next request.
    """

    _request: ChatRequest | None = None
    _items: list[Any] = field(default_factory=list[Any])
    _kept: list[Any] = field(default_factory=list[Any])
    _sent: list[JSON] = field(default_factory=list[JSON])

    def for_request(self, items: list[Any], request: ChatRequest) -> list[Any]:
        """Return the list for a request whose messages are `items`. If the request continues the conversation of the
        previous one, its earlier messages are what the client left of them.
        """
        count = len(self._kept)
        is_same = self._is_continued_by(request) and [*map(jsonable, items[:count])] == self._sent
        sent = [*map(jsonable, items)]
        if is_same and [*map(jsonable, self._items)] != self._sent:
            items = ContinuedList([*self._rest(), *items[count:]], items[count:])
        self._request, self._items, self._kept, self._sent = request, items, [*items], sent
        return items

    def _is_continued_by(self, request: ChatRequest) -> bool:
        earlier = self._request
        if earlier is None or earlier.system != request.system or len(earlier.messages) >= len(request.messages):
            return False
        return request.messages[: len(earlier.messages)] == earlier.messages

    def _rest(self) -> list[Any]:
        """Return what the client left of its messages. Those that it added behind them, such as its answer, are left
        out, because the application adds them itself.
        """
        places = [place for place, each in enumerate(self._items) if any(each is one for one in self._kept)]
        return self._items[: places[-1] + 1 if places else len(self._kept)]
