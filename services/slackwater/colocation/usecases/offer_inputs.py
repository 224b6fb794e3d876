"""Builds the inputs in the records of an offer, each with its source: an event or the strategy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from slackwater.colocation.ports import FollowedStrategy
from slackwater.decisions.record import Input
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.kept_room import kept_of, unexpired
from slackwater.offers.mid import allocatable_of
from slackwater.offers.node import InputSource, NodeState
from slackwater.offers.snapshot import HIGH_TIERS, LOWER_TIERS, NodeSnapshot, amount, tier_of
from slackwater.offers.strategy import MidMode

UNITS = {"cpu": "milli-cores", "memory": "bytes"}


@record(frozen=True, slots=True)
class Facts:
    """The data of one resource of a node. `mid_lent` is what batch leaves to mid, `mid_source` the record with the
    reason.
    """

    state: NodeState
    snapshot: NodeSnapshot
    followed: FollowedStrategy
    resource: str
    mid_lent: Resources
    mid_source: InputSource
    now: datetime


def inputs_of(facts: Facts, tier: str) -> tuple[Input, ...]:
    """Returns the inputs in the record of one tier's offer."""
    own = _of_mid(facts) if tier == "mid" else _of_batch(facts)
    state, snapshot = facts.state, facts.snapshot
    return (
        *_of_node(facts),
        *own,
        *_of_reservations(facts, tier),
        measured("usage_age", round(snapshot.age_seconds, 1), "seconds", state.used_by),
        measured("lost", str(snapshot.lost).lower(), "", state.liveness_by),
        *(measured("ignored", problem, "", state.described_by) for problem in state.notes.problems),
    )


def _of_node(facts: Facts) -> Iterator[Input]:
    state, snapshot, strategy = facts.state, facts.snapshot, facts.followed.strategy
    if not strategy.enabled:
        yield _strategy_input(facts, "enable", "false", "")
    yield _amount(facts, "capacity", snapshot.capacity, state.described_by)
    yield _amount(facts, "reserved_by_node", snapshot.reserved, state.described_by)
    yield _strategy_input(
        facts, "reserved_by_strategy", amount(strategy.reserved, facts.resource), UNITS[facts.resource]
    )
    yield _strategy_input(facts, "reclaim_threshold", strategy.reclaim_threshold(facts.resource), "percent")
    yield _amount(facts, "system_p95", snapshot.system, state.system_by or state.used_by)
    if snapshot.host_apps:
        apps = sum((app.usage for app in snapshot.host_apps if app.tier not in LOWER_TIERS), Resources())
        yield _amount(facts, "host_apps_p95", apps, state.used_by)
        for app in snapshot.host_apps:
            yield _amount(facts, f"host_app {app.name} ({app.tier}) p95", app.usage, state.used_by)
    yield from _of_pods(facts, "prod")


def _of_batch(facts: Facts) -> Iterator[Input]:
    yield from _of_pods(facts, "mid")
    if facts.followed.strategy.mid_mode is not MidMode.OFF:
        yield _amount(facts, "mid_offered", facts.mid_lent, facts.mid_source)
    if (own := facts.followed.strategy.batch_threshold(facts.resource)) is not None:
        yield _strategy_input(facts, "batch_threshold", own, "percent")


def _of_mid(facts: Facts) -> Iterator[Input]:
    strategy, resource = facts.followed.strategy, facts.resource
    yield _amount(facts, "allocatable", allocatable_of(facts.snapshot), facts.state.described_by)
    yield _strategy_input(facts, "mid_threshold", strategy.mid_threshold(resource), "percent")
    if strategy.mid_mode is MidMode.STATIC:
        yield _strategy_input(facts, "mid_static", strategy.mid_static(resource), "percent")
        return
    yield _strategy_input(facts, "mid_reclaim_ratio", strategy.mid_reclaim_ratio_percent, "percent")
    yield _strategy_input(facts, "mid_unallocated", strategy.mid_unallocated_percent, "percent")
    yield _amount(facts, "node_p95", facts.snapshot.node_usage, facts.state.used_by)


def _of_pods(facts: Facts, tier: str) -> Iterator[Input]:
    """Yields the inputs of one high tier; pods of unknown tiers count as prod."""
    pods = [pod for pod in facts.snapshot.pods if tier_of(pod.tier) == tier]
    used = sum((pod.usage for pod in pods if pod.usage), Resources())
    peaks = sum((pod.predicted for pod in pods if pod.predicted), Resources())
    if tier == HIGH_TIERS[0] and facts.snapshot.prod_peak is not None:
        peaks = facts.snapshot.prod_peak
    requests = sum((pod.request for pod in pods if pod.listed), Resources())
    yield _amount(facts, f"{tier}_p95", used, facts.state.used_by)
    yield _amount(facts, f"{tier}_predicted_peaks", peaks, facts.state.predicted_by)
    yield _amount(facts, f"{tier}_requests", requests, facts.state.used_by)


def _of_reservations(facts: Facts, tier: str) -> Iterator[Input]:
    """Yields what is kept for pods to come: what the term `reservations` takes off, and each that holds."""
    rooms, by = unexpired(facts.state.kept, facts.now.timestamp()), facts.state.kept_by
    if own := kept_of(tier, rooms):
        yield _amount(facts, "reservations", own, by)
    for room in rooms:
        yield _amount(facts, f"reservation {room.name} ({room.tier})", room.amount, by)


def _strategy_input(facts: Facts, name: str, value: float | str, unit: str) -> Input:
    """Returns an input from the strategy. Its sources are listed weakest first; its time is that of the newest."""
    source = ", ".join(facts.followed.sources) or "strategy"
    return Input(name=name, value=value, unit=unit, source=source, observed_at=_accepted_at(facts))


def _accepted_at(facts: Facts) -> datetime | None:
    """Returns when the strategy was accepted. Annotations and labels are as old as the description; None if unknown."""
    described = facts.state.described_by
    own = any(source.startswith("node-") for source in facts.followed.sources)
    times = [facts.followed.accepted_at, described.at if own and described else None]
    return max((at for at in times if at is not None), default=None)


def _amount(facts: Facts, name: str, whole: Resources | None, source: InputSource | None) -> Input:
    value = None if whole is None else amount(whole, facts.resource)
    return measured(name, value, UNITS[facts.resource], source)


def measured(name: str, value: float | str | None, unit: str, source: InputSource | None) -> Input:
    """Returns an input with the event it came from; `source` None: not received yet."""
    return Input(
        name=name,
        value=value,
        unit=unit,
        source=source.event_id if source else "nobody",
        observed_at=source.at if source else None,
    )
