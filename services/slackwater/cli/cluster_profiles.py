"""What the profiles of a cluster do with its pods, for `slackwater doctor --kubernetes`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slackwater.cli.findings import Finding, Level
from slackwater.model.errors import InvalidInput
from slackwater.model.plurals import counted
from slackwater.profiles.limits import effect_of_limits, limited_namespaces
from slackwater.profiles.mutation import CONTAINERS, SYSTEM_NAMESPACES, is_critical, kept_because, selects
from slackwater.profiles.profile import ClusterColocationProfile

Json = Mapping[str, Any]
CHECK = "profiles"


def limits_in(quotas: Iterable[Json], ranges: Iterable[Json]) -> Mapping[str, str]:
    """What limits each namespace, of the objects of a cluster or a file."""
    return limited_namespaces(
        (kind, f"{item['metadata'].get('namespace', '')}/{item['metadata'].get('name', '')}", item.get("spec") or {})
        for kind, items in (("ResourceQuota", quotas), ("LimitRange", ranges))
        for item in items
    )


def profile_findings(
    documents: Iterable[Json], pods: Sequence[Json], namespaces: Iterable[Json], limited: Mapping[str, str]
) -> Sequence[Finding]:
    """A line for each profile: pods whose resources stay although it selects them, and limited namespaces."""
    labels = {
        str(namespace["metadata"]["name"]): dict(namespace["metadata"].get("labels") or {})
        for namespace in namespaces
        if namespace["metadata"]["name"] not in SYSTEM_NAMESPACES
    }
    found = []
    for document in documents:
        name = str(document["metadata"].get("name"))
        try:
            profile = ClusterColocationProfile.parse({"metadata": {"name": name}, "spec": document.get("spec")})
        except InvalidInput as error:
            found.append(Finding(CHECK, Level.WARN, f"{name}: {error.message}", "correct it"))
            continue
        effects = [*_on_pods(profile, pods, labels, limited)]
        effects += [effect] if (effect := effect_of_limits(profile, limited, labels)) else []
        if not effects:
            found.append(Finding(CHECK, Level.OK, f"{name}: nothing is in its way"))
            continue
        advice = "docs/how-to/use-kubectl.md says why; `slackwater profile preview -f FILE` shows a pod"
        found.append(Finding(CHECK, Level.WARN, f"{name}: {'; '.join(effects)}", advice))
    return found


def _on_pods(
    profile: ClusterColocationProfile,
    pods: Iterable[Json],
    labels: Mapping[str, Mapping[str, str]],
    limited: Mapping[str, str],
) -> Iterable[str]:
    reasons = Counter[str]()
    tier, domain = profile.spec.rewritten_tier, profile.spec.resource_domain
    for pod in pods:
        namespace = str(pod["metadata"].get("namespace"))
        if is_critical(pod) or tier is None or namespace not in labels or namespace in limited:
            continue
        if selects(profile, pod, namespace, labels[namespace]):
            reasons.update(_kept(pod, lambda resources: kept_because(resources, tier, domain)))
    for reason, number in sorted(reasons.items()):
        yield f"{reason} in {counted(number, 'pod')}"


def _kept(pod: Json, kept: Any) -> set[str]:
    spec = pod.get("spec") or {}
    if spec.get("resources"):
        return {"resources of the whole pod stay"}
    return {
        f"{amount} stays ({why})"
        for field in CONTAINERS
        for container in spec.get(field) or ()
        for amount, why in kept(container.get("resources") or {}).items()
    }
