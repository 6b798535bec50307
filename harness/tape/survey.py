"""What lies in the places of recordings, looked over before the first of them sends anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from harness.contract.errors import CassetteError, UsageError
from harness.host import replacement
from harness.results import Variant
from harness.tape.age import Outdated
from harness.tape.cassette import Cassette, Metadata
from harness.tape.journal import Journal, Leftover, leftover, path_of
from harness.tape.library import Library, check_free, is_paid, recorded_on
from harness.tape.recording import answers
from harness.tape.write import prepare

_NAMED = 3
"""So many of the cells that cannot be recorded are named."""

Place: TypeAlias = tuple[str, str, Variant]
"""Target, scenario and variant of a recording."""


@dataclass(slots=True)
class Survey:
    """What was found. `fresh` are places that `--missing` or `--stale` leaves, `outdated` those whose cassettes are
    to be replaced, as was asked; `held` says why others are not recorded either; `notes` are sentences on what earlier
    recordings have left."""

    fresh: set[Place] = field(default_factory=set[Place])
    outdated: set[Place] = field(default_factory=set[Place])
    held: dict[Place, str] = field(default_factory=dict[Place, str])
    notes: list[str] = field(default_factory=list[str])


def place_of(metadata: Metadata) -> Place:
    """The place of a recording."""
    return metadata.target, metadata.scenario, metadata.variant


def survey(
    library: Library,
    wanted: Iterable[Metadata],
    *,
    force: bool = False,
    missing: bool = False,
    outdated: Outdated | None = None,
) -> Survey:
    """Look over the places of the `wanted` recordings. With `missing`, what is fresh need not be recorded; with
    `outdated`, only what is so is.

    What killed recordings have left of no use is removed.

    Raises:
        CassetteError: a cell cannot be recorded: what is there must not be overwritten, or another process records it.
        UsageError: several cannot.
    """
    prepare()
    found, problems, every = Survey(), list[CassetteError](), list(wanted)
    for metadata in every:
        try:
            if outdated is None or _is_outdated(library, metadata, found, outdated):
                _look(library, metadata, found, force=force, missing=missing)
        except CassetteError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        named = " ".join(str(problem) for problem in problems[:_NAMED])
        more = f" So it is with {len(problems) - _NAMED} more." if len(problems) > _NAMED else ""
        raise UsageError(
            f"{len(problems)} of {len(every)} cells cannot be recorded, so nothing was sent for any. {named}{more}"
        )
    return found


def _is_outdated(library: Library, metadata: Metadata, found: Survey, outdated: Outdated) -> bool:
    """Whether what lies in a place is to be recorded again; where nothing lies, nothing is. Raises `CassetteError`."""
    present = library.present(metadata)
    standing = present.metadata if present else None
    if standing is not None and outdated.holds(standing, metadata):
        found.outdated.add(place_of(metadata))
        return True
    found.fresh.add(place_of(metadata))
    return False


def _look(library: Library, metadata: Metadata, found: Survey, *, force: bool, missing: bool) -> None:
    path = library.path(*place_of(metadata))
    replacement.sweep(path.parent)
    left = leftover(path, force=force)
    present = None
    if left is not None or missing or not force:
        try:
            present = library.present(metadata)
        except CassetteError:
            if not force:
                raise
    unsaved = _unsaved(left, present)
    if left is not None and not unsaved:
        _clear(path, metadata, left, found)
    standing = present.metadata if present else None
    if missing and standing is not None and _is_fresh(standing, metadata):
        found.fresh.add(place_of(metadata))
        if unsaved:
            found.notes.append(
                f"{path_of(path)} holds {_exchanges(unsaved)} of a recording that did not come to its end. It stays, "
                f"since {path.name} is fresh: record with --force, and without --missing, to take it up."
            )
        return
    if missing and standing is not None and is_paid(standing) and not force:
        found.held[place_of(metadata)] = (
            f"not recorded: what is there was recorded live{recorded_on(standing)}, before the scenario or the model "
            "changed, and may have been paid for: --force replaces it"
        )
        return
    if present is not None and not force and place_of(metadata) not in found.outdated:
        check_free(path, standing, metadata)
    if unsaved:
        found.notes.append(
            f"{path_of(path)} holds {_exchanges(unsaved)} of a recording that did not come to its end: what is asked "
            "for again is taken up."
        )


def _unsaved(left: Leftover | None, present: Cassette | None) -> int:
    """How many answers a journal has that the cassette does not."""
    saved = present.interactions if present else ()
    return sum(each not in saved for _, each in answers(left)) if left is not None else 0


def _clear(path: Path, metadata: Metadata, left: Leftover, found: Survey) -> None:
    """Remove a journal that is of no more use: its process was killed before it could, or before it had an answer."""
    kept = Journal(path, metadata, force=True).remove()
    if kept:
        found.notes.append(kept)
    elif answers(left):
        found.notes.append(
            f"{path_of(path)} was left by a recording that was killed once its cassette was complete: it held nothing "
            "that the cassette does not have, and was removed."
        )


def _is_fresh(present: Metadata, metadata: Metadata) -> bool:
    """Whether a recording would ask what was asked, of the same kind of place or one that is dearer."""
    same_model = present.model_requested == metadata.model_requested
    same_place = metadata.origin in ("reference", present.origin)
    return same_model and same_place and present.is_of(metadata.scenario_digest, metadata.sent_digest)


def _exchanges(count: int) -> str:
    return "1 answered exchange" if count == 1 else f"{count} answered exchanges"
