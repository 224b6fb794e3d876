"""Builds the snapshot of a node at a given time, and computes when time alone changes its offer."""

from __future__ import annotations

from datetime import datetime

from slackwater.offers.kept_room import kept_of, kept_pods, next_expiry, unexpired
from slackwater.offers.node import KnownPeak, NodeState
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.strategy import Strategy


def snapshot_of(state: NodeState, strategy: Strategy, now: datetime) -> NodeSnapshot | None:
    """Returns the inputs of an offer now; None until the node was described and measured."""
    if state.described_by is None or state.used_by is None:
        return None
    predicted = is_predicted(state, strategy, now)
    peaks = state.peaks if predicted else {}
    settle = strategy.bind_settle_seconds
    rooms = unexpired(state.kept, now.timestamp()) if state.kept else ()
    return NodeSnapshot(
        capacity=state.capacity,
        reserved=state.reserved.larger_of(state.notes.reserved),
        pods=(*[_now(pod, peaks.get(pod.uid), settle) for pod in state.pods], *kept_pods(rooms)),
        system=state.system,
        system_is_current=state.system_is_current,
        age_seconds=_age_of(state, now),
        lost=state.lost,
        host_apps=state.host_apps,
        zones=state.numa,
        allocatable=state.notes.allocatable,
        node_usage=state.node_usage,
        prod_peak=state.prod_peak if predicted else None,
        is_whole=state.informed_at == state.window_end,
        kept_batch=kept_of("batch", rooms),
        kept_mid=kept_of("mid", rooms),
    )


def due_at_of(state: NodeState, strategy: Strategy, now: datetime) -> int:
    """Returns when time alone changes the offer, in whole seconds, rounded down.

    That is when the prediction becomes too old, when the usage is so old that the offer shrinks, or when a reservation
    expires. A check that is slightly early finds no change.
    """
    shrinks = state.informed_at + strategy.decay_from_seconds
    if state.informed_at > now.timestamp() and _age_of(state, now) > strategy.decay_from_seconds:
        shrinks = now.timestamp()
    if state.kept and (expires_s := next_expiry(state.kept, now.timestamp())) is not None:
        shrinks = min(shrinks, expires_s)
    if state.predicted_by is None or not is_predicted(state, strategy, now):
        return int(shrinks)
    return int(min(shrinks, state.predicted_by.at.timestamp() + strategy.prediction_max_age_seconds))


def _age_of(state: NodeState, now: datetime) -> float:
    """Returns the age of usage in seconds. Usage ahead of the clock counts as equally old: the clock was set back, and
    no newer usage is accepted until it has caught up.
    """
    return abs(now.timestamp() - state.informed_at)


def is_predicted(state: NodeState, strategy: Strategy, now: datetime) -> bool:
    """Returns whether there is a prediction that is not too old."""
    by = state.predicted_by
    return by is not None and (now - by.at).total_seconds() <= strategy.prediction_max_age_seconds


def _now(pod: PodInput, known: KnownPeak | None, settle: float) -> PodInput:
    """Returns the pod with its prediction. The time since it was bound is kept only while it settles."""
    since = pod.bound_seconds_ago
    if known is None and since is None:
        return pod
    return PodInput(
        pod.uid,
        pod.tier,
        pod.qos,
        pod.request,
        pod.usage,
        None if known is None else known.peak,
        known is not None and known.cold,
        pod.numa,
        pod.listed,
        since if since is not None and since < settle else None,
    )
