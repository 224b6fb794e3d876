"""A node in quarantine is left alone: its throttles go back, and its agent decides by itself until it is released."""

from __future__ import annotations

from dataclasses import replace

from slackwater.bus.port import Bus
from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.ports import NODES
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declare_anew import DeclareAnew
from slackwater.ensurance.usecases.declaring import declared
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.events.node_described import NodeDescribed
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.store.quarantine import Item


class LetGo:
    """What follows from an item of the quarantine. Nothing is written to the node's row."""

    def __init__(self, book: Book, clock: Clock, anew: DeclareAnew, bus: Bus, described: NoteDescribed) -> None:
        self._book = book
        self._clock = clock
        self._anew = anew
        self._bus = bus
        self._described = described

    async def hold(self, item: Item) -> None:
        """Declare an intent that wants nothing and holds for no time. Raises Unavailable, Conflict, Fenced."""
        if item.table != NODES or not item.node:
            return
        async with self._book.turn(item.node):
            now = self._clock.now()
            async with self._book.writing() as unit:
                generation = await unit.generation(item.node) + 1
                nothing = Guarded(item.node, capacity_milli=1, generation=generation)
                terms = replace(self._book.terms(nothing, now), left=True)
                await unit.publish(declared(nothing, terms, 0.0, now, None))

    async def release(self, item: Item) -> None:
        """Read the node as it is stored and as it described itself last, and declare its intent anew. Raises
        Unavailable, Conflict, Fenced."""
        if item.table == NODES and item.node:
            partition = partition_of(item.node)
            if self._book.owns(partition):
                await self._book.take([partition], self._clock.now())
                event = await self._bus.latest(NodeDescribed, item.node)
                if event is not None:
                    await self._described(event)
                await self._anew.declare([item.node])
