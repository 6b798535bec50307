"""Rules about requests: one per chat, within the provider's limits, with the caller's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from harness.apis.jsonvalue import as_list, as_object, equal, join, parse_body, resolve, walk
from harness.apis.response_rules import Subject
from harness.equivalence.request_meaning import is_model_name, tool_family
from harness.model.messages import JSON, ChatRequest, Opaque, Role
from harness.model.protocols import Capability
from harness.results import Blame, Kind, Severity
from harness.rules.chat_endings import has_broken_answers, is_retriable
from harness.rules.evidence import ChatExchange, ClientRequest, Evidence, ParsedEmbeddingExchange, ParsedExchange
from harness.rules.rule import RuleTable, RuleViolation
from harness.rules.unchanged_prefix import binding_facts, refused_change_of_caller, sentence

RULES = RuleTable(
    Subject.REQUESTS, "anthropic-endpoint, openai-chat-endpoint, openai-responses-endpoint, gemini-endpoint"
)


@RULES.add(
    "limits",
    "No request is sent that the provider refuses; each limit has an id of its own.",
    subject=Subject.LIMITS,
    source="harness list facts",
    kind=Kind.LIMIT,
    because="the provider refuses it, by the evidence that each limit names",
    remedy="leave out or change what the provider refuses; the message names it",
)
def _limits(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed in evidence.parsed_exchanges:
        for violation in evidence.violations(parsed):
            left_out = evidence.is_left_out_by_caller(parsed, violation)
            message = f"{violation.message} The caller has left it out." if left_out else violation.message
            is_prefix = not {*violation.source.split(", ")}.isdisjoint(binding_facts(evidence.rule_set(parsed)))
            asked = refused_change_of_caller(evidence, parsed) if is_prefix else None
            if asked is not None:
                message = f"{violation.message} {sentence(asked, evidence)}"
            yield parsed.violation(
                message,
                violation.pointer,
                violation.actual,
                violation.expected,
                rule=violation.rule,
                severity=Severity(violation.severity),
                source=violation.source,
                kind=Kind.CONVENTION if left_out else None,
                remedy=violation.limit.remedy,
                blame=Blame.SCENARIO if asked else None,
            )


_MAX_RETRIES = 5


@RULES.add(
    "one-request-per-chat",
    "One chat is one HTTP request: no continuation, no second question, no undeclared retry.",
    source="harness.model.protocols: ChatClient; gemini-sdk-automatic",
    because="the caller pays for extra requests, and the answer belongs to a different request",
    remedy="send one request for each chat, without undeclared retries or follow-up questions",
)
def _one_request(evidence: Evidence) -> Iterator[RuleViolation]:
    for index, chat in enumerate(evidence.transcript.chats):
        sent = evidence.exchanges(index)
        if not sent and chat.error is not None:
            continue  # the adapter refused it before sending
        why = None if len(sent) == 1 else _retry_fault(evidence, sent)
        if why is not None:
            yield RuleViolation(
                f"chat {index} of the conversation took {len(sent)} requests{why}",
                sent[-1].index if sent else None,
                "" if sent else None,
                len(sent),
                1,
                kind=Kind.CONVENTION if _only_retries(sent) else None,
            )


_MIN_WAIT_RATIO = 0.8
"""Fraction of the requested wait after which a retry is no longer early. It allows for clock differences and rounding.
"""


@RULES.add(
    "retry-early",
    "A failed request is not sent again before the provider's waiting time is over.",
    subject=Subject.ERRORS,
    source="harness.model.errors: ProviderError",
    because="the provider refuses it again, until no retries are left",
    remedy="wait at least as long as the response asks before sending the request again",
)
def _early_retries(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report a retry that comes too early. Replays record no times."""
    if evidence.transcript.mode == "replay":
        return
    for before, after in pairwise(evidence.parsed_exchanges):
        requested, waited = _requested_wait(before), _seconds_between(before, after)
        if requested is None or waited is None or before.exchange.chat != after.exchange.chat:
            continue
        if _is_same_request(before, after) and waited < _MIN_WAIT_RATIO * requested:
            message = f"the request is sent again before the {requested:g} seconds that the provider asked for are over"
            yield after.violation(message, "", round(waited, 1), requested)


def _requested_wait(parsed: ParsedExchange) -> float | None:
    """Return the shortest wait in seconds that the provider requests, or `None` if it requests none."""
    error = parsed.response.error if parsed.response is not None else None
    requested = (error.retry_after, error.retry_after_rounded) if error is not None else ()
    return min((seconds for seconds in requested if seconds is not None), default=None)


def _seconds_between(before: ParsedExchange, after: ParsedExchange) -> float | None:
    one, other = before.exchange.at, after.exchange.at
    return None if one is None or other is None else other - one


def _only_retries(sent: Sequence[ParsedExchange]) -> bool:
    """Return whether the requests are a few undeclared retries, perhaps with another model.

    They do not harm the caller, so they only break a convention.
    """
    pairs = list(pairwise(sent))
    return 0 < len(pairs) <= _MAX_RETRIES and all(
        is_retriable(one) and (_is_same_request(one, other) or _is_fallback(one, other)) for one, other in pairs
    )


def _retry_fault(evidence: Evidence, sent: Sequence[ParsedExchange]) -> str | None:
    """Describe what is wrong with several requests, as the end of a message. Return `None` for declared retries."""
    if Capability.RETRIES not in evidence.transcript.capabilities:
        again = sum(map(_is_same_request, sent, sent[1:]))
        return f"; an adapter that retries must declare the capability {Capability.RETRIES.value!r}" if again else ""
    if not sent:
        return ""
    if len(sent) > 1 + _MAX_RETRIES:
        return f", more than one and {_MAX_RETRIES} retries"
    for before, after in pairwise(sent):
        if not is_retriable(before):
            return f": exchange {before.index} did not fail in a way that permits a retry"
        if not _is_same_request(before, after):
            return f": exchange {after.index} is not the request that failed before it"
    return None


def _is_same_request(one: ParsedExchange, other: ParsedExchange) -> bool:
    sent, again = one.exchange.request, other.exchange.request
    return (sent.method, sent.url, sent.body) == (again.method, again.url, again.body)


def _is_fallback(one: ParsedExchange, other: ParsedExchange) -> bool:
    """Return whether the same request was sent to another model."""
    bodies = [as_object(parse_body(each.exchange.request.body)) for each in (one, other)]
    models = [each.pop("model", None) for each in bodies]
    return models[0] != models[1] and equal(*bodies)


@RULES.add(
    "exchange-unreadable",
    "Requests and responses have the format of the API that the adapter names.",
    because="the exchange cannot be judged",
    remedy="send JSON in the API's format, to the API's path",
)
def _unparsed_exchanges(evidence: Evidence) -> Iterator[RuleViolation]:
    for parsed in evidence.parsed_exchanges:
        played = parsed.exchange.chat is not None
        if played and parsed.request is not None and (parsed.is_cut or has_broken_answers(evidence)):
            continue  # stream-cut and chat-failure report the adapter's reaction
        if parsed.unread is not None:
            message = f"this exchange cannot be parsed: {parsed.unread}"
            yield parsed.violation(message, blame=_response_blame(evidence) if _has_request(parsed) else None)


def _has_request(parsed: ParsedExchange) -> bool:
    return parsed.request is not None or (
        isinstance(parsed, ParsedEmbeddingExchange) and parsed.embedding_request is not None
    )


def _response_blame(evidence: Evidence) -> Blame:
    transcript = evidence.transcript
    if not transcript.scripted:
        return Blame.PROVIDER
    return Blame.CASSETTE if transcript.mode == "replay" else Blame.HARNESS


def requested_settings(request: ChatRequest) -> dict[str, JSON]:
    """Return the settings of a request by canonical name. Unset settings are `None`."""
    return {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": [*request.stop] or None,
    }


@RULES.add(
    "setting-lost",
    "The caller's settings are sent.",
    source="harness.model.messages: ChatRequest",
    because="the model answers with other settings than the caller's",
    remedy="send the setting in the API's own field for it",
)
def _settings(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report lost settings, except those for which the client has no parameter. Responses list these settings, so a
    conversation without a response is not checked.
    """
    lacking = _settings_without_parameter(evidence)
    is_answered = any(chat.response is not None for chat in evidence.transcript.chats)
    for req in evidence.chat_exchanges if is_answered else ():
        for name, value in requested_settings(req.chat.request).items():
            sent = req.view.settings.get(name)
            is_kept = value is None or name in lacking or (sent is not None and equal(sent.value, value))
            is_kept = is_kept or (name == "max_tokens" and sent is not None and _adds_budget(req, sent.value))
            if not is_kept and not (sent is None and name in _SAMPLING and _excludes_sampling(evidence, req)):
                message = f"{name} was changed or left out"
                yield req.parsed.violation(
                    message, sent.pointer if sent else "", sent.value if sent else None, value, case=name
                )
        wanted = req.chat.request.thinking
        if wanted is not None and "thinking" not in lacking:
            is_given = "effort" not in lacking
            yield from thinking_violations(
                req, wanted.effort if is_given else None, wanted.budget_tokens if is_given else None
            )


def _adds_budget(req: ChatExchange, sent: JSON) -> bool:
    """Return whether a client sends the budget for reasoning on top of the caller's limit, so that the limit is that of
    the answer. The API's limit includes the reasoning (anthropic-thinking-budget).
    """
    thinking, limit = req.chat.request.thinking, req.chat.request.max_tokens
    return thinking is not None and sent == (limit or 0) + (thinking.budget_tokens or 0)


_SAMPLING = ("temperature", "top_p")


def _excludes_sampling(evidence: Evidence, req: ChatExchange) -> bool:
    """Return whether the client sends `thinking` that was not requested, and the provider refuses temperatures with it.

    An example is a client that always sends it (anthropic-temperature-with-adaptive-thinking-refused). Such clients
    leave out all sampling settings.
    """
    body = parse_body(req.parsed.exchange.request.body)
    if req.chat.request.thinking is not None or not isinstance(body, dict) or "thinking" not in body:
        return False
    without = {key: value for key, value in body.items() if key != "thinking"}

    def refused(changed: dict[str, JSON]) -> set[str]:
        request = replace(req.parsed.exchange.request, body=json.dumps(changed).encode())
        return {each.rule for each in evidence.api.judge(request, evidence.rule_set(req.parsed))}

    return not refused({**body, "temperature": 0}) <= refused(body) | refused({**without, "temperature": 0})


def _settings_without_parameter(evidence: Evidence) -> frozenset[JSON]:
    responses = (chat.response for chat in evidence.transcript.chats if chat.response is not None)
    lists = (each.reported.get("no-settings") for each in responses)
    return frozenset(name for names in lists if isinstance(names, list) for name in names)


def thinking_violations(req: ClientRequest, effort: str | None, budget: int | None = None) -> Iterator[RuleViolation]:
    """Report a request without the requested reasoning, or with another effort or token budget. An API may replace an
    effort by a budget, and a budget by an effort.
    """
    sent = req.view.effort
    if "thinking" not in req.view.settings and sent is None:
        message = "reasoning was requested, but the request does not ask for it"
        yield req.parsed.violation(message, "", None, "thinking")
        return
    is_budget = sent is not None and isinstance(sent.value, int | float)
    name, wanted = ("token budget", budget) if is_budget or effort is None else ("reasoning effort", effort)
    if wanted is None or (sent is not None and isinstance(sent.value, str) is not isinstance(wanted, str)):
        return
    if sent is None or not equal(sent.value, wanted):
        message = f"the {name} was changed or left out"
        yield req.parsed.violation(message, sent.pointer if sent else "", sent.value if sent else None, wanted)


@RULES.add(
    "setting-uninvited",
    "Settings that the caller did not set are left to the provider.",
    source="harness.model.messages: ChatRequest",
    kind=Kind.CONVENTION,
    because="a library may have its own defaults; if the model refuses them, that is a limit",
    remedy="leave out settings that the request does not have",
)
def _unwanted_settings(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report settings that the caller did not set, except `max_tokens`, which some APIs require
    (anthropic-required-fields).
    """
    for req in evidence.chat_exchanges:
        for name, value in requested_settings(req.chat.request).items():
            sent = req.view.settings.get(name)
            if value is None and sent is not None and name != "max_tokens" and not req.is_verbatim(sent.pointer):
                message = f"{name} is sent, although the caller did not set it"
                # it truncates answers that would have been longer
                yield req.parsed.violation(
                    message, sent.pointer, sent.value, kind=Kind.LOSS if name == "stop" else None
                )
        yield from _unwanted_limits(evidence, req)


def _unwanted_limits(evidence: Evidence, req: ChatExchange) -> Iterator[RuleViolation]:
    """Report a request for several answers, or a limit of one call per turn. `ChatRequest` has no setting for either.

    The limit is allowed with a response format, because the JSON may come from a tool. It only breaks a convention if
    the adapter does not declare parallel calls.
    """
    answers, one_call = (req.view.settings.get(name) for name in ("answers", "one_call"))
    if answers is not None:
        message = "several answers are requested, but the caller gets only one"
        yield req.parsed.violation(message, answers.pointer, answers.value, 1, kind=Kind.LOSS)
    request, capabilities = req.chat.request, evidence.transcript.capabilities
    if one_call is None or req.is_verbatim(one_call.pointer):
        return
    if request.tools and request.response_format is None:
        message = "the request allows only one call per turn, although the caller did not ask for that"
        yield req.parsed.violation(
            message, one_call.pointer, kind=Kind.LOSS if Capability.PARALLEL_TOOL_CALLS in capabilities else None
        )


@RULES.add(
    "cache-mark",
    "If the caller requests cache marks and the API has them, the tools and the system prompt have one.",
    source="harness.model.messages: ChatRequest; anthropic-four-cache-marks",
    because="the caller pays for tokens that should be cached",
    remedy="set a cache mark on the tools and on the system prompt if `settings.cache` is set",
)
def _wrong_cache_marks(evidence: Evidence) -> Iterator[RuleViolation]:
    """Report missing or unwanted cache marks, for APIs that have them (anthropic-four-cache-marks)."""
    for req in evidence.chat_exchanges:
        request, marks = req.chat.request, req.view.cache_marks
        if marks is None:
            continue
        for there, place in ((req.view.tools, "/tools"), (request.system and req.view.system, "/system")):
            found = [mark for mark in marks if mark.startswith(place)]
            if request.cache and there and not found:
                yield req.parsed.violation("a cache mark was requested, but is not sent", place, None, "a cache mark")
            elif found and not (request.cache or req.is_verbatim(found[0])):
                message = "a cache mark is sent, although the caller did not request it"
                # it may change the cost, but never the answer
                yield req.parsed.violation(message, found[0], "a cache mark", kind=Kind.CONVENTION)


@RULES.add(
    "model-named",
    "The request names the model that the caller chose.",
    because="another model answers",
    remedy="send the model that `connect` was given",
)
def _model(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        if req.view.model is None or not is_model_name(req.view.model, req.chat.request.model):
            message = f"the request names {'no' if req.view.model is None else 'another'} model"
            yield req.parsed.violation(message, "", req.view.model, req.chat.request.model)


@RULES.add(
    "provider-field-lost",
    "The fields and headers that the caller sets for an API are in the request, unchanged.",
    source="harness.model.messages: provider_metadata",
    because="the caller requested something that no other field expresses, and does not get it",
    remedy="add `provider_metadata` of the request to its body, its `extra_headers` to the headers, and that of a tool "
    "to its declaration",
)
def _provider_fields(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        api, request = req.view.api, req.chat.request
        fields = as_object(request.provider_metadata.get(api))
        tools = [tool for tool in request.tools if api in tool.provider_metadata]
        if not fields and not tools:
            continue
        body = parse_body(req.parsed.exchange.request.body)
        given = {key: value for key, value in fields.items() if key not in ("tools", "extra_headers")}
        yield from _lost_headers(req, as_object(fields.get("extra_headers")))
        yield from _lost_fields(req, given, body, "")
        yield from _lost_tools(req, fields.get("tools"), resolve(body, "/tools"))
        pointers = {tool.name: tool.pointer for tool in req.view.tools}
        for tool in tools:
            pointer = pointers.get(tool.name)
            if pointer is not None:
                declared = resolve(body, pointer)
                inner = resolve(declared, "/function")
                sent = {**declared, **inner} if isinstance(declared, dict) and isinstance(inner, dict) else declared
                yield from _lost_fields(req, as_object(tool.provider_metadata[api]), sent, pointer)


def _lost_headers(req: ChatExchange, given: Mapping[str, JSON]) -> Iterator[RuleViolation]:
    """Report headers that are missing or lack a value. A header may list more values."""
    headers = {name.lower(): value for name, value in req.parsed.exchange.request.headers.items()}
    for name, value in given.items():
        found = headers.get(name.lower())
        if {*re.split(r", *", str(value))} - {*re.split(r", *", found or "")}:
            message = f"the header {name!r} that the caller gave is missing or changed"
            yield req.parsed.violation(message, "", found, value)


def _lost_tools(req: ChatExchange, given: JSON, sent: JSON) -> Iterator[RuleViolation]:
    """Report provider tools that are changed or repeated. `tools-declared` reports tools of other families."""
    declared, wanted = as_list(sent), as_list(given)
    for tool in wanted:
        alike = [place for place, each in enumerate(declared) if _family(each) == _family(tool)]
        found = [place for place in alike if _includes_tool(declared[place], tool)]
        if (alike and not found) or len(found) > sum(_includes_tool(each, tool) for each in wanted):
            message = f"a provider tool that the caller gave is {'repeated' if found else 'changed'}"
            yield req.parsed.violation(message, f"/tools/{alike[-1]}", declared[alike[-1]], tool)


def _includes_tool(sent: JSON, given: JSON) -> bool:
    """Return whether a tool has all given fields, in any version: libraries choose the version."""
    fields = {key: value for key, value in as_object(given).items() if key != "type"}
    return _family(sent) == _family(given) and _includes(sent, fields)


def _family(tool: JSON) -> str:
    fields = as_object(tool)
    kind = fields.get("type")
    return tool_family(kind if isinstance(kind, str) else next(iter(fields), ""))


def _lost_fields(req: ChatExchange, given: Mapping[str, JSON], sent: JSON, pointer: str) -> Iterator[RuleViolation]:
    fields = {_snake_case(key): value for key, value in sent.items()} if isinstance(sent, dict) else {}
    for key, value in given.items():
        found = fields.get(_snake_case(key))
        if not _includes(found, value):
            message = f"the field {key!r} that the caller gave is missing or changed"
            yield req.parsed.violation(message, join(pointer, key), found, value)


@RULES.add(
    "provider-part-lost",
    "Parts that only one API has are sent to that API unchanged.",
    source="harness.model.messages: Opaque",
    because="the provider waits for the part, for example for the approval of a call",
    remedy="put the `raw` of an `Opaque` part of your API into the request, in its place",
)
def _provider_parts(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges:
        if req.view.stateful:
            continue
        users = [message for message in req.chat.request.messages if message.role is Role.USER]
        opaque = [part for message in users for part in message.parts if isinstance(part, Opaque)]
        given = [part.raw for part in opaque if part.api == req.view.api]
        body = parse_body(req.parsed.exchange.request.body) if given else None
        sent = [each for each in walk(body) if isinstance(each, dict)]
        for raw in given:
            if raw not in sent:
                yield req.parsed.violation("a part of the user's message is missing or changed", "", None, raw)
            elif sent.count(raw) > given.count(raw):
                yield req.parsed.violation("a part of the user's message is sent more than once", "", None, raw)


_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _snake_case(key: str) -> str:
    """Return the key in snake case, because Protobuf JSON also accepts camel case."""
    return _WORD_BOUNDARY.sub("_", key).lower()


def _includes(sent: JSON, given: JSON) -> bool:
    """Return whether a value has everything that was given. Objects and lists may have more."""
    match sent, given:
        case dict(), dict():
            fields = {_snake_case(key): value for key, value in sent.items()}
            return all(_includes(fields.get(_snake_case(key)), value) for key, value in given.items())
        case list(), list() if given and all(isinstance(value, dict) for value in given):
            return _includes_in_order(sent, given)
        case list(), list():
            return all(any(_includes(one, value) for one in sent) for value in given)
        case _:
            return equal(sent, given)


def _includes_in_order(sent: list[JSON], given: list[JSON]) -> bool:
    """Return whether a list has the given objects in the same order and equally often. Other entries are ignored."""
    found = [place for place, one in enumerate(sent) if any(_includes(one, value) for value in given)]
    return len(found) == len(given) and all(
        _includes(sent[place], value) for place, value in zip(found, given, strict=True)
    )


@RULES.add(
    "request-changed-in-place",
    "An adapter does not change the caller's request, tools or messages.",
    source="harness.model.protocols: ChatClient",
    because="the caller's own tools and history are changed, and so is each later request",
    remedy="copy what must be changed, and leave the request, its tools and its messages unchanged",
)
def _changed_in_place(evidence: Evidence) -> Iterator[RuleViolation]:
    for index, chat in enumerate(evidence.transcript.chats):
        sent = evidence.exchanges(index)
        for change in chat.changes:
            message = f"the adapter changed {change.place}, which belongs to its caller"
            yield RuleViolation(message, sent[0].index if sent else None, None, change.after, change.before)
