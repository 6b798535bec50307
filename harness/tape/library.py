"""The folder of cassettes: one file per cell, `<scenario>/<target>[.stream].yaml`.

Before, it was `<target>/<scenario>[.stream].yaml`. A cell that lies there still does: it is played and recorded where
it is, until somebody moves it or records it elsewhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.contract.errors import CassetteError, CassetteMissing, CassetteTaken
from harness.results import Variant
from harness.tape.cassette import Cassette, Metadata
from harness.tape.document import RESTORE
from harness.tape.journal import SUFFIX, path_of, read_journal
from harness.tape.read import read
from harness.tape.write import dumps, replace

_LONGEST_NAME = 100
_REPLACE = "Record with --force to replace it, or into another folder (--cassettes DIR) to keep it."
_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*(?<!\.stream)")  # `x.stream` would be the streamed `x`
_SCENARIO = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Library:
    """The cassettes under `root`. Nothing outside of it is read or written, whatever the names and links say."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, target: str, scenario: str, variant: Variant) -> Path:
        """Where the cassette of a cell lies, whether it is there or not.

        Raises:
            CassetteError: a name is no plain file name, a symbolic link leads out of the folder, or there are two, in
                this layout and in the one of before.
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
        """A path two levels below the root, unless a link leads out of it."""
        # Below the root only links lead elsewhere, and a name that is none costs one look instead of one per folder.
        linked = os.path.islink(path) or os.path.islink(path.parent)  # noqa: PTH114 - half the time, for each cell
        # `resolve` refuses links that go in a circle, of which whoever opens the file will say so.
        if linked and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.root)):
            raise CassetteError(str(path), "a symbolic link leads out of the cassette folder. Remove the link.")
        return path

    def load(self, target: str, scenario: str, variant: Variant) -> Cassette:
        """The cassette of a cell.

        Raises:
            CassetteMissing: there is none.
            CassetteError: it cannot be read, nothing says where it comes from, or it is another cell's.
        """
        path = self.path(target, scenario, variant)
        cassette = read(path)
        if cassette.metadata is None:
            reason = "nothing in it says where it comes from: not recorded by harness, or cut. Record it again."
            raise CassetteError(str(path), reason, "metadata")
        _check_place(cassette.metadata, (target, scenario, variant), path)
        return cassette

    def save(self, cassette: Cassette, *, force: bool = False) -> Path:
        """Put a cassette in its place, whole or not at all.

        Raises:
            CassetteError: it cannot be written, or it would overwrite another model's (unless `force`).
        """
        if cassette.metadata is None:
            raise CassetteError(str(self.root), "a cassette without metadata belongs to no cell.")
        path = self.place_for(cassette.metadata, force=force)
        replace(path, dumps(cassette, str(path)))
        return path

    def place_for(self, metadata: Metadata, *, force: bool = False) -> Path:
        """Where a recording may be saved. Asked before anything is sent, so that nothing is paid for in vain.

        Raises:
            CassetteTaken: a cassette of another model, or one that somebody may have paid for, is there (unless
                `force`).
            CassetteError: what is there cannot be read (unless `force`).
        """
        path = self.path(metadata.target, metadata.scenario, metadata.variant)
        present = None if force else self.present(metadata)
        if present is not None:
            check_free(path, present.metadata, metadata)
        return path

    def present(self, metadata: Metadata) -> Cassette | None:
        """What lies in the place of a recording, `None` if nothing does.

        Raises:
            CassetteError: it cannot be read.
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
        """The cassettes that are there, in order."""
        return sorted(self.root.glob("*/*.yaml"))

    def journals(self) -> list[Path]:
        """The journals of recordings that run, or were killed."""
        return sorted(self.root.glob(f"*/*{SUFFIX}"))


def check_free(path: Path, present: Metadata | None, metadata: Metadata) -> None:
    """Whether a recording may take the place of `present`, unless that is forced. Raises `CassetteTaken`."""
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
    """Whether somebody may have paid for a recording: the reference server alone costs nothing."""
    return present.origin != "reference"


def recorded_on(present: Metadata) -> str:
    """The day of a recording, in words that follow another word; nothing if it has none."""
    return f" on {present.recorded_at[:10]}" if present.recorded_at else ""


def _is_begun(path: Path) -> bool:
    return os.path.lexists(path) or path_of(path).exists()


def _is_of(path: Path, cell: tuple[str, str, Variant]) -> bool:
    """Whether what was begun at `path` belongs to a cell: `a/b.yaml` is one now and was another before. What cannot be
    read may."""
    try:
        metadata = read(path).metadata if path.exists() else read_journal(path_of(path)).metadata
    except CassetteError:
        return True
    return metadata is None or (metadata.target, metadata.scenario, metadata.variant) == cell


def _check_place(metadata: Metadata, cell: tuple[str, str, Variant], path: Path) -> None:
    """A cassette that was copied or renamed would be held against the adapter."""
    recorded = (metadata.target, metadata.scenario, metadata.variant)
    if recorded != cell:
        reason = f"this is the recording of {metadata.scenario} ({metadata.variant}) of {metadata.target}."
        raise CassetteError(str(path), f"{reason} Put it back, or record the cell again.", "metadata")
