"""The file tools, by descriptors and by paths."""

from __future__ import annotations

import os
import stat

import pytest

from harness.kit.workspace import Workspace
from harness.model.messages import JSON
from tests.kit.workspace.conftest import Place, call

pytestmark = pytest.mark.usefixtures("either_way")


@pytest.mark.parametrize("path", ["sub/deep/file.txt", "./sub//deep/./file.txt"])
def test_a_file_is_read_as_it_is(place: Place, path: str) -> None:
    text = "\ufeffeins\r\nzwei\n\u2028 🛠️ \0 e\u0301"
    (place.root / "sub" / "deep" / "file.txt").write_bytes(text.encode())

    result = place.call("read_file", path=path)

    assert (result.content, result.is_error) == (text, False)


def test_a_file_is_written_as_it_is(place: Place) -> None:
    text = "eins\r\nzwei\n🛠️"

    result = place.call("write_file", path="src/app/new.ts", content=text)

    assert (result.content, result.is_error) == ("wrote 18 bytes to src/app/new.ts", False)
    assert (place.root / "src" / "app" / "new.ts").read_bytes() == text.encode()


def test_an_old_file_is_replaced_and_keeps_its_mode(place: Place) -> None:
    script = place.root / "file.txt"
    script.chmod(0o4755)
    with script.open() as reader:
        place.call("write_file", path="file.txt", content="new")

        assert reader.read() == "inside", "who reads the old file goes on with it"

    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) & ~0o755 == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no execute bit")
def test_an_executable_stays_one(place: Place, request: pytest.FixtureRequest) -> None:
    (place.root / "file.txt").chmod(0o777)

    place.call("write_file", path="file.txt", content="new")

    expected = 0o777 if request.node.callspec.id == "by descriptor" else 0o777 & ~umask()
    assert stat.S_IMODE((place.root / "file.txt").stat().st_mode) == expected


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)

    result = place.call("write_file", path="sub/file.txt", content="new")

    assert (result.is_error, result.text) == (True, "sub/file.txt: No space left on device.")
    assert sorted(path.name for path in (place.root / "sub").iterdir()) == ["deep", "file.txt"]
    assert (place.root / "sub" / "file.txt").read_text() == "inside"


def test_a_folder_lists_its_names(place: Place) -> None:
    for name in ("b.txt", "B.txt", "ä", "z z"):
        (place.root / name).touch()
    (place.root / "empty").mkdir()

    assert place.call("list_directory", path=".").content == "B.txt\nb.txt\nempty/\nfile.txt\nsub/\nz z\nä"
    assert place.call("list_directory", path="").content == place.call("list_directory", path="./").content
    assert place.call("list_directory", path="sub/").content == "deep/\nfile.txt"
    assert place.call("list_directory", path="empty").content == ""


def test_a_name_that_does_not_print_is_quoted(place: Place) -> None:
    for name in (b"line\nbreak", b"\xff", "\u202egpj".encode()):
        (place.root / "sub" / "deep" / os.fsdecode(name)).touch()

    listed = place.call("list_directory", path="sub/deep").text

    assert listed.splitlines() == ["file.txt", '"line\\nbreak"', '"\\u202egpj"', '"\\udcff"']


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (1, "\n[truncated: the first 0 of 6 bytes]"),
        (2, "ä\n[truncated: the first 2 of 6 bytes]"),
        (5, "äb\n[truncated: the first 3 of 6 bytes]"),
        (6, "äb€"),
        (7, "äb€"),
    ],
)
def test_a_long_file_is_truncated_with_a_note(place: Place, limit: int, text: str) -> None:
    (place.root / "long.txt").write_text("äb€", encoding="utf-8")

    assert call(Workspace(place.root, max_output_bytes=limit), "read_file", {"path": "long.txt"}).content == text


def test_a_huge_file_is_not_read_whole(place: Place) -> None:
    with (place.root / "huge").open("wb") as file:
        file.truncate(1 << 40)  # sparse

    text = place.call("read_file", path="huge").text

    assert text == "\0" * 65_536 + f"\n[truncated: the first 65536 of {1 << 40} bytes]"


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (1, "[truncated: 0 of 4 names]"),
        (4, "aa\n[truncated: 1 of 4 names]"),
        (14, "aa\nbb/\ndddd\n[truncated: 3 of 4 names]"),
        (15, "aa\nbb/\ndddd\nü"),
    ],
)
def test_a_long_list_is_truncated_with_a_note(place: Place, limit: int, text: str) -> None:
    folder = place.root / "list"
    (folder / "bb").mkdir(parents=True)
    for name in ("aa", "ü", "dddd"):
        (folder / name).touch()

    assert call(Workspace(place.root, max_output_bytes=limit), "list_directory", {"path": "list"}).content == text


ERRORS: list[tuple[str, dict[str, JSON], str]] = [
    ("read_file", {"path": "none.txt"}, "none.txt: No such file or directory."),
    ("read_file", {"path": "sub"}, "sub: it is a folder, not a file."),
    ("read_file", {"path": "file.txt/"}, "file.txt/: this names a folder, not a file."),
    ("read_file", {"path": ""}, ".: this names a folder, not a file."),
    ("read_file", {"path": "binary"}, "binary: it is not a text file; byte 2 is not UTF-8."),
    ("read_file", {"path": "cut"}, "cut: it is not a text file; byte 2 is not UTF-8."),
    ("read_file", {"path": "odd"}, "odd: it is not a regular file."),
    ("write_file", {"path": "sub", "content": ""}, "sub: it is a folder, not a file."),
    ("write_file", {"path": "new/", "content": ""}, "new/: this names a folder, not a file."),
    ("write_file", {"path": "file.txt/new", "content": ""}, "file.txt/new: 'file.txt' is not a folder."),
    (
        "write_file",
        {"path": "new", "content": "\ud800"},
        "'content' contains half of a surrogate pair, which UTF-8 cannot encode.",
    ),
    ("list_directory", {"path": "none"}, "none: No such file or directory."),
    ("list_directory", {"path": "file.txt"}, "file.txt: 'file.txt' is not a folder."),
    ("read_file", {"path": "/etc/passwd"}, "the path '/etc/passwd' is absolute. Paths are relative to the workspace."),
    (
        "read_file",
        {"path": "../x"},
        "the path '../x' contains '..'. Paths are relative to the workspace and must stay in it.",
    ),
    (
        "read_file",
        {"path": "~/x"},
        "the path '~/x' begins with ~, which is not expanded. Paths are relative to the workspace.",
    ),
    (
        "read_file",
        {"path": "C:\\x"},
        ("the path 'C:\\\\x' contains a backslash or a colon. Separate folders by /; there are no drives or streams."),
    ),
    ("read_file", {"path": "a\0b"}, "the path 'a\\x00b' contains a control character or half of a surrogate pair."),
    ("read_file", {"path": "a" * 1025}, f"the path '{'a' * 77}...' is longer than 1024 bytes."),
    ("read_file", {"path": "a/" * 64 + "b"}, f"the path '{('a/' * 39)[:77]}...' is deeper than 64 folders."),
    (
        "read_file",
        {"path": "sub/x."},
        "the path 'sub/x.' contains a name that ends in a dot or a space, which Windows drops.",
    ),
    ("read_file", {"path": "sub/Aux.c"}, "the path 'sub/Aux.c' contains 'Aux.c', which is a device on Windows."),
    ("read_file", {"path": 5}, "'path' must be a string."),
    ("read_file", {"path": ["file.txt"]}, "'path' must be a string."),
    ("read_file", {"path": None}, "'path' must be a string."),
    ("read_file", {}, "read_file takes exactly these arguments: path."),
    ("read_file", {"path": "file.txt", "root": "/"}, "read_file takes exactly these arguments: path."),
    ("write_file", {"path": "new"}, "write_file takes exactly these arguments: path, content."),
    ("write_file", {"path": "new", "content": {"a": 1}}, "'content' must be a string."),
]


@pytest.mark.parametrize(("tool", "arguments", "text"), ERRORS)
def test_errors_say_what_is_wrong(place: Place, tool: str, arguments: dict[str, JSON], text: str) -> None:
    (place.root / "binary").write_bytes(b"ab\xff\xfe")
    (place.root / "cut").write_bytes(b"ab\xe2\x82")
    os.mkfifo(place.root / "odd")

    result = call(Workspace(place.root), tool, arguments)

    assert (result.is_error, result.text) == (True, text)
    assert not (place.root / "new").exists()
