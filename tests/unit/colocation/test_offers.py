"""Events and time in, offers and their records out: once each, and nothing while nothing changed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from datetime import timedelta

import pytest
from colocation_scene import Colocation, received
from tests.support.clock import FakeClock
from tests.support.windows import described, window

from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.recompute_offer import age_offers, recompute_nodes
from slackwater.decisions.reasons import Reason
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.resources_offered import OfferReserved
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.offers.node import NodeState
from slackwater.offers.strategy import Strategy


async def offering_something() -> Colocation:
    """8 cores, 60 % threshold, system 300 milli-cores, a prod pod predicted at 700: offers 3800."""
    colocation = Colocation()
    await colocation.describe()
    await colocation.measure(0, 500)
    await colocation.predict(0, 700)
    await colocation.measure(1, 500)
    await colocation.measure(2, 500)
    assert colocation.offers()[-1].batch.cpu_milli == 4800 - 300 - 700
    return colocation


async def test_nothing_is_offered_before_a_node_is_described_and_measured() -> None:
    colocation = Colocation()
    await colocation.measure(0, 500)
    assert colocation.offers() == []
    await colocation.describe()
    offer = colocation.offers()[0]
    assert offer.batch.cpu_milli == 4800 - 300 - 2000  # no prediction yet: the request holds
    assert offer.generation == 1
    assert {record.reason for record in colocation.records()} == {Reason.OFFER_FIRST}


async def test_a_prediction_lends_the_rest_of_the_request_once_it_has_lasted() -> None:
    colocation = await offering_something()
    assert [offer.batch.cpu_milli for offer in colocation.offers()] == [2500, 3800]
    assert colocation.offers()[-1].generation == 2


async def test_a_surge_takes_the_offer_back_at_once() -> None:
    colocation = await offering_something()
    await colocation.measure(3, 3000)
    assert colocation.offers()[-1].batch.cpu_milli == 4800 - 300 - 3000


async def test_an_event_delivered_twice_has_one_effect() -> None:
    colocation = await offering_something()
    before = len(colocation.store.outbox)
    again = window("n", 3, {"p": 3000})
    for _ in range(3):
        await colocation.events.on_usage([received(again)])
    assert len(colocation.store.outbox) == before + 3  # two records and one offer


async def test_an_older_window_is_not_news() -> None:
    colocation = await offering_something()
    before = len(colocation.store.outbox)
    await colocation.events.on_usage([received(window("n", 1, {"p": 4000}))])
    assert len(colocation.store.outbox) == before


async def test_steady_windows_publish_nothing() -> None:
    colocation = await offering_something()
    before = len(colocation.store.outbox)
    for number in range(3, 9):
        await colocation.measure(number, 500)
        await colocation.predict(number, 700)
    assert len(colocation.store.outbox) == before


async def test_records_add_up_repeat_themselves_and_are_the_ones_the_offer_names() -> None:
    colocation = await offering_something()
    await colocation.measure(3, 760)  # within the threshold: the value holds, by hysteresis
    await colocation.measure(4, 3000)
    records = {record.id: record for record in colocation.records()}
    for offer in colocation.offers():
        cpu, memory = (records[offer.decision_ids[subject]] for subject in ("batch-cpu", "batch-memory"))
        assert (cpu.result, memory.result) == (offer.batch.cpu_milli, offer.batch.memory_bytes)
    for record in records.values():
        module, name = record.replay.function.split(":")
        assert getattr(importlib.import_module(module), name)(**record.replay.arguments) == record.result
        assert record.alternatives[0].what.startswith("policy request: ")
        named = [term.name for term in record.terms]
        assert named[:5][0] == "capacity"
        assert {"safety_margin", "prod", "mid"} <= set(named)


async def test_usage_from_ahead_of_a_clock_that_was_put_back_is_as_old_as_it_is_ahead() -> None:
    colocation = await offering_something()
    colocation.offering = replace(colocation.offering, clock=FakeClock(colocation.clock.now() - timedelta(seconds=540)))
    await recompute_nodes(colocation.offering, ["n"])
    offer = colocation.offers()[-1]
    assert (offer.batch.cpu_milli, offer.degraded) == (1900, "usage is old")
    assert await age_offers(colocation.offering) == 0  # looked at, and no news
    assert colocation.store.states["n"].due_at == int(colocation.offering.clock.now().timestamp())
    colocation.offering = replace(colocation.offering, clock=FakeClock(colocation.clock.now() - timedelta(seconds=1)))
    await age_offers(colocation.offering)
    assert colocation.offers()[-1].batch.cpu_milli == 1900  # back by itself only with windows in which it lasts


async def test_old_usage_lets_the_offer_decay_to_nothing_by_the_timer_alone() -> None:
    colocation = await offering_something()
    values = []
    for _ in range(16):
        await colocation.clock.advance(60)
        await age_offers(colocation.offering)
        values.append(colocation.offers()[-1].batch.cpu_milli)
    assert values[2] == 3800  # three minutes: still whole
    assert values == sorted(values, reverse=True)
    assert values[8] == pytest.approx(3800 / 2, abs=1)  # nine minutes: half way between 3 and 15
    assert values[15] == 0
    assert colocation.offers()[-1].degraded == "usage is old"
    assert colocation.records()[-1].reason is Reason.OFFER_DEGRADED
    assert await age_offers(colocation.offering) == 0


async def test_a_prediction_that_stopped_coming_is_no_prediction() -> None:
    colocation = await offering_something()
    for number in range(3, 25):
        await colocation.measure(number, 500)
    assert colocation.offers()[-1].batch.cpu_milli == 4800 - 300 - 2000


async def test_a_lost_node_offers_nothing_and_recovers_with_new_usage() -> None:
    colocation = await offering_something()
    await colocation.live(Liveness.STALE)
    assert colocation.offers()[-1].batch.cpu_milli == 3800
    await colocation.live(Liveness.LOST)
    assert colocation.offers()[-1].batch == Resources()
    assert colocation.offers()[-1].degraded == "node is lost"
    await colocation.clock.advance(1)
    await colocation.live(Liveness.FRESH)
    assert colocation.offers()[-1].degraded is None
    assert colocation.records()[-1].reason is Reason.OFFER_RECOVERED
    for number in (3, 4):
        await colocation.measure(number, 500)
        await colocation.predict(number, 700)
    assert colocation.offers()[-1].batch.cpu_milli == 3800


async def test_a_system_that_cannot_be_measured_any_more_keeps_its_last_value() -> None:
    colocation = await offering_something()
    await colocation.measure(3, 3000, system=None)
    record = [record for record in colocation.records() if record.subject == "batch-cpu"][-1]
    system = next(term for term in record.terms if term.name == "system")
    assert (system.value, system.note) == (-300, "last known p95")


async def test_a_system_never_measured_is_declared_degraded() -> None:
    colocation = Colocation()
    await colocation.describe()
    await colocation.measure(0, 500, system=None)
    assert colocation.offers()[-1].degraded == "system usage was never measured"


def test_settings_refuse_ages_in_the_wrong_order() -> None:
    assert ColocationSettings().strategy() == Strategy()
    with pytest.raises(ValueError, match="must be below decay_to_seconds"):
        ColocationSettings(decay_from_seconds=900, decay_to_seconds=60)


async def test_every_measured_term_names_the_input_it_stands_on() -> None:
    colocation = await offering_something()
    await colocation.measure(3, 500, system=None)
    await colocation.live(Liveness.LOST)
    computed = {"floor", "hysteresis"}  # corrections of the sum itself, which no input explains

    unexplained = {
        (record.subject, term.name)
        for record in colocation.records()
        for term in record.terms
        if term.name not in computed and (term.input or term.name) not in {each.name for each in record.inputs}
    }

    assert colocation.records()
    assert unexplained == set()


async def test_a_batch_has_the_effect_of_its_events_one_by_one() -> None:
    together, alone = await offering_something(), await offering_something()
    batch = [received(window("n", number, {"p": cpu})) for number, cpu in ((4, 3900), (5, 100), (5, 100), (6, 4000))]
    await together.events.on_usage(batch)
    for one in batch:
        await alone.events.on_usage([one])
    assert together.offers() == alone.offers()
    states = [one.store.states["n"] for one in (together, alone)]
    assert len({(state.cpu, state.memory, state.generation, state.window_end) for state in states}) == 1


async def test_each_node_ages_by_the_strategy_that_it_follows() -> None:
    class ByPool:
        def of(self, state: NodeState) -> FollowedStrategy:
            hasty = Strategy(decay_from_seconds=60, decay_to_seconds=120)
            return FollowedStrategy(hasty if state.pool == "hasty" else Strategy(), (f"pool/{state.pool}@1",))

    colocation = await offering_something()
    colocation.offering = replace(colocation.offering, strategies=ByPool())
    colocation.events = ColocationEvents(colocation.offering)
    facts = described("m", number=1).data.facts
    data = NodeDescribed(facts=replace(facts, pool="hasty"), boot_epoch="b", described_at=colocation.clock.now())
    await colocation.events.on_described([received(event_of(data, source="agent", time=colocation.clock.now()))])
    await colocation.events.on_usage([received(window("m", 2, {"p": 500}))])
    assert colocation.offers()[-1].strategies == ("pool/hasty@1",)
    await colocation.clock.advance(120)
    assert await age_offers(colocation.offering) == 1
    assert (colocation.offers()[-1].node, colocation.offers()[-1].batch) == ("m", Resources())


async def test_a_prediction_becomes_too_old_by_the_timer_alone() -> None:
    colocation = Colocation(Strategy(prediction_max_age_seconds=100, decay_from_seconds=600))
    await colocation.describe()
    await colocation.measure(0, 500)
    await colocation.predict(0, 700)
    assert await age_offers(colocation.offering) == 0
    await colocation.clock.advance(101)
    await age_offers(colocation.offering)
    for number in (1, 2):
        await colocation.measure(number, 500)
        await colocation.predict(number, 700)
    assert colocation.offers()[-1].batch.cpu_milli == 4800 - 300 - 700
    await colocation.clock.advance(101)
    assert await age_offers(colocation.offering) == 1
    assert colocation.offers()[-1].batch.cpu_milli == 4800 - 300 - 2000  # the request holds again
    assert colocation.store.states["n"].due_at == colocation.store.states["n"].window_end + 600


async def test_what_reservations_keep_comes_off_at_once_and_comes_back_at_once() -> None:
    colocation = await offering_something()
    before = colocation.offers()[-1]
    assert before.reserved is None
    await colocation.reserve(1, (Tier.BATCH, 1500))
    after = colocation.offers()[-1]
    assert (after.batch.cpu_milli, after.reserved) == (2300, OfferReserved(Resources(1500, 0), Resources()))
    assert after.batch.memory_bytes == before.batch.memory_bytes
    record = next(record for record in reversed(colocation.records()) if record.subject == "batch-cpu")
    assert [(term.name, term.value) for term in record.terms][-1] == ("reservations", -1500)
    assert ("reservations", 1500) in [(each.name, each.value) for each in record.inputs]
    await colocation.reserve(2)
    assert (colocation.offers()[-1].batch, colocation.offers()[-1].reserved) == (before.batch, None)
    await colocation.reserve(3, (Tier.PROD, 1000))
    assert colocation.offers()[-1].batch.cpu_milli == 2800, "a pod of prod is to come, and needs its request"
    for record in colocation.records():
        module, name = record.replay.function.split(":")
        assert getattr(importlib.import_module(module), name)(**record.replay.arguments) == record.result


async def test_a_reservation_whose_publisher_is_silent_ends_by_the_clock_of_colocation() -> None:
    colocation = await offering_something()
    await colocation.reserve(1, (Tier.BATCH, 1500), seconds=60)
    await colocation.clock.advance(59)
    assert await age_offers(colocation.offering) == 0
    await colocation.clock.advance(2)
    assert await age_offers(colocation.offering) == 1
    assert colocation.offers()[-1].batch.cpu_milli == 3800
