"""A folder for the tools, and another one that they must not reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.kit import workspace
from harness.kit.thread import run_tool
from harness.kit.workspace import HAS_OPENAT, Workspace, WorkspaceFolder
from harness.model.messages import JSON, ToolCall, ToolResult

SECRET = "the secret that lies outside"


@dataclass(frozen=True)
class Place:
    """`root` is the workspace's folder. `outside` is next to it, with the same names and a secret in each file."""

    root: Path
    outside: Path

    def call(self, tool: str, **arguments: JSON) -> ToolResult:
        return call(Workspace(self.root), tool, arguments)

    def elsewhere(self) -> dict[str, object]:
        """Return everything outside: names, kinds, identities, contents."""
        found: dict[str, object] = {}
        for path in sorted(self.root.parent.rglob("*")):
            if not path.is_relative_to(self.root):
                status = path.lstat()
                content = path.read_bytes() if path.is_file() else None
                found[str(path)] = (status.st_mode, status.st_ino, status.st_nlink, status.st_mtime_ns, content)
        return found


def call(workspace: Workspace, tool: str, arguments: dict[str, JSON]) -> ToolResult:
    """Run a tool as a thread does, with exceptions as error results."""
    return run_tool(workspace.run, ToolCall("c1", tool, arguments))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "workspace", tmp_path / "outside")
    for folder, content in ((place.root, "inside"), (place.outside, SECRET)):
        (folder / "sub" / "deep").mkdir(parents=True)
        for file in ("file.txt", "sub/file.txt", "sub/deep/file.txt"):
            (folder / file).write_text(content)
    (place.outside / "only-outside").mkdir()
    return place


@pytest.fixture
def by_path(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the next workspaces work as on Windows: by paths, without descriptors of folders."""
    return lambda: monkeypatch.setattr(workspace, "WorkspaceFolder", partial(WorkspaceFolder, has_openat=False))


@pytest.fixture(params=["by descriptor", "by path"])
def either_way(request: pytest.FixtureRequest, by_path: Callable[[], None]) -> None:
    """Runs a test both ways."""
    if request.param == "by path":
        by_path()
    elif not HAS_OPENAT:
        pytest.skip("this platform has no openat")
