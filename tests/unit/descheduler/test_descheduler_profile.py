"""What a DeschedulerProfile comes to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.descheduler.usecases.descheduler_profile import DeschedulerProfileHooks
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.profile import ProfileScope
from slackwater.model.errors import InvalidInput
from slackwater.podmigration.jobs import MigrationMode

POOL = {"name": "all", "lowThresholds": {"cpu": 45}, "highThresholds": {"cpu": 75}}


def profile(**spec: Any) -> DeschedulerProfile:
    return DeschedulerProfile.parse({"metadata": {"name": "p"}, "spec": spec})


def test_a_profile_comes_to_ratios_and_seconds() -> None:
    declared = profile_of(
        profile(
            nodePool="gold",
            marginPercent=10,
            lowNodeLoad={"nodePools": [POOL], "load": "predicted"},
            rest={"loopMoves": 4},
            migrationMode="EvictDirectly",
        )
    )
    assert declared.low_node_load is not None
    assert (declared.margin, declared.low_node_load.margin, declared.rest.loop_moves) == (0.1, 0.1, 4)
    assert (declared.scope.pool, declared.mode) == ("gold", MigrationMode.EVICT_DIRECTLY)
    assert declared.low_node_load.pools[0].high == {"cpu": 75}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"lowNodeLoad": {"nodePools": [{**POOL, "lowThresholds": {"cpu": 80}}]}}, "must not be above highThresholds"),
        ({"lowNodeLoad": {"nodePools": [POOL, POOL]}}, "two pools have the same name"),
        ({"plugins": [{"name": "LowNodeLoad"}]}, "configured by lowNodeLoad"),
        ({"plugins": [{"name": "A"}, {"name": "A"}]}, "named twice"),
        ({"evictor": {"includeNamespaces": ["a"], "excludeNamespaces": ["b"]}}, "include or exclude"),
        ({"evictor": {"skipGates": ["PVC", "PVC"]}}, "twice"),
        ({"evictor": {"skipGates": ["Everything"]}}, "skipGates"),
        ({"intervalSeconds": 0}, "intervalSeconds"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        profile(**spec)


def test_pools_select_nodes_by_labels_and_expressions() -> None:
    expression = {"key": "zone", "operator": "NotIn", "values": ["b"]}
    written: list[dict[str, Any]] = [
        {"matchLabels": {"disk": "ssd"}, "matchExpressions": [expression]},
        {"matchLabels": {"disk": "ssd"}},
    ]
    pools = [{**POOL, "name": f"p{number}", "nodeSelector": selector} for number, selector in enumerate(written)]
    declared = profile_of(profile(lowNodeLoad={"nodePools": [*pools, POOL]}))
    assert declared.low_node_load is not None
    first, second, every = (pool.selector for pool in declared.low_node_load.pools)
    assert first is not None
    assert second is not None
    assert [first.matches({"disk": "ssd", "zone": zone}) for zone in "ab"] == [True, False]
    assert second.matches({"disk": "ssd", "zone": "b"})
    assert not second.matches({"zone": "b"})
    assert every is None


def test_an_unknown_plugin_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'Nothing' is no plugin; allowed"):
        DeschedulerProfileHooks().resolve(profile(plugins=[{"name": "Nothing"}]), None)


def test_a_larger_share_of_nodes_contains_the_smaller_one() -> None:
    nodes = [f"node-{number}" for number in range(300)]
    shares = [
        {node for node in nodes if ProfileScope(node_percent=percent).acts_on(node, "ns")}
        for percent in (0, 10, 50, 100)
    ]
    assert shares[0] == set()
    assert shares[1] < shares[2] < shares[3] == set(nodes)
    assert not ProfileScope(namespaces=frozenset({"a"})).acts_on(nodes[0], "b")
