"""Reads pods on nodes from metrics of cAdvisor and kube-state-metrics in a Prometheus.

Five queries over the range and three coarser ones, read only. A pod that moves becomes another series on its new node;
its workload is its topmost owner. Pods of several clusters are refused, because they would be added up. The prediction
for a pod is bounded by the larger of its request and its highest usage so far, because container limits are often
missing and usage above the request occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.plurals import counted, plural
from slackwater.simulation.adapters.prometheus import PAGE_POINTS, Labels, Points, Prometheus, TimeRange
from slackwater.simulation.adapters.prometheus_clusters import refuse_several
from slackwater.simulation.adapters.prometheus_owners import Owners, owners_of, scraped, workload_of
from slackwater.simulation.adapters.prometheus_queries import PrometheusQueries, matchers_of
from slackwater.simulation.usecases.placed_usage import PLACES, Placed
from slackwater.traces.grid import fill_gaps
from slackwater.traces.options import TraceResource
from slackwater.traces.placement import Stays, presences
from slackwater.traces.trace import CELL_SECONDS, Amounts, Repairs, Trace

QUERIES = 5
"""Over the whole range."""
LOOKS = 3
"""Shorter queries: for clusters, and for owners."""
_LOOK_SECONDS = 3600
_LOOKS_AT_CLUSTERS = 4
LONGEST_GAP_CELLS = 6
"""A gap of up to half an hour (with coarser points, up to the next one) is filled with the previous value. After that
the pod counts as absent."""
MOST_MISSING_CELLS = 12
"""Usage may begin or end an hour inside of the range without a note. The figures are of what is between."""
_MOST = 2.0**47
"""The largest valid amount of milli-cores or bytes (128 TiB), so that sums fit into 64 bits."""
_FROM_CORES = {TraceResource.CPU: 1000.0, TraceResource.MEMORY: 1.0}

Flags = NDArray[np.bool_]
Pod = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Five-minute cells over the queried range."""

    start: int
    cells: int
    longest_gap: int

    def spread(self, points: Points) -> tuple[NDArray[np.float64], Flags]:
        """Returns the mean of the points of each cell, and which cells have points. Impossible values are ignored."""
        values = points.value
        sound = (values >= 0) & (values <= _MOST)
        cell = ((points.at[sound] - self.start) // CELL_SECONDS).astype(np.intp)
        inside = (cell >= 0) & (cell < self.cells)
        count = np.bincount(cell[inside], minlength=self.cells)
        sums = np.bincount(cell[inside], weights=values[sound][inside], minlength=self.cells)
        return sums / np.maximum(1, count), count > 0


@dataclass(frozen=True, slots=True)
class _Cells:
    """The values of one pod by cell, 0 where unknown, and which cells are known. A tenth of the size of the points."""

    values: Amounts
    known: Flags

    def with_those_of(self, other: _Cells) -> _Cells:
        return _Cells(np.maximum(self.values, other.values), self.known | other.known)


@dataclass(frozen=True, slots=True)
class _Series:
    """A pod on a node, with the cells in which it was there."""

    pod: Pod
    node: int
    workload: str
    here: Flags


def read(server: Prometheus, span: TimeRange, title: str, selector: str = "") -> Placed:
    """Reads the whole range of the series that `selector` matches. Raises NotFound that names the missing metric,
    InvalidInput for several clusters, Misconfigured for insufficient labels, and what the server raises."""
    queries = PrometheusQueries(matchers_of(selector))
    title = f"{title} {{{queries.selector}}}" if queries.selector else title
    grid = _grid(span)
    refuse_several(title, server.range(queries.pods_with_all_labels, _coarse(span, _LOOKS_AT_CLUSTERS)))
    allocatable = server.range(queries.nodes[0], span)
    notes = [f"{title}: cAdvisor and kube-state-metrics, one point every {span.step} s; all pods count as prod"]
    if not allocatable:
        allocatable = server.range(queries.nodes[1], span)
        notes.append(
            "no kube_node_status_allocatable: the node capacity is used, which includes the kubelet's reservation"
        )
    if not allocatable:
        raise NotFound(
            f"{title}: no kube_node_status_allocatable and no …_capacity; check that kube-state-metrics is scraped"
        )
    names, capacity, there = _nodes(grid, allocatable)
    info = server.range(queries.pods, span)
    if not info:
        raise NotFound(
            f"{title}: no kube_pod_info: the nodes of pods are unknown; check that kube-state-metrics is scraped"
        )
    looks = _coarse(span, min(PAGE_POINTS - 1, max(1, (span.end - span.start) // _LOOK_SECONDS)))
    owners = owners_of({kind: server.range(query, looks) for kind, query in queries.owners.items()})
    where = _on_nodes(grid, info, {name: place for place, name in enumerate(names)}, owners)
    window = max(300, 2 * span.step)
    usage = {}
    for each, query in queries.usage.items():
        told = server.range(query.replace("%d", str(window)), span)
        _refuse_renamed(title, told)
        usage[each] = _by_pod(grid, told)
    for each, of_pods in usage.items():
        if not of_pods:
            raise NotFound(f"{title}: no usage of {each} by containers; check that cAdvisor is scraped")
    requests = _requests(grid, server.range(queries.requests, span))
    return _placed(title, grid, where, names, capacity, there, usage, requests, notes + list(server.warnings))


def _grid(span: TimeRange) -> _Grid:
    start = span.start // CELL_SECONDS * CELL_SECONDS
    longest_gap = max(LONGEST_GAP_CELLS, -(-span.step // CELL_SECONDS))
    return _Grid(start, (span.end - start) // CELL_SECONDS + 1, longest_gap)


def _coarse(span: TimeRange, parts: int) -> TimeRange:
    """The same range in so many parts, or at its own step if that is coarser; it ends where the range ends."""
    step = max(span.step, (span.end - span.start) // parts)
    return TimeRange(span.end - (span.end - span.start) // step * step, span.end, step)


def _nodes(
    grid: _Grid, found: Mapping[tuple[tuple[str, str], ...], Points]
) -> tuple[list[str], NDArray[np.int64], Flags]:
    names = sorted({scraped(dict(labels), "node") for labels in found})
    capacity, there = np.zeros((len(names), len(PLACES)), np.int64), np.zeros((grid.cells, len(names)), bool)
    for labels, points in found.items():
        said = dict(labels)
        if (resource := said.get("resource", "")) in PLACES:
            each, node = TraceResource(resource), names.index(scraped(said, "node"))
            values, known = grid.spread(points)
            if known.any():
                last = values[np.flatnonzero(known)[-1]]
                capacity[node, PLACES[each]] = int(last * _FROM_CORES[each])
                there[:, node] |= known
    blank = np.zeros(there.shape, np.float32)
    fill_gaps(there, blank, blank.copy(), grid.longest_gap)  # a node with a short gap is not absent
    return names, capacity, there


def _on_nodes(
    grid: _Grid, found: Mapping[tuple[tuple[str, str], ...], Points], places: Mapping[str, int], owners: Owners
) -> list[_Series]:
    """Returns where each pod was. If two nodes report it in one cell, the alphabetically later one counts."""
    series: dict[tuple[Pod, int], _Series] = {}
    for labels, points in sorted(found.items()):
        said = dict(labels)
        node = places.get(scraped(said, "node"))
        if node is None:
            continue
        pod, workload = _pod(said), workload_of(said, owners)
        _, known = grid.spread(points)
        before = series.get((pod, node))
        series[pod, node] = _Series(pod, node, workload, known if before is None else known | before.here)
    return list(series.values())


def _pod(labels: Labels) -> Pod:
    return scraped(labels, "namespace"), scraped(labels, "pod")


def _refuse_renamed(title: str, found: Iterable[tuple[tuple[str, str], ...]]) -> None:
    """Raises Misconfigured if cAdvisor's labels were renamed: its parent cgroups have no pod label of their own, so
    they would carry the label of the scrape target."""
    if any("exported_pod" in dict(labels) for labels in found):
        raise Misconfigured(
            f"{title}: the scrape renamed cAdvisor's labels (exported_pod), so containers cannot be distinguished "
            "from their parent cgroups; set honor_labels: true for that scrape job"
        )


def _by_pod(grid: _Grid, found: Mapping[tuple[tuple[str, str], ...], Points]) -> dict[Pod, _Cells]:
    """Combines series by pod. A pod that is exported under several target labels counts once."""
    spread: dict[Pod, _Cells] = {}
    for labels, points in found.items():
        values, known = grid.spread(points)
        pod, cells = _pod(dict(labels)), _Cells(values.astype(np.float32), known)
        spread[pod] = cells if pod not in spread else spread[pod].with_those_of(cells)
    return spread


def _requests(
    grid: _Grid, found: Mapping[tuple[tuple[str, str], ...], Points]
) -> dict[TraceResource, dict[Pod, _Cells]]:
    parts = {
        each: {labels: points for labels, points in found.items() if dict(labels).get("resource") == each}
        for each in TraceResource
    }
    return {
        each: {
            pod: _Cells(cells.values * np.float32(_FROM_CORES[each]), cells.known)
            for pod, cells in _by_pod(grid, part).items()
        }
        for each, part in parts.items()
    }


def _placed(
    title: str,
    grid: _Grid,
    where: Sequence[_Series],
    names: Sequence[str],
    capacity: NDArray[np.int64],
    there: Flags,
    usage: Mapping[TraceResource, Mapping[Pod, _Cells]],
    requests: Mapping[TraceResource, Mapping[Pod, _Cells]],
    notes: list[str],
) -> Placed:
    shape = (grid.cells, len(where))
    used = {each: np.zeros(shape, np.float32) for each in TraceResource}
    asked = {each: np.zeros(shape, np.float32) for each in TraceResource}
    known = {each: np.zeros(shape, bool) for each in TraceResource}
    for column, one in enumerate(where):
        for each in TraceResource:
            if (cells := usage[each].get(one.pod)) is not None:
                used[each][:, column], known[each][:, column] = cells.values, cells.known & one.here
            if (cells := requests[each].get(one.pod)) is not None:
                asked[each][:, column] = _held(cells)
    present = known[TraceResource.CPU] | known[TraceResource.MEMORY]
    real = int(np.count_nonzero(present))
    for each in TraceResource:
        fill_gaps(known[each], used[each], asked[each].copy(), grid.longest_gap)
    present = known[TraceResource.CPU] | known[TraceResource.MEMORY]
    if not present.any():
        raise NotFound(
            f"{title}: no pod with usage is on a known node; check that cAdvisor and kube-state-metrics use the same "
            "labels namespace and pod"
        )
    seen = np.flatnonzero(present.any(axis=1))
    whole, first, measured = len(present), int(seen[0]), slice(int(seen[0]), int(seen[-1]) + 1)
    used, asked = {each: used[each][measured] for each in used}, {each: asked[each][measured] for each in asked}
    present, there = present[measured], there[measured]
    workloads = {name: number for number, name in enumerate(sorted({one.workload for one in where}))}
    repairs = Repairs(rows=real, filled=int(np.count_nonzero(present)) - real)
    traces = {
        each: Trace(
            title=title,
            resource=each,
            start_seconds=grid.start + first * CELL_SECONDS,
            names=[f"{one.pod[0]}/{one.pod[1]}" for one in where],
            workload=np.array([workloads[one.workload] for one in where], np.intp),
            usage=np.where(present, used[each], 0).astype(np.float32),
            limit=_most(used[each], asked[each], present),
            present=present,
            whole_machines=False,
            repairs=repairs,
            workloads=list(workloads),
        )
        for each in TraceResource
    }
    series, begin, end = presences(present)
    machine = np.array([one.node for one in where], np.intp)
    return Placed(
        title=title,
        traces=traces,
        stays=Stays(machine[series], series, begin, end, len(names)),
        nodes=names,
        capacity=capacity,
        requests={each: np.where(present, asked[each], 0).astype(np.float32) for each in TraceResource},
        notes=[*notes, *_shorter(whole, first, len(present)), *_unknown(where, asked, present, there)],
        there=there & _has_pods(where, present, there),
    )


def _shorter(asked: int, first: int, found: int) -> Iterable[str]:
    """Yields a note if the usage found does not cover the cells asked for: the retention is shorter, or scraping began
    later or has ended."""
    before, after = first, asked - first - found
    hours = CELL_SECONDS / 3600
    if before > MOST_MISSING_CELLS:
        yield (
            f"there is usage of only the last {(found + after) * hours / 24:.1f} of the {asked * hours / 24:.1f} days "
            "asked for; is the server's retention shorter?"
        )
    if after > MOST_MISSING_CELLS:
        yield f"the last usage is {after * hours:.1f} hours old; is cAdvisor still scraped?"


def _held(asked: _Cells) -> Amounts:
    """Extends each request until the next one, and the first request back to the start."""
    places = np.flatnonzero(asked.known)
    if not len(places):
        return asked.values
    last = np.maximum.accumulate(np.where(asked.known, np.arange(len(asked.known)), places[0]))
    return asked.values[last]


def _most(used: Amounts, asked: Amounts, present: Flags) -> Amounts:
    """Returns the larger of the request and the highest usage so far; later usage does not count."""
    seen = np.maximum.accumulate(np.where(present, used, 0), axis=0)
    found: Amounts = np.where(present, np.maximum(asked, seen), 0).astype(np.float32)
    return found


def _unknown(
    where: Sequence[_Series], asked: Mapping[TraceResource, Amounts], present: Flags, there: Flags
) -> Iterable[str]:
    """Yields notes about data that the metrics lack and the figures therefore ignore."""
    here = [bool(seen) for seen in np.any(present, axis=0)]
    pods = len({one.pod for one, seen in zip(where, here, strict=True) if seen})
    for each in TraceResource:
        without = {one.pod for place, one in enumerate(where) if here[place] and not asked[each][:, place].any()}
        if len(without) == pods:
            yield f"no requests of {each} are known: a pod counts with its highest usage so far"
        elif without:
            yield f"{len(without)} of {counted(pods, 'pod')} {plural(len(without), 'has', 'have')} no request of {each}"
    if never := sum(not seen for seen in here):
        listed = counted(never, "pod is listed and was", "pods are listed and were")
        yield f"{listed} never measured: they had finished, or their metrics are missing"
    measured = _has_pods(where, present, there)
    if not there.all():
        yield f"nodes were absent in {1 - there.mean():.1%} of the cells and offer nothing there"
    if (silent := int(np.count_nonzero(there & ~measured))) > 0:
        share = silent / max(1, int(np.count_nonzero(there)))
        yield f"in {share:.1%} of the cells a node has no pod with a sample: it counts as absent, not as empty"


def _has_pods(where: Sequence[_Series], present: Flags, there: Flags) -> Flags:
    """Returns (cells, nodes) whether any pod of the node was measured. Even an idle node runs system pods."""
    found = np.zeros_like(there)
    for column, one in enumerate(where):
        found[:, one.node] |= present[:, column]
    return found
