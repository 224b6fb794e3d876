"""The strategies in force: what each ColocationStrategy resolves to, and which one a node follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.colocation.ports import FollowedStrategy, Followers, FollowerStore
from slackwater.colocation.usecases.colocation_strategy import (
    ColocationStrategy,
    ColocationStrategyStatus,
    NodeProblem,
    conditions_of,
    first_document,
)
from slackwater.colocation.usecases.preview_strategies import OffersWanted, PreviewStrategies, StrategyPreview
from slackwater.colocation.usecases.strategy_set import Kept, StrategySet
from slackwater.model.errors import InvalidInput
from slackwater.model.time import Clock
from slackwater.offers.document import DEFAULTS, SELECTION, Spec, field_problems, problems_of
from slackwater.offers.node import NodeState
from slackwater.resources.hooks import Hooks, InForce
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
from slackwater.resources.names import CLUSTER
from slackwater.resources.store import ResourceMeter, ResourceStore, StoredResource

MOST_PROBLEMS = 10
"""Number of nodes with unusable annotations that a status names; it counts all of them."""
StrategiesFound = InForce[ColocationStrategy, Kept]


class StrategyHooks(Hooks[ColocationStrategy, Kept]):
    """Resolves a document on top of the cluster's, and the cluster's on top of `base`, the service's settings."""

    def __init__(self, base: Spec, nodes: FollowerStore, clock: Clock) -> None:
        self.base = base
        self._nodes = nodes
        self._clock = clock

    def first(self) -> ColocationStrategy:
        return first_document(self.base)

    def resolve(self, document: ColocationStrategy, parent: Kept | None) -> Kept:
        return usable(document, {} if parent is None else parent.spec, self.base)

    def accepted(self, value: Kept, row: StoredResource) -> Kept:
        return replace(value, accepted_at=row.changed_at)

    def partial(self, row: StoredResource) -> tuple[ColocationStrategy, Kept] | None:
        document = _readable_part(row)
        return None if document is None else (document, as_it_counts(document))

    def stand_in(self, row: StoredResource, found: StrategiesFound) -> ColocationStrategy:
        """Returns the replacement of an unreadable document. The status says which generation that is."""
        empty = {"metadata": {"name": row.name}, "spec": {}}
        document = found.documents.get(row.name) or ColocationStrategy.parse(empty)
        return document.with_generation(row.generation)

    async def with_status(
        self, documents: Sequence[ColocationStrategy], found: StrategiesFound
    ) -> Sequence[ColocationStrategy]:
        counts = await self._nodes.followers(MOST_PROBLEMS)
        return [
            document.with_status(_status_of(document.name, found, self.base, _followers_of(document, counts)))
            for document in documents
        ]

    async def preview(
        self, now: StrategiesFound, would: StrategiesFound, arguments: OffersWanted
    ) -> StrategyPreview | None:
        if not arguments.offers:
            return None
        trying = PreviewStrategies(self._nodes, strategies_of(now, self.base), self._clock)
        return await trying.offers(strategies_of(would, self.base), arguments.limit)


def _followers_of(document: ColocationStrategy, counts: Mapping[str, Followers]) -> Followers:
    return counts.get("cluster" if document.is_clusters else f"pool/{document.name}", Followers())


def _status_of(name: str, found: StrategiesFound, base: Spec, followers: Followers) -> ColocationStrategyStatus:
    """Returns the status of a document on this replica."""
    in_force, problem = found.values.get(name), found.problems.get(name, "")
    observed = 0 if in_force is None else in_force.generation
    problems = tuple(NodeProblem(node=node, problem=why) for node, why in followers.problems)
    return ColocationStrategyStatus(
        observed_generation=observed,
        effective=None if in_force is None else effective_of(in_force, found, base),
        nodes=followers.nodes,
        nodes_with_problems=followers.bad,
        problems=problems,
        conditions=conditions_of(observed, problem, followers.nodes, followers.bad, problems),
    )


def strategies_of(found: StrategiesFound, base: Spec) -> StrategySet:
    """Returns the strategy set of these documents."""
    pools = [in_force for name, in_force in found.values.items() if name != CLUSTER]
    return StrategySet(found.values.get(CLUSTER), pools, base)


def usable(document: ColocationStrategy, cluster: Spec, base: Spec) -> Kept:
    """Resolves a document. Raises InvalidInput that names the field if it cannot be used on top of the cluster's."""
    own = document.spec.fields()
    whole = own if document.is_clusters else {**cluster, **own}
    for problem in problems_of(whole, base):
        raise InvalidInput(f"spec.{problem.message}", code=problem.code, field=f"spec.{problem.field}")
    return as_it_counts(document)


def as_it_counts(document: ColocationStrategy) -> Kept:
    generation, precedence = document.metadata.generation, document.spec.precedence or 0
    return Kept(document.metadata.name, generation, document.selector(), precedence, document.spec.fields())


def _readable_part(row: StoredResource) -> ColocationStrategy | None:
    """Returns the document without invalid fields, at generation 0; None if its selection cannot be read."""
    document: Mapping[str, Any] = row.document or {}
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return None
    bad = {problem.field for problem in field_problems(spec)} - {*SELECTION}
    try:
        usable = ColocationStrategy.parse({**document, "spec": {k: v for k, v in spec.items() if k not in bad}})
    except InvalidInput:
        return None
    return usable.with_generation(0)


class StrategiesInForce(ResourcesInForce[ColocationStrategy, Kept]):
    """The strategies of this replica; implements slackwater.colocation.ports.Strategies."""

    def __init__(self, store: ResourceStore, hooks: StrategyHooks, meter: ResourceMeter) -> None:
        super().__init__(COLOCATION_STRATEGY, store, hooks, meter)
        self.base = hooks.base
        self._strategies = StrategySet(None, (), hooks.base)
        self.on_change(self._adopt)

    def of(self, state: NodeState) -> FollowedStrategy:
        """The settings alone before the first load."""
        return self._strategies.of(state)

    def _adopt(self) -> None:
        self._strategies = strategies_of(self.now, self.base)


def effective_of(kept: Kept, found: StrategiesFound, base: Spec) -> dict[str, Any]:
    """Returns all fields of a document resolved with the ones it is based on."""
    cluster = found.values.get(CLUSTER)
    above: Spec = {} if cluster is None else cluster.spec
    return plain_fields({**DEFAULTS, **base, **above, **kept.spec})


def plain_fields(spec: Spec) -> dict[str, Any]:
    """Returns the fields in JSON types, by name."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(spec.items())}
