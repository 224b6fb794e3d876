"""The whole agent on a machine in memory, in virtual time: cadence, waterlines, leases, evictions, a lost bus."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import FACTS, FakeDriver, pod
from agent_world import FATES, World, eviction, throttle

from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.agent.domain.samples import RawSample
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed, report_of
from slackwater.model.tiers import Tier


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    found.driver.rates = {"a": 1000, "b": 500, "p": 250}
    found.driver.system_milli = 100
    return found


async def test_it_samples_every_second_without_drift_and_reports_every_five(world: World) -> None:
    async with world.running():
        await world.clock.advance(10.5)
        assert world.driver.samples == [float(second) for second in range(11)]
        reports = world.all(UsageReported)
    assert [(report.sequence, report.window_seconds, report.trigger) for report in reports] == [
        (1, 5.0, "interval"),
        (2, 5.0, "interval"),
    ]
    first = reports[0]
    assert first.node_usage.cpu_milli.p95 == 1850
    assert first.system_usage is not None
    assert first.system_usage.cpu_milli.avg == 100
    assert [item.usage.cpu_milli.count for item in first.pods] == [5, 5, 5]
    [described] = world.all(NodeDescribed)
    assert described.facts == FACTS
    assert len({event.traceparent for event in world.events(UsageReported)}) == len(world.events(UsageReported))


async def test_a_changed_machine_is_described_again(world: World) -> None:
    async with world.running(pool="blue"):
        world.driver.facts_now = replace(FACTS, kernel="6.2")
        await world.clock.advance(31)
        assert [(item.facts.kernel, item.facts.pool) for item in world.all(NodeDescribed)] == [
            ("6.1", "blue"),
            ("6.2", "blue"),
        ]


async def test_crossing_a_local_waterline_reports_at_once_and_every_sample_while_above(world: World) -> None:
    async with world.running():
        await world.declare(waterlines=[{"metric": "prod_cpu_pressure", "value": 0.2}])
        await world.clock.advance(1.5)
        assert world.all(UsageReported) == []
        world.driver.pressure = 0.5
        await world.clock.advance(2)
        world.driver.pressure = 0.0
        await world.clock.advance(1)
        reports = world.all(UsageReported)
    assert [(report.trigger, report.window_seconds) for report in reports] == [("waterline", 2.0), ("waterline", 1.0)]
    assert reports[0].prod_pressure.cpu_some_last == pytest.approx(0.5)
    crossings = world.events(WaterlineCrossed)
    assert [report_of(crossing) for crossing in crossings] == world.events(UsageReported)[:2]  # told twice, once each


async def test_a_surge_just_after_a_sample_is_published_half_an_interval_later_and_sampled_in_that_rhythm(
    world: World,
) -> None:
    async with world.running():
        await world.declare(waterlines=[{"metric": "node_cpu_usage_ratio", "value": 0.5}])
        await world.clock.advance(2.1)
        assert world.driver.glances == [0.5, 1.5]
        world.driver.system_milli = 3000  # of 4000, and 1750 of pods; since the sample at 2.0
        await world.clock.advance(1.9)
        reports = world.all(UsageReported)
        assert world.driver.samples == [0.0, 1.0, 2.0, 2.5, 3.5]
        assert world.driver.glances == [0.5, 1.5, 2.5], "above already: sampled once in an interval"
    assert [(report.trigger, report.window_seconds) for report in reports] == [("waterline", 2.5), ("waterline", 1.0)]


async def test_a_node_that_is_held_already_is_not_looked_at_between_samples(world: World) -> None:
    async with world.running():
        waterlines = [{"metric": "prod_cpu_pressure", "value": 0.2}]
        await world.declare(waterlines=waterlines, throttles=[throttle("a", 400, "d7")])
        await world.clock.advance(2.2)
        world.driver.pressure = 0.9
        await world.clock.advance(0.7)
        assert world.driver.samples == [0.0, 1.0, 2.0]
    assert world.driver.glances == []


async def test_without_waterlines_nothing_is_sampled_between_samples(world: World) -> None:
    async with world.running():
        await world.clock.advance(3.2)
    assert world.driver.glances == []


async def test_a_calm_node_publishes_its_reports_once(world: World) -> None:
    async with world.running():
        await world.clock.advance(11)
        assert len(world.all(UsageReported)) == 2
    assert world.all(WaterlineCrossed) == []


async def test_an_intent_is_written_and_observed_in_the_same_turn(world: World) -> None:
    async with world.running():
        await world.clock.advance(0.5)
        event = await world.declare(throttles=[throttle("a", 400, "d7")])
        assert world.driver.limit("a") == "400"
        [observed] = world.events(IntentObserved)
        assert (observed.causedby, observed.traceparent) == (event.id, event.traceparent)
        [limit] = observed.data.limits
        assert (limit.pod_uid, limit.cpu_limit_milli, limit.decision_id, limit.error) == ("a", 400, "d7", None)
        await world.clock.advance(1)
        [report] = world.all(UsageReported)
        throttled = next(item for item in report.pods if item.pod.uid == "a")
        assert (throttled.cpu_limit_milli, throttled.original_cpu_limit_milli) == (400, None)
        await world.declare(throttles=[])
        assert world.driver.limit("a") == "max"
        assert [item.pod_uid for item in world.all(IntentObserved)[-1].limits] == ["a"]


async def test_a_renewal_is_not_answered_and_writes_nothing(world: World) -> None:
    async with world.running():
        await world.declare(throttles=[throttle("a", 400)])
        writes = len(world.driver.writes)
        world.generation -= 1
        await world.declare(throttles=[throttle("a", 400)])
        assert len(world.driver.writes) == writes
        assert len(world.all(IntentObserved)) == 1


async def test_a_pod_that_two_writers_want_to_end_is_ended_once(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        await world.declare(evictions=[eviction(world, "a", "e1", grace=3.0)])
        await world.declare(writer="migration", evictions=[eviction(world, "a", "e2", grace=60.0)])
        await world.clock.advance(10)
        ended = [(one.id, one.outcome) for one in world.all(EvictionCompleted)]
    assert ended == [("e1", "killed"), ("e2", "already_gone")]


async def test_an_older_document_is_ignored(world: World) -> None:
    async with world.running():
        await world.declare(generation=5, throttles=[throttle("a", 400)])
        await world.declare(generation=4, throttles=[throttle("a", 300)])
        assert world.driver.limit("a") == "400"
        await world.clock.advance(1)
        await world.declare(generation=1, throttles=[throttle("a", 200)])
        assert world.driver.limit("a") == "200"


async def test_the_lowest_of_two_writers_wins_and_the_other_takes_over(world: World) -> None:
    async with world.running():
        await world.declare("ensurance", throttles=[throttle("a", 400)])
        await world.declare("migration", throttles=[throttle("a", 300)])
        assert world.driver.limit("a") == "300"
        await world.declare("migration")
        assert world.driver.limit("a") == "400"


async def test_a_lapsed_lease_gives_back_in_steps_and_a_renewal_stops_that(world: World) -> None:
    async with world.running():
        await world.declare(throttles=[throttle("a", 500)], lease_seconds=10.0)
        await world.clock.advance(9.5)
        assert world.driver.limit("a") == "500"
        await world.clock.advance(1.0)
        assert world.driver.limit("a") == "1500"
        await world.declare(throttles=[throttle("a", 500)], lease_seconds=10.0)
        assert world.driver.limit("a") == "500"
        await world.clock.advance(15)
        assert world.driver.limit("a") == "max"


async def test_weights_follow_the_policy_and_go_back_at_the_end(world: World) -> None:
    before = dict(world.driver.knobs)
    async with world.running() as service:
        await world.declare()
        assert world.driver.knobs[Knob("tier-batch", "cpu_weight")] == "2"
        await world.declare(weights="by-request")
        assert world.driver.knobs[Knob("tier-batch", "cpu_weight")] == "2048"
        world.driver.add(pod("c"))
        await world.clock.advance(1)
        assert world.driver.knobs[Knob("tier-batch", "cpu_weight")] == "3072"
    assert service.restore_report is not None
    assert service.restore_report.exact
    assert {knob: text for knob, text in world.driver.knobs.items() if knob in before} == before
    assert world.driver.closed


async def test_a_refused_write_and_a_missing_pod_are_said_in_what_was_observed(world: World) -> None:
    world.driver.refused.add(Knob("a", "cpu_limit"))
    async with world.running():
        await world.declare(throttles=[throttle("a", 400), throttle("ghost", 400)])
        [observed] = world.all(IntentObserved)
    assert [(item.pod_uid, item.cpu_limit_milli, item.error) for item in observed.limits] == [
        ("a", None, "write_refused"),
        ("ghost", None, "not_found"),
    ]


async def test_a_foreign_writer_is_reported_and_not_overwritten(world: World) -> None:
    async with world.running() as service:
        await world.declare(throttles=[throttle("a", 400)])
        world.driver.knobs[Knob("a", "cpu_limit")] = "777"
        await world.clock.advance(1.5)
        told = world.all(IntentObserved)[-1]
        assert told.foreign_writers == ("a",)
        assert [(item.pod_uid, item.cpu_limit_milli, item.error) for item in told.limits] == [
            ("a", 777, "foreign_writer")
        ]
        await world.declare(throttles=[throttle("a", 300)])
        assert world.driver.limit("a") == "777"
    assert service.restore_report is not None
    assert not service.restore_report.exact


async def test_while_the_bus_is_away_reports_are_kept_the_oldest_dropped_and_counted(world: World) -> None:
    async with world.running(buffered_reports=3) as service:
        world.bus.broker.away = True
        await world.clock.advance(31)
        assert len(world.driver.samples) == 32
        assert not (await service.checks())[1].ok
        world.bus.broker.away = False
        await world.clock.advance(9)
        reports = world.all(UsageReported)
        assert (await service.checks())[1].ok
    assert [report.sequence for report in reports[:4]] == [4, 5, 6, 7]
    assert [report.dropped_reports for report in reports[:4]] == [0, 1, 2, 3]


async def test_a_bus_that_is_away_at_the_start_holds_nothing_up(world: World) -> None:
    world.bus.broker.away = True
    async with world.running():
        await world.clock.advance(3)
        assert len(world.driver.samples) == 4
        world.bus.broker.away = False
        await world.clock.advance(5)
        assert len(world.all(NodeDescribed)) == 1


async def test_the_last_report_says_that_the_agent_stops(world: World) -> None:
    async with world.running():
        await world.clock.advance(2)
    assert [report.trigger for report in world.all(UsageReported)] == ["shutdown"]


@pytest.mark.parametrize("seconds", [2.0, 5.0, 12.3])
async def test_a_node_that_leaves_says_so_also_right_after_a_report(world: World, seconds: float) -> None:
    async with world.running(leave_on_stop=True):
        await world.clock.advance(seconds)
        before = [report.sequence for report in world.all(UsageReported)]
        await world.clock.advance(0.25)
    *_, last = world.all(UsageReported)
    assert (last.trigger, last.sequence) == ("leave", len(before) + 1)
    assert last.window_seconds > 0
    assert last.node_usage.cpu_milli.count > 0


async def test_eviction_asks_waits_and_kills_exactly_once(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        item = eviction(world, "a", grace=5)
        await world.declare(evictions=[item])
        await world.clock.advance(4.9)
        assert [number for _, number in world.driver.signals] == [signal.SIGTERM]
        await world.clock.advance(0.5)
        await world.declare(evictions=[item])
        await world.clock.advance(100)
        await world.declare(evictions=[item])
        await world.clock.advance(100)
        [done] = world.all(EvictionCompleted)
    assert (done.id, done.outcome, done.writer) == ("e1", "killed", "ensurance")
    assert world.driver.signals == [("a", signal.SIGTERM), ("a", signal.SIGKILL)]


@pytest.mark.parametrize(("prepare", "outcome"), FATES)
async def test_every_eviction_has_one_outcome(world: World, prepare: Any, outcome: str) -> None:
    prepare(world)
    async with world.running():
        await world.declare(evictions=[eviction(world, "a")])
        await world.clock.advance(30)
        assert [done.outcome for done in world.all(EvictionCompleted)] == [outcome]
    assert (world.driver.signals == []) is (outcome in ("already_gone", "refused"))


async def test_an_eviction_never_begins_after_its_deadline_or_without_a_lease(world: World) -> None:
    async with world.running():
        await world.declare(evictions=[eviction(world, "a", "late", deadline=-1)])
        world.driver.living.pop("b")
        await world.declare("other", evictions=[eviction(world, "p", "lapsed", deadline=30)], lease_seconds=0.0)
        await world.clock.advance(60)
        outcomes = {done.id: done.outcome.value for done in world.all(EvictionCompleted)}
    assert outcomes == {"late": "expired", "lapsed": "expired"}
    assert world.driver.signals == []


async def test_a_restarted_agent_completes_its_evictions_and_publishes_them_under_the_same_id(
    world: World, tmp_path: Path
) -> None:
    ledger = JsonLedger(tmp_path / "evictions.json")
    world.driver.stubborn.add("a")
    service = world.service()
    service.ledger = ledger
    async with world.running(service):
        await world.declare(evictions=[eviction(world, "a", grace=5)])
        await world.clock.advance(2)
    assert ledger.load()["e1"].outcome is None
    again = world.service()
    again.ledger = ledger
    async with world.running(again):
        await world.clock.advance(10)
        [told] = world.events(EvictionCompleted)
        assert told.data.outcome == "killed"
    assert ledger.load()["e1"].published
    assert [number for _, number in world.driver.signals] == [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]


async def test_an_unpublished_completion_is_published_after_the_restart(world: World) -> None:
    service = world.service()
    world.bus.broker.away = False
    async with world.running(service):
        await world.clock.advance(0.5)
        await world.declare(evictions=[eviction(world, "a")])
        world.bus.broker.away = True
        await world.clock.advance(1)
    first: dict[str, EvictionRecord] = service.ledger.load()
    again = world.service()
    again.ledger = service.ledger
    again.ledger.save({key: replace(record, published=False) for key, record in first.items()})
    world.bus.broker.away = False
    async with world.running(again):
        await world.clock.advance(1)
    assert {event.id for event in world.events(EvictionCompleted)} != set()
    assert len({event.id for event in world.events(EvictionCompleted)}) == 1
    assert again.ledger.load()["e1"].published


async def test_ids_are_dropped_only_when_no_intent_has_them(world: World) -> None:
    async with world.running() as service:
        item = eviction(world, "a", deadline=10)
        await world.declare(evictions=[item])
        await world.clock.advance(20)
        await world.declare(evictions=[item])
        assert set(service.ledger.load()) == {"e1"}
        await world.declare()
        assert service.ledger.load() == {}
    assert len(world.all(EvictionCompleted)) == 1


async def test_a_crashed_agent_restores_first_and_then_converges(world: World) -> None:
    journal = MemoryJournal()
    journal.append(
        [
            {"op": "claim", "path": "a", "field": "cpu_limit", "text": "max"},
            {"op": "write", "path": "a", "field": "cpu_limit", "text": "300"},
        ],
        sync=True,
    )
    world.driver.knobs[Knob("a", "cpu_limit")] = "300"
    await world.declare(throttles=[throttle("b", 200)])
    service = world.service()
    service.journal = journal
    async with world.running(service):
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("max", "200")
        assert service.recovery_report is not None
        assert service.recovery_report.exact
    assert world.driver.limit("b") == "max"


async def test_readiness_follows_the_samples(world: World) -> None:
    service = world.service()
    assert not (await service.checks())[0].ok
    async with world.running(service):
        assert (await service.checks())[0].ok
        assert service.routers() == ()
        assert service.name == "agent"


class SlowDriver(FakeDriver):
    """A machine whose readings take their time."""

    delays: tuple[float, ...] = ()

    def sample(self) -> RawSample:
        found = super().sample()
        if len(self.samples) <= len(self.delays):
            self.clock._elapsed += self.delays[len(self.samples) - 1]
        return found


async def test_slow_samples_do_not_shift_the_rhythm_and_missed_ones_are_skipped(world: World) -> None:
    slow = SlowDriver(world.clock)
    slow.delays = (0.3, 0.9, 2.5, 0.1)
    world.driver = slow
    async with world.running():
        await world.clock.advance(8)
    assert slow.samples[:6] == pytest.approx([0.0, 1.0, 2.0, 5.0, 6.0, 7.0])


async def test_a_report_names_the_document_of_ensurance_that_is_held(world: World) -> None:
    async with world.running():
        await world.clock.advance(6)
        await world.declare("migration")
        document = await world.declare()
        await world.clock.advance(5)
    first, *_, last = [one.intent_declared_at for one in world.all(UsageReported)]
    assert (first, last) == (None, document.data.declared_at)
