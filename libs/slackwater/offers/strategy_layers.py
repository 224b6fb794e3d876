"""Resolves a node's strategy: cluster < first pool whose selector matches < the node's annotation < the node's labels.

A layer overrides the fields that it names, and the result is validated as a whole. An invalid annotation or label
changes nothing: its last valid value stays in force, with the reason. Without a last valid value the layer is left out,
with the same reason. If the cluster's document disables colocation, it is disabled on every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text
from slackwater.model.records import record
from slackwater.offers.document import DEFAULTS, Spec, field_problems, problems_of, strategy_of
from slackwater.offers.strategy import Strategy
from slackwater.resources.selectors import Selector

ANNOTATION = ("slackwater.io/colocation-strategy", "node.koordinator.sh/colocation-strategy")
_PREFIXES = ("slackwater.io", "node.koordinator.sh")
RATIOS = {
    "cpu-reclaim-ratio": "cpuReclaimThresholdPercent",
    "memory-reclaim-ratio": "memoryReclaimThresholdPercent",
    "mid-static-cpu-reserved-ratio": "midStaticCPUReservedPercent",
    "mid-static-memory-reserved-ratio": "midStaticMemoryReservedPercent",
}
"""Labels of a node and the field that each sets, prefixed with `slackwater.io/` or the field's own prefix."""
_OWN_LABELS = tuple(f"{prefix}/{name}" for prefix in _PREFIXES for name in RATIOS)
POOL_LABEL = "slackwater.io/node-pool"
"""The label by which selectors see a node's pool."""
NOTHING: Spec = MappingProxyType({})


@record(frozen=True, slots=True)
class PoolStrategy:
    """The strategy fields of a pool of nodes; a selector of None selects no node."""

    name: str
    selector: Selector | None
    spec: Spec


@record(frozen=True, slots=True)
class NodeOverrides:
    """The labels and annotations of a node about its strategy."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def in_pool(self, pool: str) -> NodeOverrides:
        """Returns them with the node's pool as a label, unless the node has that label."""
        return NodeOverrides({POOL_LABEL: pool, **self.labels}, self.annotations)

    def own(self) -> tuple[tuple[str, str], ...]:
        """Returns only what sets a field: nodes with equal values here have equal layers of their own."""
        labels = [(key, self.labels[key]) for key in _OWN_LABELS if key in self.labels]
        return (*labels, *((name, self.annotations[name]) for name in ANNOTATION if name in self.annotations))

    def kept(self) -> NodeOverrides:
        """Returns all labels, because selectors use them, and the annotations about strategies."""
        return NodeOverrides(
            self.labels, {name: self.annotations[name] for name in ANNOTATION if name in self.annotations}
        )


@record(frozen=True, slots=True)
class StrategyLayer:
    """One source of fields, as text and in the closed set `cluster`, `pool/NAME`, `node-annotation`, `node-label`.

    `problem`: why the source cannot be used; `spec` is then its replacement, which may be empty.
    """

    source: str
    spec: Spec
    level: str
    problem: str = ""


@record(frozen=True, slots=True)
class Resolved:
    """The strategy of a node. `reason` says why it differs from the written one; empty if it does not.

    `sources` are texts; `levels` the same as the closed set, without duplicates, the weakest first.
    """

    strategy: Strategy
    spec: Spec
    sources: tuple[str, ...]
    reason: str = ""
    levels: tuple[str, ...] = ()


def merged(layers: Sequence[StrategyLayer]) -> dict[str, Any]:
    """Merges layers field by field. Later layers override earlier ones; null overrides nothing."""
    fields: dict[str, Any] = {}
    for layer in layers:
        fields |= {name: value for name, value in layer.spec.items() if value is not None}
    return fields


def pool_of(pools: Sequence[PoolStrategy], labels: Mapping[str, str]) -> PoolStrategy | None:
    """Returns the first pool that selects a node with these labels."""
    return next((pool for pool in pools if pool.selector is not None and pool.selector.matches(labels)), None)


def layers_of(
    cluster: Spec, pools: Sequence[PoolStrategy], node: NodeOverrides, last_good: NodeOverrides | None = None
) -> list[StrategyLayer]:
    """Returns the layers from the most general to the most specific."""
    layers = [StrategyLayer("cluster", cluster, "cluster")]
    if (pool := pool_of(pools, node.labels)) is not None:
        layers.append(StrategyLayer(f"pool {pool.name}", pool.spec, f"pool/{pool.name}"))
    return [*layers, *node_layers(node, last_good)]


def node_layers(node: NodeOverrides, last_good: NodeOverrides | None = None) -> list[StrategyLayer]:
    """Returns the layers of the node itself; invalid ones are replaced by those of `last_good`."""
    before = {layer.source: layer for layer in ([] if last_good is None else _node_layers(last_good))}
    layers = []
    for layer in _node_layers(node):
        stand_in = before.get(layer.source)
        if layer.problem and stand_in is not None and not stand_in.problem:
            layer = replace(layer, spec=stand_in.spec)  # noqa: PLW2901 - the same layer, as it counts
        layers.append(layer)
    return layers


def last_good_overrides(
    now: NodeOverrides, before: NodeOverrides, before_good: NodeOverrides | None
) -> NodeOverrides | None:
    """Returns the replacement of the present labels and annotations; None while all are valid."""
    if not any(layer.problem for layer in _node_layers(now)):
        return None
    return _good_part(before, before_good)


def _good_part(words: NodeOverrides, last_good: NodeOverrides | None) -> NodeOverrides:
    """Returns the valid labels and annotations of a node, with replacements for the invalid ones."""
    overrides: dict[str, dict[str, str]] = {"label": {}, "annotation": {}}
    older = last_good or NodeOverrides()
    for layer in _node_layers(words):
        kind, _, key = layer.source.partition(" ")
        source = older if layer.problem else words
        text = (source.labels if kind == "label" else source.annotations).get(key)
        if text is not None:
            overrides[kind][key] = text
    return NodeOverrides(overrides["label"], overrides["annotation"])


def resolve(
    cluster: Spec,
    pools: Sequence[PoolStrategy],
    node: NodeOverrides,
    last_good: NodeOverrides | None = None,
    base: Spec = NOTHING,
) -> Resolved:
    """Resolves the strategy of a node, with its sources. `base` applies where the cluster omits a field
    (`strategy_of`).
    """
    layers = layers_of(cluster, pools, node, last_good)
    problems = [f"{layer.source}: {layer.problem}" for layer in layers if layer.problem]
    usable = [layer for layer in layers if layer.spec or not layer.problem]
    problems += [
        f"{_source_of(problem.field, usable)}: {problem.message}" for problem in problems_of(merged(usable), base)
    ]
    good = _without_worst(usable, base)
    spec = merged(good)
    if not {**DEFAULTS, **base, **cluster}["enable"]:
        spec["enable"] = False
    levels = tuple(dict.fromkeys(layer.level for layer in good))
    return Resolved(strategy_of(spec, base), spec, tuple(layer.source for layer in good), "; ".join(problems), levels)


def _without_worst(layers: Sequence[StrategyLayer], base: Spec) -> Sequence[StrategyLayer]:
    """Returns the layers, most general first, with which the whole is still valid."""
    good: list[StrategyLayer] = []
    for layer in layers:
        if not problems_of(merged([*good, layer]), base):
            good.append(layer)
    return good


def _source_of(name: str | None, layers: Sequence[StrategyLayer]) -> str:
    return next((layer.source for layer in reversed(layers) if name in layer.spec), "cluster")


def _node_layers(node: NodeOverrides) -> Iterator[StrategyLayer]:
    for name in reversed(ANNOTATION):
        if name in node.annotations:
            yield _annotated(f"annotation {name}", node.annotations[name])
    for prefix in reversed(_PREFIXES):
        for name, target in RATIOS.items():
            if (key := f"{prefix}/{name}") in node.labels:
                yield _labelled(f"label {key}", target, node.labels[key])


def _annotated(source: str, text: str) -> StrategyLayer:
    try:
        spec = parse_json_text(text)
    except ValueError as error:
        return StrategyLayer(source, {}, "node-annotation", f"no JSON: {error}")
    if not isinstance(spec, dict):
        return StrategyLayer(source, {}, "node-annotation", f"an object is expected, not {text!r}")
    return _checked(source, {name: value for name, value in spec.items() if value is not None}, "node-annotation")


def _labelled(source: str, target: str, text: str) -> StrategyLayer:
    """Checks one label, so that an invalid one does not affect the others."""
    try:
        return _checked(source, {target: percent_of_ratio(text)}, "node-label")
    except InvalidInput as error:
        return StrategyLayer(source, {}, "node-label", error.message)


def _checked(source: str, spec: Spec, text: str) -> StrategyLayer:
    if problems := field_problems(spec):
        return StrategyLayer(source, {}, text, "; ".join(problem.message for problem in problems))
    return StrategyLayer(source, spec, text)


def percent_of_ratio(text: str) -> int:
    """Returns the percentage of a ratio such as 0.29, rounded to the nearest integer. Raises InvalidInput."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not ratio.is_finite() or not 0 <= ratio <= _MOST_RATIO:
        raise InvalidInput(f"{text!r} is no ratio; a number from 0, like 0.65")
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))


_MOST_RATIO = 10**6
"""Upper bound of a ratio in a label; it also bounds the length of the number."""
