"""Replays the arrivals of a trace with quotas: through the arbiter, and with hard quotas beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.fairshare.arbitration_plan import ArbitrationSettings
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.errors import InvalidInput
from slackwater.simulation.domain.quota_policies import ArbiterPolicy, HardQuotaPolicy
from slackwater.simulation.domain.quota_run import AdmissionPolicy, QuotaRun, quota_of_arrival
from slackwater.simulation.domain.quota_tally import QuotaTally
from slackwater.simulation.ports import SimulationProgress
from slackwater.traces.arrivals import ArrivalTrace, WorkloadArrival, peak_demand


@dataclass(frozen=True, slots=True)
class QuotaVariant:
    """A tree to try."""

    name: str
    layout: TreeLayout
    leaves: Sequence[str]
    """Quotas that take claims."""
    queue_policies: Mapping[str, QueuePolicy]
    percent: int = 100
    """Of the pool that the tree gives out."""


@dataclass(frozen=True, slots=True)
class QuotaTerms:
    """Conditions of the replay."""

    capacity: float = 0.75
    """The pool, as a share of the most that the trace would use at once if nothing waited."""
    period_s: float = 10.0
    grace_s: float = 30.0
    settings: ArbitrationSettings = field(default_factory=ArbitrationSettings)


@dataclass(frozen=True, slots=True)
class QuotaReplayed:
    """One policy's result."""

    name: str
    tally: QuotaTally


@dataclass(frozen=True, slots=True)
class QuotaSimulation:
    """All results; the first is the baseline."""

    trace: ArrivalTrace
    terms: QuotaTerms
    peak: Mapping[str, int]
    total: Mapping[str, int]
    replayed: Sequence[QuotaReplayed]


def replay_quotas(
    trace: ArrivalTrace, variants: Sequence[QuotaVariant], terms: QuotaTerms, watch: SimulationProgress
) -> QuotaSimulation:
    """Replays the first variant's quotas as hard ones, then each variant through the arbiter.

    Raises InvalidInput where arrivals belong to no quota.
    """
    peak = peak_demand(trace)
    total = {resource: int(amount * terms.capacity) for resource, amount in peak.items()}
    placed = {variant.name: _placed(trace, variant) for variant in variants}
    replayed = []
    for number, variant in enumerate(variants):
        pool = {resource: amount * variant.percent // 100 for resource, amount in total.items()}
        policies: list[AdmissionPolicy] = [ArbiterPolicy(variant.layout, pool, terms.settings, variant.queue_policies)]
        if number == 0:
            policies = [
                HardQuotaPolicy(variant.layout, pool, passes=False),
                HardQuotaPolicy(variant.layout, pool, passes=True),
                *policies,
            ]
        for policy in policies:
            name = policy.name if len(variants) == 1 or policy.name != ArbiterPolicy.name else variant.name
            watch.begin(name, len(trace.arrivals))
            tally = _run(trace, placed[variant.name], variant, pool, policy, terms, watch)
            replayed.append(QuotaReplayed(name, tally))
    return QuotaSimulation(trace, terms, peak, total, replayed)


def _run(
    trace: ArrivalTrace,
    arrivals: Sequence[tuple[WorkloadArrival, str]],
    variant: QuotaVariant,
    pool: Mapping[str, int],
    policy: AdmissionPolicy,
    terms: QuotaTerms,
    watch: SimulationProgress,
) -> QuotaTally:
    begin_s = arrivals[0][0].at_s if arrivals else 0.0
    tally = QuotaTally(variant.leaves, variant.layout.fair_shares(pool), pool, (begin_s, trace.end_s))
    run = QuotaRun(policy, arrivals, tally, period_s=terms.period_s, end_s=trace.end_s, grace_s=terms.grace_s)
    for came in run.steps():
        watch.advance(came)
    return tally


def _placed(trace: ArrivalTrace, variant: QuotaVariant) -> list[tuple[WorkloadArrival, str]]:
    leaves = frozenset(variant.leaves)
    found, homeless = [], Counter[str]()
    for arrival in trace.arrivals:
        quota = quota_of_arrival(arrival, leaves)
        if quota is None:
            homeless[arrival.groups[-1] if arrival.groups else "?"] += 1
        else:
            found.append((arrival, quota))
    if homeless:
        named = ", ".join(f"{group} ({count})" for group, count in homeless.most_common(5))
        raise InvalidInput(
            f"{variant.name}: {homeless.total()} arrivals belong to no quota: {named}; declare these quotas, or one "
            "named default",
            field="metadata.name",
        )
    return found
