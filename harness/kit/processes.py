"""Runs commands on this machine, for adapters of command-line programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile

from harness.model.process import Command, Completed


class LocalRunner:
    """Runs each command in an empty temporary folder."""

    def run(self, command: Command, timeout: float) -> Completed:
        """See `harness.model.protocols.ProcessRunner.run`."""
        environment = {name: os.environ[name] for name in command.inherited if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as folder:
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell; the adapter's own command, its prompt on stdin
                    command.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env={**environment, **command.environment},
                    start_new_session=True,  # its own process group, which `_kill` kills whole
                )
            except ValueError as error:  # a null byte among the arguments
                raise OSError(str(error)) from error
            try:
                stdout, stderr = process.communicate(command.stdin.encode(), timeout)
            except BaseException as error:
                _kill(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeoutError(f"{command.argv[0]} has not ended after {timeout:g} seconds") from error
                raise
        return Completed(process.returncode, _text(stdout), _text(stderr))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # the command has just ended
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
