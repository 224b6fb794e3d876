"""What of a cluster would make the API server refuse pods that a profile has changed. Pure.

A pod must not state a PriorityClass that is missing or has another value. A quota of CPU or memory refuses a pod that
asks for it by another name, and a LimitRange adds native amounts to one. A quota of a tier's resources may be used up,
and a LimitRange of them may be beside the amounts of a pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from slackwater.profiles.profile import REWRITTEN, ClusterColocationProfile

QUOTA: Final = "ResourceQuota"
RANGE: Final = "LimitRange"
AMOUNTS: Final = frozenset(
    {"cpu", "memory", *(f"{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory"))}
)
BOUNDS: Final = ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio")
LENT: Final = tuple(f"/{tier}-{name}" for tier in REWRITTEN for name in ("cpu", "memory"))
"""How the names of the resources end that profiles make of CPU and memory."""
SHOWN: Final = 5


def is_limiting(kind: str, spec: Mapping[str, Any]) -> bool:
    """Whether an object limits CPU or memory of pods or of a tier, or counts some pods only: by priority or by QoS
    class, which a profile changes."""
    if kind == QUOTA:
        hard = set(spec.get("hard") or {})
        return bool(AMOUNTS & hard or _lent(hard) or spec.get("scopes") or spec.get("scopeSelector"))
    return any(
        limit.get("type") in ("Container", "Pod")
        and (any(AMOUNTS & set(limit.get(bound) or {}) for bound in BOUNDS) or _bounds_lent(limit))
        for limit in spec.get("limits") or ()
    )


def _bounds_lent(limit: Mapping[str, Any]) -> bool:
    """Whether a LimitRange may refuse what a profile makes of a pod, and admits the pod as it is: because it gives each
    container a limit, if need be the largest. Without one it refuses every container that states none."""
    if limit.get("type") != "Container":
        return False
    given = _lent((*(limit.get("default") or {}), *(limit.get("max") or {})))
    return any(given & set(limit.get(bound) or {}) for bound in ("min", "max", "maxLimitRequestRatio"))


def _lent(names: Iterable[str]) -> set[str]:
    return {name for name in names if name.endswith(LENT)}


def limited_namespaces(objects: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Mapping[str, str]:
    """What limits each namespace, such as `ResourceQuota compute`, of objects as kind, NAMESPACE/NAME and spec."""
    found: dict[str, str] = {}
    for kind, key, spec in sorted(objects, key=lambda known: known[:2], reverse=True):
        namespace, _, name = key.partition("/")
        if is_limiting(kind, spec):
            found[namespace] = f"{kind} {name}"
    return found


def effect_of_limits(
    profile: ClusterColocationProfile, limited: Mapping[str, str], namespaces: Mapping[str, Mapping[str, str]]
) -> str:
    """What becomes of a profile's pods in limited namespaces, for people; empty: it selects none of those. `namespaces`
    are the labels of those whose pods profiles may change."""
    selector = profile.spec.namespace_selector
    names = [
        name
        for name in sorted(limited)
        if name in namespaces and (selector is None or selector.matches(namespaces[name]))
    ]
    if not names:
        return ""
    shown = ", ".join(f"{name} ({limited[name]})" for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return EFFECTS[profile.spec.limited_namespaces].format(f"{shown}{more}")


EFFECTS: Final[Mapping[str, str]] = {
    "skip": "pods are left as they are in limited namespaces: {}",
    "keep-resources": "resources are left as they are in limited namespaces: {}",
    "apply": "the API server may refuse pods, or add native amounts, in limited namespaces: {}",
}


def with_known_class(
    profile: ClusterColocationProfile, classes: Mapping[str, tuple[int, str]]
) -> tuple[ClusterColocationProfile, str]:
    """The profile without its priority where no PriorityClass of the cluster (value and preemption policy by name) is
    the one it states, with the reason; else as it is."""
    stated = profile.spec.priority_class
    if stated is None or classes.get(stated.name) == (stated.value, stated.preemption_policy):
        return profile, ""
    present = classes.get(stated.name)
    why = "is missing" if present is None else f"has value {present[0]} and {present[1]}"
    spec = profile.spec.model_copy(update={"priority_class": None})
    return profile.model_copy(update={"spec": spec}), f"priorities stay: PriorityClass {stated.name} {why}"


def matters(profiles: Collection[ClusterColocationProfile]) -> bool:
    """Whether any profile does otherwise in limited namespaces."""
    return any(profile.spec.limited_namespaces != "apply" for profile in profiles)
