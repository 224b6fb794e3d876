"""Areas `colocation.*` and `priority.band` of koord_quota_sched.json: what profiles make of pods, and what they refuse.

A peer's profile is read by the importer, as a user brings it along.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.koordinator.colocation_profiles import SKIP_RESOURCES, colocation_profiles
from slackwater.koordinator.conversion_report import ConvertedDocument
from slackwater.koordinator.source_objects import SourceObject
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import LABEL_QOS, LABEL_TIER, tier_of_priority
from slackwater.profiles.mutation import mutate_all
from slackwater.profiles.profile import ClusterColocationProfile, ClusterColocationProfileSpec
from slackwater.profiles.share import DRAWS, draw, is_drawn
from slackwater.waterline.facts.eviction_marks import LABEL_PRIORITY

_NAMESPACE = "any"
_OWN = ("profile-tier-label", "profile-without-patch")


def mutate(case: Case) -> Verdict:
    """Pods as the API server has them; differences by label names, patches and overhead are taken out first."""
    given, want = case["given"], wanted(case)["pod"]
    if len(given["profiles"]) != 1:
        return not_covered("several profiles of one pod")
    (profile,) = given["profiles"]
    key = _key_drawn_at(given.get("rand100") or 0)
    pod = mutate_all(_pod(given["pod"], key), [_imported(profile, given)], _NAMESPACE, given["namespace_labels"])
    skipped = "probability" in profile and want["scheduler"] == given["pod"]["scheduler"]
    anchors, expected = _differences(profile, given["pod"], want, skipped=skipped)
    seen = compare(_seen(pod), expected)
    return seen if seen.word == "FAIL" else differ(*anchors)


def _differences(
    profile: Mapping[str, Any], before: Mapping[str, Any], want: Mapping[str, Any], *, skipped: bool
) -> tuple[list[str], Mapping[str, Any]]:
    """The rows of docs/differences.md that a case needs, and the peer's answer without what they are about."""
    if skipped:
        return ["skipped-profile-changes-nothing"], _known(before)
    anchors, expected = list(_OWN), {**_known(want)}
    patch = profile.get("patch", {}).get("metadata", {})
    patched = {key for field in ("labels", "annotations") for key in patch.get(field, {})}
    labels = {key: value for key, value in want["labels"].items() if key not in patched}
    labels |= {own: labels.pop(theirs) for own, theirs in (LABEL_QOS, LABEL_PRIORITY) if theirs in labels}
    if "priorityClassName" in profile:
        labels[LABEL_TIER[0]] = str(tier_of_priority(want["priority"]))
    if suffixes := profile.get("labelSuffixes"):
        anchors.append("profile-without-suffixes")
        labels |= {key: labels[key].removesuffix(suffix) for key, suffix in suffixes.items() if labels.get(key)}
    absent = {new for old, new in profile.get("labelKeysMapping", {}).items() if old not in before["labels"]}
    if absent:
        anchors.append("absent-label-stays-absent")
    expected["labels"] = {key: value for key, value in labels.items() if key not in absent}
    expected["annotations"] = {key: value for key, value in want["annotations"].items() if key not in patched}
    if want.get("overhead") != before.get("overhead"):
        anchors.append("overhead-stays")
    return anchors, expected


def _known(pod: Mapping[str, Any]) -> dict[str, Any]:
    """A pod of the vectors without its overhead."""
    return {key: value for key, value in pod.items() if key != "overhead"}


def _imported(profile: Mapping[str, Any], given: Mapping[str, Any]) -> ClusterColocationProfile:
    """With the peer's names of resources, and its scheduler, which the importer leaves out."""
    selectors = {key: {"matchLabels": profile[key]} for key in ("selector", "namespaceSelector") if key in profile}
    marks = {SKIP_RESOURCES: "true"} if SKIP_RESOURCES in profile.get("annotations", {}) else {}
    classes = [
        SourceObject("PriorityClass", "", name, "", {}, {}, body) for name, body in given["priority_classes"].items()
    ]
    source = SourceObject(
        "ClusterColocationProfile", "", profile["name"], "", {}, marks, {"spec": {**profile, **selectors}}
    )
    (made,) = (one for one in colocation_profiles([source], classes) if isinstance(one, ConvertedDocument))
    spec = {"resourceDomain": "kubernetes.io", **made.spec}
    if "priorityClass" in spec:
        spec["priorityClass"] = {**spec["priorityClass"], "preemptionPolicy": "Never"}  # theirs is none of Kubernetes
    return ClusterColocationProfile.parse({"metadata": {"name": made.name}, "spec": spec})


def _pod(pod: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    fields: dict[str, list[dict[str, Any]]] = {"initContainers": [], "containers": []}
    for container in pod["containers"]:
        resources = {part: _written(container[part]) for part in ("requests", "limits")}
        field = "initContainers" if container.get("init") else "containers"
        fields[field].append({"name": container["name"], "resources": resources})
    metadata = {"name": name, "labels": pod["labels"], "annotations": pod["annotations"]}
    return {"metadata": metadata, "spec": {**fields, "schedulerName": pod["scheduler"], "priority": pod["priority"]}}


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def _seen(pod: Mapping[str, Any]) -> dict[str, Any]:
    """As the vectors have it."""
    spec = pod["spec"]
    found: dict[str, Any] = {
        "labels": pod["metadata"]["labels"],
        "annotations": pod["metadata"]["annotations"],
        "scheduler": spec["schedulerName"],
        "priority": spec["priority"],
        "containers": [
            {
                "name": one["name"],
                **({"init": True} if field == "initContainers" else {}),
                **{part: _read(one["resources"].get(part, {})) for part in ("requests", "limits")},
            }
            for field in ("initContainers", "containers")
            for one in spec[field]
        ],
    }
    if "priorityClassName" in spec:
        found |= {"priorityClassName": spec["priorityClassName"], "preemptionPolicy": "fakePreemptionPolicy"}
    return found


def _read(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: int(str(amount).removesuffix("m")) for name, amount in amounts.items()}


def probability(case: Case) -> Verdict:
    """The peer draws a number for each pod; here a workload's name decides, at the same point of the scale."""
    given = case["given"]
    skips = not is_drawn(_key_drawn_at(given["rand100"] or 0), given["percent"])
    if skips and not wanted(case)["skip"] and given["rand100"] == given["percent"]:
        return differ("exact-probability")
    return compare(skips, wanted(case)["skip"])


def _key_drawn_at(percent: int) -> str:
    """A name whose draw is at this percent of the scale."""
    return next(key for number in range(DRAWS) if draw(key := f"pod-{number}") * 100 // DRAWS == percent)


def matrix(case: Case) -> Verdict:
    given, want = case["given"], wanted(case)["allow"]
    allowed = _may_combine(given["qos"], given["priority"])
    if allowed and not want and given["priority"] is None:
        return differ("qos-without-tier")
    if not allowed and want and given["qos"] == "LSE":
        return differ("lse-of-prod-only")
    return compare(allowed, want)


def validate(case: Case) -> Verdict:
    """Profiles are refused for what they would make of pods; pods themselves are not."""
    given, want = case["given"], wanted(case)
    new = given["new"]
    qos = new["labels"].get(LABEL_QOS[1])
    if given["operation"] == "CREATE" and qos and (want["allow"] or "in combination" in want["reason"]):
        return compare(_may_combine(qos, new["priority"]), want["allow"])
    return not_covered("what changes of a pod are allowed") if want["allow"] else differ("pods-are-not-refused")


def _may_combine(qos: str, priority: int | None) -> bool:
    """Whether a profile may give a pod this class, and the tier of this priority."""
    tier = None if priority is None else tier_of_priority(priority)
    spec: dict[str, Any] = {"selector": {}, "tier": tier and str(tier), "qosClass": qos or None}
    try:
        ClusterColocationProfileSpec.model_validate(spec)
    except (ValidationError, InvalidInput):
        return False
    return True


def band(case: Case) -> Verdict:
    tier = tier_of_priority(case["given"]["priority"])
    return compare({"priority_class": "" if tier is None else f"koord-{tier}"}, wanted(case))


ADAPTORS: Mapping[str, Adaptor] = {
    "colocation.mutate": mutate,
    "colocation.probability": probability,
    "colocation.qos_priority_matrix": matrix,
    "colocation.validate": validate,
    "priority.band": band,
}
