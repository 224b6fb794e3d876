"""The state of policies of every kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slackwater.console.domain.fleet import DEFAULT_WATERLINE
from slackwater.console.domain.resources import ResourceView
from slackwater.console.domain.strategies import StrategyView
from slackwater.decisions.reasons import Mode
from slackwater.waterline.policies.quantity import in_unit_of, text_of
from slackwater.waterline.registry.metric import Dimension

STRATEGY: Final = "ColocationStrategy"
NODE_QOS: Final = "NodeQOS"
PROD_PRESSURE: Final = "prod_cpu_pressure"


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


def fleet_waterline(views: Iterable[ResourceView]) -> float | None:
    """The lowest waterline on prod CPU pressure in the NodeQOS documents of all nodes; None: no rule has one.

    Before any document is known it is that of ensurance's first.
    """
    specs = [_mapping((view.document or {}).get("spec")) for view in views]
    if not specs:
        return DEFAULT_WATERLINE
    return _lowest(spec for spec in specs if not spec.get("selector"))


def own_waterlines(views: Iterable[ResourceView]) -> list[tuple[str, float]]:
    """The lowest waterline on prod CPU pressure of each NodeQOS document that selects nodes, with its name."""
    specs = {view.name: _mapping((view.document or {}).get("spec")) for view in views}
    found = {name: _lowest([spec]) for name, spec in sorted(specs.items()) if spec.get("selector")}
    return [(name, ratio) for name, ratio in found.items() if ratio is not None]


def _lowest(specs: Iterable[Mapping[str, Any]]) -> float | None:
    rules = [rule for spec in specs for rule in _items(spec.get("rules"))]
    ratios = [_ratio(metric.get("value")) for rule in rules if (metric := _of_prod_pressure(rule))]
    return min((ratio for ratio in ratios if ratio is not None), default=None)


def _of_prod_pressure(rule: Any) -> Mapping[str, Any]:
    metric = _mapping(_mapping(rule).get("metricRule"))
    return metric if metric.get("name") == PROD_PRESSURE else {}


def _ratio(written: Any) -> float | None:
    try:
        return float(in_unit_of(Dimension.RATIO, text_of(written)))
    except ValueError:
        return None


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def degraded_of(rows: Iterable[PolicyRow]) -> list[PolicyRow]:
    """The degraded policies, in their order."""
    return [row for row in rows if row.policy.state == "degraded"]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
