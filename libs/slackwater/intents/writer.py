"""Publishes a node's document in one transaction with the state that it follows from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic

from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.intents.answers import ObservedAnswer, answer_to
from slackwater.intents.controls import Writer
from slackwater.intents.document import Content, IntentLease, document_event
from slackwater.intents.node_cache import NodeCache, U
from slackwater.intents.ports import S
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock, later_than


class IntentWriter(Generic[S, U]):
    """The documents of one writer. `content` says what a state wants of its node, and `epoch_of` is the epoch of our
    lease on a partition. `first` makes the state of a node that is not stored yet (None: such a node is left alone)."""

    def __init__(
        self,
        writer: Writer,
        nodes: NodeCache[S, U],
        content: Callable[[S, datetime], Content],
        clock: Clock,
        lease_seconds: float,
        epoch_of: Callable[[int], int] = lambda _: 0,
        first: Callable[[str], S] | None = None,
    ) -> None:
        self.writer = writer
        self.nodes = nodes
        self.clock = clock
        self.lease_seconds = lease_seconds
        self._content = content
        self._epoch_of = epoch_of
        self._first = first

    def event(
        self, state: S, now: datetime, cause: Event[Any] | str | None, content: Content | None = None
    ) -> Event[IntentDeclared]:
        """The document of a node; `content` replaces what its state wants."""
        seconds = 0.0 if self.nodes.contacts.is_released(state.node) else self.lease_seconds
        return self._event(state, self._content(state, now) if content is None else content, seconds, now, cause)

    async def change(
        self, node: str, transition: Callable[[S, datetime], S], cause: Event[Any] | str | None = None
    ) -> S | None:
        """Apply a pure transition to a node's state, and declare its document if the generation grew. An unchanged
        state is not written. Returns what is stored then; None for a node that is left alone.

        Raises:
            Unavailable, Conflict: nothing was written, or that is not known; the same change can be tried again.
            ValueError: the generation sinks.
        """
        async with self.nodes.lock(node):
            before = self._state(node)
            if before is None:
                return None
            now = self.clock.now()
            after = transition(before, now)
            if after == before:
                return before
            if after.generation < before.generation:
                raise ValueError(f"node {node}: generation {after.generation} follows {before.generation}")
            async with self.nodes.transaction() as unit:
                if after.generation != before.generation:
                    await unit.publish(self.event(after, now, cause))
                after = await unit.save(after, last=True)
            self.nodes.put(after)
            return after

    async def observe(
        self, event: Event[IntentObserved], transition: Callable[[S, ObservedAnswer, datetime], S]
    ) -> None:
        """Apply an agent's answer to one of our documents. Raises Unavailable, Conflict."""
        answer = answer_to(self.writer, event.data)
        if answer is not None:
            await self.change(event.data.node, lambda state, now: transition(state, answer, now), event)

    async def withdraw(self, node: str, empty: Callable[[str, int], S]) -> None:
        """Declare the document of an empty state, which holds for no time, one generation above the last. The stored
        state stays as it is. Raises Unavailable, Conflict."""
        async with self.nodes.lock(node):
            now = self.clock.now()
            async with self.nodes.transaction() as unit:
                state = empty(node, await unit.generation(node) + 1)
                await unit.publish(self._event(state, self._content(state, now), 0.0, now, None))

    def _state(self, node: str) -> S | None:
        known = self.nodes.node(node)
        if known is not None or self._first is None:
            return known
        is_ours = self.nodes.owns(partition_of(node)) and not self.nodes.quarantine.holds_node(node)
        return self._first(node) if is_ours else None

    def _event(
        self, state: S, content: Content, seconds: float, now: datetime, cause: Event[Any] | str | None
    ) -> Event[IntentDeclared]:
        declared_at = self.nodes.contacts.declared_at
        declared_at[state.node] = later_than(declared_at.get(state.node), now)
        lease = IntentLease(self._epoch_of(partition_of(state.node)), seconds)
        return document_event(self.writer, state.node, state.generation, content, lease, declared_at[state.node], cause)
