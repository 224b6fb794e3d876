"""Victims when several rules evict at once: as few as close each gap, each needed by a rule of its own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from waterline_crowd import use, view
from waterline_cycle import CPU, MEMORY, batch_crowds, cycle, evicted
from waterline_rules import EVICT, EXACT, UNBOUND, at, policies, rule

from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.cycle import CycleState, run_cycle
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.policies.podqos import PodQosSpec

ACTIONS = ("lax", "strict")
Asked = tuple[str, str, int]
"""A metric, the action that a pod's labels have to allow, and the gap."""


def pod(uid: str, cpu: int | None, memory: int | None, priority: int, allowed: frozenset[str]) -> PodUse:
    return use(uid, cpu=cpu, memory=memory, priority=priority, labels=dict.fromkeys(allowed, "1"))


amounts = st.none() | st.integers(0, 9).map(lambda number: number * 100)
pods = st.lists(
    st.builds(
        pod, st.uuids().map(str), amounts, amounts, st.integers(5000, 5002), st.frozensets(st.sampled_from(ACTIONS))
    ),
    max_size=5,
    unique_by=lambda one: one.uid,
)
rules = st.lists(
    st.tuples(
        st.sampled_from([CPU, MEMORY]), st.sampled_from(ACTIONS), st.integers(1, 12).map(lambda number: number * 100)
    ),
    min_size=1,
    max_size=4,
    unique=True,
)
BOTH = frozenset(ACTIONS)
LAX = frozenset({"lax"})


@settings(max_examples=60)
@given(pods, rules)
@example([pod("x", 100, 0, 5000, LAX), pod("y", 200, 0, 5001, LAX)], [(CPU, "lax", 200), (CPU, "strict", 1200)])
@example([pod("x", 100, 100, 5000, LAX), pod("y", 200, 0, 5001, LAX)], [(CPU, "lax", 200), (MEMORY, "strict", 1200)])
@example([pod("x", 0, 100, 5000, BOTH), pod("y", 200, 0, 5001, BOTH)], [(CPU, "lax", 200), (MEMORY, "lax", 100)])
@example(
    [
        pod("w", 100, 0, 5000, LAX),
        pod("x", 200, 0, 5001, LAX),
        pod("y", 200, 0, 5002, frozenset({"strict"})),
        pod("z", 200, 0, 5003, frozenset({"strict"})),
    ],
    [(CPU, "lax", 200), (CPU, "strict", 500)],
)
def test_each_pod_is_evicted_for_a_gap_of_its_own_rules_and_none_in_vain(
    crowd: list[PodUse], asked: list[Asked]
) -> None:
    """Brute force over single pods: what one releases less, no part of the others releases."""
    written = [rule(metric, 5000 - gap, action, name=f"r{place}") for place, (metric, action, gap) in enumerate(asked)]
    allowed = tuple(
        PodQosSpec(label_selector=LabelSelector(match_labels={action: "1"}), allowed_actions=(action,))
        for action in ACTIONS
    )
    known = tuple(replace(EVICT, name=action) for action in ACTIONS)
    done = cycle(policies(*written, actions=known, pods=allowed), *crowd, **{CPU: 5000, MEMORY: 5000})
    gone = [one for one in crowd if one.uid in evicted(done)]
    for one in crowd:
        rest = [each for each in gone if each is not one]
        closed = all(
            gap <= released(rest, metric)
            for metric, action, gap in asked
            if action in one.labels and released([one], metric)
        )
        helps = any(
            released(rest, metric) < gap <= released(gone, metric)
            for metric, action, gap in asked
            if any(action in each.labels for each in crowd)
        )
        assert closed or one in gone, "it may help, and was left"
        assert not (closed and one in gone) or helps, "it is not needed"


def released(gone: list[PodUse], metric: str) -> int:
    return int(sum((one.cpu_usage_milli if metric == CPU else one.memory_usage_bytes) or 0 for one in gone))


@settings(max_examples=30)
@given(batch_crowds, st.integers(1, 3), st.integers(1, 2500), st.integers(0, 2500))
@example([use("a", cpu=100, priority=5000), use("b", cpu=500, priority=5001)], 1, 500, 0)
def test_a_cap_per_cycle_spreads_evictions_over_time_and_adds_none(
    crowd: list[PodUse], cap: int, cpu: int, memory: int
) -> None:
    asked = policies(rule(CPU, 1000, "evict"), rule(MEMORY, 1000, "evict"))
    readings = {CPU: 1000 + cpu, MEMORY: 1000 + memory}
    capped = replace(EXACT, limits=replace(UNBOUND, evictions_per_cycle=cap))
    state, gone = CycleState(), list[str]()
    for second in range(8):
        done = cycle(asked, *crowd, state=state, when=second, options=capped, **readings)
        state, gone = done.state, gone + evicted(done)
    assert sorted(gone) == sorted(evicted(cycle(asked, *crowd, **readings)))


def test_a_replacement_after_a_refusal_makes_no_other_victim_unnecessary() -> None:
    """Without `a` it evicts `c`, which is enough alone: `b` was planned together with `a`."""
    crowd = [
        use(name, cpu=cpu, priority=place) for place, (name, cpu) in enumerate([("a", 300), ("b", 200), ("c", 500)])
    ]
    refused = cycle(
        policies(rule(CPU, 1000, "evict")), *crowd, attempt=lambda one: "no" if one.uid == "a" else None, **{CPU: 1500}
    )
    assert evicted(refused) == ["c"]


def test_every_unnecessary_victim_is_dropped_not_only_the_first() -> None:
    crowd = [
        use(name, cpu=cpu, priority=place)
        for place, (name, cpu) in enumerate(zip("abcd", (100, 100, 100, 300), strict=True))
    ]
    assert evicted(cycle(policies(rule(CPU, 1000, "evict")), *crowd, **{CPU: 1350})) == ["a", "d"]


def test_the_smallest_release_counts_and_every_other_pod_has_a_reason() -> None:
    crowd = [use("a", cpu=1, priority=2), use("b", cpu=None, priority=1), use("c", eviction_enabled=False), use("d")]
    told = []
    for reading, cap in ((1001, 1), (1600, 1), (1600, None)):
        limits = replace(UNBOUND, evictions_per_cycle=cap)
        one = cycle(policies(rule(CPU, 1000, "evict")), *crowd, options=replace(EXACT, limits=limits), **{CPU: reading})
        (left,) = one.plan.remaining
        told.append((evicted(one), left.because, [spared.because for spared in one.plan.spared]))
    refused, closed, nothing = (
        "it does not let itself be evicted",
        "the gap is closed",
        "it would release nothing that was measured",
    )
    capped = "no more than 1 evictions in one cycle"
    assert told == [
        (["a"], "", [closed, refused, closed]),
        (["a"], capped, [nothing, refused, capped]),
        (["a", "d"], "every pod that may be evicted was, releases nothing or was refused", [nothing, refused]),
    ]


def test_an_unquantified_metric_keeps_no_unnecessary_victim() -> None:
    crowd = [use("a", cpu=100, memory=10, priority=5000), use("b", cpu=500, memory=10, priority=5001)]
    node = replace(view(*crowd, node_cpu_usage=1500, node_memory_usage_ratio=0.9), capacity_bytes=None)
    asked = policies(rule(CPU, 1000, "evict"), rule("node_memory_usage_ratio", "0.5", "evict"))
    assert evicted(run_cycle(node, asked, CycleState(), at(0), options=EXACT)) == ["b"]


def test_all_that_cannot_be_quantified_shares_one_bound() -> None:
    node = view(*map(use, "abcd"), node_memory_pressure=0.9, node_io_pressure=0.9)
    asked = policies(rule("node_memory_pressure", "0.5", "evict"), rule("node_io_pressure", "0.5", "evict"))
    one = replace(EXACT, limits=replace(UNBOUND, blanket_evictions=1))
    assert evicted(run_cycle(node, asked, CycleState(), at(0), options=one)) == ["a"]


def test_a_refusal_does_not_begin_the_bound_anew() -> None:
    node = view(*map(use, "abcd"), node_memory_pressure=0.9)
    two = replace(EXACT, limits=replace(UNBOUND, blanket_evictions=2))

    def attempt(one: PodUse) -> str | None:
        return "its budget is used up" if one.uid == "b" else None

    asked = policies(rule("node_memory_pressure", "0.5", "evict"))
    assert evicted(run_cycle(node, asked, CycleState(), at(0), options=two, attempt=attempt)) == ["a", "c"]
