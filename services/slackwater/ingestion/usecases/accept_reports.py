"""Handles batches of usage.reported: judges each report, stores the accepted ones in one transaction, rejects the
rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from slackwater.bus.port import Done, Received, Reject, Settlement
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import DuplicateAgent, NodeLivenessChanged
from slackwater.events.usage_reported import LEAVE_TRIGGER, UsageReported
from slackwater.ingestion.domain.columns import HistoryColumns
from slackwater.ingestion.domain.duplicates import VALID_FOR, DuplicateAgents
from slackwater.ingestion.domain.fast_validation import Descriptions, valid_reports
from slackwater.ingestion.domain.reports import Arrival, HistoryRow, KnownNode, Report
from slackwater.ingestion.domain.validation import Accepted, Refusal, RefusedReport, ReportLimits, bounds_of, judge
from slackwater.ingestion.domain.windowing import is_late
from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.ports import Ledgers, UsageLedger
from slackwater.ingestion.usecases.delete_nodes import described_again
from slackwater.ingestion.usecases.report_mapping import history_from, report_from
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import Liveness
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

SOURCE = "ingestion"


@record(frozen=True, slots=True)
class _Verdict:
    settlement: Settlement
    row: HistoryRow | None = None
    refusal: Refusal | None = None


class _SetAside(Exception):
    """A node of this batch is unreadable and was set aside in the quarantine."""


class AcceptReports:
    """The batch handler of `ingestion-usage-reported`.

    After the commit, `reported` is called with each node of a batch, before and after it, and `took` with the whole
    batch and its time of receipt.
    """

    def __init__(
        self,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        limits: ReportLimits,
        meter: IngestionMetrics,
        reported: Callable[[KnownNode, KnownNode], None] = lambda before, after: None,
        took: Callable[[Sequence[Received[UsageReported]], datetime], None] = lambda batch, at: None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine or unstored()
        self._meter = meter
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._limits = limits
        self._reported = reported
        self._took = took
        self._descriptions = Descriptions()
        self._duplicates = DuplicateAgents()

    async def __call__(self, batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        """Returns one verdict per message; messages of quarantined nodes are Done, as if the node were silent.

        Raises InvalidInput if one of several reports cannot be stored, Unavailable, Conflict.
        """
        out = [self._quarantine.holds_node(received.subject_key) for received in batch]
        if any(out):
            rest = [received for received, is_out in zip(batch, out, strict=True) if not is_out]
            verdicts = iter(await self(rest) if rest else ())
            self._quarantine.left_out(UsageReported.TYPE, sum(out))
            return [Done() if is_out else next(verdicts) for is_out in out]
        try:
            return await self._accept(batch)
        except _SetAside:
            return await self(batch)
        except InvalidInput as error:
            if len(batch) > 1:
                raise
            self._meter.refused(Refusal.UNSTORABLE)
            return [Reject(Refusal.UNSTORABLE, error.message)]

    async def _accept(self, batch: Sequence[Received[UsageReported]]) -> list[Settlement]:
        now = self._clock.now()
        history = _by_columns(batch, now)
        keys = sorted({received.subject_key for received in batch if _storable(received.subject_key)})
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            nodes = {key: KnownNode(key) for key in keys} | dict(await ledger.nodes(keys))
            if any(map(self._quarantine.holds_node, keys)):
                raise _SetAside
            before = dict(nodes)
            verdicts = self._judge_all(batch, history, nodes, now)
            rows = {place: verdict.row for place, verdict in enumerate(verdicts) if verdict.row is not None}
            if rows:
                await ledger.keep_days(sorted({row.report.midpoint_at.date() for row in rows.values()}))
                await ledger.append(history.only(rows))
            await ledger.save([node for name, node in nodes.items() if node != before[name]])
            await self._announce(unit, ledger, before, nodes, batch, now)
            await self._announce_duplicates(unit, nodes, batch, verdicts, now)
            refusals = _refusals(batch, verdicts)
            if refusals:
                await ledger.count_refusals(refusals, now)
        _measure(self._meter, verdicts, now)
        self._took(batch, now)
        for name, node in nodes.items():
            self._reported(before[name], node)
        return [verdict.settlement for verdict in verdicts]

    def _judge_all(
        self,
        batch: Sequence[Received[UsageReported]],
        history: HistoryColumns,
        nodes: dict[str, KnownNode],
        now: datetime,
    ) -> list[_Verdict]:
        """Judges a batch: form and numbers of all reports together, then what depends on earlier reports one by one.

        A report that the fast validation does not call sound is judged in full, with all its pods.
        """
        capacities = (
            nodes[key].capacity if key in nodes else None for key in (received.subject_key for received in batch)
        )
        fine = valid_reports(
            history, [bounds_of(capacity, self._limits) for capacity in capacities], self._descriptions
        )
        verdicts = []
        for place, received in enumerate(batch):
            head = history.rows[place].report if history.rows else None
            whole = head if head is not None and fine[place] else report_from(received.event.data)
            arrival = Arrival(whole, received.subject_key, now)
            verdicts.append(self._judge(received, arrival, head or whole, nodes, fine[place] if fine else False))
        return verdicts

    def _judge(
        self,
        received: Received[UsageReported],
        arrival: Arrival,
        report: Report,
        nodes: dict[str, KnownNode],
        is_sound: bool,
    ) -> _Verdict:
        """Judges one message against the nodes as left by earlier messages, and updates them if it is accepted.

        `report` is the part that is stored beside the columns.
        """
        now = arrival.received_at
        known = nodes.get(received.subject_key, KnownNode(received.subject_key))
        verdict = judge(arrival, known, self._limits, sound=is_sound)
        if isinstance(verdict, RefusedReport):
            if verdict.reason is Refusal.REPLAYED_SEQUENCE:
                if received.deliveries > 1:
                    return _Verdict(Done())  # committed, but the acknowledgement was lost
                verdict = self._of_duplicate(known, report, now) or verdict
            return _Verdict(Reject(verdict.reason, verdict.detail), refusal=verdict.reason)
        nodes[known.name] = replace(
            _hole_noted(known, report, verdict, now),
            track=verdict.track,
            last_report_at=now,
            liveness=Liveness.LOST if received.event.data.trigger == LEAVE_TRIGGER else Liveness.FRESH,
            deleted_at=None,
            newest_at=max(known.newest_at or report.midpoint_at, report.midpoint_at),
            gaps=known.gaps + verdict.gap_delta,
        )
        return _Verdict(Done(), HistoryRow(report, now, verdict.gap_delta, is_late(known, report)))

    def _of_duplicate(self, known: KnownNode, report: Report, now: datetime) -> RefusedReport | None:
        """Returns the refusal of a report by a second agent; None if no second one is known to be at work."""
        running = known.track.boot_epoch
        if report.boot_epoch == running and (known.newest_at is None or report.midpoint_at <= known.newest_at):
            return None  # a repetition; what is measured after all reports is of a copy of the agent's machine
        if not self._duplicates.refused(known.name, now, known.last_report_at):
            return None
        beside = "a copy of itself" if report.boot_epoch == running else running
        detail = (
            f"boot_epoch: {report.boot_epoch} reports beside {beside}: two agents have the node name {known.name}; "
            "stop one of them, or give it a name of its own with --node"
        )
        return RefusedReport(Refusal.DUPLICATE_AGENT, detail)

    async def _announce_duplicates(
        self,
        unit: UnitOfWork,
        nodes: dict[str, KnownNode],
        batch: Sequence[Received[UsageReported]],
        verdicts: Sequence[_Verdict],
        now: datetime,
    ) -> None:
        """Publishes which nodes have a second agent, each once in a while."""
        for received, verdict in zip(batch, verdicts, strict=True):
            if verdict.refusal is not Refusal.DUPLICATE_AGENT:
                continue
            since = self._duplicates.to_announce(received.subject_key, now)
            if since is not None:
                node, duplicate = nodes[received.subject_key], DuplicateAgent(since=since, until=now + VALID_FOR)
                await unit.publish(liveness_changed(node, node.liveness, now, received.event, duplicate))

    async def _announce(
        self,
        unit: UnitOfWork,
        ledger: UsageLedger,
        before: dict[str, KnownNode],
        nodes: dict[str, KnownNode],
        batch: Sequence[Received[UsageReported]],
        now: datetime,
    ) -> None:
        """Publishes liveness changes of nodes that were not fresh and have reported, or have left. A node that was
        deleted is described again first.
        """
        causes: dict[str, Event[UsageReported]] = {received.subject_key: received.event for received in batch}
        for name, node in nodes.items():
            was = before[name].liveness
            if before[name].deleted_at is not None and node.deleted_at is None:
                described = await described_again(ledger, name, now)
                if described is not None:
                    await unit.publish(described)
            if node.liveness is not was:
                await unit.publish(liveness_changed(node, was, now, causes[name]))


def _by_columns(batch: Sequence[Received[UsageReported]], now: datetime) -> HistoryColumns:
    """Returns the batch as columns; a single report with a number that no column can hold gives an empty history.

    Raises InvalidInput if one of several reports has such a number.
    """
    try:
        return history_from([received.event.data for received in batch], now)
    except OverflowError as error:
        if len(batch) > 1:
            raise InvalidInput(
                f"report: cannot be stored: {error}; correct the value in the agent", field="report"
            ) from error
        return history_from((), now)


def _hole_noted(known: KnownNode, report: Report, verdict: Accepted, now: datetime) -> KnownNode:
    """Updates where reports are missing; clears it when none are."""
    if not verdict.track.missing:
        return replace(known, hole_from=None, hole_seen_at=None)
    if verdict.gap_delta > 0:
        missed = timedelta(seconds=report.window_seconds * len(verdict.track.missing))
        since = known.hole_from or known.newest_at or report.midpoint_at - missed
        return replace(known, hole_from=since, hole_seen_at=now)
    return known


def liveness_changed(
    node: KnownNode,
    was: Liveness | None,
    now: datetime,
    cause: Event[UsageReported] | None = None,
    duplicate: DuplicateAgent | None = None,
) -> Event[NodeLivenessChanged]:
    """Builds the event for a node whose liveness has just become `node.liveness`, or that has a second agent."""
    assert node.liveness is not None  # noqa: S101 - called only after a change
    assert node.last_report_at is not None  # noqa: S101 - without a report there is no liveness
    change = NodeLivenessChanged(
        node=node.name,
        liveness=node.liveness,
        previous=was,
        last_report_at=node.last_report_at,
        changed_at=now,
        duplicate=duplicate,
    )
    return event_of(change, source=SOURCE, time=now, causedby=cause)


def _storable(name: str) -> bool:
    """Returns whether a valid report can have this name. Other names are neither looked up nor added to the
    inventory.
    """
    return name.isprintable() and 0 < len(name) <= 512


def _refusals(batch: Sequence[Received[UsageReported]], verdicts: Sequence[_Verdict]) -> Counter[tuple[str, Refusal]]:
    return Counter(
        (received.subject_key if _storable(received.subject_key) else "?", verdict.refusal)
        for received, verdict in zip(batch, verdicts, strict=True)
        if verdict.refusal is not None
    )


def _measure(meter: IngestionMetrics, verdicts: Sequence[_Verdict], now: datetime) -> None:
    for verdict in verdicts:
        if verdict.refusal is not None:
            meter.refused(verdict.refusal)
    rows = [verdict.row for verdict in verdicts if verdict.row is not None]
    meter.accepted(
        late=sum(row.late for row in rows),
        delays_seconds=((now - row.report.sampled_at).total_seconds() for row in rows),
    )
