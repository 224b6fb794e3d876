"""What a pod becomes by profiles, as a dry run shows it. policy.py is the same in CEL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from slackwater.model.quantities import parse_quantity
from slackwater.model.tiers import Tier
from slackwater.profiles.profile import REWRITTEN, ClusterColocationProfile, ClusterColocationProfileSpec
from slackwater.profiles.share import is_drawn, workload_key
from slackwater.resources.selectors import LabelSelector

Pod = Mapping[str, Any]
OWN_DOMAIN: Final = "slackwater.io"
CRITICAL_CLASS: Final = ("system-", "-critical")
"""How the names of the PriorityClasses of critical pods begin and end."""
SYSTEM_CRITICAL: Final = 2 * 10**9
STATIC_ANNOTATIONS: Final = ("kubernetes.io/config.mirror", "kubernetes.io/config.source")
HUGE_PAGES: Final = "hugepages-"
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces of Kubernetes, whose pods no profile changes. The service adds its own and the agents'."""
CONTAINERS: Final = ("initContainers", "containers")
AMOUNTS: Final = ("cpu", "memory")
MOST_ANNOTATIONS: Final = 256 << 10
"""Bytes of all annotations of a pod that the API server takes."""
MOST_CORES: Final = "1G"
MOST_WHOLE: Final = "8Pi"
"""Beyond these the API server takes no resource of another name: it reckons with thousandths in 64 bits. A limit of
more says that there is none."""


def selects(
    profile: ClusterColocationProfile,
    pod: Pod,
    namespace: str,
    namespace_labels: Mapping[str, str],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
    limited: Collection[str] = (),
) -> bool:
    """Whether a profile changes a pod that is created in a namespace. Those of the `excluded` namespaces stay, of the
    `limited` ones if the profile skips them, and pods without which a node or the cluster does not work."""
    spec = profile.spec
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return (
        namespace not in excluded
        and not (namespace in limited and spec.limited_namespaces == "skip")
        and not is_critical(pod)
        and _matches(spec.selector, labels)
        and _matches(spec.namespace_selector, namespace_labels)
        and is_drawn(workload_key(pod), spec.probability)
    )


def is_critical(pod: Pod) -> bool:
    """Whether a pod is critical for the system by its priority, or a static pod, which the API server only mirrors."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    name, (first, last) = str(spec.get("priorityClassName") or ""), CRITICAL_CLASS
    return (
        (name.startswith(first) and name.endswith(last))
        or int(spec.get("priority") or 0) >= SYSTEM_CRITICAL
        or any(key in (metadata.get("annotations") or {}) for key in STATIC_ANNOTATIONS)
        or any(owner.get("kind") == "Node" for owner in metadata.get("ownerReferences") or ())
    )


def _matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is None or selector.matches(labels)


def mutate_all(
    pod: Pod,
    profiles: Iterable[ClusterColocationProfile],
    namespace: str,
    namespace_labels: Mapping[str, str],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
    limited: Collection[str] = (),
) -> Pod:
    """The pod after all profiles that select it, in the order of their names; each sees what the former made."""
    for profile in sorted(profiles, key=lambda profile: profile.name):
        if selects(profile, pod, namespace, namespace_labels, excluded, limited):
            pod = mutate(pod, profile, is_limited=namespace in limited)
    return pod


def mutate(pod: Pod, profile: ClusterColocationProfile, *, is_limited: bool = False) -> Pod:
    """The pod after one profile that selects it, in a limited namespace or another."""
    spec = profile.spec
    metadata = dict(pod.get("metadata") or {})
    for field, mapping, values in (
        ("labels", spec.label_keys_mapping, spec.all_labels),
        ("annotations", spec.annotation_keys_mapping, spec.annotations),
    ):
        before = metadata.get(field) or {}
        mapped = {new: before[old] for old, new in mapping.items() if old in before}
        if field == "annotations" and not _have_room(before, spec):
            continue
        if mapped or values:
            metadata[field] = {**before, **mapped, **values}
    return {**pod, "metadata": metadata, "spec": _pod_spec(pod.get("spec") or {}, spec, is_limited)}


def _have_room(annotations: Mapping[str, str], spec: ClusterColocationProfileSpec) -> bool:
    """Whether the API server takes a pod's annotations with those of a profile."""
    factor, added = room_of(spec)
    return size_of(annotations) * factor + added <= MOST_ANNOTATIONS


def room_of(spec: ClusterColocationProfileSpec) -> tuple[int, int]:
    """How many times a profile may repeat the annotations of a pod, and the bytes that it adds."""
    mapping = spec.annotation_keys_mapping
    return 2 if mapping else 1, size_of(spec.annotations) + size_of(dict.fromkeys(mapping.values(), ""))


def size_of(annotations: Mapping[str, str]) -> int:
    """Bytes of keys and values."""
    return sum(len(f"{key}{value}".encode()) for key, value in annotations.items())


def _pod_spec(before: Mapping[str, Any], profile: ClusterColocationProfileSpec, is_limited: bool) -> dict[str, Any]:
    made = dict(before)
    if profile.scheduler_name is not None:
        made["schedulerName"] = profile.scheduler_name
    if profile.priority_class is not None:
        made["priorityClassName"] = profile.priority_class.name
        made["priority"] = profile.priority_class.value
        made["preemptionPolicy"] = profile.priority_class.preemption_policy
    tier = profile.rewritten_tier
    if tier is None or before.get("resources") is not None or (is_limited and profile.limited_namespaces != "apply"):
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
    """Requests and limits of a container with the tier's resources: CPU in whole milli-cores, memory in whole bytes.

    A missing request is the limit, as the API server defaults it, and a missing limit of an extended resource (another
    domain than kubernetes.io) the request. What `kept_because` names stays.
    """
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    kept = kept_because(resources, tier, domain)
    for amount in AMOUNTS:
        target = resource_name(tier, amount, domain)
        for name in () if amount in kept else sources(tier, amount, domain):
            if name in limits or name in requests:
                limit, request = limits.pop(name, None), requests.pop(name, None)
                requests[target] = _lent(name, limit if request is None else request)
                if domain == OWN_DOMAIN:
                    limits[target] = requests[target]
                elif limit is not None:
                    limits[target] = _lent(name, limit)
    made = {"requests": requests, "limits": limits}
    return {**resources, **{field: amounts for field, amounts in made.items() if amounts or field in resources}}


def kept_because(resources: Mapping[str, Any], tier: Tier, domain: str) -> Mapping[str, str]:
    """The amounts of a container, `cpu` or `memory`, that stay as they are, with the reason: else the API server would
    refuse the pod, or a limit would be another."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if any(name.startswith(HUGE_PAGES) for name in (*limits, *requests)):
        return dict.fromkeys(AMOUNTS, "huge pages need CPU and memory of the node")
    kept = {}
    for amount in AMOUNTS:
        target = resource_name(tier, amount, domain)
        names = [name for name in (target, *sources(tier, amount, domain)) if name in limits or name in requests]
        if len(names) > 1:
            kept[amount] = f"it is asked for as {' and '.join(names)}"
        elif names not in ([], [target]):
            values = {milli(amounts[names[0]]) for amounts in (requests, limits) if names[0] in amounts}
            if max(values) > milli(most := most_of(names[0])):
                kept[amount] = f"it is more than {most}"
            elif domain != OWN_DOMAIN:
                continue
            elif len(values) > 1:
                kept[amount] = f"{target} has no limit beside its request"
            elif values == {0}:
                kept[amount] = "it is 0"
    return kept


def most_of(name: str) -> str:
    """The most of a resource that a tier can have instead."""
    return MOST_CORES if name == "cpu" else MOST_WHOLE


def _lent(name: str, quantity: Any) -> Any:
    """An amount of this resource as the tier's resource has it."""
    if name == "cpu":
        return str(milli(quantity))
    whole = number(quantity).to_integral_value(ROUND_CEILING)
    return quantity if whole == number(quantity) else str(int(whole))


def milli(quantity: Any) -> int:
    """A quantity in thousandths, rounded up, as the API server has it. Raises ValueError for no quantity."""
    return int((number(quantity) * 1000).to_integral_value(ROUND_CEILING))


def number(quantity: Any) -> Decimal:
    """The number of a Kubernetes quantity. Raises ValueError."""
    found = parse_quantity(quantity)
    if found is None:
        raise ValueError(f"{quantity!r:.80} is not a quantity")
    return found
