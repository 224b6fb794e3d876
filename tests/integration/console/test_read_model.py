"""One suite for both read models: what the in-memory one promises, the one in PostgreSQL keeps."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from served import END, record_all
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.postgres_server import FreshDatabase
from tests.support.story import FLEET, SURGE, identifier, story

from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.domain.event_log import EventFilter, ListedEvent
from slackwater.console.domain.fleet import FRESH, SHOWS, FleetLevel, NodeQuery, Totals
from slackwater.console.domain.pod_story import PodIdentity
from slackwater.console.domain.resources import KEPT_GENERATIONS, ResourceView
from slackwater.console.domain.views import DecisionFilter, EvictionView, PodView, UsagePoint
from slackwater.console.ports import ReadModel
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import AGENT, Action, Alternative
from slackwater.events.envelope import Event
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import LentUse, lent_use
from slackwater.store.engine import connect_database

START = END - timedelta(minutes=15)
MONTH = timedelta(days=30)
CLOCK = FakeClock(END)
ENDED = EvictionView("e1", "edge-7", "u1", "ensurance", "killed", "", END, "d9")


async def tell(model: ReadModel, events: list[Event[Any]]) -> None:
    recorder = RecordEvents(model, CLOCK, usage_retention=MONTH, decision_retention=MONTH)
    await record_all(recorder, events)
    await model.save_evictions([ENDED, ENDED])


async def test_the_last_generations_of_each_document_stay(model: ReadModel) -> None:
    def view(generation: int, name: str = "gold", *, deleted: bool = False) -> ResourceView:
        document = None if deleted else {"spec": {"n": generation}}
        return ResourceView("ensurance", "Autonomy", name, generation, "ann", END, deleted, document)

    await model.save_resources([view(2), view(1), view(1)])
    await model.save_resources([view(number) for number in range(2, KEPT_GENERATIONS + 4)])
    await model.save_resources([view(1, "gone"), view(2, "gone", deleted=True), replace(view(1), kind="PodQOS")])
    kept = await model.resource_generations("Autonomy", "gold")
    assert [one.generation for one in kept] == [*range(KEPT_GENERATIONS + 3, 3, -1)]
    assert await model.resources("Autonomy") == [kept[0]]
    assert dict(await model.resource_counts()) == {"Autonomy": 1, "PodQOS": 1}
    assert [one.deleted for one in await model.resource_generations("Autonomy", "gone")] == [True, False]
    assert list(await model.resource_generations("Autonomy", "nothing")) == []


RESTORES = (DecisionKind.RESTORE,)


async def everything(model: ReadModel) -> dict[str, Any]:
    """The answer to every question there is."""
    middle = START + timedelta(seconds=SURGE[0] + 40)
    nodes = [*(node.name for node in FLEET), "nowhere"]
    decisions = await model.decisions(DecisionFilter(limit=500))
    found: dict[str, Any] = {
        "nodes": await model.nodes(),
        "strategies": await model.strategies(),
        "quotas": await model.quota_ledgers(),
        "quotas over time": await model.quota_points("default", "batch-cpu", START, middle, 60),
        "quotas of no tree": await model.quota_points("nowhere", "batch-cpu", START, middle, 60),
        "followers": dict(await model.followers()),
        "pods": await model.pods(),
        "counts": await model.counts(),
        "decisions": decisions,
        "level": await model.level(END, END - FRESH),
        "totals": await model.totals(END - FRESH, 0.02),
        "pools": await model.pools(END - FRESH, 0.02),
        "sums of pools": [await model.pool_sums(pool) for pool in ("edge", "", "nowhere")],
        "offers of pools": [await model.pool_offers(pool, "edge-10", 2) for pool in ("edge", "nowhere")],
        "shown": [await model.nodes_shown(NodeQuery(show=show), END - FRESH, 0.02) for show in SHOWS],
        "shown by name": await model.nodes_shown(NodeQuery(text="GE-1", limit=1), END - FRESH, 0.9),
        "shown behind": await model.nodes_shown(NodeQuery(offset=2), END - FRESH, 0.9),
        "throttled": await model.throttled_pods(START + timedelta(seconds=SURGE[0]), 5),
        "actions": await model.actions_on(["edge-7"], middle, 3),
        "of a pod": await model.decisions(DecisionFilter(pod="encode-video-0")),
        "of a spared pod": [await model.decisions(DecisionFilter(pod="checkout-0", spared=s)) for s in (False, True)],
        "of a pool": [await model.decisions(DecisionFilter(pool=pool, limit=9)) for pool in ("edge", "nowhere")],
        "carried out": await model.decisions(DecisionFilter(carried_out=True, kind=DecisionKind.THROTTLE)),
        "only told": await model.decisions(DecisionFilter(carried_out=False)),
        "pods called": await _called(model, "checkout-0"),
        "pods called on a node": await _called(model, "encode-video-1", "edge-7"),
        "pod of a uid": await _called(model, identifier("edge-7", "checkout-0")),
        "pods not called": await _called(model, "nobody"),
        "about a pod": await model.decisions_about(identifier("edge-7", "checkout-0"), 2, None),
        "about it then": await model.decisions_about(identifier("edge-7", "checkout-0"), 9, middle),
        "about it of a kind": await model.decisions_about(identifier("edge-7", "checkout-0"), 9, None, *RESTORES),
        "of kinds": await model.decisions(DecisionFilter(kinds=(DecisionKind.THROTTLE, *RESTORES))),
        "for a reason": await model.decisions(DecisionFilter(reason=Reason.OFFER_FIRST)),
        "evictions": await model.evictions("d9"),
        "offers": await model.offers(None, middle, END),
        "event": await model.event("none"),
        "listed": await model.events(EventFilter()),
        "listed of a type": await model.events(EventFilter(types=("node.liveness_changed",), node="edge-10")),
        "listed of no type": await model.events(EventFilter(types=())),
        "listed then": await model.events(EventFilter(since=START, until=middle, limit=3)),
        "listed of a trace": await model.events(EventFilter(trace="0" * 32)),
    }
    for name in nodes:
        found |= {
            f"{name} node": await model.node(name),
            f"{name} pods": await model.pods(name),
            f"{name} usage": await model.usage(name, middle, END),
            f"{name} forecasts": await model.forecasts(name, middle, END),
            f"{name} offers": await model.offers(name, middle, END),
            f"{name} offer": await model.offer_at(name, middle),
            f"{name} why": await model.decision_at(name, "batch-cpu", middle),
            f"{name} subjects": await model.subjects(name),
        }
    for each in decisions:
        record = await model.decision(each.id)
        assert record is not None
        related: list[Any] = [await ask(each.id) for ask in (model.effect, model.observations, model.evictions)]
        found[each.id] = (record, *related, await model.event(record.trigger_event_id or ""))
    return found


async def _called(model: ReadModel, name: str, node: str | None = None) -> list[PodIdentity]:
    return sorted(await model.pods_called(name, node), key=lambda one: one.uid)


async def told_in_memory() -> dict[str, Any]:
    twin = MemoryReadModel()
    await tell(twin, story(END))
    return await everything(twin)


async def test_both_give_the_same_answer_to_every_question(model: ReadModel) -> None:
    await tell(model, story(END))
    expected = await told_in_memory()
    answers = await everything(model)
    assert answers.keys() == expected.keys()
    for question, answer in answers.items():
        assert answer == expected[question], question
    assert len(answers["decisions"]) > 50
    assert answers["edge-7 why"] is not None
    assert answers["evictions"] == [ENDED]
    assert answers["nowhere node"] is None
    assert [len(found) > 0 for found in answers["of a spared pod"]] == [False, True]
    assert [len(found) > 0 for found in answers["of a pool"]] == [True, False]
    assert len(answers["carried out"]) > 0
    assert [len(answers[of]) for of in ("pods called on a node", "pod of a uid", "pods not called")] == [1, 1, 0]
    assert len(answers["about a pod"]) == 2


ALONE = "0f0e0d0c-0000-7000-8000-000000000001"


async def test_a_pod_that_is_gone_and_one_that_was_only_looked_at_are_found_by_name_and_uid(model: ReadModel) -> None:
    await tell(model, story(END))
    (like, *_) = await model.decisions(DecisionFilter(kind=DecisionKind.THROTTLE, limit=1))
    record = await model.decision(like.id)
    assert record is not None
    gone = Action(
        pod_uid="u-gone", pod_name="crunch", tier="batch", namespace="jobs", cpu_limit_before_milli=None,
        cpu_limit_after_milli=None, released_milli=0, evicted=True, keys=(1.0,),
    )  # fmt: skip
    spared = Alternative(what="lucky", rejected_because="the gap is closed", keys=(2.0,), pod_uid="u-lucky")
    told = record.model_copy(
        update={"id": ALONE, "actions": (gone,), "terms": (), "result": 0, "alternatives": (spared,)}
    )
    preview = told.model_copy(update={"id": ALONE[:-1] + "2", "reason": Reason.EVICT_OBSERVED_ONLY})
    await model.save_decisions([told, preview])
    assert await model.pods_called("crunch") == [
        PodIdentity("u-gone", "crunch", "jobs", told.node, False, told.decided_at)
    ]
    for name in ("lucky", "u-lucky"):
        assert [each.id for each in await model.decisions(DecisionFilter(pod=name))] == []
        found = await model.decisions(DecisionFilter(pod=name, spared=True, carried_out=True))
        assert [each.id for each in found] == [ALONE]
    assert [each.id for each in await model.decisions(DecisionFilter(carried_out=False))] == [preview.id]
    assert [each.id for each in await model.decisions_about("u-lucky", 5, None)] == [preview.id, ALONE]


async def test_what_an_agent_says_takes_the_place_of_nothing_that_others_say(model: ReadModel) -> None:
    """Ids of decisions and evictions are names, which may be guessed."""
    await tell(model, story(END))
    (like, *_) = await model.decisions(DecisionFilter(kind=DecisionKind.THROTTLE, limit=1))
    true = await model.decision(like.id)
    assert true is not None
    first, second = (true.model_copy(update={"id": name}) for name in ("guessed", "guessed-later"))
    forged = [record.model_copy(update={"service": AGENT, "node": "edge-10"}) for record in (first, second)]
    await model.save_decisions([forged[0], second])
    await model.save_decisions([first, forged[1]])
    assert [await model.decision(record.id) for record in (first, second)] == [first, second]
    again = ENDED.id.replace("1", "2")
    answers = [replace(ENDED, id=again, node=node) for node in ("edge-10", ENDED.node)]
    await model.save_evictions(answers[:1])
    await model.save_evictions(answers[1:])
    assert [answer for answer in await model.evictions("d9") if answer.id == again] == answers


async def test_what_comes_twice_or_in_another_order_changes_nothing(model: ReadModel) -> None:
    events = story(END)
    shuffled = events + events[::3]
    random.Random(7).shuffle(shuffled)
    for begin in range(0, len(shuffled), 150):
        await tell(model, shuffled[begin : begin + 150])
    assert await everything(model) == await told_in_memory()


async def test_decisions_are_filtered_and_paged_newest_first(model: ReadModel) -> None:
    await tell(model, story(END))
    wanted = DecisionFilter(node="edge-7", kind=DecisionKind.THROTTLE, limit=1)
    (newest,) = await model.decisions(wanted)
    (older,) = await model.decisions(replace(wanted, before=(newest.decided_at, newest.id)))
    assert [newest.id, older.id] == [identifier("edge-7", "throttle", SURGE[0] + s) for s in (25, 10)]
    assert await model.decisions(replace(wanted, before=(older.decided_at, older.id))) == []
    since = newest.decided_at
    assert await model.decisions(replace(wanted, since=since, limit=9)) == [newest]
    assert [newest.relieved, older.relieved] == [True, False]


async def test_the_steps_of_an_episode_are_found(model: ReadModel) -> None:
    memory = MemoryReadModel()
    await tell(memory, story(END))
    record = await memory.decision(identifier("edge-7", "throttle", SURGE[0] + 10))
    assert record is not None
    steps = [record.model_copy(update={"id": f"step-{step}", "episode": "step-1", "step": step}) for step in (1, 2)]
    await model.save_decisions([record, *steps])
    found = await model.decisions(DecisionFilter(episode="step-1"))
    assert [(step.id, step.episode, step.step) for step in found] == [("step-2", "step-1", 2), ("step-1", "step-1", 1)]
    assert await model.decisions(DecisionFilter(episode="step-2")) == []


async def test_events_are_listed_newest_first_the_first_of_an_id_stays_and_the_old_are_pruned(model: ReadModel) -> None:
    rows = [
        ListedEvent(name, "claim.admitted", "quota", node, at, None, trace, {"claim": name, "position": 2**40})
        for name, node, at, trace in (("b", "n1", END, "f" * 32), ("a", "", END, None), ("c", "n1", START, None))
    ]
    await model.save_events(rows)
    await model.save_events([replace(rows[0], source="another"), replace(rows[2], id="d"), replace(rows[2], id="d")])
    found = await model.events(EventFilter())
    assert [(row.id, row.source) for row in found] == [("b", "quota"), ("a", "quota"), ("d", "quota"), ("c", "quota")]
    assert found[0] == rows[0]
    assert await model.events(EventFilter(before=(END, "b"), limit=1)) == [rows[1]]
    assert await model.events(EventFilter(trace="f" * 32, node="n1", types=("claim.admitted",))) == [rows[0]]
    await model.prune(END, START + timedelta(seconds=1))
    assert [row.id for row in await model.events(EventFilter())] == ["b", "a"]


async def test_pruning_forgets_the_old_and_keeps_the_state_of_now(model: ReadModel) -> None:
    await tell(model, story(END))
    before, nodes, pods = await model.counts(), await model.nodes(), await model.pods()
    cut = START + timedelta(seconds=SURGE[1])
    await model.prune(cut, cut)
    after = await model.counts()
    assert 0 < after.reports < before.reports
    assert 0 < sum(each.count for each in after.decisions) < sum(each.count for each in before.decisions)
    assert await model.decision(identifier("edge-7", "throttle", SURGE[0] + 10)) is None
    assert await model.decision(identifier("edge-7", "restore", SURGE[1] + 10)) is not None
    assert (await model.nodes(), await model.pods()) == (nodes, pods)
    await model.prune(END + MONTH, END + MONTH)
    emptied = await model.counts()
    assert (emptied.reports, emptied.offers, emptied.decisions, emptied.effects) == (0, 0, (), 0)


async def test_an_empty_read_model_knows_nothing_and_says_so_calmly(model: ReadModel) -> None:
    answers = await everything(model)
    assert answers["counts"].nodes == 0
    assert answers["level"] == FleetLevel(END, nodes=0, silent=0)
    assert answers["totals"] == Totals()
    assert all(count == 0 and not nodes for count, nodes in answers["shown"])
    assert answers["sums of pools"] == [None, None, None]
    assert answers["offers of pools"] == [[], []]
    summed = {"counts", "level", "totals", "shown", "shown by name", "shown behind"}
    summed |= {"sums of pools", "offers of pools", "of a spared pod", "of a pool"}
    assert all(not answer for question, answer in answers.items() if question not in summed)


async def test_kept_levels_are_averaged_and_added_up(model: ReadModel) -> None:
    for second, batch in enumerate((1000, 2000, 4000)):
        part = Resources(batch, batch * 2**20)
        offered = Resources(6000, 2**30)
        borrowed = Resources(batch - 500, 2**29)
        level = FleetLevel(END, 2, 1, part, part, offered, part, part, {"batch": part}, borrowed)
        await model.save_level(level, START + timedelta(seconds=15 * second))
    first = START + timedelta(seconds=0)
    await model.save_level(FleetLevel(END, nodes=9, silent=9), first)  # the first one kept stays

    two, one = await model.levels(first, first + timedelta(seconds=30), 30)
    assert (two.nodes, two.silent, two.capacity.cpu_milli, two.tiers["batch"].cpu_milli) == (2, 1, 1500, 1500)
    assert one.usage == Resources(4000, 4000 * 2**20)
    assert one.tiers.keys() == {"batch"}

    found = await model.gained(first, first + timedelta(seconds=90))
    assert found.lent_core_hours == pytest.approx(3 * 6 * 15 / 3600)
    assert found.used_core_hours == pytest.approx((7 - 3 * 0.5) * 15 / 3600)
    assert found.beyond_core_hours == pytest.approx(3 * 0.5 * 15 / 3600)
    assert one.borrowed == Resources(3500, 2**29)
    assert found.lent_gib_hours == pytest.approx(3 * 15 / 3600)
    assert found.coverage == pytest.approx(0.5)

    await model.prune(END, START + timedelta(seconds=20))
    assert len(await model.levels(first, END, 15)) == 1
    assert await model.ping()


async def test_a_pool_is_the_sum_of_its_nodes(model: ReadModel) -> None:
    await tell(model, story(END))
    nodes = await model.nodes()
    offers = [node.offer for node in nodes if node.offer]
    sums = await model.pool_sums("edge")
    assert sums is not None
    assert (sums.nodes, sums.offering, sums.degraded, sums.overoffered) == (len(FLEET), len(FLEET), 0, 0)
    assert sums.batch == sum((offer.batch for offer in offers), Resources())
    assert sums.mid == sum((offer.mid for offer in offers), Resources()) != Resources()
    assert sums.capacity.cpu_milli == sum(node.capacity_milli for node in FLEET)

    (row,) = await model.pools(END - FRESH, 0.02)
    fresh = [node for node in nodes if node.usage and node.usage.sampled_at > END - FRESH]
    latest = [(await model.forecasts(node.name, START, END))[-1] for node in fresh]
    assert row.fresh == len(fresh) == len(FLEET) - 1, "one is silent"
    assert row.capacity.cpu_milli == sum(node.facts.capacity.cpu_milli for node in fresh if node.facts)
    assert row.reserve.cpu_milli == 400 * len(fresh), "more than the system uses"
    assert row.prod.cpu_milli < row.expected.cpu_milli == sum(each.prod_peak.cpu_milli for each in latest)
    assert row.batch == sum((node.offer.batch for node in fresh if node.offer), Resources())
    uses = [lent_use(node.offer.batch if node.offer else None, node.usage.tiers) for node in fresh if node.usage]
    use = sum(uses, LentUse())
    assert (row.batch, row.borrowed, row.beyond) == (use.lent, use.borrowed, use.beyond)
    assert (await model.level(END, END - FRESH)).borrowed == use.borrowed != Resources()


async def test_a_node_that_offers_more_than_it_has_is_counted(model: ReadModel) -> None:
    await tell(model, story(END))
    (offer,) = await model.pool_offers("edge", "edge-8", 1)
    assert offer.node == "edge-9"
    later = END + timedelta(minutes=1)
    more = replace(offer, event_id="x", offered_at=later, mid=Resources(0, 80 * 2**30), degraded="old")
    await model.save_offers([more])
    sums = await model.pool_sums("edge")
    assert sums is not None
    assert (sums.overoffered, sums.degraded) == (1, 1)


POINT = UsagePoint(
    event_id="e1", node="edge-7", sampled_at=END, window_seconds=5.0, trigger="interval", usage=Resources(1, 1),
    system=None, tiers={}, node_pressure=None, prod_pressure=None, batch_limit_milli=None, throttled_pods=1, pods=1,
)  # fmt: skip
POD = PodView(
    uid="u1", name="web", namespace="n", node="edge-7", workload="n/web", tier="batch", qos="BE", priority=0,
    request=Resources(1, 1), usage=Resources(1, 1), cpu_p95_milli=1, cpu_pressure=None, throttled_ratio=None,
    cpu_limit_milli=1, original_cpu_limit_milli=2, throttled=True, started_at=END, reported_at=END,
)  # fmt: skip


NAMES = ('with "quotes" and \\ in it', "Übung", "tab\tline\n", "%_", "a'b", "plain \\u0000")
WIDTHS = (1, 2**70)
"""A number that is wider than 64 bits is written in another way."""


async def test_a_pod_is_found_whatever_its_name_is_and_by_nothing_else_of_it(model: ReadModel) -> None:
    nodes = {f"edge-{number}": case for number, case in enumerate(product(NAMES, WIDTHS))}
    for node, (name, most) in nodes.items():
        named = replace(POD, uid=f"{node}/1", node=node, name=name, cpu_p95_milli=most)
        other = replace(POD, uid=f"{node}/2", node=node, name="other", workload=name)
        await model.save_usage([(replace(POINT, event_id=node, node=node), [named, other])])
    pods = sorted(await model.pods(), key=lambda one: (one.node, one.tier, one.name))
    throttled = await model.throttled_pods(START, 99)
    for node, (name, _) in nodes.items():
        assert [one.uid for one in await model.pods_called(name, node)] == [f"{node}/1"]
        assert [one.name for one in await model.pods_called(f"{node}/1")] == [name]
        assert list(await model.pods(node)) == [pod for pod in pods if pod.node == node]
        assert {one.name for one in throttled if one.node == node} == {name, "other"}
    for name in NAMES:
        assert {one.uid for one in await _called(model, name)} == {
            f"{n}/1" for n, case in nodes.items() if name in case
        }
    assert await model.pods_called("n/web") == []


async def test_a_text_that_postgresql_could_not_read_again_is_refused_and_nothing_is_kept(
    fresh_database: FreshDatabase,
) -> None:
    database = connect_database((await fresh_database(["console"]))["console"], "console", CLOCK)
    model = PostgresReadModel(database)
    with pytest.raises(InvalidInput, match="NUL"):
        await model.save_usage([(POINT, [replace(POD, name="a\x00b")])])
    with pytest.raises(InvalidInput):
        await model.save_usage([(replace(POINT, trigger="a\x00b"), [POD])])
    assert await model.node("edge-7") is None
    await database.close()


async def test_an_id_that_is_longer_than_an_index_holds_is_refused_for_itself_alone(
    fresh_database: FreshDatabase,
) -> None:
    """It is refused as invalid input; a defect would have caused a redelivery of its whole batch."""
    database = connect_database((await fresh_database(["console"]))["console"], "console", CLOCK)
    model = PostgresReadModel(database)
    long = "".join(chr(33 + number * 7919 % 89) for number in random_numbers(9000))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await model.save_usage([(replace(POINT, event_id=long), [POD])])
    await model.save_usage([(POINT, [POD])])
    await database.close()


def random_numbers(count: int) -> list[int]:
    """The same each time, and nothing that PostgreSQL could pack."""
    return random.Random(54).choices(range(10**6), k=count)
