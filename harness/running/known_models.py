"""The models that are known for an API: those that a price is kept for, and those of the shipped targets.

Nothing is asked of a provider, and no list is kept here: names and lengths are those of the package `genai-prices`.
What a model can do is claimed only where a source speaks of that very model: a price for images or for reasoning, or,
of a shipped target's model, the profile that was written for it. That a name resembles others says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness import catalog
from harness.contract.protocols import Capability
from harness.running.costs import Listed, listed


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model of an API.

    `vision` and `thinking` say whether the API's adapter can do that with it; `None` where no source says so. `context`
    is in tokens, `None` where it is not known. `targets` are the shipped targets that have this model. Names may be
    those of families (`gpt-4o`), and not each answers chats.
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
        shipped_as = tuple(each.name for each in shipped if each.model == model.id)
        able = capabilities - profile.lacks
        thinks = model.reasoning or (bool(shipped_as) and profile.thinking != "none")
        return ModelInfo(
            model.id,
            api,
            profile.name,
            _known(Capability.VISION in able, is_said=model.images),
            _known(Capability.THINKING in able, is_said=thinks),
            model.context,
            model.deprecated,
            shipped_as,
        )

    return tuple(info(known[name]) for name in sorted(known))


def _known(is_able: bool, *, is_said: bool) -> bool | None:
    if not is_able:
        return False
    return True if is_said else None
