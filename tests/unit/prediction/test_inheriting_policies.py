"""What a pool leaves out follows the cluster's; what the cluster's leaves out follows the settings."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicy
from slackwater.prediction.domain.policy_inheritance import RATE, PolicyOverrides, effective, in_force

RESOURCES = ("cpu", "memory")
choices = st.builds(
    ModelChoice,
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["x", RATE]), st.floats(0.01, 0.9), max_size=2),
)
cadences = st.dictionaries(
    st.sampled_from([field.name for field in fields(Cadence)]), st.floats(0.1, 900.0), max_size=5
)
policies = st.builds(
    PoolPolicy, st.just("above"), st.integers(0, 9), choices, choices, st.builds(Cadence), st.booleans()
)


@st.composite
def wishes(draw: st.DrawFn, pool: str | None = "gold") -> PolicyOverrides:
    return PolicyOverrides(
        name="default" if pool is None else f"for-{pool}",
        generation=draw(st.integers(1, 99)),
        pool=pool,
        models=draw(st.dictionaries(st.sampled_from(RESOURCES), choices)),
        rates=draw(st.dictionaries(st.sampled_from(RESOURCES), st.floats(0.001, 0.5))),
        cadence=draw(cadences),
        protect_lsr=draw(st.none() | st.booleans()),
    )


@given(wishes(), policies)
def test_every_field_is_the_documents_or_the_one_above(wish: PolicyOverrides, above: PoolPolicy) -> None:
    found = effective(wish, above)
    assert (found.name, found.generation) == (wish.name, wish.generation)
    assert found.protect_lsr == (above.protect_lsr if wish.protect_lsr is None else wish.protect_lsr)
    for field in fields(Cadence):
        assert getattr(found.cadence, field.name) == wish.cadence.get(field.name, getattr(above.cadence, field.name))
    for resource in RESOURCES:
        choice = wish.models.get(resource, above.model_of(resource))
        assert found.model_of(resource).name == choice.name
        assert {**found.model_of(resource).settings} == {
            **choice.settings,
            **({RATE: wish.rates[resource]} if resource in wish.rates else {}),
        }


@given(policies)
def test_an_empty_document_changes_nothing_but_whose_it_is(above: PoolPolicy) -> None:
    assert effective(PolicyOverrides("empty", 3, "gold"), above) == replace(above, name="empty", generation=3)


@given(wishes())
def test_saying_it_twice_says_no_more(wish: PolicyOverrides) -> None:
    once = effective(wish, PoolPolicy())
    assert effective(wish, once) == once


@given(st.permutations(["gold", "silver", None]), st.data())
def test_the_order_of_the_documents_does_not_matter(order: list[str | None], data: st.DataObject) -> None:
    known = {pool: data.draw(wishes(pool)) for pool in ("gold", "silver", None)}
    found = in_force([known[pool] for pool in order])
    cluster = effective(known[None], PoolPolicy())
    assert found.cluster == cluster
    assert found.pools == {pool: effective(known[pool], cluster) for pool in ("gold", "silver")}
    assert found.of("bronze") == cluster


def test_a_model_of_its_own_leaves_the_rate_above_behind() -> None:
    """A document that sets a knob does not inherit the cluster's rate, which would replace it."""
    cluster = effective(PolicyOverrides("default", 1, rates={"cpu": 0.01}), PoolPolicy())
    assert cluster.cpu.settings == {RATE: 0.01}
    gold = effective(
        PolicyOverrides("gold", 1, "gold", models={"cpu": ModelChoice("workload-profile", {"knob": 0.2})}), cluster
    )
    assert gold.cpu.settings == {"knob": 0.2}
    silver = effective(PolicyOverrides("silver", 1, "silver", rates={"cpu": 0.02}), cluster)
    assert silver.cpu.settings == {RATE: 0.02}
