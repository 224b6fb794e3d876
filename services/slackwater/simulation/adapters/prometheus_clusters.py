"""Finds the labels that tell several clusters in one Prometheus apart. Pure.

Two clusters are two sets of pods with different uids, each exported by targets of its own. Replicas of an exporter
export the same uids, and shards of one export different pods of the same nodes, so that neither is taken for a cluster.
"""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.prometheus import Labels, Points
from slackwater.simulation.adapters.prometheus_owners import scraped

_OF_PODS: Final = frozenset(
    ["__name__", "uid", "host_ip", "pod_ip", "created_by_kind", "created_by_name", "priority_class", "host_network"]
)
_OF_TARGETS: Final = frozenset(["job", "instance", "endpoint", "service", "container", "namespace", "pod", "node"])
"""Targets of one cluster differ in these, too: they tell clusters apart only where pods of one name exist twice."""
_MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class _PodInfo:
    """One series of kube_pod_info. `moments` are the points that it has."""

    labels: Labels
    uid: str
    name: tuple[str, str]
    node: str
    target: tuple[str, str]
    moments: frozenset[float]


def refuse_several(title: str, found: Mapping[tuple[tuple[str, str], ...], Points]) -> None:
    """Raises InvalidInput that names the labels and values by which the pods are of several clusters."""
    labels = distinguishing_labels(found)
    if not labels:
        return
    shown = "; ".join(f"{name}: {_listed(values)}" for name, values in labels.items())
    name, values = next(iter(labels.items()))
    chosen = next(filter(None, values), "")
    raise InvalidInput(
        f"{title}: this Prometheus has pods of several clusters, which would be added up. They differ in {shown}. "
        f"Select one cluster, such as --selector {shlex.quote(f'{name}={json.dumps(chosen, ensure_ascii=False)}')}",
        field="selector",
    )


def _listed(values: Iterable[str]) -> str:
    texts = [value or "(none)" for value in values]
    more = len(texts) - _MOST_SHOWN
    return ", ".join(texts[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def distinguishing_labels(found: Mapping[tuple[tuple[str, str], ...], Points]) -> dict[str, list[str]]:
    """Returns the labels of targets whose values divide pods and nodes, each with its values."""
    pods = [_info(dict(labels), points) for labels, points in found.items()]
    twins = _twins(pods)
    names = {name for pod in pods for name in pod.labels} - _OF_PODS
    names = {name for name in names if not name.startswith("exported_")}
    divided = {name: values for name in sorted(names) if (values := _divides(name, pods, twins))}
    own = {name: values for name, values in divided.items() if name not in _OF_TARGETS}
    return dict(sorted((own or divided).items(), key=lambda item: (not _is_of_cluster(item[0]), item[0])))


def _info(labels: dict[str, str], points: Points) -> _PodInfo:
    name = (scraped(labels, "namespace"), scraped(labels, "pod"))
    node = scraped(labels, "node")
    for own in ("namespace", "pod", "node"):  # those that are not the target's
        if not labels.get(f"exported_{own}"):
            labels.pop(own, None)
    uid = labels.get("uid") or "/".join((*name, node, labels.get("pod_ip", "")))
    target = (labels.get("job", ""), labels.get("instance", ""))
    return _PodInfo(labels, uid, name, node, target, frozenset(points.at.tolist()))


def _twins(pods: Iterable[_PodInfo]) -> list[tuple[_PodInfo, _PodInfo]]:
    """Returns pairs of different pods with one name at one moment."""
    by_name: dict[tuple[str, str], list[_PodInfo]] = defaultdict(list)
    for pod in pods:
        by_name[pod.name].append(pod)
    return [
        (first, other)
        for same in by_name.values()
        for place, first in enumerate(same)
        for other in same[place + 1 :]
        if first.uid != other.uid and first.moments & other.moments
    ]


def _divides(name: str, pods: Iterable[_PodInfo], twins: Iterable[tuple[_PodInfo, _PodInfo]]) -> list[str]:
    """Returns the values of a label if it divides pods into clusters, else nothing. Nodes of two clusters may have the
    same names, and their pods different ones: then only a label that says so by its name is proof."""
    by_pod, by_node, by_target = (dict(groups) for groups in _values_by(name, pods))
    values = sorted({value for of_pod in by_pod.values() for value in of_pod})
    if len(values) < 2 or _several(by_pod):
        return []
    if _is_of_cluster(name):
        return values if _coexist(name, pods) else []
    if _several(by_target):
        return []
    has_twins = any(one.labels.get(name, "") != other.labels.get(name, "") for one, other in twins)
    divides_nodes = name not in _OF_TARGETS and not _several(by_node)
    return values if has_twins or divides_nodes else []


def _coexist(name: str, pods: Iterable[_PodInfo]) -> bool:
    """Returns whether pods have different values at one moment, because a cluster may have been renamed."""
    values: dict[float, set[str]] = defaultdict(set)
    for pod in pods:
        for moment in pod.moments:
            values[moment].add(pod.labels.get(name, ""))
    return _several(values)


def _values_by(name: str, pods: Iterable[_PodInfo]) -> Iterator[dict[object, set[str]]]:
    groups: tuple[dict[object, set[str]], ...] = (defaultdict(set), defaultdict(set), defaultdict(set))
    for pod in pods:
        for group, key in zip(groups, (pod.uid, pod.node, pod.target), strict=True):
            group[key].add(pod.labels.get(name, ""))
    yield from groups


def _several(groups: Mapping[Any, set[str]]) -> bool:
    return any(len(values) > 1 for values in groups.values())


def _is_of_cluster(name: str) -> bool:
    return "cluster" in name.lower()
