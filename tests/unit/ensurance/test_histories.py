"""Any history of reports, confirmations, restarts, outages and policy changes leaves one truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ensurance_scene import Scene, reported
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.ensurance.adapters.guard_rows import KeyedGuardStore, KeyedGuardUnit
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS

Step = tuple[str, Any]


class ForgetfulStore(KeyedGuardStore):
    """Commits, and then may fail to say so: the worst moment to lose a connection."""

    loses_the_answer = False

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[KeyedGuardUnit]:
        async with super().unit_of_work() as unit:
            yield unit
        if self.loses_the_answer:
            self.loses_the_answer = False
            raise Unavailable("the connection was lost after the commit")


reports = st.tuples(
    st.just("report"),
    st.tuples(st.sampled_from([None, 0.0, 0.05, 0.3, 0.9]), st.integers(0, 2000), st.integers(0, 1000)),
)
steps: st.SearchStrategy[list[Step]] = st.lists(
    reports
    | st.tuples(st.sampled_from(["confirm", "restart", "away", "lost", "again", "renew"]), st.none())
    | st.tuples(st.just("mode"), st.sampled_from(["observe", "throttle"])),
    max_size=30,
)


class Life:
    """A scene to which things happen. A consumer tries a message twice; whatever else fails is simply over."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.scene.store = self.store = ForgetfulStore(self.scene.database)
        self.scene.start()
        self.last: Event[UsageReported] | None = None

    async def live(self, history: list[Step]) -> Scene:
        await self.scene.open()
        for name, value in history:
            await getattr(self, name)(value)
        return self.scene

    async def report(self, measured: tuple[float | None, int, int]) -> None:
        pressure, prod, batch = measured
        scene = self.scene
        await scene.clock.advance(1)
        scene.sequence += 1
        pods = {"b1": batch, "b2": 300}
        self.last = reported(scene.sequence, at=scene.clock.now(), pressure=pressure, prod=prod, batch=pods)
        await self.again(None)

    async def again(self, _: None) -> None:
        """The last report once more, as a broker does that has lost an acknowledgement."""
        for _attempt in range(2 if self.last is not None else 0):
            try:
                await self.scene.guard(self.last)
            except Unavailable:
                self.scene.database.away = False
                continue
            break

    async def confirm(self, _: None) -> None:
        await self.scene.confirm()

    async def restart(self, _: None) -> None:
        self.scene.start()
        await self.scene.open()

    async def away(self, _: None) -> None:
        self.scene.database.away = True
        await self.report((0.9, 1000, 800))
        self.scene.database.away = False

    async def lost(self, _: None) -> None:
        self.store.loses_the_answer = True
        await self.report((0.9, 1000, 800))
        self.store.loses_the_answer = False

    async def renew(self, _: None) -> None:
        await self.scene.reconcile.acquire(ALL_PARTITIONS)

    async def mode(self, wanted: str) -> None:
        await self.scene.change(mode=wanted)


def in_a_loop(work: Coroutine[Any, Any, Scene]) -> Scene:
    """asyncio.run would take away the loop that pytest-asyncio has set."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@given(steps)
@settings(max_examples=150, deadline=None)
def test_the_last_intent_says_what_is_stored_and_generations_only_rise(history: list[Step]) -> None:
    scene = in_a_loop(Life().live(history))
    row, intents = scene.rows["n1"], scene.intents()
    assert {t.uid: t.limit_milli for t in row.state.throttles} == scene.limits()
    assert intents[-1].generation == row.generation
    generations = [intent.generation for intent in intents]
    assert generations == sorted(generations)
    same = {intent.generation: intent.throttles for intent in intents}
    assert all(same[intent.generation] == intent.throttles for intent in intents)
    assert set(range(1, row.generation + 1)) == set(generations)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_every_limit_has_a_decision_and_every_decision_is_published_once(history: list[Step]) -> None:
    scene = in_a_loop(Life().live(history))
    records = {record.id: record for record in scene.records()}
    assert len(records) == len(scene.records())
    triggers = [record.trigger_event_id for record in records.values() if record.trigger_event_id is not None]
    assert len(triggers) == len(set(triggers))
    for intent in scene.intents():
        for throttle in intent.throttles:
            actions = {a.pod_uid: a.cpu_limit_after_milli for a in records[throttle.decision_id].actions}
            assert actions[throttle.pod_uid] == throttle.cpu_limit_milli
            assert throttle.pod_uid in ("b1", "b2")
    effects = [event.data.decision_id for event in scene.published(EffectMeasured)]
    assert len(effects) == len(set(effects))
    assert set(effects) <= set(records)


@given(steps)
@settings(max_examples=60, deadline=None)
def test_when_prod_rests_everything_goes_back_whatever_happened_before(history: list[Step]) -> None:
    async def and_rest() -> Scene:
        scene = await Life().live([*history, ("mode", "throttle")])
        left = 300
        while left:
            await scene.report(0.0, prod=0, batch={"b1": 100, "b2": 100})
            await scene.confirm()
            left = min(left - 1, 300 if scene.limits() else 20)  # then it stays so
        return scene

    scene = in_a_loop(and_rest())
    assert scene.limits() == {}
    assert scene.rows["n1"].state.throttles == ()
