"""Folder of cassettes, with one file per cell: `<scenario>/<target>[.stream].yaml`.

The old layout was `<target>/<scenario>[.stream].yaml`. Cells stored there are still replayed and recorded in place.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.cassettes.cassette import Cassette, Metadata
from harness.cassettes.cassette_files import dumps, read, write_file
from harness.cassettes.cassette_text import RESTORE
from harness.cassettes.journal import SUFFIX, path_of, read_journal
from harness.model.errors import CassetteError, CassetteMissing, CassetteTaken
from harness.results import Variant

_LONGEST_NAME = 100
_REPLACE = "Record with --force to replace it, or into another folder (--cassettes DIR) to keep it."
_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*(?<!\.stream)")  # `x.stream` would be the streamed `x`
_SCENARIO = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Library:
    """Cassettes under `root`. Neither names nor symbolic links can lead outside it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, target: str, scenario: str, variant: Variant) -> Path:
        """Return the path of a cell's cassette, which need not exist.

        Raises:
            CassetteError: a name is not a plain file name, a symbolic link leads out of the folder, or the cell has a
                cassette in both the current and the old layout.
        """
        for kind, name, pattern in (("target", target, _TARGET), ("scenario", scenario, _SCENARIO)):
            if not pattern.fullmatch(name) or len(name) > _LONGEST_NAME:
                raise CassetteError(str(self.root), f"the {kind} {name!r} cannot name a file. Give it another name.")
        ending = f"{'.stream' if variant == 'stream' else ''}.yaml"
        path = self._inside(self.root.joinpath(scenario, f"{target}{ending}"))
        if not os.path.lexists(self.root / target):
            return path
        before = self.root.joinpath(target, f"{scenario}{ending}")
        if not _is_begun(before) or not _is_of(self._inside(before), (target, scenario, variant)):
            return path
        if _is_begun(path):
            raise CassetteError(str(path), f"the same cell lies at {before} as well. Remove one of the two.")
        return before

    def _inside(self, path: Path) -> Path:
        """Return `path`, which is two levels below the root. Raises `CassetteError` if a symbolic link leads out of the
        root.
        """
        # Only a link can lead outside. To check the name for one is cheaper than to resolve all folders.
        linked = os.path.islink(path) or os.path.islink(path.parent)  # noqa: PTH114 - half the time, for each cell
        # `resolve` rejects circular links. Opening the file reports them.
        if linked and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise CassetteError(str(path), "a symbolic link leads out of the cassette folder. Remove the link.")
        return path

    def load(self, target: str, scenario: str, variant: Variant) -> Cassette:
        """Load the cassette of a cell.

        Raises:
            CassetteMissing: there is none.
            CassetteError: it cannot be read, has no metadata, or belongs to another cell.
        """
        path = self.path(target, scenario, variant)
        cassette = read(path)
        if cassette.metadata is None:
            reason = "nothing in it says where it comes from: not recorded by harness, or cut. Record it again."
            raise CassetteError(str(path), reason, "metadata")
        _check_place(cassette.metadata, (target, scenario, variant), path)
        return cassette

    def save(self, cassette: Cassette, *, force: bool = False) -> Path:
        """Save a cassette atomically.

        Raises:
            CassetteError: the file cannot be written, or (unless `force`) a cassette exists that was recorded with
                another model or may have been paid for.
        """
        if cassette.metadata is None:
            raise CassetteError(str(self.root), "a cassette without metadata belongs to no cell.")
        path = self.place_for(cassette.metadata, force=force)
        write_file(path, dumps(cassette, str(path)))
        return path

    def place_for(self, metadata: Metadata, *, force: bool = False) -> Path:
        """Return the path for a recording. Callers check this before they send anything, so that no paid request is
        wasted.

        Raises:
            CassetteTaken: a cassette of another model exists, or one that may have been paid for (unless `force`).
            CassetteError: the existing cassette cannot be read (unless `force`).
        """
        path = self.path(metadata.target, metadata.scenario, metadata.variant)
        present = None if force else self.present(metadata)
        if present is not None:
            check_free(path, present.metadata, metadata)
        return path

    def present(self, metadata: Metadata) -> Cassette | None:
        """Return the cassette that a recording would replace, or `None` if there is none.

        Raises:
            CassetteError: the cassette cannot be read.
        """
        path = self.path(metadata.target, metadata.scenario, metadata.variant)
        try:
            return read(path)
        except CassetteMissing:
            return None
        except CassetteError as error:  # says "record it again", which is what is being tried
            reason = f"what is there cannot be read: {error.reason.removesuffix(RESTORE).strip()}"
            raise CassetteError(str(path), f"{reason} {_REPLACE}", error.place) from None

    def paths(self) -> list[Path]:
        """Return the paths of all cassettes, sorted."""
        return sorted(self.root.glob("*/*.yaml"))

    def journals(self) -> list[Path]:
        """Return the paths of all journals, which belong to running or crashed recordings."""
        return sorted(self.root.glob(f"*/*{SUFFIX}"))


def check_free(path: Path, present: Metadata | None, metadata: Metadata) -> None:
    """Check that a recording may replace a cassette with metadata `present` without force. Raises `CassetteTaken`."""
    model = present.model_requested if present else "an unknown model"
    if model != metadata.model_requested:
        reason = (
            f"it was recorded with {model}, not with {metadata.model_requested}. Record into another folder "
            "(--cassettes DIR) to keep both, or with --force to replace it."
        )
        raise CassetteTaken(str(path), reason)
    if present is not None and is_paid(present):
        reason = (
            f"it was recorded live{recorded_on(present)}, and may have been paid for. Record with --missing to leave "
            "it as it is, with --force to replace it, or into another folder (--cassettes DIR) to keep both."
        )
        raise CassetteTaken(str(path), reason)


def is_paid(present: Metadata) -> bool:
    """Return whether a recording may have cost money. This holds for all recordings except those from the reference
    server.
    """
    return present.origin != "reference"


def recorded_on(present: Metadata) -> str:
    """Return " on DAY" if the recording has a date, else an empty string."""
    return f" on {present.recorded_at[:10]}" if present.recorded_at else ""


def _is_begun(path: Path) -> bool:
    return os.path.lexists(path) or path_of(path).exists()


def _is_of(path: Path, cell: tuple[str, str, Variant]) -> bool:
    """Return whether the file at `path` belongs to `cell`. In the old layout, the same path means another cell.
    Unreadable files count as belonging to it.
    """
    try:
        metadata = read(path).metadata if path.exists() else read_journal(path_of(path)).metadata
    except CassetteError:
        return True
    return metadata is None or (metadata.target, metadata.scenario, metadata.variant) == cell


def _check_place(metadata: Metadata, cell: tuple[str, str, Variant], path: Path) -> None:
    """Reject copied or renamed cassettes. Otherwise their differences would be blamed on the adapter."""
    recorded = (metadata.target, metadata.scenario, metadata.variant)
    if recorded != cell:
        reason = f"this is the recording of {metadata.scenario} ({metadata.variant}) of {metadata.target}."
        raise CassetteError(str(path), f"{reason} Put it back, or record the cell again.", "metadata")
