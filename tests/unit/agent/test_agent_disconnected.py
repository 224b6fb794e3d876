"""Cut off for longer than the lease: the same planner on the last rules; one owner again after the reconnection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import NODE, pod
from agent_world import World, eviction, throttle
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus

from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.domain.knobs import Knob
from slackwater.decisions.reasons import Mode
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.codec.packed import pack, unpack
from slackwater.events.decision_recorded import stream_bytes
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import Eviction
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import API_SERVER, EVICTIONS_BY
from slackwater.model.tiers import Tier
from slackwater.waterline import rules_codec
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.rulebook import Documents, rulebook_of

PRESSURE = {"name": "prod_cpu_pressure", "value": 0.1}
BE = {"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}


def rules(
    action: str = "throttle",
    mode: Mode = Mode.EVICT,
    metric: dict[str, Any] = PRESSURE,
    limits: ActionLimits | None = None,
    quota_after: float = 0.0,
) -> str:
    """What ensurance leaves with an agent. Quotas come at once, although weights are in force."""
    rule = {"name": "prod-cpu", "metricRule": metric, "actionName": action}
    spec = {"rules": [rule], "throttle": {"quotaAfterSeconds": quota_after}}
    cluster = NodeQos.parse({"metadata": {"name": "default"}, "spec": spec})
    others = Documents(
        pods=(
            PodQos.parse(
                {
                    "metadata": {"name": "default"},
                    "spec": {"scopeSelector": {"matchExpressions": [BE]}, "allowedActions": ["throttle", "evict"]},
                }
            ),
        ),
        actions=(
            AvoidanceAction.parse(
                {"metadata": {"name": "evict"}, "spec": {"eviction": {"terminationGracePeriodSeconds": 2}}}
            ),
        ),
    )
    book = rulebook_of(cluster, others)
    options = replace(book.options(mode), limits=limits or ActionLimits())
    return pack(rules_codec.encode_rules(book.policies, options))


def records(world: World) -> list[tuple[str, str, str]]:
    return [(one.record.kind, one.record.reason, one.record.service) for one in world.all(AgentDecisionRecorded)]


def wanted(**more: Any) -> dict[str, Any]:
    return {"lease_seconds": 10.0, "rules": rules()} | more


async def test_while_the_lease_lives_it_decides_nothing(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        world.driver.pressure = 0.5
        await world.clock.advance(9)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_disconnected_it_throttles_and_restores_by_the_same_rules_and_publishes_afterwards(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        assert world.driver.limit("a") == "725"  # 250 x 0.5 / 0.5 x 1.1 = 275
        world.driver.rates |= {"a": 725}
        world.driver.pressure = 0.0
        world.driver.rates |= {"p": 50}
        await world.clock.advance(12)
        assert world.driver.limit("a") == "max"
        told = world.events(AgentDecisionRecorded)
    assert records(world)[0] == ("throttle", "throttle_waterline_crossed", "agent")
    assert records(world)[-1] == ("restore", "restore_complete", "agent")
    intent = next(event for event in world.bus.published if event.data.TYPE == "intent.declared")
    assert told[0].causedby == intent.id


async def test_disconnected_it_leaves_cpu_to_weights_that_are_in_force(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(rules=rules(quota_after=30.0)))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(5)
        assert world.driver.limit("a") == "max"
        world.driver.knobs[Knob(f"tier-{Tier.BATCH}", "cpu_weight")] = "512"  # another program: weights protect no more
        await world.clock.advance(2)
        assert world.driver.limit("a") != "max"
    assert records(world)[0] == ("throttle", "throttle_left_to_weights", "agent")
    assert ("throttle", "throttle_waterline_crossed", "agent") in records(world)


async def test_what_was_in_force_stays_while_it_is_needed_instead_of_fading(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        world.driver.rates = {"a": 400, "b": 500, "p": 3000}  # no CPU is idle, and prod still wants what it wanted
        world.driver.pressure = 0.05
        await world.clock.advance(25)
        assert world.driver.limit("a") == "400"
        world.driver.rates |= {"b": 0, "p": 2500}
        await world.clock.advance(3)
        assert world.driver.limit("a") == "400", "it may be chance"
        await world.clock.advance(1)
        assert int(world.driver.limit("a")) == 400 + 1100 - 200, "what is idle goes back but for a margin"


async def test_without_rules_a_lapsed_lease_lets_go_as_before(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)], rules=""))
        world.driver.pressure = 0.5
        await world.clock.advance(16)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_rules_that_cannot_be_read_are_no_rules(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)], rules='{"policies": 7, "options": {}}'))
        world.driver.pressure = 0.5
        await world.clock.advance(16)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_when_the_owner_is_back_its_intent_counts_and_local_throttles_are_restored(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        assert world.driver.limit("a") == "725"
        made = len(records(world))
        world.generation -= 1  # a renewal of the earlier intent
        await world.declare(**wanted(throttles=[throttle("b", 100)], lease_seconds=3600.0))
        assert world.driver.limit("b") == "100"
        await world.clock.advance(8)
        assert world.driver.limit("a") == "max"
        assert len(records(world)) == made, "one owner: it decides nothing any more"


async def test_the_last_document_handed_out_again_is_no_owner(world: World) -> None:
    """The broker repeats it when the line is back, before ensurance has said anything."""
    async with world.running() as service:
        last = await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        running = service._running
        assert running is not None
        await running.intents.receive(last)
        world.driver.pressure = 0.0
        world.driver.rates |= {"p": 50}
        await world.clock.advance(8)
        assert records(world)[-1][1] == "restore_complete"


async def test_a_replica_that_has_lost_the_node_is_not_obeyed_however_late_it_speaks(world: World) -> None:
    """Fencing: the epoch of the lease on the node's partition counts before generation and time."""
    async with world.running():
        await world.declare(**wanted(epoch=2, throttles=[throttle("a", 400)]))
        await world.declare(**wanted(epoch=1, throttles=[throttle("a", 100), throttle("b", 100)]))
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("400", "max")
        world.generation = 0
        await world.declare(**wanted(epoch=3, throttles=[throttle("a", 300)]))
        assert world.driver.limit("a") == "300", "the new owner begins to count anew"


async def test_an_agent_restarted_while_disconnected_continues_by_the_last_rules_and_evicts_nothing_again(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "agent" / "intents.json"
    first = world.service()
    first.intents = JsonIntents(file)
    async with world.running(first):
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        assert world.driver.limit("a") == "400"
    (kept,) = first.intents.load()
    item = Eviction.model_validate(eviction(world, "b", deadline=3600.0))  # came in its last moment
    first.intents.save([kept.model_copy(update={"data": kept.data.model_copy(update={"evictions": (item,)})})])
    world.bus = MemoryBus(MemoryBroker(clock=world.clock))  # beyond the cut no message arrives
    world.bus.broker.away = True
    world.driver.pressure = 0.5
    second = world.service()
    second.intents = first.intents
    async with world.running(second):
        await world.clock.advance(4.5)
        assert world.driver.limit("a") == "max", "what a dead process had taken was put back; nothing is taken unheard"
        assert world.all(EvictionCompleted) == []
        await world.clock.advance(1)
        assert world.driver.limit("a") == "725"
        assert records(world) == [], "it cannot be published yet"
        world.bus.broker.away = False
        assert second._running is not None
        await second._running.intents.receive(kept)  # the broker repeats it, and is no owner
        await world.clock.advance(10)
        assert records(world)[0] == ("throttle", "throttle_waterline_crossed", "agent")
        assert second._running.disconnected.guard is not None
    assert "b" in {one.uid for one in world.driver.pods()}, "an eviction needs a lease that lives"


async def test_an_agent_restarted_while_connected_starts_from_the_intents_that_it_receives(
    world: World, tmp_path: Path
) -> None:
    first, second = world.service(), world.service()
    first.intents = second.intents = JsonIntents(tmp_path / "intents.json")
    async with world.running(first):
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
    world.bus.published.clear()
    world.generation = 0  # of a writer that has lost its count, too
    async with world.running(second):
        await world.declare(**wanted(throttles=[throttle("a", 400)], lease_seconds=3600.0))
        assert world.driver.limit("a") == "400"
        (answer,) = world.all(IntentObserved)
        assert [(one.pod_uid, one.cpu_limit_milli) for one in answer.limits] == [("a", 400)]
        world.driver.pressure = 0.5
        await world.clock.advance(30)
        assert records(world) == []


async def test_an_agent_restarted_after_the_broker_lost_its_newest_document_waits_for_its_writer(
    world: World, tmp_path: Path
) -> None:
    first = world.service()
    first.intents = JsonIntents(tmp_path / "intents.json")
    async with world.running(first):
        await world.declare(**wanted(throttles=[throttle("a", 300)]))
        [older] = first.intents.load()
        await world.clock.advance(1)
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        [newer] = first.intents.load()
    world.bus = MemoryBus(MemoryBroker(clock=world.clock))
    second = world.service()
    second.intents = first.intents
    async with world.running(second):
        assert second._running is not None
        await second._running.intents.receive(older)
        assert world.driver.limit("a") == "max", "its writer has declared a newer one since"
        await world.clock.advance(6)
        assert second._running.disconnected.guard is not None, (
            "which its reports say, so that its writer declares again"
        )
        await world.declare(**wanted(throttles=[throttle("a", 500)]))
        assert world.driver.limit("a") == "500"
    assert older.data.generation < newer.data.generation


@pytest.mark.parametrize("content", [b"", b"[7]", b'[{"id": 1}]', b"{", b"null"])
def test_a_file_of_intents_that_cannot_be_read_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "intents.json").write_bytes(content)
    assert JsonIntents(tmp_path / "intents.json").load() == []


async def test_alone_it_evicts_where_the_rules_say_so_once_and_only_the_protected_stay(world: World) -> None:
    world.driver.guarded.update(a="it is the agent")
    async with world.running():
        await world.declare(**wanted(rules=rules("evict")))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(6)
        world.driver.pressure = 0.0
        await world.clock.advance(3)
        ended = [(one.pod_uid, one.outcome, one.writer) for one in world.all(EvictionCompleted)]
    assert ended == [("a", "refused", "agent"), ("b", "terminated", "agent")]


async def test_an_eviction_pending_at_the_disconnection_is_credited_and_not_repeated(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        item = eviction(world, "a", grace=60.0, deadline=120.0)
        await world.declare(**wanted(rules=rules("evict"), evictions=[item]))
        await world.clock.advance(11)
        world.driver.pressure = 0.5  # 275 are missing, and a uses 1000
        await world.clock.advance(20)
        assert records(world) == []
        await world.clock.advance(60)
        ended = [(one.pod_uid, one.outcome, one.writer) for one in world.all(EvictionCompleted)]
    assert ended[0] == ("a", "killed", "ensurance")
    assert ("a", "agent") not in [(one[0], one[2]) for one in ended]


async def test_an_eviction_with_a_long_grace_period_is_credited_until_it_is_over(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        item = eviction(world, "a", grace=200.0, deadline=120.0)
        await world.declare(**wanted(rules=rules("evict"), evictions=[item]))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(180)
        assert records(world) == []


async def test_evictions_before_the_disconnection_count_for_the_hourly_limit(world: World) -> None:
    two_an_hour = rules("evict", limits=ActionLimits(evictions_per_hour=2))
    world.driver.add(pod("c"))
    world.driver.rates |= {"c": 100}
    async with world.running():
        await world.declare(**wanted(rules=two_an_hour, evictions=[eviction(world, "c")]))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(5)
        await world.declare(**wanted(rules=two_an_hour))  # reconnected, and cut off again
        await world.clock.advance(25)
        ended = [(one.pod_uid, one.writer) for one in world.all(EvictionCompleted)]
    assert ended == [("c", "ensurance"), ("a", "agent")]


SHORT = {"name": "batch_cpu_shortfall", "value": 0.5, "target": 0.1}
PAGING = {"name": "prod_memory_pressure", "value": 0.1}


@pytest.mark.parametrize(("metric", "gone"), [(SHORT, ["a"]), (PAGING, [])])
async def test_alone_it_knows_every_metric_that_ensurance_knows_from_its_reports(
    world: World, metric: dict[str, Any], gone: list[str]
) -> None:
    """BE pods request 2000 m and may use 900 m: half has to go. Pressure of memory is read, and not quantified."""
    async with world.running():
        await world.declare(
            **wanted(rules=rules("evict", metric=metric), throttles=[throttle("a", 600), throttle("b", 300)])
        )
        world.driver.rates = {"a": 600, "b": 300, "p": 3000}
        world.driver.memory_pressure = 0.5
        await world.clock.advance(13)
        told = [one.record for one in world.all(AgentDecisionRecorded) if one.record.kind == "evict"]
        assert told
        assert [action.pod_uid for one in told for action in one.actions] == gone


@pytest.mark.parametrize(("mode", "annotations"), [(Mode.THROTTLE, {}), (Mode.EVICT, {EVICTIONS_BY: API_SERVER})])
async def test_evictions_that_nothing_would_carry_out_are_only_previewed(
    world: World, mode: Mode, annotations: dict[str, str]
) -> None:
    """The mode forbids them, or the cluster's adapter evicts: it cannot know of what is decided here."""
    async with world.running(annotations=annotations):
        await world.declare(**wanted(rules=rules("evict", mode)))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(20)
        assert (world.driver.signals, world.all(EvictionCompleted)) == ([], [])
        assert records(world) == [("evict", "evict_observed_only", "agent")]


def test_rules_travel_without_loss() -> None:
    text = rules()
    policies, options = rules_codec.decode_rules(unpack(text))
    assert pack(rules_codec.encode_rules(policies, options)) == text
    assert len(text) < 2000
    assert NODE


async def test_reports_say_so_while_it_is_alone_and_those_that_wait_from_before_too(world: World) -> None:
    """Decision 0045: ensurance, back on the line, reads them all, and must not act beside us."""
    async with world.running(report_seconds=1.0):
        await world.declare(**wanted())
        await world.clock.advance(4)
        world.bus.broker.away = True
        cut = world.clock.now()
        await world.clock.advance(8)
        world.bus.broker.away = False
        await world.clock.advance(3)
        before = [one.alone for one in world.all(UsageReported) if one.sampled_at <= cut]
        since = [one.alone for one in world.all(UsageReported) if one.sampled_at > cut]
        await world.declare(**wanted(lease_seconds=3600.0))
        owned = world.clock.now()
        await world.clock.advance(4)
        after = [one.alone for one in world.all(UsageReported) if one.sampled_at > owned]
    assert before
    assert not any(before)
    assert len(since) >= 4
    assert all(since)
    assert after
    assert not any(after)


@pytest.mark.parametrize("asleep", [0.0, 300.0])
async def test_limits_in_force_do_not_jump_at_the_disconnection(world: World, asleep: float) -> None:
    """Neither for a moment before the rules of before are taken up, nor when the agent itself stood still."""
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        world.driver.rates = {"a": 400, "b": 500, "p": 3000}
        world.driver.pressure = 0.05
        await world.clock.advance(9)
        world.clock._elapsed += asleep
        await world.clock.advance(11)
        limits = [text for knob, text in world.driver.writes if knob == Knob("a", "cpu_limit")]
        assert limits == ["400"]


async def test_decisions_that_wait_for_the_bus_are_not_replaced_by_those_of_the_next_stretch(world: World) -> None:
    async with world.running() as service:
        last = await world.declare(**wanted())
        running = service._running
        assert running is not None
        world.bus.broker.away = True
        for stretch in (1, 2):
            await world.clock.advance(11)
            assert running.disconnected.guard is not None
            world.driver.pressure = 0.5
            await world.clock.advance(1.1)
            assert world.driver.limit("a") != "max"
            world.driver.pressure = 0.0
            generation = last.data.generation + stretch
            newer = {"generation": generation, "declared_at": world.clock.now()}
            await running.intents.receive(
                last.model_copy(update={"id": f"renewed-{stretch}", "data": last.data.model_copy(update=newer)})
            )
            running.disconnected.update()
            assert running.disconnected.guard is None
            await world.clock.advance(6)
        world.bus.broker.away = False
        await world.clock.advance(30)
    assert [kind for kind, reason, _ in records(world) if reason == "throttle_waterline_crossed"] == ["throttle"] * 2


async def test_a_surge_that_comes_and_goes_for_hours_costs_no_more_records_than_the_budget(world: World) -> None:
    budget = {"record_burst_bytes": 8_192, "record_bytes_per_hour": 1_000}
    async with world.running(**budget):
        await world.declare(**wanted())
        await world.clock.advance(11)
        for _ in range(60):
            world.driver.pressure = 0.5
            await world.clock.advance(3)
            world.driver.pressure = 0.0
            world.driver.rates |= {"p": 50}
            await world.clock.advance(15)
    told = [one.record for one in world.all(AgentDecisionRecorded)]
    assert 0 < sum(stream_bytes(record) for record in told) <= 8_192 + 1_000 * 1080 // 3600
    assert sum(len(record.listed) for record in told) > 0
