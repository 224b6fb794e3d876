"""Applies events to a node's state: its description, liveness, windows of usage, peaks and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedUsage
from slackwater.model.nodes import Liveness
from slackwater.model.pods import LABEL_NUMA, Pod
from slackwater.model.quantities import Resources
from slackwater.offers.kept_room import KeptRoom
from slackwater.offers.node import (
    InputSource,
    KnownPeak,
    MeasuredUsage,
    NodeState,
    with_description,
    with_kept_room,
    with_liveness,
    with_peaks,
    with_usage,
)
from slackwater.offers.node_notes import notes_of
from slackwater.offers.pod_set import ListedPod, PodMeasurement, pod_set
from slackwater.offers.snapshot import LOWER_TIERS, HostApp, Zone
from slackwater.offers.strategy_layers import NodeOverrides


def apply_description(state: NodeState, event: Event[NodeDescribed]) -> NodeState:
    """Applies capacity, as a whole and by NUMA zone, reservations, annotations and labels."""
    facts = event.data.facts
    source = InputSource(event.id, event.data.described_at)
    numa = tuple(Zone(zone.name, zone.capacity) for zone in facts.numa)
    words = NodeOverrides(facts.labels, facts.annotations)
    notes = notes_of(facts.annotations, facts.capacity, state.notes)
    return with_description(state, facts.capacity, facts.reserved, source, facts.pool, numa, words, notes)


def apply_liveness(state: NodeState, event: Event[NodeLivenessChanged]) -> NodeState:
    """Applies liveness. Only `lost` counts by itself; `stale` shows in the age of the usage."""
    return with_liveness(state, event.data.liveness is Liveness.LOST, InputSource(event.id, event.data.changed_at))


def apply_usage(state: NodeState, event: Event[UsageWindowed]) -> NodeState:
    """Applies a window: the p95 of the node, its pods, system and host applications; pods as they were at its end, and
    only those that hold something against an offer.
    """
    window = event.data
    end = window.window_start + timedelta(seconds=window.window_seconds)
    zones = {zone.name: place for place, zone in enumerate(state.numa)}
    pods = [usage for usage in window.pods if usage.pod.tier not in LOWER_TIERS]
    measured = [PodMeasurement(usage.pod.uid, p95) for usage in pods if (p95 := _p95(usage.usage))]
    window_usage = MeasuredUsage(
        pods=pod_set([_listed(usage.pod, zones) for usage in pods], end, measured, end, end).pods,
        node_usage=_p95(window.node_usage),
        system=_p95(window.system_usage),
        end=int(end.timestamp()),
        is_whole=window.gaps <= window.reports,
        host_apps=tuple(
            [HostApp(app.name, app.tier.value, p95) for app in window.host_apps if (p95 := _p95(app.usage))]
        ),
    )
    return with_usage(state, window_usage, InputSource(event.id, window.window_start))


def apply_peaks(state: NodeState, event: Event[PeakPredicted]) -> NodeState:
    """Applies the predicted peak of every pod that holds something, and of all of prod together."""
    held = (pod for pod in event.data.pods if pod.tier not in LOWER_TIERS)
    peaks = {pod.uid: KnownPeak(pod.peak, pod.cold_start) for pod in held}
    return with_peaks(state, peaks, InputSource(event.id, event.data.predicted_at), event.data.prod_peak)


def apply_reservations(state: NodeState, event: Event[NodeReserved]) -> NodeState:
    """Applies what is kept on the node for pods to come."""
    data = event.data
    rooms = tuple(
        KeptRoom(
            room.name,
            room.tier.value,
            room.qos.value,
            room.amount,
            None if room.expires_at is None else room.expires_at.timestamp(),
        )
        for room in data.rooms
    )
    return with_kept_room(state, rooms, data.generation, InputSource(event.id, data.reserved_at))


def _listed(pod: Pod, zones: Mapping[str, int]) -> ListedPod:
    """Returns the pod with the index of its assigned zone, if the node has that zone."""
    place = zones.get(pod.labels.get(LABEL_NUMA, "")) if zones else None
    numa = () if place is None else (place,)
    return ListedPod(pod.uid, pod.tier.value, pod.qos.value, pod.request, pod.started_at, numa=numa)


def _p95(usage: WindowedUsage | None) -> Resources | None:
    if usage is None or usage.samples == 0:
        return None
    return Resources(usage.cpu_p95_milli, usage.memory_p95_bytes)
