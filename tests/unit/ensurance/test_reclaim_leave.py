"""Leave for reclaims counts against the Autonomy of a pool, with the evictions of waterlines, in every hour."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ensurance_scene import Scene
from hypothesis import given
from hypothesis import strategies as st

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.events.envelope import Event, event_of
from slackwater.events.eviction_requested import EvictionRequested, RequestedEviction
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import ReclaimRequested, WantedReclaim
from slackwater.waterline.policies.autonomy import HOUR, AutonomyPolicy

PER_HOUR = 3


async def evicting() -> Scene:
    scene = await Scene().open()
    await scene.change(mode="evict")
    rules = scene.cache.rules
    scene.cache._rules = replace(rules, cluster=replace(rules.cluster, mode=Mode.EVICT, evictions_per_hour=PER_HOUR))
    return scene


def request_of(scene: Scene, name: str, *orders: int, valid_seconds: float = 30.0) -> Event[ReclaimRequested]:
    """One claim per order, with so many pods in the pool."""
    now = scene.clock.now()
    wanted = tuple(
        WantedReclaim(claim=f"c{place}", order=f"o{place}", evictions={"default": number})
        for place, number in enumerate(orders)
    )
    body = ReclaimRequested(id=name, tree="t", wanted=wanted, valid_seconds=valid_seconds, requested_at=now)
    return event_of(body, source="quota", time=now)


async def ask(scene: Scene, *orders: int) -> ReclaimAnswered:
    """The answer to a new request."""
    await scene.reclaims([request_of(scene, f"r{len(scene.published(ReclaimAnswered))}", *orders)])
    return scene.published(ReclaimAnswered)[-1].data


async def test_orders_are_granted_whole_as_far_as_the_hour_allows() -> None:
    scene = await evicting()
    answer = await ask(scene, 2, 2, 1)
    assert answer.granted == ("c0", "c2"), "the second order is left out whole, the third fits"
    assert answer.because == "pool default: 2 of 3 evictions an hour are used, 2 more wanted"
    assert answer.valid_until - answer.answered_at == timedelta(seconds=30)
    assert answer.again_at == answer.valid_until + HOUR
    assert (await ask(scene, 1)).granted == ()
    await scene.clock.advance(3600.0)
    assert (await ask(scene, 1)).granted == (), "a grant may have been used at its last moment"
    await scene.clock.advance(31.0)
    assert (await ask(scene, 1)).granted == ("c0",)


async def test_requests_that_wait_are_answered_at_once_and_repeats_are_counted_once() -> None:
    scene = await evicting()
    first, second = request_of(scene, "first", 2), request_of(scene, "second", 2, 1)
    await scene.reclaims([first, first, second, first])
    answers = [event.data for event in scene.published(ReclaimAnswered)]
    assert [(answer.id, answer.granted) for answer in answers] == [("first", ("c0",)), ("second", ("c1",))]
    await scene.clock.advance(29.0)
    await scene.reclaims([request_of(scene, "first", 2)])
    repeated = scene.published(ReclaimAnswered)[-1].data
    assert repeated == answers[0], "it says until when the grant may be used, as before"
    assert len(scene.cache.standing("default").state.evictions_at) == 3
    await scene.clock.advance(1.0)
    await scene.reclaims([request_of(scene, "first", 2)])
    assert scene.published(ReclaimAnswered)[-1].data.granted == (), "the grant has lapsed: it is a new request"


async def test_a_refused_request_is_decided_anew_when_it_is_repeated() -> None:
    scene = await evicting()
    await ask(scene, 3)
    await scene.reclaims([request_of(scene, "later", 1)])
    assert scene.published(ReclaimAnswered)[-1].data.granted == ()
    await scene.clock.advance(3631.0)
    await scene.reclaims([request_of(scene, "later", 1)])
    assert scene.published(ReclaimAnswered)[-1].data.granted == ("c0",)


async def test_a_granted_eviction_joins_the_intent_once_and_not_after_its_deadline() -> None:
    scene = await evicting()
    now = scene.clock.now()
    body = EvictionRequested(
        node="n1",
        claim="c0",
        quota="q",
        pods=(RequestedEviction(id="e1", pod_uid="b1", pod_name="b1"),),
        grace_seconds=7.0,
        deadline=now + timedelta(seconds=60),
        reason="claim c0 has to end",
        decision_id="d1",
        requested_at=now,
    )
    for _ in range(2):
        await scene.requested(event_of(body, source="quota", time=now))
    (item,) = scene.intents()[-1].evictions
    assert (item.id, item.pod_uid, item.grace_seconds, item.decision_id) == ("e1", "b1", 7.0, "d1")
    generation = scene.intents()[-1].generation
    late = body.model_copy(update={"deadline": now, "pods": (RequestedEviction(id="e2", pod_uid="b2", pod_name=""),)})
    await scene.requested(event_of(late, source="quota", time=now))
    assert scene.intents()[-1].generation == generation


steps = st.lists(st.tuples(st.integers(0, 2400), st.integers(1, 3), st.integers(0, 30)), max_size=12)


@given(steps=steps)
def test_no_hour_has_more_uses_of_grants_than_are_allowed(steps: list[tuple[int, int, int]]) -> None:
    """Each step: seconds that pass, evictions that are granted if they fit, and when within 30 s they begin."""
    policy = AutonomyPolicy(Mode.EVICT, evictions_per_hour=PER_HOUR)
    standing, now, used = PoolStanding("p"), datetime(2026, 1, 5).astimezone(), list[datetime]()
    for seconds, number, delay in steps:
        now += timedelta(seconds=seconds)
        standing = standing.after(policy, now, (), ())
        if len(standing.state.evictions_at) + number <= PER_HOUR:
            standing = standing.reserved(policy, now, now + timedelta(seconds=30), number)
            used += [now + timedelta(seconds=delay)] * number
    for first in used:
        assert sum(first <= each < first + HOUR for each in used) <= PER_HOUR
    assert standing.state.stepped_back_at is None, "what was granted trips no guard"
