"""Methods of third-party classes that take a prompt, resume a conversation or accept the results of tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence

from harness.bridge.clients.annotations import hints_of, members_of, own_classes_in
from harness.bridge.clients.answer_fields import ARGUMENT_FIELDS, NAME_FIELDS
from harness.bridge.clients.methods import Method, public_methods
from harness.bridge.clients.names import (
    CALL_PARAMETERS,
    EXECUTORS,
    KNOWN_PARAMETERS,
    METHODS,
    SYNONYMS,
    TOOL_PARAMETERS,
    call_id_field,
    first_known,
)
from harness.bridge.clients.result_code import ResultUses, uses_of_results
from harness.bridge.clients.sent_tools import names_sent_as_tools
from harness.bridge.clients.tool_declarations import TOOL_PARTS, tool_parameters
from harness.bridge.clients.tool_registration import is_event_method
from harness.bridge.clients.user_answers import callback_arguments


def prompt_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that require only a prompt and perhaps tools.

    A method whose name means a tool loop comes first. The others are sorted by how common their names are.
    """
    found = [each for each in methods if takes_only_a_prompt(each)]
    places = {name: place for place, name in enumerate(METHODS)}

    def rank(method: Method) -> tuple[bool, bool, int]:
        name = method.path[0]
        return not method.has_usual_prompt, not _LOOP_NAMES.search(name), places.get(name, len(METHODS))

    return sorted(found, key=rank)


_LOOP_NAMES = re.compile(
    r"(^|_)(tool|function|agent|run|chat)s?_?loop$|_with_(tools|functions)$|_until_(done|complete)$"
)
"""Names of methods that run the tools until there are no calls. Another method may only send the next request."""


def looping_method(value: object, step: Method) -> str | None:
    """Return the method of a class that takes a prompt and calls the method `step` in a loop, if there is one."""
    if not inspect.isclass(value) or len(step.path) != 1:
        return None
    calls_step = re.compile(rf"^\s+(?:for|while|async for) .*(?:\n.*)*?\bself\.{step.path[0]}\(", re.MULTILINE)
    found = (each for each in prompt_methods(public_methods(value)) if calls_step.search(each.source))
    return next((each.path[0] for each in found if each.path != step.path), None)


def adding_methods(methods: Sequence[Method]) -> list[Method]:
    """Return the methods that add a prompt to the conversation without sending a request."""
    named = [each for each in methods if _ADDING_NAMES.fullmatch(each.path[0])]
    prompts = [(each, each.prompt) for each in named]
    found = [each for each, prompt in prompts if prompt is not None and each.required <= {"self", prompt}]
    return [each for each in found if not each.sends_requests]


_ADDING_NAMES = re.compile(
    "(add|append|push)_(user|human)(_message|_text|_turn)?|(add|append|push)_prompt|user(_message)?"
)


def resuming_method(methods: Sequence[Method]) -> Method | None:
    """Return the method without required parameters that sends the conversation. If none has a usual name, it is the
    only one that sends a request.
    """
    free = {each.path[0]: each for each in methods if each.required <= {"self"} and not each.variadic}
    sending = [name for name, each in free.items() if each.sends_requests and not _OTHER_REQUESTS.search(name)]
    name = first_known(_RESUMING_METHODS, frozenset(free)) or (sending[0] if len(sending) == 1 else None)
    return None if name is None else free[name]


_OTHER_REQUESTS = re.compile("list|models|count|tokens|usage|summar|compact|title|health|ping|reset|retry|close|embed")
"""Names of methods that send other requests than the conversation, or send it again."""


def takes_only_a_prompt(method: Method) -> bool:
    """Return whether a method requires a prompt and nothing else except tools."""
    prompt = method.prompt
    is_other = RESULT_METHOD.search(method.path[0]) or _SETTER_NAMES.match(method.path[0]) or declared_parts(method)
    is_other = is_other or (method.path[0] == "handle" and not method.sends_requests)
    is_other = is_other or method.prompt_list is not None or method.prompt_record is not None
    is_for_results = prompt is not None and results_parameter(method) == prompt
    is_other = is_other or (is_for_results and not takes_text_or_results(method, str(prompt)))
    return prompt is not None and requires_only(method, prompt) and not is_other


def requires_only(method: Method, name: str, given: Iterable[str] = ()) -> bool:
    """Return whether a method requires nothing but a parameter, tools, and what any caller can give. `given` are other
    parameters for tools.
    """
    tools = {each for each in method.required if each in TOOL_PARAMETERS or EXECUTORS.fullmatch(each)}
    return method.required <= {"self", name, *tools, *given, *method.example_names, *callback_arguments(method)}


def parameter_for_tools(method: Method, source: str) -> str | None:
    """Return the parameter of a method or constructor for tools: by its name, or if the class in `source` sends it as
    the tools of a request.
    """
    name = first_known(SYNONYMS["tools"], method.names)
    if name is not None:
        return name
    unknown = method.names - KNOWN_PARAMETERS - {"self", *SYNONYMS["prompt"], *SYNONYMS["messages"]}
    found = sorted(names_sent_as_tools(source) & unknown)
    return found[0] if len(found) == 1 else None


def takes_messages(methods: Sequence[Method]) -> bool:
    """Return whether a method with a common name takes the whole conversation."""
    return any(first_known(SYNONYMS["messages"], each.names) for each in methods if each.path[0] in METHODS)


_SETTER_NAMES = re.compile(
    f"set_|add_|load|append|register|remember|count|estimate|(with_|use_)?({'|'.join(SYNONYMS['system'])})$"
)


def declared_parts(method: Method) -> Mapping[str, str]:
    """Return the parameters of a method that declares a tool, by the parts of the tool. Return none for other methods.

    It takes the name and the schema of the tool, and possibly its function. Or it takes the whole declaration.
    """
    named, others = tool_parameters(method), method.required - {"self"}
    if {"name", "parameters"} <= named.keys() and others <= {*named.values()}:
        return named
    is_whole = len(others) == 1 and others <= {"tool", *TOOL_PARTS["declaration"]}
    return {"declaration": next(iter(others))} if is_whole and _DECLARES_TOOL.fullmatch(method.path[0]) else {}


_DECLARES_TOOL = re.compile("(add|register|declare|define|use)_?[tT]ool")


RESULT_METHOD = re.compile(
    "(tool|function|call)_?(result|output|response)s?$|(answer|resolve|complete|finish)_(tool_|function_)?calls?$"
)

_SUBMITTING_NAMES = re.compile(
    "submit|answer|repl(y|ies)|send|give|provide|resume|continue|respond|feed|post|push|supply|deliver|results?$|return"
    "|tool|complete|resolve|finish|proceed|step|next|ask|run|chat|(add|append|push|record|set)_(results|outputs|responses)$"
)
"""Names of methods that accept results, if the name of one of their parameters means results."""

_RESULTS_NAMES = re.compile(
    "((tool|function|call)_?)?(results|outputs|outcomes|responses|returns|answers|values|observations)"
)

_RESUMING_METHODS = (
    *("resume", "continue_", "proceed", "go_on", "advance", "step", "next", "next_turn", "run", "complete"),
    *("generate", "send", "respond", "answer", "reply", "ask", "chat", "invoke"),
)

_CALL_PARAMETER_NAMES = {"call", "tool_call", "function_call", "call_id", "tool_call_id", "tool_use_id"}
"""Names of parameters that can only mean a call or its id."""


def result_methods(methods: Sequence[Method], source: str) -> list[Method]:
    """Return the methods that accept the results of all calls, or one result with its call.

    A method that the class itself calls may be a step of its own loop. Such a method is returned only if its name means
    that it accepts results. Static methods are left out, because they only make a message that the caller adds to the
    history.
    """
    own = [each for each in methods if "self" in each.names and not is_event_method(each)]
    found = [each for each in own if result_parameters(each) or results_parameter(each) is not None]
    return [each for each in found if RESULT_METHOD.search(each.path[0]) or f"self.{each.path[0]}(" not in source]


def result_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method that accepts one result, by their meaning. Return `{}` for other methods."""
    named = {key: name for key, known in CALL_PARAMETERS.items() if (name := first_known(known, method.names))}
    own = call_id_field(sorted(method.names)) if _SUBMITTING_NAMES.match(method.path[0]) else None
    if own is not None:
        named.setdefault("id", own)
    is_named = (
        own or {named.get("call"), named.get("id")} & _CALL_PARAMETER_NAMES or RESULT_METHOD.search(method.path[0])
    )
    is_one = is_named and "content" in named and named.keys() & {"id", "call"} and not method.path[0].startswith("on_")
    return named if is_one and method.required <= {"self", *named.values()} else {}


def results_parameter(method: Method) -> str | None:
    """Return the parameter for the results of all calls, or `None`. Its name, annotation or use shows it."""
    required = method.required - {"self", *SYNONYMS["tools"], *method.example_names}
    required = required or frozenset({method.variadic} - {""})
    names = method.names | required
    named = [each for each in sorted(names) if _RESULTS_NAMES.fullmatch(each) and required <= {each}]
    if named and _SUBMITTING_NAMES.match(method.path[0]):
        return named[0]
    named = [each for each in sorted(method.names - required) if _TOOL_RESULTS_NAMES.fullmatch(each)]
    if len(named) == 1 and _takes_results_later(method):
        return named[0]
    only = next(iter(required)) if len(required) == 1 else None
    if only is None:
        return None
    is_typed = any(map(is_result_class, own_classes_in(method.hints.get(only))))
    is_sent = read_results(method, only).is_sent
    is_sent = is_sent and (only not in SYNONYMS["prompt"] or takes_text_or_results(method, only))
    return only if is_typed or is_sent or RESULT_METHOD.search(method.path[0]) else None


def _takes_results_later(method: Method) -> bool:
    """Return whether a method for a prompt, which need not be given, belongs to a class that keeps the conversation."""
    prompt, code = method.prompt, method.called_source
    is_optional = prompt not in method.required or re.search(rf"\b(if|and|not) {prompt}\b|\b{prompt} or\b", code)
    return bool(prompt and is_optional and method.required <= {"self", prompt} and _KEEPS_STATE.search(code))


_TOOL_RESULTS_NAMES = re.compile("(tool|function|call)_?(results|outputs|responses)")

_KEEPS_STATE = re.compile(r"\bself\.\w+(\s*\+?=[^=]|\.(append|extend|insert)\()")
"""Code that changes an attribute of its object."""


def takes_text_or_results(method: Method, parameter: str) -> bool:
    """Return whether a parameter takes either the text of a user or the results of calls, by its annotation or code.
    A list of messages may have results, too.
    """
    hint, uses = method.hints.get(parameter), read_results(method, parameter)
    kinds = [each for each in own_classes_in(hint) if is_result_class(each)]
    if "role" in {*uses.keys, *uses.attributes} or any("role" in hints_of(each) for each in kinds):
        return False
    is_text = uses.is_tested or {str} < {*members_of(hint)}
    return is_text and (bool(kinds) or uses.is_sent)


def read_results(method: Method, parameter: str) -> ResultUses:
    """Return how the code of a method uses a parameter for the results of tools."""
    return uses_of_results(method.source, method.module, parameter)


def read_content(method: Method, parameter: str) -> ResultUses:
    """Return the uses of a parameter as the content of one result, in the code of a method."""
    return uses_of_results(method.source, method.module, parameter, is_content=True)


def is_result_class(kind: type) -> bool:
    """Return whether a class has fields for a call and for its result."""
    names = hints_of(kind).keys()
    has_call = any({*CALL_PARAMETERS[each]} & names for each in ("call", "id")) or _holds_call(kind)
    return has_call and bool({*CALL_PARAMETERS["content"]} & names) and not issubclass(kind, Mapping)


def _holds_call(kind: type) -> bool:
    """Return whether a class for results has a field whose own class has the fields of a call."""
    hints = hints_of(kind)
    calls = [each for hint in hints.values() for each in members_of(hint) if inspect.isclass(each)]
    return "role" not in hints and any(_is_call_class(each) for each in calls)


def _is_call_class(kind: type) -> bool:
    names = hints_of(kind).keys()
    return bool({*NAME_FIELDS} & names and {*ARGUMENT_FIELDS} & names)
