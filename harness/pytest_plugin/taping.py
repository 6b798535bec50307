"""The fixture `tape`. It records the HTTP exchanges of a test once and replays them after that.

Requests are compared with the recording by meaning. They are also judged by the rules: a request that breaks a limit
fails the test even if the recording has a response to it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.audit.cassette_audit import Audit
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.client_patches import intercept_requests
from harness.cassettes.player import RequestDifference
from harness.cassettes.tape_player import TapePlayer, load
from harness.cassettes.tape_recorder import TapeExchange, TapeRecorder, redactor, request_filter, request_line
from harness.model.errors import CassetteMissing, HarnessError, UnknownName, UsageError
from harness.model.http import HttpRequest
from harness.platform.project import project
from harness.pytest_plugin import fact_selection_for
from harness.reports.words import count, place, plain_line, values
from harness.results import Finding, Outcome, Severity
from harness.rules.rule import Rule, all_rules

_TAPE = pytest.StashKey["Tape"]()
_SESSION = pytest.StashKey["TapeSession"]()

MARK = "tape"

_SETTINGS = ("allow_hosts", "cassette", "ignore", "judge")

_VCRPY_OPTIONS = frozenset(
    {
        "decode_compressed_response",
        "filter_headers",
        "filter_post_data_parameters",
        "filter_query_parameters",
        "match_on",
        "record_mode",
        "record_on_exception",
        "serializer",
    }
)
"""Options of pytest-recording's marks. A tape does not need them: it stores few headers, matches requests by meaning,
and records only on request.
"""

_FORBIDDEN = str.maketrans(dict.fromkeys(r"<>?%*:|\"'/" + "\\" + "".join(map(chr, range(32))), "-"))
"""Characters that some file systems reject. They are replaced as in pytest-recording, so that its cassettes are found.
"""

_MAX_NAME_CHARACTERS = 255
_SUFFIXES = (".yaml", ".yml", ".json")

_NO_KEY = "not-a-key"
"""Dummy key that clients find in the environment during playback."""


@dataclass(slots=True)
class TapeSession:
    """State that the tapes of a session share.

    It contains the facts and rules, the test that recorded each cassette, and the number of exchanges written. `forms`
    describes the exchanges that issue tokens, for which only the structure is stored.
    """

    fact_selection: FactSelection
    rules: Sequence[Rule]
    recorded: dict[Path, str] = field(default_factory=dict[Path, str])
    written: dict[Path, int] = field(default_factory=dict[Path, int])
    forms: dict[Path, list[str]] = field(default_factory=dict[Path, "list[str]"])


class Tape:
    """The tape of a test. `path` is its cassette. `recording` is set if the test is being recorded."""

    def __init__(self, item: pytest.Item, session: TapeSession, wanted: TapeSettings, *, recording: bool) -> None:
        self.path = wanted.cassette
        self.recording = recording
        self._item = item
        self._session = session
        self._settings = wanted
        is_recorded = request_filter(wanted.allow_hosts)
        self._cassette = None if recording else _cassette(self.path)
        self._tape = (
            TapeRecorder(is_recorded, wanted.allowed_secrets)
            if recording
            else TapePlayer(self._cassette, is_recorded, redactor, wanted.ignored_pointers)
        )
        self._checked = 0
        self._passed: bool | None = None

    @property
    def exchanges(self) -> Sequence[TapeExchange]:
        """The requests so far, each with its response."""
        return tuple(self._tape.exchanges)

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Context manager that records all HTTP clients in the process, or replays responses to them."""
        with intercept_requests(self._tape.handle):
            yield

    def end_call(self, *, passed: bool) -> None:
        """Check the exchanges after the call phase of the test. If there are problems, fail the test, or add them to
        the report if it has already failed.
        """
        self._passed = passed
        problems = self._problems()
        if problems and isinstance(self._tape, TapePlayer):
            problems += self._unused_problems(self._tape)
        if not problems:
            return
        self._passed = False if not self.recording else passed
        text = self._text(problems)
        if not passed:
            self._item.add_report_section("call", "harness tape", text)
        else:
            pytest.fail(text, pytrace=False)

    def end(self) -> None:
        """Finish the tape during the teardown of the test's fixtures. Write the recording, or fail the test for new
        problems and for recorded exchanges that it did not use.
        """
        if not self._passed:
            return
        if isinstance(self._tape, TapeRecorder):
            self._session.written[self._shown] = self._tape.save(self.path)
            self._session.forms[self._shown] = self._tape.forms
            return
        problems = [*self._problems(), *self._unused_problems(self._tape)]
        if problems:
            pytest.fail(self._text(problems), pytrace=False)

    def _problems(self) -> list[TapeProblem]:
        """Return the problems of the exchanges since the last check. Differences in spelling and findings that do not
        fail the test go into a report section.
        """
        exchanges = self.exchanges
        new = range(self._checked, len(exchanges))
        self._checked = len(exchanges)
        total = len(self._cassette.interactions) if self._cassette is not None else 0
        problems = [
            *differing(exchanges, new),
            *(unrecorded_problem(at + 1, exchanges[at], total) for at in new if exchanges[at].recorded is None),
        ]
        remarks = [
            spelling_note(at + 1, exchanges[at])
            for at in new
            if exchanges[at].differences and not any(each.changes_meaning for each in exchanges[at].differences)
        ]
        judged = self._judge(exchanges) if self._settings.judge and new else []
        for each in (each for each in judged if each.exchange is None or each.exchange in new):
            # The test knows of a refusal in the recording, and may be about it.
            if each.severity is Severity.ERROR and each.outcome is not Outcome.REFUSED:
                problems.append(TapeProblem(f"{each.rule}: {each.message}", finding(each), each.rule))
            elif each.severity is not Severity.NOTE:
                remarks.append(finding(each))
        if remarks:
            self._item.add_report_section("call", "harness tape", self._public("\n\n".join(remarks)))
        return problems

    def _judge(self, exchanges: Sequence[TapeExchange]) -> list[Finding]:
        audit = Audit(self._session.rules, self._session.fact_selection)
        audit.add(str(self.path), Cassette(tuple(Interaction(each.request, each.response) for each in exchanges)))
        found = (finding for cell in audit.result().cells for finding in cell.findings)
        return [
            replace(each, file=None, exchange=each.index)
            for each in found
            if each.rule not in self._settings.ignored_findings
        ]

    def _unused_problems(self, player: TapePlayer) -> list[TapeProblem]:
        return [unused_problem(index, request) for index, request in player.unused]

    def _text(self, problems: Sequence[TapeProblem]) -> str:
        command = f"pytest --harness-record={{}} {shlex.quote(self._item.nodeid)}"
        advice: list[str] = []
        if self.recording:
            head = "judged while it was recorded:"
        elif self._cassette is None:
            head = f"not checked: there is no cassette {self._shown}."
            advice.append(f"record it, with your keys: {command.format('missing')}")
        else:
            head = f"replayed from {self._shown}:"
            if any(each.rule is None for each in problems):
                advice.append(f"if it is meant to be so now, record it again, with your keys: {command.format('all')}")
        rules = dict.fromkeys(each.rule for each in problems if each.rule is not None)
        if rules:
            ignore = ", ".join(f'"{rule}"' for rule in rules)
            advice.append(
                "correct the request: the provider refuses it, even if a recording answers it. If it is right here, "
                f"exclude it with @pytest.mark.{MARK}(ignore=[{ignore}])"
            )
        first = [plain_line(problems[0].headline)] if problems and not self.recording else []
        text = "\n\n".join([*first, head, *(each.text for each in problems), *(f"to do: {each}" for each in advice)])
        return self._public(text)

    def _public(self, text: str) -> str:
        return redactor([each.request for each in self.exchanges]).text(text)

    @property
    def _shown(self) -> Path:
        root = self._item.config.rootpath
        return self.path.relative_to(root) if self.path.is_relative_to(root) else self.path


@contextmanager
def taped(request: pytest.FixtureRequest) -> Generator[Tape, None, None]:
    """Record the HTTP exchanges of a test, or replay them from its tape."""
    config, item = request.config, request.node
    if not config.pluginmanager.has_plugin(__name__):
        config.pluginmanager.register(sys.modules[__name__], __name__)
    with _plain_errors(), pytest.MonkeyPatch.context() as environment:
        session = _session(config)
        wanted = settings(item, session.fact_selection)
        mode = config.getoption("--harness-record")
        recording = mode == "all" or (mode == "missing" and not wanted.cassette.exists())
        if recording:
            _check_own(session, item, wanted.cassette)
        else:
            _give_keys(environment)
        tape = Tape(item, session, wanted, recording=recording)
        item.stash[_TAPE] = tape
        with tape.running():
            yield tape
        tape.end()


def _session(config: pytest.Config) -> TapeSession:
    if _SESSION not in config.stash:
        config.stash[_SESSION] = TapeSession(fact_selection_for(config, project(config.rootpath)), all_rules())
    return config.stash[_SESSION]


def _cassette(path: Path) -> Cassette | None:
    """Load a cassette, or return `None` if it does not exist. Raises `CassetteError`."""
    try:
        return load(path)
    except CassetteMissing:
        return None


def _check_own(session: TapeSession, item: pytest.Item, path: Path) -> None:
    """Check that no other test in this session records the same cassette. Raises `UsageError`."""
    other = session.recorded.setdefault(path, item.nodeid)
    if other != item.nodeid:
        raise UsageError(
            f"{item.nodeid}: its cassette {path.name} was recorded by {other} a moment ago. Give one of them a name of "
            f"its own: @pytest.mark.{MARK}(cassette=...)."
        )


def _give_keys(environment: pytest.MonkeyPatch) -> None:
    """Set dummy keys. Playback needs no keys, but clients cannot be created without them."""
    for wire in registry.apis():
        if wire.key_variables and not any(os.environ.get(name) for name in wire.key_variables):
            environment.setenv(wire.key_variables[0], _NO_KEY)


@contextmanager
def _plain_errors() -> Generator[None, None, None]:
    """Fail the test for a harness error, without a traceback."""
    last: str | None = None
    try:
        yield
    except HarnessError as error:
        last = str(error)
    if last is not None:  # not within: pytest would show both
        pytest.fail(last, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check the exchanges of a test with a tape at the end of its call phase."""
    tape = item.stash.get(_TAPE, None)
    try:
        result = yield
    except BaseException:
        if tape is not None:
            tape.end_call(passed=False)
        raise
    if tape is not None:
        tape.end_call(passed=True)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report the cassettes that tapes have written."""
    written = config.stash[_SESSION].written if _SESSION in config.stash else {}
    if any(written.values()):
        terminalreporter.section("harness: recorded")
        for path, number in written.items():
            if number:
                terminalreporter.line(f"{path}: {count(number, 'exchange')}")
                for each in config.stash[_SESSION].forms.get(path, ()):
                    terminalreporter.line(f"  brings new tokens, so only its form is in there: {each}")


_MAX_SHOWN_DIFFERENCES = 10
"""Maximum number of differences shown for a request."""


@dataclass(frozen=True, slots=True)
class TapeProblem:
    """A problem that fails a test.

    `headline` describes it in one line, which pytest's summary shows. `rule` is the broken rule or limit, if any.
    """

    headline: str
    text: str
    rule: str | None = None


def differing(exchanges: Sequence[TapeExchange], numbers: Sequence[int]) -> Iterator[TapeProblem]:
    """Yield a problem for each request that differs from the recorded one. Repeated differences are only described
    once.
    """
    listed: dict[tuple[str, ...], int] = {}
    for at in numbers:
        played = exchanges[at]
        found = tuple(each.message for each in played.differences if each.changes_meaning)
        if not found:
            continue
        head = f"request {at + 1}, {request_line(played.request)}, is not the recorded one (interaction {played.index})"
        headline = f"request {at + 1}: {_change_text(played.differences)}"
        if found in listed:
            yield TapeProblem(headline, _join([f"{head}: as request {listed[found] + 1}"]))
            continue
        listed[found] = at
        shown = [each for each in played.differences if each.changes_meaning][:_MAX_SHOWN_DIFFERENCES]
        more = [f"  and {len(found) - _MAX_SHOWN_DIFFERENCES} more"] if len(found) > _MAX_SHOWN_DIFFERENCES else []
        yield TapeProblem(headline, _join([f"{head}:", *(line for each in shown for line in _difference(each)), *more]))


def spelling_note(number: int, played: TapeExchange) -> str:
    """Describe differences in spelling that do not change the meaning of a request."""
    differences = "; ".join(each.message for each in played.differences[:_MAX_SHOWN_DIFFERENCES])
    return _join([f"request {number}, {request_line(played.request)}: means what was recorded, but {differences}"])


def unrecorded_problem(number: int, played: TapeExchange, total: int) -> TapeProblem:
    """Describe a request for which the cassette has no response left."""
    left = f": the cassette ({count(total, 'exchange')}) has none left for it" if total else ""
    headline = f"request {number}, {request_line(played.request)}, was not recorded"
    return TapeProblem(headline, _join([f"{headline}{left}"]))


def unused_problem(index: int, request: HttpRequest) -> TapeProblem:
    """Describe a recorded exchange whose request the test did not send."""
    headline = f"interaction {index}, {request_line(request)}, was not requested"
    return TapeProblem(headline, _join([headline]))


def finding(each: Finding) -> str:
    """Describe a finding."""
    lines = [f"{each.rule} ({each.kind}, {each.severity}): {each.message}"]
    if where := place(each):
        lines.append(f"  at:       {where}")
    lines += [f"  {f'{name}:':<9} {value}" for name, value in values(each)]
    lines += [f"    {line}" for line in each.piece]
    lines += [f"  to do:    {each.remedy}"] if each.remedy else []
    lines.append(f"  more:     harness explain {each.rule}")
    return _join(lines)


_PLACES = (
    (r"system\b", "the system prompt"),
    (r"turns\[\d+\]\.parts\[\d+\]\.payload", "a tool result"),
    (r"turns\[\d+\]\.parts\[\d+\]\.arguments", "the arguments of a call"),
    (r"turns\[\d+\]\.parts\[\d+\]\.text", "a text of the conversation"),
    (r"turns\b", "the conversation"),
    (r"tools\b", "a tool"),
    (r"model\b", "the model"),
    (r"settings\.(\w+)", r"the setting \1"),
)
"""Patterns for paths in the neutral view of a request, each with a readable name."""


def _change_text(differences: Sequence[RequestDifference]) -> str:
    """Describe the first difference that fails the test. Use the readable name of its path if `_PLACES` has one."""
    first = next(each for each in differences if each.changes_meaning)
    for pattern, words in _PLACES:
        match = re.match(pattern, first.place)
        if match is not None:
            change = first.message.removeprefix(first.place).removeprefix("system prompt").lstrip(":, ")
            return f"{match.expand(words)} has changed: {change}"
    return first.message


def _difference(each: RequestDifference) -> Sequence[str]:
    return [f"  {each.pointer or 'request'}", f"    {each.message}"] if each.pointer else [f"    {each.message}"]


def _join(lines: Sequence[str]) -> str:
    return "\n".join(plain_line(line) for line in lines)


# --- Settings of a tape: from the marks on the test, its class and its module, and from the options of the session ---


@dataclass(frozen=True, slots=True)
class TapeSettings:
    """Settings of a test's tape.

    `cassette` is the path of the cassette. `judge` is set if the exchanges are to be judged. `allow_hosts` lists hosts
    whose requests are not recorded. `ignored_findings` contains ids of limits and rules. `ignored_pointers` contains
    places in requests whose differences are ignored. `allowed_secrets` contains places where suspected secrets may be
    stored.
    """

    cassette: Path
    judge: bool
    allow_hosts: tuple[str, ...]
    ignored_findings: frozenset[str]
    ignored_pointers: tuple[str, ...]
    allowed_secrets: tuple[str, ...] = ()


def settings(item: pytest.Item, fact_selection: FactSelection) -> TapeSettings:
    """Return the settings of a test. The nearest mark takes precedence, but lists are joined.

    Raises:
        UsageError: a mark or the configuration has an invalid value.
    """
    marks = [_check(mark, item) for mark in item.iter_markers(MARK)]
    names = [mark["cassette"] for mark in marks if "cassette" in mark]
    judge = next((mark["judge"] for mark in marks if "judge" in mark), True)
    hosts = [
        *item.config.getini("harness_tape_allow_hosts"),
        *(each for mark in marks for each in _list(mark, "allow_hosts")),
    ]
    ignored = [*item.config.getini("harness_tape_ignore"), *(each for mark in marks for each in _list(mark, "ignore"))]
    pointers = tuple(each for each in ignored if each.startswith("/"))
    ids = frozenset(ignored) - {*pointers}
    if ids:
        from harness.runner.verdicts import known_finding_ids  # noqa: PLC0415 - who ignores nothing need not wait for it

        known = known_finding_ids(fact_selection)
        for each in sorted(ids - {*known}):
            raise UnknownName("limit or rule", each, [*known], f"{item.nodeid}: ignore")
    allowed = (
        *item.config.getini("harness_tape_allow_secrets"),
        *(item.config.getoption("--harness-allow-secret") or ()),
    )
    return TapeSettings(_path(item, names[0] if names else None), judge, tuple(hosts), ids, pointers, allowed)


def _check(mark: pytest.Mark, item: pytest.Item) -> dict[str, Any]:
    place = f"{item.nodeid}: @pytest.mark.{MARK}"
    given: dict[str, Any] = {**mark.kwargs}
    if len(mark.args) > 1 or (mark.args and "cassette" in given):
        raise UsageError(f"{place}: a test has only one cassette, but the mark names more.")
    if mark.args:
        given["cassette"] = mark.args[0]
    for name, value in given.items():
        if name in _VCRPY_OPTIONS:
            raise UsageError(f"{place}: {name} is a setting of vcrpy that tapes do not need. Remove it.")
        if name not in _SETTINGS:
            raise UnknownName("setting", name, _SETTINGS, place)
        if name in ("allow_hosts", "ignore") and not _is_list(value):
            raise UsageError(f"{place}: {name} must be a list of strings.")
        if name == "cassette" and not (isinstance(value, str | Path) and str(value)):
            raise UsageError(f"{place}: cassette must be the name of a file.")
        if name == "judge" and not isinstance(value, bool):
            raise UsageError(f"{place}: judge must be True or False.")
    return given


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("Sequence[Any]", value))


def _list(mark: dict[str, Any], name: str) -> Sequence[str]:
    return mark.get(name, ())


def _path(item: pytest.Item, name: str | Path | None) -> Path:
    """Return the path of the cassette. By default it is `cassettes/MODULE/TEST.yaml` next to the module, as in
    pytest-recording.
    """
    folder = item.path.parent / "cassettes" / item.path.stem
    if name is not None:
        path = folder / name
        return path if path.suffix in _SUFFIXES else path.with_name(f"{path.name}.yaml")
    owner = getattr(item, "cls", None)
    plain = f"{owner.__name__}.{item.name}" if owner is not None else item.name
    stem = plain.translate(_FORBIDDEN)
    if len(stem) + len(_SUFFIXES[0]) > _MAX_NAME_CHARACTERS:
        digest = hashlib.md5(stem.encode(), usedforsecurity=False).hexdigest()
        stem = f"{stem[: _MAX_NAME_CHARACTERS - len(_SUFFIXES[0]) - len(digest) - 3]}...{digest}"
    path = folder / f"{stem}.yaml"
    other = folder / f"{stem}.json"
    return other if other.exists() and not path.exists() else path
