"""Targets of a run: an adapter with a model and its profile."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.apis import registry
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.profiles import Profile, ShippedTarget
from harness.model.errors import UnknownName, UsageError
from harness.model.protocols import Adapter


@dataclass(frozen=True, slots=True)
class Target:
    """An adapter with a model: one column of a report.

    `cassettes` is the target name in the paths of its recordings, which any adapter of the API can replay. `edition`
    selects the facts that apply to it.
    """

    name: str
    adapter: Adapter
    model: str
    profile: Profile
    cassettes: str
    edition: FactSelection = SHIPPED

    @property
    def api(self) -> str:
        """The API that the adapter speaks."""
        return self.adapter.api


def target(
    shipped: ShippedTarget, adapter: Adapter, models: Mapping[str, str], edition: FactSelection = SHIPPED
) -> Target:
    """Return a built-in target that uses `adapter`. `models` maps target names to models that replace the default ones.

    With an adapter other than its own, the target is named after that adapter.
    """
    name = shipped.name
    if adapter.name != shipped.adapter:
        suffix = shipped.name.removeprefix(shipped.api)
        name = adapter.name + suffix
    model = models.get(name, models.get(shipped.name, shipped.model))
    profile = registry.api(adapter.api).profile_for(model, edition)
    made = Target(name, adapter, model, profile, shipped.name, edition)
    return made if model == shipped.model else replace(made, cassettes=_of_model(shipped.name, model))


def _of_model(name: str, model: str) -> str:
    """Return a separate name for recordings of another model, so that they do not overwrite the target's own."""
    safe = "".join(character if character.isalnum() or character in "._-" else "-" for character in model)
    return f"{name}@{safe}"


def targets_for(
    adapters: Sequence[Adapter],
    names: Sequence[str],
    models: Mapping[str, str],
    edition: FactSelection = SHIPPED,
    optional: Container[str] = (),
) -> list[Target]:
    """Return all targets that the adapters can run. If `names` is not empty, only these targets are included.

    `optional` names may occur in `models` without a target.

    Raises:
        UnknownName: a name in `names` or `models` is no target.
        UsageError: an adapter's API has no target, a named target no adapter, or two adapters have one name.
    """
    chosen = [registry.target(name) for name in names] or [*registry.targets()]
    made: list[Target] = []
    for adapter in adapters:
        of_api = [shipped for shipped in chosen if shipped.api == adapter.api]
        if not of_api:
            raise UsageError(
                f"the adapter {adapter.name!r} speaks {adapter.api!r}, and none of the chosen targets does: "
                + ", ".join(f"{shipped.name} ({shipped.api})" for shipped in chosen)
            )
        made.extend(target(shipped, adapter, models, edition) for shipped in of_api)
    for name in names:
        if not any(t.cassettes.partition("@")[0] == name for t in made):
            api = registry.target(name).api
            raise UsageError(
                f"the target {name!r} needs an adapter that speaks {api!r}, and none of the chosen ones does."
            )
    twice = [t.name for t in made if sum(t.name == other.name for other in made) > 1]
    if twice:
        raise UsageError(f"two of the chosen adapters would be the target {twice[0]!r}. Give one of them another name.")
    known = {t.name for t in made} | {t.cassettes.partition("@")[0] for t in made}
    for name in models:
        if name not in known and name not in optional:
            raise UnknownName("target", name, sorted(known), "--model")
    return made
