"""On node.described: what the node has, and its intent, so that weights and waterlines apply from the start."""

from __future__ import annotations

from dataclasses import replace

from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import declared
from slackwater.events.envelope import Event
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import NodeFacts
from slackwater.model.time import Clock


class NoteDescribed:
    """A node that was known keeps its throttles; only what it is may change. Its intent is declared in any case: an
    agent that has just started describes its node, and what it needs may stand in no stream any more."""

    def __init__(self, book: Book, clock: Clock, lease_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds

    async def __call__(self, event: Event[NodeDescribed]) -> None:
        """Raises InvalidInput for a node without CPU: no waterline can be held there."""
        facts = event.data.facts
        capacity_milli = facts.capacity.cpu_milli
        if capacity_milli <= 0:
            raise InvalidInput(f"capacity: node {facts.name} has {capacity_milli} milli-cores; more than 0 is needed")
        if self._book.quarantine.holds_node(facts.name):
            self._book.quarantine.left_out(NodeDescribed.TYPE)
            return  # its row is there and stays as it is; the release reads the last description from the stream
        async with self._book.turn(facts.name):
            now = self._clock.now()
            self._book.heard_at[facts.name] = now
            known = self._book.node(facts.name)
            first = Guarded(facts.name, capacity_milli, generation=1, policy_generation=self._book.rules.revision)
            after = _as_described(known or first, facts)
            async with self._book.writing() as unit:
                await unit.publish(declared(after, self._book.terms(after, now), self._lease_seconds, now, event))
                if after != known:
                    after = await unit.save(after)
            self._book.put(after)


def _as_described(node: Guarded, facts: NodeFacts) -> Guarded:
    return replace(
        node,
        capacity_milli=facts.capacity.cpu_milli,
        capacity_bytes=facts.capacity.memory_bytes or None,
        pool=facts.pool,
        labels=dict(facts.labels),
    )
