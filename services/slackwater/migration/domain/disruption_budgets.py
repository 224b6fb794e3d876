"""The disruption budgets of the cluster, and which of them select a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.migration.domain.stored_jobs import EvictionAnswer, StoredJob, TakenPod
from slackwater.model.records import record
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.jobs import MoveOutcome
from slackwater.resources.selectors import Selector

UNCOUNTED_S: Final = 60.0
"""A pod that a move has ended is counted by then. A publisher says nothing where the replacement came at once."""
AHEAD_S: Final = 600.0
"""A pod that ended so far ahead of the clock is of a clock that was wrong."""
SHOWN: Final = 3
CLOCKS_S: Final = 2.0
"""By how much the clocks of two services may differ."""
_TOOK_THE_POD: Final = frozenset(
    {MoveOutcome.MOVED, MoveOutcome.EVICTED, MoveOutcome.RETURNED, MoveOutcome.REPLACEMENT_PENDING}
)


@record(frozen=True, slots=True)
class SeenBudget:
    """A budget of one namespace. `selector` None: it could not be read, so that it selects every pod there."""

    namespace: str
    selector: Selector | None
    budget: DisruptionBudget
    counted_s: float = 0.0
    """When its pods were counted, by the clock of its publisher."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds for a pod of its namespace."""
        return self.selector is None or self.selector.matches(labels)

    def without(self, taken: Iterable[TakenPod], now_s: float) -> DisruptionBudget:
        """Returns the budget without the pods that moves have ended since they were counted: the next move would be
        admitted for them a second time. By a clock that is behind, all count as ended since."""
        is_behind = now_s < self.counted_s - CLOCKS_S
        late = sum(
            (is_behind or pod.gone_s > self.counted_s - CLOCKS_S)
            and pod.namespace == self.namespace
            and self.selects(pod.labels)
            for pod in taken
        )
        allows = self.budget.server_allows
        return replace(
            self.budget,
            healthy=max(self.budget.healthy - late, 0),
            server_allows=None if allows is None else max(allows - late, 0),
        )


BudgetsByNamespace = Mapping[str, Iterable[SeenBudget]]


def budgets_of(budgets: BudgetsByNamespace, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the budgets that hold for a pod."""
    return tuple(seen.budget.name for seen in budgets.get(namespace, ()) if seen.selects(labels))


def budgets_refusal(budgets: BudgetsByNamespace, namespace: str, labels: Mapping[str, str]) -> str:
    """Returns why the API server evicts no such pod, whatever its budgets allow; empty if it may. A budget that cannot
    be read does not count, because it may not select the pod."""
    readable = [seen for seen in budgets.get(namespace, ()) if seen.selector is not None]
    names = [seen.budget.name for seen in readable if seen.selects(labels)]
    if len(names) < 2:
        return ""
    listed = f"{', '.join(names[:-1][:SHOWN])} and {names[-1]}"
    return f"{listed} select its pod: the API server evicts no pod of two budgets"


def taken_pods(
    taken: Sequence[TakenPod],
    before: Mapping[str, StoredJob],
    after: Mapping[str, StoredJob],
    said: Mapping[str, EvictionAnswer],
    now_s: float,
) -> tuple[TakenPod, ...]:
    """Returns the pods that moves have ended not long ago, with those that ended in this round. `said`: answers of
    agents by their key. Of the clocks of the agent and of this service the later one counts, so that one
    that is behind makes no pod look counted."""
    kept = [pod for pod in taken if -AHEAD_S < now_s - pod.gone_s < UNCOUNTED_S]
    known = {pod.uid for pod in kept}
    for name, stored in after.items():
        earlier = before.get(name)
        was_healthy = not stored.pod.failed and not stored.pod.unready
        if earlier is stored or stored.job.pod in known or not was_healthy or _gone_s(stored) is None:
            continue
        if earlier is None or earlier.job.id != stored.job.id or _gone_s(earlier) is None:
            answer = said.get(stored.eviction_key)
            gone_s = max(_gone_s(stored) or now_s, 0.0 if answer is None else answer.completed_s)
            kept.append(TakenPod(stored.job.pod, stored.pod.namespace, stored.pod.labels, gone_s))
    return tuple(kept)


def _gone_s(stored: StoredJob) -> float | None:
    """When a move has ended its pod; None: it has not."""
    if stored.gone_s is not None:
        return stored.gone_s
    return stored.ended_s if stored.job.outcome in _TOOK_THE_POD else None
