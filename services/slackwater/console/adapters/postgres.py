"""The read model in PostgreSQL, schema `console`. The same type adapters write and read the JSON bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import TypeAdapter

from slackwater.console.adapters import statements as sql
from slackwater.console.adapters.fleet_statements import NODE_AMOUNTS, PRUNE_LEVELS
from slackwater.console.adapters.loop_statements import PRUNE_WINDOWS
from slackwater.console.adapters.postgres_events import PRUNE_EVENTS, PostgresEvents
from slackwater.console.adapters.postgres_fleet import PostgresFleet
from slackwater.console.adapters.postgres_loop import PostgresLoop
from slackwater.console.adapters.postgres_moves import PRUNE_MOVES, PostgresMoves
from slackwater.console.adapters.postgres_quotas import PRUNE_LEDGERS, PostgresQuotas
from slackwater.console.adapters.postgres_resources import PostgresResources
from slackwater.console.adapters.postgres_strategies import PostgresStrategies
from slackwater.console.adapters.queries import Row, as_json
from slackwater.console.domain.candidates import candidates_of, is_carried_out
from slackwater.console.domain.fleet import requested
from slackwater.console.domain.pod_story import PodIdentity
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
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import AGENT, DecisionRecord
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import NodeFacts
from slackwater.model.quantities import Resources

T = TypeVar("T")

_FACTS = TypeAdapter(NodeFacts)
_NODE = TypeAdapter(NodeView)
_CONDITION = TypeAdapter(NodeCondition)
_USAGE = TypeAdapter(UsagePoint)
_PODS = TypeAdapter(tuple[PodView, ...])
_FORECAST = TypeAdapter(ForecastView)
_OFFER = TypeAdapter(OfferView)
_RECORD = TypeAdapter(DecisionRecord)
_SUMMARY = TypeAdapter(DecisionSummary)
_EFFECT = TypeAdapter(EffectView)
_OBSERVATION = TypeAdapter(ObservationView)
_EVICTION = TypeAdapter(EvictionView)


class PostgresReadModel(
    PostgresEvents,
    PostgresFleet,
    PostgresLoop,
    PostgresMoves,
    PostgresQuotas,
    PostgresStrategies,
    PostgresResources,
):
    """Implements slackwater.console.ports. Every method is one short transaction. Raises Unavailable."""

    async def save_facts(self, rows: Sequence[tuple[NodeFacts, str, datetime]]) -> None:
        newest = _newest(rows, key=lambda row: row[0].name, time=lambda row: row[2])
        await self._write(
            (sql.SAVE_FACTS, [_facts_row(facts, epoch, described_at) for facts, epoch, described_at in newest])
        )

    async def save_liveness(self, rows: Sequence[tuple[str, str, datetime]]) -> None:
        newest = _newest(rows, key=lambda row: row[0], time=lambda row: row[2])
        await self._write(
            (
                sql.SAVE_LIVENESS,
                [{"name": name, "liveness": liveness, "changed_at": _iso(at)} for name, liveness, at in newest],
            )
        )

    async def delete_nodes(self, rows: Sequence[tuple[str, datetime]]) -> None:
        newest = _newest(rows, key=lambda row: row[0], time=lambda row: row[1])
        await self._write((sql.DELETE_NODES, [{"name": name, "deleted_at": _iso(at)} for name, at in newest]))

    async def save_conditions(self, rows: Sequence[tuple[str, NodeCondition]]) -> None:
        newest = _newest(rows, key=lambda row: row[0], time=lambda row: row[1].told_at)
        await self._write(
            (
                sql.SAVE_CONDITIONS,
                [
                    {"name": name, "told_at": _iso(one.told_at), "conditions": [_body(_CONDITION, one)]}
                    for name, one in newest
                ],
            )
        )

    async def save_usage(self, rows: Sequence[tuple[UsagePoint, Sequence[PodView]]]) -> None:
        """Raises InvalidInput for a text that PostgreSQL cannot read back."""
        newest = _newest(rows, key=lambda row: row[0].node, time=lambda row: row[0].sampled_at)
        points = {point.event_id: point for point, _ in rows}
        written = {event_id: as_json(point, _USAGE) for event_id, point in points.items()}
        await self._write(
            (sql.SAVE_USAGE, [_usage_row(point, written[event_id]) for event_id, point in points.items()]),
            (sql.SAVE_LATEST_USAGE, [_latest_row(point, pods, written[point.event_id]) for point, pods in newest]),
        )

    async def save_forecasts(self, rows: Sequence[ForecastView]) -> None:
        newest = _newest(rows, key=lambda row: row.node, time=lambda row: row.predicted_at)
        await self._write(
            (
                sql.SAVE_FORECASTS,
                [
                    {
                        "event_id": row.event_id,
                        "node": row.node,
                        "predicted_at": _iso(row.predicted_at),
                        "body": _body(_FORECAST, row),
                    }
                    for row in {row.event_id: row for row in rows}.values()
                ],
            ),
            (sql.SAVE_LATEST_FORECAST, [_peak_row(row) for row in newest]),
        )

    async def save_offers(self, rows: Sequence[OfferView]) -> None:
        newest = _newest(rows, key=lambda row: row.node, time=lambda row: row.offered_at)
        await self._write(
            (sql.SAVE_OFFERS, [_offer_row(row) for row in {row.event_id: row for row in rows}.values()]),
            (
                sql.SAVE_LATEST_OFFER,
                [{"name": row.node, "offered_at": _iso(row.offered_at), "offer": _body(_OFFER, row)} for row in newest],
            ),
        )

    async def save_decisions(self, rows: Sequence[DecisionRecord]) -> None:
        ordered = sorted(rows, key=lambda row: row.service != AGENT)  # of two with one id that of a service is the last
        await self._write(
            (sql.SAVE_DECISIONS, [_decision_row(row) for row in {row.id: row for row in ordered}.values()])
        )

    async def save_effects(self, rows: Sequence[EffectView]) -> None:
        bodies = [_body(_EFFECT, row) for row in {row.decision_id: row for row in rows}.values()]
        await self._write((sql.SAVE_EFFECTS, [_pick(body, "decision_id", "measured_at") for body in bodies]))

    async def save_observations(self, rows: Sequence[ObservationView]) -> None:
        prepared = []
        for row in {row.event_id: row for row in rows}.values():
            decisions = sorted({limit.decision_id for limit in row.limits if limit.decision_id})
            body = _body(_OBSERVATION, row)
            prepared.append({**_pick(body, "event_id", "observed_at"), "decision_ids": decisions})
        await self._write((sql.SAVE_OBSERVATIONS, prepared))

    async def save_evictions(self, rows: Sequence[EvictionView]) -> None:
        bodies = [_body(_EVICTION, row) for row in {(row.node, row.id): row for row in rows}.values()]
        columns = ("node", "id", "decision_id", "completed_at")
        await self._write((sql.SAVE_EVICTIONS, [_pick(body, *columns) for body in bodies]))

    async def prune(self, usage_before: datetime, decisions_before: datetime) -> None:
        async with self._database.unit_of_work() as unit:
            for statement in (*sql.PRUNE_USAGE, PRUNE_WINDOWS, PRUNE_LEDGERS):
                await unit.connection.execute(statement, {"before": usage_before})
            await unit.connection.execute(PRUNE_LEVELS, {"before": decisions_before})
            await unit.connection.execute(sql.PRUNE_NODES)
            for statement in (*sql.PRUNE_DECISIONS, PRUNE_EVENTS, PRUNE_MOVES):
                await unit.connection.execute(statement, {"before": decisions_before})

    async def nodes(self) -> Sequence[NodeView]:
        return await self._all(_NODE, sql.NODES)

    async def node(self, name: str) -> NodeView | None:
        return await self._one(_NODE, sql.NODE, name=name)

    async def pods(self, node: str | None = None) -> Sequence[PodView]:
        found = await (self._all(_PODS, sql.PODS) if node is None else self._all(_PODS, sql.NODE_PODS, node=node))
        return sorted((p for pods in found for p in pods), key=lambda pod: (pod.node, pod.tier, pod.name, pod.uid))

    async def usage(self, node: str, since: datetime, until: datetime) -> Sequence[UsagePoint]:
        return await self._all(_USAGE, sql.USAGE, node=node, since=since, until=until)

    async def forecasts(self, node: str, since: datetime, until: datetime) -> Sequence[ForecastView]:
        rows = await self._rows(sql.FORECASTS, node=node, since=since, until=until)
        return self._readable(_FORECAST, sql.FORECASTS, (row[1] for row in rows))

    async def offers(self, node: str | None, since: datetime, until: datetime) -> Sequence[OfferView]:
        if node is None:
            rows = await self._rows(sql.OFFERS, since=since, until=until)
        else:
            rows = await self._rows(sql.NODE_OFFERS, node=node, since=since, until=until)
        return self._readable(_OFFER, sql.OFFERS, (row[2] for row in rows))

    async def offer_at(self, node: str, at: datetime) -> OfferView | None:
        return await self._one(_OFFER, sql.OFFER_AT, node=node, at=at)

    async def decisions(self, wanted: DecisionFilter) -> Sequence[DecisionSummary]:
        before_at, before_id = wanted.before or (None, None)
        return await self._all(
            _SUMMARY,
            sql.DECISIONS,
            node=wanted.node,
            kinds=[wanted.kind] if wanted.kind else None if wanted.kinds is None else [*wanted.kinds],
            reason=wanted.reason,
            pod=wanted.pod,
            spared=wanted.spared,
            pool=wanted.pool,
            carried_out=wanted.carried_out,
            subject=wanted.subject,
            episode=wanted.episode,
            since=wanted.since,
            until=wanted.until,
            before_at=before_at,
            before_id=before_id,
            limit=wanted.limit,
        )

    async def actions_on(self, nodes: Sequence[str], since: datetime, limit: int) -> Sequence[DecisionSummary]:
        return await self._all(_SUMMARY, sql.ACTIONS_ON, nodes=list(nodes), since=since, limit=limit)

    async def decision(self, decision_id: str) -> DecisionRecord | None:
        return await self._one(_RECORD, sql.DECISION, id=decision_id)

    async def pods_called(self, name: str, node: str | None = None) -> Sequence[PodIdentity]:
        found = await self._rows(sql.PODS_CALLED, node=node, pod=name, written=as_json(name))
        running = [PodIdentity(*row) for row in found]
        decided = [PodIdentity(*row) for row in await self._rows(sql.PODS_DECIDED_ON, pod=name)]
        known = {one.uid for one in running}
        return [*running, *(one for one in decided if one.uid not in known)]

    async def decisions_about(
        self, pod_uid: str, limit: int, until: datetime | None, kind: DecisionKind | None = None
    ) -> Sequence[DecisionRecord]:
        return await self._all(_RECORD, sql.DECISIONS_ABOUT, pod=pod_uid, limit=limit, until=until, kind=kind)

    async def decision_at(self, node: str, subject: str, at: datetime) -> DecisionRecord | None:
        return await self._one(_RECORD, sql.DECISION_AT, node=node, subject=subject, at=at)

    async def event(self, event_id: str) -> UsagePoint | ForecastView | WindowView | None:
        report: UsagePoint | None = await self._one(_USAGE, sql.USAGE_EVENT, id=event_id)
        if report is not None:
            return report
        forecast: ForecastView | None = await self._one(_FORECAST, sql.FORECAST_EVENT, id=event_id)
        return forecast or await self.window(event_id)

    async def effect(self, decision_id: str) -> EffectView | None:
        return await self._one(_EFFECT, sql.EFFECT, id=decision_id)

    async def observations(self, decision_id: str) -> Sequence[ObservationView]:
        return await self._all(_OBSERVATION, sql.OBSERVATIONS, id=decision_id)

    async def last_observation(self, node: str) -> ObservationView | None:
        observations: ObservationView | None = await self._one(_OBSERVATION, sql.LAST_OBSERVATION, node=node)
        return observations

    async def evictions(self, decision_id: str) -> Sequence[EvictionView]:
        return await self._all(_EVICTION, sql.EVICTIONS, id=decision_id)

    async def counts(self) -> Counts:
        nodes, reports, predictions, offers, observations, effects, evictions = (await self._rows(sql.COUNTS))[0]
        reasons = await self._rows(sql.REASONS)
        by_reason = tuple(ReasonCount(DecisionKind(kind), Reason(reason), n) for kind, reason, n in reasons)
        return Counts(nodes, reports, predictions, offers, observations, effects, evictions, by_reason)

    async def subjects(self, node: str) -> Sequence[str]:
        return [row[0] for row in await self._rows(sql.SUBJECTS, node=node)]


def _iso(at: datetime) -> str:
    return at.isoformat()


def _body(adapter: TypeAdapter[T], value: T) -> Any:
    return adapter.dump_python(value, mode="json")


def _pick(body: Row, *columns: str) -> dict[str, Any]:
    return {**{column: body[column] for column in columns}, "body": body}


def _newest(rows: Iterable[T], *, key: Callable[[T], str], time: Callable[[T], datetime]) -> list[T]:
    """The newest row per key, because a statement may not change a row twice. Sorted by key, because two statements
    that lock the same rows in different orders would deadlock.
    """
    newest: dict[str, T] = {}
    for row in rows:
        known = newest.get(key(row))
        if known is None or time(row) >= time(known):
            newest[key(row)] = row
    return [newest[name] for name in sorted(newest)]


def _facts_row(facts: NodeFacts, boot_epoch: str, described_at: datetime) -> Row:
    return {
        "name": facts.name,
        "facts": _body(_FACTS, facts),
        "boot_epoch": boot_epoch,
        "described_at": _iso(described_at),
    }


def _usage_row(point: UsagePoint, body: str) -> Row:
    return {"event_id": point.event_id, "node": point.node, "sampled_at": point.sampled_at, "body": body}


def _latest_row(point: UsagePoint, pods: Sequence[PodView], body: str) -> Row:
    parts = {"requested": requested(pods), "usage": point.usage, "system": point.beside_pods, **point.tiers}
    amounts: list[int] = []
    for name in NODE_AMOUNTS:
        part = parts.get(name) or Resources()
        amounts += [part.cpu_milli, part.memory_bytes]
    return {
        "name": point.node,
        "sampled_at": point.sampled_at,
        "usage": body,
        "pods": _readable(as_json(tuple(pods), _PODS)),
        "amounts": "{" + ",".join(map(str, amounts)) + "}",
    }


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""NUL as JSON writes it; after an escaped backslash the same characters are plain text."""


def _readable(written: str) -> str:
    """Refuses a NUL, which JSON can hold and PostgreSQL cannot: the text is stored unparsed, and a later query would
    fail.
    """
    if "\\u0000" in written and _NUL.search(written):
        raise InvalidInput("a pod's description contains a NUL character", code="unstorable")
    return written


def _peak_row(row: ForecastView) -> Row:
    peak = row.prod_peak
    return {
        "name": row.node,
        "predicted_at": _iso(row.predicted_at),
        "prod_peak": [peak.cpu_milli, peak.memory_bytes],
    }


def _offer_row(row: OfferView) -> Row:
    return {
        "event_id": row.event_id,
        "node": row.node,
        "offered_at": _iso(row.offered_at),
        "generation": row.generation,
        "body": _body(_OFFER, row),
    }


def _decision_row(record: DecisionRecord) -> Row:
    """The row of a decision. It holds uid and name of chosen and spared pods, so that either finds the decision."""
    body = record.model_dump(mode="json")
    found = {name: body[name] for name in ("id", "node", "kind", "subject", "reason", "decided_at")}
    rows = candidates_of(record)
    return {
        **found,
        "pods": _names((action.pod_uid, action.pod_name) for action in record.actions),
        "spared": _names((row.pod_uid, row.name) for row in rows if not row.chosen),
        "carried_out": is_carried_out(record),
        "body": body,
    }


def _names(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({word for pair in pairs for word in pair if word})
