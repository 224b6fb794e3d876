"""The plan of a machine's CPUs: worked cases, and what holds on every machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import machine, machines

from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel
from slackwater.kernels.topology.plan import plan
from slackwater.kernels.topology.pools import (
    CpuPlan,
    HolderKind,
    HolderSpec,
    PoolDemand,
    PoolInForce,
    PoolLoad,
    PoolRules,
    ResizeRule,
)

TWO = machine(1, 1, 2, 1)
EIGHTY = machine(1, 1, 40, 2)
FOUR_NODES = machine(2, 2, 2, 2)
"""Node 0 has 0, 1, 8, 9, and so on."""
AT_ONCE = PoolRules(ramp_seconds=0, shrink_most=1000, grow_most=1000, shrink_after_seconds=0)


def _dedicated(key: str, count: int, **more: object) -> HolderSpec:
    return replace(HolderSpec(key, HolderKind.DEDICATED, count * 1000), **more)  # type: ignore[arg-type]


def _shared(key: str, milli: int = 1000, **more: object) -> HolderSpec:
    return replace(HolderSpec(key, HolderKind.SHARED, milli), **more)  # type: ignore[arg-type]


def _reclaimed(key: str, milli: int = 1000, **more: object) -> HolderSpec:
    return replace(HolderSpec(key, HolderKind.RECLAIMED, milli), **more)  # type: ignore[arg-type]


def _text(planned: CpuPlan, key: str) -> str:
    return cpu_list_text(planned.assignments[key])


def test_a_dedicated_container_of_two_cpus_has_one_and_the_others_share_the_rest() -> None:
    planned = plan(TWO, [_shared("web"), _dedicated("lsr", 1), _reclaimed("batch")], PoolDemand(rules=AT_ONCE), 100.0)
    assert _text(planned, "lsr") == "0"
    assert _text(planned, "web") == _text(planned, "batch") == "1"
    assert {decision.pool: decision.overlaps for decision in planned.decisions} == {"share": False, "reclaim": True}


NAMED = replace(AT_ONCE, partitioned=False, named_apart=True)


def test_pools_by_name_have_cpus_for_themselves_and_the_others_overlap_in_the_rest() -> None:
    holders = [_shared("a", pool="blue"), _shared("b", pool="blue"), _shared("web"), _reclaimed("batch")]
    planned = plan(EIGHTY, holders, PoolDemand(rules=NAMED), 0.0)
    assert _text(planned, "a") == _text(planned, "b") == "0,40"
    assert _text(planned, "web") == _text(planned, "batch") == "1-39,41-79"
    two = plan(TWO, [_shared("a", pool="blue"), _shared("web"), _reclaimed("batch")], PoolDemand(rules=NAMED), 0.0)
    assert {key: _text(two, key) for key in ("a", "web", "batch")} == {"a": "0", "web": "1", "batch": "1"}


def test_a_pool_by_name_overlaps_where_the_others_would_have_no_cpu() -> None:
    holders = [_shared("a", pool="blue"), _shared("b", pool="red"), _shared("web")]
    planned = plan(TWO, holders, PoolDemand(rules=NAMED), 0.0)
    assert {key: _text(planned, key) for key in ("a", "b", "web")} == dict.fromkeys(("a", "b", "web"), "0-1")
    assert all(decision.overlaps for decision in planned.decisions)


def test_dedicated_containers_leave_each_pool_by_name_a_cpu() -> None:
    holders = [_shared("a", pool="blue"), _shared("web"), _dedicated("lsr", 1)]
    planned = plan(TWO, holders, PoolDemand(rules=NAMED), 0.0)
    assert "shared containers would have none" in planned.refused["lsr"]
    assert (_text(planned, "a"), _text(planned, "web")) == ("0", "1")


def test_dedicated_containers_leave_shared_ones_a_cpu() -> None:
    planned = plan(TWO, [_dedicated("all", 2)], PoolDemand(), 0.0)
    assert planned.assignments == {}
    assert "shared containers would have none" in planned.refused["all"]


def test_the_rest_of_an_offer_is_the_reclaimed_pool() -> None:
    online, offline = _shared("a", 4000), _reclaimed("b", 2000)
    first = plan(EIGHTY, [online, offline], PoolDemand(offered_milli=4000, rules=AT_ONCE), 0.0)
    assert (_text(first, "a"), _text(first, "b")) == ("0-37,40-77", "38-39,78-79")
    resized = PoolDemand(
        offered_milli=52_000,
        loads={"share": PoolLoad(predicted_milli=28_000)},
        in_force=first.in_force({}, 0.0),
        rules=AT_ONCE,
    )
    second = plan(EIGHTY, [online, offline], resized, 100.0)
    assert (_text(second, "a"), _text(second, "b")) == ("0-13,40-53", "14-39,54-79")
    assert [decision.sentence() for decision in second.decisions] == [
        "share: 76 -> 28 CPUs (shrunk: needs 28 by requests 4000m, predicted peak 28000m, offered 52000m; steps to 28)",
        "reclaim: 4 -> 52 CPUs (grown: needs 52 by requests 2000m, offered 52000m; steps to 52)",
    ]


def _stepped(before: int, needed: int, since: float, pressure: float = 0.0) -> tuple[int, ResizeRule]:
    in_force = {"share": PoolInForce(frozenset(range(before)), 0.0)} if before else {}
    demand = PoolDemand(
        offered_milli=80_000,
        loads={"share": PoolLoad(needed * 1000, pressure)},
        in_force=in_force,
    )
    decision = plan(EIGHTY, [_shared("a", admitted_at=-100)], demand, since).decisions[0]
    return decision.stepped, decision.rule


@pytest.mark.parametrize(
    ("before", "needed", "since", "pressure", "stepped", "rule"),
    [
        (0, 6, 0, 0.0, 6, ResizeRule.NEW),
        (6, 6, 5, 0.0, 6, ResizeRule.UNCHANGED),
        (6, 9, 1, 0.0, 9, ResizeRule.GROWN),
        (6, 40, 1, 0.0, 16, ResizeRule.GROWN),
        (20, 6, 29, 0.0, 20, ResizeRule.COOLING_DOWN),
        (20, 6, 30, 0.0, 18, ResizeRule.SHRUNK),
        (20, 19, 30, 0.0, 19, ResizeRule.SHRUNK),
        (20, 6, 60, 0.2, 21, ResizeRule.UNDER_PRESSURE),
    ],
)
def test_a_pool_grows_at_once_and_shrinks_slowly(
    before: int, needed: int, since: float, pressure: float, stepped: int, rule: ResizeRule
) -> None:
    assert _stepped(before, needed, since, pressure) == (stepped, rule)


def test_a_new_shared_container_ramps_up_on_everything_that_is_not_exclusive() -> None:
    demand = PoolDemand(reserved=parse_cpu_list("0,2"))
    holders = [_shared("new", 2000, admitted_at=50.0), _dedicated("lsr", 2, nodes=frozenset({1}))]
    assert _text(plan(FOUR_NODES, holders, demand, 60.0), "new") == "1,4-10,12-15"
    assert _text(plan(FOUR_NODES, holders[1:], demand, 60.0), "lsr") == "3,11"


def test_a_pool_of_a_numa_node_stays_in_it_and_others_stay_out() -> None:
    demand = PoolDemand(reserved=parse_cpu_list("0,2"), rules=AT_ONCE)
    planned = plan(FOUR_NODES, [_shared("bound", nodes=frozenset({0})), _shared("free")], demand, 100.0)
    assert _text(planned, "bound") == "1,8-9"
    assert _text(planned, "free") == "3-7,10-15"
    assert sorted(planned.pools) == ["share", "share-NUMA0"]


def test_a_system_container_has_the_pools_of_its_name_or_all_but_exclusive_cpus() -> None:
    holders = [
        HolderSpec("agent", HolderKind.SYSTEM, 0, pool="reserve"),
        HolderSpec("daemon", HolderKind.SYSTEM, 0, pool=""),
        _dedicated("lsr", 2, nodes=frozenset({0})),
    ]
    planned = plan(FOUR_NODES, holders, PoolDemand(reserved=parse_cpu_list("0,2")), 0.0)
    assert (_text(planned, "agent"), _text(planned, "daemon")) == ("0,2", "0,2-8,10-15")


def test_more_pools_than_cpus_have_all_of_them() -> None:
    planned = plan(TWO, [_shared(name, pool=name) for name in "abc"], PoolDemand(rules=AT_ONCE), 1.0)
    assert {cpu_list_text(cpus) for cpus in planned.pools.values()} == {"0-1"}
    assert all(decision.overlaps for decision in planned.decisions)


def test_where_every_cpu_is_reserved_all_but_system_containers_are_refused() -> None:
    holders = [_shared("web"), _reclaimed("batch"), HolderSpec("agent", HolderKind.SYSTEM, 0, pool="reserve")]
    planned = plan(TWO, holders, PoolDemand(reserved=TWO.ids), 0.0)
    assert planned.refused.keys() == {"web", "batch"}
    assert _text(planned, "agent") == "0-1"


def test_what_a_holder_has_is_not_moved_when_others_come() -> None:
    held = _dedicated("old", 2, cpus=parse_cpu_list("3,11"))
    planned = plan(FOUR_NODES, [_dedicated("a-new-one", 2), held], PoolDemand(), 0.0)
    assert _text(planned, "old") == "3,11"
    assert not planned.assignments["a-new-one"] & held.cpus


@st.composite
def _cases(draw: st.DrawFn) -> tuple[CpuMachine, list[HolderSpec], PoolDemand]:
    host = draw(machines())
    nodes = sorted(host.units(UnitLevel.NUMA))
    holders = []
    for number in range(draw(st.integers(0, 7))):
        kind = draw(st.sampled_from(HolderKind))
        bound = draw(st.sampled_from(nodes)) if draw(st.booleans()) else None
        holders.append(
            HolderSpec(
                f"h{number}",
                kind,
                draw(st.integers(0, 4000)) if kind is not HolderKind.DEDICATED else draw(st.integers(1, 3)) * 1000,
                pool=draw(st.sampled_from(["share", "other"])),
                admitted_at=draw(st.sampled_from([0.0, 90.0])),
                nodes=frozenset() if bound is None or kind is HolderKind.SYSTEM else frozenset({bound}),
                whole_nodes=draw(st.booleans()),
            )
        )
    before = st.builds(PoolInForce, st.sets(st.sampled_from(sorted(host.ids))).map(frozenset), st.just(20.0))
    reserved = draw(st.sets(st.sampled_from(sorted(host.ids)), max_size=len(host.ids)))
    demand = PoolDemand(
        reserved=frozenset(reserved),
        offered_milli=draw(st.none() | st.integers(0, 20_000)),
        loads=draw(st.dictionaries(st.sampled_from(["share", "other"]), st.builds(PoolLoad, st.integers(0, 9000)))),
        in_force=draw(st.dictionaries(st.sampled_from(["share", "other", "reclaim", "share-NUMA0"]), before)),
    )
    return host, holders, demand


@given(_cases())
@settings(max_examples=300)
def test_exclusive_is_exclusive_reserved_is_reserved_and_no_pool_is_empty(
    case: tuple[CpuMachine, list[HolderSpec], PoolDemand],
) -> None:
    host, holders, demand = case
    planned = plan(host, holders, demand, 100.0)
    assert planned == plan(host, holders[::-1], demand, 100.0)
    assert planned.assignments.keys() | planned.refused.keys() == {holder.key for holder in holders}
    dedicated = [holder.key for holder in holders if holder.kind is HolderKind.DEDICATED]
    for holder in holders:
        cpus = planned.assignments.get(holder.key)
        if cpus is None:
            continue
        assert cpus, holder
        assert cpus <= host.ids
        assert holder.kind is HolderKind.SYSTEM or not cpus & demand.reserved
        if holder.kind is HolderKind.DEDICATED and holder.nodes:
            assert cpus <= frozenset().union(*(host.units(UnitLevel.NUMA)[node] for node in holder.nodes))
        for other in dedicated:
            assert other == holder.key or not cpus & planned.assignments.get(other, frozenset())
    for name, cpus in planned.pools.items():
        assert cpus, name


@given(_cases(), st.integers(1, 2))
@settings(max_examples=100)
def test_to_allocate_and_to_remove_again_changes_nothing(
    case: tuple[CpuMachine, list[HolderSpec], PoolDemand], cpus: int
) -> None:
    host, holders, demand = case
    first = plan(host, holders, demand, 100.0)
    held = [
        replace(holder, cpus=first.assignments.get(holder.key, frozenset()))
        if holder.kind is HolderKind.DEDICATED
        else holder
        for holder in holders
        if holder.key not in first.refused
    ]
    before = plan(host, held, demand, 100.0)
    plan(host, [*held, _dedicated("another", cpus)], demand, 100.0)
    assert plan(host, held, demand, 100.0) == before
    assert before.assignments == first.assignments
