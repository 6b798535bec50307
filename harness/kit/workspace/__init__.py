"""Tools for a model that works in a folder: read, write, list and, if allowed, run commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from harness.kit.workspace.commands import Commands
from harness.kit.workspace.folder import WorkspaceFolder, excerpt, names_of, quoted
from harness.model.errors import ToolFailed, UsageError
from harness.model.messages import JSON, Tool, ToolCall, ToolResult

_PATH: dict[str, JSON] = {"type": "string", "description": "Relative to the workspace, with / between the folders."}


def _parameters(**properties: JSON) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


_READ = Tool("read_file", "Read a text file of the workspace.", _parameters(path=_PATH))
_WRITE = Tool(
    "write_file",
    "Write a text file of the workspace: a new one, with the folders that it needs, or in the place of an old one.",
    _parameters(path=_PATH, content={"type": "string", "description": "The whole file."}),
)
_LIST = Tool(
    "list_directory",
    "List a folder of the workspace: a name a line, folders with a slash behind it. The workspace itself is '.'.",
    _parameters(path=_PATH),
)


def _run_command(names: Sequence[str]) -> Tool:
    described = f"The program and its arguments, one by one; there is no shell. Programs: {', '.join(names)}."
    return Tool(
        "run_command",
        "Run a program in the workspace's folder. Gives its exit code and its output.",
        _parameters(command={"type": "array", "items": {"type": "string"}, "description": described}),
    )


class Workspace:
    """Real tools for the folder `root`.

    Put `tools` into a request or, as YAML, into a scenario. `run` is a `harness.model.protocols.ToolFunction`:

        workspace = Workspace("my-project", commands=["node"])
        thread = Thread(ChatRequest(tools=workspace.tools))
        thread.send(client, "Update the header.", workspace.run)

    A command may take `timeout` seconds. `max_output_bytes` limits each result, as UTF-8; the last line of a truncated
    result says so. The size of written files is not limited.

    File access is confined to the folder (`harness.kit.workspace.folder`), with a documented gap on Windows. **Commands
    are not confined**; read `harness.kit.workspace.commands` before you allow one. Without `commands`, the tool
    `run_command` does not exist.

    Raises:
        UsageError: `root` is not a folder, a limit is not positive, or a command cannot be allowed.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        commands: Mapping[str, Path] | Sequence[str] = (),
        timeout: float = 10.0,
        max_output_bytes: int = 65_536,
    ) -> None:
        if not Path(root).is_dir():
            raise UsageError(f"{root}: the workspace must be a folder. Create it first.")
        if timeout <= 0 or max_output_bytes <= 0:
            raise UsageError("the timeout and max_output_bytes of a workspace must be greater than 0.")
        resolved = Path(root).resolve()
        self._folder = WorkspaceFolder(resolved)
        self._commands = Commands(commands, resolved)
        self._timeout = timeout
        self._limit = max_output_bytes
        self._functions: dict[str, tuple[Tool, Callable[[dict[str, JSON]], JSON]]] = {
            _READ.name: (_READ, self._read_file),
            _WRITE.name: (_WRITE, self._write_file),
            _LIST.name: (_LIST, self._list_directory),
        }
        if self._commands.names:
            tool = _run_command(self._commands.names)
            self._functions[tool.name] = (tool, self._run_command)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools to offer to a model."""
        return tuple(tool for tool, _ in self._functions.values())

    def run(self, call: ToolCall) -> ToolResult:
        """Run a call.

        Raises:
            ToolFailed: the call was rejected or failed. A thread converts it to an error result.
        """
        if call.name not in self._functions:
            raise ToolFailed(f"there is no tool {quoted(call.name)} here. Tools: {', '.join(self._functions)}.")
        tool, function = self._functions[call.name]
        properties = tool.parameters["properties"]
        known = [*properties] if isinstance(properties, dict) else []
        if {*known} != {*call.arguments}:
            raise ToolFailed(f"{call.name} takes exactly these arguments: {', '.join(known)}.")
        return ToolResult(call.id, call.name, function(call.arguments))

    def _read_file(self, arguments: dict[str, JSON]) -> str:
        names = _file(arguments)
        data, total = self._folder.read(names, self._limit)
        try:
            return excerpt(data, total)
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{'/'.join(names)}: it is not a text file; byte {error.start} is not UTF-8.") from None

    def _write_file(self, arguments: dict[str, JSON]) -> str:
        names = _file(arguments)
        try:
            data = _text(arguments, "content").encode()
        except UnicodeEncodeError:
            raise ToolFailed("'content' holds half of a surrogate pair, which UTF-8 cannot write.") from None
        self._folder.write(names, data)
        return f"wrote {len(data)} bytes to {'/'.join(names)}"

    def _list_directory(self, arguments: dict[str, JSON]) -> str:
        names = names_of(_text(arguments, "path"))
        entries, total = self._folder.entries(names, self._limit // 2 + 1)  # a line has at least two bytes
        ends = accumulate(len(entry.encode()) + 1 for entry in entries)
        shown = [entry for entry, end in zip(entries, ends, strict=True) if end <= self._limit]
        return "\n".join(shown + ([f"[truncated: {len(shown)} of {total} names]"] if len(shown) < total else []))

    def _run_command(self, arguments: dict[str, JSON]) -> JSON:
        command = arguments["command"]
        words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
        if words != command:
            raise ToolFailed("'command' has to be a list of strings: the program and its arguments; there is no shell.")
        self._folder.check()
        return {**self._commands.run(words, self._timeout, self._limit)}


def _file(arguments: dict[str, JSON]) -> tuple[str, ...]:
    path = _text(arguments, "path")
    names = names_of(path)
    if not names or path.endswith("/"):
        raise ToolFailed(f"{path or '.'}: this names a folder, not a file.")
    return names


def _text(arguments: dict[str, JSON], name: str) -> str:
    value = arguments[name]
    if not isinstance(value, str):
        raise ToolFailed(f"{name!r} has to be a string.")
    return value
