"""Recomputes this replica's nodes after a change of strategies, in slices, and publishes findings about bad
documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from slackwater.colocation.ports import ColocationTransaction, FollowerStore
from slackwater.colocation.usecases.colocation_strategy import nodes_of
from slackwater.colocation.usecases.recompute_offer import STATES, Offering, recompute_node
from slackwater.colocation.usecases.strategies_in_force import (
    StrategiesFound,
    StrategiesInForce,
    effective_of,
    plain_fields,
)
from slackwater.colocation.usecases.strategy_problems import SOURCE, checked_event
from slackwater.decisions.reasons import Reason
from slackwater.events.envelope import event_of
from slackwater.events.strategy_checked import StrategyChecked
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.offers.document import Spec
from slackwater.offers.node import NodeState
from slackwater.resources.names import CLUSTER
from slackwater.store.quarantine import Unreadable

CHANGED = Reason.OFFER_STRATEGY_CHANGED
SLICE = 20
"""Nodes per transaction: few enough not to delay events of these nodes, enough for throughput."""
PAGE = 500
"""Nodes that are read together, without a lock."""


async def follow_strategies(
    offering: Offering, nodes: FollowerStore, partitions: Collection[int] = ALL_PARTITIONS
) -> int:
    """Recomputes each node of these partitions whose strategy differs from that of its last decision.

    Drops are published at once. Returns how many offers changed. Raises Unavailable, Fenced; the caller then starts
    again.
    """
    changed, page = 0, await nodes.following("", PAGE)
    while page:
        behind = [
            state.node for state in page if partition_of(state.node) in partitions and _wants_a_turn(offering, state)
        ]
        for some in _sliced(behind):
            changed += await _catch_up_or_split(offering, some)
        await asyncio.sleep(0)
        page = await nodes.following(page[-1].node, PAGE)
    return changed


async def _catch_up_or_split(offering: Offering, some: Sequence[str]) -> int:
    """Recomputes nodes together. If one cannot be stored, recomputes one by one and sets aside those that fail."""
    try:
        return await _catch_up(offering, some)
    except InvalidInput:
        changed = 0
        for node in some:
            with offering.quarantine.isolating(STATES, node, node=node):
                changed += await _catch_up(offering, [node])
        return changed


async def _catch_up(offering: Offering, some: Sequence[str]) -> int:
    async with offering.store.begin() as transaction:
        await transaction.expect_nodes(some)
        decisions = [
            await recompute_node(offering, transaction, node, _unchanged, None, CHANGED)
            for node in some
            if await _is_still_behind(offering, transaction, node)
        ]
    for node in some:
        offering.decided(node)
    for events in decisions:
        offering.published(events, None)
    return sum(map(bool, decisions))


def _is_behind(offering: Offering, state: NodeState) -> bool:
    followed = offering.strategies.of(state)
    return (state.strategies, state.strategy_problem) != (followed.sources, followed.reason)


def _wants_a_turn(offering: Offering, state: NodeState) -> bool:
    """Returns whether a node is behind; sets the node aside if the check fails."""
    is_behind = offering.quarantine.attempt(STATES, state.node, lambda: _is_behind(offering, state), node=state.node)
    return bool(is_behind)


async def _is_still_behind(offering: Offering, transaction: ColocationTransaction, node: str) -> bool:
    """Checks again under lock, because an event may have recomputed the node. An unreadable state follows nothing."""
    try:
        return _is_behind(offering, await transaction.load(node))
    except Unreadable:
        return False


def _unchanged(state: NodeState) -> NodeState:
    """Returns the state unchanged, because no event concerns the node."""
    return state


def _sliced(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(nodes), SLICE):
        yield nodes[first : first + SLICE]


async def publish_document_problems(
    offering: Offering,
    nodes: FollowerStore,
    strategies: StrategiesInForce,
    partitions: Collection[int] = ALL_PARTITIONS,
) -> None:
    """Publishes findings and resolved documents whose names belong to these partitions.

    A finding is published for each document that has become unusable, usable again or deleted since the last one, and
    an event for each document with what it resolves to. Raises Unavailable, Fenced.
    """
    documents, base = strategies.now, strategies.base
    problems = {name: why for name, why in documents.problems.items() if partition_of(name) in partitions}
    now = offering.clock.now()
    async with nodes.telling() as transaction:
        published = {
            name: why
            for name, why in (await transaction.published_problems()).items()
            if partition_of(name) in partitions
        }
        for name in sorted(
            n for n in problems.keys() | published.keys() if problems.get(n, "") != published.get(n, "")
        ):
            checked = _checked(name, problems.get(name, ""), documents, now)
            await transaction.publish_problem(
                name, checked.problem, checked_event(checked, now, None, cause=now.isoformat())
            )
        for name in sorted(documents.generations.keys() | documents.gone.keys()):
            if partition_of(name) in partitions:
                await transaction.publish(event_of(_followed(name, documents, base, now), source=SOURCE, time=now))


def _checked(name: str, problem: str, documents: StrategiesFound, now: datetime) -> StrategyChecked:
    in_force = documents.values.get(name)
    title = "cluster" if name == CLUSTER else f"pool/{name}"
    return StrategyChecked(
        document=name,
        generation=documents.generations.get(name, 0),
        usable=not problem,
        problem=problem,
        followed=() if in_force is None else (f"{title}@{in_force.generation}",),
        checked_at=now,
    )


def _followed(name: str, documents: StrategiesFound, base: Spec, now: datetime) -> StrategyFollowed:
    """Builds the view of a document; if nothing of it applies, only its existence and the reason."""
    if name in documents.gone:
        return StrategyFollowed(document=name, generation=documents.gone[name], gone=True, told_at=now)
    in_force, document = documents.values.get(name), documents.documents.get(name)
    return StrategyFollowed(
        document=name,
        generation=documents.generations[name],
        observed_generation=0 if in_force is None else in_force.generation,
        nodes="" if document is None else nodes_of(document),
        precedence=0 if in_force is None else in_force.precedence,
        fields={} if in_force is None else plain_fields(in_force.spec),
        effective={} if in_force is None else effective_of(in_force, documents, base),
        problem=documents.problems.get(name, ""),
        changed_by="" if document is None else document.metadata.changed_by,
        accepted_at=None if in_force is None else in_force.accepted_at,
        told_at=now,
    )
