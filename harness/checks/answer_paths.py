"""Generation of code that reads values from an object returned by a library."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
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
