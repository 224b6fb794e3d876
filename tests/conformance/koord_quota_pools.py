"""Areas `quota.multi_tree`, `quota.profile` and `quota.profile_multiply`: what the trees of a cluster may give out.

A peer's profile is read by the importer, as a user brings it along; the nodes are folded from their events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shapes import bounded
from tests.support.clock import EPOCH
from tests.support.reports import described
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.view import ClusterView
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.fairshare.documents import QuotaPool, QuotaProfile, pool_of
from slackwater.fairshare.tree import Amounts, added
from slackwater.koordinator.conversion_report import ConvertedDocument, ImportOutcome, ReportLine
from slackwater.koordinator.quota_objects import PREFIX, quotas
from slackwater.koordinator.source_objects import SourceObject
from slackwater.model.nodes import Liveness
from slackwater.quota.domain.pool_totals import TreeTotals, totals_of

UNNAMED_POOL = "pool-without-profile"
_LISTED = ("cpu", "memory")
"""Resources of a node that agents describe."""
_NODE = "node"


def view_of(nodes: Sequence[Mapping[str, Any]], pools: Sequence[str]) -> ClusterView:
    """Nodes `node-0`, `node-1` … with what they have, each in its pool; one that is not ready is lost."""
    fold = ClusterFold()
    for number, (node, pool) in enumerate(zip(nodes, pools, strict=True)):
        name, has = f"{_NODE}-{number}", node.get("allocatable", node)
        told = described(name, EPOCH, has.get("cpu", 0), has.get("memory", 0))
        of_pool = told.model_copy(update={"facts": replace(told.facts, pool=pool)})
        fold.apply(event_of(of_pool, source="tests", time=EPOCH))
        if not node.get("ready", True):
            fold.apply(event_of(_lost(name), source="tests", time=EPOCH))
        if node.get("unschedulable", False):
            fold.apply(event_of(_cordon(name), source="tests", time=EPOCH))
    return fold.view(EPOCH)


def _lost(node: str) -> NodeLivenessChanged:
    return NodeLivenessChanged(node=node, liveness=Liveness.LOST, previous=None, last_report_at=EPOCH, changed_at=EPOCH)


def _cordon(node: str) -> NodeSchedulingChanged:
    return NodeSchedulingChanged(
        node=node,
        closed=True,
        reason="tests",
        decision_id="tests",
        rules=(),
        since=EPOCH,
        told_at=EPOCH,
        valid_until=EPOCH + timedelta(hours=1),
    )


def multi_tree(case: Case) -> Verdict:
    """A root quota's total is given here as a pool of as many whole nodes; an amount that is none is no pool."""
    nodes: Sequence[Amounts] = case["given"]["nodes"]
    trees: dict[str, int] = {}
    of_no_pool: set[str] = set()
    wrong: list[str] = []
    for number, step in enumerate(case["steps"]):
        tree = step["tree"]
        if step["op"] == "root_quota":
            trees[tree] = _whole_nodes(nodes, step["total_resource"])
            is_whole = added(*nodes[: trees[tree]]) == step["total_resource"]
            of_no_pool = of_no_pool - {tree} if is_whole else of_no_pool | {tree}
        elif step["op"] == "delete_root":
            del trees[tree]
        else:
            got = _listed(_totals_by_tree(nodes, trees).get(tree, TreeTotals({}, 0, 0)).total)
            of_pools = not of_no_pool & trees.keys()
            if of_pools and got != step["total"]:
                wrong.append(f"step {number}: tree {tree!r} has {got}, want {step['total']}")
    if wrong:
        return Verdict("FAIL", "; ".join(wrong))
    return differ("quota-tree-of-a-pool") if of_no_pool else Verdict("pass")


def _whole_nodes(nodes: Sequence[Amounts], total: Amounts) -> int:
    """The most of the first nodes that are within the total."""
    fitting = [
        count
        for count in range(len(nodes) + 1)
        if all(amount <= total.get(key, 0) for key, amount in added(*nodes[:count]).items())
    ]
    return max(fitting)


def _totals_by_tree(nodes: Sequence[Amounts], trees: Mapping[str, int]) -> Mapping[str, TreeTotals]:
    named = [tree for tree, count in trees.items() for _ in range(bounded(count))]
    pools = [*named, *[UNNAMED_POOL] * (len(nodes) - len(named))]
    return totals_of(view_of(nodes, pools), [QuotaPool(tree, tree) for tree in trees])


def profile(case: Case) -> Verdict:
    """The root of the tree is no document here: its min is what the pool has. Nodes that take no pods do not count."""
    given, want = case["given"], wanted(case)
    document, refused = _imported(given["profile"])
    pool = pool_of(document)
    found = totals_of(view_of(given["nodes"], [str(node["zone"]) for node in given["nodes"]]), [pool])[pool.tree]
    got = _listed(found.total)
    total, idle = ({key: want[name].get(key, 0) for key in got} for name in ("total", "unschedulable"))
    if refused and got != total:
        return differ("quota-whole-percent")
    verdict = compare(
        {"total": got, "unschedulable": found.unschedulable > 0, "tree": pool.tree, "min": added(got, idle)},
        {
            "total": {key: amount - idle[key] for key, amount in total.items()},
            "unschedulable": any(idle.values()),
            "tree": given["profile"].get("tree_id", given["profile"]["name"]),
            "min": _listed({**dict.fromkeys(got, 0), **want["min"]}),
        },
    )
    if verdict.word != "pass":
        return verdict
    return differ("quota-generated-root", *["quota-unschedulable-nodes"] * any(idle.values()))


def profile_multiply(case: Case) -> Verdict:
    """The amount is that of a node's CPU, which is in thousandths as the peer's is."""
    given = case["given"]
    document, refused = _imported({"name": "p", "zone": "a", "ratio": str(given["ratio"])})
    pool = pool_of(document)
    found = totals_of(view_of([{"cpu": given["milli_value"]}], ["a"]), [pool])[pool.tree].total["cpu"]
    verdict = compare({"milli_value": found}, wanted(case))
    return differ("quota-whole-percent") if refused and verdict.word != "pass" else verdict


def _imported(written: Mapping[str, Any]) -> tuple[QuotaProfile, bool]:
    """The document that a peer's profile becomes, and whether the import refuses its ratio and says so."""
    labels = {f"{PREFIX}tree-id": written["tree_id"]} if written.get("tree_id") else {}
    spec: dict[str, Any] = {"nodeSelector": {"matchLabels": {"zone": written["zone"]}}}
    if written.get("ratio") is not None:
        spec["resourceRatio"] = written["ratio"]
    keys = written.get("resource_keys")
    annotations = {} if keys is None else {f"{PREFIX}resource-keys": json.dumps(keys)}
    source = SourceObject(
        kind="ElasticQuotaProfile",
        group="quota.koordinator.sh",
        name=written["name"],
        namespace=written.get("namespace", ""),
        labels=labels,
        annotations=annotations,
        body={"spec": spec},
    )
    items = list(quotas([], [source]))
    (converted,) = (item for item in items if isinstance(item, ConvertedDocument))
    refused = any(isinstance(item, ReportLine) and item.outcome is ImportOutcome.REFUSED for item in items)
    return QuotaProfile.parse({"metadata": {"name": converted.name}, "spec": dict(converted.spec)}), refused


def _listed(amounts: Amounts, names: Iterable[str] = _LISTED) -> dict[str, int]:
    return {name: amounts[name] for name in names if name in amounts}


ADAPTORS: Mapping[str, Adaptor] = {
    "quota.multi_tree": multi_tree,
    "quota.profile": profile,
    "quota.profile_multiply": profile_multiply,
}
