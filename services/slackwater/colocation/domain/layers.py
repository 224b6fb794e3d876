"""Which strategy a node has: cluster < first pool whose selector matches < the node's annotation < the node's labels.

A layer overrides the fields that it names. What comes out is validated as a whole; where it is bad, nothing changes:
the last good strategy of the node stays, with the reason. A node that never had one gets what is left without the
layers that spoil it, and the same reason. A cluster where colocation is off has it off on every node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from slackwater.colocation.domain.document import DEFAULTS, Spec, problems_of, strategy_of
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.errors import InvalidInput

ANNOTATION = ("slackwater.io/colocation-strategy", "node.koordinator.sh/colocation-strategy")
_PREFIXES = ("slackwater.io", "node.koordinator.sh")
RATIOS = {
    "cpu-reclaim-ratio": "cpuReclaimThresholdPercent",
    "memory-reclaim-ratio": "memoryReclaimThresholdPercent",
    "mid-static-cpu-reserved-ratio": "midStaticCPUReservedPercent",
    "mid-static-memory-reserved-ratio": "midStaticMemoryReservedPercent",
}
"""Labels of a node and the field that each sets; with `slackwater.io/` before them, or the field's own prefix."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels and expressions, all of which must hold; an empty one matches every node."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(key, In | NotIn | Exists | DoesNotExist, values)"""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            _holds(labels, *expression) for expression in self.expressions
        )


@dataclass(frozen=True, slots=True)
class PoolStrategy:
    """What a pool of nodes has otherwise; None selects nobody."""

    name: str
    selector: Selector | None
    spec: Spec


@dataclass(frozen=True, slots=True)
class NodeWords:
    """What a node says of its strategy itself."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of fields. `problem`: it cannot be read, and says nothing."""

    source: str
    spec: Spec
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The strategy of a node. `reason` says why it is not the one that was written, empty where it is."""

    strategy: Strategy
    spec: Spec
    sources: tuple[str, ...]
    reason: str = ""


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Later layers win, field by field; a null is no value and overrides nothing."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= {name: value for name, value in layer.spec.items() if value is not None}
    return found


def layers_of(cluster: Spec, pools: Sequence[PoolStrategy], node: NodeWords) -> list[Layer]:
    """From the most general to the most specific."""
    found = [Layer("cluster", cluster)]
    pool = next((each for each in pools if each.selector is not None and each.selector.matches(node.labels)), None)
    if pool is not None:
        found.append(Layer(f"pool {pool.name}", pool.spec))
    annotated = (name for name in reversed(ANNOTATION) if name in node.annotations)
    return [*found, *(_annotated(name, node.annotations[name]) for name in annotated), *_labelled(node.labels)]


def resolve(
    cluster: Spec, pools: Sequence[PoolStrategy], node: NodeWords, last_good: Resolved | None = None
) -> Resolved:
    """The strategy of a node and where it comes from."""
    layers = layers_of(cluster, pools, node)
    problems = [f"{layer.source}: {layer.problem}" for layer in layers if layer.problem]
    readable = [layer for layer in layers if not layer.problem]
    problems += [f"{_source_of(each.field, readable)}: {each.message}" for each in problems_of(merged(readable))]
    if problems and last_good is not None:
        return Resolved(last_good.strategy, last_good.spec, last_good.sources, "; ".join(problems))
    good = _without_worst(readable)
    spec = merged(good)
    if not cluster.get("enable", DEFAULTS["enable"]):
        spec["enable"] = False
    return Resolved(strategy_of(spec), spec, tuple(layer.source for layer in good), "; ".join(problems))


def _without_worst(layers: Sequence[Layer]) -> Sequence[Layer]:
    """From the most general to the most specific, those with which the whole is still valid."""
    good: list[Layer] = []
    for layer in layers:
        if not problems_of(merged([*good, layer])):
            good.append(layer)
    return good


def _source_of(name: str | None, layers: Sequence[Layer]) -> str:
    return next((layer.source for layer in reversed(layers) if name in layer.spec), "cluster")


def _annotated(name: str, text: str) -> Layer:
    try:
        spec = json.loads(text)
    except ValueError as error:
        return Layer(f"annotation {name}", {}, f"no JSON: {error}")
    if not isinstance(spec, dict):
        return Layer(f"annotation {name}", {}, f"an object is expected, not {text!r}")
    return Layer(f"annotation {name}", spec)


def _labelled(labels: Mapping[str, str]) -> Iterator[Layer]:
    """Each label by itself: a bad one does not spoil the others."""
    for prefix in reversed(_PREFIXES):
        for name, target in RATIOS.items():
            if (key := f"{prefix}/{name}") in labels:
                try:
                    yield Layer(f"label {key}", {target: percent_of_ratio(labels[key])})
                except InvalidInput as error:
                    yield Layer(f"label {key}", {}, error.message)


def percent_of_ratio(text: str) -> int:
    """Percent of a ratio like 0.29, rounded to the nearest whole one. Raises InvalidInput."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not ratio.is_finite() or ratio < 0:
        raise InvalidInput(f"{text!r} is no ratio; a number from 0, like 0.65")
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))


def _holds(labels: Mapping[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator == "In":
        return labels.get(key) in values
    return operator == "NotIn" and labels.get(key) not in values
