"""Converts all objects of a cluster that concern Koordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from slackwater.koordinator.colocation_profiles import MAPPINGS, colocation_profiles
from slackwater.koordinator.conversion_report import (
    Conversion,
    ConvertedDocument,
    ConvertedItem,
    ImportOutcome,
    ReportLine,
    counted_lines,
)
from slackwater.koordinator.object_marks import has_pods, marks
from slackwater.koordinator.quota_objects import quotas
from slackwater.koordinator.slo_config import NAME as SLO_CONFIG
from slackwater.koordinator.slo_config import slo_config
from slackwater.koordinator.source_objects import SourceObject, mapping_of, source_objects

QUOTA_GROUPS: Final = ("scheduling.sigs.k8s.io", "quota.koordinator.sh")
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "NodeMetric": "agents report over NATS",
    "NodeSLO": "is made of slo-controller-config",
    "Reservation": "nothing reserves for later pods",
    "PodMigrationJob": "jobs in progress are the peer's",
    "PodGroup": "gangs are not scheduled",
    "Device": "devices are not shared",
    "NodeResourceTopology": "CPUs of a NUMA node are not allocated",
    "Recommendation": "`slackwater assess` recommends requests",
}


def convert(bodies: Iterable[Any]) -> Conversion:
    """Converts documents as YAML has them, in any order; what is none of Koordinator's is left out silently."""
    objects = tuple(source_objects(bodies))
    items = tuple(_items(objects))
    selected = selected_labels(item for item in items if isinstance(item, ConvertedDocument))
    items = (*items, *marks((one for one in objects if one.kind == "Node" or has_pods(one)), selected))
    documents = tuple(item for item in items if isinstance(item, ConvertedDocument))
    return Conversion(documents, counted_lines(item for item in items if isinstance(item, ReportLine)))


def selected_labels(documents: Iterable[ConvertedDocument]) -> dict[str, str]:
    """Keys that documents select by, in selectors at any depth, or copy from, with the title of the first such one."""
    found: dict[str, str] = {}
    for document in documents:
        for key in _keys_in(document.spec):
            found.setdefault(key, document.title)
    return found


def _keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for field in ("matchLabels", *MAPPINGS):
            yield from mapping_of(value.get(field))
        expressions = value.get("matchExpressions")
        for expression in expressions if isinstance(expressions, list) else ():
            yield str(mapping_of(expression).get("key"))
        for part in value.values():
            yield from _keys_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _keys_in(part)


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
