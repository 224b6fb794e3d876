"""Chains of comparators: total, stable, deterministic, and recombined as one likes."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import NOON, crowds, use

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.analysis.demands import Exposed
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering import chains as by
from slackwater.waterline.ordering.chains import CHAINS, CPU, GENERAL, MEMORY, ComparatorChain
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector

COMPARATORS = [value for value in vars(by).values() if isinstance(value, by.Comparator)]
chains = st.sampled_from(sorted(CHAINS)).map(lambda name: CHAINS[name]) | st.lists(
    st.sampled_from(COMPARATORS), max_size=4
).map(lambda chosen: ComparatorChain("own", tuple(chosen)))


@settings(max_examples=40)
@given(crowds, chains, st.integers())
def test_an_order_does_not_depend_on_the_order_of_its_input(
    crowd: list[PodUse], chain: ComparatorChain, seed: int
) -> None:
    shuffled = list(crowd)
    Random(seed).shuffle(shuffled)
    assert chain.order(shuffled) == chain.order(crowd)
    assert sorted(pod.uid for pod in chain.order(crowd)) == sorted(pod.uid for pod in crowd)


@settings(max_examples=40)
@given(crowds, chains)
def test_the_first_comparator_that_decides_counts(crowd: list[PodUse], chain: ComparatorChain) -> None:
    for one, other in pairwise(chain.order(crowd)):
        verdicts = [comparator.compare(one, other) for comparator in chain.comparators]
        decided = next((verdict for verdict in verdicts if verdict), None)
        assert decided == -1 or (decided is None and one.uid < other.uid)


@settings(max_examples=40)
@given(crowds, st.sampled_from(COMPARATORS))
def test_every_comparator_is_transitive_and_turns(crowd: list[PodUse], comparator: by.Comparator) -> None:
    for a in crowd:
        for b in crowd:
            assert comparator.compare(a, b) == -comparator.compare(b, a) == -comparator.turned().compare(a, b)
            for c in crowd:
                if comparator.compare(a, b) <= 0 and comparator.compare(b, c) <= 0:
                    assert comparator.compare(a, c) <= 0


@pytest.mark.parametrize(
    ("chain", "first", "second"),
    [
        (GENERAL, use("z", Tier.FREE), use("a", Tier.BATCH)),
        (GENERAL, use("z", qos=QoSClass.BE, priority=5999), use("a", qos=QoSClass.LS, priority=5000)),
        (GENERAL, use("z", priority=5000), use("a", priority=5999)),
        (GENERAL, use("z", started_at=NOON), use("a", started_at=NOON - timedelta(seconds=1))),
        (GENERAL, use("z", started_at=None), use("a")),
        (CPU, use("z", cpu=501), use("a", cpu=500)),
        (CPU, use("z", extended_cpu_limit_milli=1000), use("a", extended_cpu_limit_milli=4000)),
        (CHAINS["extended-cpu"], use("z", cpu=9, extended_cpu_limit_milli=10), use("a", cpu=900)),
        (MEMORY, use("z", memory=2, cpu=1), use("a", memory=1, cpu=2)),
    ],
)
def test_the_order_of_victims(chain: ComparatorChain, first: PodUse, second: PodUse) -> None:
    assert chain.order([second, first]) == [first, second]


def test_two_chains_of_one_name_are_two_orders() -> None:
    """A plug-in may put a comparator behind a built-in chain and keep its name."""
    old, young = use("a", cpu=5), use("b", cpu=5, started_at=NOON)
    exposed = Exposed([old, young], [PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=("throttle",))])
    youngest = [one.pod.uid for _, one in exposed.ranked(CPU)]
    oldest = [one.pod.uid for _, one in exposed.ranked(ComparatorChain("cpu", (by.RUNNING_TIME.turned(),)))]
    assert (youngest, oldest) == (["b", "a"], ["a", "b"])


def test_chains_are_recombined_and_say_what_they_are() -> None:
    newest_big_first = ComparatorChain("own", (by.RUNNING_TIME,)).then(by.CPU_USAGE.turned(), name="newest")
    small, big = use("b", cpu=1), use("a", cpu=2)
    assert newest_big_first.order([big, small]) == [small, big]
    assert str(newest_big_first) == "started later, more CPU used (turned), uid"
    assert newest_big_first.keys(small)[1] == 1_000_000


PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "waterlines.md"
STATED = dict(re.findall(r"^- `([a-z-]+)`: (.+)$", PAGE.read_text().partition("## Orders")[2], re.MULTILINE))


@pytest.mark.parametrize("name", ["general", "cpu", "extended-cpu", "memory", "priority-first", "best-effort-cpu"])
def test_the_page_states_each_order_as_it_is(name: str) -> None:
    words = [one.name.removeprefix("lower ") for one in CHAINS[name].comparators]
    assert STATED[name] == ", ".join(words)
