"""A real browser without a window, led by the DevTools protocol over a pipe: it needs no port and no driver.

Debian's package `chromium` brings one. It is the only thing that can say whether a page runs a script, asks for
something, or shows anything at all.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

COMMAND = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
MISSING = "there is no browser: install Debian's package chromium"

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers; pages are files of ours
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)


_READY = """
document.documentElement.classList.contains("scripted")
  || [...document.querySelectorAll("noscript, #too-old")].some((each) => each.checkVisibility())
"""


class Browser:
    """One page at a time. `requests` are the addresses that the page has asked for since it was opened, `complaints`
    what the browser has said of it: errors of scripts, and what its policy has refused."""

    def __init__(self, folder: Path) -> None:
        assert COMMAND is not None
        (theirs, ours), (mine, yours) = os.pipe(), os.pipe()
        words = shlex.join([COMMAND, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"])
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {words} 3<&{theirs} 4>&{yours}"],
            pass_fds=(theirs, yours),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(yours)
        self._out, self._in, self._read = os.fdopen(ours, "wb", buffering=0), mine, b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{room}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read_reply()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, page: Path, fragment: str = "", *, width: int = 1440, dark: bool = False) -> None:
        """Show a file, and wait until it is there and its script has unpacked the data, or cannot run."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url="about:blank")  # else another fragment of one file would be no new page
        self.requests, self.complaints = [], []
        self.ask("Page.navigate", url=page.as_uri() + fragment)
        while (
            self._read_reply().get("method") != "Page.loadEventFired" or self.evaluate("location.protocol") != "file:"
        ):
            pass
        while not self.complaints and not self.evaluate(_READY):
            pass

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        reply = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def picture(self) -> bytes:
        """What is to be seen of the page, as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot")["data"])

    def close(self) -> None:
        """End it."""
        self._session = None
        self._out.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self._process.wait(20)
        self._out.close()
        os.close(self._in)

    def _read_reply(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._read += more
        data, _, self._read = self._read.partition(b"\0")
        reply: dict[str, Any] = json.loads(data)
        match reply.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(reply["params"]["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(reply["params"]["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(reply["params"]["entry"]["text"])
        return reply
