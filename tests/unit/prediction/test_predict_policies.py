"""PredictPolicy documents: what they say, what is refused, and what a replica follows when one goes bad."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_scene import Lacking, Replica, document, model, policy
from tests.support.resources import MemoryResourceStore

from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound, Unavailable
from slackwater.prediction.adapters.predictors.catalogue import refuse_unusable
from slackwater.prediction.domain.policy import Cadence, PoolPolicies, PoolPolicy
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.predict_policy import PredictPolicy, first_document
from slackwater.resources.store import StoredResource


def test_a_document_says_everything_there_is_to_set() -> None:
    wish = policy(
        "gold",
        nodePool="Gold_A",
        models={"cpu": model("histogram", margin=0.2), "memory": model("nsigma-v1")},
        cadence={
            "histogramUpdateIntervalSeconds": 10,
            "reportingIntervalSeconds": 20,
            "checkPredictionIntervalSeconds": 5,
            "resourceDiffThreshold": 0.1,
            "forceUpdateIntervalSeconds": 99,
        },
        protectLSR=True,
    ).wish()
    assert (wish.name, wish.pool, wish.protect_lsr) == ("gold", "Gold_A", True)
    assert Cadence(**wish.cadence) == Cadence(10, 20, 5, 0.1, 99)
    assert wish.models["cpu"].settings == {"margin": 0.2}
    assert wish.models["memory"].name == "nsigma-v1"


def test_a_document_is_for_the_pool_of_its_name_unless_it_says_another() -> None:
    assert policy("gold").pool == "gold"
    assert policy("gold", nodePool="Ost.1").pool == "Ost.1"
    assert policy("default").pool is None


def test_a_rate_is_for_both_resources_or_for_one() -> None:
    assert policy("default", violationRate=0.01).wish().rates == {"cpu": 0.01, "memory": 0.01}
    assert policy("default", violationRate={"memory": 0.02}).wish().rates == {"memory": 0.02}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"violationRate": 0}, "violationRate"),
        ({"violationRate": 1.0}, "violationRate"),
        ({"cadence": {"resourceDiffThreshold": 1.5}}, "resourceDiffThreshold"),
        ({"cadence": {"reportingIntervalSeconds": 0}}, "reportingIntervalSeconds"),
        ({"cadence": {"often": 1}}, "often"),
        ({"protectLsr": True}, "protectLsr"),
        ({"models": {"disk": {"name": "x"}}}, "disk"),
        ({"nodePool": "gold"}, "is for every pool"),
        (
            {"violationRate": 0.01, "models": {"cpu": model("workload-profile", violation_rate=0.02)}},
            "say the same twice",
        ),
        ({"models": {"cpu": model("max", models=[["nsigma-v1", {"sigmas": float("inf")}]])}}, "not JSON compliant"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        policy("default", **spec)


def test_the_first_document_is_what_the_settings_say() -> None:
    settings = PredictionSettings(cpu_settings={"violation_rate": 0.02}, memory_model="histogram", check_seconds=7)
    first = first_document(settings.first_policy())
    assert first.wish().models["cpu"].settings == {"violation_rate": 0.02}
    assert first.spec.cadence is not None
    assert first.spec.cadence.check_prediction_interval_seconds == 7
    assert PredictPolicy.parse(first.stored()) == first


def test_the_settings_have_the_defaults_of_the_domain() -> None:
    assert PredictionSettings().first_policy() == PoolPolicy()


@given(
    st.dictionaries(st.sampled_from(["margin", "percentile"]), st.none() | st.floats(0.1, 0.9)),
    st.none() | st.booleans(),
)
def test_what_is_stored_is_read_back_the_same(settings: dict[str, Any], protect: bool | None) -> None:
    written = policy("gold", models={"cpu": model("histogram", **settings)}, protectLSR=protect)
    assert PredictPolicy.parse(written.stored()) == written


async def test_until_changed_the_clusters_document_follows_the_settings() -> None:
    """A demo's settings are gone with the demo."""
    store = MemoryResourceStore()
    first = await Replica(store, protect_lsr=True).open()
    assert (await first.change.read("default")).metadata.changed_by == "settings of the service"
    same = await Replica(store, protect_lsr=True).open()
    assert same.in_force.policies.cluster.generation == 1
    second = await Replica(store, cpu_model="histogram").open()
    assert not second.in_force.policies.cluster.protect_lsr
    assert second.in_force.policies.cluster.generation == 2
    await first.in_force.catch_up()
    assert first.in_force.policies == second.in_force.policies


async def test_once_changed_it_ignores_the_settings() -> None:
    store = MemoryResourceStore()
    first = await Replica(store).open()
    await first.change.put(policy("default", protectLSR=True), by="ann")
    second = await Replica(store, cpu_model="histogram").open()
    assert second.in_force.policies.cluster.protect_lsr
    shown = await second.change.read("default")
    assert (shown.metadata.generation, shown.metadata.changed_by) == (2, "ann")


async def test_a_change_is_followed_here_at_once_and_elsewhere_with_the_news() -> None:
    store = MemoryResourceStore()
    here, there = await Replica(store).open(), await Replica(store).open()
    done = await here.change.put(policy("gold", violationRate=0.01), by="ann")
    assert done.is_new
    assert done.document.status is not None
    assert done.document.status.observed_generation == 1
    assert here.in_force.policies.of("gold").cpu.settings == {"violation_rate": 0.01}
    assert here.heard[-1] == here.in_force.policies
    assert "gold" not in there.in_force.policies.pools
    await there.in_force.catch_up()
    assert there.in_force.policies == here.in_force.policies
    assert there.heard == [PoolPolicies(PoolPolicy()), PoolPolicies(PoolPolicy(generation=1)), here.heard[-1]]


async def test_predictors_are_notified_of_changes_only() -> None:
    here = await Replica(MemoryResourceStore()).open()
    told = len(here.heard)
    await here.in_force.catch_up()
    await here.change.put(policy("default", **(await here.change.read("default")).document()["spec"]))
    assert len(here.heard) == told


async def test_the_same_spec_again_keeps_its_generation_and_another_raises_it() -> None:
    here = await Replica(MemoryResourceStore()).open()
    await here.change.put(policy("gold", protectLSR=True))
    assert (await here.change.put(policy("gold", protectLSR=True))).document.metadata.generation == 1
    done = await here.change.put(policy("gold", 1, protectLSR=False), by="ann")
    assert (done.document.metadata.generation, done.document.metadata.changed_by) == (2, "ann")
    with pytest.raises(Conflict, match="1 was read, 2 is stored"):
        await here.change.put(policy("gold", 1, protectLSR=True))
    with pytest.raises(Conflict, match="3 was read, nothing is stored"):
        await here.change.put(policy("silver", 3))


async def test_trying_stores_nothing() -> None:
    here = await Replica(MemoryResourceStore()).open()
    tried = await here.change.put(policy("gold", violationRate=0.01), dry_run=True)
    assert (tried.document.metadata.generation, tried.is_new) == (1, True)
    assert [one.metadata.name for one in await here.change.all()] == ["default"]
    with pytest.raises(InvalidInput):
        await here.change.put(policy("gold", models={"cpu": model("none")}), dry_run=True)


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ({"models": {"cpu": model("prophet")}}, "predictor_unknown", "spec.models.cpu: model: 'prophet' is unknown"),
        ({"models": {"memory": model("nsigma-v1", sigmas=-1)}}, "predictor_settings", "spec.models.memory: .*sigmas"),
        ({"violationRate": 0.01, "models": {"cpu": model("nsigma-v1")}}, "invalid_input", "cannot be told a rate"),
        ({"models": {"cpu": model("max", models=[["what", {}]])}}, "predictor_unknown", "'what' is unknown"),
    ],
)
async def test_a_model_that_cannot_be_made_is_refused(spec: dict[str, Any], code: str, said: str) -> None:
    here = await Replica(MemoryResourceStore()).open()
    with pytest.raises(InvalidInput, match=said) as refused:
        await here.change.put(policy("gold", **spec))
    assert refused.value.code == code
    assert "gold" not in here.in_force.policies.pools


async def test_the_clusters_document_cannot_pull_the_ground_from_under_a_pool() -> None:
    here = await Replica(MemoryResourceStore()).open()
    await here.change.put(policy("gold", violationRate=0.01))
    with pytest.raises(InvalidInput, match="predictpolicy gold, which follows this one, could not be used any more"):
        await here.change.put(policy("default", models={"cpu": model("histogram")}))
    assert here.in_force.policies.cluster.cpu.name == "workload-profile"


async def test_what_the_clusters_document_leaves_out_follows_the_settings_not_what_was_before() -> None:
    here = await Replica(MemoryResourceStore(), check_seconds=11).open()
    await here.change.put(policy("default", cadence={"checkPredictionIntervalSeconds": 5}, protectLSR=True))
    assert here.in_force.policies.cluster.cadence.check_seconds == 5
    await here.change.put(policy("default"))
    assert here.in_force.policies.cluster.cadence.check_seconds == 11
    assert not here.in_force.policies.cluster.protect_lsr


async def test_a_pool_has_one_document() -> None:
    here = await Replica(MemoryResourceStore()).open()
    await here.change.put(policy("gold"))
    with pytest.raises(Conflict, match="pool 'gold' has the document gold") as refused:
        await here.change.put(policy("other", nodePool="gold"))
    assert refused.value.code == "node_pool_taken"


async def test_a_deleted_document_gives_its_pool_back_to_the_cluster_and_its_generations_go_on() -> None:
    here = await Replica(MemoryResourceStore()).open()
    await here.change.put(policy("gold", protectLSR=True))
    await here.change.delete("gold", dry_run=True)
    assert here.in_force.policies.of("gold").protect_lsr
    with pytest.raises(Conflict):
        await here.change.delete("gold", generation=7)
    await here.change.delete("gold", generation=1)
    assert here.in_force.policies.of("gold") == here.in_force.policies.cluster
    with pytest.raises(NotFound):
        await here.change.delete("gold")
    with pytest.raises(NotFound):
        await here.change.read("gold")
    again = await here.change.put(policy("gold", protectLSR=True))
    assert (again.document.metadata.generation, again.is_new) == (3, True)


async def test_the_clusters_document_stays() -> None:
    here = await Replica(MemoryResourceStore()).open()
    with pytest.raises(Conflict) as refused:
        await here.change.delete("default")
    assert refused.value.code == "predictpolicy_needed"


async def test_a_document_that_goes_bad_keeps_its_last_good_one() -> None:
    """A newer replica has written what this one cannot read, or a model that is installed only there."""
    store = MemoryResourceStore()
    here, poor = await Replica(store).open(), await Replica(store, Lacking("histogram")).open()
    await here.change.put(policy("gold", models={"cpu": model("nsigma-v1", sigmas=3)}))
    await poor.in_force.catch_up()
    good = poor.in_force.policies
    await here.change.put(policy("gold", models={"cpu": model("histogram")}))
    await poor.in_force.catch_up()
    assert poor.in_force.policies == good
    assert (poor.meter.followed, poor.meter.unusable) == (1, 1)
    status = (await poor.change.read("gold")).status
    assert status is not None
    assert (status.observed_generation, status.problem) == (1, "model histogram: is not installed here")
    store.rows["gold"] = StoredResource("gold", 3, {"spec": {"from": "the future"}})
    await here.in_force.catch_up()
    assert here.in_force.policies.of("gold").cpu.name == "histogram"
    assert [one.metadata.name for one in await here.change.all()] == ["default"]
    mended = await here.change.put(policy("gold", protectLSR=True))
    assert mended.document.metadata.generation == 4
    assert here.in_force.problems == {}


async def test_a_replica_that_starts_with_a_bad_document_follows_the_clusters_there() -> None:
    store = MemoryResourceStore()
    here = await Replica(store).open()
    await here.change.put(policy("gold", models={"cpu": model("histogram")}))
    poor = await Replica(store, Lacking("histogram")).open()
    assert poor.in_force.policies.of("gold") == poor.in_force.policies.cluster
    store.rows["default"] = StoredResource("default", 2, {"spec": 1})
    worst = await Replica(store, Lacking("histogram"), check_seconds=3).open()
    assert worst.in_force.policies.cluster.cadence.check_seconds == 3
    assert set(worst.in_force.problems) == {"default", "gold"}


def test_settings_that_cannot_be_used_are_refused_before_anything_runs() -> None:
    refuse_unusable(PredictionSettings())
    with pytest.raises(Misconfigured, match=r"SLACKWATER_PREDICTION_CPU_MODEL, .*'prophet' is unknown"):
        refuse_unusable(PredictionSettings(cpu_model="prophet"))
    with pytest.raises(Misconfigured, match=r"SLACKWATER_PREDICTION_MEMORY_SETTINGS: .* knob is -1"):
        refuse_unusable(PredictionSettings(memory_settings={"knob": -1}))


async def test_settings_that_name_no_model_stop_the_start() -> None:
    with pytest.raises(InvalidInput, match="'prophet' is unknown"):
        await Replica(MemoryResourceStore(), cpu_model="prophet").open()


async def test_while_the_store_is_away_all_stays_as_it_was() -> None:
    store = MemoryResourceStore()
    here = await Replica(store).open()
    before = here.in_force.policies
    store.away = True
    with pytest.raises(Unavailable):
        await here.in_force.catch_up()
    with pytest.raises(Unavailable):
        await here.change.put(policy("gold"))
    assert here.in_force.policies is before


def test_what_is_shown_can_be_applied_again() -> None:
    shown = policy("gold", protectLSR=True).model_dump(mode="json", by_alias=True)
    shown["status"] = {"observedGeneration": 3, "effective": None, "problem": ""}
    assert PredictPolicy.parse(shown).stored() == document("gold", protectLSR=True) | {
        "metadata": {"name": "gold", "generation": 0, "changedBy": ""}
    }
