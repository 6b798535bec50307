"""How a response was delivered, as plain values: the extension key `delivery` of a cassette, which vcrpy ignores."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, TypeGuard, cast, get_args

from harness.contract.http import AT_ONCE, Delivery, Ending

LONGEST_PAUSE = 3600.0
"""Seconds. No client waits longer for a piece, and playback never waits."""

_KEYS = frozenset({"cuts", "pause", "ending"})
_ENDINGS: tuple[Ending, ...] = get_args(Ending)


def stored(delivery: Delivery) -> dict[str, Any]:
    """What is not as in every response; nothing for one that came at once and whole."""
    values: dict[str, Any] = {}
    if delivery.cuts:
        values["cuts"] = list(delivery.cuts)
    if delivery.pause:
        values["pause"] = delivery.pause
    if delivery.ending != AT_ONCE.ending:
        values["ending"] = delivery.ending
    return values


def loaded(values: Any) -> Delivery:
    """The inverse of `stored`.

    Raises:
        ValueError: no delivery is stored like this.
    """
    if not _is_mapping(values):
        raise ValueError("a delivery is a mapping of `cuts`, `pause` and `ending`")
    unknown = sorted(str(key) for key in values.keys() - _KEYS)
    if unknown:
        raise ValueError(f"a delivery has `cuts`, `pause` and `ending`, and no `{unknown[0][:80]}`")
    cuts: Any = values.get("cuts", [])
    if not _are_offsets(cuts):
        raise ValueError("`cuts` is not a list of whole numbers that ascend from 0 or more")
    pause: Any = values.get("pause", 0.0)
    if type(pause) not in {int, float} or not 0 <= pause <= LONGEST_PAUSE:  # NaN is neither
        raise ValueError(f"`pause` is not a number of seconds from 0 to {LONGEST_PAUSE:.0f}")
    ending: Any = values.get("ending", AT_ONCE.ending)
    if ending not in _ENDINGS:
        raise ValueError(f"`ending` is not one of {', '.join(_ENDINGS)}")
    return Delivery(tuple(cuts), float(pause), ending)


def _is_mapping(value: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _are_offsets(value: Any) -> TypeGuard[list[int]]:
    if not isinstance(value, list):
        return False
    cuts = cast("list[Any]", value)
    return all(type(cut) is int for cut in cuts) and _ascend([0, *cuts])


def _ascend(numbers: Iterable[int]) -> bool:
    return all(one <= other for one, other in pairwise(numbers))
