"""Attempts to get out of the folder, or to break the tools. None may reach, change or make anything outside."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kit.workspace import Workspace
from harness.model.messages import JSON
from tests.kit.workspace.conftest import SECRET, Place, call

pytestmark = pytest.mark.usefixtures("either_way")

TOOLS = ("read_file", "write_file", "list_directory")

PATHS = {
    "parent": "../outside/file.txt",
    "parent behind a dot": "./../outside/file.txt",
    "parent behind a folder": "sub/../../outside/file.txt",
    "parent behind a folder that is not there": "none/../../outside/file.txt",
    "parent behind empty names": "sub//..//..//outside/file.txt",
    "parent that stays inside": "sub/../file.txt",
    "parent alone": "..",
    "parent at the end": "sub/../..",
    "many parents": "../" * 20 + "etc/passwd",
    "parent in other case": "../OUTSIDE/FILE.TXT",
    "back in by the parent": "../workspace/../outside/file.txt",
    "absolute": "{outside}/file.txt",
    "absolute with two slashes": "/{outside}/file.txt",
    "absolute to the workspace": "{root}/file.txt",
    "absolute through the workspace": "{root}/../outside/file.txt",
    "absolute in other case": "{OUTSIDE}/FILE.TXT",
    "the root of all": "/",
    "the process's own view": "/proc/self/root{outside}/file.txt",
    "a file URL": "file://{outside}/file.txt",
    "backslashes": r"..\outside\file.txt",
    "backslash and slash": r"sub\../../outside/file.txt",
    "drive": "C:/outside/file.txt",
    "drive with a backslash": "C:\\outside\\file.txt",
    "drive without a root": "C:file.txt",
    "UNC": r"\\server\share\file.txt",
    "UNC with slashes": "//server/share/file.txt",
    "verbatim UNC": r"\\?\C:\outside\file.txt",
    "device namespace": "//./C:/outside/file.txt",
    "stream": "file.txt:stream",
    "the stream that is the file": "file.txt::$DATA",
    "stream of the folder": "sub::$INDEX_ALLOCATION/file.txt",
    "device": "CON",
    "device with an extension": "nul.txt",
    "device in a folder": "sub/aux",
    "numbered device": "Com1.log",
    "device with a superscript": "lpt¹",
    "device with a space": "prn .txt",
    "three dots": ".../file.txt",
    "name with a dot behind": "file.txt.",
    "name with a space behind": "file.txt ",
    "zero-width between the dots": ".\u200b./outside/file.txt",
    "parent with a space behind": ".. /outside/file.txt",
    "home": "~/file.txt",
    "home alone": "~",
    "home of a user": "~root/file.txt",
    "NUL behind a good name": "file.txt\0/../../outside/file.txt",
    "NUL behind a bad name": "../outside/file.txt\0.png",
    "NUL alone": "\0",
    "line break": "sub/\n../../outside/file.txt",
    "escape sequence": "sub/\x1b[2Kfile.txt",
    "half a surrogate pair": "\udc2e\udc2e/outside/file.txt",
    "bytes that are smuggled in": "\udcff",
    "overlong name": "a" * 256,
    "overlong path": "a/" * 50 + "b" * 1000,
    "overlong in bytes": "ü" * 600,
    "deep": "a/" * 70 + "file.txt",
    "through a file": "file.txt/../../outside/file.txt",
    "below a file": "file.txt/file.txt",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_path_leads_nowhere_else(place: Place, path: str) -> None:
    for name, value in (
        ("{outside}", str(place.outside)),
        ("{OUTSIDE}", str(place.outside).upper()),
        ("{root}", str(place.root)),
    ):
        path = path.replace(name, value)
    assert_nothing_happens(place, path)


NOT_THERE = {
    "encoded parent": "%2e%2e/outside/file.txt",
    "encoded slash": "..%2foutside%2ffile.txt",
    "encoded twice": "%252e%252e%252foutside%252ffile.txt",
    "overlong encoding, spelt out": "..%c0%af..%c0%afoutside",
    "fullwidth dots and slash": "．．／outside／file.txt",
    "one-dot leaders": "․․/outside/file.txt",
    "two-dot leader": "‥/outside/file.txt",
    "division slash": "..∕outside∕file.txt",
    "zero-width behind the dots": "..\u200b/outside/file.txt",
    "right-to-left override": "..\u202e/outside/file.txt",
    "variable": "$HOME/file.txt",
    "variable of Windows": "%USERPROFILE%/file.txt",
    "pattern": "*/file.txt",
}


@pytest.mark.parametrize("path", NOT_THERE.values(), ids=NOT_THERE)
def test_what_looks_like_a_way_out_is_a_name(place: Place, path: str) -> None:
    assert_nothing_happens(place, path, "read_file", "list_directory")

    before = place.elsewhere()
    assert not place.call("write_file", path=path, content="mine").is_error
    assert place.elsewhere() == before
    assert place.root.joinpath(*path.split("/")).read_text() == "mine"


def link(name: str, to: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        target = to.format(outside=place.outside, root=place.root)
        (place.root / name).symlink_to(target)

    return make


def chain(place: Place) -> None:
    (place.root / "second").symlink_to(place.outside)
    (place.root / "first").symlink_to("second")


def in_a_folder(place: Place) -> None:
    (place.root / "sub" / "deep" / "up").symlink_to("../../../outside")


def instead_of_a_file(place: Place) -> None:
    (place.root / "sub" / "file.txt").unlink()
    (place.root / "sub" / "file.txt").symlink_to(place.outside / "file.txt")


LINKS: dict[str, tuple[Callable[[Place], None], str]] = {
    "to a file": (link("way", "{outside}/file.txt"), "way"),
    "to a file, relative": (link("way", "../outside/file.txt"), "way"),
    "to a folder": (link("way", "{outside}"), "way/file.txt"),
    "to a folder, itself": (link("way", "{outside}"), "way"),
    "to a folder, with a slash": (link("way", "{outside}"), "way/"),
    "to a folder, with a dot": (link("way", "{outside}"), "way/."),
    "to a folder, deeper": (link("way", "{outside}"), "way/sub/deep/file.txt"),
    "to a folder, new folders": (link("way", "{outside}"), "way/new/newer/file.txt"),
    "to the root of all": (link("way", "/"), "way{outside}/file.txt"),
    "to the parent": (link("way", ".."), "way/outside/file.txt"),
    "chain": (chain, "first/file.txt"),
    "chain, its end": (chain, "second/sub/file.txt"),
    "in a folder": (in_a_folder, "sub/deep/up/file.txt"),
    "instead of a file": (instead_of_a_file, "sub/file.txt"),
    "dangling": (link("way", "{outside}/made.txt"), "way"),
    "dangling, relative": (link("way", "../outside/made.txt"), "way"),
    "dangling folder": (link("way", "{outside}/made"), "way/file.txt"),
    "loop": (link("way", "way"), "way"),
    "loop of folders": (link("way", "."), "way/way/way/file.txt"),
    "to a device": (link("way", "/dev/zero"), "way"),
    "to our own descriptors": (link("way", "/dev/fd"), "way/0"),
    "to our own folder": (link("way", "/proc/self/cwd"), "way/file.txt"),
    "that stays inside": (link("way", "file.txt"), "way"),
    "folder that stays inside": (link("way", "sub"), "way/file.txt"),
}


@pytest.mark.parametrize(("make", "path"), LINKS.values(), ids=LINKS)
def test_a_link_is_not_followed(place: Place, make: Callable[[Place], None], path: str) -> None:
    make(place)

    assert_nothing_happens(place, path.format(outside=place.outside))


def test_a_link_says_that_it_is_one(place: Place) -> None:
    link("way", "{outside}")(place)

    reason = "is a symbolic link. Links are not followed, wherever they lead."
    assert place.call("read_file", path="way").text == f"way: 'it' {reason}"
    assert place.call("read_file", path="way/file.txt").text == f"way/file.txt: 'way' {reason}"
    assert place.call("list_directory", path=".").text == "file.txt\nsub/\nway"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, socket.socket(socket.AF_UNIX) as server:
        patch.chdir(path.parent)  # the name of a socket is short
        server.bind(path.name)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root can make a device file")


@pytest.mark.parametrize("make", [fifo, unix_socket, device])
def test_only_regular_files_are_files(place: Place, make: Callable[[Path], None]) -> None:
    make(place.root / "odd")

    assert_nothing_happens(place, "odd")
    assert_nothing_happens(place, "odd/file.txt")
    assert (place.root / "odd").exists()


def test_a_hard_link_is_not_written_through(place: Place) -> None:
    (place.root / "hard.txt").hardlink_to(place.outside / "file.txt")

    assert not place.call("write_file", path="hard.txt", content="mine").is_error

    assert (place.outside / "file.txt").read_text() == SECRET
    assert (place.root / "hard.txt").read_text() == "mine"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_replaced_workspace_folder_is_not_touched(place: Place, tool: str) -> None:
    workspace = Workspace(place.root)
    place.root.rename(place.root.with_name("moved"))
    place.root.symlink_to(place.outside)
    before = place.elsewhere()

    result = call(workspace, tool, arguments(tool, "file.txt" if tool != "list_directory" else "."))

    assert result.is_error
    assert result.text.endswith(": the workspace's folder was deleted or replaced.")
    assert place.elsewhere() == before


def test_the_folder_can_be_gone(place: Place) -> None:
    workspace = Workspace(place.root)
    place.root.rename(place.root.with_name("moved"))

    for tool in TOOLS:
        assert call(workspace, tool, arguments(tool, "file.txt")).is_error
    assert not place.root.exists()


def arguments(tool: str, path: str) -> dict[str, JSON]:
    return {"path": path, "content": "mine"} if tool == "write_file" else {"path": path}


def assert_nothing_happens(place: Place, path: str, *tools: str) -> None:
    before = place.elsewhere()
    for tool in tools or TOOLS:
        result = place.call(tool, **arguments(tool, path))

        assert result.is_error, tool
        assert SECRET not in result.text
        assert "only-outside" not in result.text
        assert place.elsewhere() == before
        assert not [*place.root.rglob(".*.tmp")]
