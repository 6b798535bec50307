"""Random conversations that the contract and the capabilities of a target allow."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, TypeAlias, get_args

from pydantic import ValidationError

from harness.apis import registry
from harness.apis.registry import Target
from harness.apis.view import Provocation
from harness.checks.random_values import RandomValues
from harness.model.messages import JSON, ToolCall
from harness.model.protocols import Capability
from harness.platform.files import shipped_folder
from harness.scenarios.canonical import calls_of, scripted_events
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Expectation, FaultSpec, FaultStatus, Scenario, TurnSpec
from harness.scenarios.validation import possible_failures, problems, used_capabilities

Document: TypeAlias = dict[str, Any]
"""A scenario as a dictionary, in the format of scenario files."""


def random_conversation(target: Target, random: Random) -> Scenario | None:
    """Return a random conversation, or `None` if the drawn conversation is not valid. Every choice is made by `random`.

    The only expectations are errors and events. Expectations of the shipped scenario that it is based on are removed,
    because they may contradict the drawn parts.
    """
    document = _Drawing(random, target).document()
    for turn in document.get("turns", ()):
        turn.pop("expect", None)
        if random.random() < _SHARE_WITH_EVENTS:
            turn["expect"] = {"events": ["done"]}  # replaced by those of the script
    return valid_scenario(document)


_SHARE_WITH_EVENTS = 0.3


def valid_scenario(document: Document) -> Scenario | None:
    """Return the scenario of a document, or `None` if the document is not valid.

    The capabilities that the scenario uses are set as its requirements. It expects the errors that can happen. If it
    expects events, they are replaced by those of its script. The document is changed in the same way.
    """
    document.pop("requires", None)
    try:
        scenario = Scenario.model_validate_json(json.dumps(document))
        _expect(document, scenario)
        document["requires"] = sorted(used_capabilities(scenario))
        expected = [
            Expectation.model_validate_json(json.dumps(turn["expect"])) if "expect" in turn else None
            for turn in _turns(document)
        ]
    except (ValidationError, AttributeError, TypeError):
        return None
    turns = [turn.model_copy(update={"expect": each}) for turn, each in zip(scenario.turns, expected, strict=True)]
    for turn in turns:
        if turn.expect is None:
            turn.model_fields_set.discard("expect")
    requires = [*map(Capability, document["requires"])]
    scenario = scenario.model_copy(update={"requires": requires, **({"turns": turns} if turns else {})})
    return None if any(True for _ in problems(scenario)) else scenario


def _turns(document: Document) -> list[Document]:
    return document.get("turns", [])


def _expect(document: Document, scenario: Scenario) -> None:
    """Replace the expected errors and events of a document."""
    earlier: list[ToolCall] = []
    is_scripted = not _answers_later(document)
    for turn, given in zip(scenario.turns, _turns(document), strict=True):
        before: Document = given.pop("expect", None) or {}
        kept = {key: value for key, value in before.items() if key not in ("error", "events")}
        has_events = bool(turn.expect and turn.expect.events)
        error = _error(scenario, turn)
        if error is not None:
            kept["error"] = error
        elif (
            has_events and is_scripted and (events := scripted_events(scenario, turn.model, None, earlier)) is not None
        ):
            kept["events"] = events
        if kept:
            given["expect"] = kept
        earlier += (call for step in turn.model for call in calls_of(step))


def _error(scenario: Scenario, turn: TurnSpec) -> JSON:
    """Return the expected error of a turn; `None` if none can happen."""
    if turn is not scenario.turns[-1]:
        return None
    if len(turn.model) == scenario.max_iterations and turn.model[-1].whole_calls:
        return {"name": "iteration-limit"}
    failures = possible_failures(scenario, turn)
    if len(failures) == 1 and failures[0].status is not None:
        return {"name": failures[0].name, "status": failures[0].status, "retry_after": failures[0].retry_after}
    return {"name": [*dict.fromkeys(failure.name for failure in failures)]} if failures else None


@cache
def bases() -> tuple[tuple[Scenario, Document], ...]:
    """Return the shipped scenarios that are specific to some APIs or profiles, for example because they use provider
    tools.
    """
    shipped = load_paths([shipped_folder("scenarios")])
    return tuple(
        (each, each.model_dump(mode="json", exclude_unset=True, by_alias=True))
        for each in shipped
        if each.provider_tools or each.apis_with_fields or each.profiles
    )


def _applies(scenario: Scenario, target: Target) -> bool:
    able = target.adapter.capabilities - target.profile.lacks
    return (
        able.issuperset(scenario.requires)
        and (scenario.profiles is None or target.profile.name in scenario.profiles)
        and (not scenario.provider_tools or target.api in scenario.provider_tools)
        and (not scenario.apis_with_fields or target.api in scenario.apis_with_fields)
    )


_TOOL_NAMES = (
    *("get", "get_2", "get-2", "Get", "_get", "g" * 64, "text", "function", "tool_use", "final-answer", "a", "_"),
    *("read_file", "bash", "web_lookup", "json_tool_call", "response"),
    *("get_weather_in_a_city_with_a_very_long_name_0123456789_abcdefghi", "call_0", "functions-get", "x-y-z"),
)
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
_IMAGES = (
    {"media_type": "image/png", "data": _PIXEL},
    {"media_type": "image/jpeg", "data": "/9j/4AAQSkZJRgABAQAAAQABAAD/2Q=="},
    {"media_type": "image/gif", "data": "R0lGODlhAQABAAAAACw="},
    {"media_type": "image/png", "uri": "https://example.org/a.png"},
)
_SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
_SOUNDS = ({"media_type": "audio/wav", "data": _SOUND}, {"media_type": "audio/mp3", "data": "SUQzBAAAAAAAAA=="})
_FILES = (
    {"media_type": "application/pdf", "data": "JVBERi0xLjQKJSVFT0YK"},
    {"media_type": "text/plain", "data": "w6kKbGluZSAyCg=="},
)
_CALL_IDS = (
    *("call_{}", "toolu_{}", "functions.get:{}", "x{}", "call_" + "0" * 24 + "{}", "{}-" + "f" * 200, "üñ {}", "{}"),
    *("call_" + "0" * 60 + "{}", "session-1f0a7c" * 5 + "{}", "fc_{}", "call {}"),
)


_FIELDS_NEXT_TO: Mapping[str, Mapping[str, Document]] = {
    "anthropic": {"thinking": {"thinking": {"display": "summarized"}}},
    "gemini": {
        "tool_choice": {"toolConfig": {"retrievalConfig": {"languageCode": "de"}}},
        "max_tokens": {"generationConfig": {"seed": 7}},
    },
    "openai-responses": {
        "response_format": {"text": {"verbosity": "low"}},
        "thinking": {"reasoning": {"summary": "auto"}},
    },
}
"""Maps an API and a setting to provider fields that belong in the same object of the body as the setting."""


class _Drawing(RandomValues):
    """Random generator for the parts of a conversation."""

    def __init__(self, random: Random, target: Target) -> None:
        super().__init__(random)
        self._target = target
        self._able: Container[Capability] = target.adapter.capabilities - target.profile.lacks
        self._tools: list[Document] = []
        self._settings: Document = {}
        self._is_based = False

    def document(self) -> Document:
        """Return the document of a scenario. It may be inconsistent."""
        document: Document = {
            "version": 1,
            "id": "generated",
            "title": "A conversation that was generated",
            "covers": ["history"],
            "scripted": True,
        }
        if Capability.EMBEDDINGS in self._able and self._maybe(0.1):
            shuffled = Provocation.VECTORS_OUT_OF_ORDER in self._provocations() and self._maybe()
            provoked = {"provocations": [Provocation.VECTORS_OUT_OF_ORDER.value]} if shuffled else {}
            return {**document, "variants": ["whole"], "embeddings": self._embeddings(), **provoked}
        base = self._base()
        if _can_be_extended(base) and self._maybe():
            base = {key: base[key] for key in ("tools", "settings", "profiles") if key in base}
        self._is_based = bool(base)
        self._tools = base.get("tools", [])
        if Capability.TOOLS in self._able and (self._tools or not base):
            names = {tool["name"] for tool in self._tools}
            drawn = [self._tool() for _ in range(self._random.choice((0, 1, 1, 2, 3, 3)))]
            self._tools += {tool["name"]: tool for tool in drawn if tool["name"] not in names}.values()
        self._settings = base.get("settings", {})
        if "turns" not in base:
            self._settings = {**self._drawn_settings(), **self._settings}
        turns = [*base.get("turns", ()), *(self._turn() for _ in range(self._count_turns(base)))]
        for tool in self._tools:
            tool.setdefault("results", self._results(tool, turns))
        self._add_later(turns, document)
        document |= {
            key: base[key] for key in ("provider_tools", "profiles", "variants", "kept_by_provider") if key in base
        }
        document |= {"turns": turns}
        if self._tools:
            document["tools"] = self._tools
        if self._settings:
            document["settings"] = self._settings
        if "system" in base or self._may_have_system(0.5):
            is_cached = self._settings.get("cache") and self._maybe()  # providers cache long prompts only
            document["system"] = base.get("system") or (f"{self._word()} " * 500 if is_cached else self._text())
        if "history" in base or (Capability.HISTORY in self._able and self._maybe(0.25)):
            document["history"] = base.get("history") or self._history()
        return document | self._add_complication(document)

    def _base(self) -> Document:
        """Return a copy of a scenario from `bases` that the target can run, or, in most cases, an empty document."""
        if not self._maybe(0.2):
            return {}
        chosen = [document for scenario, document in bases() if _applies(scenario, self._target)]
        return json.loads(json.dumps(self._one_of(chosen))) if chosen else {}

    def _count_turns(self, base: Document) -> int:
        if "turns" not in base:
            return self._random.choice((1, 1, 1, 1, 1, 2, 3)) if Capability.HISTORY in self._able else 1
        may_grow = Capability.HISTORY in self._able and not base.get("faults") and not _answers_later(base)
        return self._random.choice((0, 1)) if may_grow else 0

    def _add_later(self, turns: list[Document], document: Document) -> None:
        """In some documents, have the model call an undeclared tool. In some, declare one of the tools only from the
        second turn on.
        """
        if self._tools and not self._is_based and self._maybe(0.05) and not self._settings.get("tool_choice"):
            calls = next((step["calls"] for step in turns[-1]["model"] if step.get("calls")), None)
            if calls is not None and "tool_choice" not in turns[-1].get("settings", {}):
                name = self._one_of(("get_nothing", "browser.tabs.open", "get " + "x" * 70))
                calls[0] = {name: {}}
                document["undeclared_tools"] = [name]
        if len(turns) > 1 and len(self._tools) > 1 and self._maybe(0.6):
            called = {name for step in turns[0]["model"] for call in step.get("calls", ()) for name in call}
            late = [tool for tool in self._tools if tool["name"] not in called and "fields" not in tool]
            if late and not self._settings.get("tool_choice") and "tool_choice" not in turns[0].get("settings", {}):
                self._one_of(late)["from_turn"] = 1

    def _may_have_system(self, chance: float) -> bool:
        """Return whether to draw a system prompt. The result is false if there is a base, whose fields may already
        contain one.
        """
        return Capability.SYSTEM_PROMPT in self._able and not self._is_based and self._maybe(chance)

    # --- settings ---

    def _drawn_settings(self) -> Document:
        settings: Document = {}
        if self._maybe(0.3):
            settings["max_tokens"] = self._one_of((16, 1024, 4096))
        if self._tools and Capability.TOOL_CHOICE in self._able and self._maybe(0.3):
            forced = {
                Capability.FORCED_TOOL_CHOICE: "required",
                Capability.NAMED_TOOL_CHOICE: {"tool": self._one_of(self._tools)["name"]},
            }
            settings["tool_choice"] = self._one_of(
                ["auto", "none", *(choice for capability, choice in forced.items() if capability in self._able)]
            )
        elif self._maybe(0.3):
            settings |= self._format()
        if Capability.THINKING in self._able and not settings and self._maybe():
            budgets = self._target.profile.thinking == "budget" and self._maybe()
            amount = {"budget_tokens": 2048} if budgets else {"effort": self._one_of(("low", "medium", "high"))}
            settings = {"thinking": amount, "max_tokens": 8192}
        if Capability.CACHE_MARKS in self._able and self._maybe(0.3):
            settings["cache"] = True
        if self._target.profile.sampling == "any" and self._maybe(0.2):
            settings |= {"temperature": self._one_of((0, 0.25, 1)), "top_p": self._one_of((0.5, 1))}
        shared = _FIELDS_NEXT_TO.get(self._target.api, {})
        if Capability.PROVIDER_FIELDS in self._able and (known := [*settings.keys() & shared]) and self._maybe(0.2):
            settings["fields"] = {self._target.api: shared[self._one_of(sorted(known))]}
        return settings

    def _format(self) -> Document:
        if self._tools and Capability.JSON_WITH_TOOLS not in self._able:
            return {}
        formats: list[Any] = ["json"] if Capability.JSON_MODE in self._able else []
        if Capability.JSON_SCHEMA in self._able:
            schema = self._object(1, strict=True)
            if self._maybe(0.3):  # with optional properties, in objects that the adapter may have to close
                schema = {key: value for key, value in schema.items() if key in ("type", "properties")}
            formats.append({"json_schema": schema, "name": self._one_of(("response", "a-1_B"))})
        return {"response_format": self._one_of(formats)} if formats else {}

    # --- tools ---

    def _tool(self) -> Document:
        letters = "abcdefghijklmnopqrstuvwxyzABC_-0123456789"
        name = self._one_of(_TOOL_NAMES) if self._maybe() else "t" + "".join(self._random.choices(letters, k=4))
        tool: Document = {"name": name}
        if self._maybe(0.8):
            tool["description"] = self._text()
        return {**tool, "parameters": self._parameters()} if self._maybe(0.8) else tool

    def _results(self, tool: Document, turns: list[Document]) -> list[Document]:
        """Return the results of a tool: one for all calls, or one for each."""
        name = tool["name"]
        steps = [step for turn in turns for step in turn["model"]]
        calls = [call[name] for step in steps for call in step.get("calls", ()) if name in call]
        separate = [each for each in calls if each] if self._maybe(0.3) else []
        results = [{"when": arguments, **self._result()} for arguments in _distinct(separate)]
        if len(calls) > 1 and self._maybe(0.2):  # equal calls with different results
            results.append({"times": 1, **self._result()})
        return [*results, self._result()]

    def _result(self) -> Document:
        match self._random.randrange(8):
            case 0:
                return {"error": self._one_of((self._json(), self._json(), ""))}
            case 1:
                return {"raise": self._one_of((self._text(), self._text(), ""))}
            case 2:
                parts: list[Document] = [{"text": self._text()} for _ in range(self._random.randint(0, 2))]
                if Capability.IMAGE_RESULTS in self._able and (not parts or self._maybe()):
                    parts.append({"image": self._one_of(_IMAGES[:3])})
                return {"parts": parts} if parts else {"return": self._json()}
            case _:
                return {"return": self._large_text() if self._maybe(0.3) else self._json()}

    # --- turns ---

    def _turn(self) -> Document:
        turn: Document = {"user": self._user()}
        if self._may_have_system(0.1):
            turn["system"] = self._one_of((None, self._text()))
        if self._maybe(0.1) and not self._is_based and "thinking" not in self._settings:
            turn["settings"] = self._drawn_settings()
        settings = turn.get("settings", self._settings)
        return {**turn, "model": [*self._steps(settings), self._last(settings)]}

    def _user(self) -> Any:
        text = {"text": self._large_text() or "a"}
        media = {
            Capability.VISION: {"image": self._one_of(_IMAGES)},
            Capability.FILES: {"file": self._one_of(_FILES)},
            Capability.AUDIO: {"audio": self._one_of(_SOUNDS)},
        }
        drawn = [part for capability, part in media.items() if capability in self._able and self._maybe(0.2)]
        if not drawn and self._maybe(0.8):
            return text["text"]
        parts = [text, *drawn, *([{"text": self._text() or "b"}] if self._maybe(0.3) else ())]
        self._random.shuffle(parts)
        return parts

    def _steps(self, settings: Document) -> Iterator[Document]:
        """Yield the model's answers with calls."""
        choice = settings.get("tool_choice")
        if not self._tools or choice == "none":
            return
        fewest = 1 if choice not in (None, "auto") else 0
        most = 4 if Capability.PARALLEL_TOOL_CALLS in self._able else 1
        for number in range(max(fewest, self._random.choice((0, 0, 1, 1, 1, 1, 2, 3)))):
            tools = self._tools
            if number == 0 and isinstance(choice, dict):
                tools = [tool for tool in tools if tool["name"] == choice["tool"]]
            count = self._random.choice((1, 1, 1, most, self._random.randint(1, most)))
            calls = [self._call(tools) for _ in range(count)]
            if len(calls) > 1 and self._maybe(0.2):
                calls[-1] = calls[0]  # identical calls
            step: Document = {"calls": calls}
            if len(calls) > 1 and Capability.TRUNCATION in self._able and self._maybe(0.1):
                step["truncated"] = True  # the earlier calls are complete
            if len(calls) > 1 and "truncated" not in step and self._maybe(0.3):
                step["answers"] = self._random.sample(range(len(calls)), len(calls))
            if self._maybe(0.4):
                step["text"] = self._one_of((self._text(), self._text(), "", " "))
            yield self._with_thinking(settings) | step

    def _with_thinking(self, settings: Document) -> Document:
        if "thinking" not in settings or self._maybe(0.3):
            return {}
        return {"thinking": self._one_of(("", self._text(), self._text()))}

    def _call(self, tools: Sequence[Document]) -> Document:
        tool = self._one_of(tools)
        parameters: Document = tool.get("parameters") or {"type": "object"}
        shared: Document = parameters.get("$defs", {})
        properties = {
            name: shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
            for name, each in parameters.get("properties", {}).items()
        }
        return {tool["name"]: self._value(parameters | ({"properties": properties} if properties else {}))}

    def _last(self, settings: Document) -> Document:
        form = settings.get("response_format")
        if form is not None:
            value = {"a": self._json()} if form == "json" else self._value(form["json_schema"])
            return {"text": json.dumps(value, ensure_ascii=self._maybe())}
        text = self._text()
        cut: list[Document] = [{"text": text, "stop": "max_tokens"}]
        if self._tools and settings.get("tool_choice") in (None, "auto"):
            calls = [self._call(self._tools)]
            cut += [{"calls": calls, "truncated": True}, {"calls": calls, "truncated": True, "stop": "tool_use"}]
        ends: list[Document] = [
            *([{"text": text}] * 8),
            {"refusal": text},
            {"text": ""},
            {"text": text, "stop": "refusal"},
            {"text": text, "served": "served-model-2026-01-01"},
            *(cut if Capability.TRUNCATION in self._able else ()),
        ]
        return self._with_thinking(settings) | self._one_of(ends)

    # --- history, faults and provocations ---

    def _history(self) -> list[Document]:
        """Return an earlier conversation, whose ids may come from any provider."""
        messages: list[Document] = [{"role": "user", "text": self._text() or "a"}]
        if self._tools and self._maybe(0.7):
            form = self._one_of((*_CALL_IDS, *_CALL_IDS[-4:-2]))
            most = 3 if Capability.PARALLEL_TOOL_CALLS in self._able else 1
            calls: list[Document] = []
            for number in range(self._random.randint(1, most)):
                ((name, arguments),) = self._call(self._tools).items()
                calls.append({"id": form.format(number), "name": name, "arguments": arguments})
            message: Document = {"role": "assistant", "calls": calls}
            if self._maybe(0.4):
                others = [each.name for each in registry.apis() if each.name != self._target.api]
                foreign = {self._one_of(("vendor-of-old", "vendor-of-old", *others)): {"signature": "bm90"}}
                self._one_of((message, *calls))["metadata"] = foreign
            if self._maybe(0.3):
                message["text"] = self._one_of(("", self._text()))
            if self._maybe(0.1):
                message["thinking"] = self._text()  # with the state of another provider, or none
            messages.append(message)
            results = [{"call_id": call["id"], "content": self._json(), "is_error": self._maybe(0.2)} for call in calls]
            messages.append({"role": "user", "results": self._random.sample(results, len(results))})
        return [*messages, {"role": "assistant", "text": self._text() or "b"}]

    def _add_complication(self, document: Document) -> Document:
        """Return the fields of at most one complication: a fault, an unusual response, trimmed results, or an iteration
        limit.
        """
        turns = document["turns"]
        steps = [step for turn in turns for step in turn["model"]]
        answers = len(steps)
        is_rare = Provocation.RARE_STOP_WORDS in self._provocations() and any("stop" in step for step in steps)
        if is_rare and self._maybe(0.4):
            return {"provocations": [Provocation.RARE_STOP_WORDS.value]}
        match self._random.randrange(12):
            case 0 | 11:
                fault = {"answer": answers - 1, **self._fault()}
                in_streams = FaultSpec.model_validate(fault).is_of_streams
                return {"faults": [fault], **({"variants": ["stream"]} if in_streams else {})}
            case 1:
                return {"faults": [{"answer": self._random.randrange(answers), "connection": "slow"}]}
            case 2 | 10:
                known = sorted(self._provocations() - {Provocation.VECTORS_OUT_OF_ORDER, Provocation.RARE_STOP_WORDS})
                chosen = self._random.sample(known, min(1, len(known)))
                if Provocation.THINKING_BLOCKS in known and "thinking" in self._settings and self._maybe(0.7):
                    chosen = [Provocation.THINKING_BLOCKS]
                elif Provocation.REPEATED_IDS in known and _calls_in_turns(turns) and self._maybe():
                    chosen = [Provocation.REPEATED_IDS]
                streamed = {"variants": ["stream"]} if any(each.is_of_streams for each in chosen) else {}
                return {"provocations": [each.value for each in chosen], **streamed}
            case 3 if self._tools and len(turns) > 1:
                return {"trim": {"tools": [self._one_of(self._tools)["name"]]}}
            case 4 if "calls" in turns[-1]["model"][0]:
                whole = [step for step in turns[-1]["model"] if step.get("calls") and not step.get("truncated")]
                turns[-1]["model"] = whole
                return {"max_iterations": len(whole)}
            case _:
                return {}

    def _provocations(self) -> frozenset[Provocation]:
        return registry.api(self._target.api).provocations

    def _fault(self) -> Document:
        at = {"at": self._one_of((0, 0.2, 0.5, "end"))}  # later on, a short answer may be complete
        status = self._one_of((*get_args(FaultStatus), 529))
        waiting = {"status": self._one_of((429, 503)), "retry_after": self._one_of((0, 7, 1.5))}
        return self._one_of(
            (
                waiting,
                {"status": status},
                {"stream_error": self._one_of((429, 500, 529)), **at},
                {"body": self._one_of(("empty", "invalid-json", "html", "wrong-type"))},
                {"connection": self._one_of(("cut", "reset")), **at},
                {"connection": "cut-clean", **at},
            )
        )

    def _embeddings(self) -> Document:
        texts = [self._text() or "a" for _ in range(self._random.randint(1, 4))]
        queries: list[Document] = [{"text": self._text() or "a"} for _ in range(self._random.randint(0, 2))]
        if queries and self._maybe(0.3):
            index = {"model": "another", "provider": "x", "dimensions": 9}
            queries[-1]["indexed_with"] = dict(self._random.sample([*index.items()], self._random.randint(1, 3)))
        return {"dimensions": self._one_of((1, 3, 128)), "texts": texts, "queries": queries}


def _answers_later(document: Document) -> bool:
    """Return whether a tool of the document sends its result in a later turn."""
    return any("turns_later" in result for tool in document.get("tools", ()) for result in tool.get("results", ()))


def _calls_in_turns(turns: Sequence[Document]) -> bool:
    """Return whether the model calls tools in more than one turn."""
    return sum(any(step.get("calls") for step in turn["model"]) for turn in turns) > 1


def _can_be_extended(base: Document) -> bool:
    """Return whether the tools and settings of a base can be used with other turns. They cannot if other fields of the
    base affect the model's answers.
    """
    answers = [step for turn in base.get("turns", ()) for step in turn["model"]]
    return not (
        _answers_later(base)
        or base.keys() & {"provider_tools", "kept_by_provider", "history", "system", "undeclared_tools"}
        or any(step.keys() & {"raw", "call_fields"} for step in answers)
        or any({*fields} - {"strict"} for tool in base.get("tools", ()) for fields in tool.get("fields", {}).values())
        or re.search("mode|system", json.dumps(base.get("settings", {}).get("fields")), re.IGNORECASE)
    )


def _distinct(values: Sequence[JSON]) -> list[JSON]:
    return [json.loads(text) for text in dict.fromkeys(map(json.dumps, values))]
