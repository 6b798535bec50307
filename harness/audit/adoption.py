"""Adoption of vcrpy and pytest-recording cassettes for `@pytest.mark.tape`.

The files are replayed unchanged. The report lists cassettes that cannot be replayed, cassettes that contain secrets,
and tests that will fail because a request exceeds a limit.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from harness.apis.fact_files import SHIPPED, FactSelection
from harness.audit.cassette_audit import Audit, candidate_files, looks_like_cassette
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import write_file
from harness.cassettes.tape_player import load
from harness.cassettes.tape_recorder import api_of, learn_secrets, redactor, request_as_stored, response_as_stored, text
from harness.model.errors import CassetteError
from harness.platform.environment import is_secret_header
from harness.platform.files import read_file
from harness.results import Finding, Severity
from harness.rules.rule import all_rules
from harness.rules.unchanged_prefix import PREFIX_CHANGED

_MARK = re.compile(rb"\bmark\.vcr\b")
_MAX_FILE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class FoundCassette:
    """A cassette file and its problems.

    `exchanges` counts exchanges by API and model, or by host. `unplayable` explains why the file cannot be replayed.
    `secrets` lists where secrets are. `broken` holds the limits that its requests exceed, each with the index of the
    first such request. `changed_prefix` is the first finding of `prefix-changed`. `kept` is the path
    of the copy without secrets, `unwritten` the reason why no copy was written.
    """

    file: Path
    exchanges: Mapping[str, int]
    unplayable: str | None = None
    secrets: tuple[str, ...] = ()
    broken: tuple[tuple[str, int], ...] = ()
    changed_prefix: Finding | None = None
    kept: Path | None = None
    unwritten: str | None = None


def adopt_cassettes(
    paths: Sequence[Path], to: Path | None = None, fact_selection: FactSelection = SHIPPED, allowed: Sequence[str] = ()
) -> Iterator[FoundCassette]:
    """Inspect the given cassette files and all cassettes in the given folders.

    With `to`, write a copy of each cassette without secrets into that folder, unless the file already exists. The
    originals stay unchanged. `allowed` lists places in which suspected secrets are accepted.

    Raises:
        CassetteError: a folder contains no possible cassette.
        CassetteMissing: a path does not exist.
        FactsError: a facts file is invalid.
    """
    roots = [path for path in paths if path.is_dir()]
    for file, named in candidate_files(paths):
        try:
            cassette = load(file)
        except CassetteError as error:
            if named or looks_like_cassette(file):
                yield FoundCassette(file, {}, _reason(error))
            continue
        found = _describe_cassette(file, cassette, fact_selection)
        yield found if to is None or found.unplayable else _keep(found, cassette, to / _place(file, roots), allowed)


def marked_tests(paths: Sequence[Path]) -> list[Path]:
    """Return the Python files in folders that mark tests with `pytest.mark.vcr`."""
    found = {file for path in paths if path.is_dir() for file in path.rglob("*.py") if _has_mark(file)}
    return sorted(found)


def _describe_cassette(file: Path, cassette: Cassette, fact_selection: FactSelection) -> FoundCassette:
    exchanges = Counter(_api_and_model(each) for each in cassette.interactions)
    silent = [at for at, each in enumerate(cassette.interactions) if each.response is None]
    unplayable = f"interaction {silent[0]} has no answer" if silent else None
    if not cassette.interactions:
        unplayable = "it contains no exchange"
    findings = _findings(file, cassette, fact_selection)
    prefix = next(
        (each for each in findings if each.rule == PREFIX_CHANGED and each.case not in {"key-order", "call-spelling"}),
        None,
    )
    return FoundCassette(file, exchanges, unplayable, tuple(_secrets(cassette)), tuple(_broken_rules(findings)), prefix)


def _api_and_model(interaction: Interaction) -> str:
    request = interaction.request
    wire = api_of(request)
    if wire is None:
        return urlsplit(request.url).netloc.rpartition("@")[2] or "nowhere"
    model = wire.model_of(request)
    return f"{wire.name} {model}" if model else wire.name


def _secrets(cassette: Cassette) -> Iterator[str]:
    """Yield the locations of secrets: names of headers, and bodies and URLs that redaction would change."""
    requests = [each.request for each in cassette.interactions]
    clean = redactor(requests, learn_secrets(cassette.interactions))
    named = Counter[str]()
    for at, each in enumerate(cassette.interactions):
        stored = request_as_stored(each.request, clean)
        answer = each.response and response_as_stored(each.request, each.response, clean)
        for side, message, kept in (("request", each.request, stored), ("response", each.response, answer)):
            if message is None or kept is None:
                continue
            named.update(
                f"{side} header {name}" for name, value in message.headers.items() if _holds_secret(name, value)
            )
            if kept.body != message.body:
                named[f"body of {side} {at}"] += 1
        if clean.url(each.request.url) != each.request.url:
            named[f"URL of request {at}"] += 1
    for name, number in named.items():
        yield f"{name} ({number})" if " header " in name and number > 1 else name


def _holds_secret(name: str, value: str) -> bool:
    """Return whether a header contains an unredacted secret."""
    plain = value.removeprefix("Bearer ").strip("*.<>[]() ")
    return is_secret_header(name) and len(plain) >= 8 and plain.upper() not in _PLACEHOLDERS


_PLACEHOLDERS = frozenset({"REDACTED", "FILTERED", "SCRUBBED", "DUMMY-KEY", "PLACEHOLDER", "FAKE-API-KEY", "NOT-A-KEY"})


def _findings(file: Path, cassette: Cassette, fact_selection: FactSelection) -> list[Finding]:
    audit = Audit(all_rules(), fact_selection)
    audit.add(str(file), cassette)
    return [each for cell in audit.result().cells for each in cell.findings]


def _broken_rules(findings: Sequence[Finding]) -> Iterator[tuple[str, int]]:
    first: dict[str, int] = {}
    for each in findings:
        if each.severity is Severity.ERROR:
            first.setdefault(each.rule, each.index or 0)
    yield from first.items()


def _keep(found: FoundCassette, cassette: Cassette, path: Path, allowed: Sequence[str]) -> FoundCassette:
    if os.path.lexists(path):
        return replace(found, unwritten=f"{path} already exists and is not overwritten")
    note = f"Recorded elsewhere; copied from {found.file.name} by harness on {dt.datetime.now(dt.UTC).date()}."
    try:
        write_file(path, text(cassette, note, str(path), allowed, "--allow-secret"))
    except CassetteError as error:
        return replace(found, unwritten=_reason(error))
    return replace(found, kept=path)


def _place(file: Path, roots: Sequence[Path]) -> Path:
    """Return the relative path in the target folder. It keeps the folder structure of the original and gets the suffix
    `.yaml`."""
    inside = next((file.relative_to(root) for root in roots if file.is_relative_to(root)), Path(file.name))
    return inside.with_suffix(".yaml")


def _reason(error: CassetteError) -> str:
    return f"{error.place}: {error.reason}" if error.place else error.reason


def _has_mark(file: Path) -> bool:
    try:
        return _MARK.search(read_file(file, _MAX_FILE_BYTES)) is not None
    except OSError:
        return False
