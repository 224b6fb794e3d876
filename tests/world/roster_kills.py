"""Agents that are killed between a roster and the first report that counts by it."""

from __future__ import annotations

from contextvars import Context
from functools import partial

from tests.world.plan import PlannedFault
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.envelope import subject_token
from slackwater.events.pods_rostered import PodsRostered
from slackwater.model.identifiers import shard_of


def kill_at_roster(world: World, fault: PlannedFault) -> None:
    """Kill an agent when the broker has stored its next roster, before a report counts by it."""
    armed = [partial(world.crash, fault.target, restart_after=fault.seconds)]
    node = world.stations[fault.target].node

    def kill(step: Step) -> None:
        if armed and step.subject.startswith(f"sw.v1.{PodsRostered.TYPE}.{shard_of(node)}.{subject_token(node)}."):
            world.loop.call_soon(armed.pop(), context=Context())

    world.trace.listen(Kind.STORED, kill)
