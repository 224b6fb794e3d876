"""What a pod becomes by profiles, as a dry run shows it. policy.py is the same in CEL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from slackwater.model.tiers import Tier
from slackwater.profiles.profile import REWRITTEN, ClusterColocationProfile, ClusterColocationProfileSpec
from slackwater.profiles.share import is_drawn, workload_key
from slackwater.resources.selectors import LabelSelector

Pod = Mapping[str, Any]
OWN_DOMAIN: Final = "slackwater.io"
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of Kubernetes, whose pods no profile changes. The service adds its own and the agents'."""
CONTAINERS: Final = ("initContainers", "containers")
AMOUNTS: Final = ("cpu", "memory")
_SUFFIXES: Final = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")} | {
    suffix: Decimal(base) ** power
    for base, suffixes in ((1000, ("k", "M", "G", "T", "P", "E")), (1024, ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
    for power, suffix in enumerate(suffixes, start=1)
}


def selects(
    profile: ClusterColocationProfile,
    pod: Pod,
    namespace: str,
    namespace_labels: Mapping[str, str],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
) -> bool:
    """Whether a profile changes a pod that is created in a namespace. Those of the `excluded` namespaces stay."""
    spec = profile.spec
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return (
        namespace not in excluded
        and _matches(spec.selector, labels)
        and _matches(spec.namespace_selector, namespace_labels)
        and is_drawn(workload_key(pod), spec.probability)
    )


def _matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is None or selector.matches(labels)


def mutate_all(
    pod: Pod,
    profiles: Iterable[ClusterColocationProfile],
    namespace: str,
    namespace_labels: Mapping[str, str],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
) -> Pod:
    """The pod after all profiles that select it, in the order of their names; each sees what the former made."""
    for profile in sorted(profiles, key=lambda profile: profile.name):
        if selects(profile, pod, namespace, namespace_labels, excluded):
            pod = mutate(pod, profile)
    return pod


def mutate(pod: Pod, profile: ClusterColocationProfile) -> Pod:
    """The pod after one profile that selects it."""
    spec = profile.spec
    metadata = dict(pod.get("metadata") or {})
    for field, mapping, values in (
        ("labels", spec.label_keys_mapping, spec.all_labels),
        ("annotations", spec.annotation_keys_mapping, spec.annotations),
    ):
        before = metadata.get(field) or {}
        mapped = {new: before[old] for old, new in mapping.items() if old in before}
        if mapped or values:
            metadata[field] = {**before, **mapped, **values}
    return {**pod, "metadata": metadata, "spec": _pod_spec(pod.get("spec") or {}, spec)}


def _pod_spec(before: Mapping[str, Any], profile: ClusterColocationProfileSpec) -> dict[str, Any]:
    made = dict(before)
    if profile.scheduler_name is not None:
        made["schedulerName"] = profile.scheduler_name
    if profile.priority_class is not None:
        made["priorityClassName"] = profile.priority_class.name
        made["priority"] = profile.priority_class.value
        made["preemptionPolicy"] = profile.priority_class.preemption_policy
    tier = profile.rewritten_tier
    if tier is None or before.get("resources"):
        return made  # resources of the whole pod have no counterpart in other names, so that none is rewritten
    for field in CONTAINERS:
        if before.get(field):
            made[field] = [
                {**container, "resources": rewritten(container["resources"], tier, profile.resource_domain)}
                if container.get("resources")
                else container
                for container in before[field]
            ]
    return made


def resource_name(tier: Tier, amount: str, domain: str) -> str:
    """Such as slackwater.io/batch-cpu."""
    return f"{domain}/{tier}-{amount}"


def sources(tier: Tier, amount: str, domain: str) -> tuple[str, ...]:
    """The resources that become the tier's: the native one, and those of other tiers."""
    return (amount, *(resource_name(other, amount, domain) for other in REWRITTEN if other is not tier))


def rewritten(resources: Mapping[str, Any], tier: Tier, domain: str) -> dict[str, Any]:
    """Requests and limits of a container with the tier's resources: CPU in whole milli-cores, memory as written.

    A missing request is the limit, as the API server defaults it. Of an extended resource (another domain than
    kubernetes.io) the API server wants equal requests and limits: both are the request then.
    """
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    for amount in AMOUNTS:
        names = sources(tier, amount, domain)
        limit = _first(names, limits)
        request = _first(names, {**limits, **requests})
        for name in names:
            limits.pop(name, None)
            requests.pop(name, None)
        if request is None:
            continue
        target = resource_name(tier, amount, domain)
        requests[target] = request
        if domain == OWN_DOMAIN:
            limits[target] = request
        elif limit is not None:
            limits[target] = limit
    made = {"requests": requests, "limits": limits}
    return {**resources, **{field: amounts for field, amounts in made.items() if amounts or field in resources}}


def _first(names: Sequence[str], amounts: Mapping[str, Any]) -> Any:
    """The amount of the first of these resources, as the tier's resource has it; None: there is none."""
    found = [(name, amounts[name]) for name in names if name in amounts]
    if not found:
        return None
    name, value = found[0]
    return str(milli_cores(value)) if name == "cpu" else value


def milli_cores(quantity: Any) -> int:
    """A quantity of cores in milli-cores, rounded up. Raises ValueError, decimal.InvalidOperation for no quantity."""
    return int((number(quantity) * 1000).to_integral_value(ROUND_CEILING))


def number(quantity: Any) -> Decimal:
    """The number of a Kubernetes quantity."""
    text = str(quantity).strip()
    suffix = next((name for name in sorted(_SUFFIXES, key=len, reverse=True) if text.endswith(name)), "")
    return Decimal(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, Decimal(1))
