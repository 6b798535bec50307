"""Registry of APIs, including those of other packages, and of their targets and limits."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from harness.apis.api import PATH_UNKNOWN, Api
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.limits import Limit, LimitSeverity, limit_severity
from harness.apis.profiles import Profile, ShippedTarget
from harness.model.errors import PluginError, UnknownName, UsageError
from harness.model.protocols import Adapter
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
    return frozenset(target.name for target in (*api.targets, *api.servers))


def targets() -> tuple[ShippedTarget, ...]:
    """Return the targets of all APIs, including third-party APIs. Targets of compatible servers are not included."""
    return tuple(target for api in apis() for target in api.targets)


def server_targets() -> tuple[ShippedTarget, ...]:
    """Return the targets of compatible servers."""
    return tuple(target for api in apis() for target in api.servers)


def all_targets() -> tuple[ShippedTarget, ...]:
    """Return all targets: those with recordings, then the compatible servers."""
    return (*targets(), *server_targets())


ALL_SERVERS = "all-servers"
"""Name for all targets of compatible servers."""


def target_names(names: Sequence[str], spoken: Container[str]) -> list[str]:
    """Return the target names without duplicates. `ALL_SERVERS` is replaced by all compatible servers with an API in
    `spoken`.

    Raises:
        UsageError: there is none.
    """
    servers = [each.name for each in server_targets() if each.api in spoken]
    if ALL_SERVERS in names and not servers:
        raise UsageError(f"{ALL_SERVERS}: no compatible server has an API that the adapter speaks")
    return list(dict.fromkeys(chain.from_iterable(servers if name == ALL_SERVERS else [name] for name in names)))


def shipped_targets() -> tuple[ShippedTarget, ...]:
    """Return the default targets, which are those of built-in APIs. Targets of third-party APIs are excluded, so that
    installing a package does not change a run."""
    ours = APIS.modules()
    return tuple(each for each in targets() if each.api in ours)


def target_named(name: str) -> ShippedTarget:
    """Return the target with this name, which may be a compatible server. Raises `UnknownName`."""
    known = {each.name: each for each in all_targets()}
    if name not in known:
        raise UnknownName("target", name, [*known])
    return known[name]


def known_limits() -> tuple[Limit, ...]:
    """Return all limits of all APIs."""
    return (PATH_UNKNOWN, *(limit for api in apis() for limit in api.table))


def severity(limit: Limit) -> LimitSeverity:
    """Return the severity of a limit, derived from all its facts regardless of their dates. A limit without facts keeps
    its own severity.
    """
    facts = [fact for api in apis() for fact in api.facts.with_ids(limit.facts)]
    return limit_severity(limit.severity, facts) if facts else limit.severity


@dataclass(frozen=True, slots=True)
class Target:
    """An adapter with a model: one column of a report.

    `cassettes` is the target name in the paths of its recordings, which any adapter of the API can replay.
    `fact_selection` selects the facts that apply to it. A target of a compatible server has its `service`, address and
    key variables.
    """

    name: str
    adapter: Adapter
    model: str
    profile: Profile
    cassettes: str
    fact_selection: FactSelection = SHIPPED
    service: str | None = None
    url: str = ""
    keys: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """The API that the adapter speaks."""
        return self.adapter.api

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that may have the key."""
        return self.keys or api(self.api).key_variables


def target_for(
    shipped: ShippedTarget, adapter: Adapter, models: Mapping[str, str], fact_selection: FactSelection = SHIPPED
) -> Target:
    """Return a built-in target that uses `adapter`. `models` maps target names to models that replace the default ones.

    With an adapter other than its own, the target is named after that adapter.
    """
    name = shipped.name
    if adapter.name != shipped.adapter:
        suffix = f"@{name}" if shipped.service else name.removeprefix(shipped.api)
        name = adapter.name + suffix
    model = models.get(name, models.get(shipped.name, shipped.model))
    profile = api(adapter.api).target_profile(shipped, model, fact_selection)
    made = Target(
        name, adapter, model, profile, shipped.name, fact_selection, shipped.service, shipped.url, shipped.keys
    )
    return made if model == shipped.model else replace(made, cassettes=_of_model(shipped.name, model))


def _of_model(name: str, model: str) -> str:
    """Return a separate name for recordings of another model, so that they do not overwrite the target's own."""
    safe = "".join(character if character.isalnum() or character in "._-" else "-" for character in model)
    return f"{name}@{safe}"


def targets_for(
    adapters: Sequence[Adapter],
    names: Sequence[str],
    models: Mapping[str, str],
    fact_selection: FactSelection = SHIPPED,
    optional: Container[str] = (),
) -> list[Target]:
    """Return all targets that the adapters can run. If `names` is not empty, only these targets are included.

    `optional` names may occur in `models` without a target.

    Raises:
        UnknownName: a name in `names` or `models` is not a target.
        UsageError: an adapter's API has no target, a named target has no adapter, or two adapters have the same name.
    """
    chosen = [target_named(name) for name in names] or [*targets()]
    made: list[Target] = []
    for adapter in adapters:
        of_api = [shipped for shipped in chosen if shipped.api == adapter.api]
        if not of_api:
            raise UsageError(
                f"the adapter {adapter.name!r} speaks {adapter.api!r}, and none of the chosen targets does: "
                + ", ".join(f"{shipped.name} ({shipped.api})" for shipped in chosen)
            )
        made.extend(target_for(shipped, adapter, models, fact_selection) for shipped in of_api)
    for name in names:
        if not any(t.cassettes.partition("@")[0] == name for t in made):
            needed = target_named(name).api
            raise UsageError(
                f"the target {name!r} needs an adapter that speaks {needed!r}, and none of the chosen ones does."
            )
    twice = [t.name for t in made if sum(t.name == other.name for other in made) > 1]
    if twice:
        raise UsageError(f"two of the chosen adapters would be the target {twice[0]!r}. Give one of them another name.")
    known = {t.name for t in made} | {t.cassettes.partition("@")[0] for t in made}
    for name in models:
        if name not in known and name not in optional:
            raise UnknownName("target", name, sorted(known), "--model")
    return made
