"""Registry of APIs and of their targets and limits, including those of other packages."""

from __future__ import annotations

from functools import cache

from harness.apis.api import PATH_UNKNOWN, Api
from harness.apis.limits import Limit, Severity, lesser
from harness.apis.profiles import ShippedTarget
from harness.model.errors import PluginError, UnknownName
from harness.plugins import PluginGroup

APIS: PluginGroup[Api] = PluginGroup("API", "harness.apis", "API", "harness.apis.api:Api", packages=True)


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
    installing a package does not change a run."""
    ours = APIS.modules()
    return tuple(each for each in targets() if each.api in ours)


def target(name: str) -> ShippedTarget:
    """Return the shipped target with this name. Raises `UnknownName`."""
    for each in targets():
        if each.name == name:
            return each
    raise UnknownName("target", name, [each.name for each in targets()])


def known_limits() -> tuple[Limit, ...]:
    """Return all limits of all APIs."""
    return (PATH_UNKNOWN, *(limit for api in apis() for limit in api.table))


def severity(limit: Limit) -> Severity:
    """Return the severity of a limit, derived from all its facts regardless of their dates. A limit without facts keeps
    its own severity.
    """
    facts = [fact for api in apis() for fact in api.facts.named(limit.facts)]
    return lesser(limit.severity, facts) if facts else limit.severity
