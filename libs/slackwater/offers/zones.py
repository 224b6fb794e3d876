"""Offers per NUMA zone: the node's formula on each zone's share of capacity and usage.

A pod counts on its assigned zones in equal parts. Pods without an assignment, measured pods that are not listed, the
system, reservations and host applications count on all zones in equal parts. Shares are rounded up, so their sum is
never below the whole. A zone's offer ages as the node's does. The zones' offers together never exceed the node's: they
are reduced in proportion, and zones of a node that offers nothing offer nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.batch import compute
from slackwater.offers.degradation import aged
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput, Zone, amount
from slackwater.offers.strategy import Strategy


@record(frozen=True, slots=True)
class NumaZoneOffer:
    """What batch may use of one zone."""

    name: str
    batch: Resources


def zone_offers(
    snapshot: NodeSnapshot, strategy: Strategy, node: Resources, mid: Resources | None = None
) -> tuple[NumaZoneOffer, ...]:
    """Returns the offers of the zones. `node` is the published offer to batch and `mid` to mid: zones follow them."""
    computed = (_alone(place, snapshot, strategy, mid or Resources()) for place in range(len(snapshot.zones)))
    return _bounded(
        [NumaZoneOffer(zone.name, offer) for zone, offer in zip(snapshot.zones, computed, strict=True)], node
    )


def _bounded(zones: Sequence[NumaZoneOffer], node: Resources) -> tuple[NumaZoneOffer, ...]:
    """Reduces the zones' offers to the node's in total."""
    cpu = within([zone.batch.cpu_milli for zone in zones], node.cpu_milli)
    memory = within([zone.batch.memory_bytes for zone in zones], node.memory_bytes)
    return tuple(NumaZoneOffer(zone.name, Resources(*both)) for zone, *both in zip(zones, cpu, memory, strict=True))


def within(zones: Sequence[int], node: int) -> list[int]:
    """Reduces the amounts in proportion, cut to whole units, if their sum exceeds the node's."""
    total = sum(zones)
    return list(zones) if total <= node else [zone * node // total for zone in zones]


def divide(whole: Resources, parts: int) -> Resources:
    """Returns one of `parts` equal shares, rounded up; the whole for no parts."""
    if parts <= 0:
        return whole
    return Resources(-(-whole.cpu_milli // parts), -(-whole.memory_bytes // parts))


def split(whole: Resources, zones: int, given: Sequence[int] = ()) -> tuple[Resources, ...]:
    """Splits over the given zones, or over all if none of the given ones exists."""
    there = {place for place in given if 0 <= place < zones} or set(range(zones))
    share = divide(whole, len(there))
    return tuple(share if place in there else Resources() for place in range(zones))


def after_gate(
    published: Mapping[str, Resources], computed: Sequence[NumaZoneOffer], threshold: float
) -> tuple[NumaZoneOffer, ...]:
    """Returns the zones' values after hysteresis: per zone and resource the published value, unless the new one differs
    by more than `threshold` of it. Removed zones are left out.
    """
    return tuple(NumaZoneOffer(zone.name, _gated(published.get(zone.name), zone.batch, threshold)) for zone in computed)


def borne(
    kept: Sequence[NumaZoneOffer], computed: Sequence[NumaZoneOffer], node: Resources
) -> tuple[NumaZoneOffer, ...]:
    """Returns the kept values, or the computed ones for a resource whose kept sum exceeds the node's offer. A repeated
    computation gives the same result.
    """
    total = sum((zone.batch for zone in kept), Resources())
    cpu = kept if total.cpu_milli <= node.cpu_milli else computed
    memory = kept if total.memory_bytes <= node.memory_bytes else computed
    return tuple(
        NumaZoneOffer(cpu_zone.name, Resources(cpu_zone.batch.cpu_milli, memory_zone.batch.memory_bytes))
        for cpu_zone, memory_zone in zip(cpu, memory, strict=True)
    )


def _gated(old: Resources | None, new: Resources, threshold: float) -> Resources:
    if old is None:
        return new
    pairs = ((amount(old, resource), amount(new, resource)) for resource in ("cpu", "memory"))
    return Resources(*(value if abs(value - before) > before * threshold else before for before, value in pairs))


def _alone(place: int, snapshot: NodeSnapshot, strategy: Strategy, mid: Resources) -> Resources:
    zone, count = snapshot.zones[place], len(snapshot.zones)
    own = replace(strategy, reserved=divide(strategy.reserved, count))
    part, lent = _share(place, zone, snapshot), divide(mid, count)
    offered = [compute(resource, part, own, amount(lent, resource)).offered for resource in ("cpu", "memory")]
    return Resources(*(aged(value, snapshot, strategy)[0] for value in offered))


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


def _pod_share(pod: PodInput, place: int, count: int) -> PodInput:
    def part(whole: Resources | None) -> Resources | None:
        return None if whole is None else split(whole, count, pod.numa)[place]

    return replace(
        pod, request=split(pod.request, count, pod.numa)[place], usage=part(pod.usage), predicted=part(pod.predicted)
    )
