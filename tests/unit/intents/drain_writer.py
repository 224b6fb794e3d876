"""A second writer, complete but for its bus consumers and its migration: evicts pods, and drops what is done.

All that a new writer needs is here; tests/unit/intents/test_second_writer.py shows how few lines that takes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import Eviction
from slackwater.intents.controls import ControlField, Writer
from slackwater.intents.document import Content
from slackwater.intents.keyed_store import state_table
from slackwater.intents.node_cache import NodeCache
from slackwater.intents.ports import IntentUnit
from slackwater.intents.writer import IntentWriter

DRAIN: Final = Writer("drain", frozenset({ControlField.EVICTIONS}))


@dataclass(frozen=True, slots=True)
class Drained:
    """One node; `version` counts writes of its row."""

    node: str
    version: int = 0
    generation: int = 0
    evictions: tuple[Eviction, ...] = ()

    def with_evictions(self, evictions: tuple[Eviction, ...]) -> Drained:
        if evictions == self.evictions:
            return self
        return replace(self, generation=self.generation + 1, evictions=evictions)


DRAINED: Final = state_table("drained_nodes", Drained)
DrainNodes = NodeCache[Drained, IntentUnit[Drained]]
DrainIntents = IntentWriter[Drained, IntentUnit[Drained]]


def content_of(state: Drained, _: datetime) -> Content:
    return Content(evictions=state.evictions)


class Drain:
    """Keeps the evictions of each node until they are completed."""

    def __init__(self, intents: DrainIntents) -> None:
        self._intents = intents

    async def evict(self, node: str, eviction: Eviction) -> None:
        """Raises Unavailable, Conflict."""
        await self._intents.change(node, lambda state, _: state.with_evictions((*state.evictions, eviction)))

    async def complete(self, event: Event[EvictionCompleted]) -> None:
        """Raises Unavailable, Conflict."""
        done = event.data.id
        await self._intents.change(
            event.data.node,
            lambda state, _: state.with_evictions(tuple(item for item in state.evictions if item.id != done)),
            event,
        )
