"""Suites of what surrounds the histograms in koord_colocation.json: which models there are, how long they live, how
they are kept, and the defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
from koord_histograms import CPU_CORES, percentile
from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.peaks.buckets import CPU_MILLI, MEMORY_BYTES
from slackwater.peaks.decaying_histograms import DecayingHistograms
from slackwater.peaks.histogram import HistogramMatrix
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies
from slackwater.prediction.domain.row_ids import parts_of
from slackwater.prediction.domain.state import Keeping, NodeWindow, PartitionState

_PEERS_TIERS = len(Tier) + 1
"""The peer also has a tier of those without one."""
_ROW = np.array([0])


def server(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if not isinstance(want, Mapping):
        return not_covered("an answer without its name")
    if "hist" in given:
        return _reads_back(given, want)
    if ramp := re.fullmatch(r"pod\d+_(cpu|mem)_samples", next(iter(given), "")):
        return _ramp(ramp[1], str(next(iter(given.values()))), want)
    if any(part in key.lower() for key in (*given, *want) for part in ("checkpoint", "restor")):
        return differ("snapshot-format")
    if all(key.lower().startswith(("models", "uids")) for key in want):
        return _lives(given, want)
    return not_covered(f"cases of {', '.join(sorted(given))}")


def _reads_back(given: Mapping[str, Any], want: Mapping[str, float]) -> Verdict:
    """`p0_within_5pct_of: v`: that percentile of the samples lies near v."""
    layout = CPU_CORES if given["hist"] == "cpu" else MEMORY_BYTES
    histogram = HistogramMatrix(layout, 43200.0)
    histogram.ensure_rows(1)
    histogram.add(np.zeros(len(given["samples"]), np.intp), np.array(given["samples"], float), np.array([0.0]))
    near = {}
    for key, value in want.items():
        asked = re.fullmatch(r"p(\d+)_within_(\d+)pct_of", key)
        if asked is None:
            return not_covered(f"answers named {key}")
        near[key] = abs(percentile(histogram, int(asked[1]) / 100) - value) <= int(asked[2]) / 100 * value
    return compare(near, dict.fromkeys(want, True))


def _ramp(resource: str, samples: str, want: Mapping[str, float]) -> Verdict:
    """`1..100`, a minute apart, in cores or bytes; `…_p90_…_min` is the least that the percentile may say."""
    first, last = (int(number) for number in re.findall(r"\d+", samples)[:2])
    histogram = HistogramMatrix(CPU_MILLI if resource == "cpu" else MEMORY_BYTES, 43200.0)
    histogram.ensure_rows(1)
    unit = 1000.0 if resource == "cpu" else 1.0
    for number in range(first, bounded(last) + 1):
        histogram.add(_ROW, np.array([unit * number]), np.array([60.0 * number]))
    enough = {}
    for key, least in want.items():
        asked = re.search(r"_p(\d+)_.*_min$", key)
        if asked is None:
            return not_covered(f"answers named {key}")
        enough[key] = percentile(histogram, int(asked[1]) / 100) >= least
    return compare(enough, dict.fromkeys(want, True))


def _lives(given: Mapping[str, Any], want: Mapping[str, int]) -> Verdict:
    """How many models there are after training, and how many when nothing came for a while.

    The peer's one retention for all; time passes by a window of another node.
    """
    pods = given.get("pods") or []
    named = (
        [f"pod-{number}" for number in range(bounded(pods))] if isinstance(pods, int) else [str(pod) for pod in pods]
    )
    state = PartitionState(PoolPolicies(), model_of, Keeping(node_seconds=Keeping().pod_seconds))
    now = 0
    for _ in range(bounded(given.get("trainings", 1))):
        now += 60
        state.apply_window(_window("n", now, named))
    trained = _models_of(state, "n")
    state.apply_window(_window("elsewhere", now + int(given.get("clockAdvanceSeconds", 0)), []))
    left = _models_of(state, "n")
    got = {key: left if "GC" in key else trained for key in want}
    absent = _PEERS_TIERS - bool(named)
    as_the_peer = {key: count if "GC" in key else count + absent for key, count in got.items()}
    verdict = compare(got, dict(want))
    return differ("absent-tiers") if verdict.word != "pass" and as_the_peer == dict(want) else verdict


def _models_of(state: PartitionState, node: str) -> int:
    """Of its pods, of its tiers, of itself and of its system."""
    crowds = [crowd for pool in state.pools.values() for _, crowd in pool.crowds()]
    names = [*(crowd.series.names for crowd in crowds), *(pool.pods.groups.names for pool in state.pools.values())]
    return sum(name is not None and parts_of(name)[0] == node for each in names for name in each)


def _window(node: str, end: int, pods: list[str]) -> NodeWindow:
    asked, amounts = Resources(2000, 2**31), (1000.0, 2.0**30)
    described = [
        Pod(uid, uid, "default", uid, Tier.PROD, QoSClass.LS, 9500, asked, datetime.fromtimestamp(0, UTC))
        for uid in pods
    ]
    usage = np.array([amounts] * len(pods)).reshape(-1, 2)
    return NodeWindow(node, end - 60, end, end // 60, described, usage, amounts, amounts)


def checkpoint_file(case: Case) -> Verdict:
    """Ours is one snapshot in PostgreSQL; that a corrupt one is refused is tested in unit/prediction."""
    return differ("snapshot-format") if case else not_covered("an empty case")


def defaults(case: Case) -> Verdict:
    """What we have a setting for is compared; the rest is what differs on purpose."""
    want = wanted(case)
    if not isinstance(want, Mapping):
        return not_covered("a default without its name")
    got, reasons = {}, set()
    for key in want:
        value = _default(key.lower())
        if isinstance(value, str):
            reasons.add(value)
        elif value is not None:
            got[key] = value
        else:
            return not_covered(f"a default named {key}")
    verdict = compare(got, {key: want[key] for key in got})
    return differ(*sorted(reasons)) if verdict.word == "pass" and reasons else verdict


def _default(name: str) -> float | str | None:
    """Ours, or the anchor of why there is none."""
    learned = {each: cast(DecayingHistograms, model_of(ModelChoice("histogram"), each)) for each in ("cpu", "memory")}
    named: Mapping[str, float | str] = {
        "checkpoint": "snapshot-format",
        "cold": "cold-start-by-windows",
        "margin": round(learned["cpu"].options.margin * 100),
        "training": IngestionSettings.model_fields["window_seconds"].default,
        "expiration": Keeping().pod_seconds,
        "mem": learned["memory"].options.half_life_seconds,
        "cpu": learned["cpu"].options.half_life_seconds,
    }
    return next((value for part, value in named.items() if part in name), None)


ADAPTORS: Mapping[str, Adaptor] = {
    "predict_server": server,
    "checkpoint_file": checkpoint_file,
    "config_defaults": defaults,
}
