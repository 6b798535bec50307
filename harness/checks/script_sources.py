"""Source code for scripts: expressions that read a library's object, and functions that a script needs."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, cast

from harness.bridge.openai_messages import plain
from harness.checks.reproduction import ScriptClaim

_MAX_CALLS = 4


def reader(claim: ScriptClaim, made: tuple[Any, Any] | None) -> str | None:
    """Return an expression that reads the claim's value from the library's own object, or `None` if none is found.

    `made` holds the library's object, and the completion that its wrapper reads from it.
    """
    subject, count = claim.subject, next(iter(claim.path), "")
    if made is None:
        return None
    answer, body = made[0], plain(made[1])
    choice = plain(next(iter(body.get("choices") or ()), None))
    message = plain(choice.get("message"))
    match subject:
        case "text":
            wanted, part = message.get("content"), ""
        case "reason":
            wanted, part = choice.get("finish_reason"), "reason"
        case "usage":
            key, part = {"read": ("prompt_tokens", "put"), "written": ("completion_tokens", "put")}.get(
                str(count), ("", "")
            )
            wanted = plain(body.get("usage")).get(key)
        case _:
            calls = [plain(plain(each)["function"]) for each in message.get("tool_calls") or ()]
            given = [(each["name"], each["arguments"]) for each in calls]
            return _calls_reader(answer, given, whole=subject != "calls")
    places = ((path, value) for path, name, value in _places(answer) if part in name) if wanted else ()
    return next((path for path, value in places if isinstance(value, str | int) and value == wanted), None)


def _calls_reader(answer: object, calls: list[tuple[str, Any]], *, whole: bool) -> str | None:
    """Return an expression for the list of all calls as pairs of name and arguments, or `None` if none is found.

    If `whole` is set, only calls with parsed arguments are in the list.
    """
    wanted = [(name, _parse(args)) for name, args in calls]
    for path, _, value in _places(answer) if calls else ():
        items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
        for item in items[:_MAX_CALLS]:
            inner = [*_places(item, "call", _MAX_CALLS - 1)]
            name = next((one for one, _, each in inner if each == wanted[0][0]), "")
            given = next(((one, each) for one, _, each in inner if _parse(each) == wanted[0][1]), None)
            step = re.match(r"call(?:\.(\w+)|\[('[^']*')\])", name)
            if given is None or step is None:
                continue
            args = f"json.loads({given[0]})" if isinstance(given[1], str) else given[0]
            others = f"hasattr(call, {step[1]!r})" if step[1] else f"{step[2]} in call"
            conditions = [others] if len(items) > len(calls) else []
            conditions += [f"isinstance({given[0]}, dict)"] if whole else []
            code = f"[({name}, {args}) for call in {path}{''.join(f' if {each}' for each in conditions)}]"
            with contextlib.suppress(Exception):
                found = eval(code, {"answer": answer, "json": json})  # noqa: S307 - code that was just made
                if found and found == [each for each in wanted if isinstance(each[1], dict) or not whole]:
                    return code
    return None


def _parse(arguments: Any) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    return arguments


def _places(value: object, path: str = "answer", depth: int = 6) -> Iterator[tuple[str, str, object]]:
    """Yield each value in an object, with the expression that reads it and its name. Values closest to the root come
    first.
    """
    level, seen = [(path, "", value)], set[int]()
    for _ in range(depth):
        yield from level
        inner = list[tuple[str, str, object]]()
        for at, name, each in level:
            if not isinstance(each, str | int | float | bytes | None) and id(each) not in seen:
                seen.add(id(each))
                inner += [(at + step, key or name, one) for step, key, one in _members(each)]
        level = inner[:_MAX_PLACES]


def _members(value: object) -> Iterator[tuple[str, str, object]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", str(key), each) for key, each in cast("dict[object, object]", value).items())
    elif isinstance(value, list | tuple):
        size = len(cast("list[object]", value))
        steps = (at if size < 2 or at < size - 1 else -1 for at in range(size))
        yield from ((f"[{at}]", "", each) for at, each in zip(steps, cast("list[object]", value), strict=True))
    elif hasattr(value, "__dict__") and not callable(value):
        kinds = {name: each for kind in type(value).__mro__ for name, each in vars(kind).items()}
        properties = [name for name, each in kinds.items() if isinstance(each, property)]
        for name in (each for each in [*vars(value), *properties] if not each.startswith(("_", "model_"))):
            with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):
                yield f".{name}", name, getattr(value, name)


_MAX_PLACES = 3000

_OWN = "harness"


def module_source(module: ModuleType, roots: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the imports and the definitions of a module that its functions `roots` need.

    Imports from harness are left out. The script must define those that are used outside of annotations.
    """
    source = inspect.getsource(module)
    tree = ast.parse(source)
    made = {name: node for node in tree.body for name in _defined_names(node)}
    needed, left = set[str](), [*roots, *(name for node in tree.body if _is_setup(node) for name in _names_in(node))]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += _names_in(made[name]) if name in made else []
    imports, definitions, own = list[str](), list[str](), list[str]()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = getattr(node, "module", None) or node.names[0].name
            names = [each for each in node.names if (each.asname or each.name).partition(".")[0] in needed]
            if origin.partition(".")[0] == _OWN:
                own += [each.name for each in names]
            elif names:
                node.names = names
                imports.append(ast.unparse(node))
        elif _is_setup(node):
            (definitions or imports).append(ast.unparse(node))
        elif needed & {*_defined_names(node)}:
            first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
            definitions.append("\n".join(source.splitlines()[first - 1 : node.end_lineno]))
    foreign = re.compile(rf": ({'|'.join(own)})(?=[,)])|\s*# noqa.*") if own else re.compile(r"\s*# noqa.*")
    return imports, [foreign.sub("", each) for each in definitions]


def imported_modules(module: ModuleType) -> list[str]:
    """Return the names of the packages that a module imports."""
    nodes = [*ast.walk(ast.parse(inspect.getsource(module)))]
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return [name.partition(".")[0] for name in names if name.partition(".")[0] != _OWN]


def _is_setup(node: ast.stmt) -> bool:
    """Return whether a statement of a module only sets up a library."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)


def _defined_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [each.id for each in node.targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) if node.value is not None:
            return [name]
        case _:
            return []


def _names_in(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
