"""The state of policies of every kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slackwater.console.domain.resources import ResourceView
from slackwater.console.domain.strategies import StrategyView
from slackwater.decisions.reasons import Mode

STRATEGY: Final = "ColocationStrategy"


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The state of one policy.

    stage    `published`, or `dry run`: decisions are recorded and not carried out (mode observe)
    state    `in force`, `degraded` (its newest generation cannot be used), `disabled`; `stored` where the service that
             owns the kind does not report whether it uses the document
    problem  why it is degraded
    """

    stage: str
    state: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy in the list. `plural` is the kind in addresses, `nodes` the number of nodes whose offer names it."""

    view: ResourceView
    plural: str
    service: str
    target: str
    policy: PolicyState
    nodes: int | None = None


def policy_state(view: ResourceView, strategy: StrategyView | None) -> PolicyState:
    """The state of a document; `strategy` is what colocation reported of it, if it is a ColocationStrategy."""
    spec = _mapping((view.document or {}).get("spec"))
    stage = "dry run" if spec.get("mode") == Mode.OBSERVE else "published"
    if strategy is not None and strategy.problem:
        return PolicyState(stage, "degraded", strategy.problem)
    if strategy is not None and strategy.generation < view.generation:
        return PolicyState(stage, "degraded", f"colocation has read generation {strategy.generation} so far")
    if spec.get("enable") is False:
        return PolicyState(stage, "disabled")
    return PolicyState(stage, "in force" if strategy is not None else "stored")


def degraded_of(rows: Iterable[PolicyRow]) -> list[PolicyRow]:
    """The degraded policies, in their order."""
    return [row for row in rows if row.policy.state == "degraded"]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
