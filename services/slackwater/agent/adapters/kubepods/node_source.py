"""The agent's own node as the API server has it: its labels, taints and resources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from slackwater.apiserver.kind_follower import FollowPace, KindFollower
from slackwater.apiserver.port import ObjectReader, WatchChange, WatchEvent
from slackwater.apiserver.records import CORDON_TAINT, NODES, ApiRecord, ClusterNode, WatchedKind
from slackwater.model.bounds import MOST_NAME
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import NodeFacts, PodDetail
from slackwater.model.placement_rules import MOST_RULES, NodeTaint
from slackwater.model.time import Clock

T = TypeVar("T", bound=ApiRecord)
_PACE: Final = FollowPace(longest_pause_seconds=120.0)
"""Where the right is missing, thousands of agents would else ask every few seconds."""


@dataclass(slots=True)
class NodeSource:
    """See slackwater.apiserver.kind_follower.RecordSink. Without the right to read nodes, which the manifests of older
    versions did not give, the node stays unknown and all else works."""

    node: str
    record: ClusterNode | None = None
    _answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_answered(self) -> None:
        """Until the node was read once, or the API server has refused it."""
        await self._answered.wait()

    async def follow(self, server: ObjectReader, clock: Clock) -> None:
        """List and watch until cancelled."""
        await KindFollower(server, NODES, self, clock, self, _PACE)()

    def replace(self, kind: WatchedKind[T], items: Sequence[T]) -> object:
        self.record = next((item for item in items if isinstance(item, ClusterNode) and item.key == self.node), None)
        self._answered.set()
        return None

    def apply(self, kind: WatchedKind[T], event: WatchEvent[T]) -> object:
        item = event.item
        if isinstance(item, ClusterNode) and item.key == self.node:
            self.record = None if event.change is WatchChange.DELETED else item
        return None

    def listed(self, kind: str, reason: str) -> None:
        """See FollowMeter."""

    def interrupted(self, kind: str, reason: str) -> None:
        """See FollowMeter. The follower has logged why."""
        if reason != Unavailable.code:
            self._answered.set()


def with_node(facts: NodeFacts, node: ClusterNode) -> NodeFacts:
    """Returns the facts with the node's labels, taints and what it has beyond CPU and memory. Slackwater's own
    cordon travels as an event of its own."""
    taints = tuple(
        NodeTaint(taint.key, taint.value, taint.effect)
        for taint in node.taints
        if taint.key != CORDON_TAINT and max(len(taint.key), len(taint.value)) <= MOST_NAME
    )
    return replace(
        facts,
        labels={**facts.labels, **dict(node.labels)},
        taints=taints[:MOST_RULES],
        resources=dict([(name, amount) for name, amount in node.others if len(name) <= MOST_NAME][:MOST_RULES]),
        reports=(*facts.reports, PodDetail.NODE_TAINTS, PodDetail.NODE_RESOURCES),
    )
