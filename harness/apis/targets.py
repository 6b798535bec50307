"""Targets: an adapter with a model and its profile; what a run is made of."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from harness import catalog
from harness.apis.facts import SHIPPED, Edition
from harness.apis.profile import Profile
from harness.contract.errors import UnknownName, UsageError
from harness.contract.protocols import Adapter


@dataclass(frozen=True, slots=True)
class Target:
    """One column of a run.

    `cassettes` names the files of its recordings, which any adapter of the API can play; `edition` is that of the facts
    by which it is judged.
    """

    name: str
    adapter: Adapter
    model: str
    profile: Profile
    cassettes: str
    edition: Edition = SHIPPED

    @property
    def api(self) -> str:
        """The API that the adapter speaks."""
        return self.adapter.api


@dataclass(frozen=True, slots=True)
class Shipped:
    """A target that comes with recordings. Loading its adapter is left to who selects it."""

    name: str
    adapter: str
    api: str
    model: str


def target(shipped: Shipped, adapter: Adapter, models: Mapping[str, str], edition: Edition = SHIPPED) -> Target:
    """A shipped target, played by an adapter of its API; `models` replaces models by target name.

    An adapter that does not come with the target gets a column of its own name.
    """
    name = shipped.name
    if adapter.name != shipped.adapter:
        suffix = shipped.name.removeprefix(shipped.api)
        name = adapter.name + suffix
    model = models.get(name, models.get(shipped.name, shipped.model))
    profile = catalog.api(adapter.api).profile_for(model, edition)
    made = Target(name, adapter, model, profile, shipped.name, edition)
    return made if model == shipped.model else replace(made, cassettes=_of_model(shipped.name, model))


def _of_model(name: str, model: str) -> str:
    """Another model has recordings of its own, so that it never overwrites the first."""
    safe = "".join(character if character.isalnum() or character in "._-" else "-" for character in model)
    return f"{name}@{safe}"


def targets_for(
    adapters: Sequence[Adapter],
    names: Sequence[str],
    models: Mapping[str, str],
    edition: Edition = SHIPPED,
    optional: Container[str] = (),
) -> list[Target]:
    """Every target that an adapter can play, of those named (none named: all). Models of `optional` targets may be of
    none of them.

    Raises:
        UnknownName: a name in `names` or `models` is no target.
        UsageError: an adapter has an API for which there is no target, a named target no adapter, or two adapters have
            one name.
    """
    chosen = [catalog.target(name) for name in names] or [*catalog.targets()]
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
            api = catalog.target(name).api
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
