"""On node.described: keep the node's facts, and declare its intent, so that weights and waterlines apply at once."""

from __future__ import annotations

from dataclasses import replace

from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import NodeFacts, PodDetail
from slackwater.waterline.node_guard import described_anew


class OnDescribed:
    """A known node keeps its throttles; only its facts change. Its intent is declared in any case, because an agent
    that has just started describes its node, and the stream may have lost its document."""

    def __init__(self, cache: GuardedNodeCache, intents: GuardIntents) -> None:
        self._cache = cache
        self._intents = intents

    async def __call__(self, event: Event[NodeDescribed]) -> None:
        """Raises InvalidInput for a node without CPU, Unavailable, Conflict."""
        facts = event.data.facts
        capacity_milli = facts.capacity.cpu_milli
        if capacity_milli <= 0:
            raise InvalidInput(f"capacity: node {facts.name} has {capacity_milli} milli-cores; more than 0 is needed")
        if self._cache.quarantine.holds_node(facts.name):
            self._cache.quarantine.left_out(NodeDescribed.TYPE)
            return  # its row stays as it is; the release reads the last description from the stream
        async with self._cache.lock(facts.name):
            now = self._intents.clock.now()
            self._cache.contacts.acquire([facts.name], now)
            known = self._cache.node(facts.name)
            first = GuardedNode(facts.name, capacity_milli, generation=1, policy_generation=self._cache.rules.revision)
            after = _as_described(known or first, facts)
            described_at = max(event.data.described_at, after.described_at or event.data.described_at)
            after = replace(after, described_at=described_at)
            async with self._cache.transaction() as unit:
                await unit.publish(self._intents.event(after, now, event))
                if after != known:
                    after = await unit.save(after)
            self._cache.put(after)


def _as_described(node: GuardedNode, facts: NodeFacts) -> GuardedNode:
    after = replace(
        node,
        capacity_milli=facts.capacity.cpu_milli,
        capacity_bytes=facts.capacity.memory_bytes or None,
        pool=facts.pool,
        labels=dict(facts.labels),
        shows_evictions=facts.is_evicted_by_api_server and facts.knows(PodDetail.READINESS),
    )
    return after if after == node else replace(after, state=described_anew(node.state))
