"""Which strategy a node has: cluster < first pool whose selector matches < the node's annotation < the node's labels.

A layer overrides the fields that it names. What comes out is validated as a whole. A bad annotation or label changes
nothing: what the node said there last that was good stays in force, with the reason; a node that never said anything
good gets what is left without the bad layer, and the same reason. A cluster where colocation is off has it off on every
node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any

from slackwater.colocation.domain.document import DEFAULTS, Spec, field_problems, problems_of, strategy_of
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.errors import InvalidInput
from slackwater.model.records import record
from slackwater.resources.selectors import Selector

ANNOTATION = ("slackwater.io/colocation-strategy", "node.koordinator.sh/colocation-strategy")
_PREFIXES = ("slackwater.io", "node.koordinator.sh")
RATIOS = {
    "cpu-reclaim-ratio": "cpuReclaimThresholdPercent",
    "memory-reclaim-ratio": "memoryReclaimThresholdPercent",
    "mid-static-cpu-reserved-ratio": "midStaticCPUReservedPercent",
    "mid-static-memory-reserved-ratio": "midStaticMemoryReservedPercent",
}
"""Labels of a node and the field that each sets; with `slackwater.io/` before them, or the field's own prefix."""
_OWN_LABELS = tuple(f"{prefix}/{name}" for prefix in _PREFIXES for name in RATIOS)
POOL_LABEL = "slackwater.io/node-pool"
"""What a selector sees a node's pool as."""
NOTHING: Spec = MappingProxyType({})


@record(frozen=True, slots=True)
class PoolStrategy:
    """What a pool of nodes has otherwise; None selects nobody."""

    name: str
    selector: Selector | None
    spec: Spec


@record(frozen=True, slots=True)
class NodeWords:
    """What a node says of its strategy itself."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def in_pool(self, pool: str) -> NodeWords:
        """With the node's pool as a label, unless it has one of that name."""
        return NodeWords({POOL_LABEL: pool, **self.labels}, self.annotations)

    def own(self) -> tuple[tuple[str, str], ...]:
        """Only what sets something: two nodes that say the same here have the same layers of their own."""
        labels = [(key, self.labels[key]) for key in _OWN_LABELS if key in self.labels]
        return (*labels, *((name, self.annotations[name]) for name in ANNOTATION if name in self.annotations))

    def kept(self) -> NodeWords:
        """All labels, for selectors are about them, and those annotations that are about strategies."""
        return NodeWords(self.labels, {name: self.annotations[name] for name in ANNOTATION if name in self.annotations})


@record(frozen=True, slots=True)
class Layer:
    """One source of fields, in words and in the closed set `cluster`, `pool/NAME`, `node-annotation`, `node-label`.

    `problem`: what it says cannot be used; `spec` is then what stands in for it, which may be nothing.
    """

    source: str
    spec: Spec
    told: str
    problem: str = ""


@record(frozen=True, slots=True)
class Resolved:
    """The strategy of a node. `reason` says why it is not the one that was written, empty where it is.

    `sources` in words; `told` the same as a closed set, each once, the weakest first.
    """

    strategy: Strategy
    spec: Spec
    sources: tuple[str, ...]
    reason: str = ""
    told: tuple[str, ...] = ()


def merged(layers: Sequence[Layer]) -> dict[str, Any]:
    """Later layers win, field by field; a null is no value and overrides nothing."""
    found: dict[str, Any] = {}
    for layer in layers:
        found |= {name: value for name, value in layer.spec.items() if value is not None}
    return found


def pool_of(pools: Sequence[PoolStrategy], labels: Mapping[str, str]) -> PoolStrategy | None:
    """The first one that selects a node of these labels."""
    return next((each for each in pools if each.selector is not None and each.selector.matches(labels)), None)


def layers_of(
    cluster: Spec, pools: Sequence[PoolStrategy], node: NodeWords, last_good: NodeWords | None = None
) -> list[Layer]:
    """From the most general to the most specific."""
    found = [Layer("cluster", cluster, "cluster")]
    if (pool := pool_of(pools, node.labels)) is not None:
        found.append(Layer(f"pool {pool.name}", pool.spec, f"pool/{pool.name}"))
    return [*found, *node_layers(node, last_good)]


def node_layers(node: NodeWords, last_good: NodeWords | None = None) -> list[Layer]:
    """What the node says itself; where that is bad, what it said there in `last_good`."""
    before = {layer.source: layer for layer in ([] if last_good is None else _said(last_good))}
    found = []
    for layer in _said(node):
        stand_in = before.get(layer.source)
        if layer.problem and stand_in is not None and not stand_in.problem:
            layer = replace(layer, spec=stand_in.spec)  # noqa: PLW2901 - the same layer, as it counts
        found.append(layer)
    return found


def last_good_words(now: NodeWords, before: NodeWords, before_good: NodeWords | None) -> NodeWords | None:
    """What stands in for the words of now; None while all of them are good."""
    if not any(layer.problem for layer in _said(now)):
        return None
    return _good_part(before, before_good)


def _good_part(words: NodeWords, last_good: NodeWords | None) -> NodeWords:
    """What of a node's own words can be used, with what stands in for the rest."""
    found: dict[str, dict[str, str]] = {"label": {}, "annotation": {}}
    older = last_good or NodeWords()
    for layer in _said(words):
        kind, _, key = layer.source.partition(" ")
        source = older if layer.problem else words
        text = (source.labels if kind == "label" else source.annotations).get(key)
        if text is not None:
            found[kind][key] = text
    return NodeWords(found["label"], found["annotation"])


def resolve(
    cluster: Spec,
    pools: Sequence[PoolStrategy],
    node: NodeWords,
    last_good: NodeWords | None = None,
    base: Spec = NOTHING,
) -> Resolved:
    """The strategy of a node and where it comes from. `base` is what the cluster leaves out (see `strategy_of`)."""
    layers = layers_of(cluster, pools, node, last_good)
    problems = [f"{layer.source}: {layer.problem}" for layer in layers if layer.problem]
    usable = [layer for layer in layers if layer.spec or not layer.problem]
    problems += [f"{_source_of(each.field, usable)}: {each.message}" for each in problems_of(merged(usable), base)]
    good = _without_worst(usable, base)
    spec = merged(good)
    if not {**DEFAULTS, **base, **cluster}["enable"]:
        spec["enable"] = False
    told = tuple(dict.fromkeys(layer.told for layer in good))
    return Resolved(strategy_of(spec, base), spec, tuple(each.source for each in good), "; ".join(problems), told)


def _without_worst(layers: Sequence[Layer], base: Spec) -> Sequence[Layer]:
    """From the most general to the most specific, those with which the whole is still valid."""
    good: list[Layer] = []
    for layer in layers:
        if not problems_of(merged([*good, layer]), base):
            good.append(layer)
    return good


def _source_of(name: str | None, layers: Sequence[Layer]) -> str:
    return next((layer.source for layer in reversed(layers) if name in layer.spec), "cluster")


def _said(node: NodeWords) -> Iterator[Layer]:
    for name in reversed(ANNOTATION):
        if name in node.annotations:
            yield _annotated(f"annotation {name}", node.annotations[name])
    for prefix in reversed(_PREFIXES):
        for name, target in RATIOS.items():
            if (key := f"{prefix}/{name}") in node.labels:
                yield _labelled(f"label {key}", target, node.labels[key])


def _annotated(source: str, text: str) -> Layer:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Layer(source, {}, "node-annotation", f"no JSON: {error}")
    if not isinstance(spec, dict):
        return Layer(source, {}, "node-annotation", f"an object is expected, not {text!r}")
    return _checked(source, {name: value for name, value in spec.items() if value is not None}, "node-annotation")


def _labelled(source: str, target: str, text: str) -> Layer:
    """Each label by itself: a bad one does not spoil the others."""
    try:
        return _checked(source, {target: percent_of_ratio(text)}, "node-label")
    except InvalidInput as error:
        return Layer(source, {}, "node-label", error.message)


def _checked(source: str, spec: Spec, told: str) -> Layer:
    if problems := field_problems(spec):
        return Layer(source, {}, told, "; ".join(each.message for each in problems))
    return Layer(source, spec, told)


def percent_of_ratio(text: str) -> int:
    """Percent of a ratio like 0.29, rounded to the nearest whole one. Raises InvalidInput."""
    try:
        ratio = Decimal(text)
    except InvalidOperation:
        ratio = Decimal("NaN")
    if not ratio.is_finite() or not 0 <= ratio <= _MOST_RATIO:
        raise InvalidInput(f"{text!r} is no ratio; a number from 0, like 0.65")
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))


_MOST_RATIO = 10**6
"""Beyond it nobody means what he wrote, and numbers get so long that reading them takes a while."""
