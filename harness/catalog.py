"""Plug-ins: APIs, adapters, rules and reports. They come from built-in folders and from entry points of other packages.

Adapters and reports are imported only when they are selected, so a broken one affects only the runs that use it. All
rules and APIs are used in every run.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from harness.model import distribution
from harness.model.errors import HarnessError, PluginError, UnknownName
from harness.model.loops import Loop
from harness.model.protocols import Adapter, Capability, Embeddings, Requirement, Route
from harness.platform import exceptions
from harness.platform.exceptions import shorten

if TYPE_CHECKING:
    from harness.apis.api import Api
    from harness.apis.targets import ShippedTarget
    from harness.model.loops import Drive
    from harness.results import Report
    from harness.rules.rule import Rule

T = TypeVar("T")

COMMAND_PREFIX = "$ "
"""The beginning of an adapter name that is a command, as a shell shows one."""

DRIVE, AGENT = "drive", "agent"
"""The beginnings of adapter names of tool loops: `drive@openai-chat my_module:drive`, `agent@openai-chat ./agent`. The
API may be omitted if the loop states it."""

_OWNS_LOOP = re.compile(rf"({DRIVE}|{AGENT})(?:@(\S+))? (.*)", re.DOTALL)

_DRIVE = "drive(endpoint, model, conversation)"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Catalog(Generic[T]):
    """A kind of plug-in.

    Every public module of the package `folder` exports `attribute`. So does every entry point of the group with the
    folder's name. `type` is the class of the plug-ins, as `module:class`. A module `openai_chat` has the name
    `openai-chat`. If `packages` is set, only packages are plug-ins, not modules.
    """

    kind: str
    folder: str
    attribute: str
    type: str
    packages: bool = False

    def names(self) -> list[str]:
        """Return the names of all plug-ins of this kind, sorted."""
        return sorted({*self.modules(), *(point.name for point in _entry_points(self.folder))})

    def load(self, name: str) -> T:
        """Return the plug-in with this name.

        Raises:
            UnknownName: There is no such plug-in.
            PluginError: The name is ambiguous, or the plug-in cannot be imported or has the wrong type.
        """
        built_in = self.modules().get(name)
        points = list(_entry_points(self.folder).select(name=name))
        owners = ([built_in] if built_in else []) + [point.value for point in points]
        if len(owners) > 1:
            raise PluginError(self.kind, name, f"it exists more than once ({', '.join(owners)}); uninstall one.")
        if built_in is not None:
            module, _, attribute = built_in.partition(":")
            return self.checked(name, getattr(importlib.import_module(module), attribute or self.attribute, None))
        if points:
            return self.checked(name, _load_entry_point(self.kind, points[0]))
        raise UnknownName(self.kind, name, self.names())

    def checked(self, name: str, value: object) -> T:
        """Return the value if it is of the class of this kind. Raises `PluginError`."""
        module, _, class_name = self.type.partition(":")
        if not isinstance(value, getattr(importlib.import_module(module), class_name)):
            shown = shorten(_ADDRESS.sub("", repr(value)), 100)
            raise PluginError(self.kind, name, f"it is {shown}, which is no {class_name}.")
        return cast("T", value)

    def modules(self) -> dict[str, str]:
        """Return the built-in plug-ins: name → module, or name → `module:attribute`. If the folder defines `BUILT_IN`,
        that is the list.
        """
        listed = getattr(importlib.import_module(self.folder), "BUILT_IN", None)
        return _modules(self.folder, packages=self.packages) if listed is None else listed


ADAPTERS: Catalog[Adapter] = Catalog("adapter", "harness.adapters", "ADAPTER", "harness.model.protocols:Adapter")
APIS: Catalog[Api] = Catalog("API", "harness.apis", "API", "harness.apis.api:Api", packages=True)
REPORTS: Catalog[Report] = Catalog("report", "harness.reports", "REPORT", "harness.results:Report")


@cache
def api(name: str) -> Api:
    """Return the API with this name.

    Raises:
        UnknownName: There is no such API.
        PluginError: It cannot be imported, has the wrong type, or calls itself by another name.
    """
    found = APIS.load(name)
    if found.name != name:
        raise PluginError("API", name, f"it calls itself {found.name!r}.")
    return found


@cache
def apis() -> tuple[Api, ...]:
    """Return all APIs, in the order of a report's columns.

    Raises:
        PluginError: An API cannot be loaded, or two APIs have a limit or a target with the same name.
    """
    ours = APIS.modules()
    found = sorted(map(api, APIS.names()), key=lambda each: (each.name not in ours, each.column, each.name))
    foreign = any(each.name not in ours for each in found)  # ids of the built-in ones differ; reading them takes time
    limits = [_limits(each) if foreign else frozenset[str]() for each in found]
    for kind, names in (("limit", limits), ("target", [_targets(each) for each in found])):
        for at, each in enumerate(found):
            for name in names[at]:
                if any(name in others for others in names[:at]):
                    raise PluginError("API", each.name, f"its {kind} {name!r} exists already; rename it.")
    return tuple(found)


def _limits(api: Api) -> frozenset[str]:
    return frozenset(limit.id for limit in api.table)


def _targets(api: Api) -> frozenset[str]:
    return frozenset(target.name for target in api.targets)


def targets() -> tuple[ShippedTarget, ...]:
    """Return the shipped targets of all APIs, including third-party ones."""
    return tuple(target for api in apis() for target in api.targets)


def shipped_targets() -> tuple[ShippedTarget, ...]:
    """Return the default targets, which are those of built-in APIs. Targets of third-party APIs are excluded, so that
    installing a package does not change a run.
    """
    ours = APIS.modules()
    return tuple(each for each in targets() if each.api in ours)


def target(name: str) -> ShippedTarget:
    """Return the shipped target with this name. Raises `UnknownName`."""
    for each in targets():
        if each.name == name:
            return each
    raise UnknownName("target", name, [each.name for each in targets()])


def adapter_specs(  # noqa: PLR0913 - a parameter for each way to name one
    names: Iterable[str] = (),
    commands: Iterable[str] = (),
    conversations: Iterable[str] = (),
    agents: Iterable[str] = (),
    *,
    api: str | None = None,
    targets: Iterable[str] = (),
) -> list[str]:
    """Return specifications of adapters, commands and tool loops in the form that `adapter` accepts.

    A loop may name its API, as in `module:drive@API`. For other loops, `api` is used or, if it is not given, the API of
    the targets.

    Raises:
        UnknownName: there is no such target.
    """
    loops = [*((DRIVE, each) for each in conversations), *((AGENT, each) for each in agents)]
    if loops and api is None:
        spoken = {target(name).api for name in targets}
        api = spoken.pop() if len(spoken) == 1 else None
    owned = (_loop_spec(kind, what, api) for kind, what in loops)
    return [*names, *(f"{COMMAND_PREFIX}{command}" for command in commands), *owned]


def _loop_spec(kind: str, what: str, api: str | None) -> str:
    name, at, own = what.rpartition("@") if kind == DRIVE else (what, "", "")
    name, api = (name, own) if at else (what, api)
    return f"{kind}@{api} {name}" if api else f"{kind} {name}"


def option_for(adapter: str) -> tuple[str, str]:
    """Return the command-line option and value that select an adapter. For a tool loop the API is omitted, because the
    target determines it.
    """
    if adapter.startswith(COMMAND_PREFIX):
        return "--adapter-command", adapter.removeprefix(COMMAND_PREFIX)
    kind, _, what = adapter.partition(" ")
    option = {DRIVE: "--conversation", AGENT: "--agent-command"}.get(kind.partition("@")[0])
    return (option, what) if option and what else ("--adapter", adapter)


def is_foreign(spec: str) -> bool:
    """Return whether loading this adapter would run code that is not built in."""
    return (
        spec.startswith(COMMAND_PREFIX)
        or _OWNS_LOOP.fullmatch(spec) is not None
        or ":" in spec
        or (spec not in ADAPTERS.modules() and len(_entry_points(ADAPTERS.folder).select(name=spec)) == 1)
    )


def adapter(spec: str) -> Adapter:
    """Return an adapter by its name, by `package.module:attribute`, also from the current folder, or a tool loop
    (`DRIVE`, `AGENT`). `harness.stdio` loads commands in any language.

    Raises:
        UnknownName: There is no adapter with this name, or it claims an unknown capability.
        PluginError: It cannot be imported, or is no adapter.
    """
    owns_loop = _OWNS_LOOP.fullmatch(spec)
    if owns_loop is not None:
        found = _loop(*owns_loop.groups())
    elif ":" in spec:
        value = _import_attribute(spec, "adapter")
        found = value.adapter() if isinstance(value, Loop) else ADAPTERS.checked(spec, value)
    else:
        found = ADAPTERS.load(spec)
    return check_adapter(spec, found)


def check_adapter(spec: str, adapter: Adapter) -> Adapter:
    """Check the types of an adapter's fields and return the adapter.

    Raises:
        UnknownName: It declares an unknown capability.
        PluginError: A field has the wrong type.
    """

    def expect(value: object, fits: bool, what: str, wanted: str) -> None:
        if not fits:
            raise PluginError("adapter", spec, f"its {what} is {shorten(repr(value), 100)}, which is no {wanted}.")

    name, capabilities, made, needed = adapter.name, adapter.capabilities, adapter.embeddings, adapter.requires
    route = cast("object", adapter.route)
    expect(name, isinstance(name, str), "name", "text")  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(name, bool(name.strip()) and name.isprintable(), "name", "name: one line of text that can be shown")
    expect(adapter.api, isinstance(adapter.api, str), "api", "text")  # pyright: ignore[reportUnnecessaryIsInstance]
    are_set = isinstance(capabilities, set | frozenset) and all(isinstance(each, str) for each in capabilities)  # pyright: ignore[reportUnnecessaryIsInstance]
    expect(capabilities, are_set, "capabilities", "set of capabilities")
    expect(adapter.connect, callable(adapter.connect), "connect", "function")
    expect(made, made is None or _are_embeddings(made), "embeddings", "Embeddings (harness.model.protocols)")
    declared = Capability.EMBEDDINGS in capabilities
    expect(made, made is not None or not declared, "embeddings", "Embeddings, and they are declared")
    expect(needed, needed is None or _is_requirement(needed), "requires", "Requirement (harness.model.protocols)")
    expect(route, isinstance(route, Route), "route", "Route (harness.model.protocols)")
    expect(adapter.drive, adapter.drive is None or callable(adapter.drive), "drive", "function")
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


def _loop(kind: str, api_name: str | None, what: str) -> Adapter:
    """Return the adapter of a tool loop, which is given as a `Loop`, a function or a program's command line."""
    if kind == AGENT:
        wire = _driven_api(AGENT, api_name, what)
        made: Loop = importlib.import_module("harness.stdio.agent_program").agent(
            what, wire.name, keys=wire.key_variables[:1], base_urls=wire.server_endpoints.variables
        )
        return made.adapter()
    if ":" not in what:
        raise PluginError("conversation", what, "it has to be package.module:attribute.")
    value = _import_attribute(what, "conversation")
    if isinstance(value, Loop):
        return value.adapter()
    if not callable(value):
        shown = shorten(_ADDRESS.sub("", repr(value)), 100)
        raise PluginError("conversation", what, f"it is {shown}, which is no function {_DRIVE}.")
    module, _, attribute = what.partition(":")
    name = module.rpartition(".")[2] if attribute == "drive" else attribute
    return Loop(name, _driven_api(DRIVE, api_name, what).name, cast("Drive", value)).adapter()


def _driven_api(kind: str, name: str | None, what: str) -> Api:
    known = [each.name for each in apis() if each.provider_url.startswith("http")]
    if name is None:
        said = "agent" if kind == AGENT else "conversation"
        example = f" In settings: '{what}@{known[0]}'." if kind == DRIVE else ""
        reason = f"which API does it speak? Say so by --api NAME: {', '.join(known)}; or by --target.{example}"
        raise PluginError(said, what, reason)
    if name not in known:
        raise UnknownName("API", name, known)
    return api(name)


def _import_attribute(spec: str, kind: str) -> object:
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
        raise PluginError(kind, spec, f"{exceptions.exception_text(error)}{exceptions.source_line(error)}.") from error
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # a foreign module may fail in any way
        raise PluginError(kind, spec, f"importing {module} failed: {exceptions.exception_summary(error)}.") from error
    return value


def _not_found(module: str, error: ModuleNotFoundError, kind: str) -> str:
    if f"{module}.".startswith(f"{error.name}."):
        return f"no module {error.name!r}. Run from the folder that holds it, or add that folder to PYTHONPATH."
    return (
        f"it imports {error.name!r}, which is not installed{exceptions.source_line(error)}. "
        f"Install it where harness is installed (the {kind} is played there), or correct the import."
    )


def rules() -> list[Rule]:
    """Return all rules: the `RULES` of the modules in `harness.rules`, and the rules of entry points.

    Raises:
        PluginError: A rule module of another package cannot be used, or two rules have the same id.
    """
    rule_type: type[Rule] = importlib.import_module("harness.rules.rule").Rule
    found: list[Rule] = []
    for module in _modules("harness.rules").values():
        found.extend(getattr(importlib.import_module(module), "RULES", ()))
    for point in sorted(_entry_points("harness.rules")):
        value = _load_entry_point("rule module", point)
        for rule in value if isinstance(value, list | tuple) else (value,):  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(rule, rule_type):
                raise PluginError("rule module", point.name, f"it holds {rule!r}, which is no Rule.")
            if any(rule.id == other.id for other in found):
                raise PluginError("rule module", point.name, f"its rule {rule.id!r} exists already; rename it.")
            found.append(rule)
    return found


def _entry_points(group: str) -> EntryPoints:
    return _installed(group, tuple(sys.path))


@cache
def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - where Python looks for packages
    """Return the entry points of a group. Cached, because this opens a file of every installed package."""
    return entry_points(group=group)


def _modules(folder: str, *, packages: bool = False) -> dict[str, str]:
    path = importlib.import_module(folder).__path__
    infos = [info for info in pkgutil.iter_modules(path) if not info.name.startswith("_")]
    names = [info.name for info in infos if info.ispkg or not packages]
    return {name.replace("_", "-"): f"{folder}.{name}" for name in sorted(names)}


def _load_entry_point(kind: str, point: EntryPoint) -> object:
    try:
        return point.load()
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in may fail in any way at all
        reason = f"importing {point.value} failed: {exceptions.exception_summary(error)}."
        raise PluginError(kind, point.name, reason) from error


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that can affect results."""
    found = {package: _version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


def sdk_version(adapter: Adapter) -> dict[str, str]:
    """Return the version of an adapter's SDK; empty if the adapter needs no SDK or it is not installed."""
    needed = adapter.requires
    number = _version(needed.name) if needed is not None and needed.extra is not None else None
    return {} if needed is None or number is None else {needed.name: number}


@cache
def _packages() -> tuple[str, ...]:
    """Return the packages that can affect results. Cached, because reading their metadata takes longer than running a
    cell.
    """
    needed = (adapter(shipped.adapter).requires for shipped in shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    return tuple(dict.fromkeys((distribution.NAME, *sdks, "httpx2")))


@cache
def _version(package: str) -> str | None:
    """Return the version of an installed package, or `None`. Cached, because each lookup takes milliseconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
