"""The disruption budgets of the cluster, and which of them select a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.model.records import record
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.resources.selectors import Selector


@record(frozen=True, slots=True)
class SeenBudget:
    """A budget of one namespace. `selector` None: it could not be read, so that it selects every pod there."""

    namespace: str
    selector: Selector | None
    budget: DisruptionBudget

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds for a pod of its namespace."""
        return self.selector is None or self.selector.matches(labels)


BudgetsByNamespace = Mapping[str, Iterable[SeenBudget]]


def budgets_of(budgets: BudgetsByNamespace, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the budgets that hold for a pod."""
    return tuple(seen.budget.name for seen in budgets.get(namespace, ()) if seen.selects(labels))
