"""Plays the API server and the service `kubernetes`: disruption budgets with the counts of their pods.

Counts are true when they are published, and published again when they differ, after a pause of the script. A bound
changes during the faults, and a budget is deleted and made again. Only agents evict here, and they ask no API server:
nothing but arbitration keeps these budgets. After the faults they are lifted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Protocol

from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.events.envelope import event_of
from slackwater.model.errors import SlackwaterError
from slackwater.podmigration.budgets import scaled

APP: Final = "app"
"""The label of pods that selectors name: the last part of the workload."""
SOURCE: Final = "kubernetes"
CHANGED_SHARE: Final = 0.06
LIFTED_SECONDS: Final = 18.0
"""After the faults: what a budget holds would be proposed again and again, and the cluster would not come to rest."""
_BOUNDS: Final = (("1", ""), ("2", ""), ("50%", ""), ("", "1"), ("", "1"), ("", "2"), ("", "34%"), ("100%", ""))
"""minAvailable and maxUnavailable."""


class BudgetScript:
    """One budget: what selects its pods, and its bounds now."""

    def __init__(self, namespace: str, app: str) -> None:
        """`app` empty: all pods of the namespace."""
        self.namespace = namespace
        self.app = app
        self.bounds = _BOUNDS[0]
        self.is_gone = False
        self.published: DisruptionBudgetChanged | None = None
        self.is_stored = False

    def selects(self, workload: str) -> bool:
        namespace, _, app = workload.partition("/")[0], "", workload.rpartition("/")[2]
        return namespace == self.namespace and self.app in ("", app)


class CountedWorkload(Protocol):
    """How many pods a controller keeps."""

    @property
    def replicas(self) -> int: ...


class CountedFleet(Protocol):
    """The workloads, and which pods of them run."""

    @property
    def workloads(self) -> Mapping[str, CountedWorkload]: ...

    def running(self, workload: str) -> list[str]: ...


class ScriptedBudgets:
    """The budgets of the fleet."""

    def __init__(self, world: World, fleet: CountedFleet) -> None:
        self._world = world
        self._fleet = fleet
        self._rng = world.random("disruption budgets")
        self._lifted_at = world.plan.fault_seconds + LIFTED_SECONDS
        drawn = [("shop", "web"), ("shop", "api"), ("jobs", "store"), ("shop", "")]
        self.budgets = [BudgetScript(*each) for each in drawn if self._rng.random() < 0.6]
        for budget in self.budgets:
            budget.bounds = self._rng.choice(_BOUNDS)

    def follow(self, now: datetime, *, is_quiet: bool) -> None:
        """Change a bound now and then, and count the pods of each budget."""
        for budget in self.budgets:
            drawn = self._rng.random()
            if not is_quiet and drawn < CHANGED_SHARE:
                budget.bounds = self._rng.choice(_BOUNDS)
            elif not is_quiet and drawn < CHANGED_SHARE * 1.3:
                budget.is_gone = not budget.is_gone
            elif self._world.loop.time() >= self._lifted_at:
                budget.is_gone = True
            counted = self._counted(budget, now)
            last = budget.published
            if last is None or last.model_copy(update={"changed_at": now}) != counted:
                budget.published, budget.is_stored = counted, False

    def _counted(self, budget: BudgetScript, now: datetime) -> DisruptionBudgetChanged:
        names = [name for name in self._fleet.workloads if budget.selects(name)]
        healthy = sum(len(self._fleet.running(name)) for name in names)
        expected = max(healthy, sum(self._fleet.workloads[name].replicas for name in names))
        least, most = budget.bounds
        needed = _needed(least, most, expected)
        return DisruptionBudgetChanged(
            namespace=budget.namespace,
            name=budget.app or "all",
            selector={"matchLabels": {APP: budget.app}} if budget.app else {},
            min_available=least,
            max_unavailable=most,
            expected=expected,
            healthy=healthy,
            allowed=max(0, healthy - needed),
            gone=budget.is_gone,
            changed_at=now,
        )

    async def publish(self, bus: Bus, now: datetime, *, every: bool) -> None:
        """Publish what has changed, or all, until one is not acknowledged."""
        for budget in self.budgets:
            if budget.published is None or (budget.is_stored and not every):
                continue
            try:
                await bus.publish(event_of(budget.published, source=SOURCE, time=now))
            except SlackwaterError:
                return
            budget.is_stored = True


def _needed(least: str, most: str, expected: int) -> int:
    if least:
        return scaled(_bound(least), expected, round_up=True)
    return expected - scaled(_bound(most), expected, round_up=True)


def _bound(text: str) -> int | str:
    return int(text) if text.isdigit() else text
