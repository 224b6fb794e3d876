"""Processes of the world: a replica or an agent is the set of tasks that its context tags.

A crash takes effect at any await: no later callback of the process runs, so no `finally` does. Its coroutines are kept
until the end of the world, because the interpreter would run their `finally` blocks when it frees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.world.clocks import HostClock


class Scheduler(Protocol):
    """What a process needs of the loop (tests.world.loop.SimLoop)."""

    current: Process | None

    def ready_again(self, handles: list[Any]) -> None: ...
    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: object = None, context: Any = None
    ) -> asyncio.Task[Any]: ...


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
_MANY_TASKS = 256


class State(StrEnum):
    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


class Process:
    """One incarnation of a replica or an agent. `name` is the same after a restart, `incarnation` is not."""

    def __init__(self, loop: Scheduler, name: str, incarnation: int, clock: HostClock) -> None:
        self.name = name
        self.incarnation = incarnation
        self.clock = clock
        self.state = State.RUNNING
        self.is_running = True
        self.is_older = False
        """Whether it runs as the version before this one (tests.world.versions)."""
        self.held: list[Any] = []
        """Callbacks that wait for `resume`, or forever."""
        self._loop = loop
        self._tasks: list[asyncio.Task[Any]] = []
        self._many = _MANY_TASKS
        self._on_death: list[Callable[[], None]] = []
        self.context = Context()
        self.context.run(PROCESS.set, self)

    @property
    def member(self) -> str:
        """The replica's name among those of its service (slackwater.runtime.ownership)."""
        return f"{self.name}/{self.incarnation}"

    def owns(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) > self._many:
            self.release_done()
            self._many = max(_MANY_TASKS, 2 * len(self._tasks))

    def release_done(self) -> None:
        """Drop the tasks that are done. One whose exception nothing has awaited then fails the run."""
        self._tasks = [task for task in self._tasks if not task.done()]

    def start(self, main: Coroutine[Any, Any, Any], name: str = "") -> asyncio.Task[Any]:
        """Run a coroutine as a task of this process."""
        return self._loop.create_task(main, name=name or self.name, context=self.context.copy())

    def run(self, function: Callable[[], Any]) -> Any:
        """Run a function at once as this process: what it creates belongs to it."""
        before, self._loop.current = self._loop.current, self
        try:
            return self.context.copy().run(function)
        finally:
            self._loop.current = before

    def on_death(self, callback: Callable[[], None]) -> None:
        """What a server does when the connections of a crashed process close."""
        self._on_death.append(callback)

    def crash(self) -> None:
        """Stop at once: SIGKILL."""
        self._become(State.DEAD)
        for callback in self._on_death:
            callback()

    def freeze(self) -> None:
        """SIGSTOP: nothing runs, and all clocks go on."""
        if self.state is State.RUNNING:
            self._become(State.FROZEN)

    def resume(self) -> None:
        """SIGCONT: everything that became due meanwhile is ready."""
        if self.state is State.FROZEN:
            self._become(State.RUNNING)
            held, self.held = self.held, []
            self._loop.ready_again(held)

    def ended(self) -> None:
        """The process has stopped in order."""
        self._become(State.DEAD)
        for callback in self._on_death:
            callback()

    def _become(self, state: State) -> None:
        self.state, self.is_running = state, state is State.RUNNING
