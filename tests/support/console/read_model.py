"""The read model in memory. The tests of PostgreSQL apply to it as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tests.support.console.events import MemoryEvents
from tests.support.console.fleet import MemoryFleet
from tests.support.console.loop import MemoryLoop
from tests.support.console.moves import MemoryMoves
from tests.support.console.quotas import MemoryQuotas
from tests.support.console.resources import MemoryResources
from tests.support.console.strategies import MemoryStrategies

from slackwater.console.domain.candidates import candidates_of, is_carried_out
from slackwater.console.domain.pod_story import PodIdentity
from slackwater.console.domain.summary import summary_of
from slackwater.console.domain.views import (
    Counts,
    DecisionFilter,
    DecisionSummary,
    EffectView,
    EvictionView,
    ForecastView,
    NodeCondition,
    NodeView,
    ObservationView,
    OfferView,
    PodView,
    ReasonCount,
    UsagePoint,
    WindowView,
)
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import AGENT, DecisionRecord
from slackwater.events.node_deleted import NodeDeleted
from slackwater.model.nodes import NodeFacts


class MemoryReadModel(
    MemoryEvents, MemoryFleet, MemoryLoop, MemoryMoves, MemoryQuotas, MemoryStrategies, MemoryResources
):
    """Dictionaries; every read sorts. Not for large fleets."""

    def __init__(self) -> None:
        super().__init__()
        self._forecasts: dict[str, ForecastView] = {}
        self._offers: dict[str, OfferView] = {}
        self._observations: dict[str, ObservationView] = {}
        self._evictions: dict[tuple[str, str], EvictionView] = {}

    async def ping(self) -> bool:
        return True

    async def save_facts(self, rows: Sequence[tuple[NodeFacts, str, datetime]]) -> None:
        for facts, boot_epoch, at in rows:
            node = self._node(facts.name)
            if node.described_at is None or at >= node.described_at:
                self._nodes[facts.name] = replace(node, facts=facts, boot_epoch=boot_epoch, described_at=at)

    async def save_liveness(self, rows: Sequence[tuple[str, str, datetime]]) -> None:
        for name, liveness, at in rows:
            if liveness != "fresh" and not self._may_appear(name):
                continue
            node = self._node(name)
            if node.liveness_changed_at is None or at >= node.liveness_changed_at:
                self._nodes[name] = replace(node, liveness=liveness, liveness_changed_at=at)

    async def delete_nodes(self, rows: Sequence[tuple[str, datetime]]) -> None:
        for name, deleted_at in rows:
            node = self._nodes.get(name)
            if node is None:
                continue
            signs = (node.described_at, node.usage.sampled_at if node.usage else None)
            if all(at is None or at <= deleted_at for at in signs):
                for part in (self._nodes, self._pods, self._latest):
                    part.pop(name, None)

    async def save_conditions(self, rows: Sequence[tuple[str, NodeCondition]]) -> None:
        for name, condition in rows:
            if not self._may_appear(name):
                continue
            node = self._node(name)
            known = {one.type: one for one in node.conditions}
            if condition.type not in known or condition.told_at >= known[condition.type].told_at:
                others = tuple(one for kind, one in known.items() if kind != condition.type)
                self._nodes[name] = replace(node, conditions=(condition, *others))

    async def save_usage(self, rows: Sequence[tuple[UsagePoint, Sequence[PodView]]]) -> None:
        for point, pods in rows:
            self._usage.setdefault(point.event_id, point)
            node = self._node(point.node)
            if node.usage is None or point.sampled_at > node.usage.sampled_at:
                self._nodes[point.node] = replace(node, usage=point)
                self._pods[point.node] = tuple(pods)

    async def save_forecasts(self, rows: Sequence[ForecastView]) -> None:
        self._forecasts.update((row.event_id, row) for row in rows)
        for row in filter(lambda row: self._may_appear(row.node), rows):
            self._node(row.node)
            if row.node not in self._latest or row.predicted_at >= self._latest[row.node].predicted_at:
                self._latest[row.node] = row

    async def save_offers(self, rows: Sequence[OfferView]) -> None:
        for row in rows:
            self._offers[row.event_id] = row
            if not self._may_appear(row.node):
                continue
            node = self._node(row.node)
            if node.offer is None or row.offered_at >= node.offer.offered_at:
                self._nodes[row.node] = replace(node, offer=row)

    async def save_decisions(self, rows: Sequence[DecisionRecord]) -> None:
        for row in rows:
            before = self._decisions.get(row.id)
            if before is None or (before.service == AGENT != row.service):
                self._decisions[row.id] = row

    async def save_effects(self, rows: Sequence[EffectView]) -> None:
        self._effects.update((row.decision_id, row) for row in rows)

    async def save_observations(self, rows: Sequence[ObservationView]) -> None:
        self._observations.update((row.event_id, row) for row in rows)

    async def save_evictions(self, rows: Sequence[EvictionView]) -> None:
        self._evictions.update(((row.node, row.id), row) for row in rows)

    async def prune(self, usage_before: datetime, decisions_before: datetime) -> None:
        self._usage = {k: v for k, v in self._usage.items() if v.sampled_at >= usage_before}
        self._windows = {k: v for k, v in self._windows.items() if v.closed_at >= usage_before}
        self._drop_ledgers(usage_before)
        self._forecasts = {k: v for k, v in self._forecasts.items() if v.predicted_at >= usage_before}
        self._offers = {k: v for k, v in self._offers.items() if v.offered_at >= usage_before}
        self._levels = {at: level for at, level in self._levels.items() if at >= decisions_before}
        self._decisions = {k: v for k, v in self._decisions.items() if v.decided_at >= decisions_before}
        self._effects = {k: v for k, v in self._effects.items() if v.measured_at >= decisions_before}
        self._observations = {k: v for k, v in self._observations.items() if v.observed_at >= decisions_before}
        self._evictions = {k: v for k, v in self._evictions.items() if v.completed_at >= decisions_before}
        await self.delete_nodes([(v.node, v.time) for v in self._listed.values() if v.type == NodeDeleted.TYPE])
        self._listed = {k: v for k, v in self._listed.items() if v.time >= decisions_before}
        self._drop_moves(decisions_before)

    async def nodes(self) -> Sequence[NodeView]:
        return [self._nodes[name] for name in sorted(self._nodes)]

    async def node(self, name: str) -> NodeView | None:
        return self._nodes.get(name)

    async def pods(self, node: str | None = None) -> Sequence[PodView]:
        found = [pod for name, pods in self._pods.items() if node in (None, name) for pod in pods]
        return sorted(found, key=lambda pod: (pod.node, pod.tier, pod.name, pod.uid))

    async def usage(self, node: str, since: datetime, until: datetime) -> Sequence[UsagePoint]:
        points = [p for p in self._usage.values() if p.node == node and since <= p.sampled_at <= until]
        return sorted(points, key=lambda point: (point.sampled_at, point.event_id))

    async def forecasts(self, node: str, since: datetime, until: datetime) -> Sequence[ForecastView]:
        mine = sorted((f for f in self._forecasts.values() if f.node == node), key=lambda f: f.predicted_at)
        before = [f for f in mine if f.predicted_at < since][-1:]
        return before + [f for f in mine if since <= f.predicted_at <= until]

    async def offers(self, node: str | None, since: datetime, until: datetime) -> Sequence[OfferView]:
        newest: dict[str, OfferView] = {}
        inside: list[OfferView] = []
        for offer in sorted(self._offers.values(), key=lambda o: (o.offered_at, o.node)):
            if node not in (None, offer.node):
                continue
            if offer.offered_at < since:
                newest[offer.node] = offer
            elif offer.offered_at <= until:
                inside.append(offer)
        return sorted(newest.values(), key=lambda o: (o.offered_at, o.node)) + inside

    async def offer_at(self, node: str, at: datetime) -> OfferView | None:
        mine = [o for o in self._offers.values() if o.node == node and o.offered_at <= at]
        return max(mine, key=lambda o: (o.offered_at, o.generation), default=None)

    async def decisions(self, wanted: DecisionFilter) -> Sequence[DecisionSummary]:
        matching = (record for record in self._decisions.values() if _matches(record, wanted))
        records = [record for record in matching if self._in_pool(record, wanted)]
        records.sort(key=lambda record: (record.decided_at, record.id), reverse=True)
        return [summary_of(record, self._effects.get(record.id)) for record in records[: wanted.limit]]

    async def actions_on(self, nodes: Sequence[str], since: datetime, limit: int) -> Sequence[DecisionSummary]:
        kinds = (DecisionKind.THROTTLE, DecisionKind.RESTORE)
        found = await self.decisions(DecisionFilter(kinds=kinds, since=since, limit=len(self._decisions)))
        return [each for each in found if each.node in nodes][:limit]

    def _in_pool(self, record: DecisionRecord, wanted: DecisionFilter) -> bool:
        node = self._nodes.get(record.node)
        return wanted.pool is None or (node is not None and node.facts is not None and node.facts.pool == wanted.pool)

    async def pods_called(self, name: str, node: str | None = None) -> Sequence[PodIdentity]:
        running = [
            PodIdentity(pod.uid, pod.name, pod.namespace, pod.node, True, pod.reported_at)
            for pods in self._pods.values()
            for pod in pods
            if name in (pod.name, pod.uid) and node in (None, pod.node)
        ]
        newest: dict[str, PodIdentity] = {}
        for record in sorted(self._decisions.values(), key=lambda each: each.decided_at):
            for one in candidates_of(record):
                if one.pod_uid and name in (one.name, one.pod_uid):
                    newest[one.pod_uid] = PodIdentity(
                        one.pod_uid, one.name, one.namespace, record.node, False, record.decided_at
                    )
        known = {one.uid for one in running}
        return [*running, *(one for uid, one in newest.items() if uid not in known)]

    async def decisions_about(
        self, pod_uid: str, limit: int, until: datetime | None, kind: DecisionKind | None = None
    ) -> Sequence[DecisionRecord]:
        kinds = None if kind is None else (kind,)
        wanted = DecisionFilter(pod=pod_uid, spared=True, until=until, kinds=kinds)
        records = [record for record in self._decisions.values() if _matches(record, wanted)]
        return sorted(records, key=lambda record: (record.decided_at, record.id), reverse=True)[:limit]

    async def decision(self, decision_id: str) -> DecisionRecord | None:
        return self._decisions.get(decision_id)

    async def decision_at(self, node: str, subject: str, at: datetime) -> DecisionRecord | None:
        wanted = DecisionFilter(node=node, subject=subject, until=at)
        mine = [record for record in self._decisions.values() if _matches(record, wanted)]
        return max(mine, key=lambda record: (record.decided_at, record.id), default=None)

    async def event(self, event_id: str) -> UsagePoint | ForecastView | WindowView | None:
        return self._usage.get(event_id) or self._forecasts.get(event_id) or self._windows.get(event_id)

    async def effect(self, decision_id: str) -> EffectView | None:
        return self._effects.get(decision_id)

    async def observations(self, decision_id: str) -> Sequence[ObservationView]:
        observations = [o for o in self._observations.values() if any(x.decision_id == decision_id for x in o.limits)]
        return sorted(observations, key=lambda o: o.observed_at)

    async def last_observation(self, node: str) -> ObservationView | None:
        mine = [each for each in self._observations.values() if each.node == node]
        return max(mine, key=lambda each: each.observed_at, default=None)

    async def evictions(self, decision_id: str) -> Sequence[EvictionView]:
        evictions = [eviction for eviction in self._evictions.values() if eviction.decision_id == decision_id]
        return sorted(evictions, key=lambda eviction: (eviction.completed_at, eviction.id))

    async def counts(self) -> Counts:
        reasons = Counter((record.kind, record.reason) for record in self._decisions.values())
        return Counts(
            nodes=len(self._nodes),
            reports=len(self._usage),
            predictions=len(self._forecasts),
            offers=len(self._offers),
            observations=len(self._observations),
            effects=len(self._effects),
            evictions=len(self._evictions),
            decisions=tuple(ReasonCount(kind, reason, n) for (kind, reason), n in sorted(reasons.items())),
        )

    async def subjects(self, node: str) -> Sequence[str]:
        return sorted({record.subject for record in self._decisions.values() if record.node == node})

    def _may_appear(self, name: str) -> bool:
        """Whether an event may list a node: a deleted one appears again with its description or a report."""
        return name in self._nodes or not any(
            event.type == NodeDeleted.TYPE and event.node == name for event in self._listed.values()
        )

    def _node(self, name: str) -> NodeView:
        return self._nodes.setdefault(name, NodeView(name))


def _matches(record: DecisionRecord, wanted: DecisionFilter) -> bool:
    return (
        wanted.node in (None, record.node)
        and wanted.kind in (None, record.kind)
        and (wanted.kinds is None or record.kind in wanted.kinds)
        and wanted.reason in (None, record.reason)
        and (wanted.pod is None or _concerns(record, wanted.pod, spared=wanted.spared))
        and (wanted.carried_out is None or wanted.carried_out is is_carried_out(record))
        and wanted.subject in (None, record.subject)
        and wanted.episode in (None, record.episode)
        and (wanted.since is None or record.decided_at >= wanted.since)
        and (wanted.until is None or record.decided_at <= wanted.until)
        and (wanted.before is None or (record.decided_at, record.id) < wanted.before)
    )


def _concerns(record: DecisionRecord, pod: str, *, spared: bool) -> bool:
    if any(pod in (action.pod_name, action.pod_uid) for action in record.actions):
        return True
    return spared and any(
        pod in (candidate.name, candidate.pod_uid) for candidate in candidates_of(record) if not candidate.chosen
    )
