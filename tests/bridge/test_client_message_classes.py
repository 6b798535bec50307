"""Message classes: those that no annotation names but that the code tells apart, and those with unusual fields."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel

from harness.bridge.clients.forms import ANTHROPIC, OPENAI, Form
from harness.bridge.clients.message_classes import (
    as_annotated,
    class_with_attributes,
    has_role_for_results,
    marks_errors,
)
from harness.bridge.clients.message_dictionaries import compared_role_of_results, mentions_tool_role, with_own_roles
from harness.bridge.clients.methods import method_of
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, Text, Tool, ToolCall, ToolResult
from harness.model.protocols import Endpoint

CLASSES = """
from dataclasses import dataclass, field
from typing import Any, TypedDict

class Asked(TypedDict):
    id: str | None
    name: str
    args: dict[str, Any]

@dataclass
class SystemText:
    text: str

@dataclass
class HumanText:
    text: str

@dataclass
class ModelAnswer:
    text: str
    calls: list[Asked] = field(default_factory=list)
    own: Any = None

@dataclass
class ToolOutcome:
    call: Asked
    content: Any
    failed: bool = False
"""

CLIENT = """
from typing import Any, Iterable
from .kinds import HumanText, ModelAnswer, SystemText, ToolOutcome

SEEN = []

class Client:
    def __init__(self, base_url, api_key="", model="m"):
        self.tools = []
    def bind_tools(self, tools: list[dict[str, Any]], tool_choice: str | None = None):
        self.tools = tools
        return self
    def invoke(self, messages: Iterable[Any]):
        SEEN.extend(map(encoded, messages))
        return ModelAnswer("", [{"id": "call_1", "name": "look", "args": {"at": "it"}}], own=object())

def encoded(message):
"""

BY_ISINSTANCE = """
    if not isinstance(message, (SystemText, HumanText, ModelAnswer, ToolOutcome)):
        raise TypeError("not a message")
    return message
"""

BY_MATCH = """
    match message:
        case SystemText() | HumanText():
            return message
        case HumanText(text):
            return message
        case ModelAnswer(text, calls):
            return message
        case ToolOutcome(call=call):
            return message
    raise TypeError("not a message")
"""

BY_ROLE = """
    if isinstance(message, (HumanText, ModelAnswer)):
        return message
    return message["role"]
"""

ONLY_ANSWERS = """
    return message if not isinstance(message, ModelAnswer) else message.own
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package with a module for its classes and one for its client."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "talkative").mkdir()
    (tmp_path / "talkative" / "__init__.py").touch()
    (tmp_path / "talkative" / "kinds.py").write_text(CLASSES)
    importlib.invalidate_caches()
    yield tmp_path / "talkative"
    for name in [each for each in sys.modules if each.partition(".")[0] == "talkative"]:
        del sys.modules[name]


def _client(folder: Path, code: str) -> Any:
    (folder / "client.py").write_text(CLIENT + code)
    return importlib.import_module("talkative.client")


QUESTION = Message(Role.USER, (Text("Where?"),))
RESULT = Message(Role.USER, (ToolResult("call_1", "look", "There.", is_error=True),))


@pytest.mark.parametrize("code", [BY_ISINSTANCE, BY_MATCH])
def test_messages_have_the_classes_that_the_code_tells_apart(folder: Path, code: str) -> None:
    module = _client(folder, code)
    shape = recognise_shape(module.Client, "talkative.client:Client")
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "gemini")) as client:
        answer = client.chat(ChatRequest("m", (QUESTION,), system="Be brief."))
        client.chat(ChatRequest("m", (QUESTION, answer.message, RESULT), system="Be brief."))

    kinds = [type(each).__name__ for each in module.SEEN]
    assert kinds == ["SystemText", "HumanText", "SystemText", "HumanText", "ModelAnswer", "ToolOutcome"]
    assert module.SEEN[4].own is not None
    assert (module.SEEN[5].call["name"], module.SEEN[5].content, module.SEEN[5].failed) == ("look", "There.", True)


def test_calls_of_another_client_have_the_keys_of_their_typed_dictionary(folder: Path) -> None:
    module = _client(folder, BY_ISINSTANCE)
    shape = recognise_shape(module.Client, "talkative.client:Client")
    asked = Message(Role.ASSISTANT, (ToolCall("call_1", "look", {"at": "it"}),))
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "gemini")) as client:
        client.chat(ChatRequest("m", (QUESTION, asked, RESULT)))

    assert module.SEEN[1].calls == [{"id": "call_1", "name": "look", "args": {"at": "it"}}]


@pytest.mark.parametrize("code", [BY_ROLE, ONLY_ANSWERS])
def test_code_that_takes_dictionaries_gets_them(folder: Path, code: str) -> None:
    shape = recognise_shape(_client(folder, code).Client, "talkative.client:Client")

    assert "Any" in str(shape.messages_hint)


def test_a_method_that_binds_tools_shows_what_its_tool_choice_is(folder: Path) -> None:
    shape = recognise_shape(_client(folder, BY_ISINSTANCE).Client, "talkative.client:Client")

    assert shape.whole.hints["tool_choice"] == str | None


class OwnRole(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


@dataclass
class Invocation:
    invocation_id: str
    tool_name: str
    arguments: dict[str, Any]


@dataclass
class Outcome:
    invocation_id: str
    output: str
    failed: bool = False


@dataclass
class Turn:
    role: OwnRole
    text: str = ""
    invocations: list[Invocation] = field(default_factory=list[Invocation])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])


class Gadget(NamedTuple):
    name: str
    purpose: str
    params: dict[str, Any]


@dataclass
class Completion:
    turn: Turn
    finish: str

    @property
    def text(self) -> str:
        return self.turn.text


class ByTurns:
    """A client whose results are in messages of the user, and whose answer has its calls in a message."""

    def __init__(self, base_url: str, model: str = "m") -> None:
        self.seen: list[Turn] = []
        self.gadgets: Sequence[Gadget] = ()

    def chat(self, turns: Sequence[Turn], tools: Sequence[Gadget] = ()) -> Completion:
        self.seen, self.gadgets = [*turns], tools
        return Completion(Turn(OwnRole.ASSISTANT, "I look.", [Invocation("call_1", "look", {"at": "it"})]), "tools")


def test_fields_with_names_of_their_own_are_found_by_what_they_hold() -> None:
    clients = list[ByTurns]()

    def make(base_url: str, model: str = "m") -> ByTurns:
        clients.append(ByTurns(base_url, model))
        return clients[-1]

    shape = recognise_shape(make, "turns:make")
    request = ChatRequest("m", (QUESTION,), tools=(Tool("look", "Looks.", {"type": "object", "properties": {}}),))
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "anthropic")) as client:
        answer = client.chat(request)
        client.chat(replace(request, messages=(QUESTION, answer.message, RESULT)))

    assert (answer.text, [(each.id, each.name) for each in answer.tool_calls]) == ("I look.", [("call_1", "look")])
    assert clients[-1].seen[2] == Turn(OwnRole.USER, outcomes=[Outcome("call_1", "There.", failed=True)])
    assert [*clients[-1].gadgets] == [Gadget("look", "Looks.", {"type": "object", "properties": {}})]


@dataclass
class Blocks:
    role: str
    content: Any


def test_results_of_anthropic_are_in_the_field_that_a_class_has_for_them() -> None:
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "There.", "is_error": True}
    content = [result, {"type": "text", "text": "Go on."}]
    messages = [{"role": "user", "content": content}]

    (turn,) = as_annotated(messages, list[Turn])
    (blocks,) = as_annotated(messages, list[Blocks])

    assert turn == Turn(OwnRole.USER, "Go on.", outcomes=[Outcome("call_1", "There.", failed=True)])
    assert blocks == Blocks("user", content)


class ItemsClient:
    """A client for OpenAI Responses whose items are dictionaries, except the results."""

    def __init__(self, base_url: str, model: str = "m") -> None:
        pass

    def run(self, items: list[dict[str, Any] | ItemResult], instructions: str | None = None) -> Any:
        return {"text": " ".join(type(each).__name__ for each in items)}


class ItemResult(BaseModel):
    call_id: str
    output: str


def test_only_results_of_responses_have_the_class_for_results() -> None:
    shape = recognise_shape(ItemsClient, "turns:ItemsClient")
    asked = Message(Role.ASSISTANT, (Text("I look."), ToolCall("call_1", "look", {})))
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "openai-responses")) as client:
        answer = client.chat(ChatRequest("m", (QUESTION, asked, RESULT)))

    assert shape.form.name == "openai-responses"
    assert answer.text == "dict dict dict ItemResult"


class Request(NamedTuple):
    tag: str
    gadget: str
    args: dict[str, Any]


class Note(NamedTuple):
    sender: str
    body: str = ""
    requests: tuple[Request, ...] = ()
    tag: str | None = None


ROLES = {"operator": "system", "caller": "user", "station": "assistant", "gadget": "tool"}


class ByNotes:
    """A client with its own words for roles, and for the fields of calls."""

    seen: Sequence[Note] = ()

    def __init__(self, base_url: str, model: str = "m") -> None:
        pass

    def receive(self, dialogue: Sequence[Note], gadgets: Sequence[Gadget] = (), use: str | None = None) -> Note:
        choice = use if use in ("auto", "required", "none") else {"type": "function", "function": {"name": use}}
        type(self).seen = dialogue
        return Note("station", f"{len(gadgets)} {choice}", (Request("call_1", "look", {"at": "it"}),))


def test_roles_and_the_parts_of_a_call_may_have_any_names() -> None:
    shape = recognise_shape(ByNotes, "notes:ByNotes")
    tools = (Tool("look", "Looks.", {"type": "object", "properties": {}}),)
    request = ChatRequest("m", (QUESTION,), system="Be brief.", tools=tools, tool_choice="required")
    asked = Message(Role.ASSISTANT, (ToolCall("call_0", "look", {}),))
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "openai-chat")) as client:
        client.chat(replace(request, messages=(QUESTION, asked, replace(RESULT, parts=(OTHER_RESULT,)))))
        seen = [*ByNotes.seen]
        answer = client.chat(request)

    assert [each.sender for each in seen] == ["operator", "caller", "station", "gadget"]
    assert (seen[2].requests, seen[3].tag) == ((Request("call_0", "look", {}),), "call_0")
    assert (answer.text, [(each.id, each.name) for each in answer.tool_calls]) == (
        "1 required",
        [("call_1", "look")],
    )


OTHER_RESULT = ToolResult("call_0", "look", "There.")


NAMED = """
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

class AskedCall(BaseModel):
    id: str
    name: str
    arguments: str

class UserNote(BaseModel):
    content: str
    source: str

class ModelNote(BaseModel):
    content: str | list[AskedCall]
    thought: str | None = None
    source: str

class ToolNote(BaseModel):
    content: str
    call_id: str

class Answer(BaseModel):
    content: str | list[AskedCall]
    thought: str | None = None

class Client:
    seen = []

    def __init__(self, base_url: str, model: str = "m") -> None: ...

    def create(self, messages: Sequence[UserNote | ModelNote | ToolNote], tools: Sequence[dict[str, Any]] = ()):
        self.seen[:] = [repr(each) for each in messages]
        calls = [AskedCall(id="call_1", name="look", arguments="{}")]
        is_first = len(messages) == 1
        return Answer(content=calls, thought="I look.") if is_first else Answer(content="Here.", thought="Hm.")
"""
"""A client whose messages name their sender, and have their calls in the field of their text."""


def test_a_message_may_name_its_sender_and_have_its_calls_in_place_of_its_text(folder: Path) -> None:
    (folder / "named_client.py").write_text(NAMED)
    kind = importlib.import_module("talkative.named_client").Client
    request = ChatRequest("m", (QUESTION,), tools=(Tool("look", "Looks.", {"type": "object", "properties": {}}),))
    shape = recognise_shape(kind, "talkative.named_client:Client")
    with closing(ShapedClient(shape, Endpoint("http://127.0.0.1:9/v1", "no-key"), "m", "openai-chat")) as client:
        answer = client.chat(request)
        last = client.chat(replace(request, messages=(QUESTION, answer.message, RESULT)))

    assert (answer.text, last.text) == ("I look.", "Here.")
    call = "AskedCall(id='call_1', name='look', arguments='{}')"
    assert kind.seen[:2] == [
        "UserNote(content='Where?', source='user')",
        f"ModelNote(content=[{call}], thought='I look.', source='assistant')",
    ]
    assert kind.seen[2].startswith("ToolNote(")
    assert "call_id='call_1'" in kind.seen[2]


@dataclass
class Musing:
    text: str
    sig: str


@dataclass
class Hidden:
    data: str


@dataclass
class Words:
    text: str


@dataclass
class Job:
    id: str
    tool: str
    arguments: str


@dataclass
class Finding:
    call_id: str
    output: str
    failed: bool = False


@dataclass
class Entry:
    role: Literal["user", "assistant", "tool"]
    pieces: list[Musing | Hidden | Words | Job | Finding]


@dataclass
class Spoken:
    entry: Entry
    finish_reason: str = "tool_use"


class Silent(Spoken):
    @property
    def text(self) -> str:
        return ""

    @property
    def tool_calls(self) -> list[Job]:
        return []


SPOKEN = Entry("assistant", [Musing("Hm.", "s1"), Hidden("x"), Words("Let me see."), Job("c1", "look", '{"at": "it"}')])
LOOKED = ToolResult("c1", "look", "no such thing", is_error=True)
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
HELLO = ChatRequest("m", (Message(Role.USER, (Text("Hello"),)),))


def _asked(form: Form, api: str, answer: Spoken) -> tuple[list[list[Entry]], ChatResponse]:
    """Return the messages of two requests of a client with content blocks, and its first answer."""
    seen = list[list[Entry]]()

    def chat(messages: list[Entry], tools: list[Any] | None = None) -> Spoken:
        seen.append(messages)
        return answer

    shape = recognise_shape(chat, "mine").with_format(form)
    with closing(ShapedClient(shape, HERE, "m", api)) as client:
        first = client.chat(HELLO)
        client.chat(replace(HELLO, messages=(*HELLO.messages, first.message, Message(Role.USER, (LOOKED,)))))
    return seen, first


@pytest.mark.parametrize(("form", "api", "role"), [(ANTHROPIC, "anthropic", "user"), (OPENAI, "openai-chat", "tool")])
def test_content_blocks_have_the_classes_with_their_fields(form: Form, api: str, role: Literal["user", "tool"]) -> None:
    seen, first = _asked(form, api, Spoken(SPOKEN))

    asked = Entry("user", [Words("Hello")])
    assert seen == [[asked], [asked, SPOKEN, Entry(role, [Finding("c1", "no such thing", failed=True)])]]
    assert seen[1][1] is SPOKEN
    assert (first.text, [(each.id, each.name, each.arguments) for each in first.tool_calls]) == (
        "Let me see.",
        [("c1", "look", {"at": "it"})],
    )


def test_what_an_answer_says_itself_comes_before_the_blocks_of_its_message() -> None:
    _, first = _asked(ANTHROPIC, "anthropic", Silent(SPOKEN))

    assert (first.text, first.tool_calls) == ("", ())


def test_calls_of_another_client_become_blocks() -> None:
    call = {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    (made,) = as_annotated([{"role": "assistant", "content": None, "tool_calls": [call]}], list[Entry])

    assert made == Entry("assistant", [Job("c2", "look", "{}")])


def test_a_message_with_a_part_that_has_no_class_stays_as_it_is() -> None:
    image = {"role": "user", "content": [{"type": "text", "text": "See."}, {"type": "image", "source": {}}]}

    assert as_annotated([image], list[Entry]) == [image]


@pytest.mark.parametrize(
    ("source", "roles"),
    [
        ('{"type": "function", "function": {"name": call["function"]}, "model": self.model}', ["assistant", "tool"]),
        ('body.get("model"); {"type": "tool_result"}; Block(type="function")', ["assistant", "tool"]),
        ('role == "model" or role in ("function", "user")', ["model", "function"]),
        ('role: Literal["model"]; message["role"] = "tool_result"', ["model", "tool_result"]),
        ('{"role": "bot", "content": text}; role in ("assistant", "tool")', ["assistant", "tool"]),
    ],
)
def test_keys_and_types_are_no_roles(source: str, roles: list[str]) -> None:
    messages = [{"role": "assistant", "content": "Hi."}, {"role": "tool", "content": "1", "tool_call_id": "c1"}]

    assert [each["role"] for each in with_own_roles(messages, source)] == roles


@pytest.mark.parametrize(
    ("source", "role"),
    [
        ('{"role": each.role}', "user"),
        ('{"role": "tool", "tool_call_id": each.id}', "user"),
        ('each.role == "tool"', "tool"),
        ("Role.TOOL", "tool"),
        ('role == "function"', "tool"),
    ],
)
def test_results_are_messages_of_the_user_if_the_code_has_no_other_role(source: str, role: str) -> None:
    message = {"role": "tool", "content": "1", "tool_call_id": "c1"}
    (made,) = with_own_roles([message], source, has_tool_role=mentions_tool_role(source))

    assert made["role"] == ("function" if "function" in source else role)


@dataclass
class Asked:
    pieces: list[Words | Finding]


@dataclass
class Said:
    pieces: list[Words | Job]


def test_each_of_several_message_classes_may_list_blocks() -> None:
    def chat(messages: list[Asked | Said]) -> Said: ...

    def plain(messages: list[dict[str, Any]]) -> Said: ...

    assert recognise_shape(chat, "mine").lists_blocks
    assert not recognise_shape(plain, "mine").lists_blocks


@dataclass
class GivenResult:
    id: str
    output: str
    is_error: bool = False


@dataclass
class FoundPlace:
    id: str
    output: str
    score: float = 0.0


@dataclass
class Memo:
    role: str
    text: str = ""
    results: list[GivenResult] = field(default_factory=list[GivenResult])


@dataclass
class SearchTurn:
    role: str
    text: str = ""
    results: list[FoundPlace] = field(default_factory=list[FoundPlace])


RESULTS = [{"role": "tool", "tool_call_id": each, "content": each.upper()} for each in ("a", "b")]


def test_a_result_may_have_only_the_id_of_its_call() -> None:
    assert as_annotated(RESULTS, list[Memo]) == [Memo("tool", "", [GivenResult("a", "A"), GivenResult("b", "B")])]
    assert as_annotated(RESULTS, list[SearchTurn]) == [SearchTurn("tool", "A"), SearchTurn("tool", "B")]


class Status(StrEnum):
    OK = "success"
    FAILED = "error"


@dataclass
class WithStatus:
    role: str
    content: str
    tool_call_id: str = ""
    status: Literal["success", "error"] = "success"


@dataclass
class WithEnum(WithStatus):
    status: Status = Status.OK  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass
class WithProgress(WithStatus):
    status: Literal["completed", "incomplete"] = "completed"  # pyright: ignore[reportIncompatibleVariableOverride]


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (WithStatus, ["success", "success", "error"]),
        (WithEnum, [Status.OK, Status.OK, Status.FAILED]),
        (WithProgress, ["completed", "completed", "completed"]),
    ],
)
def test_the_status_of_a_result_may_say_that_it_failed(kind: type, statuses: list[str]) -> None:
    said = {"role": "user", "content": "Look."}
    made = as_annotated([said, RESULTS[0], {**RESULTS[1], "is_error": True}], list[kind])

    assert [each.status for each in made] == statuses
    assert marks_errors(list[kind]) is ("error" in statuses)


@dataclass
class Remark:
    text: str


@dataclass
class Minute:
    text: str = ""
    items: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Assistant:
    text: str


@pytest.mark.parametrize(
    ("hint", "made"), [(Remark | Assistant, Assistant("Hello")), (list[Remark] | Remark, Remark("Hello"))]
)
def test_a_message_of_the_model_has_a_class_that_shows_it(hint: object, made: object) -> None:
    assert as_annotated({"role": "assistant", "content": "Hello", "text": "Hello"}, hint) == made


def test_a_message_of_the_model_is_not_made_if_no_class_shows_its_role() -> None:
    with pytest.raises(Unsupported, match="which class has the messages of the model is not clear"):
        as_annotated({"role": "assistant", "content": "Hello", "text": "Hello"}, Remark | Minute)


@dataclass
class OfResults:
    """A message whose results have a role of their own."""

    role: Literal["user", "assistant", "results"]
    text: str = ""


@dataclass
class OfUser:
    """A message whose results are the user's."""

    role: Literal["user", "assistant"]
    text: str = ""


def test_the_words_for_the_role_show_whether_results_have_one() -> None:
    assert [has_role_for_results(each) for each in (OfResults, OfUser, Path)] == [True, False, False]


@dataclass
class Utterance:
    """A text of a turn."""

    text: str


@dataclass
class Wanted:
    """A call of a turn."""

    name: str
    args: dict[str, Any]
    ref: str


@dataclass
class Returned:
    """A result of a turn."""

    name: str
    ref: str
    output: Any = None
    error: str | None = None


@dataclass
class Uttered:
    """A turn, whose words for the roles are its author's."""

    speaker: Literal["host", "model"]
    items: list[Utterance | Wanted | Returned]


def test_results_are_blocks_of_one_turn_of_the_only_role_besides_the_model() -> None:
    answered = {"id": "c1", "name": "look", "arguments": {}}
    results = [
        {"role": "user", "content": "1", "tool_call_id": each, "answered_call": answered} for each in ("c1", "c2")
    ]
    failed = {**results[0], "is_error": True}
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]

    made = as_annotated(
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": calls}, *results],
        list[Uttered],
    )

    assert made[0] == Uttered("host", [Utterance("Hi")])
    assert (made[1].speaker, made[1].items[-1]) == ("model", Wanted("look", {}, "c1"))
    assert made[2:] == [Uttered("host", [Returned("look", "c1", "1"), Returned("look", "c2", "1")])]
    assert as_annotated([failed], list[Uttered])[0].items == [Returned("look", "c1", "1", "1")]


UNTYPED = """
from dataclasses import dataclass, field

@dataclass
class Note:
    role: str
    content: str = ""
    results: RESULTS = None

class Desk:
    def ask(self, messages):
        return self._body(list(messages))
    def _body(self, messages):
        wire = []
        for each in messages:
            wire.append(self._message(each))
            if wire[-1]["role"] == ROLE:
                break
        return wire
    def _message(self, m):
        return {"role": m.role, "content": m.content}
"""


@pytest.mark.parametrize(
    ("role", "results", "is_found"),
    [
        ("'user'", "list[str]", True),
        ("'user'", "list", False),
        ("messages[0]['role']", "list[str]", False),
    ],
)
def test_code_without_annotations_shows_its_message_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, results: str, *, is_found: bool
) -> None:
    (tmp_path / "desk_untyped.py").write_text(UNTYPED.replace("ROLE", role).replace("RESULTS", results))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "desk_untyped", raising=False)
    importlib.invalidate_caches()
    module = importlib.import_module("desk_untyped")

    found = class_with_attributes(method_of(("ask",), module.Desk().ask), "messages", "role", "content")

    assert found == ([module.Note] if is_found else [])


UNTYPED_LISTS = """
from dataclasses import dataclass, field

@dataclass
class ToolCall:
    id: str
    name: str
    arguments: dict

@dataclass
class ToolResult:
    id: str
    name: str
    value: object

@dataclass
class Message:
    role: str
    text: str = ""
    calls: list = field(default_factory=list)
    results: list = field(default_factory=list)
"""


def test_a_list_without_items_in_its_annotation_has_the_class_for_results_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "untyped_lists.py").write_text(UNTYPED_LISTS)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("untyped_lists")
    answered = {"id": "c1", "name": "look", "arguments": {}}
    result = {"role": "tools", "content": "1", "answered_call": answered}

    (made,) = as_annotated([{**result, "tool_call_id": each} for each in ("c1", "c2")], list[module.Message])

    assert (made.role, made.text) == ("tools", "")
    assert made.results == [module.ToolResult(each, "look", "1") for each in ("c1", "c2")]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('if m.role == "tools": return', "tools"),
        ('if m.role in ("user", "results"): return', "results"),
        ('if m.role == "tool": return\nif m.role == "tools": return', None),
        ('{"role": "tools"}', None),
    ],
)
def test_the_role_of_results_is_the_word_that_code_compares(source: str, word: str | None) -> None:
    assert compared_role_of_results(source) == word
