"""Starter files for adapters, loops and agents. Each passes its check, and marks the place for the user's library."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from harness.model.errors import UsageError

STARTERS = {
    "python": ("adapter.py", "my_adapter.py", "harness check my_adapter:ADAPTER"),
    "conversation": ("loop.py", "my_loop.py", "harness check agent my_loop:drive --api openai-chat"),
    "agent": ("agent.py", "my_agent.py", "harness check agent --agent-command 'python3 my_agent.py' --api openai-chat"),
    "command": ("adapter.mjs", "my_adapter.mjs", "harness check --adapter-command 'node my_adapter.mjs'"),
}
"""Kind → shipped file, name of the written file, command that checks it."""


def write_starter(kind: str, folder: Path) -> tuple[Path, str]:
    """Write a starter into a folder. Return its path and the command that checks it.

    Raises:
        UsageError: there is such a file already, or it cannot be written.
    """
    shipped, name, command = STARTERS[kind]
    file = folder / name
    text = (resources.files("harness.checks.starters") / shipped).read_text(encoding="utf-8")
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise UsageError(f"--init {kind}: {name} is there already, and is left as it is.") from None
    except OSError as error:
        raise UsageError(f"--init {kind}: {name} cannot be written: {error.strerror}.") from None
    return file, command
