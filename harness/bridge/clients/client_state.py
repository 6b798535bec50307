"""Attributes in which a client keeps its history, its system prompt and the settings of its requests."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from copy import copy
from dataclasses import is_dataclass
from operator import attrgetter
from typing import Any, cast

from harness.bridge.clients.annotations import members_of
from harness.bridge.clients.client_makers import ClientMaker
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.names import KNOWN_PARAMETERS, SYNONYMS, THINKING_PARAMETERS, first_known
from harness.bridge.clients.signature_reading import is_system_prompt
from harness.bridge.clients.sources import runs_tools, source_around, source_of


def system_attribute(client: object, source: str) -> str | None:
    """Return the attribute of a client that holds its system prompt, according to its name or to the source of the
    client's module. Return `None` if there is none that can be set.
    """
    own = cast("dict[str, object]", getattr(client, "__dict__", {}))
    used = [name for found in _SYSTEM_USES.findall(source) for name in found if name]
    inner = {name for name in used if name.partition(".")[0] in own and "." in name}
    name = first_known((*SYNONYMS["system"], *used), frozenset(own.keys() | inner))
    if name is None:
        return None
    try:
        value = attrgetter(name)(client)
        if not isinstance(value, str | None):
            return None
        set_attribute(client, name, value)
    except (AttributeError, TypeError, ValueError):  # its class may be frozen
        return None
    return name


def set_attribute(client: object, name: str, value: object) -> None:
    """Set an attribute of a client, or one of an object in it, such as `config.system`. Other clients may share that
    object, so the client gets a copy of it.
    """
    holder, _, inner = name.rpartition(".")
    if not holder:
        setattr(client, inner, value)
        return
    changed = copy(attrgetter(holder)(client))
    setattr(changed, inner, value)
    set_attribute(client, holder, changed)


_SYSTEM_USES = re.compile(
    r"[\"']?\b(?:system|systemInstruction|system_instruction|instructions)[\"']?\]?\s*[:=](?!=)[^\n=]{0,40}?\bself\.(\w+(?:\.\w+\b(?!\())*)"
    r"|[\"'](?:system|developer)[\"'],\s*[\"'](?:content|text)[\"']:\s*self\.(\w+(?:\.\w+\b(?!\())*)"
)
"""Code that sends an attribute as the system prompt, with the name of the attribute, or with names joined by dots."""


def system_parameter(maker: ClientMaker) -> str | None:
    """Return the parameter of a constructor whose value the package of the class sends as its system prompt. Return
    `None` unless there is exactly one.
    """
    code = source_around(maker.definition.__module__)
    parameters = inspect.signature(maker.make).parameters.items()
    free = {name: each for name, each in parameters if name not in KNOWN_PARAMETERS}
    texts = [name for name, each in free.items() if each.default is None or isinstance(each.default, str)]
    found = [name for name in texts if is_system_prompt(code, name)]
    return found[0] if len(found) == 1 else None


def keeps_history(client: object) -> bool:
    """Return whether a client has a list for the messages of its conversation."""
    own = variables_of(client)
    return any(isinstance(each, list) for name, each in own.items() if name.lstrip("_") in SYNONYMS["messages"])


def variables_of(client: object) -> dict[str, object]:
    """Return the attributes of a client. Of a function, also return the variables that it captures from another one.

    Functions among these variables are searched in the same way.
    """
    found, pending = {**cast("dict[str, object]", getattr(client, "__dict__", {}))}, [client]
    while pending:
        function = pending.pop()
        is_function = inspect.isfunction(function)
        kept = {**inspect.getclosurevars(function).nonlocals} if is_function else dict[str, object]()
        pending += [each for name, each in kept.items() if name not in found]
        found = {**kept, **found}
    return found


def setting_attributes(client: object) -> dict[str, object]:
    """Return the attributes of a client that hold settings of its requests, with their values.

    Each is a parameter of the constructor, or empty until the caller sets it. Another method reads it.
    """
    kind, own = type(client), cast("dict[str, object]", getattr(client, "__dict__", {}))
    constructor = method_of((), kind)
    source = source_of(kind).replace(source_of(kind.__init__), "")  # which also assigns and checks them
    found: dict[str, object] = {}
    kept = {name for name in SYNONYMS["tools"] if name in constructor.names and _keeps(kind, name)}
    free = {name for name, each in own.items() if each in (None, [], ()) and name not in constructor.names - kept}
    if not runs_tools(source):
        read = {name for name in free & (_FREE_SETTINGS | kept) if re.search(rf"\bself\.{name}\b", source)}
        is_set = re.search(r"\bself\.(tools|tool_choice)\b(\.(append|extend)\(|\s*\+?=[^=])", source) is not None
        found |= {name: own[name] for name in sorted(read) if not is_set}
    for name in sorted(constructor.names & own.keys() & _SETTINGS.keys()):
        types = {*members_of(constructor.hints.get(name))} or {_SETTINGS[name]}
        types |= {dict} if name == "thinking" and bool in types else set[object]()  # a switch
        types |= {str for each in types if isinstance(each, str)}  # a choice of words
        if _SETTINGS[name] in types and re.search(rf"\bself\.{name}\b(?!\s*=[^=])", source):
            found[name] = own[name]
    return found


def _keeps(kind: type[Any], name: str) -> bool:
    """Return whether a constructor keeps the tools that it gets unchanged, as an attribute of the same name."""
    if is_dataclass(kind):
        return True
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source_of(kind.__init__))))]
    except SyntaxError:
        return False
    pairs = [(each.targets[0], each.value) for each in nodes if isinstance(each, ast.Assign)]
    pairs += [(each.target, each.value) for each in nodes if isinstance(each, ast.AnnAssign) and each.value is not None]
    kept = (each for pair in pairs for each in _assignments_in(*pair))
    return any(isinstance(to, ast.Attribute) and to.attr == name and _is_unchanged(each, name) for to, each in kept)


def _assignments_in(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the pairs of a target and a value in an assignment such as `self.model, self.tools = model, tools`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [*zip(target.elts, value.elts, strict=False)]
    return [(target, value)]


def _is_unchanged(value: ast.expr, name: str) -> bool:
    """Return whether an expression is a variable or a copy of the list in it, such as `list(tools or ())`."""
    if isinstance(value, ast.Call):
        is_copy = isinstance(value.func, ast.Name) and value.func.id in ("list", "tuple")
        return is_copy and len(value.args) == 1 and _is_unchanged(value.args[0], name)
    if isinstance(value, ast.BoolOp):
        return isinstance(value.op, ast.Or) and _is_unchanged(value.values[0], name)
    if isinstance(value, ast.List):
        return len(value.elts) == 1 and _is_unchanged(value.elts[0], name)
    if isinstance(value, ast.Starred):
        return _is_unchanged(value.value, name)
    return isinstance(value, ast.Name) and value.id == name


_FREE_SETTINGS = frozenset({"tools", "tool_choice", "temperature", "top_p", "stop"})
"""Attributes that callers set without a parameter of the constructor."""

_SETTINGS: Mapping[str, type] = {
    **dict.fromkeys((*SYNONYMS["max_tokens"], "top_k"), int),
    **dict.fromkeys((*SYNONYMS["temperature"], "top_p"), float),
    **dict.fromkeys(THINKING_PARAMETERS["budget"], int),
    **dict.fromkeys(THINKING_PARAMETERS["effort"], str),
    "thinking": dict,
}
"""Attributes for settings, with the type of each."""
