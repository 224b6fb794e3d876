"""Offers per NUMA zone: the node's formula on each zone's share of what the node has and holds.

A pod is on the zones it was given, in equal parts; a pod without any, a measured pod that nobody lists, the system,
reservations and host applications are on all of them alike. Shares are rounded up, so what is held is never less than
the whole. A zone's offer ages as the node's does. Zones together are never offered more than the node: where they were,
each gives in proportion; a node that offers nothing has zones that offer nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.colocation.domain.batch import compute
from slackwater.colocation.domain.degrade import aged
from slackwater.colocation.domain.snapshot import HostApp, NodeSnapshot, PodUse, Zone, amount
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class ZoneOffer:
    """What batch may use of one zone."""

    name: str
    batch: Resources


def zone_offers(
    snapshot: NodeSnapshot, strategy: Strategy, node: Resources, mid: Resources | None = None
) -> tuple[ZoneOffer, ...]:
    """`node` is what the node offers to batch and `mid` to mid, as published: zones follow it, whatever made it low."""
    computed = (_alone(place, snapshot, strategy, mid or Resources()) for place in range(len(snapshot.zones)))
    return _bounded([ZoneOffer(zone.name, each) for zone, each in zip(snapshot.zones, computed, strict=True)], node)


def _bounded(zones: Sequence[ZoneOffer], node: Resources) -> tuple[ZoneOffer, ...]:
    """Not more together than the node."""
    cpu = within([zone.batch.cpu_milli for zone in zones], node.cpu_milli)
    memory = within([zone.batch.memory_bytes for zone in zones], node.memory_bytes)
    return tuple(ZoneOffer(zone.name, Resources(*both)) for zone, *both in zip(zones, cpu, memory, strict=True))


def within(zones: Sequence[int], node: int) -> list[int]:
    """Reduced in proportion, cut to whole units, where the zones together exceed the node."""
    total = sum(zones)
    return list(zones) if total <= node else [zone * node // total for zone in zones]


def divide(whole: Resources, parts: int) -> Resources:
    """One of `parts` equal shares, rounded up; of no parts, the whole."""
    if parts <= 0:
        return whole
    return Resources(-(-whole.cpu_milli // parts), -(-whole.memory_bytes // parts))


def split(whole: Resources, zones: int, given: Sequence[int] = ()) -> tuple[Resources, ...]:
    """Over the zones that were given; over all of them if none of those is there."""
    there = {place for place in given if 0 <= place < zones} or set(range(zones))
    share = divide(whole, len(there))
    return tuple(share if place in there else Resources() for place in range(zones))


def after_gate(
    published: Mapping[str, Resources], computed: Sequence[ZoneOffer], threshold: float
) -> tuple[ZoneOffer, ...]:
    """What zones say after another computation: per zone and resource the published value, unless the new one differs
    by more than `threshold` of it. A zone that is gone says nothing any more."""
    return tuple(ZoneOffer(zone.name, _gated(published.get(zone.name), zone.batch, threshold)) for zone in computed)


def borne(kept: Sequence[ZoneOffer], computed: Sequence[ZoneOffer], node: Resources) -> tuple[ZoneOffer, ...]:
    """What was kept, as far as the node offers so much; of a resource of which it does not, all zones say what is
    computed. Who asks again is told the same."""
    total = sum((zone.batch for zone in kept), Resources())
    cpu = kept if total.cpu_milli <= node.cpu_milli else computed
    memory = kept if total.memory_bytes <= node.memory_bytes else computed
    return tuple(
        ZoneOffer(one.name, Resources(one.batch.cpu_milli, other.batch.memory_bytes))
        for one, other in zip(cpu, memory, strict=True)
    )


def _gated(old: Resources | None, new: Resources, threshold: float) -> Resources:
    if old is None:
        return new
    pairs = ((amount(old, each), amount(new, each)) for each in ("cpu", "memory"))
    return Resources(*(value if abs(value - before) > before * threshold else before for before, value in pairs))


def _alone(place: int, snapshot: NodeSnapshot, strategy: Strategy, mid: Resources) -> Resources:
    zone, count = snapshot.zones[place], len(snapshot.zones)
    own = replace(strategy, reserved=divide(strategy.reserved, count))
    part, lent = _share(place, zone, snapshot), divide(mid, count)
    offered = [compute(each, part, own, amount(lent, each)).offered for each in ("cpu", "memory")]
    return Resources(*(aged(each, snapshot, strategy)[0] for each in offered))


def _share(place: int, zone: Zone, snapshot: NodeSnapshot) -> NodeSnapshot:
    count = len(snapshot.zones)
    return replace(
        snapshot,
        capacity=zone.allocatable,
        reserved=divide(snapshot.reserved, count),
        pods=tuple(_pod_share(pod, place, count) for pod in snapshot.pods),
        system=None if snapshot.system is None else divide(snapshot.system, count),
        host_apps=tuple(HostApp(app.name, app.tier, divide(app.usage, count)) for app in snapshot.host_apps),
        zones=(),
        prod_peak=None,
    )


def _pod_share(pod: PodUse, place: int, count: int) -> PodUse:
    def part(whole: Resources | None) -> Resources | None:
        return None if whole is None else split(whole, count, pod.numa)[place]

    return replace(
        pod, request=split(pod.request, count, pod.numa)[place], usage=part(pod.usage), predicted=part(pod.predicted)
    )
