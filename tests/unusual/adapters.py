"""The adapters that the command is given: `tests.unusual.adapters:EQUAL.<target>`, and `CHANGED.…`.

One for each target and side, so that a run needs few of them. Which form to take stands in the text of the user, since
a scenario is all that an adapter gets to see, in whatever process it lives. The name of an attribute is the target's,
with what an identifier cannot hold replaced by `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Literal, cast

from harness.contract.model import ChatRequest, ChatResponse, Message, StreamEvent, Text
from harness.contract.protocols import Adapter, Capability, Endpoint, StreamingChatClient
from tests.stages import shipped_targets
from tests.unusual.form import Form
from tests.unusual.forms import FORMS

Side = Literal["EQUAL", "CHANGED"]
SIDES: tuple[Side, ...] = ("EQUAL", "CHANGED")

_NAMED = {form.name: form for form in FORMS}
_MARK = re.compile(r" \(It takes the form ([a-z0-9-]+)\.\)")


def mark(form: Form) -> str:
    """What a text says behind its own words so that these adapters take a form."""
    return f" (It takes the form {form.name}.)"


def spec(side: Side, target: str, lacks: Capability | None = None, has: Capability | None = None) -> str:
    """What the command takes for `--adapter`."""
    return f"tests.unusual.adapters:{side}.{_attribute(target, lacks, has)}"


class _Chosen:
    """The client of the form that the first request names."""

    def __init__(self, side: Side, target: str, endpoint: Endpoint, model: str) -> None:
        self._side = side
        self._target = target
        self._place = endpoint, model
        self._client: StreamingChatClient | None = None

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self._chosen(request).chat(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        return self._chosen(request).stream(request)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _chosen(self, request: ChatRequest) -> StreamingChatClient:
        if self._client is None:
            form = _NAMED[_marked(request.messages)]
            wrap = form.equal if self._side == "EQUAL" else form.changed
            wrapped = wrap(shipped_targets()[self._target].adapter)
            self._client = cast("StreamingChatClient", wrapped.connect(*self._place))
        return self._client


def _marked(messages: tuple[Message, ...]) -> str:
    texts = (part.text for message in messages for part in message.parts if isinstance(part, Text))
    return next(found[1] for text in texts if (found := _MARK.search(text)))


def _attribute(target: str, lacks: Capability | None, has: Capability | None) -> str:
    name = target if lacks is None else f"{target}_without_{lacks}"
    name = name if has is None else f"{name}_with_{has}"
    return name.replace("-", "_").replace(".", "_")


def _adapter(side: Side, target: str, lacks: Capability | None, has: Capability | None) -> Adapter:
    def connect(endpoint: Endpoint, model: str) -> _Chosen:
        return _Chosen(side, target, endpoint, model)

    shipped = shipped_targets()[target].adapter
    name = f"unusual-{side.lower()}"
    capabilities = shipped.capabilities - {lacks} | ({has} if has else frozenset[Capability]())
    return replace(shipped, name=name, capabilities=capabilities, connect=connect)


def _all(side: Side) -> SimpleNamespace:
    made = {(target, lacks, form.has) for form in FORMS for target in form.targets for lacks in (form.lacks, None)}
    return SimpleNamespace(**{_attribute(*each): _adapter(side, *each) for each in made})


EQUAL = _all("EQUAL")
CHANGED = _all("CHANGED")
