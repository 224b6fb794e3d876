"""Two writers of different controls never undo each other on a node, whatever each declares and in any order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from agent_fakes import NODE, pod
from agent_world import World
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import CpuThrottle, Eviction, WeightPolicy
from slackwater.intents.controls import ENSURANCE, ControlField, Writer
from slackwater.intents.document import Content, IntentLease, document_event
from slackwater.model.tiers import Tier

DRAIN = Writer("drain", frozenset({ControlField.EVICTIONS}))

limits = st.dictionaries(st.sampled_from("ab"), st.integers(100, 900))
guards = st.tuples(st.just(ENSURANCE), st.tuples(limits, st.sampled_from(WeightPolicy)), st.sampled_from([0.0, 3600.0]))
drains = st.tuples(st.just(DRAIN), st.lists(st.integers(1, 4), max_size=3), st.sampled_from([0.0, 3600.0]))
Step = tuple[Writer, Any, float]


def content(world: World, writer: Writer, wanted: Any) -> Content:
    if writer is ENSURANCE:
        by_pod, weights = wanted
        throttles = (CpuThrottle(pod_uid=uid, cpu_limit_milli=milli, decision_id="d") for uid, milli in by_pod.items())
        return Content(throttles=tuple(throttles), weights=weights)
    deadline = world.clock.now() + timedelta(seconds=60)
    return Content(
        evictions=tuple(
            Eviction(id=f"e-{id_}", pod_uid="gone", grace_seconds=1, deadline=deadline, reason="drain", decision_id="d")
            for id_ in wanted
        )
    )


async def outcome(steps: Sequence[Step], of: Sequence[Writer]) -> tuple[dict[Any, str], list[str]]:
    """What the kernel files hold after these writers' steps, and the evictions that were answered."""
    world = World()
    world.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    async with world.running():
        for generation, (writer, wanted, lease) in enumerate(steps, 1):
            if writer in of:
                now, terms = world.clock.now(), IntentLease(1, lease)
                event = document_event(writer, NODE, generation, content(world, writer, wanted), terms, now, None)
                await world.bus.publish(event)
            await world.clock.advance(1)
        await world.clock.advance(5)
        return dict(world.driver.knobs), sorted(done.id for done in world.all(EvictionCompleted))


@given(st.lists(guards | drains, max_size=6))
@settings(max_examples=40, deadline=None)
async def test_what_one_writer_wants_is_the_same_with_and_without_the_other(steps: list[Step]) -> None:
    guard: Step = (ENSURANCE, ({"a": 500}, WeightPolicy.BY_REQUEST), 3600.0)
    steps = [guard, *steps]
    files, answered = await outcome(steps, [ENSURANCE, DRAIN])
    assert files == (await outcome(steps, [ENSURANCE]))[0]
    assert answered == (await outcome(steps, [DRAIN]))[1]
