"""Broken adapters, each by its source. `HEAD` is above each; what breaks comes with the import, in a field, or in a
client."""

from __future__ import annotations

HEAD = """\
from dataclasses import replace
from harness.adapters.openai_chat import ADAPTER as SHIPPED
from harness.model.messages import *
from harness.model.protocols import *
import os, sys

def client(chat=None, close=None, stream=None):
    class Client:
        def __init__(self, endpoint, model):
            self.inner = SHIPPED.connect(endpoint, model)
        def chat(self, request):
            return self.inner.chat(request) if chat is None else chat(self, request)
        def stream(self, request):
            return self.inner.stream(request) if stream is None else stream(self, request)
        def close(self):
            self.inner.close()
            if close is not None:
                return close(self)
    return replace(SHIPPED, name="broken", connect=Client)

def then(act):
    def chat(self, request):
        response = self.inner.chat(request)
        act()
        return response
    return client(chat)

"""

_IMPORTS = {
    "import-error": "import no_such_module_anywhere",
    "syntax-error": "def (",
    "raises": "raise RuntimeError('at import\\nin two lines')",
    "raises-without-text": "raise Exception",
    "exits": "sys.exit(3)",
    "exits-hard": "os._exit(4)",
    "killed": "os.kill(os.getpid(), 9)",
    "aborts": "os.abort()",
    "recurses": "def f(): f()\nf()",
    "nothing": "",
    "closes-standard-output": "os.close(1); sys.stdout.close()\nADAPTER = 5",
    "nul": "\0",
    "latin": "# \xe9",
    "allocates": "bytearray(1 << 60)",
    "closes-everything": "os.closerange(0, 64)",
}

_FIELDS = {
    "not-an-adapter": "ADAPTER = 5",
    "a-class": "class ADAPTER: pass",
    "a-module": "ADAPTER = os",
    "a-factory": "def ADAPTER(): return SHIPPED",
    "name-number": "ADAPTER = replace(SHIPPED, name=5)",
    "name-none": "ADAPTER = replace(SHIPPED, name=None)",
    "name-empty": "ADAPTER = replace(SHIPPED, name='')",
    "name-lines": "ADAPTER = replace(SHIPPED, name='a\\nb')",
    "name-surrogate": "ADAPTER = replace(SHIPPED, name='\\ud800')",
    "api-none": "ADAPTER = replace(SHIPPED, name='x', api=None)",
    "api-unknown": "ADAPTER = replace(SHIPPED, name='x', api='soap')",
    "capabilities-none": "ADAPTER = replace(SHIPPED, name='x', capabilities=None)",
    "capabilities-number": "ADAPTER = replace(SHIPPED, name='x', capabilities=3)",
    "capabilities-text": "ADAPTER = replace(SHIPPED, name='x', capabilities='tools')",
    "capabilities-mixed": "ADAPTER = replace(SHIPPED, name='x', capabilities=frozenset({1, 'tools', None}))",
    "capabilities-unknown": "ADAPTER = replace(SHIPPED, name='x', capabilities=frozenset({'toools'}))",
    "connect-none": "ADAPTER = replace(SHIPPED, name='x', connect=None)",
    "connect-takes-nothing": "ADAPTER = replace(SHIPPED, name='x', connect=lambda: None)",
    "embeddings-number": "ADAPTER = replace(SHIPPED, name='x', embeddings=3)",
    "embeddings-missing": "ADAPTER = replace(SHIPPED, name='x', embeddings=None)",
    "embeddings-wrong": "ADAPTER = replace(SHIPPED, name='x', embeddings=Embeddings('m', 'many', 1))",
    "requires-text": "ADAPTER = replace(SHIPPED, name='x', requires='openai')",
    "lies-about-its-class": "class A(Adapter):\n    def __getattribute__(self, name): raise ValueError(name)\n"
    "ADAPTER = A('x', 'openai-chat', frozenset(), None)",
}

_CLIENTS = {
    "connect-raises": "def no(*_): raise OSError(5, 'no')\nADAPTER = replace(SHIPPED, name='x', connect=no)",
    "connect-gives-nothing": "ADAPTER = replace(SHIPPED, name='x', connect=lambda *_: None)",
    "connect-gives-a-coroutine": "async def no(*_): pass\nADAPTER = replace(SHIPPED, name='x', connect=no)",
    "connect-exits": "ADAPTER = replace(SHIPPED, name='x', connect=lambda *_: os._exit(0))",
    "chat-raises": "def no(*_): raise KeyError('no')\nADAPTER = client(no)",
    "chat-raises-nonsense": "class E(Exception):\n    def __str__(self): return 5\n"
    "def no(*_): raise E\nADAPTER = client(no)",
    "chat-gives-nothing": "ADAPTER = client(lambda *_: None)",
    "chat-gives-text": "ADAPTER = client(lambda *_: 'Hello')",
    "chat-gives-itself": "ADAPTER = client(lambda self, request: self)",
    "chat-gives-wrong-parts": "ADAPTER = client(lambda *_: ChatResponse(Message(Role.ASSISTANT, (5,)), 'end', None))",
    "chat-gives-nothing-inside": "ADAPTER = client(lambda *_: ChatResponse(None, None, None, None))",
    "chat-gives-numbers": "ADAPTER = client(lambda *_: ChatResponse(Message(3, 4), 5, 6, 7))",
    "chat-gives-far-too-much": "def much(self, request):\n"
    "    response = self.inner.chat(request)\n"
    "    return replace(response, message=Message(Role.ASSISTANT, (Text('x' * (90 << 20)),)))\nADAPTER = client(much)",
    "chat-exits": "ADAPTER = then(lambda: os._exit(7))",
    "chat-leaves": "ADAPTER = then(lambda: sys.exit('enough'))",
    "chat-hangs": "import time\nADAPTER = then(lambda: time.sleep(600))",
    "chat-hangs-deaf": "import signal, time\ndef deaf():\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n"
    "    while True:\n        try: time.sleep(600)\n        except BaseException: pass\nADAPTER = then(deaf)",
    "chat-recurses": "def f(): f()\nADAPTER = then(f)",
    "chat-allocates": "ADAPTER = then(lambda: bytearray(1 << 60))",
    "chat-alarms": "import signal, time\nADAPTER = then(lambda: (signal.alarm(1), time.sleep(5)))",
    "chat-closes-descriptors": "ADAPTER = then(lambda: os.closerange(0, 64))",
    "chat-leaves-the-folder": "def lost():\n    import tempfile\n"
    "    os.chdir(tempfile.mkdtemp())\n    os.rmdir(os.getcwd())\n"
    "    raise ValueError('lost')\nADAPTER = then(lost)",
    "close-raises": "def no(self): raise ValueError('no')\nADAPTER = client(close=no)",
    "close-exits": "ADAPTER = client(close=lambda self: os._exit(0))",
    "close-hangs": "import time\nADAPTER = client(close=lambda self: time.sleep(600))",
}

_STREAMS = {
    "stream-gives-nothing": "ADAPTER = client(stream=lambda *_: None)",
    "stream-gives-a-number": "ADAPTER = client(stream=lambda *_: 5)",
    "stream-gives-texts": "ADAPTER = client(stream=lambda *_: iter(['Hello']))",
    "stream-ends-early": "ADAPTER = client(stream=lambda *_: iter([]))",
    "stream-raises": "def no(*_):\n    yield TextDelta('Hel')\n    raise ValueError('no')\nADAPTER = client(stream=no)",
    "stream-finishes-with-nothing": "ADAPTER = client(stream=lambda *_: iter([Finish(None)]))",
    "stream-is-a-coroutine": "async def no(*_): return 5\nADAPTER = client(stream=no)",
}

_HARMLESS = {
    "closes-stdout": "ADAPTER = then(lambda: sys.stdout.close())",
    "closes-descriptor-1": "closed = []\ndef close():\n    closed or closed.append(os.close(1))\nADAPTER = then(close)",
    "has-no-stdout": "def none(): sys.stdout = sys.stderr = None\nADAPTER = then(none)",
    "prints": "ADAPTER = then(lambda: [print('x' * 1000) for _ in range(3000)])",
    "prints-bytes": "ADAPTER = then(lambda: os.write(1, b'\\xff\\x00\\x1b[2J'))",
    "forks": "def fork():\n    if os.fork() == 0: os._exit(0)\nADAPTER = then(fork)",
    "forks-and-goes-on": "ADAPTER = then(os.fork)",
    "changes-folder": "ADAPTER = then(lambda: os.chdir('/'))",
    "changes-signals": "import signal\n"
    "ADAPTER = then(lambda: [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 10, 12, 13, 15)])",
    "changes-locale": "import locale\nADAPTER = then(lambda: locale.setlocale(locale.LC_ALL, 'C'))",
    "changes-the-environment": "ADAPTER = then(lambda: os.environ.clear())",
    "lowers-the-recursion-limit": "ADAPTER = then(lambda: sys.setrecursionlimit(150))",
}

BROKEN = {**_IMPORTS, **_FIELDS, **_CLIENTS}
"""They have to end a run with an error, whole or streamed."""

STREAMING = _STREAMS
"""The same, of those that break where they stream."""

HARMLESS = _HARMLESS
"""They do odd things and answer as they should."""

LIMITED = frozenset({"chat-hangs", "chat-hangs-deaf", "close-hangs"})
"""These end by a limit of time."""
