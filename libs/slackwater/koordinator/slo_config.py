"""The ConfigMap slo-controller-config: one JSON text per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from slackwater.koordinator.colocation_config import strategies
from slackwater.koordinator.conversion_report import ConvertedItem, ImportOutcome, ReportLine
from slackwater.koordinator.source_objects import SourceObject, json_object, mapping_of
from slackwater.koordinator.threshold_config import thresholds

NAME: Final = "slo-controller-config"
SECTIONS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Iterator[ConvertedItem]]]] = {
    "colocation-config": strategies,
    "resource-threshold-config": thresholds,
}
WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "resource-qos-config": "CPU is shared by tier (NodeQOS default, spec.weights); resctrl, blkio and network classes "
    "are not set",
    "cpu-burst-config": "limits of prod are not raised",
    "system-config": "kernel parameters of nodes are not set",
    "host-application-config": "agents are told by SLACKWATER_AGENT_HOST_APPLICATIONS: "
    "docs/how-to/count-host-applications.md",
    "cpu-normalization-config": "the node's annotation cpu-normalization-ratio is read; nothing computes it",
    "resource-amplification-config": "the node's annotation raw-allocatable is read; nothing amplifies",
}


def slo_config(config: SourceObject) -> Iterator[ConvertedItem]:
    """Yields the documents of the ConfigMap."""
    for key, text in sorted(mapping_of(config.body.get("data")).items()):
        source = f"{config.title}, {key}"
        if key not in SECTIONS:
            yield ReportLine(ImportOutcome.DROPPED, source, note=WITHOUT_COUNTERPART.get(key, "is no known key"))
            continue
        try:
            section = json_object(str(text))
        except ValueError as error:
            yield ReportLine(ImportOutcome.REFUSED, source, note=str(error))
            continue
        yield from SECTIONS[key](section, source)
