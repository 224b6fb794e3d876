"""Combines listed and measured pods, although lists and measurements come at different times.

Mixing the two causes the two most reported surprises of the field. A pod that finished after the measurement is no
longer listed, but its usage is part of the node's: system usage is taken from the measurement, so none of it counts as
system. A pod that was bound after the measurement has no usage yet, and its request must not lower the offer at once:
it carries the time since it was bound, and `tier_holdings` lets its claim grow. The same holds for a pod bound just
before the measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.snapshot import PodInput


class ListedPod(NamedTuple):
    """A pod that is listed for the node. `finished`: it is listed, but will not run again."""

    uid: str
    tier: str
    qos: str
    request: Resources
    bound_at: datetime | None = None
    finished: bool = False
    numa: tuple[int, ...] = ()


class PodMeasurement(NamedTuple):
    """A measured pod; `tier` and `qos` are those of the measurement, empty if it has none."""

    uid: str
    usage: Resources
    tier: str = ""
    qos: str = ""


@record(frozen=True, slots=True)
class PodSet:
    """The pods and what each holds, and the older of both times."""

    pods: tuple[PodInput, ...]
    as_of: datetime


def pod_set(
    listed: Iterable[ListedPod],
    listed_at: datetime,
    measured: Iterable[PodMeasurement],
    measured_at: datetime,
    now: datetime,
) -> PodSet:
    """Returns the combined pods. A finished pod holds nothing, whatever its usage.

    A measured pod that is not listed holds its usage until a measurement no longer contains it: it came after the list,
    or it has gone since the measurement, which the next one shows.
    """
    usage = {pod.uid: pod for pod in measured}
    pods_by_uid = {pod.uid: pod for pod in listed}
    alive = [_listed(pod, usage, now) for pod in pods_by_uid.values() if not pod.finished]
    others = [
        PodInput(pod.uid, pod.tier, pod.qos, Resources(), pod.usage, listed=False)
        for pod in usage.values()
        if pod.uid not in pods_by_uid
    ]
    return PodSet((*alive, *others), min(listed_at, measured_at))


def _listed(pod: ListedPod, usage: Mapping[str, PodMeasurement], now: datetime) -> PodInput:
    measured = usage.get(pod.uid)
    since = None if pod.bound_at is None else max(0.0, (now - pod.bound_at).total_seconds())
    used = measured.usage if measured else None
    return PodInput(pod.uid, pod.tier, pod.qos, pod.request, used, None, False, pod.numa, True, since)
