"""Build hook of the wheel: it packs the 2,500 cassettes into one archive, a fifth of their size in the wheel."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CassetteArchive(BuildHookInterface):  # type: ignore[type-arg] - the configuration of any builder
    """Adds `harness/_shipped/cassettes.tar.xz` to a wheel. An editable install reads the folder of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the archive and include it."""
        if version == "editable":
            return
        folder = Path(self.root) / "cassettes"
        file = Path(tempfile.mkdtemp()) / "cassettes.tar.xz"
        with tarfile.open(file, "w:xz") as archive:
            for path in sorted(folder.rglob("*.yaml")):
                archive.add(path, path.relative_to(folder), filter=_without_owner)
        build_data["force_include"][str(file)] = "harness/_shipped/cassettes.tar.xz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove what differs from build to build."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
