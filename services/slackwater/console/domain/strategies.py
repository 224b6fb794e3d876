"""ColocationStrategies in effect: documents beside each other, and one node's fields by their layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from slackwater.model.json_text import parse_json_text
from slackwater.resources.names import CLUSTER

Value = Any
"""Numbers, words, lists of words; `extensions` holds any JSON."""
ANNOTATIONS = ("node.koordinator.sh/colocation-strategy", "slackwater.io/colocation-strategy")
PREFIXES = ("node.koordinator.sh", "slackwater.io")
"""The later prefix wins if a node has both."""
RATIOS = {
    "cpu-reclaim-ratio": "cpuReclaimThresholdPercent",
    "memory-reclaim-ratio": "memoryReclaimThresholdPercent",
    "mid-static-cpu-reserved-ratio": "midStaticCPUReservedPercent",
    "mid-static-memory-reserved-ratio": "midStaticMemoryReservedPercent",
}
"""Labels and the fields that they set, as in docs/how-to/set-a-colocation-strategy.md."""


@dataclass(frozen=True, slots=True)
class StrategyView:
    """One document in its last reported state: see events.strategy_followed."""

    document: str
    generation: int
    observed_generation: int
    nodes: str
    precedence: int
    fields: Mapping[str, Value]
    effective: Mapping[str, Value]
    problem: str
    changed_by: str
    accepted_at: datetime | None
    gone: bool
    told_at: datetime

    @property
    def title(self) -> str:
        """The name that offers use, without the generation."""
        return "cluster" if self.document == CLUSTER else f"pool/{self.document}"

    @property
    def source(self) -> str:
        return f"{self.title}@{self.observed_generation}"

    @property
    def state(self) -> str:
        """The state in a few words."""
        if not self.problem:
            return "in force"
        return f"degraded: generation {self.observed_generation}" if self.observed_generation else "degraded: in part"


@dataclass(frozen=True, slots=True)
class StrategyLine:
    """A document in the list. `following` nodes have an offer of the generation in effect, `behind` nodes one of an
    older generation.
    """

    strategy: StrategyView
    following: int
    behind: int


@dataclass(frozen=True, slots=True)
class FieldLine:
    """One field: its value in each document (None: not set), in their order. `first` is the value if no document sets
    it.
    """

    name: str
    said: tuple[Value | None, ...]
    first: Value | None

    @property
    def is_said(self) -> bool:
        return any(value is not None for value in self.said)


@dataclass(frozen=True, slots=True)
class LayerValue:
    """A value, and the layer that gave it: `cluster@3`, `pool/web@2`, `node-annotation`, `node-label`, `default`."""

    layer: str
    value: Value


@dataclass(frozen=True, slots=True)
class NodeField:
    """One field of one node: the value in effect, and the values that it overrides, the strongest first."""

    name: str
    in_force: LayerValue
    overridden: tuple[LayerValue, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeStrategy:
    """The strategy of one node: its layers, the weakest first, and all fields. `older` names layers of which the node
    still follows an older generation; `problem` is why the node's own annotation or label is ignored.
    """

    layers: tuple[str, ...]
    fields: tuple[NodeField, ...]
    older: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Layer:
    name: str
    fields: Mapping[str, Value] = field(default_factory=dict)


def in_order(strategies: Sequence[StrategyView]) -> list[StrategyView]:
    """The cluster's document first, then by precedence; without deleted documents."""
    there = [strategy for strategy in strategies if not strategy.gone]
    return sorted(there, key=lambda strategy: (strategy.document != CLUSTER, -strategy.precedence, strategy.document))


def lines_of(strategies: Sequence[StrategyView], followers: Mapping[str, int]) -> list[StrategyLine]:
    """The lines of the list. `followers`: number of nodes by the source that their offer names, with its generation."""
    return [
        StrategyLine(
            strategy,
            followers.get(strategy.source, 0),
            sum(count for source, count in followers.items() if source.partition("@")[0] == strategy.title)
            - followers.get(strategy.source, 0),
        )
        for strategy in strategies
    ]


def field_lines(strategies: Sequence[StrategyView]) -> list[FieldLine]:
    """All fields by name; those that a document sets come first."""
    names = {name for strategy in strategies for name in (*strategy.effective, *strategy.fields)}
    cluster = next((strategy.effective for strategy in strategies if strategy.document == CLUSTER), {})
    found = [
        FieldLine(name, tuple(strategy.fields.get(name) for strategy in strategies), cluster.get(name))
        for name in sorted(names)
    ]
    return sorted(found, key=lambda line: not line.is_said)


def node_strategy(
    strategies: Sequence[StrategyView],
    sources: Sequence[str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    problem: str = "",
) -> NodeStrategy:
    """The strategy of a node. `sources` are those of the node's offer in force, the weakest first."""
    known = {strategy.title: strategy for strategy in strategies}
    cluster = next((strategy for strategy in strategies if strategy.document == CLUSTER), None)
    layers = [_Layer("default", {} if cluster is None else _below(cluster))]
    older = []
    for source in sources:
        title = source.partition("@")[0]
        if (found := known.get(title)) is not None:
            layers.append(_Layer(source, found.fields))
            if source != found.source:
                older.append(source)
        elif title == "node-annotation":
            layers.append(_Layer(title, _annotated(annotations)))
        elif title == "node-label":
            layers.append(_Layer(title, _labelled(labels)))
    names = sorted({name for layer in layers for name in layer.fields})
    fields = sorted((_field(name, layers) for name in names), key=lambda strategy: strategy.in_force.layer == "default")
    return NodeStrategy(tuple(sources), tuple(fields), tuple(older), problem)


def _field(name: str, layers: Sequence[_Layer]) -> NodeField:
    said = [LayerValue(layer.name, layer.fields[name]) for layer in reversed(layers) if name in layer.fields]
    return NodeField(name, said[0], tuple(said[1:]))


def _below(cluster: StrategyView) -> dict[str, Value]:
    """The values of settings and defaults, for the fields that the cluster's document does not set."""
    return {name: value for name, value in cluster.effective.items() if name not in cluster.fields}


def _annotated(annotations: Mapping[str, str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name in ANNOTATIONS:
        try:
            said = parse_json_text(annotations.get(name, "{}"))
        except ValueError:
            continue
        if isinstance(said, dict):
            found |= {key: value for key, value in said.items() if value is not None}
    return found


def _labelled(labels: Mapping[str, str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for prefix in PREFIXES:
        for name, target in RATIOS.items():
            try:
                ratio = Decimal(labels.get(f"{prefix}/{name}", "NaN"))
            except InvalidOperation:
                continue
            if ratio.is_finite() and 0 <= ratio <= 10**6:
                found[target] = int((ratio * 100).to_integral_value(ROUND_HALF_UP))
    return found
