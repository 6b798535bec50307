"""One worker process, seen from the run: started, asked, and ended when it breaks, hangs or is no longer needed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import wait

from harness.catalog import MARK
from harness.contract.errors import UsageError
from harness.contract.model import ToolCall
from harness.contract.process import Command
from harness.contract.protocols import ProcessRunner
from harness.host.crash import TRACEBACK_LENGTH, place
from harness.host.shortened import shortened
from harness.running.play import Playing
from harness.running.serving.order import MAX_TOOL_RUNS
from harness.running.workers.allowance import Allowance
from harness.running.workers.messages import (
    CUT_OFF,
    LARGEST,
    Answer,
    Begin,
    Described,
    Driven,
    Failed,
    Go,
    Job,
    Load,
    NotRun,
    Order,
    Played,
    Ran,
    RunCommand,
    RunTool,
    Stop,
    Stopped,
    ToolAnswered,
    Unusable,
    decode_answer,
    encode,
)
from harness.running.workers.output import Output

OUTPUT_LENGTH = 4000
"""Bytes that are kept of what an adapter prints while one cell is played."""

_START = (
    "import sys; sys.path[:] = sys.argv[3:]; from harness.running.workers.child import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)

_TIMEOUT = "; --cell-timeout sets the limit (under pytest, harness_cell_timeout)"
_LONGER = "; a longer --cell-timeout allows it more (under pytest, harness_cell_timeout)"

_SLICE = 0.5
"""Seconds after which a process is looked at that neither says something nor closes what it could say it through: what
it has started may hold that open. So much of a stop of this process counts as well."""

_GRACE = 2.0
"""Seconds for a worker to end in good order."""

_STACKS = 1.0
"""Seconds for one that hangs to say where."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+) in ')
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass
class Broken(Exception):
    """The adapter broke outside of a chat, or ended or held its process. `alive`: its worker can go on."""

    reason: str
    traceback: str | None = None
    printed: str = ""
    alive: bool = False

    def __str__(self) -> str:
        return self.reason


def started(connection: int, faults: int, output: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A new process that runs `harness.running.workers.child.main` with these file descriptors."""
    return subprocess.Popen(  # noqa: S603 - this Python, with code of ours
        [sys.executable, "-c", _START, str(connection), str(faults), *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(connection, faults),
        env=environment,
        start_new_session=True,  # a group of its own, so that what it starts ends with it, and Ctrl-C is ours
    )


class Worker:
    """A process that has loaded one adapter. One thread at a time asks it; any may `kill` it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._connection, theirs = Pipe()
        self._output, self._faults = Output(OUTPUT_LENGTH), Output(2 * TRACEBACK_LENGTH)
        with theirs:
            self._process = started(theirs.fileno(), self._faults.writing, self._output.writing, environment)
        for each in (self._output, self._faults):
            each.close_writing()

    def load(self, spec: str, limit: float) -> Described:
        """Let it import an adapter.

        Raises:
            UsageError: it cannot be used.
            Broken: it ended or held the process.
        """
        allowance = Allowance(limit)
        self._tell(Load(spec))
        match self._answer(allowance, f"importing it took longer than {limit:g} seconds", _LONGER):
            case Described() as description:
                return description
            case Unusable(reason):
                printed = " ".join(self._printed().split()) if spec.startswith(MARK) else ""
                raise UsageError(f"{reason} It printed: {printed}" if printed else reason)
            case other:
                raise AssertionError(other)

    def play(self, job: Job, begin: Callable[[int], None], processes: ProcessRunner | None) -> Playing:
        """Let it play a cell, for which `begin` is called before each chat, and `processes` runs its commands.

        Raises:
            UsageError: the adapter cannot be used so.
            Broken: it broke outside of a chat, or ended or held the process.
        """
        allowance = Allowance(job.limit)
        late = f"the adapter did not come back within {job.limit:g} seconds"
        stopped: Exception | None = None
        self._tell(job)
        while True:
            match self._answer(allowance, late, _TIMEOUT):
                case Begin() | RunCommand() if stopped is not None:
                    self._tell(Stop())
                case Begin(chat):
                    try:
                        begin(chat)
                    except Exception as error:  # noqa: BLE001 - raised again once the client is closed
                        stopped = error
                    self._tell(Go() if stopped is None else Stop())
                case RunCommand(command, timeout):
                    try:
                        with allowance.waiting(timeout) as seconds:
                            self._tell(_run(processes, command, seconds))
                    except Exception as error:  # noqa: BLE001 - the same
                        stopped = error
                        self._tell(Stop())
                case answer:
                    return self._outcome(answer, stopped)

    def drive(self, job: Job, tool: Callable[[ToolCall], ToolAnswered]) -> Driven:
        """Let it drive a loop through a cell, of which `tool` runs the tools.

        Raises:
            UsageError: the loop cannot be used so.
            Broken: it ended or held the process.
        """
        allowance = Allowance(job.limit)
        runs = 0
        self._tell(job)
        while True:
            match self._answer(allowance, f"the loop took longer than {job.limit:g} seconds", _TIMEOUT):
                case RunTool() if runs == MAX_TOOL_RUNS:
                    self.kill()
                    raise Broken(
                        f"the loop was stopped: it ran more than {runs} tools in one conversation",
                        None,
                        self._printed(),
                    )
                case RunTool(call):
                    runs += 1
                    self._tell(tool(call))
                case Driven() as driven:
                    return replace(driven, printed=self._printed())
                case answer:
                    self._outcome(answer, None)

    def close(self) -> None:
        """End it in good order, and at once if it does not."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self.kill()
        for each in (self._output, self._faults):
            each.close()

    def kill(self) -> None:
        """End it now, with all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing of it is left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # should it have left its group
        self._process.wait()

    def _outcome(self, answer: Answer, stopped: Exception | None) -> Playing:
        printed = self._printed()
        if stopped is not None:
            raise stopped
        match answer:
            case Played(playing):
                return replace(playing, printed=printed)
            case Failed(reason, traceback):
                raise Broken(reason, traceback, printed, alive=True)
            case Unusable(reason):
                raise UsageError(reason)
            case Stopped():
                raise Broken("the adapter ended its own playing", None, printed)
            case _:
                raise AssertionError(answer)

    def _printed(self) -> str:
        self._output.drain()
        return self._output.take()

    def _tell(self, order: Order) -> None:
        with contextlib.suppress(OSError):  # it has ended, which is seen where its answer is awaited
            self._connection.send_bytes(encode(order))

    def _answer(self, allowance: Allowance, late: str, way_out: str) -> Answer:
        while True:
            if allowance.left <= 0:
                raise self._hanging(late, way_out)
            streams = [stream for stream in (self._output, self._faults) if stream.is_open]
            with allowance.waiting(_SLICE) as seconds:
                ready = wait([self._connection, *(stream.fileno() for stream in streams)], seconds)
                for stream in streams:
                    stream.drain()
            if self._connection in ready:
                try:
                    return decode_answer(self._connection.recv_bytes(LARGEST))
                except (EOFError, OSError):
                    raise self._ended() from None
                except ValueError as error:
                    self.kill()
                    raise Broken(
                        f"what the adapter's process sent cannot be read: {error}", None, self._printed()
                    ) from None
            if self._process.poll() is not None and not self._connection.poll():
                raise self._ended()

    def _hanging(self, late: str, way_out: str) -> Broken:
        """It took too long: ask where it is, and end it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(_SHOW_STACKS)
        if self._faults.is_open and wait([self._faults.fileno()], _STACKS):
            time.sleep(_STACKS / 10)  # it writes line by line
        self.kill()
        stacks, where = self._stacks()
        return Broken(f"{late}{where}{way_out}", stacks, self._printed())

    def _ended(self) -> Broken:
        try:
            status = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            status = CUT_OFF
        self.kill()  # with what it has left behind
        stacks, where = self._stacks()
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            return Broken(f"the adapter's process was ended by {name}{where}", stacks, self._printed())
        if status == CUT_OFF:
            return Broken("the adapter closed its process's connection to the run", stacks, self._printed())
        return Broken(f"the adapter ended the process with exit code {status}", stacks, self._printed())

    def _stacks(self) -> tuple[str | None, str]:
        """What the process said of its threads when it was ended, and the line to look at."""
        self._faults.drain()
        text = _ADDRESS.sub("0x...", self._faults.take())
        if not text:
            return None, ""
        current = text[max(text.find("Current thread"), 0) :].partition("\n\n")[0]
        frames = [(name, int(line)) for name, line in _FRAME.findall(current)]
        return shortened(text, TRACEBACK_LENGTH), place(frames[::-1])


_SHOW_STACKS = signal.SIGUSR2  # `harness.running.workers.child.SHOW_STACKS`, of which nothing else is needed here


def _run(processes: ProcessRunner | None, command: Command, timeout: float) -> Order:
    if processes is None:
        return NotRun("no commands are run here")
    try:
        return Ran(processes.run(command, timeout))
    except TimeoutError as error:
        return NotRun(str(error), timed_out=True)
    except OSError as error:
        return NotRun(error.strerror or str(error), error.errno)
