"""Events of fifteen minutes on a small fleet: one node has a surge, batch is throttled and restored.

Deterministic (no clock, no randomness), for pages, screenshots and tests that need a read model with a history.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from tests.support.story_health import health, window_of
from tests.support.story_moves import gains, moves
from tests.support.story_offers import RESERVED_MILLI, StoryMoment, offered, records_of
from tests.support.story_predictions import predicted, prediction_record
from tests.support.story_quotas import quotas
from tests.support.story_strategies import OWN_ANNOTATION, strategies

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.measures import Distribution, PodUsage, Pressure, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import CpuTopology, Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos

GIB = 2**30
REPORT_SECONDS = 5
OFFER_SECONDS = 60
LENGTH_SECONDS = 900
SURGE = (420, 600)
"""The surge of the first node, in seconds from the start."""
UNPREDICTED = (300, 360)
"""Offers of the first node without a prediction."""
WATERLINE = 0.12


@dataclass(frozen=True, slots=True)
class Character:
    """A node of the story: its size, the load of its service at rest, whether it has the surge, its number of NUMA
    zones, and whether its predictions fail for a while."""

    name: str
    capacity_milli: int
    prod_milli: int
    surges: bool = False
    liveness: Liveness = Liveness.FRESH
    zones: int = 1
    strained: bool = False


FLEET = (
    Character("edge-7", 8000, 2100, surges=True),
    Character("edge-8", 8000, 2900, strained=True),
    Character("edge-9", 16000, 4200, zones=2),
    Character("edge-10", 8000, 1200, liveness=Liveness.STALE),
)


def story(end: datetime, fleet: tuple[Character, ...] = FLEET) -> list[Event[Any]]:
    """Returns all events of the fifteen minutes before `end`, in order. They are shared between callers: do not
    change them."""
    return list(_story(end, fleet))


@lru_cache(maxsize=8)  # a quarter of a second of CPU, which a test would spend for each event that it picks
def _story(end: datetime, fleet: tuple[Character, ...]) -> tuple[Event[Any], ...]:
    events = [event for node in fleet for event in _Node(node, end - timedelta(seconds=LENGTH_SECONDS)).events()]
    start = end - timedelta(seconds=LENGTH_SECONDS)
    events += health(end, LENGTH_SECONDS) + strategies(start) + quotas(start, LENGTH_SECONDS)
    events += moves(start, LENGTH_SECONDS)
    if any(node.name == "edge-7" for node in fleet):  # the node that the moves left
        events += gains(start, LENGTH_SECONDS)
    return tuple(sorted(events, key=lambda event: event.time))


def identifier(*parts: object) -> str:
    """Returns the same UUID for the same parts in every run."""
    return str(uuid5(NAMESPACE_URL, "/".join(map(str, parts))))


class _Node:
    def __init__(self, node: Character, start: datetime) -> None:
        self.node = node
        self.start = start

    def at(self, second: float) -> datetime:
        return self.start + timedelta(seconds=second)

    def event(self, second: float, data: Payload, *parts: object, cause: str | None = None) -> Event[Any]:
        name = identifier(self.node.name, data.TYPE, second, *parts)
        return event_of(data, source="story", time=self.at(second), causedby=cause, id=name)

    def events(self) -> Iterator[Event[Any]]:
        yield self.event(0, NodeDescribed(facts=self.facts(), boot_epoch="1", described_at=self.at(0)))
        yield self.liveness(1, Liveness.FRESH, None)
        last = LENGTH_SECONDS - (120 if self.node.liveness is not Liveness.FRESH else 0)
        for second in range(REPORT_SECONDS, last + 1, REPORT_SECONDS):
            yield self.report(second)
        for second in range(OFFER_SECONDS, last + 1, OFFER_SECONDS):
            yield from self.offer(second)
        if self.node.surges:
            yield from self.throttles()
        if self.node.liveness is not Liveness.FRESH:
            yield self.liveness(last + 15, self.node.liveness, Liveness.FRESH)

    def liveness(self, second: float, now: Liveness, before: Liveness | None) -> Event[Any]:
        data = NodeLivenessChanged(
            node=self.node.name,
            liveness=now,
            previous=before,
            last_report_at=self.at(max(0, second - 15)),
            changed_at=self.at(second),
        )
        return self.event(second, data)

    def facts(self) -> NodeFacts:
        cpus = self.node.capacity_milli // 1000
        return NodeFacts(
            name=self.node.name,
            pool="edge",
            capacity=Resources(self.node.capacity_milli, cpus * 4 * GIB),
            reserved=Resources(RESERVED_MILLI, GIB),
            topology=CpuTopology(cpus, cpus // 2, 1, 1),
            kernel="6.1.0-28-amd64",
            cgroup_version="v2",
            driver="simulated",
            agent_version="0.1.0",
            labels={"topology.kubernetes.io/zone": "harbour"},
            annotations=OWN_ANNOTATION if self.node.zones > 1 else {},
        )

    def surge(self, second: float) -> float:
        """0 at rest, 1 in the middle of the surge, with a ramp of 20 s."""
        if not self.node.surges:
            return 0.0
        begin, end = SURGE
        return max(0.0, min(1.0, (second - begin) / 20, (end - second) / 20))

    def prod(self, second: float) -> int:
        wave = math.sin(second / 47) * 0.12 + math.sin(second / 13) * 0.05
        return round(self.node.prod_milli * (1 + wave) + self.surge(second) * 3300)

    def limits(self, second: float) -> tuple[int, int] | None:
        """The limits of the two batch pods; None without limits."""
        current = None
        for step, limits in self.steps():
            if second > step:
                current = limits
        return current

    def steps(self) -> tuple[tuple[float, tuple[int, int] | None], ...]:
        begin, end = SURGE
        return (
            (begin + 10.4, (1200, 800)),
            (begin + 25.3, (600, 400)),
            (end + 10.2, (1300, 900)),
            (end + 30.2, (2300, 1600)),
            (end + 50.2, None),
        )

    def batch(self, second: float) -> tuple[int, int]:
        """Usage of two CPU-bound pods that share the free CPU in the ratio 3 to 2, up to their limits."""
        free = self.node.capacity_milli - self.prod(second) - self.system(second) - 700
        wants = (max(150, round(free * 0.55)), max(100, round(free * 0.36)))
        limits = self.limits(second) if self.node.surges else None
        if limits is None:
            return wants
        return min(wants[0], limits[0]), min(wants[1], limits[1])

    def system(self, second: float) -> int:
        return 260 + round(40 * math.sin(second / 31))

    def pressure(self, second: float) -> float:
        """High while batch is unlimited during the surge, low otherwise."""
        crowded = self.surge(second) * (0.31 if self.limits(second) is None else 0.16)
        eased = 0.4 if self.limits(second) == (600, 400) else 1.0
        return round(0.02 + 0.012 * math.sin(second / 17) + crowded * eased, 4)

    def report(self, second: int) -> Event[Any]:
        prod, (first, other), system = self.prod(second), self.batch(second), self.system(second)
        limits = (self.limits(second) or (None, None)) if self.node.surges else (None, None)
        pods = [
            self.pod("checkout-0", Tier.PROD, round(prod * 0.62), 3000, self.pressure(second)),
            self.pod("search-0", Tier.PROD, prod - round(prod * 0.62), 2000, self.pressure(second) / 2),
            self.pod("rank-features-0", Tier.MID, 350, 500, 0.01),
            self.pod("encode-video-0", Tier.BATCH, first, 2000, 0.22, limits[0]),
            self.pod("encode-video-1", Tier.BATCH, other, 2000, 0.19, limits[1]),
        ]
        total = prod + first + other + system + 350
        begin, _ = SURGE
        data = UsageReported(
            node=self.node.name,
            boot_epoch="1",
            sequence=second // REPORT_SECONDS,
            sampled_at=self.at(second),
            window_seconds=REPORT_SECONDS,
            trigger="waterline" if self.node.surges and second in (begin + 10, begin + 25) else "interval",
            node_usage=_usage(total, 6 * GIB),
            system_usage=_usage(system, GIB // 2),
            node_pressure=Pressure(cpu_some_avg=self.pressure(second) + 0.1, memory_some_avg=0.0),
            prod_pressure=Pressure(cpu_some_last=self.pressure(second), cpu_some_avg=self.pressure(second)),
            pods=tuple(pods),
        )
        return self.event(second, data)

    def pod(
        self, name: str, tier: Tier, used: int, request: int, pressure: float, limit: int | None = None
    ) -> PodUsage:
        pod = Pod(
            uid=identifier(self.node.name, name),
            name=name,
            namespace="shop" if tier is Tier.PROD else "media",
            workload=name.rsplit("-", 1)[0],
            tier=tier,
            qos=default_qos(tier),
            priority=DEFAULT_PRIORITY[tier],
            request=Resources(request, GIB),
            started_at=self.start - timedelta(hours=3),
        )
        return PodUsage(
            pod=pod,
            usage=_usage(used, GIB),
            pressure=Pressure(cpu_some_avg=round(max(0.0, pressure), 4)),
            cpu_limit_milli=limit,
            original_cpu_limit_milli=None,
            throttled_ratio=0.45 if limit else 0.0,
        )

    def offer(self, second: int) -> Iterator[Event[Any]]:
        """A window, the prediction from it and, 0.3 s later, the offer, each with its record."""
        peak = self.node.prod_milli + 500 + (round(0.9 * 3300) if self.surge(second) else 0)
        window = self.window(second)
        yield window
        name, at, decision = self.node.name, self.at(second), identifier(self.node.name, "prediction", second)
        yield self.event(second, DecisionRecorded(record=prediction_record(name, at, decision, peak, window.id)))
        number = second // OFFER_SECONDS
        forecast = self.event(second, predicted(name, at, decision, peak, number, OFFER_SECONDS))
        yield forecast
        moment = self.moment(second, peak, forecast.id)
        records = records_of(moment, identifier(self.node.name, "offer", second))
        for record in records:
            yield self.event(second + 0.3, DecisionRecorded(record=record), record.subject, cause=forecast.id)
        yield self.event(second + 0.3, offered(moment, records), cause=forecast.id)

    def moment(self, second: int, peak: int, cause: str) -> StoryMoment:
        """The inputs of an offer. The prediction of one node is missing for two minutes."""
        missing = self.node.strained and second in UNPREDICTED
        return StoryMoment(
            node=self.node.name,
            capacity=self.facts().capacity,
            peak=peak,
            sampled_at=self.at(second),
            decided_at=self.at(second + 0.3),
            generation=second // OFFER_SECONDS,
            cause=cause,
            degraded="no prediction for 15 min" if missing else None,
            recovered=self.node.strained and second == UNPREDICTED[-1] + OFFER_SECONDS,
            strategies=("cluster@3", "pool/edge@2", *(("node-annotation",) if self.node.zones > 1 else ())),
            zones=self.node.zones,
        )

    def window(self, second: int) -> Event[Any]:
        """The window of the last minute, closed half a second ago."""
        start = self.at(second - OFFER_SECONDS)
        number = second // OFFER_SECONDS - 1
        data = window_of(self.node.name, number, start, OFFER_SECONDS, self.prod(second), self.system(second))
        return self.event(second - 0.5, data)

    def throttles(self) -> Iterator[Event[Any]]:
        """Two throttles, two partial restores and a full one, each with observation and effect."""
        before: tuple[int, int] | None = None
        for written_at, after in self.steps():
            kind = DecisionKind.THROTTLE if written_at < SURGE[1] else DecisionKind.RESTORE
            yield from self.action(written_at, kind, before, after)
            before = after

    def action(
        self, written_at: float, kind: DecisionKind, before: tuple[int, int] | None, after: tuple[int, int] | None
    ) -> Iterator[Event[Any]]:
        second = math.floor(written_at / REPORT_SECONDS) * REPORT_SECONDS
        cause = self.report(second).id
        record = self.action_record(second, kind, cause, before, after)
        yield self.event(second + 0.05, DecisionRecorded(record=record), cause=cause)
        limits = tuple(
            ObservedLimit(
                pod_uid=action.pod_uid, cpu_limit_milli=action.cpu_limit_after_milli, error=None, decision_id=record.id
            )
            for action in record.actions
        )
        seen = IntentObserved(
            node=self.node.name,
            writer="ensurance",
            generation=second,
            boot_epoch="1",
            received_at=self.at(written_at - 0.02),
            observed_at=self.at(written_at),
            limits=limits,
        )
        yield self.event(written_at, seen, cause=record.id)
        yield self.event(second + 5.01, self.effect(second, written_at, record.id), cause=record.id)

    def effect(self, second: int, written_at: float, decision_id: str) -> EffectMeasured:
        after = self.pressure(second + REPORT_SECONDS)
        return EffectMeasured(
            decision_id=decision_id,
            node=self.node.name,
            metric="prod_cpu_pressure",
            before=self.pressure(second),
            after=after,
            waterline=WATERLINE,
            relieved=after <= WATERLINE,
            actuated_at=self.at(written_at),
            measured_at=self.at(second + REPORT_SECONDS),
            seconds_to_actuation=round(written_at - second - 0.05, 3),
            seconds_to_measurement=REPORT_SECONDS - 0.05,
        )

    def action_record(
        self,
        second: int,
        kind: DecisionKind,
        cause: str,
        before: tuple[int, int] | None,
        after: tuple[int, int] | None,
    ) -> DecisionRecord:
        used, will_use = self.batch(second), self.batch(second + REPORT_SECONDS)
        actions = []
        for index, name in enumerate(("encode-video-0", "encode-video-1")):
            old, new = before[index] if before else None, after[index] if after else None
            released = (old if old is not None else used[index]) - (new if new is not None else will_use[index])
            actions.append(
                Action(
                    pod_uid=identifier(self.node.name, name),
                    pod_name=name,
                    tier="batch",
                    cpu_limit_before_milli=old,
                    cpu_limit_after_milli=new,
                    released_milli=released,
                    keys=(1.0, 1.0, 5500.0, float(-used[index])),
                    namespace="media",
                )
            )
        throttle = kind is DecisionKind.THROTTLE
        reason = Reason.THROTTLE_WATERLINE_CROSSED if throttle else Reason.RESTORE_HEADROOM
        if after is None:
            reason = Reason.RESTORE_COMPLETE
        sign, note = (1, "released") if throttle else (-1, "given back")
        terms = tuple(Term(name=a.pod_name, value=sign * a.released_milli, note=note) for a in actions)
        at = self.at(second)
        return DecisionRecord(
            id=identifier(self.node.name, kind, second),
            kind=kind,
            node=self.node.name,
            subject="cpu",
            service="ensurance",
            rule="prod-cpu-pressure",
            mode=Mode.THROTTLE,
            reason=reason,
            decided_at=self.at(second + 0.05),
            trigger_event_id=cause,
            inputs=(
                Input(
                    name="prod_cpu_pressure", value=self.pressure(second), unit="ratio", source=cause, observed_at=at
                ),
                Input(name="waterline", value=WATERLINE, unit="ratio", source="policy default"),
                *_gap(sum(t.value for t in terms) if throttle else None),
            ),
            terms=terms,
            result=sum(t.value for t in terms),
            unit="milli",
            alternatives=(
                Alternative(what="evict encode-video-1", rejected_because="throttling is enough"),
                Alternative(
                    what="checkout-0",
                    rejected_because="tier prod is protected",
                    pod_uid=identifier(self.node.name, "checkout-0"),
                    namespace="shop",
                ),
            ),
            order="lower tier, lower QoS class, lower priority, more CPU used, uid",
            actions=tuple(actions),
            replay=Replay(function="tests.support.story:total", arguments={"values": [t.value for t in terms]}),
        )


def total(values: list[int]) -> int:
    """The result that the story's records replay: the sum of their terms."""
    return sum(values)


def _gap(milli: int | None) -> tuple[Input, ...]:
    """The gap of a throttle; empty for a restore."""
    if milli is None:
        return ()
    lacking = round(milli / 1.1)
    return (
        Input(name="excess_ratio", value=0.1, unit="ratio", source="policy default"),
        Input(name="lacking", value=lacking, unit="milli", source="computed: what prod wanted - what it got"),
        Input(name="gap", value=milli, unit="milli", source="computed: (1 + excess_ratio) x lacking"),
    )


def _usage(cpu_milli: int, memory_bytes: int) -> Usage:
    return Usage(cpu_milli=_distribution(cpu_milli), memory_bytes=_distribution(memory_bytes))


def _distribution(value: int) -> Distribution:
    high = round(value * 1.08)
    return Distribution(avg=value, p50=value, p90=high, p95=high, p99=high, max=high, last=value, count=5)
