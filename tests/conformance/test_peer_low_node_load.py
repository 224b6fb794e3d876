"""The readable round of the peer's LowNodeLoad: with all of our differences it decides as the product does, and a case
whose answer is the peer's own names what differs.
"""

from __future__ import annotations

from typing import Any

import pytest
from files import ADAPTORS, judge
from hypothesis import given, settings
from hypothesis import strategies as st
from koord_load_rounds import gate_of, peers_round
from koord_low_node_load import node_of, pod_of
from peer_low_node_load import OURS

from slackwater.descheduling.evictability import EvictorSettings
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool, balance
from slackwater.descheduling.placement import ClusterPlacement

LOW, HIGH = {"cpu_m": 30, "pods": 30}, {"cpu_m": 50, "pods": 50}
PROD_LOW, PROD_HIGH = {"cpu_m": 20, "pods": 20}, {"cpu_m": 30, "pods": 30}
BATCH = {"koordinator.sh/priority-class": "koord-batch"}


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """A hot node and one that may take its pods: with a single target its choice decides nothing."""
    amounts = st.sampled_from([0, 100, 400, 800])
    names = [f"p{number}" for number in range(draw(st.integers(1, 9)))]
    return {
        "low": LOW,
        "high": {"cpu_m": draw(st.sampled_from([50, 70])), "pods": draw(st.sampled_from([50, 80]))},
        "prod_low": PROD_LOW,
        "prod_high": PROD_HIGH,
        "number_of_nodes": draw(st.integers(0, 1)),
        "node_fit": draw(st.booleans()),
        "nodes": [
            {"name": name, "alloc": {"cpu_m": 4000, "memory": 3000, "pods": draw(st.sampled_from([5, 9, 20]))}}
            for name in ("n1", "n2")
        ],
        "pods": [
            {
                "name": name,
                "node": draw(st.sampled_from(["n1", "n1", "n1", "n2"])),
                "requests": {"cpu_m": draw(amounts), "memory": 0},
                "usage": {"cpu_m": draw(amounts), "memory": 0},
                "k8s_qos": "Burstable",
                "labels": draw(st.sampled_from([{}, BATCH])),
                "created": number,
            }
            for number, name in enumerate(names)
        ],
    }


@settings(max_examples=300, deadline=None)
@given(clusters())
def test_with_all_differences_it_decides_as_the_product(case: dict[str, Any]) -> None:
    nodes = [node_of(node) for node in case["nodes"]]
    pods = [pod_of(pod) for pod in case["pods"]]
    cluster = ClusterPlacement(nodes, {node.name: [pod for pod in pods if pod.node == node.name] for node in nodes})
    pool = LowNodeLoadPool("all", case["low"], case["high"], case["prod_low"], case["prod_high"])
    args = LowNodeLoadArgs(
        [pool], number_of_nodes=case["number_of_nodes"], node_fit=case["node_fit"], anomaly=None, margin=0.0
    )
    plan = balance(cluster, args, {}, 0.0, gate_of(EvictorSettings(), case))
    gone = peers_round(cluster, args, gate_of(EvictorSettings(), case), ())
    assert gone == sorted(proposal.pod.name for proposal in plan.proposals)


def cluster_of(hot: list[dict[str, Any]], cool: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    alloc = {"cpu_m": 4000, "memory": 3000, "pods": 20}
    pods = [
        {"usage": {"cpu_m": 400}, "requests": {"cpu_m": 400}, "k8s_qos": "Burstable", **pod, "node": node}
        for node, given in (("n1", hot), ("n2", cool))
        for pod in given
    ]
    nodes = [{"name": name, "alloc": alloc} for name in ("n1", "n2")]
    return {"low": {"cpu_m": 30}, "high": {"cpu_m": 50}, "nodes": nodes, "pods": pods, **more}


def named(prefix: str, count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"{prefix}{number}", **more} for number in range(count)]


PROD = {"prod_low": {"cpu_m": 20}, "prod_high": {"cpu_m": 25}}


@pytest.mark.parametrize(
    ("case", "evicted", "anchors"),
    [
        (cluster_of(named("p", 6), named("q", 2)), 1, ()),
        # prod uses 800 of 1,000 on the target: a prod pod of 400 has no room there
        (cluster_of(named("p", 6), named("q", 2), **PROD), 1, ("prod-room-on-the-target",)),
        # what is listed first reserves all that is left, though the two behind it go first
        (
            cluster_of(
                [*named("p", 2, usage={"cpu_m": 700}), *named("b", 5, labels=BATCH)], named("q", 2), high={"cpu_m": 60}
            ),
            2,
            ("headroom-of-what-moves",),
        ),
        (cluster_of(named("p", 6), [], number_of_nodes=1), 0, ()),
        (
            cluster_of(named("p", 5, usage={"cpu_m": 100, "memory": 200}), [], high={"cpu_m": 50, "memory": 20}),
            0,
            ("high-without-low",),
        ),
    ],
)
def test_what_differs_is_named(case: dict[str, Any], evicted: int, anchors: tuple[str, ...]) -> None:
    family = ADAPTORS["koord-descheduler-vectors/1"]["low_node_load"]
    verdict = judge(family, {"id": "x", "kind": "low_node_load", "in": case, "out": {"evicted_count": evicted}})
    assert verdict.anchors == anchors, verdict.why
    assert set(anchors) <= {*OURS, "high-without-low"}
