"""Messages of a request, pairing of calls with results, and thinking that the client must send back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple

from harness.apis.anthropic.requests import is_continued
from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import cached_per_element, canonical, join, objects, parsed_object, resolve, string
from harness.apis.limits import Limit, Violation, severity_of
from harness.apis.prefix import PrefixChange, PrefixMismatch, PrefixPiece
from harness.apis.profiles import IssuedState, Profile
from harness.apis.view import OpaqueView, PartView, ProviderReport, RequestView, ResponseView, ResultView
from harness.model.http import HttpRequest
from harness.model.messages import JSON

FACTS = Facts.next_to(__file__)
limit = ApiLimits(FACTS, "anthropic")


class Block(NamedTuple):
    """A content block. `kind` is its `type` (empty if missing). String content is represented as one `text` block."""

    kind: str
    pointer: str
    data: dict[str, JSON]

    @property
    def path(self) -> str:
        """Path in the provider's notation: `messages.1.content.0`."""
        return dotted_path(self.pointer)

    def string(self, key: str) -> str | None:
        """Return the value of `key` if it is a string."""
        return string(self.data.get(key))


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry of `messages`, with its content blocks. Blocks that are not objects are left out."""

    role: str
    pointer: str
    data: dict[str, JSON]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, eq=False)
class RoleTurn:
    """Consecutive entries of one role, which the provider combines into one turn (anthropic-roles)."""

    role: str
    entries: tuple[Entry, ...]
    blocks: tuple[Block, ...]

    def of_kind(self, kind: str) -> tuple[Block, ...]:
        """Return the blocks of one type."""
        return tuple(block for block in self.blocks if block.kind == kind)


def dotted_path(pointer: str) -> str:
    """Convert a JSON pointer to the provider's dotted notation."""
    return pointer.removeprefix("/").replace("/", ".")


def blocks(content: JSON, pointer: str) -> tuple[Block, ...]:
    """Return the blocks of a `content` or `system` value."""
    if isinstance(content, str):
        return (Block("text", pointer, {"type": "text", "text": content}),)
    return tuple(Block(_word(data.get("type")), place, data) for place, data in objects(content, pointer))


def entries(body: dict[str, JSON]) -> list[Entry]:
    """Return the entries of `messages` that are objects."""
    return [entry for entry in _entries(body.get("messages"), "/messages") if entry is not None]


@cached_per_element
def _entries(data: JSON, pointer: str) -> Entry | None:
    if not isinstance(data, dict):
        return None
    return Entry(_word(data.get("role")), pointer, data, blocks(data.get("content"), join(pointer, "content")))


def turns(conversation: list[Entry]) -> list[RoleTurn]:
    """Combine consecutive entries of the same role into turns."""
    groups = [(role, tuple(group)) for role, group in groupby(conversation, key=attrgetter("role"))]
    return [RoleTurn(role, group, tuple(block for entry in group for block in entry.blocks)) for role, group in groups]


def is_server_work(block: Block) -> bool:
    """Return whether the block is a call to one of the provider's tools, or its result."""
    return block.kind in ("server_tool_use", "mcp_tool_use") or (
        block.kind.endswith("_tool_result") and block.kind != "tool_result"
    )


def nested_blocks(block: Block) -> tuple[Block, ...]:
    """Return the blocks inside a `tool_result`; none if its content is a string (anthropic-result-content)."""
    content = block.data.get("content")
    if block.kind != "tool_result" or isinstance(content, str):
        return ()
    return blocks(content, join(block.pointer, "content"))


def _word(value: JSON) -> str:
    return value if isinstance(value, str) else ""


_EMPTY = RoleTurn("", (), ())


def pairing_limits(body: dict[str, JSON], conversation: Sequence[RoleTurn], profile: Profile) -> Iterator[Violation]:
    """Check the pairing of calls and results, and the positions of system messages.

    Consecutive messages of a role are one turn (anthropic-roles). A continued thread may start with results, because
    the server has stored the calls (anthropic-thread-continue).
    """
    if conversation and not is_continued(body):
        yield from _pair(_EMPTY, conversation[0])
    for turn, following in pairwise([*conversation, _EMPTY]):
        yield from _pair(turn, following)
        for kind, home in (("tool_use", "assistant"), ("tool_result", "user")):
            for block in turn.of_kind(kind) if turn.role != home else ():
                message = f"{block.path}: `{kind}` blocks can only be in `{home}` messages"
                yield limit("block-role").make_violation(message, block.pointer, actual=turn.role, expected=home)
    if severity_of(profile.system_in_messages) != "error":  # for other models another check rejects the role everywhere
        # Models that accept the role still reject it in a wrong position (anthropic-sonnet-5-system-role).
        for before, turn, after in zip([None, *conversation], conversation, [*conversation[1:], None], strict=False):
            if turn.role == "system":
                yield from _placement(turn, before, after)


def _placement(turn: RoleTurn, before: RoleTurn | None, after: RoleTurn | None) -> Iterator[Violation]:
    if all(entry.data.get("output_config") and not entry.blocks for entry in turn.entries):
        return  # the directive-only form is allowed in any position (anthropic-system-directive)
    place = turn.entries[0].pointer
    message = None
    if before is None:
        message = (
            "use the top-level 'system' parameter for the initial system prompt; the directive-only form "
            "(content: [] with output_config) is accepted at any position"
        )
    elif not (before.role == "user" or (before.role == "assistant" and _ends_in_server_result(before))):
        message = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
    elif after is not None and after.role != "assistant":
        message = "role 'system' must precede an 'assistant' message or end the array"
    if message:
        yield limit("system-placement").make_violation(f"{dotted_path(place)}: {message}", place)


def _ends_in_server_result(turn: RoleTurn) -> bool:
    last = turn.blocks[-1:]
    return bool(last) and last[0].kind.endswith("_tool_result") and is_server_work(last[0])


def _pair(turn: RoleTurn, following: RoleTurn) -> Iterator[Violation]:
    if turn.role == "assistant":
        yield from _calls(turn)
        yield from _answers(turn, following)
    if following.role == "user":
        yield from _results(following, turn)


def _calls(turn: RoleTurn) -> Iterator[Violation]:
    seen: set[str] = set()
    for block in turn.of_kind("tool_use"):
        call_id = block.string("id")
        if call_id is None:
            continue
        if call_id in seen:
            message = f"{block.path}: `tool_use` ids must be unique"
            yield limit("call-id-duplicate").make_violation(message, join(block.pointer, "id"), actual=call_id)
        seen.add(call_id)


def _answers(turn: RoleTurn, following: RoleTurn) -> Iterator[Violation]:
    calls = [block for block in turn.of_kind("tool_use") if block.string("id") is not None]
    if not calls:
        return
    reply = following if following.role == "user" else _EMPTY
    leading = {_answered_id(block) for block in takewhile(lambda block: block.kind == "tool_result", reply.blocks)}
    later = {_answered_id(block) for block in reply.of_kind("tool_result")} - leading
    place = turn.entries[-1].pointer
    unanswered = [block for block in calls if block.string("id") not in leading | later]
    if unanswered:
        yield _unanswered_violation(limit("result-missing"), place, unanswered)
    belated = [block for block in calls if block.string("id") in later]
    if belated:
        yield _unanswered_violation(limit("result-order"), place, belated)
    yield from _pending(turn, reply)


def _unanswered_violation(broken: Limit, place: str, calls: list[Block]) -> Violation:
    ids: list[JSON] = [block.string("id") for block in calls]
    message = (
        f"{dotted_path(place)}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(map(str, ids))}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message, before any other content."
    )
    return broken.make_violation(message, calls[0].pointer, expected=ids)


def _pending(turn: RoleTurn, reply: RoleTurn) -> Iterator[Violation]:
    """Check that the next message has only tool results while a server tool is still running
    (anthropic-server-call-alone)."""
    done = {block.string("tool_use_id") for block in turn.blocks if is_server_work(block)}
    waiting = [block for block in turn.of_kind("server_tool_use") if block.string("id") not in done]
    others = [block for entry in reply.entries[:1] for block in entry.blocks if block.kind != "tool_result"]
    if waiting and others:
        message = (
            f"{others[0].path}: while the `server_tool_use` {waiting[0].string('id')} has no result, the next message "
            "may contain only `tool_result` blocks"
        )
        yield limit("server-call-pending").make_violation(message, others[0].pointer)


def _results(turn: RoleTurn, previous: RoleTurn) -> Iterator[Violation]:
    calls: dict[str | None, Block] = {}
    if previous.role == "assistant":
        calls = {block.string("id"): block for block in previous.of_kind("tool_use")}
    seen: set[str] = set()
    for block in turn.of_kind("tool_result"):
        call_id = _answered_id(block)
        if call_id is None:
            continue
        pointer = join(block.pointer, "tool_use_id")
        if call_id not in calls:
            message = (
                f"{block.path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
            yield limit("result-orphan").make_violation(message, pointer, actual=call_id, expected=[*calls])
        elif block.data.get("toolset_name") != calls[call_id].data.get("toolset_name"):
            expected = calls[call_id].data.get("toolset_name")
            message = f"{block.path}.tool_result.toolset_name: must be that of the `tool_use` block: {expected}"
            yield limit("toolset-name").make_violation(message, block.pointer, expected=expected)
        if call_id in seen:
            message = (
                f"{block.path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                f"{call_id}"
            )
            yield limit("result-duplicate").make_violation(message, pointer, actual=call_id)
        seen.add(call_id)


def _answered_id(block: Block) -> str | None:
    return block.string("tool_use_id")


_KINDS = ("thinking", "redacted_thinking")


class AnthropicState(IssuedState):
    """Thinking blocks issued in responses. See `harness.apis.profiles.IssuedState`."""

    def __init__(self, *, foreign: bool, profile: Profile | None = None) -> None:
        super().__init__(foreign=foreign, profile=profile)
        self._latest: list[str] = []
        self._issued: set[str] = set()
        self._behaviour: JSON = None
        self._reports_wanted = False

    def receive(self, request: RequestView, sent: HttpRequest) -> None:
        """Compare prefixes, and read from the request how to treat a changed prefix and whether to report it
        (anthropic-input-transformations).
        """
        super().receive(request, sent)
        self._behaviour = resolve(parsed_object(sent.body), "/thinking/block_binding/prefix_mismatch_behavior")
        self._reports_wanted = _BINDING_BETA in (sent.headers.get("anthropic-beta") or "")

    def reports(self) -> tuple[ProviderReport, ...]:
        """Return a report for each block that was dropped, or accepted although its prefix changed. Without the beta
        header for reports, return none.
        """
        effect = "dropped" if self._behaviour == "drop_block" else "tolerated"
        return tuple(
            ProviderReport(effect, "prefix_binding_mismatch", "", part=each.thought.pointer)
            for each in (self.mismatches if self._reports_wanted else ())
        )

    def note(self, response: ResponseView) -> None:
        """Remember the thinking blocks of a response. Those of a truncated response need not be sent back."""
        super().note(response)
        thinking = _thinking(response.parts)
        self._issued.update(thinking)
        if response.complete:
            self._latest = thinking

    def objection(self, request: RequestView) -> Violation | None:
        """Return a violation if thinking was modified, was never issued, or has a changed prefix that the provider
        refuses. The thinking of the latest response may only be missing if no tool results are sent.
        """
        return self._altered_block_violation(request) or self._unknown(request) or self._changed_prefix_violation()

    def _changed_prefix_violation(self) -> Violation | None:
        """Return a violation for the first block whose prefix changed, if the provider refuses changed prefixes for
        this account.

        For accounts created before 2026-08-31, the provider refuses them only if the request asks for it.
        """
        always = self.profile is not None and self.profile.changed_prefix == "refuses"
        if not self.mismatches or not (self._behaviour == "error" or (always and self._behaviour is None)):
            return None
        mismatch = self.mismatches[0]
        place = mismatch.thought.pointer
        words = f"{dotted_path(place)}: {_BOUND}"
        if not self._reports_wanted:
            words += f" That setting requires the `{_BINDING_BETA}` value in the `anthropic-beta` header."
        changed = mismatch.change.pointer if mismatch.change else ""
        return limit("thinking-bound").make_violation(
            words + _reason(mismatch), changed or place, code="invalid_request_error"
        )

    def _unknown(self, request: RequestView) -> Violation | None:
        parts = (part for turn in request.turns for part in turn.parts if isinstance(part, OpaqueView))
        for part in parts if not self.foreign else ():
            if part.kind == "thinking" and canonical(part.raw) not in self._issued:
                place = part.pointer.removeprefix("/").replace("/", ".")
                words = f"{place}: Invalid `signature` in `thinking` block"
                return limit("thinking-signature").make_violation(words, part.pointer, code="invalid_request_error")
        return None

    def _altered_block_violation(self, request: RequestView) -> Violation | None:
        answers = [turn for turn in request.turns if turn.role == "assistant"]
        if not self._latest or not answers:
            return None
        latest = answers[-1]
        thinking = _thinking(latest.parts)
        if thinking == self._latest or not (thinking or _returns_results(request)):
            return None
        return limit("thinking-altered").make_violation(
            f"messages{latest.pointer.replace('/messages', '').replace('/', '.')}: `thinking` blocks in the latest "
            "assistant message cannot be modified; they must remain as they were in the original response.",
            latest.pointer,
            code="invalid_request_error",
        )


_BINDING_BETA = "thinking-binding-controls-2026-08-01"

_BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


def _reason(mismatch: PrefixMismatch) -> str:
    """Return the sentence that the provider appends to its refusal to name the changed part. It is empty for most
    changes in messages.
    """
    match mismatch.change:
        case PrefixChange(kind="system"):
            return " The `system` prompt differs from the one this block was created with."
        case PrefixChange(kind="thinking-dropped"):
            return " The `thinking` block that preceded this one when it was created is missing from this request."
        case PrefixChange(now=PrefixPiece(section="tools")) | PrefixChange(then=PrefixPiece(section="tools")):
            return " The `tools` list differs from the one this block was created with."
        case PrefixChange(now=PrefixPiece(pointer=pointer)) if pointer.startswith("/messages/0/"):
            return " A message older than `messages.0.content.0` differs from when this block was created."
        case _:
            return ""


def _returns_results(request: RequestView) -> bool:
    """Return whether the request ends with tool results. The client must then send the thinking back
    (anthropic-thinking-verbatim)."""
    latest = takewhile(lambda turn: turn.role != "assistant", reversed(request.turns))
    return any(isinstance(part, ResultView) for turn in latest for part in turn.parts)


def _thinking(parts: Iterable[PartView]) -> list[str]:
    return [canonical(part.raw) for part in parts if isinstance(part, OpaqueView) and part.kind in _KINDS]
