"""A headless Chromium, driven over the DevTools protocol on a pipe: no driver, no library, no port.

Messages are JSON with a NUL byte behind each, on descriptors 3 (to the browser) and 4 (from it).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",  # the pages are ours, and as root there is no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE_SECONDS = 60.0


def chromium_on_path() -> str | None:
    """The browser that Debian calls `chromium`; other systems' names are tried too."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One browser process. Use as a context manager; everything it started ends with it."""

    def __init__(self, executable: str, profile: Path) -> None:
        self._incoming, theirs_out = _pipe()
        theirs_in, self._outgoing = _pipe()
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        arguments = ["nice", "-n", "5", executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        null = os.open(os.devnull, os.O_RDWR)
        self._pid = os.posix_spawnp(
            "nice",
            arguments,
            {**os.environ, "HOME": str(profile)},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, null, each) for each in (0, 1, 2)),
                (os.POSIX_SPAWN_DUP2, theirs_in, 3),
                (os.POSIX_SPAWN_DUP2, theirs_out, 4),
            ],
            setsid=True,
        )
        for each in (theirs_in, theirs_out, null):
            os.close(each)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._incoming)
        os.close(self._outgoing)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; events that come in between are kept."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._outgoing, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._next(deadline, method)
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            else:
                return dict(answer["result"])

    def _next(self, deadline: float, awaited: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._incoming], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser did not answer {awaited} in {PATIENCE_SECONDS:.0f} s"
            chunk = os.read(self._incoming, 1 << 16)
            assert chunk, f"the browser ended before it answered {awaited}"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """A tab of its own, until the block ends."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        try:
            yield page
        finally:
            self.call("Target.closeTarget", targetId=target)
            self.events.clear()


@dataclass
class Page:
    """A tab. `look` sets what the style sheet may ask about the window."""

    browser: Browser
    session: str
    width: int = field(default=1280)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def look(self, width: int, height: int = 900, scheme: str = "light", motion: str = "reduce") -> None:
        """Window size in CSS pixels, colour scheme and motion preference, as the media queries see them."""
        self.width = width
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, url: str) -> None:
        """Load a page, with all its scripts. Raises AssertionError if it does not come."""
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; it must be JSON."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, holds: Callable[[Any], bool] = bool) -> Any:
        """Wait for an expression to hold; fails with what it last was."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds(value := self.ask(expression)):
            assert time.monotonic() < deadline, f"{expression} is still {value!r}"
            time.sleep(0.03)
        return value

    def press(self, key: str, code: int) -> None:
        """One stroke of a key, e.g. `press("Tab", 9)`."""
        typed = {"text": "\r"} if key == "Enter" else {}  # what makes a button or a form act
        for kind, more in (("keyDown" if typed else "rawKeyDown", typed), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def screenshot(self, whole: bool = True, height: int | None = None) -> bytes:
        """A PNG of the page, or of its upper `height` pixels."""
        box = self.ask("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": self.width, "height": height or box[1], "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, clip=clip)
        return base64.b64decode(answer["data"])

    def heard(self, method: str) -> list[dict[str, Any]]:
        """The parameters of the events of this kind so far."""
        self.ask("1")  # an answer comes behind every event that was sent before it
        return [
            e["params"] for e in self.browser.events if e["method"] == method and e.get("sessionId") == self.session
        ]


def _pipe() -> tuple[int, int]:
    """Both ends above 9, so that they never stand where the browser's are to be put."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]
