"""Publishes the disruption budgets of the cluster, so that no move is admitted that the API server would refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.records import BUDGETS, BudgetRecord
from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.events.envelope import Event, event_of
from slackwater.model.bounds import MOST_COUNT
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import partition_of
from slackwater.model.shown_values import shown
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
SERVICE: Final = "kubernetes"
Publish = Callable[[Event[Any]], Awaitable[int]]


class PublishBudgets:
    """Compares what was published last with what the API server has: a change that was missed is published later, and
    the deletion of a budget too. The owner of a budget's partition publishes it. A budget that no reader or broker
    would take, as with a selector of 70,000 values, is left out until it changes, and named in the log: the API server
    itself refuses the evictions that it forbids.
    """

    def __init__(
        self, inventory: Inventory, owned: Callable[[], Collection[int]], publish: Publish, clock: Clock
    ) -> None:
        self._inventory = inventory
        self._owned = owned
        self._publish = publish
        self._clock = clock
        self._published: dict[str, DisruptionBudgetChanged] = {}
        self._is_known = False
        self._left_out: dict[str, str] = {}
        """Resource versions of the budgets that are left out, by key."""

    async def receive(self, event: Event[DisruptionBudgetChanged]) -> None:
        """Note what was published, here or by another replica."""
        self._published[event.data.key()] = event.data

    def caught_up(self) -> None:
        """Note that all that was published has been received."""
        self._is_known = True

    async def __call__(self) -> None:
        """Publish what differs. Raises Unavailable."""
        if not self._is_known or not self._inventory.is_synced(BUDGETS):
            return
        now, owned = self._clock.now(), self._owned()
        budgets = {key: budget for key, budget in self._inventory.items(BUDGETS).items() if budget.selector}
        for key in sorted(budgets.keys() | self._published.keys()):
            if partition_of(key) not in owned:
                continue
            budget = budgets.get(key)
            if budget is not None and self._left_out.get(key) == budget.version:
                continue
            try:
                await self._publish_change(key, budget, now)
            except (ValidationError, InvalidInput) as error:
                if budget is None:
                    raise
                self._left_out[key] = budget.version
                log.warning("disruption budget left out", budget=shown(key), error=shown(str(error)))
        self._left_out = {key: version for key, version in self._left_out.items() if key in budgets}

    async def _publish_change(self, key: str, budget: BudgetRecord | None, now: datetime) -> None:
        """Raises ValidationError, InvalidInput for a budget that cannot be published."""
        last = self._published.get(key)
        change = _gone(last, now) if budget is None else budget_change(budget, now)
        if change is None or (last is not None and _is_same(last, change)):
            return
        await self._publish(event_of(change, source=SERVICE, time=now))
        self._published[key] = change


def budget_change(budget: BudgetRecord, now: datetime) -> DisruptionBudgetChanged:
    """Returns a budget as it is published."""
    namespace, _, name = budget.key.partition("/")
    selector: Mapping[str, Any] = msgspec.json.decode(budget.selector)
    return DisruptionBudgetChanged(
        namespace=namespace,
        name=name,
        selector=dict(selector),
        min_available=budget.min_available,
        max_unavailable=budget.max_unavailable,
        expected=_count(budget.expected_pods),
        healthy=_count(budget.current_healthy),
        allowed=_count(budget.disruptions_allowed),
        unready_always=budget.unready_always,
        changed_at=now,
    )


def _gone(last: DisruptionBudgetChanged | None, now: datetime) -> DisruptionBudgetChanged | None:
    if last is None or last.gone:
        return None
    return last.model_copy(update={"gone": True, "changed_at": now})


def _is_same(last: DisruptionBudgetChanged, change: DisruptionBudgetChanged) -> bool:
    return last.model_copy(update={"changed_at": change.changed_at}) == change


def _count(value: int) -> int:
    return min(max(value, 0), MOST_COUNT)
