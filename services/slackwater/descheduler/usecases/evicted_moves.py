"""An eviction ended: the workload was disturbed, so it rests, whatever evicted it."""

from __future__ import annotations

from slackwater.descheduler.domain.cycle_state import WorkloadMove
from slackwater.descheduler.ports import CycleStore
from slackwater.descheduler.usecases.cluster_state import ClusterState
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.model.eviction_outcomes import EvictionOutcome

ENDED_POD = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED})


class RecordEvictedMove:
    """Every replica folds the whole cluster, so that the one that owns the node can name the workload of its pod."""

    def __init__(self, store: CycleStore, cluster: ClusterState) -> None:
        self._store = store
        self._cluster = cluster

    async def __call__(self, completed: EvictionCompleted) -> None:
        """Record the move of the pod's workload; the same event again changes nothing. Raises Unavailable."""
        workload = self._cluster.workload(completed.node, completed.pod_uid)
        if completed.outcome not in ENDED_POD or not workload:
            return
        move = WorkloadMove(completed.pod_uid, workload, completed.completed_at.timestamp())
        async with self._store.observe() as unit:
            await unit.add_moves([move])
