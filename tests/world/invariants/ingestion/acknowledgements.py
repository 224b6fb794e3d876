"""Reports: acknowledged after the commit that counts them, and judged by the time of their receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from tests.world.attacks import is_forged
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import Liveness

LETTERS = frozenset({"clock_skew", "replayed_sequence"})
"""Reasons for which a report of a clock that jumps, or of an agent before its restart, is refused."""


class ReportHead(msgspec.Struct):
    """What numbers a report; the rest of it is not decoded."""

    node: str
    boot_epoch: str
    sequence: int


_HEAD = msgspec.json.Decoder(ReportHead)


class AcknowledgedReportsAreStored(Invariant):
    """When ingestion acknowledges a report, the committed row of its node has its number, not as missing."""

    NAME = "acknowledged reports are stored"
    KINDS: ClassVar = (Kind.ACKNOWLEDGED,)

    def on_step(self, step: Step) -> None:
        if is_forged(step.value.headers.get("ce-id")):
            return
        report = _HEAD.decode(step.value.body)
        table = self.world.postgres.schemas["ingestion"].tables["nodes"]
        names = table.definition.names
        place = table.definition.places["name"]
        values = next((values for values in table.committed() if values[place] == report.node), None)
        row = None if values is None else dict(zip(names, values, strict=True))
        if row is None or not is_counted(row, report.boot_epoch, report.sequence):
            number = f"report {report.sequence} of {report.node} ({report.boot_epoch})"
            raise Violation(f"{number} was acknowledged by {step.process}, and no commit has counted it: {row}")


def is_counted(row: Mapping[str, Any], epoch: str, sequence: int) -> bool:
    """Whether the row of a node has counted a report as received."""
    if row["boot_epoch"] != epoch:  # of an agent before its restart
        return True
    return row["last_sequence"] >= sequence and sequence not in (row["missing"] or ())


class RunningAgentsAreCounted(Invariant):
    """At rest the node's row is that of the agent whose reports the stream stores. While the agent in the row is fresh,
    none that the stream has heard of before it takes its place."""

    NAME = "running agents are counted"
    KINDS: ClassVar = (Kind.STORED, Kind.COMMITTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._epochs: dict[str, str] = {}
        """By node, the boot epoch of its newest stored report."""
        self._order: dict[str, int] = {}
        """Boot epochs in the order of their first stored reports."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            if step.subject == "ingestion":
                self._check(step.value)
        elif (report := payload_of(step, UsageReported)) is not None:
            self._epochs[report.node] = report.boot_epoch
            self._order.setdefault(report.boot_epoch, step.n)

    def _check(self, commit: Commit) -> None:
        for (table, _), (before, after) in commit.written.items():
            if table != "nodes" or before is None or after is None:
                continue
            names = self.world.postgres.schemas["ingestion"].tables["nodes"].definition.names
            old, new = (dict(zip(names, row, strict=True)) for row in (before, after))
            epochs = old["boot_epoch"], new["boot_epoch"]
            if old["liveness"] == Liveness.FRESH and epochs[0] != epochs[1] and self._is_earlier(*epochs):
                raise Violation(f"boot {epochs[1]} took the place of {epochs[0]} at {new['name']}, which came after it")

    def _is_earlier(self, running: str | None, other: str | None) -> bool:
        """Whether the stream heard of the other boot first."""
        known = self._order.get(running or ""), self._order.get(other or "")
        return known[0] is not None and known[1] is not None and known[1] < known[0]

    def at_rest(self) -> None:
        table = self.world.postgres.schemas["ingestion"].tables["nodes"]
        rows = (dict(zip(table.definition.names, values, strict=True)) for values in table.committed())
        counted = {row["name"]: row["boot_epoch"] for row in rows}
        for node, epoch in self._epochs.items():
            if counted.get(node) != epoch:
                raise Violation(f"{node} reports as {epoch}; ingestion counts {counted.get(node)}")


class ReceiptDecidesLiveness(Invariant):
    """A node is fresh from the time at which ingestion received its report, whatever the clock of its agent says."""

    NAME = "receipt decides liveness"
    KINDS: ClassVar = (Kind.STORED,)

    def on_step(self, step: Step) -> None:
        change = payload_of(step, NodeLivenessChanged)
        if change is not None and change.liveness is Liveness.FRESH and change.last_report_at != change.changed_at:
            times = f"{change.changed_at.isoformat()} by a report of {change.last_report_at.isoformat()}"
            raise Violation(f"{change.node} became fresh at {times}")


class NoValidMessageIsADeadLetter(Invariant):
    """The processes of the world send only valid messages: a dead letter is a report of a wrong time, or a defect."""

    NAME = "no valid message is a dead letter"
    KINDS: ClassVar = (Kind.BURIED,)

    def on_step(self, step: Step) -> None:
        if step.detail["reason"] not in LETTERS and not is_forged(step.value.headers.get("ce-id")):
            raise Violation(
                f"{step.subject} of {step.detail['consumer']}: {step.detail['reason']}, {step.detail['detail']}"
            )


INVARIANTS = (
    AcknowledgedReportsAreStored,
    NoValidMessageIsADeadLetter,
    ReceiptDecidesLiveness,
    RunningAgentsAreCounted,
)
