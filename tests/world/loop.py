"""The event loop of the world: virtual time, and a seed that chooses which ready callback runs next.

It has no selector, thread, socket or executor. A callback belongs to the simulated process of its context
(tests.world.processes); those of a dead process never run, those of a frozen one wait until it continues.
"""

from __future__ import annotations

import asyncio
import heapq
import traceback
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tests.world.processes import PROCESS

if TYPE_CHECKING:
    from tests.world.processes import Process

T = TypeVar("T")
LONGEST_STEP_OF_A_THREAD = 0.05
"""Seconds of virtual time that work given to an executor takes at most."""


_OUTSIDE = (
    *("add_reader", "add_writer", "remove_reader", "remove_writer", "add_signal_handler", "remove_signal_handler"),
    *("create_connection", "create_datagram_endpoint", "create_server", "create_unix_connection", "create_unix_server"),
    *("connect_read_pipe", "connect_write_pipe", "subprocess_exec", "subprocess_shell", "getaddrinfo", "getnameinfo"),
    *("sock_accept", "sock_connect", "sock_recv", "sock_sendall", "sendfile", "start_tls", "run_forever"),
)


class Failed(Exception):
    """The run has failed: an exception that nothing awaits, or work that the world does not allow."""


class SimHandle(asyncio.TimerHandle):
    """One callback. The base class is for `isinstance` only: its constructor does what no run needs."""

    __slots__ = ()

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def __repr__(self) -> str:
        return f"<SimHandle {self._callback!r} at {self._when:.6f}>"


class SimTask(asyncio.Task[T]):
    """A task that hashes by its number: the order of a set of tasks does not depend on addresses."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """`in_order` runs ready callbacks first in, first out; otherwise `rng` chooses among them.

    `current` is the process whose callback runs, None for the world's own.
    """

    def __init__(self, rng: Random, *, in_order: bool = False) -> None:
        self.steps = 0
        self.current: Process | None = None
        self.failures: list[str] = []
        self._rng = rng
        self._in_order = in_order
        self._now = 0.0
        self._number = 0
        self._tasks = 0
        self._ready: list[SimHandle] = []
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._is_running = False
        self._is_closed = False
        self._stops = False

    def run(self, until: float) -> None:
        """Run until virtual time `until`, or until `stop`. Raises Failed at the first failure."""
        last = self._enter()
        try:
            self._run(until)
        finally:
            self._is_running = False
            events._set_running_loop(last)
            self.current = None
        self.raise_failure()

    def _enter(self) -> asyncio.AbstractEventLoop | None:
        last = events._get_running_loop()
        self._is_running = True
        events._set_running_loop(self)
        return last

    def _run(self, until: float) -> None:
        timers, uniform, of_process, in_order = self._timers, self._rng.random, PROCESS, self._in_order
        while not self._stops:
            ready = self._ready
            if not ready:
                if not timers or timers[0][0] > until:
                    self._now = max(self._now, until)
                    return
                self._advance()
                continue
            if in_order or len(ready) == 1:
                self._ready = []
            else:
                place = int(uniform() * len(ready))
                last = ready.pop()
                if place < len(ready):
                    last, ready[place] = ready[place], last
                ready = [last]
            for handle in ready:
                if handle._cancelled:
                    continue
                process = handle._context.get(of_process)
                if process is not None and not process.is_running:
                    process.held.append(handle)
                    continue
                self.current = process
                self.steps += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except Exception as error:  # noqa: BLE001 - it ends the run with its stack
                    self.fail("an exception in a callback", error)

    def _advance(self) -> None:
        """Advance to the next timer, and make every timer of that moment ready."""
        timers, ready = self._timers, self._ready
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if not handle._cancelled:
                ready.append(handle)

    def fail(self, why: str, error: BaseException | None = None) -> None:
        """End the run: `run` raises Failed."""
        stack = "".join(traceback.format_exception(error) if error is not None else traceback.format_stack())
        of = "" if self.current is None else f" of {self.current.name}"
        self.failures.append(f"{why}{of}\n{stack}")
        self.stop()

    def stop(self) -> None:
        """Make `run` return after the present callback."""
        self._stops = True

    def raise_failure(self) -> None:
        """Raises Failed if the run has failed."""
        if self.failures:
            raise Failed(self.failures[0])

    def ready_again(self, handles: list[SimHandle]) -> None:
        """Schedule callbacks that were held."""
        self._ready.extend(handles)

    # asyncio.AbstractEventLoop

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # the base class knows no context
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = SimHandle(self._now, callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = SimHandle(when, callback, args, copy_context() if context is None else context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, **more: Any
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, **more)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], *, name: object = None, context: Any = None
    ) -> asyncio.Task[T]:
        self._tasks += 1
        number = SimTask.number = self._tasks  # the base class hashes the task before its constructor returns
        work = cast(Coroutine[Any, Any, T], coro)
        task = SimTask(work, loop=self, name=str(name or f"task-{number}"), context=context)
        task.number = number
        process = (PROCESS.get() if context is None else context.get(PROCESS)) or None
        if process is not None:
            process.owns(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run the work at one later moment of its process: a thread finishes late, and never beside the loop."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            try:
                done = func(*args)
            except Exception as error:  # noqa: BLE001 - it is raised where the work is awaited
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(done)

        self.call_later(self._rng.random() * LONGEST_STEP_OF_A_THREAD, work)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.fail(str(context.get("message")), context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    get_debug = cast(Any, bool)  # False, from C: every future and task asks

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True

    async def shutdown_asyncgens(self) -> None:
        """Nothing: generators of dead processes must not run."""


def sim_loop(rng: Random, *, in_order: bool = False) -> SimLoop:
    """A new loop. Methods of AbstractEventLoop that would touch the outside fail the run."""
    make: Any = SimLoop
    for name in _OUTSIDE:
        setattr(make, name, _refusal(name))
    loop: SimLoop = make(rng, in_order=in_order)
    return loop


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(loop: SimLoop, *_: object, **__: object) -> None:
        loop.fail(f"the guard: loop.{name}")
        raise Failed(name)

    return refuse
