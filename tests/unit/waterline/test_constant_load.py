"""Constant load under several rules at once: no state of the quotas comes back within a cool-down, and all that was
taken is given back to the very number of before when the load has gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import use, view
from waterline_rules import UNBOUND, at, policies

from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.cycle import CycleState, Options, run_cycle
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.policies.podqos import PodQosSpec
from slackwater.waterline.policies.values import PolicyAction, Rule

D = Decimal
ACTIONS = ("one", "two")
METRICS = ("node_cpu_usage", "node_cpu_usage_ratio", "batch_cpu_usage")
SECONDS = 30
Quotas = dict[tuple[str, str], int | None]
ratios = st.sampled_from([D(0), D("0.3"), D(1)])


@dataclass(frozen=True)
class Wish:
    """A pod: what its containers want, what they may have at most, and which actions it may suffer."""

    wanted: tuple[int, ...]
    originals: tuple[int | None, ...]
    allowed: frozenset[str]


wishes = st.builds(
    Wish,
    st.lists(st.sampled_from([0, 40, 700, 1500]), min_size=2, max_size=2).map(tuple),
    st.lists(st.sampled_from([None, 90_000, 123_456]), min_size=2, max_size=2).map(tuple),
    st.frozensets(st.sampled_from(ACTIONS)),
)
actions = st.builds(
    lambda floor, step, back: (ThrottleBounds(floor, step, floor, 10), RestoreBounds(back)),
    ratios,
    st.sampled_from([D("0.25"), D(1)]),
    st.sampled_from([D("0.1"), D(1)]),
)
rules = st.lists(
    st.builds(
        lambda metric, line, action, avoid, restore, cool: (metric, line, action, avoid, restore, cool),
        st.sampled_from(METRICS),
        st.integers(1, 9).map(lambda part: part * 500),
        st.sampled_from(ACTIONS),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from([0.0, 5.0, 10.0]),
    ),
    min_size=1,
    max_size=3,
)


def written(place: int, spec: tuple[str, int, str, int, int, float]) -> Rule:
    metric, line, action, avoid, restore, cool = spec
    level = D(line) / 10_000 if metric.endswith("ratio") else D(line)
    return Rule("nq", f"r{place}", metric, level, level, action, None, avoid, restore, cool)


def pods_of(load: list[Wish], quotas: Quotas) -> list[PodUse]:
    found = []
    for number, wish in enumerate(load):
        uid = f"p{number}"
        parts = tuple(
            _container(f"c{place}", want, original, quotas[uid, f"c{place}"])
            for place, (want, original) in enumerate(zip(wish.wanted, wish.originals, strict=True))
        )
        cpu = sum(int(one.usage_milli or 0) for one in parts)
        found.append(use(uid, cpu=cpu, containers=parts, labels=dict.fromkeys(wish.allowed, "1")))
    return found


def _container(name: str, want: int, original: int | None, quota: int | None) -> Container:
    used = want if quota is None else min(want, quota // 100)
    limit = None if original is None else original // 100
    return Container(name, used, quota, original, request_milli=300, limit_milli=limit)


@settings(max_examples=12)
@given(
    st.lists(wishes, min_size=1, max_size=3),
    rules,
    st.lists(actions, min_size=2, max_size=2),
    st.integers(0, 3000),
    st.sampled_from([D(0), D("0.1")]),
)
def test_no_state_returns_within_a_cool_down_and_all_goes_back(
    load: list[Wish],
    specs: list[tuple[str, int, str, int, int, float]],
    bounds: list[tuple[ThrottleBounds, RestoreBounds]],
    prod: int,
    excess: Decimal,
) -> None:
    known = tuple(PolicyAction(name, *how) for name, how in zip(ACTIONS, bounds, strict=True))
    allowed = tuple(
        PodQosSpec(label_selector=LabelSelector(match_labels={name: "1"}), allowed_actions=(name,)) for name in ACTIONS
    )
    asked = policies(*(written(place, spec) for place, spec in enumerate(specs)), actions=known, pods=allowed)
    options, state = Options(excess=Excess(excess), limits=UNBOUND), CycleState()
    before: Quotas = {
        (f"p{number}", f"c{place}"): original
        for number, wish in enumerate(load)
        for place, original in enumerate(wish.originals)
    }
    quotas, history = dict(before), [(0, dict(before))]
    for second in range(SECONDS + 100):
        is_loaded = second < SECONDS
        running = pods_of(load if is_loaded else [replace(one, wanted=(0, 0)) for one in load], quotas)
        total = (prod if is_loaded else 0) + sum(int(pod.cpu_usage_milli or 0) for pod in running)
        node = view(*running, at=second, node_cpu_usage=total, node_cpu_usage_ratio=total / 10_000)
        done = run_cycle(node, asked, state, at(second), options=options)
        state = done.state
        for change in (change for step in done.plan.steps for change in step.changes):
            quotas[change.uid, change.container] = change.after_us
        history.append((second, dict(quotas)))
    loaded = [one for one in history if one[0] < SECONDS]
    changes = [(when, now) for (_, was), (when, now) in pairwise(loaded) if was != now]
    shortest = min(spec[5] for spec in specs)
    for place, (when, now) in enumerate(changes):
        assert not any(now == was and when - earlier < shortest for earlier, was in changes[:place])
    assert quotas == before
