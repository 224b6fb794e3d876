"""Runs services in one process: started in order, restarted individually, stopped in reverse order
with a deadline.

Services run as plain asyncio tasks, not in a task group: a task group waits without limit for a
child that ignores its cancellation, and such a child must not block the other services or the
operator's terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import anyio

from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.time import Clock, SystemClock
from slackwater.runtime.service import Check, Draining, Service
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

log = get_logger(__name__)


class State(StrEnum):
    """Lifecycle state of one service."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    """The service failed and is restarted after the pause."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """Timing in seconds. A service that ran longer than `forget_seconds` restarts with the shortest
    pause.
    """

    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0
    forget_seconds: float = 60.0
    start_seconds: float = 20.0
    """Maximum wait for this service's readiness before the next one starts."""
    orderly_stop_seconds: float = 1.0
    """Time in which services are stopped one after the other, the last started first; then all that
    remain together.
    """
    final_stop_seconds: float = 8.0
    """Time after which remaining services are abandoned, beside what they need to drain."""
    crashes_in_a_row: int = 8
    """So many restarts did not help: a new process may. An unavailable dependency is no crash."""


DEFAULT_LIMITS = RestartLimits()


@dataclass(slots=True)
class Supervised:
    """One service and its state; read by health, written only by the supervisor."""

    service: Service
    state: State = State.WAITING
    restarts: int = 0
    last_error: str = ""
    pause_seconds: float = 0.0
    crashes: int = 0
    """Defects in a row, each soon after the restart."""

    @property
    def name(self) -> str:
        return self.service.name


class Supervisor:
    """Keeps the given services running until it is cancelled."""

    def __init__(
        self, services: Sequence[Service], *, clock: Clock | None = None, limits: RestartLimits = DEFAULT_LIMITS
    ) -> None:
        self._clock = clock or SystemClock()
        self._limits = limits
        self._restarts = process_meters().counter(
            "slackwater_service_restarts_total",
            "Restarts of failed services.",
            ["service"],
            look="Any growth; see the log.",
        )
        self.supervised = tuple(Supervised(service) for service in services)
        for entry in self.supervised:
            self._restarts.labels(entry.name)  # a first restart is an increase, not a new series

    async def run(
        self, started: Callable[[], None] = lambda: None, on_ready: Callable[[str], None] | None = None
    ) -> None:
        """Start all in order, call `started()` after the last (and `on_ready(name)` after each),
        run until cancelled.

        A service that is not ready in time does not delay the others; it appears in `checks`.
        Raises Misconfigured if a service raises it before it was ever ready, because a restart
        would not help.
        """
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            for entry in self.supervised:
                ready = asyncio.Event()
                tasks[entry.name] = asyncio.create_task(self._keep_running(entry, ready), name=entry.name)
                await self._until_ready(tasks[entry.name], ready)
                if on_ready is not None and ready.is_set():
                    on_ready(entry.name)
            started()
            done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop(tasks)

    async def checks(self) -> Sequence[Check]:
        """Returns one lifecycle check per service, then the running services' own checks."""
        checks: list[Check] = []
        for entry in self.supervised:
            checks.append(_life(entry))
            if entry.state is State.RUNNING:
                checks.extend(await entry.service.checks())
        return checks

    def unrecoverable(self) -> Sequence[str]:
        """Returns what crashes again after every restart: `NAME: ERROR`. Then the process has to be replaced."""
        limit = self._limits.crashes_in_a_row
        return [f"{entry.name}: {entry.last_error}" for entry in self.supervised if entry.crashes >= limit]

    async def _until_ready(self, task: asyncio.Task[None], ready: asyncio.Event) -> None:
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({task, waiting}, timeout=self._limits.start_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task.done():
            task.result()

    async def _keep_running(self, entry: Supervised, ready: asyncio.Event) -> None:
        def on_started() -> None:
            entry.state = State.RUNNING
            ready.set()

        while True:
            entry.state = State.STARTING
            begun, crashed = self._clock.monotonic(), False
            try:
                await entry.service.run(on_started)
                entry.last_error = "it ended without being cancelled"
            except Misconfigured as error:
                if not ready.is_set():
                    raise
                entry.last_error = error.message
            except Unavailable as error:  # a dependency is unavailable: no defect, and a stack trace adds nothing
                entry.last_error = error.message
            except Exception as error:  # the single place where a crash becomes a counted restart
                entry.last_error, crashed = f"{type(error).__name__}: {error}", True
                log.exception("service failed", service=entry.name)
            ran_seconds = self._clock.monotonic() - begun
            forgets = ran_seconds > self._limits.forget_seconds
            entry.crashes = (0 if forgets else entry.crashes) + 1 if crashed else 0
            self._note_failure(entry, ran_seconds)
            await self._clock.sleep(entry.pause_seconds)

    def _note_failure(self, entry: Supervised, ran_seconds: float) -> None:
        limits = self._limits
        fresh = entry.pause_seconds == 0 or ran_seconds > limits.forget_seconds
        doubled = min(entry.pause_seconds * 2, limits.longest_pause_seconds)
        entry.pause_seconds = limits.first_pause_seconds if fresh else doubled
        entry.state = State.PAUSING
        entry.restarts += 1
        self._restarts.labels(entry.name).inc()
        log.warning("service restarts", service=entry.name, error=entry.last_error, pause_seconds=entry.pause_seconds)

    async def _stop(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        begun = asyncio.get_running_loop().time()
        tasks = {name: task for name, task in tasks.items() if not task.done()}  # `run` reports how those ended
        services = [entry.service for entry in self.supervised]
        drain_seconds = max(
            (service.drain_seconds for service in services if isinstance(service, Draining)), default=0.0
        )

        async def ended(some: Sequence[asyncio.Task[None]], by: float) -> None:
            left = max(0.0, begun + by - asyncio.get_running_loop().time())
            if some:
                await asyncio.wait(some, timeout=left)

        for task in reversed(tasks.values()):
            task.cancel()
            await ended([task], self._limits.orderly_stop_seconds)
        await ended(list(tasks.values()), self._limits.final_stop_seconds + drain_seconds)
        for entry in self.supervised:
            entry.state = State.STOPPED
        for name, task in tasks.items():
            if not task.done():
                log.error("service does not stop", service=name)
            elif not task.cancelled() and (error := task.exception()) is not None:
                log.error("service failed while stopping", service=name, error=str(error))


def _life(entry: Supervised) -> Check:
    detail = entry.state.value
    if entry.restarts:
        detail += f", restarts {entry.restarts}, last error: {entry.last_error}"
    return Check(entry.name, entry.state is State.RUNNING, detail)
