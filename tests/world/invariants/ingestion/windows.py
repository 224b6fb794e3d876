"""Windows: each is published once, and each report of an agent is counted once, as measured or as missing."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed


class WindowsCountOnce(Invariant):
    """A window of a node is published under one id. Over all windows of a node, reports and gaps together are at most
    the numbers that its agents have given, and reports at most those that the stream has stored."""

    NAME = "windows count once"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ids: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, dict[str, set[int]]] = {}
        """By node and boot epoch, the numbers of the reports that were stored."""
        self._reports: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()

    def on_step(self, step: Step) -> None:
        if (report := payload_of(step, UsageReported)) is not None:
            epochs = self._numbers.setdefault(report.node, {})
            epochs.setdefault(report.boot_epoch, set()).add(report.sequence)
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
        self._reports[node] += window.reports
        self._counted[node] += window.reports + window.gaps
        epochs = self._numbers.get(node, {})
        stored, given = sum(map(len, epochs.values())), sum(map(max, epochs.values()))
        if self._reports[node] > stored:
            raise Violation(f"windows of {node} hold {self._reports[node]} reports; {stored} were stored")
        if self._counted[node] > given:
            raise Violation(f"windows of {node} count {self._counted[node]} reports and gaps; {given} were numbered")


INVARIANTS = (WindowsCountOnce,)
