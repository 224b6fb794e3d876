"""Closes windows that have ended: builds them from history, publishes them and marks them closed in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedHostApp, WindowedPod, WindowedUsage
from slackwater.ingestion.domain.windowing import Phase, Waiting, Window, WindowAmounts, aligned, close_limit
from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.ports import Ledgers
from slackwater.ingestion.usecases.accept_reports import SOURCE
from slackwater.ingestion.usecases.read_windows import windows_within
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.time import Clock
from slackwater.store.port import Database
from slackwater.store.quarantine import OF_NO_ROW, Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.spans import Attributes, new_traceparent, span

log = get_logger(__name__)
HISTORY = "node_usage"
"""The table that windows are built from."""
_NODES_AT_ONCE = 50
"""Limits the rows locked at once, because reports of these nodes wait meanwhile."""
CATCH_UP = timedelta(days=1)
"""After a longer outage older windows are not built, because their consumers have moved on."""

HOLE_PATIENCE = timedelta(seconds=15)
"""Three times the bus's acknowledgement wait before redelivery (contracts/streams.yaml): a stalled replica may receive
a redelivered report once more.
"""
_NEVER = datetime.min.replace(tzinfo=UTC)


class CloseWindows:
    """Closes windows; history is the only state. An uncommitted window is built again, a committed one lies behind the
    node's watermark.
    """

    def __init__(
        self,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        meter: IngestionMetrics,
        mine: Callable[[], Collection[int]] = lambda: ALL_PARTITIONS,
        *,
        seconds: int,
        lateness_seconds: float,
        silence_seconds: float,
        phase: Phase = aligned,
        traces: WindowTraces | None = None,
        received_until: Callable[[int], datetime] | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine or unstored()
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._meter = meter
        self._mine = mine
        self._seconds = seconds
        self._lateness_seconds = lateness_seconds
        self._silence_seconds = silence_seconds
        self._phase = phase
        self._traces = traces or WindowTraces(seconds, phase)
        self._received_until = received_until or (lambda _: clock.now())
        self._listening_since = clock.now()

    def listen_anew(self, after_seconds: float = 0.0) -> None:
        """Counts silence from now, or `after_seconds` later, because reports could not be received before."""
        listening_from = self._clock.now() + timedelta(seconds=after_seconds)
        self._listening_since = max(self._listening_since, listening_from)

    async def __call__(self, among: Collection[str] | None = None) -> int:
        """Closes every due window, or those of the nodes in `among`. Returns the number of windows.

        Raises Unavailable; some windows may then be closed.
        """
        now, partitions = self._clock.now(), self._mine()
        named = None if among is None else sorted(among)
        closed, after = 0, ""
        while partitions:
            count, last = await self._close_or_split(now, after, partitions, named)
            closed += count
            if last is None:
                return closed
            after = last
        return closed

    @property
    def pause_seconds(self) -> float:
        """Seconds to wait between two rounds: a twelfth of a window, at least one second."""
        return max(1.0, self._seconds / 12)

    async def _close_or_split(
        self, now: datetime, after: str, partitions: Collection[int], among: Sequence[str] | None
    ) -> tuple[int, str | None]:
        """Closes nodes together. If a node fails, closes them one by one and sets aside those that fail."""
        try:
            return await self._close_some(now, after, partitions, among)
        except OF_NO_ROW:
            raise
        except Exception:
            log.exception("windows cannot be closed together", after=after)
        names = await self._due(now, after, partitions, among)
        closed = 0
        for name in names:
            with self._quarantine.isolating(HISTORY, name, node=name):
                closed += (await self._close_some(now, "", partitions, [name]))[0]
        return closed, names[-1] if names else None

    async def _due(
        self, now: datetime, after: str, partitions: Collection[int], among: Sequence[str] | None
    ) -> Sequence[str]:
        waiting = self._waiting(now, min(map(self._received_until, partitions)))
        async with self._database.unit_of_work() as unit:
            nodes = await self._ledgers(unit).open_nodes(
                waiting.over_at, waiting.silent_since, self._seconds, after, _NODES_AT_ONCE, partitions, among
            )
        return [node.name for node in nodes]

    async def _close_some(
        self, now: datetime, after: str, partitions: Collection[int], among: Sequence[str] | None
    ) -> tuple[int, str | None]:
        """Closes nodes in the order of their names. Returns the number of windows, and the last name or None at the
        end.
        """
        waiting = self._waiting(now, min(map(self._received_until, partitions)))
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            nodes = await ledger.open_nodes(
                waiting.over_at, waiting.silent_since, self._seconds, after, _NODES_AT_ONCE, partitions, among
            )
            spans = {
                node.name: (node.closed_until or waiting.over_at - CATCH_UP, limit)
                for node in nodes
                if (limit := close_limit(node, waiting, self._seconds, self._phase(node.name))) is not None
            }
            oldest = waiting.over_at - CATCH_UP
            windows = await windows_within(ledger, spans, oldest, self._seconds, self._phase)
            for window in windows:
                await unit.publish(self._published(window, now))
            moved = [replace(node, closed_until=spans[node.name][1]) for node in nodes if node.name in spans]
            await ledger.save(moved)
        self._meter.closed(len(windows), sum(window.gaps for window in windows))
        return len(windows), nodes[-1].name if nodes else None

    def _published(self, window: Window, now: datetime) -> Event[UsageWindowed]:
        """Builds the event, in the trace of a report of this window."""
        attributes: Attributes = {
            "node": window.node,
            "window": window.number,
            "reports": window.reports,
            "pods": len(window.pods),
        }
        parent = self._traces.pop(window.node, window.start) or new_traceparent(sampled=False)
        with span("ingestion close window", parent, attributes) as step:
            return _event(window, now, step.traceparent)

    def _waiting(self, now: datetime, received_until: datetime) -> Waiting:
        silent_since = received_until - timedelta(seconds=self._silence_seconds)
        return Waiting(
            over_at=now - timedelta(seconds=self._lateness_seconds),
            silent_since=silent_since if silent_since >= self._listening_since else _NEVER,
            holes_since=now - HOLE_PATIENCE,
        )


def _event(window: Window, now: datetime, traceparent: str) -> Event[UsageWindowed]:
    data = UsageWindowed(
        node=window.node,
        number=window.number,
        window_start=window.start,
        window_seconds=window.seconds,
        node_usage=_usage(window.usage),
        system_usage=None if window.system is None else _usage(window.system),
        tiers={str(tier): _usage(amounts) for tier, amounts in window.tiers.items()},
        pods=tuple(WindowedPod(pod=pod, usage=_usage(amounts)) for pod, amounts in window.pods),
        reports=window.reports,
        gaps=window.gaps,
        host_apps=tuple(WindowedHostApp(app.name, app.tier, _usage(app.usage)) for app in window.host_apps),
    )
    return event_of(data, source=SOURCE, time=now, traceparent=traceparent)


def _usage(amounts: WindowAmounts) -> WindowedUsage:
    cpu, memory = amounts.cpu, amounts.memory
    return WindowedUsage(
        cpu_avg_milli=cpu.avg,
        cpu_p90_milli=cpu.p90,
        cpu_p95_milli=cpu.p95,
        cpu_max_milli=cpu.max,
        memory_avg_bytes=memory.avg,
        memory_p90_bytes=memory.p90,
        memory_p95_bytes=memory.p95,
        memory_max_bytes=memory.max,
        samples=cpu.samples,
    )
