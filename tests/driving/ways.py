"""A loop over plain HTTP that plays OpenAI Chat rightly, unusually, or wrongly, as the first word of its user says."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import httpx2

from harness import Capability, Conversation, ConversationTool, Endpoint, FinalCall, Loop, ToolFailed, Unsupported
from harness.model.protocols import PLAIN_LOOP

Body = dict[str, Any]

RIGHT = (
    "right",
    "framed",
    "reordered",
    "wrapped",
    "encoded",
    "names-nothing",
    "titled",
    "asked-again",
    "ends-with-call",
    "cut-raises",
    "cut-ends",
    "cut-asks-again",
    "repeats",
)
WRONG = {
    "tool-of-another": "loop-failed",
    "swapped": "result-swapped",
    "zipped": "result-swapped",
    "fills-nothing": "result-swapped",
    "encoded-otherwise": "result-changed",
    "replaces-text": "result-changed",
    "blames-nothing": "result-changed",
    "hides-error": "result-changed",
    "id-lost": "result-orphan",
    "system-dropped": "loop-system",
    "system-as-user": "loop-system",
    "system-repeated": "loop-system",
    "system-also-as-user": "loop-system",
    "history-dropped": "loop-history",
    "repeats-dropped": "loop-history",
    "arguments-dropped": "arguments-changed",
    "tools-dropped-later": "loop-tools-declared",
    "tools-dropped-in-turn": "loop-tools-declared",
    "tool-replaced": "loop-tools-declared",
    "description-dropped": "loop-tools",
    "schema-thinned": "loop-tools",
    "bound-dropped": "loop-settings",
    "declines-and-drops-bound": "loop-settings",
    "declines-in-a-turn": "loop-failed",
    "other-model": "loop-settings",
    "trims-in-a-turn": "result-orphan",
    "run-twice": "tool-run-again",
    "run-otherwise": "tool-run-otherwise",
    "run-uncalled": "tool-run-uncalled",
    "cut-runs": "cut-call-run",
    "cut-answers": "cut-call-answered",
    "cut-hangs-up": "loop-failed",
    "not-run": "tool-run-missing",
    "ends-early": "script-unplayed",
    "leaves": "script-unplayed",
    "raises": "loop-failed",
    "library-raises": "loop-failed",
    "exits": "loop-failed",
    "elsewhere": "loop-elsewhere",
}
"""The rule that finds each: that of the first finding that follows from no other."""

AT_ONCE = ("right", "zipped")
"""The ways that run the tools of a response at once."""

NOTED = {
    "dated": {"prefix-changed"},
    "trims": {"prefix-changed", "loop-history"},
    "words-error": {"result-changed"},
    "last-without-tools": {"prefix-changed"},
}
"""The rules of each way that works, and costs more than it has to, or leaves out old turns."""

SCENARIO = """
version: 1
id: {way}
title: A loop of two turns, with calls side by side and one that fails
covers: [tools]
requires: [system-prompt, tools, parallel-tool-calls, history]
system: You are terse.
settings: {{max_tokens: 300}}
tools:
  - name: get_weather
    description: Current weather in a city.
    parameters: {{type: object, properties: {{city: {{type: string, minLength: 2}}}}, required: [city]}}
    results:
      - {{when: {{city: Paris}}, return: {{temp_c: 18}}}}
      - {{when: {{city: Tokyo}}, return: {{temp_c: 31}}}}
      - {{when: {{city: Oslo}}, error: station offline}}
turns:
  - user: "{way}: How warm is it in Paris and in Tokyo?"
    model:
      - calls: [{{get_weather: {{city: Paris}}}}, {{get_weather: {{city: Tokyo}}}}]
      - text: 18 °C and 31 °C.
  - user: And in Oslo?
    model:
      - calls: [{{get_weather: {{city: Oslo}}}}]
      - text: The station is offline.
"""

OWN_TOOL = """
version: 1
id: {way}
title: A program that has a tool of its own
covers: [tools]
requires: [system-prompt, tools]
system: You are terse.
settings: {{max_tokens: 300}}
tools: [{{name: clock, answered_by: client}}]
turns:
  - user: "{way}: What time is it?"
    model:
      - calls: [{{clock: {{}}}}]
      - text: It is noon.
"""


ENDING = """
version: 1
id: {way}
title: A loop that ends by a call of the tool for its answer
covers: [tools]
requires: [system-prompt, tools]
system: You are terse.
settings: {{max_tokens: 300}}
tools:
  - name: submit
    parameters: {{type: object, properties: {{city: {{type: string}}}}, required: [city]}}
    results: [{{return: {{done: true}}}}]
turns:
  - user: "{way}: Which is the capital of France?"
    ends_with_call: true
    model: [{{calls: [{{submit: {{city: Paris}}}}]}}]
"""

CUT = """
version: 1
id: {way}
title: A loop whose model reaches its bound in the middle of a call
covers: [tools]
requires: [system-prompt, tools, truncation]
scripted: true
system: You are terse.
settings: {{max_tokens: 300}}
tools:
  - name: get_weather
    description: Current weather in a city.
    parameters: {{type: object, properties: {{city: {{type: string}}, day: {{type: string}}}}, required: [city]}}
    results: [{{return: {{temp_c: 18}}}}]
turns:
  - user: "{way}: How warm will it be in Paris?"
    model:
      - calls: [{{get_weather: {{city: Paris, day: tomorrow, in the afternoon: true}}}}]
        truncated: true
"""

LONGER = f"""{SCENARIO}
  - user: Thank you.
    model: [{{{{text: You are welcome.}}}}]
"""

REPEATS = """
version: 1
id: {way}
title: A model that gives the same answer twice
covers: [tools]
requires: [system-prompt, tools, history]
system: You are terse.
settings: {{max_tokens: 300}}
tools: [{{name: get_weather}}]
turns:
  - user: "{way}: Is the first lamp on?"
    model: [{{text: It is.}}]
  - user: And the second?
    model: [{{text: It is.}}]
  - user: Thank you.
    model: [{{text: You are welcome.}}]
"""

ROUNDS = """
version: 1
id: {way}
title: A turn with two rounds of calls
covers: [tools]
requires: [system-prompt, tools]
system: You are terse.
settings: {{max_tokens: 300}}
tools:
  - name: get_weather
    parameters: {{type: object, properties: {{city: {{type: string}}}}, required: [city]}}
    results: [{{when: {{city: Paris}}, return: 18}}, {{when: {{city: Tokyo}}, return: 31}}]
turns:
  - user: "{way}: Is it warmer in Tokyo than in Paris?"
    model:
      - calls: [{{get_weather: {{city: Paris}}}}]
      - calls: [{{get_weather: {{city: Tokyo}}}}]
      - text: Yes.
"""

EMPTY = SCENARIO.replace("return: {{temp_c: 18}}", 'return: ""')

OTHERS = {
    **dict.fromkeys(("names-nothing", "fills-nothing", "blames-nothing"), EMPTY),
    **dict.fromkeys(("tools-dropped-in-turn", "last-without-tools", "tool-replaced"), ROUNDS),
    "own-tool": OWN_TOOL,
    "ends-with-call": ENDING,
    "trims": LONGER,
    "trims-in-a-turn": LONGER,
    "repeats": REPEATS,
    "repeats-dropped": REPEATS,
}
"""The scenarios of ways that are not run by the one of two turns."""


def messages(change: Callable[[Body], Body | None]) -> Callable[[Body], Body]:
    """The body with each of its messages changed, or left out."""

    def edit(body: Body) -> Body:
        changed = (change(dict(message)) for message in body["messages"])
        return {**body, "messages": [message for message in changed if message is not None]}

    return edit


def function(change: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """The body with the declarations of its tools changed."""
    return lambda body: {
        **body,
        "tools": [{"type": "function", "function": change(dict(tool["function"]))} for tool in body["tools"]],
    }


def swapped(body: Body) -> Body:
    ids = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    mine = iter([*ids[1::-1], *ids[2:]])
    return messages(lambda message: {**message, **({"tool_call_id": next(mine)} if message["role"] == "tool" else {})})(
        body
    )


def reordered(body: Body) -> Body:
    reported = list(body["messages"])
    tools = [at for at, message in enumerate(reported) if message["role"] == "tool"][:2]
    if len(tools) == 2:
        reported[tools[0]], reported[tools[1]] = reported[tools[1]], reported[tools[0]]
    return {**body, "messages": reported}


def without_first_turn(body: Body) -> Body:
    asked = [at for at, message in enumerate(body["messages"]) if message["role"] == "user"]
    return body if len(asked) < 2 else {**body, "messages": [body["messages"][0], *body["messages"][asked[1] :]]}


def without_system_later(body: Body) -> Body:
    """Leave out the system prompt of the second turn."""
    asked = sum(message["role"] == "user" for message in body["messages"])
    return body if asked < 2 else {**body, "messages": body["messages"][1:]}


def without_repeats(body: Body) -> Body:
    """Leave out each answer that the model has already given."""
    given = [each["content"] if each["role"] == "assistant" else None for each in body["messages"]]
    kept = [each for at, each in enumerate(body["messages"]) if given[at] is None or given[at] not in given[:at]]
    return {**body, "messages": kept}


def with_system_in_front(message: Body) -> Body:
    """Puts the system prompt in front of a text of the user, too."""
    return {**message, "content": f"You are terse.\n\n{message['content']}"} if message["role"] == "user" else message


def repeated_system(message: Body) -> Body:
    """Puts the system prompt twice into its message."""
    return {**message, "content": "\n\n".join([message["content"]] * 2)} if message["role"] == "developer" else message


def rewritten(message: Body) -> Body:
    calls = [{**call, "function": {**call["function"], "arguments": "{}"}} for call in message.get("tool_calls") or []]
    return {**message, **({"tool_calls": calls} if calls else {})}


def of(who: str, **changed: Any) -> Callable[[Body], Body]:
    return messages(lambda message: {**message, **changed} if message["role"] == who else message)


def wrapped(message: Body) -> Body:
    if message["role"] != "tool" or not message["content"].startswith("{"):
        return message
    return {**message, "content": json.dumps({"status": "success", "output": json.loads(message["content"])})}


def content(change: Callable[[str], str]) -> Callable[[Body], Body]:
    """The body with the text of each result changed."""
    return messages(
        lambda message: {**message, "content": change(message["content"])} if message["role"] == "tool" else message
    )


def failure(words: str) -> Callable[[Body], Body]:
    """The body with other words for a tool that failed."""
    return content(lambda text: words if text.startswith("The tool could not") else text)


def results(body: Body) -> int:
    return sum(message["role"] == "tool" for message in body["messages"])


def without_tools_after(count: int) -> Callable[[Body], Body]:
    """The body without its tools once it has as many results."""
    return lambda body: body if results(body) < count else {key: body[key] for key in body if key != "tools"}


THINK = {
    "type": "function",
    "function": {"name": "think", "description": "Think.", "parameters": {"type": "object", "properties": {}}},
}


def framed(body: Body) -> Body:
    words = {"developer": "I am an agent.\n\n{}\n\nToday is Monday.", "user": "<question>{}</question>"}
    reported = messages(lambda each: {**each, "content": words.get(each["role"], "{}").format(each["content"])})
    return {**reported(body), "tools": [*body["tools"], THINK]}


def dated(body: Body) -> Body:
    """The system prompt names the time, which each request has another one of."""
    return messages(
        lambda each: (
            {**each, "content": f"{each['content']}\nIt is {time.monotonic_ns()}."}
            if each["role"] == "developer"
            else each
        )
    )(body)


def finishing(body: Body) -> Body:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    own = {"name": "final_answer", "description": "End the turn.", "parameters": schema}
    return {**body, "tools": [*body["tools"], {"type": "function", "function": own}]}


def trimmed(body: Body, to: str) -> Body:
    """In the third turn, leaves out what is before the first message of the role `to` behind the first user's."""
    system, *rest = body["messages"]
    if sum(message["role"] == "user" for message in rest) < 3:
        return body
    first = next(place for place, message in enumerate(rest) if place and message["role"] == to)
    return {**body, "messages": [system, *rest[first:]]}


BODIES: dict[str, Callable[[Body], Body]] = {
    "swapped": swapped,
    "id-lost": of("tool", tool_call_id="call_0"),
    "id-lost-then-system": lambda body: without_system_later(of("tool", tool_call_id="call_0")(body)),
    "not-run-id-lost": of("tool", tool_call_id="call_0"),
    "system-dropped": messages(lambda message: None if message["role"] == "developer" else message),
    "system-as-user": of("developer", role="user"),
    "system-repeated": messages(repeated_system),
    "system-also-as-user": messages(with_system_in_front),
    "history-dropped": without_first_turn,
    "repeats-dropped": without_repeats,
    "arguments-dropped": messages(rewritten),
    "tools-dropped-later": lambda body: body if len(body["messages"]) < 4 else {**body, "tools": body["tools"][:0]},
    "tools-dropped-in-turn": without_tools_after(1),
    "last-without-tools": without_tools_after(2),
    "tool-replaced": lambda body: {**body, "tools": [THINK]} if results(body) else body,
    "description-dropped": function(lambda tool: {**tool, "description": ""}),
    "schema-thinned": function(lambda tool: {**tool, "parameters": {"type": "object"}}),
    "bound-dropped": lambda body: {key: value for key, value in body.items() if key != "max_completion_tokens"},
    "declines-and-drops-bound": lambda body: {key: body[key] for key in body if key != "max_completion_tokens"},
    "other-model": lambda body: {**body, "model": "gpt-4o"},
    "framed": framed,
    "dated": dated,
    "finishes": finishing,
    "reordered": reordered,
    "wrapped": messages(wrapped),
    "encoded": content(json.dumps),
    "encoded-otherwise": content(lambda text: json.dumps(text.replace("18", "19"))),
    "names-nothing": content(lambda text: text or "(nothing found, no errors)"),
    "blames-nothing": content(lambda text: text or "Tool failed: no output"),
    "fills-nothing": content(lambda text: text or '{"temp_c": 31}'),
    "replaces-text": content(
        lambda text: text.replace('{"temp_c": 18}', "").replace('{"temp_c":18}', "") or "(nothing found)"
    ),
    "hides-error": failure("null"),
    "words-error": failure("Something went wrong with this tool."),
    "trims": lambda body: trimmed(body, "user"),
    "trims-in-a-turn": lambda body: trimmed(body, "tool"),
}


def result(tool: ConversationTool, call: Body, arguments: Body) -> Body:
    try:
        text = tool.text(arguments)
    except ToolFailed as failed:
        text = f"The tool could not be run. It says: {failed}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def run(way: str, tool: ConversationTool, call: Body) -> Body:
    arguments = json.loads(call["function"]["arguments"])
    match way:
        case "run-twice":
            result(tool, call, arguments)
        case "run-otherwise":
            return result(tool, call, {"city": "Oslo"})
        case "not-run" | "not-run-id-lost":
            return {"role": "tool", "tool_call_id": call["id"], "content": '{"temp_c": 20}'}
        case _:
            pass
    return result(tool, call, arguments)


def ended(way: str) -> None:
    """Ends the loop, by whatever it is that goes wrong."""
    match way:
        case "raises":
            raise LookupError("no model of this name")
        case "library-raises":
            httpx2.URL("http://x:port")
        case "exits":
            sys.stderr.write("a last word\n")
            sys.stderr.flush()
            os._exit(3)
        case "hangs":
            time.sleep(600)
        case "declines":
            raise Unsupported("ways", "everything", "it is not in the mood")
        case "leaves":
            sys.exit(0)
        case _:
            pass


KEPT: list[ConversationTool] = []
"""The tool of the conversation before."""


def run_way(endpoint: Endpoint, model: str, conversation: Conversation) -> None:  # noqa: C901 - a branch for each way
    way = conversation.turns[0].text.partition(":")[0]
    ended(way)
    (tool,) = conversation.tools
    if way == "tool-of-another":
        tool = KEPT[-1]
    KEPT[:] = [tool]
    if way == "run-uncalled":
        tool.text({"city": "Paris"})
    declared = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    chat: list[Body] = [{"role": "developer", "content": conversation.system}]
    headers = {"authorization": f"Bearer {endpoint.api_key}"}
    with httpx2.Client(base_url=endpoint.base_url, headers=headers, trust_env=False) as http:
        if way == "elsewhere":
            http.post("completions", json={"prompt": "Hi."})
            return
        if way == "titled":
            ask(http, {"model": model, "messages": [{"role": "user", "content": "A title, please."}]})
        for number, turn in enumerate(conversation.turns):
            chat.append({"role": "user", "content": turn.text})
            calls: list[Body] = [{}]
            while calls:
                if way == "ends-early" and number:
                    return
                if way in ("declines-later", "declines-and-drops-bound") and number:
                    raise Unsupported("ways", "a second turn", "it keeps no history")
                body = {"model": model, "messages": chat, "max_completion_tokens": conversation.max_tokens}
                body |= {"tools": [{"type": "function", "function": declared}], "reasoning_effort": "none"}
                body = BODIES.get(way, lambda body: body)(body)
                answer = ask(http, body)
                if way == "asked-again":
                    answer = ask(http, body)
                chat.append(answer)
                calls = answer.get("tool_calls") or []
                if way == "declines-in-a-turn" and calls:
                    raise Unsupported("ways", "a call", "it runs no tools")
                if way == "finishes" and finished(calls):
                    chat.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": "done"})
                    break
                if way.startswith(("cut-", "ends-with-")):
                    cut(way, http, {**body, "messages": chat[:-1]}, calls)
                    return
                with ThreadPoolExecutor(None if way in AT_ONCE else 1) as pool:
                    running = [pool.submit(run, way, tool, call) for call in calls]
                    ended_first = as_completed(running) if way == "zipped" else running
                    results = [each.result() for each in ended_first]
                ids = [call["id"] for call in calls]
                chat += [{**result, "tool_call_id": id_} for id_, result in zip(ids, results, strict=True)]


def ask(http: httpx2.Client, body: Body) -> Body:
    reply = http.post("chat/completions", json=body)
    reply.raise_for_status()
    message: Body = reply.json()["choices"][0]["message"]
    return message


def finished(calls: list[Body]) -> bool:
    """Whether a call ends the turn. An answer without any call is no end."""
    if not calls:
        raise LookupError("the model has to call a tool")
    return calls[0]["function"]["name"] == "final_answer"


def cut(way: str, http: httpx2.Client, body: Body, calls: list[Body]) -> None:
    """What a loop does when its model was cut off in the middle of a call."""
    match way:
        case "cut-raises":
            raise RuntimeError("the answer was cut off")
        case "cut-asks-again":
            with contextlib.suppress(httpx2.HTTPStatusError):  # the script has no other answer
                ask(http, {**body, "max_completion_tokens": 600})
        case "cut-runs":
            KEPT[-1].text({"city": "Paris"})
        case "cut-answers":
            error = {"role": "tool", "tool_call_id": calls[0]["id"], "content": "The arguments are no JSON."}
            with contextlib.suppress(httpx2.HTTPStatusError):
                ask(http, {**body, "messages": [*body["messages"], {"role": "assistant", "tool_calls": calls}, error]})
        case "cut-hangs-up":
            os._exit(3)
        case _:
            pass


async def drive(endpoint: Endpoint, model: str, conversation: Conversation) -> None:
    run_way(endpoint, model, conversation)


LOOP = Loop("ways", "openai-chat", run_way, PLAIN_LOOP | {Capability.STREAMING})
FINISHING = Loop("finishing", "openai-chat", run_way, PLAIN_LOOP, FinalCall("final_answer", "answer"))
