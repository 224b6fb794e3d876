"""Windows: each is published once, and each report of an agent is counted once, as measured or as missing."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed


class WindowsCountOnce(Invariant):
    """A window of a node is published under one id. Up to the end of each window, the windows of a node count at most
    as many reports as the stream has stored of that time, and with their gaps at most the numbers that its agents had
    given by then. A report that was refused because its time was ahead is missing; a consumer that forgot what it had
    delivered may bring it again when its time has come, and then it is counted as a report, too."""

    NAME = "windows count once"
    KINDS: ClassVar = (Kind.STORED, Kind.BURIED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ids: dict[tuple[str, str], str] = {}
        self._stored: dict[str, dict[tuple[str, int], datetime]] = {}
        """By node, the midpoint of each report by boot epoch and number."""
        self._windows: dict[str, dict[datetime, tuple[int, int]]] = {}
        """By node and end, the reports and the gaps of a window."""
        self._ahead: Counter[str] = Counter()
        """By node, its reports that were refused because their time was ahead."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.BURIED:
            self._ahead[step.subject.rpartition(".")[2]] += step.detail["reason"] == "clock_skew"
        elif (report := payload_of(step, UsageReported)) is not None:
            midpoint = report.sampled_at - timedelta(seconds=report.window_seconds) / 2
            self._stored.setdefault(report.node, {})[report.boot_epoch, report.sequence] = midpoint
        elif (window := payload_of(step, UsageWindowed)) is not None:
            self._check(window, step.detail["id"])

    def _check(self, window: UsageWindowed, identity: str) -> None:
        node, start = window.node, window.window_start.isoformat()
        before = self._ids.get((node, start))
        if before == identity:
            return
        if before is not None:
            raise Violation(f"the window of {node} from {start} was published as {before} and as {identity}")
        self._ids[node, start] = identity
        end = window.window_start + timedelta(seconds=window.window_seconds)
        own = self._windows.setdefault(node, {})
        own[end] = window.reports, window.gaps
        reports = sum(counted for at, (counted, _) in own.items() if at <= end)
        counted = reports + sum(gaps for at, (_, gaps) in own.items() if at <= end)
        numbers = [number for number, at in self._stored.get(node, {}).items() if at < end]
        if reports > len(numbers):
            raise Violation(f"windows of {node} up to {end} hold {reports} reports; {len(numbers)} were stored")
        given = sum(dict(sorted(numbers)).values())  # the last number of each epoch
        if counted > given + self._ahead[node]:
            raise Violation(f"windows of {node} up to {end} count {counted} reports and gaps; {given} were numbered")


INVARIANTS = (WindowsCountOnce,)
