"""Quotas in process: recompute of a whole tree, beside the plain functions, and admissions one by one and together.

CPU time, so that other processes of the machine count little. The tree: groups of a hundred quotas below the root.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.bench.verdict import Scale, Target

from slackwater.fairshare.arbitration import PreparedSnapshot, apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import ArbitrationSettings
from slackwater.fairshare.batched import TreeArrays, arrays_of, matrix, runtimes
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim, end
from slackwater.fairshare.tree import ROOT, Quota, ledger
from slackwater.fairshare.tree_layout import LARGE, TreeLayout
from slackwater.model.tiers import Tier

RESOURCES = ("cpu", "memory", "gpu")
SIZES = (100, 1000, 10_000)
PER_GROUP = 100
CLAIMS_AT_ONCE, ROUNDS = 1000, 8
TARGET_SECONDS, TARGET_RATIO, TARGET_ADMISSIONS = 0.050, 20.0, 5000.0
TARGET_GROWTH = 1.3
"""Time per quota of the largest tree, as a multiple of that of the middle one: linear, with room for caches. The
smallest has a fixed cost of its own."""


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """The targets of the recompute apply to the largest tree; admissions are those of the middle one."""
    found = {str(size): _recompute(size) for size in sizes}
    last, middle = found[str(sizes[-1])], found[str(sizes[-2])]
    growth = last["microseconds_per_quota"] / middle["microseconds_per_quota"]
    admissions = _admissions(sizes[-2])
    return {
        "targets": (
            Target("recompute of the largest tree", last["seconds"], TARGET_SECONDS, "s", Scale.TIME),
            Target("plain functions / batched", last["ratio"], TARGET_RATIO, "x", at_least=True),
            Target("time per quota, growth", round(growth, 2), TARGET_GROWTH, "x"),
            Target("admissions in process", admissions["per_second"], TARGET_ADMISSIONS, "1/s", Scale.RATE),
        ),
        **found,
        "growth": round(growth, 2),
        "admissions": admissions,
        "one_changed_request": {str(size): _one_by_one(size) for size in sizes if size >= LARGE},
    }


def _recompute(size: int) -> dict[str, Any]:
    quotas = _tree(size)
    total = dict.fromkeys(RESOURCES, 40 * size)
    arrays = arrays_of(quotas)
    requests = matrix([quota.own_request for quota in _in_rows(quotas, arrays)], arrays.resources)
    row = np.array([total[key] for key in arrays.resources], np.int64)
    _compare(quotas, total, arrays, requests, row)
    seconds = _median(lambda: runtimes(arrays, requests, row), 9)
    plain = _median(lambda: ledger(quotas, total), 3)
    return {
        "seconds": round(seconds, 5),
        "plain_seconds": round(plain, 5),
        "ratio": round(plain / seconds, 1),
        "microseconds_per_quota": round(1e6 * seconds / size, 3),
    }


def _in_rows(quotas: list[Quota], arrays: TreeArrays) -> list[Quota]:
    by_name = {quota.name: quota for quota in quotas}
    return [by_name[name] for name in arrays.names]


def _compare(quotas: list[Quota], total: dict[str, int], arrays: TreeArrays, requests: Any, row: Any) -> None:
    """Raises RuntimeError where the two differ: a wrong result has no speed."""
    whole = ledger(quotas, total).runtime
    figures = runtimes(arrays, requests, row)
    for place, name in enumerate(arrays.names):
        batched = dict(zip(arrays.resources, figures.runtime[place].tolist(), strict=True))
        if batched != whole[name]:
            raise RuntimeError(f"quota {name}: batched {batched}, plain {whole[name]}")


def _admissions(size: int) -> dict[str, Any]:
    """Rounds of a thousand claims that come, are admitted and end; one arbitration for each round."""
    quotas = _tree(size)
    layout = TreeLayout(quotas)
    leaves = [quota.name for quota in quotas if not quota.is_parent]
    index, total = ClaimIndex(), dict.fromkeys(RESOURCES, 40 * size)
    prepared = PreparedSnapshot({"": layout}, {"": total}, index, ArbitrationSettings(), {}, {}, {})
    admitted, began = 0, time.process_time()
    for number in range(ROUNDS):
        for place in range(CLAIMS_AT_ONCE):
            leaf = leaves[(number * CLAIMS_AT_ONCE + place) % len(leaves)]
            claim = QuotaClaim(f"claim-{number}-{place}", leaf, Tier.BATCH, {"cpu": 2, "memory": 3}, float(number))
            index.put(claim)
        plan = arbitrate(prepared, float(number))
        for claim in apply_plan(plan, index.by_id, float(number)).values():
            index.put(claim)
        admitted += len(plan.admissions)
        for claim in list(index.by_id.values()):
            index.put(end(claim, ClaimState.RELEASED, float(number)))
    if admitted != ROUNDS * CLAIMS_AT_ONCE:
        raise RuntimeError(f"{admitted} of {ROUNDS * CLAIMS_AT_ONCE} claims were admitted")
    seconds = time.process_time() - began
    return {"per_second": round(admitted / seconds), "claims": admitted, "quotas": size}


def _one_by_one(size: int) -> dict[str, Any]:
    """The runtime of one quota after its request has changed, beside that of the whole tree at once."""
    quotas = _tree(size)
    layout, whole = TreeLayout(quotas), TreeLayout(quotas)
    total, requested = dict.fromkeys(RESOURCES, 40 * size), {quota.name: quota.own_request for quota in quotas}
    layout.runtimes(requested, total)
    leaves = [quota.name for quota in quotas if not quota.is_parent]
    places = iter(range(len(leaves)))

    def changed() -> None:
        name = leaves[next(places)]
        requested[name] = {key: amount + 1 for key, amount in requested[name].items()}
        layout.runtimes(requested, total)[name]

    changed()  # makes the ledger that is kept up to date
    for name in leaves:
        layout.runtimes(requested, total)[name]
    one = _median(changed, 15)
    at_once = _median(lambda: whole._whole(requested, total), 5)
    return {"seconds": round(one, 6), "whole_seconds": round(at_once, 6), "ratio": round(at_once / one, 1)}


def _tree(size: int) -> list[Quota]:
    """Quotas of which two thirds request more than their min."""
    groups = max(size // PER_GROUP, 1)
    found = [
        Quota(
            f"group-{group}",
            ROOT,
            minimum=dict.fromkeys(RESOURCES, 20 * PER_GROUP),
            maximum=dict.fromkeys(RESOURCES, 100 * PER_GROUP),
            is_parent=True,
        )
        for group in range(groups)
    ]
    found += [
        Quota(
            f"quota-{number}",
            f"group-{number % groups}",
            minimum=dict.fromkeys(RESOURCES, 20),
            maximum=dict.fromkeys(RESOURCES, 100),
            weight={key: 1 + (number * 7 + place) % 9 for place, key in enumerate(RESOURCES)},
            own_request={key: (number * 31 + 17 * place) % 90 for place, key in enumerate(RESOURCES)},
        )
        for number in range(size - groups)
    ]
    return found


def _median(run: Callable[[], Any], times: int) -> float:
    """Returns CPU seconds."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        run()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)
