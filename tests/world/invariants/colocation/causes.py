"""An event is handled once, however often it is delivered."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.resources_offered import ResourcesOffered


class EventsAreHandledOnce(Invariant):
    """An event leads to one offer of a node at most."""

    NAME = "events are handled once"
    KINDS: ClassVar = (Kind.STORED,)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._generations: dict[tuple[str, str], int] = {}

    def on_step(self, step: Step) -> None:
        offer = payload_of(step, ResourcesOffered)
        if offer is None or not step.cause:
            return
        before = self._generations.setdefault((step.cause, offer.node), offer.generation)
        if before != offer.generation:
            raise Violation(f"{step.cause} led to the offers {before} and {offer.generation} of {offer.node}")


INVARIANTS = (EventsAreHandledOnce,)
