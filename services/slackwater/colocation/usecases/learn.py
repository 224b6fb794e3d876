"""What each event changes about a node: node.described, node.liveness_changed, usage.windowed, peak.predicted."""

from __future__ import annotations

from slackwater.colocation.domain.layers import NodeWords
from slackwater.colocation.domain.node import (
    KnownPeak,
    NodeState,
    Source,
    with_description,
    with_liveness,
    with_peaks,
    with_usage,
)
from slackwater.colocation.domain.snapshot import PodUse
from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import Liveness, NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed, WindowedPod, WindowedUsage
from slackwater.model.quantities import Resources


def learn_description(state: NodeState, event: Event[NodeDescribed]) -> NodeState:
    """Capacity, what its operator keeps back, and what the node says of its strategy."""
    facts = event.data.facts
    source = Source(event.id, event.data.described_at)
    words = NodeWords(facts.labels, facts.annotations)
    return with_description(state, facts.capacity, facts.reserved, source, facts.pool, words)


def learn_liveness(state: NodeState, event: Event[NodeLivenessChanged]) -> NodeState:
    """Only being lost counts by itself; being stale shows in the age of the usage."""
    return with_liveness(state, event.data.liveness is Liveness.LOST, Source(event.id, event.data.changed_at))


def learn_usage(state: NodeState, event: Event[UsageWindowed]) -> NodeState:
    """The pods that were measured and the system, each at its p95 of the window."""
    window = event.data
    end = int(window.window_start.timestamp()) + window.window_seconds
    pods = tuple(_pod_use(measured) for measured in window.pods)
    return with_usage(state, pods, _p95(window.system_usage), end, Source(event.id, window.window_start))


def learn_peaks(state: NodeState, event: Event[PeakPredicted]) -> NodeState:
    """The predicted peak of every pod."""
    peaks = {pod.uid: KnownPeak(pod.peak, pod.cold_start) for pod in event.data.pods}
    return with_peaks(state, peaks, Source(event.id, event.data.predicted_at))


def _pod_use(measured: WindowedPod) -> PodUse:
    pod = measured.pod
    return PodUse(pod.uid, pod.tier.value, pod.qos.value, pod.request, _p95(measured.usage))


def _p95(usage: WindowedUsage | None) -> Resources | None:
    if usage is None or usage.samples == 0:
        return None
    return Resources(usage.cpu_p95_milli, usage.memory_p95_bytes)
