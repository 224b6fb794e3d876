"""A small closed loop: a plant that shares one node's CPU, and a node that carries out what the planner asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from slackwater.decisions.reasons import Mode
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos
from slackwater.waterline.plan import Plan
from slackwater.waterline.planner import plan
from slackwater.waterline.policy import Rule, ThrottlePolicy, WaterlinePolicy
from slackwater.waterline.snapshot import PodSample, Snapshot
from slackwater.waterline.state import GuardState, confirmed

START = datetime(2026, 1, 5, tzinfo=UTC)
PRESSURE_RULE = Rule(name="prod-cpu", metric="prod_cpu_pressure", waterline=0.10)


def pod(
    uid: str,
    tier: Tier = Tier.BATCH,
    usage: int = 500,
    *,
    qos: QoSClass | None = None,
    priority: int | None = None,
    request: int = 1000,
    original: int | None = None,
    age: float = 100,
) -> PodSample:
    """A pod with the fields that a test cares about."""
    return PodSample(
        uid=uid,
        name=f"name-{uid}",
        tier=tier,
        qos=qos or default_qos(tier),
        priority=DEFAULT_PRIORITY[tier] if priority is None else priority,
        request_milli=request,
        usage_milli=usage,
        original_limit_milli=original,
        started_at=START - timedelta(seconds=age),
    )


def snapshot(
    *pods: PodSample, pressure: float | None = 0.5, capacity: int = 2000, usage: int | None = None, at: float = 0
) -> Snapshot:
    """A snapshot `at` seconds after the start; node usage is the sum of the pods unless given."""
    total = sum(p.usage_milli for p in pods)
    return Snapshot(
        node="n1",
        report_id=f"report-{at}",
        sampled_at=START + timedelta(seconds=at),
        capacity_milli=capacity,
        usage_milli=total if usage is None else usage,
        prod_usage_milli=sum(p.usage_milli for p in pods if p.tier is Tier.PROD),
        prod_pressure=pressure,
        pods=pods,
    )


def policy(*rules: Rule, mode: Mode = Mode.THROTTLE, throttle: ThrottlePolicy | None = None) -> WaterlinePolicy:
    """The default rule unless others are given."""
    return WaterlinePolicy("default", 1, mode, rules or (PRESSURE_RULE,), throttle or ThrottlePolicy())


@dataclass
class Plant:
    """CPU of one node shared by weight (water-filling), every pod bounded by what it wants and by its limit.

    `blindness` is the part of the waiting that some-pressure does not show (0 = all of it is seen).
    """

    capacity: int = 2000
    prod_demand: int = 0
    prod_weight: float = 10.0
    blindness: float = 0.0
    batch: dict[str, int] = field(default_factory=dict)
    originals: dict[str, int | None] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    def _wanted(self) -> dict[str, int]:
        wanted = {"prod": self.prod_demand}
        for uid, demand in self.batch.items():
            bounds = [demand, self.limits.get(uid), self.originals.get(uid), self.capacity]
            wanted[uid] = min(bound for bound in bounds if bound is not None)
        return wanted

    def usages(self) -> dict[str, int]:
        """What everybody gets."""
        wanted, given = self._wanted(), dict.fromkeys(self._wanted(), 0.0)
        free, hungry = float(self.capacity), {uid for uid, want in wanted.items() if want > 0}
        while hungry and free > 1e-6:
            weights = {uid: self.prod_weight if uid == "prod" else 1.0 for uid in hungry}
            total, spent = sum(weights.values()), 0.0
            for uid in sorted(hungry):
                slice_ = min(free * weights[uid] / total, wanted[uid] - given[uid])
                given[uid] += slice_
                spent += slice_
            hungry = {uid for uid in hungry if wanted[uid] - given[uid] > 1e-6}
            free -= spent
        return {uid: int(amount) for uid, amount in given.items()}

    def pressure(self) -> float:
        """The share of its wanted time that prod waited, less what some-pressure does not show."""
        if self.prod_demand == 0:
            return 0.0
        lacking = self.prod_demand - self.usages()["prod"]
        return (1 - self.blindness) * lacking / self.prod_demand

    def snapshot(self, at: float) -> Snapshot:
        usages = self.usages()
        samples = [pod("prod", Tier.PROD, usages["prod"])]
        samples += [pod(uid, Tier.BATCH, usages[uid], original=self.originals.get(uid)) for uid in self.batch]
        return snapshot(*samples, pressure=self.pressure(), capacity=self.capacity, at=at)


@dataclass
class Loop:
    """One report per second; a change is carried out and confirmed before the next one."""

    plant: Plant
    policy: WaterlinePolicy = field(default_factory=policy)
    state: GuardState = field(default_factory=GuardState)
    at: float = 0.0
    plans: list[tuple[float, Plan]] = field(default_factory=list)

    def tick(self) -> Plan:
        self.at += 1.0
        now = START + timedelta(seconds=self.at)
        outcome = plan(self.plant.snapshot(self.at), self.state, self.policy, now)
        self.state = outcome.state
        self.plant.limits = {t.uid: t.limit_milli for t in self.state.throttles}
        if outcome.plan.carried_out:
            self.state = confirmed(self.state, now + timedelta(seconds=0.1))
        self.plans.append((self.at, outcome.plan))
        return outcome.plan

    def run(self, seconds: int) -> list[Plan]:
        return [self.tick() for _ in range(seconds)]

    def changes_since(self, at: float) -> int:
        return sum(1 for when, made in self.plans if made.carried_out and when > at)
