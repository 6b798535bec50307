"""Tools as an API or a third-party class declares them: in the API's format, or as parts with names of their own."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any, cast

from harness.bridge.clients.forms import FORMS, GEMINI, OPENAI
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import first_known
from harness.bridge.clients.own_keys import Declaration
from harness.bridge.clients.sources import passed_on
from harness.bridge.clients.tool_functions import ToolSequence, make_handler
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, Tool
from harness.model.protocols import ConversationTool


def declaration_of(tool: ConversationTool, api: str) -> dict[str, Any]:
    """Return a tool in the format of an API."""
    form, own = FORMS.get(api, OPENAI), Tool(tool.name, tool.description, tool.parameters)
    made = form.arguments(ChatRequest("", SAMPLE_MESSAGES, tools=(own,)), Memory(), "", frozenset())["tools"][0]
    return made.get("functionDeclarations", [made])[0]


def declarations(tools: ToolSequence, api: str, module: str) -> list[dict[str, Any]]:
    """Return tools in the format that a class expects, according to the source of its module."""
    is_bare = _BARE_TOOLS.search(module) is not None
    if is_bare and api != GEMINI.name:
        bare = [{"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools]
        return [*map(Declaration, bare)]
    is_read = not is_bare and re.search(r"\bfor \w+ in (self\.)?_?(tools|functions)\b", module)
    made = [declaration_of(each, OPENAI.name if is_read else api) for each in tools]
    if api == GEMINI.name and not is_bare and not is_read:
        made = [{"functionDeclarations": [each]} for each in made]
    return [*map(Declaration, made)]


_BARE_TOOLS = re.compile(
    r"function_?[dD]eclarations[\"']?\s*[:=]\s*(?:list\(|\[\w+ for [\w, ()]+ in )?(?:self\.)?_?(?:tools|functions)\b"
    r"|\*\*(\w+)[^{}]*\}\s*for \1 in (?:self\.)?_?\w*(?:tool|function|spec|schema|declaration|definition)s?\b(?!_)"
    r"|[\"']type[\"']:\s*[\"']function[\"'],\s*[\"']function[\"']:\s*\w+\s*\}"
)
"""Code that adds the enclosing object of the API to each tool."""


def wraps_tools(method: Method) -> bool:
    """Return whether the client wraps each given function in a tool object of the API.

    The source of the method shows this, or that of the functions that get its tools. If the method does not read the
    tools itself, use the source of its class.
    """
    tools = method.tools_parameter
    if tools is None:
        return not method.is_open and _wraps("tools", method.class_source)  # an attribute
    given = _pattern_of(tools)
    is_read = re.search(rf"\bin {given}|[\"']?\w*[tT]ools[\"']?\]?\s*[:=]\s*(list\()?{given}(?!\s*[,)])", method.source)
    others = passed_on(method.with_imports, tools, method.source)
    return any(_wraps(*each) for each in [(tools, method.source if is_read else method.class_source), *others])


def _pattern_of(tools: str) -> str:
    """Return a pattern for the variable or attribute that holds the tools."""
    return rf"([\w.]+\.)?{tools}\b"


def _wraps(tools: str, source: str) -> bool:
    """Return whether code wraps each of the tools in the variable `tools`."""
    given = _pattern_of(tools)
    each = rf"[\"']function[\"']:\s*(dict\(|\{{\*\*)?(?P<one>\w+)[)}}\s]*\}}\s*for (?P=one) in {given}"
    converted = rf"\[[\w.]+\((?P<two>\w+)\)\s*for (?P=two) in {given}"
    wraps = rf"function_?[dD]eclarations[\"']?\s*[:=]\s*((list\()?{given}(?!\.\w+\(\))|{converted})|{each}"
    items = {found[1] for found in re.finditer(rf"\bfor (\w+) in {given}", source)}
    reads_names = any(re.search(rf"\b{item}(\[|\.get\()[\"']name[\"']", source) for item in items)
    makes_declarations = reads_names and re.search(r"function_?[dD]eclarations", source) is not None
    return re.search(wraps, source) is not None or makes_declarations


SAMPLE_MESSAGES = (Message(Role.USER, (Text("Hello"),)),)
"""Messages of a request that is made only for its tools or settings."""


def part_named(parts: Mapping[str, Any], name: str) -> Any:
    """Return the part of a tool that the name of a parameter or key means.

    Raises:
        KeyError: the name means no part.
    """
    meaning = next((key for key, names in TOOL_PARTS.items() if name in names), name)
    return parts[meaning]


BARE = "bare"
"""Form of a declaration that has only a name, a description and a schema."""


def declared_as(form: str, tool: ConversationTool) -> dict[str, Any]:
    """Return a tool as a declaration in the format of an API, or as a bare one."""
    if form == BARE:
        return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return declaration_of(tool, form)


def parts_of_tool(tool: ConversationTool, hint: str = "", form: str = OPENAI.name) -> dict[str, Any]:
    """Return the parts of a tool, by their meaning. `hint` is the annotation of the function, and `form` the format of
    its declaration.
    """
    return {
        "name": tool.name,
        "handler": make_handler(tool, hint),
        "description": tool.description,
        "parameters": tool.parameters,
        "described_parameters": {**tool.parameters, "description": tool.description},
        "properties": tool.parameters.get("properties") or {},
        "required": tool.parameters.get("required") or [],
        "declaration": Declaration(declared_as(form, tool)),
    }


TOOL_PARTS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "tool_name", "function_name", "key"),
    "handler": (
        *("handler", "function", "fn", "func", "callback", "run", "callable", "f", "implementation", "impl", "execute"),
        *("call", "invoke", "executor", "action", "target", "coroutine", "method", "fun"),
    ),
    "description": ("description", "doc", "desc", "summary", "help"),
    "parameters": (
        *("parameters", "schema", "input_schema", "json_schema", "params", "parameters_schema", "args_schema"),
        *("parameters_json_schema", "arguments_schema"),
    ),
    "properties": ("properties", "props", "parameter_properties"),
    "required": ("required", "required_parameters"),
    "declaration": ("spec", "definition", "declaration", "tool_spec", "tool_definition"),
}
"""Maps the parts of a tool with its function to the names of parameters, fields and keys for them."""


def tool_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method, or of a constructor, that take parts of a tool, by their meaning.

    A Pydantic model for the arguments counts as their schema.
    """
    found = {part: name for part, names in TOOL_PARTS.items() if (name := first_known(names, method.names))}
    models = [name for name in sorted(method.names) if takes_model(method.hints.get(name))]
    if "parameters" not in found and len(models) == 1:
        found["parameters"] = models[0]
    if "handler" in found and not _takes_functions(method.hints.get(found["handler"])):
        del found["handler"]
    return found


def takes_model(hint: object) -> bool:
    """Return whether an annotation is that of a class of Pydantic models, perhaps by a type variable."""
    bounds = [each.__bound__ for each in typing.get_args(hint) if isinstance(each, typing.TypeVar)]
    is_bound = typing.get_origin(hint) is type and any("BaseModel" in str(each) for each in bounds)
    return is_bound or re.search(r"\b[tT]ype\[[^\]]*\bBaseModel\b", str(hint)) is not None


def check_schema(tool: ConversationTool, *, takes_required: bool) -> None:
    """Raise `Unsupported` if the schema of a tool has more than the properties, and perhaps the required ones."""
    schema = tool.parameters
    properties, required = (cast("Any", schema.get(key)) or () for key in ("properties", "required"))
    if schema.keys() - {"type", "properties", "required"} or (not takes_required and {*properties} != {*required}):
        raise Unsupported(RECOGNISED_CLIENT, tool.name, "it takes only the properties of a schema")


def _takes_functions(hint: object) -> bool:
    return hint is None or hint is Any or "Callable" in str(hint) or "Function" in str(hint)
