"""Plug-ins of each kind: built-in modules of a folder, and entry points of other packages.

Adapters and reports are imported only when they are selected, so a broken one affects only the runs that use it. All
rules and APIs are used in every run.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from harness.model.errors import HarnessError, PluginError, UnknownName
from harness.model.protocols import Adapter, Capability, Embeddings, FinalCall, Loop, Requirement, Route
from harness.platform import exceptions
from harness.platform.exceptions import shorten

T = TypeVar("T")

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class PluginGroup(Generic[T]):
    """A kind of plug-in.

    Every public module of the package `folder` exports a plug-in as `attribute`. The entry-point group has the same
    name as the package; its entry points refer to plug-ins directly. `type` is the class of the plug-ins, as
    `module:class`. A module `openai_chat` has the name `openai-chat`. If `packages` is set, only packages are plug-ins,
    not modules.
    """

    kind: str
    folder: str
    attribute: str
    type: str
    packages: bool = False

    def names(self) -> list[str]:
        """Return the names of all plug-ins of this kind, sorted."""
        return sorted({*self.modules(), *(point.name for point in entry_points_of(self.folder))})

    def load(self, name: str) -> T:
        """Return the plug-in with this name.

        Raises:
            UnknownName: There is no such plug-in.
            PluginError: The name is ambiguous, or the plug-in cannot be imported or has the wrong type.
        """
        built_in = self.modules().get(name)
        points = list(entry_points_of(self.folder).select(name=name))
        owners = ([built_in] if built_in else []) + [point.value for point in points]
        if len(owners) > 1:
            raise PluginError(self.kind, name, f"it exists more than once ({', '.join(owners)}); uninstall one.")
        if built_in is not None:
            module, _, attribute = built_in.partition(":")
            return self.check(name, getattr(importlib.import_module(module), attribute or self.attribute, None))
        if points:
            return self.check(name, load_entry_point(self.kind, points[0]))
        raise UnknownName(self.kind, name, self.names())

    def check(self, name: str, value: object) -> T:
        """Return the value if it is an instance of the class that `type` names. Raises `PluginError` if it is not."""
        module, _, class_name = self.type.partition(":")
        if not isinstance(value, getattr(importlib.import_module(module), class_name)):
            shown = shorten(_ADDRESS.sub("", repr(value)), 100)
            is_own_code = self.kind == "adapter" and (callable(value) or type(value).__module__ != "builtins")
            hint = f" Is it a client? harness try {name}" if is_own_code and ":" in name else ""
            raise PluginError(self.kind, name, f"expected {class_name}, got {shown}.{hint}")
        return cast("T", value)

    def modules(self) -> dict[str, str]:
        """Return the built-in plug-ins: name → module, or name → `module:attribute`. If the folder defines `BUILT_IN`,
        that mapping is returned.
        """
        listed = getattr(importlib.import_module(self.folder), "BUILT_IN", None)
        return built_in_modules(self.folder, packages=self.packages) if listed is None else listed


ADAPTERS: PluginGroup[Adapter] = PluginGroup(
    "adapter", "harness.adapters", "ADAPTER", "harness.model.protocols:Adapter"
)


def adapter(spec: str) -> Adapter:
    """Return an adapter by its name or by `package.module:attribute`. Modules in the current folder are found, too.

    `harness.stdio.adapter_specs` also knows tool loops and commands.

    Raises:
        UnknownName: There is no adapter with this name, or it claims an unknown capability.
        PluginError: It cannot be imported, or is not an adapter.
    """
    if ":" not in spec:
        return check_adapter(spec, ADAPTERS.load(spec))
    value = import_attribute(spec, "adapter")
    return check_adapter(spec, value.adapter() if isinstance(value, Loop) else ADAPTERS.check(spec, value))


def check_adapter(spec: str, adapter: Adapter) -> Adapter:
    """Check the types of an adapter's fields and return the adapter.

    Raises:
        UnknownName: It declares an unknown capability.
        PluginError: A field has the wrong type.
    """

    def expect(value: object, fits: bool, what: str, wanted: str) -> None:
        if not fits:
            raise PluginError("adapter", spec, f"its {what} must be {wanted}, not {shorten(repr(value), 100)}.")

    name, capabilities, made, needed = adapter.name, adapter.capabilities, adapter.embeddings, adapter.requires
    route = cast("object", adapter.route)
    expect(name, isinstance(name, str), "name", "text")  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(name, bool(name.strip()) and name.isprintable(), "name", "one line of printable text")
    expect(adapter.api, isinstance(adapter.api, str), "api", "text")  # pyright: ignore[reportUnnecessaryIsInstance]
    are_set = isinstance(capabilities, set | frozenset) and all(isinstance(each, str) for each in capabilities)  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(capabilities, are_set, "capabilities", "a set of capabilities")
    expect(adapter.connect, callable(adapter.connect), "connect", "a function")
    expect(made, made is None or _are_embeddings(made), "embeddings", "of type Embeddings (harness.model.protocols)")
    declared = Capability.EMBEDDINGS in capabilities
    expect(
        made, made is not None or not declared, "embeddings", "of type Embeddings, because the capability is declared"
    )
    expect(
        needed, needed is None or _is_requirement(needed), "requires", "of type Requirement (harness.model.protocols)"
    )
    expect(route, isinstance(route, Route), "route", "of type Route (harness.model.protocols)")
    expect(adapter.drive, adapter.drive is None or callable(adapter.drive), "drive", "a function")
    ending = cast("object", adapter.final_call)
    expect(ending, isinstance(ending, FinalCall | None), "final_call", "of type FinalCall (harness.model.protocols)")
    for unknown in sorted(capabilities - set(Capability)):
        raise UnknownName("capability", unknown, [each.value for each in Capability], f"the adapter {spec!r}")
    return adapter


def _are_embeddings(value: object) -> bool:
    if not isinstance(value, Embeddings):
        return False
    model, dimensions = cast("object", value.model), cast("object", value.dimensions)
    return isinstance(model, str) and type(dimensions) is int and dimensions > 0 and callable(value.connect)


def _is_requirement(value: object) -> bool:
    if not isinstance(value, Requirement):
        return False
    name, extra = cast("object", value.name), cast("object", value.extra)
    return isinstance(name, str) and isinstance(extra, str | None)


def import_attribute(spec: str, kind: str) -> object:
    """Import `package.module:attribute`. Modules in the current folder are found, too. Errors name the `kind` of
    plug-in.

    Raises:
        PluginError: The module cannot be imported, or does not have the attribute.
    """
    module, _, attribute = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script starts without it
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
    except ModuleNotFoundError as error:
        raise PluginError(kind, spec, _not_found(module, error, kind)) from error
    except AttributeError as error:
        hint = _did_you_mean(str(error.name), dir(error.obj)) if error.name in attribute.split(".") else ""
        reason = f"{exceptions.exception_text(error)}{exceptions.source_line(error)}.{hint}"
        raise PluginError(kind, spec, reason) from error
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # a foreign module may fail in any way
        raise PluginError(kind, spec, f"importing {module} failed: {exceptions.exception_summary(error)}.") from error
    return value


def _not_found(module: str, error: ModuleNotFoundError, kind: str) -> str:
    if f"{module}.".startswith(f"{error.name}."):
        hint = _did_you_mean(module, [each.name for each in pkgutil.iter_modules([str(Path.cwd())])])
        way_out = hint or " Run from the folder that contains it, or add that folder to PYTHONPATH."
        return f"no module {error.name!r}.{way_out}"
    return (
        f"it imports {error.name!r}, which is not installed{exceptions.source_line(error)}. "
        f"Install it where harness is installed (the {kind} runs there; with uvx and pipx run: --with NAME), or "
        "correct the import."
    )


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question that names the known name which is most like a name, or an empty string."""
    close = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], n=1)
    return f" Did you mean {close[0]}?" if close else ""


def entry_points_of(group: str) -> EntryPoints:
    """Return the entry points of a group in all installed packages."""
    return _entry_points(group, tuple(sys.path))


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - where Python looks for packages
    """Return the entry points of a group. Cached, because this opens a file of every installed package."""
    return entry_points(group=group)


def built_in_modules(folder: str, *, packages: bool = False) -> dict[str, str]:
    """Return the public modules of a package, as plug-in name → module. With `packages`, only its subpackages."""
    path = importlib.import_module(folder).__path__
    infos = [info for info in pkgutil.iter_modules(path) if not info.name.startswith("_")]
    names = [info.name for info in infos if info.ispkg or not packages]
    return {name.replace("_", "-"): f"{folder}.{name}" for name in sorted(names)}


def load_entry_point(kind: str, point: EntryPoint) -> object:
    """Import the object that an entry point refers to. Raises `PluginError`, which names the `kind` of plug-in."""
    try:
        return point.load()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in may fail in any way at all
        reason = f"importing {point.value} failed: {exceptions.exception_summary(error)}."
        raise PluginError(kind, point.name, reason) from error
