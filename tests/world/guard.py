"""The guard: a run that touches anything but virtual time and the seed fails with the stack.

Random sources are seeded, because what the product draws there (jitter, event ids, member names) has no meaning but
being different. Clocks answer only callers in CLOCK_READERS, with virtual time; every other caller fails the run. An
audit hook sees files, sockets, threads and child processes.
"""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.world.clocks import VirtualTime

CLOCK_READERS: Mapping[str, str] = MappingProxyType(
    {
        "slackwater.bus.consume.handlers": "durations for metrics, and how often a stack trace is logged",
        "slackwater.agent.usecases.agent_loop": "the duration of a tick, for a metric",
        "slackwater.model.identifiers": "the time in a UUIDv7: no decision reads it",
        "slackwater.telemetry.spans": "begin and end of exported spans",
        "prometheus_client.metrics": "when a series was created",
        "prometheus_client.values": "the time of an exemplar",
        "logging": "the time of a log line",
        "structlog.processors": "the time of a log line",
        "uuid": "not a clock: uuid5 of names; uuid4 draws from the seeded os.urandom",
    }
)
"""Modules that may read the operating system's clocks, each with what it does with the time."""
_TIMES = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_ASKS_FOR_NOW = re.compile(r"\bdatetime\.(now|utcnow|today)\b")
_FORBIDDEN_EVENTS = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.spawn",
    "os.posix_spawn",
    "_thread.start_new_thread",
)


class Touched(BaseException):
    """The run touched something outside the world. Not an Exception: no handler of the product may swallow it."""


class Guard:
    """In force within `armed`, for one run. `wall_seconds` is the wall clock of the process that runs."""

    def __init__(
        self, seed: int, virtual: VirtualTime, wall_seconds: Callable[[], float], fail: Callable[[str], None]
    ) -> None:
        self._seed = seed
        self._time = virtual
        self._wall_seconds = wall_seconds
        self._fail = fail
        self._entropy = random.Random(f"entropy of {seed}")
        self._is_armed = False
        self._saved: list[tuple[Any, str, Any]] = []
        self._readable = _readable_places()

    @contextmanager
    def armed(self) -> Iterator[None]:
        state = random.getstate()
        random.seed(f"jitter of {self._seed}")
        self._patch()
        self._is_armed = True
        sys.addaudithook(self._audit)
        try:
            yield
        finally:
            self._is_armed = False
            for where, name, value in reversed(self._saved):
                setattr(where, name, value)
            random.setstate(state)

    def _patch(self) -> None:
        import threading

        for name in _TIMES:
            self._set(time, name, self._clock(name, 1.0))
            self._set(time, f"{name}_ns", self._clock(name, 1e9))
        self._set(os, "urandom", self._entropy.randbytes)
        self._set(random, "_urandom", self._entropy.randbytes)
        self._set(time, "sleep", lambda _: self._touch("time.sleep"))
        self._set(threading.Thread, "start", lambda _: self._touch("a thread"))
        for name in modules_that_ask_for_now():
            self._set(sys.modules[name], "datetime", self._guarded_datetime(name))

    def _set(self, where: Any, name: str, value: Any) -> None:
        self._saved.append((where, name, getattr(where, name)))
        setattr(where, name, value)

    def _clock(self, name: str, factor: float) -> Callable[[], float]:
        is_wall = name == "time"

        def read() -> float:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller not in CLOCK_READERS:
                self._touch(f"time.{name} read by {caller}")
            seconds = self._wall_seconds() if is_wall else self._time.time()
            return seconds if factor == 1.0 else int(seconds * factor)

        return read

    def _guarded_datetime(self, module: str) -> Any:
        """`datetime` of one module, which fails the run where it is asked for the present."""
        touch = self._touch

        class Guarded(type):
            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, datetime)

            def __subclasscheck__(cls, other: type) -> bool:
                return issubclass(other, datetime)

        class GuardedDatetime(datetime, metaclass=Guarded):
            def __new__(cls, *args: Any, **named: Any) -> Any:
                return datetime(*args, **named)  # noqa: DTZ001 - what the caller asked for

            @classmethod
            def now(cls, tz: Any = None) -> Any:
                touch(f"datetime.now read by {module}")

            @classmethod
            def utcnow(cls) -> Any:
                touch(f"datetime.utcnow read by {module}")

            @classmethod
            def fromtimestamp(cls, *args: Any, **named: Any) -> Any:
                return datetime.fromtimestamp(*args, **named)  # noqa: DTZ006

            @classmethod
            def fromisoformat(cls, text: str) -> Any:
                return datetime.fromisoformat(text)

            @classmethod
            def strptime(cls, text: str, form: str) -> Any:
                return datetime.strptime(text, form)  # noqa: DTZ007

            @classmethod
            def combine(cls, *args: Any, **named: Any) -> Any:
                return datetime.combine(*args, **named)

        return GuardedDatetime

    def _touch(self, what: str) -> None:
        self._is_armed = False  # the stack is read from files
        self._fail(f"the guard: {what}")
        raise Touched(what)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Judge one audit event of the interpreter. A hook cannot be removed: after the run it does nothing."""
        if not self._is_armed:
            return
        if event == "open":
            path, mode = args[0], args[1]
            if isinstance(path, int) or (_only_reads(mode, args[2]) and self._may_read(path)):
                return
            self._touch(f"the file {path!r} opened with mode {mode!r}")
        elif event.startswith(_FORBIDDEN_EVENTS) and event != "socket.gethostname":
            self._touch(f"{event} {args!r}")

    def _may_read(self, path: Any) -> bool:
        text = os.fsdecode(path)
        return not text.startswith("/") or text.startswith(self._readable)


@cache
def modules_that_ask_for_now() -> tuple[str, ...]:
    """Modules of the product that may ask `datetime` for the present; call it when all of them are imported."""
    names = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        has_it = name.startswith("slackwater.") and getattr(module, "datetime", None) is datetime
        if has_it and file and _ASKS_FOR_NOW.search(Path(file).read_text()):
            names.append(name)
    return tuple(names)


def _only_reads(mode: str | None, flags: int) -> bool:
    return mode in (None, "r", "rb") and not flags & (os.O_WRONLY | os.O_RDWR)


def _readable_places() -> tuple[str, ...]:
    """Code and contracts: imports at first use, tables, time zones."""
    tree = Path(__file__).parents[2]
    library = Path(os.__file__).parent
    return (f"{tree}/", f"{sys.prefix}/", f"{sys.base_prefix}/lib/", f"{library}/", "/usr/share/zoneinfo/")
