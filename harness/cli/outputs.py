"""Outputs: the reports of `--report FORMAT[:PATH]`, reports for CI servers, and files of saved runs."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cli.main import print_error
from harness.cli.options import ReportOptions
from harness.model.errors import FileError, HarnessError, UsageError
from harness.platform import files, project
from harness.platform.files import read_file
from harness.reports import REPORTS
from harness.reports.ci_reports import MAX_ANNOTATIONS, RepositoryLine, annotation, path_in
from harness.results import Checkout, Presentation, Report, RunResult, Severity

_DEFAULT_COLUMNS = 120
_READABLE_REPORTS = frozenset({"terminal", "markdown"})


@dataclass(frozen=True, slots=True)
class Output:
    """A report and its file (`None`: standard output)."""

    report: Report
    path: Path | None

    @property
    def shows_terminal(self) -> bool:
        """Return whether this is the terminal report on standard output."""
        return self.path is None and self.report.name == "terminal"

    @property
    def is_file(self) -> bool:
        """Return whether the output is a regular file rather than the screen, a pipe or a device."""
        return self.path is not None and (self.path.is_file() or not self.path.exists())

    @property
    def form(self) -> str | None:
        """The file extension that selects one of the report's forms. It is empty if nothing selects a form, and `None`
        for an unknown extension.
        """
        if self.path is None or not self.report.forms:
            return ""
        ending = self.path.suffix.lower()
        return ending if ending in self.report.forms else None if self.is_file else ""

    def write(self, run: RunResult, presentation: Presentation) -> None:
        """Write the report of the run. Raises `UsageError` if the file cannot be written."""
        root, today = pipeline().root, dt.datetime.now(dt.UTC).date()
        self._put(run, replace(presentation, root=root, form=self.form or "", today=today))

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        shown = on_screen(presentation) if self.path is None else presentation
        write(lambda: self.report.make(run, shown), self.report.name, self.path)

    def compare(self, before: RunResult, run: RunResult, presentation: Presentation) -> None:
        """Write the changes between two runs. Raises `UsageError` if the file cannot be written."""
        shown = on_screen(presentation) if self.path is None else presentation
        if self.report.compare is not None:
            text = self.report.compare(before, run, shown)
            write(lambda: [text], self.report.name, self.path)


class Annotations(Output):
    """Annotations for GitHub Actions. They go to standard error, because standard output may contain another report."""

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        text = self.report.render(run, presentation).removesuffix("\n")
        if text:
            print_error(text)


@dataclass(frozen=True, slots=True)
class Summary(Output):
    """Step summary in GitHub Actions, appended to `file`. If this fails, the run prints a message and continues."""

    file: Path = Path()

    def _put(self, run: RunResult, presentation: Presentation) -> None:
        try:
            room = _MAX_SUMMARY_BYTES - (self.file.stat().st_size if self.file.exists() else 0)
            if room < _MIN_SUMMARY_BYTES:
                print_error(
                    f"harness: the summary of this step is full ({_MAX_SUMMARY_BYTES:,} bytes): nothing is added to it."
                )
                return
            text = self.report.render(run, replace(presentation, max_bytes=room - 1))
            with self.file.open("a", encoding="utf-8", errors="backslashreplace") as summary:
                summary.write(text)
        except OSError as error:
            print_error(f"harness: GITHUB_STEP_SUMMARY {self.file}: nothing is added to it: {error.strerror}.")


def private_run_file() -> str:
    """Return the path of a trial's JSON file, which `harness reproduce` reads. Create its folder, which Git ignores."""
    folder = Path(".harness")
    folder.mkdir(exist_ok=True)
    ignoring = folder / ".gitignore"
    if not ignoring.exists():
        ignoring.write_text("*\n", encoding="utf-8")
    return str(folder / "try.json")


def current_checkout() -> Checkout:
    """Return the project in the working folder, and its commit."""
    here = Path()
    return Checkout(project.project_name(here), project.commit(here))


def outputs(given: Sequence[str]) -> list[Output]:
    """Return the outputs for the values of `--report`. Add the terminal report unless another report goes to standard
    output.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `destinations`; or the report has no form for the suffix of its file.
    """
    made = [Output(REPORTS.load(name), path) for name, path in destinations(given)]
    for each in made:
        name, forms = each.report.name, each.report.forms
        if each.form is None:
            raise UsageError(
                f"--report {name}:{each.path}: it is written as {' or '.join(forms)}. "
                f"Name a file that ends so, as in --report {name}:{name}{forms[0]}."
            )
    return made


def comparison_outputs(given: Sequence[str]) -> list[Output]:
    """Return the outputs of reports that show the changes between two runs.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `outputs`; or a report cannot show changes.
    """
    made = outputs(given)
    for each in made:
        if each.report.compare is None:
            page = " 'harness report NOW.json --against BEFORE.json' makes it." if each.report.compares else ""
            raise UsageError(f"--report {each.report.name}: terminal, json and markdown show what has changed.{page}")
    return made


def with_pipeline(given: Sequence[str]) -> list[Output]:
    """Return the outputs for the values of `--report`. In GitHub Actions, add annotations and a summary.

    Raises:
        UnknownName: there is no such report.
        UsageError: see `outputs`.
    """
    made, server = outputs(given), pipeline()
    if server.annotates and not any(each.report.name == "github" for each in made):
        made.append(Annotations(REPORTS.load("github"), None))
    summary = server.summary
    if summary is not None and not any(each.path and _same(each.path, summary) for each in made):
        made.append(Summary(REPORTS.load("markdown"), None, summary))
    return made


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def destinations(given: Sequence[str]) -> list[tuple[str, Path | None]]:
    """Return the format and the file of each value of `--report`. The file `None` means standard output.

    The terminal report comes first unless another report goes to standard output.

    Raises:
        UsageError: two reports go to standard output or to the same file, or a file cannot be written.
    """
    made: list[tuple[str, Path | None]] = []
    for value in given:
        name, colon, path = value.partition(":")
        if colon and not path:
            raise UsageError(f"--report {value!r}: a file must follow the colon, as in --report {name}:{name}.out.")
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
    """Write a report. `pieces` may be called twice. Raises `UsageError` if the file cannot be written."""
    if path is None:
        guarded = name in _READABLE_REPORTS and pipeline().annotates
        sys.stdout.writelines(map(harmless, pieces()) if guarded else pieces())
        return

    def data() -> Iterable[bytes]:
        # File names on the command line need not be UTF-8. Their odd bytes become escapes that JSON understands.
        return (piece.encode("utf-8", "backslashreplace") for piece in pieces())

    try:
        if not _replace(path, data):
            with path.open("wb") as file:
                file.writelines(data())
    except OSError as error:
        raise _unwritable(name, path, error) from None


_NO_REPLACEMENT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG})
"""Error numbers that mean that no file can be created in a folder, although the file itself may be writable."""


def _replace(path: Path, data: Callable[[], Iterable[bytes]]) -> bool:
    """Replace a file atomically. Return false if no file can be created in its folder, or if it is
    a pipe or a device.
    """
    target = Path(os.path.realpath(path))  # `resolve` refuses links that go in a circle
    if target.exists() and not target.is_file():
        return False
    try:
        permissions = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        files.replace_file(target, data(), permissions)
    except OSError as error:
        if error.errno in _NO_REPLACEMENT:
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


def presentation_of(args: ReportOptions, *, all_differences: bool = False) -> Presentation:
    """Return the presentation that the options select. Raises `UsageError` if they request both
    more and less output.
    """
    if args.quiet and (args.verbose or all_differences):
        more = "-v" if args.verbose else "--all-differences"
        raise UsageError(f"-q: it shows less, and {more} more. Use only one of them.")
    return Presentation(verbose=args.verbose, quiet=args.quiet, all_differences=all_differences)


def on_screen(presentation: Presentation) -> Presentation:
    """Return the presentation with the width and colours of standard output."""
    return replace(presentation, colour=_has_colours(), width=shutil.get_terminal_size((_DEFAULT_COLUMNS, 24)).columns)


def _has_colours() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


_MAX_SUMMARY_BYTES = 1_000_000
"""Maximum size of a step summary. GitHub rejects larger ones: "upload aborted, supports content up to a size of 1024k".
"""

_MIN_SUMMARY_BYTES = 4 << 10

_COMMAND = re.compile(r"^(\s*):(?=:)|##(?=\[)", re.MULTILINE)
"""Workflow commands that the GitHub Actions runner recognises in output (actions/runner, `ActionCommand.cs`)."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A CI server.

    `root` is the root folder of the repository, or empty. `summary` is the file of a step summary. `annotates` is set
    if the server reads annotations from the output.
    """

    root: str = ""
    annotates: bool = False
    summary: Path | None = None


def pipeline() -> Pipeline:
    """Detect GitHub Actions, GitLab CI or Jenkins from environment variables."""
    environment = os.environ
    if environment.get("GITHUB_ACTIONS") == "true":
        summary = environment.get("GITHUB_STEP_SUMMARY")
        root, file = environment.get("GITHUB_WORKSPACE", ""), Path(summary) if summary else None
        return Pipeline(root, annotates=True, summary=file)
    if environment.get("GITLAB_CI") == "true":
        return Pipeline(environment.get("CI_PROJECT_DIR", ""))
    return Pipeline(environment.get("WORKSPACE", "") if "JENKINS_URL" in environment else "")


def harmless(text: str) -> str:
    """Return the text without workflow commands for the GitHub Actions runner. A model or a server
    may have sent some.
    """
    return _COMMAND.sub(lambda match: f"{match[1]}: " if match[1] is not None else "## ", text)


def _annotation(error: HarnessError, root: str) -> str:
    """Return an error as an annotation for GitHub Actions, on the line of its file if it has one."""
    if not isinstance(error, FileError):
        return annotation(Severity.ERROR, "harness", " ".join(str(error).split()), None)
    file = path_in(error.file, root)
    line = RepositoryLine(file, error.line or 1) if file else None
    message = f"{error.key}: {error.reason}" if error.key else error.reason
    return annotation(Severity.ERROR, "harness", message if line else str(error), line)


def annotate_errors(errors: Sequence[HarnessError]) -> bool:
    """Print errors as annotations, up to the number that GitHub shows. Return false outside GitHub Actions."""
    server = pipeline()
    for error in errors[:MAX_ANNOTATIONS] if server.annotates else ():
        print_error(_annotation(error, server.root))
    return server.annotates


_MAX_RUN_BYTES = 256 << 20
"""Maximum size of a saved run: 16 times the archive of the built-in suite."""


def load_run(path: Path, option: str = "") -> RunResult:
    """Load a saved run. `option` is the command-line option that names the file, for error messages.

    Raises:
        UsageError: the file cannot be read, is too large, or does not contain a run.
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
    named_as_other = f"{named}: this is not the report of a run. 'harness run --report json:{path.name}' writes one."
    try:
        return RunResult.from_json(data.decode())
    except json.JSONDecodeError as error:
        if not data.lstrip().startswith(b"{"):
            raise UsageError(named_as_other) from None
        raise UsageError(
            f"{named}: this is not complete JSON (line {error.lineno}, column {error.colno}: {error.msg}), so the file "
            f"was cut. 'harness run --report json:{path.name}' writes it again."
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(named_as_other) from None
