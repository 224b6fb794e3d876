"""Pods and what they use, although both are told at different times: who is listed, and who was measured.

The two most reported surprises of the field come from mixing them. A pod that finished after it was measured is no pod
of the node any more, but its usage is in the node's: the system's usage comes from the time of the measurement, so
nothing of it turns into "system". A pod that was bound after the measurement uses nothing yet, and its request does not
fall on the offer at once: it is told with the time since it was bound, and `holding` lets its claim grow. So is one
that was bound a moment before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from slackwater.colocation.domain.snapshot import PodUse
from slackwater.model.quantities import Resources
from slackwater.model.records import record


class ListedPod(NamedTuple):
    """A pod that somebody counts to the node. `finished`: it is there, but will run no more."""

    uid: str
    tier: str
    qos: str
    request: Resources
    bound_at: datetime | None = None
    finished: bool = False
    numa: tuple[int, ...] = ()


class MeasuredPod(NamedTuple):
    """A pod that was measured; `tier` and `qos` as its measurement says, empty where it does not."""

    uid: str
    usage: Resources
    tier: str = ""
    qos: str = ""


@record(frozen=True, slots=True)
class PodSet:
    """Who holds what, and of when that is: the older of both times."""

    pods: tuple[PodUse, ...]
    as_of: datetime


def pod_set(
    listed: Iterable[ListedPod],
    listed_at: datetime,
    measured: Iterable[MeasuredPod],
    measured_at: datetime,
    now: datetime,
) -> PodSet:
    """A finished pod holds nothing, whatever it used when it was measured. A pod that is measured and not listed holds
    its usage until it is measured no more: it came after the list, or it is gone since the measurement, which the next
    one tells.
    """
    usage = {pod.uid: pod for pod in measured}
    known = {pod.uid: pod for pod in listed}
    alive = [_listed(pod, usage, now) for pod in known.values() if not pod.finished]
    others = [
        PodUse(pod.uid, pod.tier, pod.qos, Resources(), pod.usage, listed=False)
        for pod in usage.values()
        if pod.uid not in known
    ]
    return PodSet((*alive, *others), min(listed_at, measured_at))


def _listed(pod: ListedPod, usage: Mapping[str, MeasuredPod], now: datetime) -> PodUse:
    measured = usage.get(pod.uid)
    since = None if pod.bound_at is None else max(0.0, (now - pod.bound_at).total_seconds())
    used = measured.usage if measured else None
    return PodUse(pod.uid, pod.tier, pod.qos, pod.request, used, None, False, pod.numa, True, since)
