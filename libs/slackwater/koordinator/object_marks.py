"""Labels, annotations and resources of nodes and pods that Koordinator reads, and which of them Slackwater reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from slackwater.descheduling.evictability import eviction_cost
from slackwater.koordinator.conversion_report import ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import SourceObject, mapping_of, texts_of
from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, tier_named
from slackwater.offers.node_notes import AMOUNT_NOTES, notes_of
from slackwater.offers.strategy_layers import RATIOS, NodeOverrides, node_layers
from slackwater.waterline.facts.eviction_marks import eviction_policies, whole_number

DOMAIN: Final = "koordinator.sh"
Mark = tuple[str, str, str]
"""Objects such as Pods, `labels` or `annotations`, and the key."""
Problem = str
"""Why a value is not read; empty if it is."""


def _strategy(key: str, text: str) -> Problem:
    (layer,) = node_layers(NodeOverrides({}, {key: text}))
    return layer.problem


def _ratio(key: str, text: str) -> Problem:
    (layer,) = node_layers(NodeOverrides({key: text}, {}))
    return layer.problem


def _amounts(key: str, text: str) -> Problem:
    return "; ".join(notes_of({key: text}, Resources(MOST_CPU_MILLI, MOST_MEMORY_BYTES)).problems)


def _one_of(names: Iterable[str]) -> Callable[[str, str], Problem]:
    known = sorted(names)
    return lambda _, text: "" if text in known else f"{text!r} is none of {', '.join(known)}"


def _tier(_: str, text: str) -> Problem:
    return "" if tier_named(text) is not None else f"{text!r} is no tier"


def _whole(_: str, text: str) -> Problem:
    return "" if whole_number(text) is not None else f"{text!r} is no whole number"


def _policies(_: str, text: str) -> Problem:
    is_none = text.strip() != "[]" and eviction_policies(text) == frozenset()
    return f"{text!r} is no list of policies in JSON" if is_none else ""


def _cost(_: str, text: str) -> Problem:
    return "" if text == "0" or eviction_cost(text) else f"{text!r} is no whole number of 32 bits"


_BOTH: Final = {
    "koordinator.sh/priority": _whole,
    "koordinator.sh/eviction-enabled": _one_of(("true", "false")),
    "koordinator.sh/eviction-policy": _policies,
    "koordinator.sh/eviction-priority": _whole,
    "scheduling.koordinator.sh/eviction-cost": _cost,
}
READERS: Final[Mapping[Mark, Callable[[str, str], Problem]]] = {
    **{("Nodes", "labels", f"node.koordinator.sh/{name}"): _ratio for name in RATIOS},
    ("Nodes", "annotations", "node.koordinator.sh/colocation-strategy"): _strategy,
    **{("Nodes", "annotations", f"node.koordinator.sh/{name}"): _amounts for name in AMOUNT_NOTES},
    ("Pods", "labels", "koordinator.sh/qosClass"): _one_of(QoSClass),
    ("Pods", "labels", "koordinator.sh/priority-class"): _tier,
    **{("Pods", form, key): reader for form in ("labels", "annotations") for key, reader in _BOTH.items()},
}
"""What Slackwater reads under the peer's name, and its reader."""
NOTES: Final[Mapping[str, str]] = {
    "quota.scheduling.koordinator.sh/name": "pods have no quota by label yet: claim with `slackwater claim`",
    "quota.scheduling.koordinator.sh/preemptible": "nonPreemptible is a field of the quota",
    "scheduling.koordinator.sh/usage-thresholds": "the scheduler is the cluster's own",
}
LENT: Final = tuple(f"kubernetes.io/{tier}-{name}" for tier in ("batch", "mid") for name in ("cpu", "memory"))
SERVED_AS: Final = "is offered under this name if the service kubernetes has SLACKWATER_KUBERNETES_ALIASES=true"


SOURCES: Final[Mapping[str, str]] = {"Node": "Nodes", "Namespace": "Namespaces"}


def marks(objects: Iterable[SourceObject], read: Mapping[Mark, str]) -> Iterator[ReportLine]:
    """Yields a line for each mark of each node, namespace and pod; of a workload those of its pod template. `read` are
    the marks that converted documents select by or copy, with the title of such a document."""
    for one in objects:
        source = SOURCES.get(one.kind, "Pods")
        marked = one.body if one.kind in (*SOURCES, "Pod") else _template(one.spec)
        metadata = mapping_of(marked.get("metadata"))
        for form in ("labels", "annotations"):
            for key, text in sorted(texts_of(metadata.get(form)).items()):
                if _is_koordinators(key):
                    yield _line((source, form, key), text, read)
        if source == "Pods":
            for resource in _requested(mapping_of(marked.get("spec"))):
                yield ReportLine(ImportOutcome.CHANGED, source, f"resource {resource}", note=SERVED_AS)


def _line(mark: Mark, text: str, read: Mapping[Mark, str]) -> ReportLine:
    source, form, key = mark
    field = f"{form.removesuffix('s')} {key}"
    reader = READERS.get(mark)
    if reader is not None:
        problem = reader(key, text)
        outcome = ImportOutcome.REFUSED if problem else ImportOutcome.ALIAS
        return ReportLine(outcome, source, field, note=problem or "is read under this name")
    if mark in read:
        return ReportLine(ImportOutcome.ALIAS, source, field, read[mark], "is read under this name")
    return ReportLine(ImportOutcome.DROPPED, source, field, note=NOTES.get(key, "nothing reads it"))


def is_marked(one: SourceObject) -> bool:
    """Whether marks of the object are read: of a node, a namespace, a pod, or a template of pods."""
    return one.kind in (*SOURCES, "Pod") or bool(_template(one.spec))


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
