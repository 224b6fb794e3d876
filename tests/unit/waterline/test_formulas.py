"""What a metric says it computes is what it computes: its words are evaluated, and its facts put in."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.node import BestEffortCpu, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metric, difference

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SMALLER = ", the smaller of window and last"


def by_words(metric: Metric, view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal:
    """The formula as Python, over what the record shows of the view."""
    known = {one.name: Decimal(str(one.value)) for one in metric.basis(view) if one.value is not None}
    known |= {"reading": reading, "target": target, "capacity": Decimal(view.capacity_milli or 0)}
    known["prod_usage"] = Decimal(str(view.prod_usage_milli))
    words = metric.formula.removesuffix(SMALLER).replace(" x ", " * ").replace("0.9", 'Decimal("0.9")')
    if not metric.formula.endswith(SMALLER):
        return value_of(words, known)
    both = [
        value_of(words, known | {name: known[f"{name}_{when}"] for name in ("requested", "may_use")})
        for when in ("window", "last")
    ]
    return min(both)


def value_of(words: str, known: dict[str, Decimal]) -> Decimal:
    found = eval(words, {"min": min, "Decimal": Decimal}, known)  # noqa: S307 - our own formulas
    assert isinstance(found, Decimal)
    return found


def view(prod: int, used: int, requested: int, may_use: int) -> NodeReadings:
    starved = BestEffortCpu(used, requested, may_use, may_use)
    pods = tuple(
        PodUse(f"u{tier}", f"n-{tier}", tier=tier, qos=QoSClass.BE, cpu_usage_milli=used,
               extended_cpu_request_milli=requested, extended_memory_request_bytes=requested << 20)
        for tier in (Tier.BATCH, Tier.MID)
    )  # fmt: skip
    return NodeReadings(
        "n1", NOON, {}, 8000, 32 << 30, pods, {}, prod, starved, starved, may_use, may_use << 20, may_use, may_use << 20
    )


@pytest.mark.parametrize("metric", list(BUILT_IN), ids=lambda one: str(one.name))
def test_a_release_of_its_own_has_words_of_its_own(metric: Metric) -> None:
    assert (metric.formula == "reading - target") == (metric.release is difference)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(BUILT_IN.names())),
    st.integers(1, 8000),
    st.integers(900, 4000),
    st.integers(1001, 2000),
    st.decimals(Decimal("0.3"), Decimal("0.98"), places=2),
    st.decimals(Decimal("0.05"), Decimal("0.29"), places=2),
)
def test_the_words_of_a_metric_compute_what_it_releases(
    name: str, prod: int, requested: int, may_use: int, reading: Decimal, target: Decimal
) -> None:
    metric = BUILT_IN.get(name)
    assert metric is not None
    node = view(prod, may_use, max(requested, may_use), may_use)
    released = metric.release(node, reading, target)
    assert released is not None
    assert abs(released - by_words(metric, node, reading, target)) <= 1
