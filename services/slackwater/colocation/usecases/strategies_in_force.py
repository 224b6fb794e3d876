"""Which strategies are followed just now: the stored documents, and the last good one of what cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from slackwater.colocation.domain.document import DEFAULTS, SELECTION, Spec, field_problems, problems_of
from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.ports import Followed, Followers
from slackwater.colocation.usecases.colocation_strategy import (
    BY_SETTINGS,
    CLUSTER,
    KIND,
    ColocationStrategy,
    ColocationStrategyStatus,
    NodeProblem,
    conditions_of,
    first_document,
)
from slackwater.colocation.usecases.strategy_set import Kept, StrategySet
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.model.records import record
from slackwater.runtime.documents import DocumentMeter, DocumentStore, StoredDocument, keep_settings


@record(frozen=True, slots=True)
class InForce:
    """`kept` has every document as it counts, by name, and `documents` where that is from; `problems` says by name why
    the stored generation is not it; `generations` are those that are stored, `gone` of what was deleted; `base` is what
    the settings say."""

    strategies: StrategySet
    kept: Mapping[str, Kept] = field(default_factory=dict)
    documents: Mapping[str, ColocationStrategy] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    base: Spec = field(default_factory=dict)


def _same(one: InForce, other: InForce) -> bool:
    return (one.kept, one.problems, one.generations) == (other.kept, other.problems, other.generations)


def usable(document: ColocationStrategy, cluster: Spec, base: Spec) -> Kept:
    """A document as it counts. Raises InvalidInput that names the field if it could not be used on the cluster's."""
    own = document.spec.fields()
    whole = own if document.is_clusters else {**cluster, **own}
    for problem in problems_of(whole, base):
        raise InvalidInput(f"spec.{problem.message}", code=problem.code, field=f"spec.{problem.field}")
    return as_it_counts(document)


def as_it_counts(document: ColocationStrategy) -> Kept:
    generation, precedence = document.metadata.generation, document.spec.precedence or 0
    return Kept(document.metadata.name, generation, document.selector(), precedence, document.spec.fields())


def follow(rows: Iterable[StoredDocument], base: Spec, before: InForce) -> InForce:
    """What is in force with these documents; `base` is what the service's settings say, on which the cluster's stands.

    A document that cannot be read or used keeps what it was `before`; if it was nothing, as after a restart, what of it
    can be read counts.
    """
    rows = list(rows)
    stored = {row.name: row for row in rows if row.document is not None}
    gone = {row.name: row.generation for row in rows if row.document is None}
    kept: dict[str, Kept] = {}
    documents: dict[str, ColocationStrategy] = {}
    problems: dict[str, str] = {}
    for name in sorted(stored, key=lambda one: one != CLUSTER):  # the cluster's first: the others stand on it
        cluster = kept[CLUSTER].spec if CLUSTER in kept else {}
        try:
            documents[name] = document_of(stored[name])
            kept[name] = replace(usable(documents[name], cluster, base), accepted_at=stored[name].changed_at)
        except InvalidInput as error:
            problems[name] = error.message
            stand_in = before.documents.get(name) if name in before.kept else _readable_part(stored[name])
            if stand_in is not None:
                documents[name], kept[name] = stand_in, before.kept.get(name) or as_it_counts(stand_in)
    pools = [one for name, one in kept.items() if name != CLUSTER]
    strategies = StrategySet(kept.get(CLUSTER), pools, base)
    generations = {name: row.generation for name, row in stored.items()}
    return InForce(strategies, kept, documents, problems, generations, gone, base)


def document_of(row: StoredDocument) -> ColocationStrategy:
    """Raises InvalidInput for what cannot be read, NotFound for what was deleted."""
    if row.document is None:
        raise NotFound(f"colocationstrategy {row.name} was deleted", code="colocationstrategy_not_found")
    return ColocationStrategy.parse(row.document).with_generation(row.generation)


def _readable_part(row: StoredDocument) -> ColocationStrategy | None:
    """Without the fields that are not allowed (any more); None if it is not even clear for whom it is. Generation 0."""
    document: Mapping[str, Any] = row.document or {}
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return None
    bad = {problem.field for problem in field_problems(spec)} - {*SELECTION}
    try:
        found = ColocationStrategy.parse({**document, "spec": {k: v for k, v in spec.items() if k not in bad}})
    except InvalidInput:
        return None
    return found.with_generation(0)


class StrategiesInForce:
    """The strategies of this replica; slackwater.colocation.ports.Strategies."""

    def __init__(self, store: DocumentStore, base: Spec, meter: DocumentMeter) -> None:
        self._store = store
        self._base = base
        self._meter = meter
        self._found = InForce(StrategySet(None, (), base))
        self._tells: list[Callable[[], None]] = []
        self._reads: list[Callable[[Mapping[str, str]], None]] = []
        self._turn = asyncio.Lock()

    def of(self, state: NodeState) -> Followed:
        return self._found.strategies.of(state)

    @property
    def now(self) -> InForce:
        """By the settings alone before the first load."""
        return self._found

    @property
    def problems(self) -> Mapping[str, str]:
        """By name of the document, why its newest generation is not followed."""
        return self._found.problems

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have `tell` called whenever nodes may follow something else than before."""
        self._tells.append(tell)

    def on_read(self, tell: Callable[[Mapping[str, str]], None]) -> None:
        """Have `tell` called with the problems of all documents whenever they have been read."""
        self._reads.append(tell)

    async def load(self) -> None:
        """Follow what is stored. While nobody has changed the cluster's document, it is what the settings say.

        Raises Unavailable, and InvalidInput if the settings themselves cannot be used.
        """
        first = first_document(self._base)
        self.check(first)
        await keep_settings(
            self._store, CLUSTER, BY_SETTINGS, lambda generation: first.with_generation(generation).stored()
        )
        await self.catch_up()

    async def catch_up(self) -> None:
        """Read the documents again and follow them. Raises Unavailable; then all stays as it was."""
        async with self._turn:
            before = self._found
            found = follow(await self._store.documents(), self._base, before)
            self._meter.policies(len(found.kept.keys() - found.problems.keys()), len(found.problems))
            for read in self._reads:
                read(found.problems)
            if _same(found, before):
                return
            self._found = found
        for tell in self._tells:
            tell()

    def as_if(self, rows: Iterable[StoredDocument]) -> StrategySet:
        """What would be in force with these documents."""
        return follow(rows, self._base, self._found).strategies

    def check(self, wanted: ColocationStrategy, cluster: Spec | None = None) -> Kept:
        """How it would count, on the given fields of the cluster, or as the cluster's own. Raises InvalidInput."""
        return usable(wanted, cluster or {}, self._base)

    def cluster_of(self, rows: Sequence[StoredDocument]) -> Spec:
        """The fields of the cluster's document as these documents have it."""
        found = follow([row for row in rows if row.name == CLUSTER], self._base, self._found).kept.get(CLUSTER)
        return {} if found is None else found.spec

    def shown(self, row: StoredDocument) -> ColocationStrategy:
        """A stored document as it can be read; where it cannot, what counts in its place. The status says which."""
        try:
            return document_of(row)
        except InvalidInput:
            empty = {"kind": KIND, "metadata": {"name": row.name}, "spec": {}}
            found = self._found.documents.get(row.name) or ColocationStrategy.parse(empty)
            return found.with_generation(row.generation)

    def status_of(self, name: str, followers: Followers) -> ColocationStrategyStatus:
        """What became of a document on this replica."""
        kept, problem = self._found.kept.get(name), self._found.problems.get(name, "")
        observed = 0 if kept is None else kept.generation
        problems = tuple(NodeProblem(node=node, problem=why) for node, why in followers.problems)
        return ColocationStrategyStatus(
            observed_generation=observed,
            effective=None if kept is None else effective_of(kept, self._found),
            nodes=followers.nodes,
            nodes_with_problems=followers.bad,
            problems=problems,
            conditions=conditions_of(observed, problem, followers.nodes, followers.bad, problems),
        )


def effective_of(kept: Kept, found: InForce) -> dict[str, Any]:
    """All fields that a document comes to with what it stands on."""
    cluster = found.kept.get(CLUSTER)
    above: Spec = {} if cluster is None else cluster.spec
    return plain_fields({**DEFAULTS, **found.base, **above, **kept.spec})


def plain_fields(spec: Spec) -> dict[str, Any]:
    """As JSON has them, by name."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sorted(spec.items())}
