"""Suites of degrading and of update gates in koord_colocation.json."""

from __future__ import annotations

import math
from collections.abc import Mapping

from koord_shapes import SyncAnswer, SyncGate
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.model.quantities import Resources
from slackwater.offers.degradation import remaining_share
from slackwater.offers.publish_gate import PublishGate, pass_gate
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy

_OFFERS = ("batchCpu", "batchMem", "midCpu", "midMem")


def degrades(case: Case) -> Verdict:
    """Whether nothing is offered any more, to batch or mid. Without a report there is no snapshot, and no offer."""
    given, want = case["in"], wanted(case)
    metrics = given.get("metrics") if given else None
    if metrics is None or metrics.get("ageSeconds") is None:
        return compare(True, want)
    minutes = (given.get("strategy") or {}).get("degradeTimeMinutes", 15)
    strategy = Strategy(decay_to_seconds=60.0 * minutes + 1e-9)
    empty = NodeSnapshot(Resources(), Resources(), (), None, age_seconds=float(metrics["ageSeconds"]))
    return compare(remaining_share(empty, strategy) == 0, want)


def sync_gate(case: Case) -> Verdict:
    """Whether a value is published. What is left out has its default; labels of nodes are not ours to write."""
    given, want = case["in"], wanted(case)
    old, new, since = given.get("old") or {}, given.get("new") or {}, given.get("secondsSinceLastSync")
    strategy = Strategy(
        diff_threshold=given.get("resourceDiffThreshold", Strategy().diff_threshold),
        update_time_threshold_seconds=given.get("updateTimeThresholdSeconds", Strategy().update_time_threshold_seconds),
        rise_windows=1,
    )
    changed = any(told(old.get(key), new.get(key), strategy, since or 0) for key in _OFFERS)
    labels = any(
        value is True for name, value in given.items() if name.startswith("meta")
    )  # published when they change
    found = {"status": changed, "meta": labels}
    verdict = compare({key: found[key] for key in want}, dict(want))
    by_age = since is None or since > strategy.update_time_threshold_seconds
    if verdict.word == "FAIL" and by_age and want["status"] and want.get("meta", labels) == labels:
        return differ("no-rewrite-by-age")
    return verdict


def resource_diff(case: Case) -> Verdict:
    given = case["in"]
    key = given["resource"]
    return compare(told(given["old"].get(key), given["new"].get(key), _gate(given["threshold"])), wanted(case))


def mid_diff(case: Case) -> Verdict:
    given = case["in"]
    old, new = given.get("old") or {}, given.get("new") or {}
    return compare(
        any(told(old.get(key), new.get(key), _gate(given["threshold"])) for key in _OFFERS[2:]), wanted(case)
    )


def told(old: int | None, new: int | None, strategy: Strategy, since: float = 0) -> bool:
    """Whether the gate lets a new value through; a rise has lasted, a difference began after the last telling."""
    if new is None:
        return old is not None
    window = 10**12
    gate = PublishGate(old, drifting_since=window + 1 - math.ceil(since), drifting_to=new)
    ceiling = max(new, old or 0)
    value, _ = pass_gate(gate, new, ceiling=ceiling, window=window, degraded=False, strategy=strategy)
    return value != old


def _gate(threshold: float) -> Strategy:
    return Strategy(diff_threshold=threshold, rise_windows=1)


ADAPTORS: Mapping[str, Adaptor] = {
    "batch_degrade": degrades,
    "mid_degrade": degrades,
    "sync_gate": answers_as(SyncAnswer, read_as(SyncGate, sync_gate)),
    "resource_diff": resource_diff,
    "mid_need_sync": mid_diff,
}
