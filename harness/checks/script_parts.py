"""Functions and classes that `harness reproduce` copies into its scripts. They do not import harness."""
# pyright: basic

from __future__ import annotations

import functools
import inspect
import json
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

ANSWERS, received = [], []  # of the script


def events(*sent):
    return "".join(f"data: {json.dumps(each)}\n\n" for each in sent)


def named_events(*sent):
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in sent)


class ProviderStub(BaseHTTPRequestHandler):
    def do_POST(self):
        received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = ANSWERS[min(len(received), len(ANSWERS)) - 1]
        body = body.encode("utf-8", "surrogateescape")
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class ChunkStub(BaseHTTPRequestHandler):
    def do_POST(self):
        received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = ANSWERS[min(len(received), len(ANSWERS)) - 1]
        chunks = [each.encode("utf-8", "surrogateescape") for each in ([body] if isinstance(body, str) else body)]
        self.send_response(status)
        for name, value in {"content-length": str(sum(map(len, chunks))), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(chunk)
            time.sleep(0.02)


def ask_gateway(url, headers, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - an HTTP address
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            return response.read().decode()
    except urllib.error.HTTPError as error:
        error.msg = error.read().decode()
        raise


async def collect(stream):
    return [each async for each in stream]


def ignoring():
    async def ignore(*_):
        pass

    return ignore


def at(value, *steps):
    try:
        return at(value[steps[0]], *steps[1:]) if steps else value
    except (IndexError, KeyError, TypeError):
        return None


def status_of(error):
    while error is not None:
        for name in ("provider_status_code", "status_code", "status", "code"):
            if isinstance(getattr(error, name, None), int):
                return getattr(error, name)
        error = error.__cause__ or error.__context__


def parse(arguments):
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def answer_fields(text="", calls=(), refusal=None, **others):
    return {"text": text, "calls": [*calls], "refusal": refusal, **others}


runs = []


def scripted_tool(results, **about):
    def run(arguments):
        runs.append((about["name"], arguments))
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return SimpleNamespace(**about, call=run, text=run)


class AwaitableResult(str):
    __slots__ = ()

    def __await__(self):
        return self
        yield


def tool_function(name, description, parameters, results):
    types = {"string": str, "integer": int, "number": float, "boolean": bool}
    required = parameters.get("required", [])
    schemas = sorted(parameters.get("properties", {}).items(), key=lambda each: each[0] not in required)

    def parameter(name, schema):
        kind, annotation = inspect.Parameter.POSITIONAL_OR_KEYWORD, types[schema["type"]]
        default = inspect.Parameter.empty if name in required else None
        return inspect.Parameter(name, kind, default=default, annotation=annotation)

    def function(*args, **kwargs):
        if len(args) == 1 and not kwargs and (isinstance(args[0], dict) or hasattr(args[0], "model_dump")):
            kwargs = dict(args[0] if isinstance(args[0], dict) else args[0].model_dump())
        elif args:
            kwargs = {**dict(zip([each for each, _ in schemas], args, strict=False)), **kwargs}
        runs.append((name, kwargs))
        result = results.pop(0) if len(results) > 1 else results[0]
        if isinstance(result, Exception):
            raise result
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = description
    if all(each.isidentifier() and schema.get("type") in types for each, schema in schemas):
        function.__annotations__ = {each: types[schema["type"]] for each, schema in schemas}
        function.__signature__ = inspect.Signature([parameter(*each) for each in schemas])
    return function


def with_context(function):
    def run(_context, *args, **kwargs):
        return function(*args, **kwargs)

    run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, function.__annotations__
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([context, *inspect.signature(function).parameters.values()])
    return run


def async_tool_function(*about):
    function = tool_function(*about)

    @functools.wraps(function)
    async def run(*args, **kwargs):
        return function(*args, **kwargs)

    return run


def tool_object(base, attributes, methods, function):
    members = {**attributes, **dict.fromkeys(methods, staticmethod(function))}
    return type(base.__name__, (base,), members)()


def fields(value):
    return value if isinstance(value, dict) else value.model_dump() if hasattr(value, "model_dump") else vars(value)


def read(completion):
    choice, usage = fields(fields(completion)["choices"][0]), fields(fields(completion).get("usage") or {})
    message = fields(choice["message"])
    functions = [(each.get("id"), fields(each["function"])) for each in map(fields, message.get("tool_calls") or ())]
    return {
        "text": message.get("content") or "",
        "calls": [{"id": call_id, "name": each["name"], "args": each["arguments"]} for call_id, each in functions],
        "refusal": message.get("refusal"),
        "reason": choice["finish_reason"],
        "read": usage.get("prompt_tokens"),
        "written": usage.get("completion_tokens"),
    }


def read_chunks(chunks):
    found = {"text": "", "calls": {}, "refusal": "", "reason": None}
    for choice in [choice for chunk in chunks for choice in chunk.choices]:
        found["reason"] = choice.finish_reason or found["reason"]
        found["text"] += choice.delta.content or ""
        found["refusal"] += getattr(choice.delta, "refusal", None) or ""
        for piece in getattr(choice.delta, "tool_calls", None) or ():
            call = found["calls"].setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "args": ""})
            call["args"] += piece.function.arguments or ""
    return {**found, "calls": [*found["calls"].values()]}
