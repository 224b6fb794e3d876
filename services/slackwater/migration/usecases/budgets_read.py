"""The disruption budgets that were published last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.migration.domain.disruption_budgets import SeenBudget
from slackwater.model.errors import InvalidInput
from slackwater.podmigration.budgets import DisruptionBudget, IntOrPercent, InvalidAmountError, scaled
from slackwater.resources.selectors import LabelSelector, Selector


class BudgetsRead:
    """Level-triggered: only the newest state of a budget counts."""

    def __init__(self) -> None:
        self._budgets: dict[str, DisruptionBudgetChanged] = {}
        self._by_namespace: Mapping[str, Sequence[SeenBudget]] = {}

    @property
    def by_namespace(self) -> Mapping[str, Sequence[SeenBudget]]:
        return self._by_namespace

    def receive(self, changed: DisruptionBudgetChanged) -> None:
        """Keep a budget, or drop one that is gone."""
        if changed.gone:
            self._budgets.pop(changed.key(), None)
        else:
            self._budgets[changed.key()] = changed
        kept = [each for _, each in sorted(self._budgets.items()) if each.namespace == changed.namespace]
        self._by_namespace = {**self._by_namespace, changed.namespace: [seen_budget(each) for each in kept]}


def seen_budget(changed: DisruptionBudgetChanged) -> SeenBudget:
    """Returns a budget as arbitration reads it. A bound that is neither a count nor a percent allows what the API
    server says."""
    least, most = _bound(changed.min_available), _bound(changed.max_unavailable)
    if least is None and most is None:
        least = 0
    budget = DisruptionBudget(
        name=changed.key(),
        expected=changed.expected,
        healthy=changed.healthy,
        min_available=least,
        max_unavailable=None if least is not None else most,
        server_allows=changed.allowed,
        unready_always=changed.unready_always,
    )
    return SeenBudget(changed.namespace, _selector(changed), budget, changed.changed_at.timestamp())


def _bound(text: str) -> IntOrPercent | None:
    value: IntOrPercent = int(text) if text.isascii() and text.isdigit() else text
    try:
        scaled(value, 1, round_up=True)
    except InvalidAmountError:
        return None
    return value


def _selector(changed: DisruptionBudgetChanged) -> Selector | None:
    try:
        return LabelSelector.parse(changed.selector).selector
    except InvalidInput:
        return None
