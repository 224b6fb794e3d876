"""What ElasticQuotas and QuotaProfiles come to, and what is refused of several together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kinds import KindScene

from slackwater.fairshare.documents import ElasticQuota, QuotaProfile, amount_of, pool_of, quota_of
from slackwater.fairshare.tree import ROOT
from slackwater.model.errors import Conflict, InvalidInput
from slackwater.model.quantities import format_cpu
from slackwater.quota.usecases.quota_documents import ElasticQuotaHooks
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA
from slackwater.resources.kinds.quota_profile import QUOTA_PROFILE


def quota(name: str, **spec: Any) -> ElasticQuota:
    return ElasticQuota.parse({"metadata": {"name": name}, "spec": spec})


ORG = quota("org", isParent=True, min={"cpu": 10}, max={"cpu": 20})
TEAM = quota("team", parent="org", min={"cpu": 6}, max={"cpu": 30})


async def scene(claims: Mapping[str, int] | None = None) -> KindScene:
    async def count() -> Mapping[str, int]:
        return claims or {}

    found = await KindScene(ELASTIC_QUOTA, ElasticQuotaHooks(count)).open()
    await found.change.put_all([ORG, TEAM])
    return found


def test_a_quota_comes_to_integers_in_the_units_of_the_ledger() -> None:
    spec = {
        "min": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2},
        "max": {"cpu": 1.5},
        "sharedWeight": {"cpu": 3},
    }
    declared = quota_of(quota("a", **spec, allowLentResource=False, queuePolicy="StrictFIFO", nonPreemptible=True))
    assert declared.quota.minimum == {"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 2}
    assert (declared.quota.maximum, declared.quota.weight) == ({"cpu": 1500}, {"cpu": 3000})
    assert (declared.quota.parent, declared.quota.lends) == (ROOT, False)
    assert (declared.strict_fifo, declared.non_preemptible) == (True, True)


@pytest.mark.parametrize(
    ("weight", "comes_to"),
    [
        ({"cpu": 3}, {"cpu": 3000, "memory": 8}),
        ({"cpu": 3, "gpu": 1}, {"cpu": 3000, "memory": 8, "gpu": 1}),
        ({"cpu": 3, "gpu": 0}, {"cpu": 3000, "memory": 8}),
        ({"cpu": 0}, {"cpu": 0, "memory": 8}),
        ({"cpu": 0, "memory": 0}, {"cpu": 5000, "memory": 8}),
        ({}, {"cpu": 5000, "memory": 8}),
    ],
)
def test_a_resource_that_the_weight_does_not_name_has_its_max(weight: Any, comes_to: Any) -> None:
    declared = quota_of(quota("a", max={"cpu": 5, "memory": 8}, sharedWeight=weight))
    assert declared.quota.shared_weight == comes_to


@given(st.integers(0, 10**10))
def test_what_is_printed_is_read_as_the_same_amount(milli: int) -> None:
    assert amount_of("batch-cpu", format_cpu(milli)) == milli


@pytest.mark.parametrize("written", ["-1", "1.0005", "1e30", "many"])
def test_an_amount_is_a_whole_unit_of_the_ledger(written: str) -> None:
    with pytest.raises(InvalidInput, match=r"spec\.min"):
        quota("a", min={"cpu": written})


def test_a_profile_names_itself_where_it_names_nothing() -> None:
    pool = pool_of(QuotaProfile.parse({"metadata": {"name": "gold"}, "spec": {}}))
    assert (pool.tree, pool.pool, pool.percent) == ("gold", "gold", 100)


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        (
            quota("b", parent="org", min={"cpu": 5}, max={"cpu": 5}),
            "spec.min.cpu",
            "promised 11 cpu, its own min is 10",
        ),
        (
            quota("org", isParent=True, parent="team", min={"cpu": 10}, max={"cpu": 20}),
            "spec.parent",
            "its own ancestor",
        ),
        (quota("org", min={"cpu": 10}, max={"cpu": 20}), "spec.isParent", "1 children"),
        (quota("b", parent="team"), "spec.parent", "isParent"),
        (quota("org", isParent=True, tree="x", min={"cpu": 10}, max={"cpu": 20}), "spec.tree", "stays in its tree"),
    ],
)
async def test_what_breaks_the_tree_is_refused_with_its_numbers_and_not_stored(
    wanted: ElasticQuota, field: str, words: str
) -> None:
    found = await scene()
    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match=words) as refused:
            await found.change.put(wanted, dry_run=dry_run)
        assert (refused.value.code, wanted.name in refused.value.message) == ("quota_refused", True)
        assert field in refused.value.message
    assert found.store.rows["org"].generation == 1
    assert "b" not in found.store.rows


async def test_a_tree_changes_in_one_request_where_no_order_of_single_changes_would_do() -> None:
    found = await scene()
    smaller = quota("org", isParent=True, min={"cpu": 5}, max={"cpu": 20})
    with pytest.raises(InvalidInput):
        await found.change.put(smaller)
    await found.change.put_all([smaller, quota("team", parent="org", min={"cpu": 5}, max={"cpu": 30})])
    assert found.in_force.now.values["org"].quota.minimum == {"cpu": 5000}


async def test_a_quota_with_children_or_claims_stays() -> None:
    found = await scene({"team": 2})
    for name, words in (("org", "1 children"), ("team", "2 claims")):
        with pytest.raises(Conflict, match=words) as refused:
            await found.change.delete(name)
        assert refused.value.code == "quota_in_use"
    with pytest.raises(Conflict) as refused:
        await found.change.delete("default")
    assert refused.value.code == "elasticquota_needed"
    assert (await (await scene()).change.delete("team")).document is None


async def test_a_tree_has_one_profile() -> None:
    found = await KindScene(QUOTA_PROFILE).open()
    await found.change.put(QuotaProfile.parse({"metadata": {"name": "gold"}, "spec": {}}))
    with pytest.raises(Conflict, match="tree gold is that of quotaprofile gold") as refused:
        await found.change.put(QuotaProfile.parse({"metadata": {"name": "blue"}, "spec": {"tree": "gold"}}))
    assert refused.value.code == "quota_tree_taken"


POOL = {"cpu": 60_000, "memory": 2**37}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (quota("a", max={"nvidia.com/gpu": 8}), "no node has nvidia.com/gpu: claims for it wait until one has"),
        (quota("a", min={"gpu": 1, "cpu": 1}, max={"gpu": 1, "cpu": 1}), "no node has gpu"),
        (quota("a", min={"cpu": 80}, max={"cpu": 90}), "min 80 cpu is more than the 60 of all nodes"),
        (quota("a", min={"cpu": 60}, max={"cpu": 90}), ""),
        (quota("a", max={"memory": "1Gi"}), ""),
    ],
)
async def test_what_no_node_has_is_said_when_it_is_tried_and_when_it_is_stored(
    document: ElasticQuota, words: str
) -> None:
    found = await scene()
    hooks = found.change.hooks
    assert isinstance(hooks, ElasticQuotaHooks)
    totals: dict[str, Mapping[str, int]] = {}
    hooks.follow(hooks._claims, hooks._claims_for_change, hooks._preview, lambda: totals)
    assert (await found.change.put(document, dry_run=True)).notice == "", "before any node is known nothing is"
    totals[""] = POOL
    tried = await found.change.put(document, dry_run=True)
    stored = await found.change.put(document)
    assert tried.notice == stored.notice
    assert words in tried.notice
    assert bool(tried.notice) == bool(words)
