"""Splits the peak of a group among its pods.

A group needs less than the sum of its members' peaks, so a pod's share is its own peak scaled to the peak of the group.
A pod that the model does not know counts with its limit (or with its class prior, if configured), and so does the CPU
of a pod that owns its cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.model.records import record
from slackwater.peaks.port import Floats, Rows
from slackwater.prediction.domain.forecast import Forecast, protected
from slackwater.prediction.domain.pod_table import RESOURCES, Flags
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.state import PoolModels


@record(frozen=True, slots=True)
class PodPeaks:
    """Pods of some nodes, node by node. `peaks`, `limits`, `cold` and `held` (n, 2) are by resource."""

    rows: Rows
    node: Rows
    peaks: Floats
    limits: Floats
    cold: Flags
    """Not known yet."""
    held: Flags
    """Cold, with the limit as the only substitute."""

    def of(self, node: int) -> Rows:
        """Returns the indices of a node's pods."""
        return np.flatnonzero(self.node == node)


def pod_peaks(pool: PoolModels, policy: PoolPolicy, forecast: Forecast, nodes: Sequence[int]) -> PodPeaks:
    """Returns the shares of all pods that are on these nodes now."""
    pods = pool.pods
    rows = pods.on(nodes)
    node = pods.places["node"][pods.members["group"][rows]].astype(np.intp)
    peaks, limits = np.zeros((len(rows), 2)), np.zeros((len(rows), 2))
    cold, held = np.zeros((2, len(rows), 2), dtype=bool)
    for place, resource in enumerate(RESOURCES):
        limit = limits[:, place] = pods.limits(rows, resource)
        alone = pods.peaks(resource, forecast.at_seconds, pods.alone(rows, limit))
        cold[:, place] = alone.cold_share > 0
        held[:, place] = cold[:, place] & (alone.inputs.get("cold_stand_in", limit) >= limit)
        owns = protected(pods.members["qos"][rows], resource, policy.protect_lsr)
        whole = forecast.seen[resource].peaks.peak[pods.members["group"][rows]]
        group = pods.members["group"][rows].astype(np.intp)
        peaks[:, place] = np.where(owns, limit, _parts(group, whole, alone.peak, limit, held[:, place], ~owns))
    return PodPeaks(rows, node, peaks, limits, cold, held)


def _parts(group: Rows, whole: Floats, alone: Floats, limit: Floats, held: Flags, counts: Flags) -> Floats:
    """Splits the `whole` of each pod's group among the pods that count."""
    stand_in = np.bincount(group, np.where(held & counts, limit, 0.0))[group] if len(group) else whole
    warm = np.bincount(group, np.where(~held & counts, alone, 0.0))[group] if len(group) else whole
    left = np.maximum(whole - stand_in, 0.0)
    scale = np.divide(left, warm, out=np.zeros_like(left), where=warm > 0)
    return np.rint(np.where(held, limit, np.minimum(alone * scale, limit)))
