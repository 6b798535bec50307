"""`--report FORMAT[:PATH]`: which reports are wanted, and where they go; and those that a CI server gets unasked."""

from __future__ import annotations

import datetime as dt
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness import catalog
from harness.cli import streams
from harness.cli.options import Reported
from harness.contract.errors import FileError, HarnessError, UsageError
from harness.host import files
from harness.host.files import read_file
from harness.reports.annotations import MAX_ANNOTATIONS, RepositoryLine, annotation, path_in
from harness.results import Presentation, Report, RunResult, Severity

_WIDTH = 120
"""Columns where there is no terminal to ask."""

_FOR_PEOPLE = frozenset({"terminal", "markdown"})
"""Reports whose spelling no program depends on."""


@dataclass(frozen=True, slots=True)
class Output:
    """A report, and the file that it goes to (`None`: standard output)."""

    report: Report
    path: Path | None

    @property
    def shows_terminal(self) -> bool:
        """Whether this is the report for people, on the screen."""
        return self.path is None and self.report.name == "terminal"

    @property
    def is_file(self) -> bool:
        """Whether it goes to a file that is there afterwards, rather than to the screen, a pipe or a device."""
        return self.path is not None and (self.path.is_file() or not self.path.exists())

    @property
    def form(self) -> str | None:
        """The form that the ending of the file asks for; empty where nothing asks, `None` where it is none."""
        if self.path is None or not self.report.forms:
            return ""
        ending = self.path.suffix.lower()
        return ending if ending in self.report.forms else None if self.is_file else ""

    def write(self, run: RunResult, presentation: Presentation) -> None:
        """Render the run. Raises `UsageError` if the file cannot be written."""
        root, today = pipeline().root, dt.datetime.now(dt.UTC).date()
        self._put(run, replace(presentation, root=root, form=self.form or "", today=today))

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        shown = on_screen(presentation) if self.path is None else presentation
        write(lambda: self.report.made(run, shown), self.report.name, self.path)

    def compare(self, before: RunResult, run: RunResult, presentation: Presentation) -> None:
        """Render what has changed, of a report that can. Raises `UsageError` if the file cannot be written."""
        shown = on_screen(presentation) if self.path is None else presentation
        if self.report.compare is not None:
            text = self.report.compare(before, run, shown)
            write(lambda: [text], self.report.name, self.path)


class Annotations(Output):
    """The report that GitHub Actions reads off a step's output."""

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        annotate(self.report, run, presentation)


@dataclass(frozen=True, slots=True)
class Summary(Output):
    """The report that GitHub Actions shows of a step, added to `file`."""

    file: Path = Path()

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        summarise(self.report, self.file, run, presentation)


def outputs(given: Sequence[str]) -> list[Output]:
    """What the values of `--report` ask for. The terminal report is shown unless another one is.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `destinations`; or a report does not have the form of its file.
    """
    made = [Output(catalog.REPORTS.load(name), path) for name, path in destinations(given)]
    for each in made:
        name, forms = each.report.name, each.report.forms
        if each.form is None:
            raise UsageError(
                f"--report {name}:{each.path}: it is written as {' or '.join(forms)}. "
                f"Name a file that ends so, as in --report {name}:{name}{forms[0]}."
            )
    return made


def comparing(given: Sequence[str]) -> list[Output]:
    """The same, of reports that can show what has changed from one run to another.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `outputs`; or one cannot.
    """
    made = outputs(given)
    for each in made:
        if each.report.compare is None:
            page = " 'harness report NOW.json --against BEFORE.json' makes it." if each.report.compares else ""
            raise UsageError(f"--report {each.report.name}: terminal, json and markdown show what has changed.{page}")
    return made


def with_pipeline(given: Sequence[str]) -> list[Output]:
    """The same of a command that plays or judges, and what a CI server gets unasked: annotations and a summary in
    GitHub Actions, unless they were asked for.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `outputs`.
    """
    made, server = outputs(given), pipeline()
    if server.annotates and not any(each.report.name == "github" for each in made):
        made.append(Annotations(catalog.REPORTS.load("github"), None))
    summary = server.summary
    if summary is not None and not any(each.path and _same(each.path, summary) for each in made):
        made.append(Summary(catalog.REPORTS.load("markdown"), None, summary))
    return made


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def destinations(given: Sequence[str]) -> list[tuple[str, Path | None]]:
    """Formats and the files that they go to (`None`: standard output), the terminal first unless another is shown.

    Raises:
        UsageError: two of them want the screen, or a file cannot be written there. Known before anything is played.
    """
    made: list[tuple[str, Path | None]] = []
    for value in given:
        name, colon, path = value.partition(":")
        if colon and not path:
            raise UsageError(f"--report {value!r}: a file has to follow the colon, as in --report {name}:{name}.out.")
        made.append((name, _writable(name, Path(path)) if colon else None))
    on_screen = [name for name, path in made if path is None]
    if len(on_screen) > 1:
        raise UsageError(
            f"--report: only one report can go to the screen, not {' and '.join(on_screen)}. "
            f"Give the others a file, as in --report {on_screen[-1]}:PATH."
        )
    files = [path for _, path in made if path is not None]
    for file in files:
        if sum(_same(file, other) for other in files) > 1 and not file.is_char_device():
            raise UsageError(f"--report: {file} would be written twice. Give each report a file of its own.")
    return made if on_screen else [("terminal", None), *made]


def write(pieces: Callable[[], Iterable[str]], name: str, path: Path | None) -> None:
    """Put a report where it goes; its `pieces` may be asked for twice. Raises `UsageError` if the file cannot be
    written."""
    if path is None:
        guarded = name in _FOR_PEOPLE and pipeline().annotates
        sys.stdout.writelines(map(harmless, pieces()) if guarded else pieces())
        return

    def data() -> Iterable[bytes]:
        # A file name of the command line need not be UTF-8; its odd bytes become escapes that JSON understands.
        return (piece.encode("utf-8", "backslashreplace") for piece in pieces())

    try:
        if not _replaced(path, data):
            with path.open("wb") as file:
                file.writelines(data())
    except OSError as error:
        raise _unwritable(name, path, error) from None


_NO_ROOM_BESIDE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG})
"""A folder in which nothing can be made, a file that is mounted by itself, or a name that nothing can be added to: the
file takes writing all the same."""


def _replaced(path: Path, data: Callable[[], Iterable[bytes]]) -> bool:
    """Write a file as a whole or not at all. That needs room in its folder: false if no other file can be made there,
    or if it is a pipe or a device."""
    target = Path(os.path.realpath(path))  # `resolve` refuses links that go in a circle
    if target.exists() and not target.is_file():
        return False
    try:
        permissions = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        files.replace_file(target, data(), permissions)
    except OSError as error:
        if error.errno in _NO_ROOM_BESIDE:
            return False
        raise
    return True


def _writable(name: str, path: Path) -> Path:
    if path.is_dir():
        raise UsageError(f"--report {name}:{path}: this is a folder. Name a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(name, path, error) from None
    return path


def _unwritable(name: str, path: Path, error: OSError) -> UsageError:
    return UsageError(f"--report {name}:{path}: cannot be written: {error.strerror}. Name another file.")


def presented(typed: Reported, *, all_differences: bool = False) -> Presentation:
    """Return how a run is to be shown. Raises `UsageError`: both more and less of it was asked for."""
    if typed.quiet and (typed.verbose or all_differences):
        more = "-v" if typed.verbose else "--all-differences"
        raise UsageError(f"-q: it shows less, and {more} more. Leave one out.")
    return Presentation(verbose=typed.verbose, quiet=typed.quiet, all_differences=all_differences)


def on_screen(presentation: Presentation) -> Presentation:
    """How it is to be shown on standard output: in colours if that is a terminal that takes them, as wide as it is."""
    return replace(presentation, colour=_has_colours(), width=shutil.get_terminal_size((_WIDTH, 24)).columns)


def _has_colours() -> bool:
    """Whether standard output takes colours, by the variables that everybody reads; the first that speaks counts."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


_MAX_SUMMARY_BYTES = 1_000_000
"""Bytes of the summary of one step. GitHub takes none of a summary of more than 1024k ("upload aborted, supports
content up to a size of 1024k", also of one "of 1024k": actions/runner; read on 2026-11-23)."""

_LEAST = 4 << 10
"""Bytes that a summary is worth."""

_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)
"""Where a runner of GitHub Actions reads a command in a line of output (actions/runner, `ActionCommand.cs`)."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a CI server says of itself in the environment. `root` is the folder at the top of the repository, empty if
    nobody says it; `annotates`: it reads annotations off the output; `summary` is the file to which a step adds what
    is to be shown."""

    root: str = ""
    annotates: bool = False
    summary: Path | None = None


def pipeline() -> Pipeline:
    """The server by its own variables: GitHub Actions, GitLab CI or Jenkins; an empty one elsewhere."""
    environment = os.environ
    if environment.get("GITHUB_ACTIONS") == "true":
        summary = environment.get("GITHUB_STEP_SUMMARY")
        root, file = environment.get("GITHUB_WORKSPACE", ""), Path(summary) if summary else None
        return Pipeline(root, annotates=True, summary=file)
    if environment.get("GITLAB_CI") == "true":
        return Pipeline(environment.get("CI_PROJECT_DIR", ""))
    return Pipeline(environment.get("WORKSPACE", "") if "JENKINS_URL" in environment else "")


def harmless(text: str) -> str:
    """What is shown to people in GitHub Actions, without what its runner would take for a command: a model, a server or
    an adapter may have said it."""
    return _COMMAND.sub(lambda match: f"{match[1]}: " if match[1] is not None else "## ", text)


def refusal(error: HarnessError, root: str) -> str:
    """What a command refuses, as an annotation for GitHub Actions: in the line of the file that it is about, if it is
    about one."""
    if not isinstance(error, FileError):
        return annotation(Severity.ERROR, "harness", " ".join(str(error).split()), None)
    file = path_in(error.file, root)
    line = RepositoryLine(file, error.line or 1) if file else None
    said = f"{error.key}: {error.reason}" if error.key else error.reason
    return annotation(Severity.ERROR, "harness", said if line else str(error), line)


def refuse(errors: Sequence[HarnessError]) -> bool:
    """Annotate what a command refuses, as much of it as GitHub shows; false where nobody reads annotations."""
    server = pipeline()
    for error in errors[:MAX_ANNOTATIONS] if server.annotates else ():
        streams.tell(refusal(error, server.root))
    return server.annotates


def annotate(report: Report, run: RunResult, presentation: Presentation) -> None:
    """Say the annotations on standard error: the runner reads both streams, and standard output may be a report's."""
    said = report.render(run, presentation).removesuffix("\n")
    if said:
        streams.tell(said)


def summarise(report: Report, file: Path, run: RunResult, presentation: Presentation) -> None:
    """Add the report to a step's summary, as much of it as there is room for. A summary that cannot be written changes
    nothing about the run, and is said."""
    try:
        room = _MAX_SUMMARY_BYTES - (file.stat().st_size if file.exists() else 0)
        if room < _LEAST:
            streams.tell(
                f"harness: the summary of this step is full ({_MAX_SUMMARY_BYTES:,} bytes): nothing is added to it."
            )
            return
        text = report.render(run, replace(presentation, most=room - 1))
        with file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(text)
    except OSError as error:
        streams.tell(f"harness: GITHUB_STEP_SUMMARY {file}: nothing is added to it: {error.strerror}.")


_MAX_RUN_BYTES = 256 << 20
"""Bytes of a file that are read. The archive of the shipped suite has a sixteenth of that."""


def read(path: Path, option: str = "") -> RunResult:
    """The run in a file, which an `option` named.

    Raises:
        UsageError: it cannot be read, or is no run.
    """
    named = f"{option} {path}".strip()
    try:
        data = read_file(path, _MAX_RUN_BYTES)
    except OSError as error:
        raise UsageError(f"{named}: cannot be read: {error.strerror}.") from None
    if len(data) > _MAX_RUN_BYTES:
        raise UsageError(
            f"{named}: larger than {_MAX_RUN_BYTES >> 20} MiB, the most that the report of a run may have."
        )
    try:
        return RunResult.from_json(data.decode())
    except (ValueError, RecursionError):
        raise UsageError(
            f"{named}: this is not the report of a run. 'harness run --report json:{path.name}' writes one."
        ) from None
