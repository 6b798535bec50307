"""The models that are known for an API: those that a price is kept for, and those of the shipped targets.

Nothing is asked of a provider, and no list is kept here: names and lengths are those of the package `genai-prices`,
what a model can do is what its profile and the API's adapter say.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness import catalog
from harness.apis.profile import Profile
from harness.contract.protocols import Capability
from harness.running.costs import Listed, listed


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model of an API.

    `vision` and `thinking` say whether the API's adapter can do that with it; `None` where its profile is the one for
    models that nobody here knows, and claims nothing. `context` is in tokens, `None` where it is not known. `targets`
    are the shipped targets that have this model. Names may be those of families (`gpt-4o`), and not each answers chats.
    """

    id: str
    api: str
    profile: str
    vision: bool | None
    thinking: bool | None
    context: int | None = None
    deprecated: bool = False
    targets: tuple[str, ...] = ()


def models(api: str) -> tuple[ModelInfo, ...]:
    """The models of an API, by their names.

    Raises:
        UnknownName: there is no such API.
    """
    of_api = catalog.api(api)
    shipped = of_api.targets
    capabilities = catalog.adapter(shipped[0].adapter).capabilities
    known = {each.id: each for each in listed(api, shipped[0].model)}
    for each in shipped:  # some are names that a provider resolves to another one
        known.setdefault(each.model, Listed(each.model, None, deprecated=False))

    def info(model: Listed) -> ModelInfo:
        profile = of_api.profile_for(model.id)
        is_known = profile is not of_api.profiles[-1]  # that one matches any name
        return ModelInfo(
            model.id,
            api,
            profile.name,
            _has(Capability.VISION, capabilities, profile, is_known=is_known),
            _has(Capability.THINKING, capabilities, profile, is_known=is_known),
            model.context,
            model.deprecated,
            tuple(each.name for each in shipped if each.model == model.id),
        )

    return tuple(info(known[name]) for name in sorted(known))


def _has(
    capability: Capability, capabilities: frozenset[Capability], profile: Profile, *, is_known: bool
) -> bool | None:
    if capability not in capabilities or capability in profile.lacks:
        return False
    return True if is_known else None
