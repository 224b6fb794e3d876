"""Labels, annotations and resources of nodes and pods that Koordinator reads, and which of them Slackwater reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from slackwater.koordinator.conversion_report import ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import SourceObject, mapping_of, texts_of

DOMAIN: Final = "koordinator.sh"
ALIASES_OF_NODES: Final = frozenset(
    f"node.koordinator.sh/{name}"
    for name in (
        *("colocation-strategy", "cpu-reclaim-ratio", "memory-reclaim-ratio", "mid-static-cpu-reserved-ratio"),
        *("mid-static-memory-reserved-ratio", "reservation", "raw-allocatable", "cpu-normalization-ratio"),
        "third-party-allocations",
    )
)
ALIASES_OF_PODS: Final = frozenset(
    {
        *("koordinator.sh/qosClass", "koordinator.sh/priority-class", "koordinator.sh/priority"),
        *("koordinator.sh/eviction-enabled", "koordinator.sh/eviction-policy", "koordinator.sh/eviction-priority"),
        "scheduling.koordinator.sh/eviction-cost",
    }
)
NOTES: Final[Mapping[str, str]] = {
    "quota.scheduling.koordinator.sh/name": "pods have no quota by label yet: claim with `slackwater claim`",
    "quota.scheduling.koordinator.sh/preemptible": "nonPreemptible is a field of the quota",
    "scheduling.koordinator.sh/usage-thresholds": "the scheduler is the cluster's own",
}
LENT: Final = tuple(f"kubernetes.io/{tier}-{name}" for tier in ("batch", "mid") for name in ("cpu", "memory"))
SERVED_AS: Final = "is offered under this name if the service kubernetes has SLACKWATER_KUBERNETES_ALIASES=true"


def marks(objects: Iterable[SourceObject]) -> Iterator[ReportLine]:
    """Yields a line for each mark of each node and pod; of a workload those of its pod template."""
    for one in objects:
        of_nodes = one.kind == "Node"
        source = "Nodes" if of_nodes else "Pods"
        pod = one.body if one.kind in ("Node", "Pod") else _template(one.spec)
        metadata = mapping_of(pod.get("metadata"))
        aliases = ALIASES_OF_NODES if of_nodes else ALIASES_OF_PODS
        for form in ("labels", "annotations"):
            for key in sorted(texts_of(metadata.get(form))):
                if not _is_koordinators(key):
                    continue
                outcome = ImportOutcome.ALIAS if key in aliases else ImportOutcome.DROPPED
                note = "is read under this name" if key in aliases else NOTES.get(key, "nothing reads it")
                yield ReportLine(outcome, source, f"{form.removesuffix('s')} {key}", note=note)
        if not of_nodes:
            for resource in _requested(mapping_of(pod.get("spec"))):
                yield ReportLine(ImportOutcome.CHANGED, source, f"resource {resource}", note=SERVED_AS)


def has_pods(one: SourceObject) -> bool:
    """Whether the object is a pod, or has a template of pods."""
    return one.kind == "Pod" or bool(_template(one.spec))


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = mapping_of(mapping_of(spec.get("jobTemplate")).get("spec")) or spec
    return mapping_of(inner.get("template"))


def _is_koordinators(key: str) -> bool:
    prefix = key.partition("/")[0]
    return prefix == DOMAIN or prefix.endswith(f".{DOMAIN}")


def _requested(spec: Mapping[str, Any]) -> list[str]:
    """Returns the lent resources that the pod's containers name, under the peer's names."""
    named = {
        resource
        for field in ("initContainers", "containers")
        for container in (spec.get(field) or ())
        for part in ("requests", "limits")
        for resource in mapping_of(mapping_of(mapping_of(container).get("resources")).get(part))
    }
    return [resource for resource in LENT if resource in named]
