"""Allowed and refused programs of `run_command`, their output and their end."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.kit import workspace
from harness.kit.workspace import Workspace
from harness.model.errors import UsageError
from harness.model.messages import JSON, ToolResult
from tests.kit.workspace.conftest import SECRET, Place, call

PYTHON = {"python": Path(sys.executable)}

if not hasattr(os, "killpg"):
    pytest.skip("Windows has no process groups", allow_module_level=True)


def run(place: Place, *command: JSON, **bounds: float) -> ToolResult:
    limit = int(bounds.pop("max_output_bytes", 65_536))
    workspace = Workspace(place.root, commands=PYTHON, max_output_bytes=limit, timeout=bounds.pop("timeout", 60))
    return call(workspace, "run_command", {"command": [*command]})


def python(place: Place, code: str, *arguments: str, **bounds: float) -> ToolResult:
    return run(place, "python", "-c", code, *arguments, **bounds)


TOLD = """if True:
    import json, os, sys
    told = {"folder": os.getcwd(), "argv": sys.argv[1:], "environment": dict(os.environ), "input": sys.stdin.read()}
    try:
        told["descriptor"] = os.read(900, 100)
    except OSError as error:
        told["descriptor"] = error.strerror
    print(json.dumps(told | {"leads": os.getsid(0) == os.getpid()}))
    sys.stdout.flush()
    sys.stderr.write("no\\n")
    sys.exit(3)
"""


def test_a_program_has_its_arguments_and_nothing_else_of_ours(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, input, terminal or open file; its exit code and what it writes come back."""
    for name in ("ANTHROPIC_API_KEY", "LD_LIBRARY_PATH", "PYTHONPATH", "HTTPS_PROXY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, SECRET)
    arguments = ["a b", "$HOME", "; echo x", "*", ""]
    with (place.outside / "file.txt").open() as file:
        os.dup2(file.fileno(), 900, inheritable=True)
        try:
            result = python(place, TOLD, *arguments)
        finally:
            os.close(900)

    assert isinstance(result.content, dict)
    assert (result.content["exit_code"], result.is_error) == (3, False)
    reported, *rest = str(result.content["output"]).splitlines()
    assert rest == ["no"]
    assert json.loads(reported) == {
        "folder": str(place.root),
        "argv": arguments,
        "environment": {
            "PATH": f"{Path(sys.executable).parent}:/bin:/usr/bin",
            "HOME": str(place.root),
            "LANG": "C.UTF-8",
        },
        "input": "",
        "descriptor": "Bad file descriptor",
        "leads": True,
    }
    killed = python(place, "import os; os.kill(os.getpid(), 9)")
    assert killed.content == {"exit_code": -9, "output": ""}


def test_nothing_runs_unless_it_is_allowed(place: Place) -> None:
    assert "run_command" not in [tool.name for tool in Workspace(place.root).tools]

    result = place.call("run_command", command=["ls"])

    assert (result.is_error, result.text) == (
        True,
        "there is no tool 'run_command' here. Tools: read_file, write_file, list_directory.",
    )


REFUSED: dict[str, JSON] = {
    "another program": ["sh", "-c", "touch made"],
    "by its path": [sys.executable, "-c", "open('made', 'w')"],
    "by a relative path": ["./python"],
    "by a path with an allowed name": ["../python", "-c", "open('made', 'w')"],
    "other case": ["PYTHON", "-c", "open('made', 'w')"],
    "NUL behind the name": ["python\0", "-c", "open('made', 'w')"],
    "space behind the name": ["python ", "-c", "open('made', 'w')"],
    "look-alike": ["рython", "-c", "open('made', 'w')"],
    "a shell's line": ["python -c \"open('made', 'w')\""],
    "an assignment": ["PYTHONPATH=.", "python"],
    "an option": ["-c"],
    "the empty name": [""],
    "nothing": [],
    "a string": "python -c \"open('made', 'w')\"",
    "a number in it": ["python", 1],
    "a list in it": [["python"]],
    "an object": {"argv": ["python"]},
    "null": None,
}


@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED)
def test_a_command_that_is_not_allowed_does_not_run(place: Place, command: JSON) -> None:
    before = place.elsewhere()

    result = call(Workspace(place.root, commands=PYTHON), "run_command", {"command": command})

    assert result.is_error
    assert len(result.text) < 300
    assert place.elsewhere() == before
    assert not [*place.root.rglob("made")]


def test_refusals_say_what_is_wrong(place: Place) -> None:
    allowed = "Allowed, by these names and without a path: python."
    assert run(place, "sh").text == f"'sh' is not allowed. {allowed}"
    assert run(place).text == f"the command is empty. {allowed}"
    assert run(place, 1).text == (
        "'command' must be a list of strings: the program and its arguments; there is no shell."
    )
    for argument in ("\0", "\ud800"):
        assert (
            python(place, f"open('made', 'w'){argument}").text
            == "python cannot be started: an argument cannot be passed to a program."
        )
    assert run(place, "python", "x" * 5_000_000).text == "python cannot be started: Argument list too long."
    workspace = Workspace(place.root, commands={"tool": executable(place.outside / "other")})
    (place.outside / "other").unlink()
    gone = call(workspace, "run_command", {"command": ["tool"]})
    assert (gone.is_error, gone.text) == (True, "tool cannot be started: No such file or directory.")


def test_the_workspace_cannot_stand_in_for_a_program(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a name on PATH, nor by a link outside that leads through one in the workspace, which changes later."""
    real = executable(place.outside / "real", "echo real")
    (place.root / "hop").symlink_to(real)
    (place.outside / "tool").symlink_to(place.root / "hop")
    workspace = Workspace(place.root, commands={"echo": Path("/bin/echo"), "tool": place.outside / "tool"})
    (place.root / "hop").unlink()
    (place.root / "bin").mkdir()
    for name in ("echo", "bin/echo", "hop"):
        executable(place.root / name, "cat ../outside/file.txt")
    monkeypatch.setenv("PATH", f"{place.root}:{place.root}/bin:.")
    monkeypatch.chdir(place.root)

    for command, output in ((["echo", "hi"], "hi\n"), (["tool"], "real\n")):
        assert call(workspace, "run_command", {"command": command}).content == {"exit_code": 0, "output": output}


def in_the_workspace(place: Place) -> Path:
    return executable(place.root / "tool")


def by_the_working_folder(place: Place) -> Path:
    executable(place.root / "tool")
    return Path("tool")


def link_into_the_workspace(place: Place) -> Path:
    (place.outside / "tool").symlink_to(executable(place.root / "tool"))
    return place.outside / "tool"


def link_in_the_workspace(place: Place) -> Path:
    (place.root / "tool").symlink_to(executable(place.outside / "tool"))
    return place.root / "tool"


def folder_that_is_a_link_into_the_workspace(place: Place) -> Path:
    (place.outside / "bin").symlink_to(place.root / "sub")
    (place.root / "sub" / "tool").symlink_to(executable(place.outside / "tool"))
    return place.outside / "bin" / "tool"


def executable(path: Path, line: str = "") -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "make",
    [
        in_the_workspace,
        by_the_working_folder,
        link_into_the_workspace,
        link_in_the_workspace,
        folder_that_is_a_link_into_the_workspace,
    ],
)
@pytest.mark.parametrize("searched", [True, False])
def test_a_program_in_the_workspace_cannot_be_allowed(
    place: Place, monkeypatch: pytest.MonkeyPatch, make: object, searched: bool
) -> None:
    assert callable(make)
    monkeypatch.chdir(place.root)
    path: Path = make(place)
    monkeypatch.setenv("PATH", str(path.parent))

    with pytest.raises(UsageError, match=r"the command 'tool' is inside the workspace \(.*tool\), where tools could"):
        Workspace(place.root, commands=["tool"] if searched else {"tool": path.absolute()})


@pytest.mark.parametrize("name", ["bin/ls", "/bin/ls", "../ls", ""])
def test_a_program_is_allowed_by_a_bare_name(place: Place, name: str) -> None:
    with pytest.raises(UsageError, match="must be allowed by its bare name"):
        Workspace(place.root, commands=[name])


def test_a_program_that_is_not_there_cannot_be_allowed(place: Place) -> None:
    with pytest.raises(UsageError, match="there is no program 'no-such-program' to allow as a command"):
        Workspace(place.root, commands=["no-such-program"])
    with pytest.raises(UsageError, match=r"there is no program '.*file.txt' to allow"):
        Workspace(place.root, commands={"tool": place.outside / "file.txt"})


def test_commands_are_refused_where_they_could_not_be_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg")

    with pytest.raises(UsageError, match="commands cannot be allowed on Windows"):
        Workspace(place.root, commands=PYTHON)
    Workspace(place.root)


def test_a_command_does_not_run_in_another_folder(place: Place) -> None:
    workspace = Workspace(place.root, commands=PYTHON)
    place.root.rename(place.root.with_name("moved"))
    place.root.symlink_to(place.outside)

    result = call(workspace, "run_command", {"command": ["python", "-c", "open('made', 'w')"]})

    assert (result.is_error, result.text) == (True, "the workspace's folder was deleted or replaced.")
    assert not (place.outside / "made").exists()


def test_long_output_is_bounded_while_it_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    real = workspace.excerpt
    monkeypatch.setattr(workspace, "excerpt", lambda data, *rest: (kept.append(len(data)), real(data, *rest))[1])

    result = python(place, "print('é' * 1_000_000)", max_output_bytes=1001)

    cut = "é" * 500 + "\n[truncated: the first 1000 of 2000001 bytes]"
    assert result.content == {"exit_code": 0, "output": cut}
    assert kept == [1001]


CHILD = """if True:
    import os, sys, time
    if os.fork() == 0:
        {detach}
        os.write(os.open({fifo!r}, os.O_WRONLY), b"child %d " % os.getpid())
        time.sleep(1000)
    print("parent", flush=True)
    {then}
"""


@pytest.fixture
def fifo(place: Place) -> Iterator[int]:
    """Our end of a FIFO into which a child writes: it is at its end as soon as no child has it open."""
    path = place.outside / "fifo"
    os.mkfifo(path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield handle
    os.close(handle)


def child(place: Place, then: str, detach: str = "") -> str:
    return CHILD.format(fifo=str(place.outside / "fifo"), then=then, detach=detach)


def said_until_its_end(fifo: int) -> bytes:
    said = b""
    while select.select([fifo], [], [], 30)[0]:
        block = os.read(fifo, 100)
        if not block:
            return said
        said += block
    pytest.fail("a child is still alive")


def clock(is_late: Callable[[], bool]) -> Callable[[], float]:
    """Return a clock that stops until an event, and then jumps with every reading but the first."""
    time = 0.0
    has_happened = False

    def look() -> float:
        nonlocal time, has_happened
        if has_happened:
            time += 1e9
        has_happened = has_happened or is_late()
        return time

    return look


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_a_time_limit_and_an_interruption_end_a_program_that_never_stops_talking(
    place: Place, fifo: int, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    said = b""

    def has_started() -> bool:
        nonlocal said
        if not said and select.select([fifo], [], [], 0.01)[0]:
            said = os.read(fifo, 100)
        started = bool(said) and (place.root / "now").exists()
        if started and is_interrupted:
            raise KeyboardInterrupt
        return started

    monkeypatch.setattr(workspace, "monotonic", clock(has_started))
    code = child(place, "print('y' * 100_000); open('now', 'w')  # more than a pipe holds\n    while True: print('y')")

    if is_interrupted:
        with pytest.raises(KeyboardInterrupt):
            python(place, code)
    else:
        text = python(place, code, timeout=0.5, max_output_bytes=9).text
        why = "not done within 0.5 seconds, so it and its children were killed."
        assert text.startswith(f"{why} Its output until then:\nparent\nyy\n[truncated: the first 9 of ")
        assert len(text) < 200
    assert said.startswith(b"child ")
    said_until_its_end(fifo)


@pytest.mark.parametrize("has_waitid", [True, False])
def test_processes_that_a_program_leaves_are_killed(
    place: Place, fifo: int, monkeypatch: pytest.MonkeyPatch, has_waitid: bool
) -> None:
    if not has_waitid:
        monkeypatch.delattr(os, "waitid", raising=False)
    wait = f"os.open({str(place.outside / 'fifo')!r}, os.O_RDONLY); sys.exit(4)"

    result = python(place, child(place, wait))

    assert result.content == {"exit_code": 4, "output": "parent\n"}
    said_until_its_end(fifo)


def test_a_process_outside_the_group_does_not_block(place: Place, fifo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_GRACE_SECONDS", 0.05)
    ready = "while os.stat('left').st_size == 0: time.sleep(0.01)"
    detach = "os.setsid(); open('left', 'w').write(str(os.getpid()))"
    (place.root / "left").touch()
    try:
        result = python(place, child(place, ready, detach))

        assert result.content == {"exit_code": 0, "output": "parent\n"}
    finally:
        with suppress(ValueError, ProcessLookupError):
            os.kill(int((place.root / "left").read_text()), signal.SIGKILL)
    said_until_its_end(fifo)
