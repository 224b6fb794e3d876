"""Suites of the pod and the tier predictor, and of both together, in koord_colocation.json.

What we do otherwise on purpose is answered twice where it matters: as we do it, and with only that undone. A case
counts as different only if undoing what docs/differences.md names gives exactly the peer's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from peer_views import Learned, NodeSeries, PeakSettings, PodSeries, View, pod_view, tier_view
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.model.quantities import Resources

_WARM = PeakSettings().min_windows
_KEYS = {"cpu": "cpu", "mem": "memory"}
_TIERS = dict.fromkeys((None, "", "none"), "prod")
_Given = Mapping[str, Any]
_Undo = Callable[[_Given], _Given]


def asks(view: str) -> Adaptor:
    """What a suite means by "reclaimable" and "peak": those of the `pod` view, the `priority` view, or of `both`."""

    def adapt(case: Case) -> Verdict:
        given, want = case["in"], wanted(case)
        if (plain := _judge(given, want, view)).word == "pass":
            return plain
        if want == {"error": True}:
            return differ("unknown-lends-nothing") if _lends_nothing_unknown(given, view) else plain
        for names in _combinations():
            if _judge(_without(given, names), want, view).word == "pass":
                return differ(*names)
        return differ("exact-percent") if _within_units(given, want, view) else plain

    return adapt


def _combinations() -> Iterator[tuple[str, ...]]:
    """The fewest differences that explain a case come first."""
    for count in range(1, len(_UNDONE) + 1):
        yield from combinations(_UNDONE, count)


def _without(given: _Given, names: Iterable[str]) -> _Given:
    for name in names:
        given = _UNDONE[name](given)
    return given


def _judge(given: _Given, want: Any, view: str) -> Verdict:
    answers, named = _answers(given, view), _named(want, view)
    got = {name: _only(answers.get(name), amounts) for name, amounts in named.items()}
    return compare(got, named)


def _named(want: Any, view: str) -> dict[str, Any]:
    """What is wanted, by name: a suite that asks for one thing only gives its amounts; none at all are zero."""
    if isinstance(want, Mapping) and want and not set(want) <= set(_KEYS):
        return dict(want)
    return {_ONLY[view]: dict(want or dict.fromkeys(_KEYS, 0))}


def _only(amounts: Any, asked: Any) -> Any:
    return (
        {key: amounts.get(key) for key in asked} if isinstance(amounts, dict) and isinstance(asked, dict) else amounts
    )


def _answers(given: _Given, view: str) -> dict[str, dict[str, int]]:
    series, settings = series_of(given), PeakSettings(safety_margin_percent=given.get("safetyMarginPercent", 10))
    pods = {key: pod_view(series, resource, settings) for key, resource in _KEYS.items()}
    tier = {key: tier_view(series, resource, settings) for key, resource in _KEYS.items()}
    smaller = {key: min(pods[key].reclaimable, tier[key].reclaimable) for key in _KEYS}
    larger = {key: max(pods[key].peak, tier[key].peak) for key in _KEYS}
    meant = {
        "pod": (_part(pods, "reclaimable"), _part(pods, "peak")),
        "priority": (_part(tier, "reclaimable"), _part(tier, "peak")),
        "both": (smaller, larger),
    }
    return {
        "pod": meant["pod"][0],
        "podPeak": meant["pod"][1],
        "priority": meant["priority"][0],
        "priorityPeak": meant["priority"][1],
        "reclaimable": meant[view.removesuffix("-peak")][0],
        "peak": meant[view.removesuffix("-peak")][1],
    }


def _part(views: Mapping[str, View], part: str) -> dict[str, int]:
    return {key: getattr(view, part) for key, view in views.items()}


def series_of(given: _Given) -> NodeSeries:
    """A node as its last window shows it.

    * A pod that is being deleted is not in it any more: the agent has stopped measuring it.
    * A pod that is young to the peer has a model that has seen nothing to us.
    * A pod without a tier, and its usage, counts as prod: that is what its class makes of it.
    """
    predicted = given.get("tierPredictions") or {}
    prod = [_learned(predicted.get(tier)) for tier in ("prod", "none", "")]
    return NodeSeries(
        node="n",
        allocatable=_resources(given.get("nodeAllocatable")),
        pods=tuple(_pod(pod, given) for pod in given["pods"] if not _ended(pod)),
        tiers={"prod": together} if (together := _together(prod)) else {},
        system=_learned(predicted.get("sys")),
        whole=None,
    )


def _ended(pod: _Given) -> bool:
    return bool(pod.get("deleting")) or pod.get("phase") in ("Succeeded", "Failed")


def _pod(pod: _Given, given: _Given) -> PodSeries:
    is_young = pod.get("ageSeconds", 10**9) <= given.get("coldStartSeconds", 0)
    learned = None if is_young else _learned((given.get("podPredictions") or {}).get(pod["name"]))
    request = _resources(pod.get("req")) or Resources()
    return PodSeries(pod["name"], "w", _TIERS.get(pod.get("tier"), pod.get("tier")), _class(pod), request, learned)


def _class(pod: _Given) -> str:
    return str(pod.get("qos") or pod.get("qosLabel") or "LS")


def _learned(found: _Given | None) -> Learned | None:
    if not found or "p95" not in found or "p98" not in found:
        return None
    return Learned(found["p95"]["cpu"], found["p98"]["mem"], _WARM)


def _together(parts: list[Learned | None]) -> Learned | None:
    known = [part for part in parts if part]
    if not known:
        return None
    return replace(known[0], cpu=sum(part.cpu for part in known), memory=sum(part.memory for part in known))


def _resources(amounts: _Given | None) -> Resources | None:
    return None if amounts is None else Resources(amounts.get("cpu", 0), amounts.get("mem", 0))


def _lends_nothing_unknown(given: _Given, view: str) -> bool:
    """The peer gives up on the whole node where a model is missing; ours lends nothing of what it does not know."""
    series, answers = series_of(given), _answers(given, view)
    unknown = {pod.uid for pod in series.pods if pod.tier == "prod" and pod.learned is None}
    without = {**given, "pods": [pod for pod in given["pods"] if pod["name"] not in unknown]}
    by_pods = bool(unknown) and answers["pod"] == _answers(without, view)["pod"]
    by_tier = (series.system is None or not series.tiers) and not any(answers["priority"].values())
    return {"pod": by_pods, "priority": by_tier}.get(view, by_pods or by_tier)


def _within_units(given: _Given, want: Any, view: str) -> bool:
    """A percentage cut in binary floating point is at most one unit per pod or tier below the exact one."""
    answers, named, units = _answers(given, view), _named(want, view), len(given["pods"]) + 1
    if given.get("safetyMarginPercent", 10) == 10 or not set(named) <= set(answers):
        return False  # 1.1 is a little more than 11/10 in binary: nothing is cut there
    return all(abs(answers[name][key] - amount) <= units for name in named for key, amount in named[name].items())


def _share_cores(given: _Given) -> _Given:
    return {**given, "pods": [{**pod, "qos": "LS"} for pod in given["pods"]]}


def _still_measured(given: _Given) -> _Given:
    return {**given, "pods": [{**pod, "deleting": False, "phase": "Running"} for pod in given["pods"]]}


def _system_in_prod(given: _Given) -> _Given:
    """The system's quantiles added to those of prod."""
    tiers = given.get("tierPredictions") or {}
    if "sys" not in tiers or "prod" not in tiers:
        return given
    added = {
        quantile: {key: amount + tiers["sys"].get(quantile, {}).get(key, 0) for key, amount in amounts.items()}
        for quantile, amounts in tiers["prod"].items()
    }
    nothing = {quantile: dict.fromkeys(amounts, 0) for quantile, amounts in tiers["sys"].items()}
    return {**given, "tierPredictions": {**tiers, "prod": added, "sys": nothing}}


_UNDONE: Mapping[str, _Undo] = {
    "lse-reclaimable": _share_cores,
    "terminating-pods": _still_measured,
    "tier-peak-without-system": _system_in_prod,
}
"""By the anchor in docs/differences.md: the case without what makes the difference."""

_ONLY = {
    "pod": "pod",
    "pod-peak": "podPeak",
    "priority": "priority",
    "priority-peak": "priorityPeak",
    "both": "reclaimable",
}
"""By view: which answer a suite means that names none."""

ADAPTORS: Mapping[str, Adaptor] = {
    "prod_reclaimable_min": asks("both"),
    "pod_reclaimable": asks("pod"),
    "pod_peak": asks("pod-peak"),
    "priority_reclaimable": asks("priority"),
    "priority_peak": asks("priority-peak"),
}
