"""A few nodes with a few pods of batch, and policies in two lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.reports import pod

from slackwater.model.tiers import Tier
from slackwater.simulation.domain.fleet_run import FleetRun, watched_by, waterlines_of
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.domain.scenes import PodDemand, SceneNode, UsageScene
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.rulebook import Documents, Rulebook, rulebook_of

CAPACITY, MEMORY = 10_000, 2**30
MINUTE = 60_000


def rule(metric: str = "node_cpu_usage_ratio", value: Any = 0.7, **more: Any) -> dict[str, Any]:
    target = {"target": more.pop("target")} if "target" in more else {}
    return {
        "name": f"r-{len(str(value))}-{metric.replace('_', '-')}",
        "metricRule": {"name": metric, "value": value, **target},
        **more,
    }


def policy(
    *rules: dict[str, Any], mode: str = "throttle", evict: bool = False, grace: int = 10, quota: str | None = None
) -> Rulebook:
    """A cluster's NodeQOS; with `evict` class BE may suffer that as well."""
    throttle = {} if quota is None else {"throttle": {"quota": quota}}
    cluster = NodeQos.parse({"metadata": {"name": "default"}, "spec": {"mode": mode, "rules": rules, **throttle}})
    if not evict:
        return rulebook_of(cluster)
    action = AvoidanceAction.parse(
        {
            "metadata": {"name": "evict"},
            "spec": {"eviction": {"terminationGracePeriodSeconds": grace}, "coolDownSeconds": 60},
        }
    )
    best_effort = {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]}
    spec = {"scopeSelector": best_effort, "allowedActions": ["throttle", "evict"]}
    pods = PodQos.parse({"metadata": {"name": "default"}, "spec": spec})
    return rulebook_of(cluster, Documents(pods=(pods,), actions=(action,)))


NOTHING = policy()


def wanted(number: int, cpu_milli: int, *, memory: int = 2**26, limit: int | None = None) -> PodDemand:
    return PodDemand(pod(f"b{number}", Tier.BATCH), cpu_milli, memory, limit)


def scene(prod: int, *batch: int, memory: int = 2**28, limit: int | None = None) -> UsageScene:
    pods = [wanted(number, milli, limit=limit) for number, milli in enumerate(batch)]
    return UsageScene(CAPACITY, MEMORY, CAPACITY, prod, 0, memory, pods)


def fleet(rules: Rulebook, *others: Rulebook, nodes: int = 1, terms: GuardTerms | None = None) -> FleetRun:
    """Measured against its own waterlines and those of `others`."""
    facts, all_of_them = [SceneNode(f"n{number}") for number in range(nodes)], [rules, *others]
    waterlines = waterlines_of(all_of_them, BUILT_IN)
    watched = [watched_by(one, waterlines, all_of_them) for one in facts]
    return FleetRun(facts, rules, BUILT_IN, terms or GuardTerms(), waterlines, watched)


def played(
    run: FleetRun, scenes: Sequence[UsageScene | Sequence[UsageScene | None]], span_ms: int = 5 * MINUTE
) -> FleetRun:
    """One after the other from the year 2000 on; a single scene is that of all nodes."""
    at = 946_684_800_000
    for one in scenes:
        each = [one] * len(run.nodes) if isinstance(one, UsageScene) else list(one)
        run.play(each, at, at + span_ms)
        at += span_ms
    return run
