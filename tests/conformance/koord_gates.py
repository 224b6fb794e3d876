"""Suites of degrading and of update gates in koord_colocation.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.colocation.domain.degrade import remaining_share
from slackwater.colocation.domain.gating import Gate, pass_gate
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.quantities import Resources

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
    """Whether a value is told. Labels of nodes are not ours to write."""
    given, want = case["in"], wanted(case)
    old, new = given.get("old") or {}, given.get("new") or {}
    since = given.get("secondsSinceLastSync")
    aged = Strategy(diff_threshold=given["resourceDiffThreshold"], rise_windows=1)
    aged = replace(aged, update_time_threshold_seconds=given["updateTimeThresholdSeconds"])
    changed = any(told(old.get(key), new.get(key), aged, since or 0) for key in _OFFERS)
    found = {"status": changed}
    if "meta" in want:
        found["meta"] = bool(given.get("metaLabelChanged"))  # what a label says is told when it changes, by itself
    if want["status"] and not changed and (since is None or since > given["updateTimeThresholdSeconds"]):
        return differ("no-rewrite-by-age")
    return compare(found, dict(want))


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
    """Whether the gate lets a new value through; a rise has lasted, and a difference is as old as the last telling."""
    if new is None:
        return old is not None
    window = 10**6
    gate = Gate(old, drifting_since=window - int(since), drifting_to=new)
    ceiling = max(new, old or 0)
    value, _ = pass_gate(gate, new, ceiling=ceiling, window=window, degraded=False, strategy=strategy)
    return value != old


def _gate(threshold: float) -> Strategy:
    return Strategy(diff_threshold=threshold, rise_windows=1)


ADAPTORS: Mapping[str, Adaptor] = {
    "batch_degrade": degrades,
    "mid_degrade": degrades,
    "sync_gate": sync_gate,
    "resource_diff": resource_diff,
    "mid_need_sync": mid_diff,
}
