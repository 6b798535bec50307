"""Faults planted into a project that was recorded, and what is none though it looks like one.

Each is a change of the agent, of what was recorded, or of both, as it happens to people. `test` is the test that should
go red by it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.tape_fixture.project import cassette

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """`agent`: texts of the agent, each with what stands in its place. `recorded`: a change of the cassette.
    `while_recording`: it is planted before the project is recorded, and looked for in the cassette."""

    name: str
    agent: tuple[tuple[str, str], ...] = ()
    recorded: Callable[[Document], None] | None = None
    test: str = "test_weather"
    while_recording: bool = False

    def plant(self, folder: Path) -> None:
        """Change a project that is laid out in a folder."""
        source = folder / "agent.py"
        text = source.read_text(encoding="utf-8")
        for old, new in self.agent:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} stands {text.count(old)} times in the agent")
            text = text.replace(old, new)
        source.write_text(text, encoding="utf-8")
        if self.recorded is not None:
            path = cassette(folder, self.test)
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.recorded(document)
            path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _drop_last(document: Document) -> None:
    document["interactions"].pop()


def _add_one(document: Document) -> None:
    last = document["interactions"][-1]
    document["interactions"].append(json.loads(json.dumps(last)))
    _edit(document, -1, lambda body: body["messages"].append({"role": "user", "content": "And in Rome?"}))


def unanswered(document: Document) -> None:
    """The last of the recorded results was never sent."""
    _edit(document, -1, lambda body: body["messages"].pop())


def reworded(document: Document) -> None:
    """The last request does not have the first message as it was sent before."""
    _edit(document, -1, lambda body: body["messages"][0].update(content="It is 10:04."))


def _edit(document: Document, at: int, change: Callable[[Any], object]) -> None:
    """Change the body of a request, however it is spelled."""
    interaction = document["interactions"][at]
    body = json.loads(interaction["request"]["body"])
    change(body)
    interaction["request"]["body"] = json.dumps(body)
    interaction.get("spelling", {}).pop("request", None)


_RESULTS = 'body["messages"] += [message, *map(self.result, message["tool_calls"])]'
_SWAP = "one['tool_call_id'], other['tool_call_id'] = other['tool_call_id'], one['tool_call_id']"

FAULTS = (
    Fault(
        "a tool's schema is changed",
        ((' "required": ["city"]}', ' "required": []}'),),
    ),
    Fault(
        "two results are swapped",
        ((_RESULTS, f"{_RESULTS}\n            one, other = body['messages'][-2:]\n            {_SWAP}"),),
    ),
    Fault("an exchange is missing in the cassette", recorded=_drop_last),
    Fault("an exchange of the cassette is not asked for", recorded=_add_one),
    Fault(
        "a key is sent in the body, and recorded",
        (("**more}", '"user": os.environ["OPENAI_API_KEY"], **more}'),),
        while_recording=True,
    ),
    Fault(
        "a parser forgets what a piece of a stream ends with", (("left += piece", "left = piece"),), test="test_stream"
    ),
    Fault(
        "a call is left without its result, and was recorded so",
        ((_RESULTS, _RESULTS.replace('"])]', '"][:1])]')),),
        recorded=unanswered,
    ),
)
"""Each turns a test red, or keeps the key off the disk."""

HARMLESS = (
    Fault(
        "arguments and keys are spelled in another way",
        (
            ('"arguments": \'{"city": "Paris"}\'', '"arguments": \'{ "city":"Paris" }\''),
            ('{"model": MODEL, "messages": messages,', '{"messages": messages, "model": MODEL,'),
        ),
    ),
    Fault(
        "ids that the agent makes itself are made anew",
        (('"before-1", "type"', '"anew-7", "type"'), ('"tool_call_id": "before-1"', '"tool_call_id": "anew-7"')),
    ),
)
"""What means the same to any provider and any model: it should turn nothing red."""
