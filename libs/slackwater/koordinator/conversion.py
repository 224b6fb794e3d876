"""Converts all objects of a cluster that concern Koordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from slackwater.koordinator.colocation_profiles import colocation_profiles
from slackwater.koordinator.conversion_report import (
    Conversion,
    ConvertedDocument,
    ConvertedItem,
    ImportOutcome,
    ReportLine,
    counted_lines,
)
from slackwater.koordinator.object_marks import Mark, is_marked, marks
from slackwater.koordinator.quota_objects import quotas
from slackwater.koordinator.slo_config import NAME as SLO_CONFIG
from slackwater.koordinator.slo_config import slo_config
from slackwater.koordinator.source_objects import SourceObject, selected_keys, source_objects

QUOTA_GROUPS: Final = ("scheduling.sigs.k8s.io", "quota.koordinator.sh")
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "NodeMetric": "agents report over NATS",
    "NodeSLO": "is made of slo-controller-config",
    "Reservation": "a Reservation has resources and owners in place of a pod template: write it by hand",
    "PodMigrationJob": "jobs in progress are the peer's",
    "PodGroup": "gangs are not scheduled",
    "Device": "devices are not shared",
    "NodeResourceTopology": "CPUs of a NUMA node are not allocated",
    "Recommendation": "`slackwater assess` recommends requests",
}


READ_BY: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("ClusterColocationProfile", "selector"): ("Pods", "labels"),
    ("ClusterColocationProfile", "labelKeysMapping"): ("Pods", "labels"),
    ("ClusterColocationProfile", "annotationKeysMapping"): ("Pods", "annotations"),
    ("ClusterColocationProfile", "namespaceSelector"): ("Namespaces", "labels"),
    ("ColocationStrategy", "nodeSelector"): ("Nodes", "labels"),
    ("NodeQOS", "selector"): ("Nodes", "labels"),
}
"""Which marks a field of a converted document reads."""


def convert(bodies: Iterable[Any]) -> Conversion:
    """Converts documents as YAML has them, in any order; what is none of Koordinator's is left out silently. Of an
    object that is given twice the last counts, as with `kubectl apply`."""
    objects = tuple(source_objects(bodies))
    single = {(item.kind, item.group, item.namespace, item.name): item for item in objects}
    items = tuple(_with_names_of_their_own(_items(tuple(single.values()))))
    read = marks_read(item for item in items if isinstance(item, ConvertedDocument))
    items = (*items, *marks(filter(is_marked, objects), read))
    documents = tuple(item for item in items if isinstance(item, ConvertedDocument))
    return Conversion(documents, counted_lines(item for item in items if isinstance(item, ReportLine)))


def _with_names_of_their_own(items: Iterable[ConvertedItem]) -> Iterator[ConvertedItem]:
    """Yields the items; a document is refused whose name one of another object has, as of another namespace."""
    sources: dict[str, str] = {}
    for item in items:
        if isinstance(item, ConvertedDocument):
            first = sources.setdefault(item.title, item.source)
            if first == item.source:
                yield item
            else:
                note = f"{first} has the same name"
                yield ReportLine(ImportOutcome.REFUSED, item.source, target=item.title, note=note)
        elif item.outcome is not ImportOutcome.CONVERTED or sources.get(item.target, item.source) == item.source:
            yield item


def marks_read(documents: Iterable[ConvertedDocument]) -> dict[Mark, str]:
    """The marks that documents select by or copy from, with the title of the first such one."""
    read: dict[Mark, str] = {}
    for document in documents:
        for field, value in document.spec.items():
            for key in selected_keys(value) if (document.kind, field) in READ_BY else ():
                read.setdefault((*READ_BY[document.kind, field], key), document.title)
    return read


def _items(objects: tuple[SourceObject, ...]) -> Iterator[ConvertedItem]:
    for config in objects:
        if config.kind == "ConfigMap" and config.name == SLO_CONFIG:
            yield from slo_config(config)

    def of(kind: str, *groups: str) -> list[SourceObject]:
        return [one for one in objects if one.kind == kind and one.group in groups]

    yield from quotas(of("ElasticQuota", *QUOTA_GROUPS), of("ElasticQuotaProfile", *QUOTA_GROUPS))
    profiles = of("ClusterColocationProfile", "config.koordinator.sh")
    yield from colocation_profiles(profiles, of("PriorityClass", "scheduling.k8s.io"))

    for one in objects:
        if one.kind in WITHOUT_COUNTERPART and not one.group.startswith("slackwater.io"):
            note = WITHOUT_COUNTERPART[one.kind]
            yield ReportLine(ImportOutcome.DROPPED, f"{one.kind}s", note=note)
