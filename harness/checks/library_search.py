"""Search for the clients in an installed library, of which the user named only a module."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import re
import sys
import sysconfig
import time
from types import ModuleType
from typing import cast

from harness.bridge.clients.constructors import constructor_names
from harness.bridge.clients.shape_recognition import rank_of_candidate, recognise_shape

_SEARCH_SECONDS = 5.0
"""Limit of processor time for the search."""

_MAX_FOUND = 5
_MAX_SUGGESTED = 3


def is_installed(name: str) -> bool:
    """Return whether an imported module belongs to an installed library, not to the code of the user."""
    module = sys.modules.get(name)
    files = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", [])]
    folders = [f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("purelib", "platlib")]
    return any(file.startswith(folder) for file in files for folder in folders)


def find_clients(name: str) -> dict[str, bool]:
    """Return the clients of a library as `module:name`, and whether each takes tools.

    Only code that takes a base URL, a key or a model is called, and the search ends after a few seconds. If a module
    has no client, its submodules with the usual names of clients are searched too.
    """
    end, clients, modules = time.process_time() + _SEARCH_SECONDS, dict[str, bool](), [name]
    for each in modules:
        clients |= _clients_in(each, end)
        if len(clients) >= _MAX_FOUND or time.process_time() > end:
            break
        if not any(known.startswith(f"{each}:") for known in clients):
            modules += _client_modules(each)
    return clients


def question_for_library(name: str, clients: dict[str, bool]) -> str:
    """Return the question for a library without a single client. It suggests a few, first those that take tools."""
    best = sorted(clients, key=lambda each: not clients[each])[:_MAX_SUGGESTED]
    shown = _NAMED.format(some=" or ".join(f"harness try {each}" for each in best)) if best else "W"
    return _WITHOUT_WRAPPER.format(name=name, shown=shown)


_WITHOUT_WRAPPER = (
    "{name} is a library without a wrapper ('harness list wrappers'). {shown}rite a function that calls it, in "
    "try_it.py: 'def chat(messages, tools=None): ...' returns its answer. Then: harness try try_it:chat. See 'harness "
    "help clients' for an example, and 'harness help loops' if the library runs the tools itself."
)

_NAMED = "Which part of it do you use? {some}. For another part, w"


def _clients_in(name: str, end: float) -> dict[str, bool]:
    """Return the clients of one module, and whether each takes tools. Stop when the process has used `end` seconds of
    processor time.
    """
    try:
        module = importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a module may need packages that are not installed
        return {}
    ranks = dict[str, int]()
    for each in dir(module):
        value = _member(module, each) if not each.startswith("_") else None
        rank = rank_of_candidate(value, name.partition(".")[0])
        if rank is not None:
            own_name = str(getattr(value, "__name__", each))
            ranks[own_name if _member(module, own_name) is value else each] = rank
    wanted = (each for each in ranks if not each.startswith("Async") or each.removeprefix("Async") not in ranks)
    clients: dict[str, bool] = {}
    for each in sorted(wanted, key=lambda each: (ranks[each], not _KNOWN_PROVIDER.search(each), len(each))):
        if time.process_time() > end or len(clients) == _MAX_FOUND:
            break
        with contextlib.suppress(Exception):  # it may be anything
            value = _member(module, each)
            shape = recognise_shape(value, f"{name}:{each}")
            is_chat = not shape.is_guess and shape.whole.has_usual_prompt
            is_chat = is_chat and {"base_url", "model"} <= constructor_names(value).keys()
            if shape.may_call_a_model or shape.takes("tools") or is_chat:
                clients[f"{name}:{each}"] = shape.takes("tools")
    return clients


_KNOWN_PROVIDER = re.compile("OpenAI|Anthropic|Claude|Gemini|Google", re.IGNORECASE)


def _member(module: ModuleType, name: str) -> object:
    try:
        return getattr(module, name, None)
    except Exception:  # noqa: BLE001 - a library may load its members late, and then fail in any way
        return None


def _client_modules(name: str) -> list[str]:
    """Return the modules of a package that define its client, according to their names."""
    paths = cast("list[str]", getattr(sys.modules.get(name), "__path__", []))
    names = [each.name for each in pkgutil.iter_modules(paths)]
    return [f"{name}.{each}" for each in names if re.fullmatch("clients?|llms?|chat|models|openai", each)]
