"""Common parts of the checks of servers and gateways: settings, headers, reports and commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from harness.apis.fact_files import FactSelection
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url
from harness.checks.finding_scope import FindingPolicy
from harness.cli.check import EndpointOptions, GatewayOptions, ServerOptions
from harness.cli.outputs import current_checkout, presentation_of, with_pipeline
from harness.cli.progress import PartialReports, interruptible
from harness.cli.settings import fact_files, fact_options, scope_for, settings
from harness.kit import factories
from harness.model.errors import UnknownName, UsageError
from harness.platform.project import NamedGateway, NamedServer
from harness.results import Mode, RunResult
from harness.runner import expected_failures

_SETTINGS_ONLY = ("headers", "url", "models", "upstream_models")  # keys whose form differs from the option's
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING_HEADERS = ("content-length", "transfer-encoding")

PROBE_SECONDS = 5.0
"""Time limit in seconds of a question that finds out what a server is."""

T = TypeVar("T", bound=EndpointOptions)


RunCheck: TypeAlias = Callable[[FactSelection, Redactor, FindingPolicy, bool, PartialReports], RunResult]
"""Function that runs a check. It takes the facts, a redactor, a policy for findings, whether to keep the exchanges of
all cells, and the partial reports.
"""


def run_check(
    options: EndpointOptions,
    models: Sequence[str],
    mode: Mode,
    known: Callable[[FactSelection], Collection[str]],
    check: RunCheck,
) -> RunResult:
    """Run a check and write its reports. `known` returns the ids that its findings can have."""
    redactor = redactor_of(options, models)
    with redactor.redact_exceptions():
        by = fact_options(options.as_of, fact_files(options.facts))
        wanted, presentation, facts = (
            with_pipeline(options.reports or ()),
            presentation_of(options),
            (*map(str, by.files),),
        )
        reports = PartialReports(wanted, mode, presentation, None, facts)
        conversations = any(each.report.wants_conversations for each in wanted)
        try:
            with interruptible():
                file = options.expected_failures
                policy = FindingPolicy(
                    scope_for(options.rules, options.ignored, settings(), by),
                    expected_failures.load(Path(file), known(by)) if file else [],
                    strict=bool(options.strict),
                )
                made = check(by, redactor, policy, conversations, reports)
                shown = replace(made.invocation, show=options.show)
                result = replace(made, facts=facts, checkout=current_checkout(), invocation=shown)
        except BaseException as error:
            reports.stop(error)
            raise
        for output in wanted:
            output.write(result, presentation)
    return result


def redactor_of(options: EndpointOptions, models: Sequence[str]) -> Redactor:
    """Return a redactor for the requests of a check with these models and for their answers."""
    return Redactor.of_run([options.url], shaped=True, models=models, headers=headers_of(options))


def complete_from_settings(kind: str, args: T) -> tuple[T, NamedServer | NamedGateway | None]:
    """Return the options, completed by the settings of the named server or gateway.

    Raises:
        UnknownName: the project has servers or gateways, and none has this name.
        UsageError: the settings or the URL are wrong.
    """
    own = settings()
    known: Mapping[str, NamedServer | NamedGateway] = own.servers if kind == "server" else own.gateways
    found = known.get(args.url)
    if found is None and known and ":" not in args.url and "/" not in args.url:
        raise UnknownName(kind, args.url, tuple(known), f"check {kind}")
    if not factories.is_base_url(args.url if found is None else found.url):
        at = f"check {kind}" if found is None else f"{found.place}.url"
        raise UsageError(f"{at}: {factories.INVALID_BASE_URL}")
    if found is None:
        return args, None
    values: dict[str, Any] = {
        each.name: getattr(found, each.name)
        for each in fields(args)
        if each.name not in _SETTINGS_ONLY and not getattr(args, each.name) and getattr(found, each.name, None)
    }
    if args.strict is not None:
        values.pop("strict", None)
    origin = {"name": args.url, "table": found.place, "from_table": frozenset(values), "variables": found.headers}
    return replace(args, **values, **origin, url=found.url), found


def headers_of(options: EndpointOptions, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the headers by lower-case name. Headers from the command line replace headers from the settings.

    Raises:
        UsageError: a header cannot be sent, or its variable is not set. The message contains no value.
    """
    found: dict[str, str] = {}
    for name, variable in options.variables.items():
        at = f"{options.table}.headers.{name}"
        if variable not in environ:
            raise UsageError(f"{at}: the variable {variable} is not set.")
        found[_header_name(name, at)] = _header_value(environ[variable], f"{at}: the value of {variable}")
    for each in options.headers or ():
        name, colon, value = each.partition(":")
        if not colon:
            raise UsageError("--header: it must be 'NAME: VALUE', as in 'x-team: search'.")
        found[_header_name(name.strip(), "--header")] = _header_value(value, f"--header {name.strip()}: its value")
    return found


def _header_name(name: str, place: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise UsageError(f"{place}: this is not a header name.")
    if name.lower() in _FRAMING_HEADERS:
        raise UsageError(f"{place}: {name} belongs to the request's body and cannot be chosen.")
    return name.lower()


def _header_value(value: str, subject: str) -> str:
    value = value.strip()
    if not value or not value.isascii() or not value.isprintable():
        raise UsageError(f"{subject} must be printable ASCII, and not empty.")
    return value


def repeat_words(args: EndpointOptions, options: EndpointOptions, kind: str) -> Iterator[str]:
    """Yield the words of a command that repeats this check. Header values are omitted."""
    yield from ("harness", "check", kind, options.name or display_url(options.url))
    yield from () if args.api is None else ("--api", args.api)
    if isinstance(args, GatewayOptions):
        yield from () if args.upstream_port is None else ("--upstream-port", str(args.upstream_port))
        yield from () if args.command is None else ("--command", args.command)
    elif isinstance(args, ServerOptions):
        yield from (word for model in args.models or () for word in ("--model", model))
    for header in args.headers or ():
        yield from ("--header", f"{header.partition(':')[0].strip()}: VALUE")
    yield from ("--strict",) if args.strict else ()
    yield from () if args.as_of is None else ("--as-of", args.as_of)
    yield from (word for file in fact_files(args.facts) for word in ("--facts", str(file)))
