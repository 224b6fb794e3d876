"""Suites of hints and their merge in qrm.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, not_covered

from slackwater.kernels.topology.cpu_list import parse_distances
from slackwater.kernels.topology.hints import (
    Hint,
    hints_by_resource,
    mask_of,
    nodes_of,
    single_node_hints,
    widest_of_narrowest,
)
from slackwater.kernels.topology.machine import CpuMachine
from slackwater.kernels.topology.merge import Distances, MergePolicy, distances_between, merge, prefers_candidate
from slackwater.kernels.topology.merge_numeric import merge_numeric
from slackwater.model.errors import InvalidInput

NODES = (0, 1, 2, 3)
"""Of the machine that the merge suites assume."""


def merged(policy: MergePolicy) -> Adaptor:
    def adaptor(case: Case) -> Verdict:
        if "providers" not in case:
            return not_covered("the inputs are those of a case of another group, which this file has not")
        providers = _providers(case)
        got = merge(policy, NODES, providers)
        names = [name for name, _ in hints_by_resource(providers)] or ["*"]
        hints = {} if got.hint is None else dict.fromkeys(names, _shown(got.hint))
        want = case.get("expect")
        return compare((hints if want is not None else None, got.admitted), (want, case["admit"]))

    return adaptor


def numeric(case: Case) -> Verdict:
    found = merge_numeric(_providers(case))
    hints = None if found is None else {name: _shown(hint) for name, hint in found.items()}
    return compare((hints, found is not None), (case["expect"], case["admit"]))


def closest_merge(case: Case) -> Verdict:
    distances = case["distances"]
    providers, nodes = _providers(case), range(len(distances))
    near = merge(MergePolicy.BEST_EFFORT, nodes, providers, _sums(distances)).hint
    plain = merge(MergePolicy.BEST_EFFORT, nodes, providers).hint
    got = [near and _shown(near), plain and _shown(plain)]
    return compare(got, [case["expect"], case.get("expect_without_option", got[1])])


def single(case: Case) -> Verdict:
    got = single_node_hints([_hints(hints) for hints in case["in"]])
    return compare([[_shown(hint) for hint in hints] for hints in got], case["expect"])


def widest(case: Case) -> Verdict:
    return compare(widest_of_narrowest([_hints(hints) for hints in case["in"]]), case["expect"])


def compared(case: Case) -> Verdict:
    current = None if case["current"] is None else _hint(case["current"])
    got = prefers_candidate(current, _hint(case["candidate"]), case["best"])
    return compare("candidate" if got else "current", case["expect"])


def distance(case: Case) -> Verdict:
    rows = {one: dict(enumerate(row)) for one, row in enumerate(case["distances"])}
    nodes = case["nodes"]
    return compare(CpuMachine((), rows).distance_sum(nodes) / len(nodes) ** 2, case["expect"], relative=1e-9)


def closest(case: Case) -> Verdict:
    current, candidate = (Hint(mask_of(case[name]), preferred=True) for name in ("current", "candidate"))
    got = prefers_candidate(current, candidate, 0, _sums(case["distances"]))
    return compare("candidate" if got else "current", case["expect"])


def split(case: Case) -> Verdict:
    try:
        got: Any = list(parse_distances(case["in"]))
    except InvalidInput:
        got = None
    return compare(got, case["expect"])


def _sums(rows: Sequence[Sequence[int]]) -> Distances:
    return distances_between(lambda nodes: sum(rows[one][other] for one in nodes for other in nodes))


def _providers(case: Case) -> list[dict[str, list[Hint] | None] | None]:
    return [
        None
        if provided is None
        else {name: None if hints is None else _hints(hints) for name, hints in provided.items()}
        for provided in case["providers"]
    ]


def _hints(hints: Sequence[Mapping[str, Any]]) -> list[Hint]:
    return [_hint(hint) for hint in hints]


def _hint(hint: Mapping[str, Any]) -> Hint:
    if not isinstance(hint["p"], bool):
        raise TypeError(f"p: {hint['p']!r} is not true or false")
    return Hint(None if hint["n"] is None else mask_of(hint["n"]), hint["p"])


def _shown(hint: Hint) -> dict[str, Any]:
    return {"n": None if hint.mask is None else list(nodes_of(hint.mask)), "p": hint.preferred}


ADAPTORS: Mapping[str, Adaptor] = {
    "merge.best-effort": merged(MergePolicy.BEST_EFFORT),
    "merge.restricted": merged(MergePolicy.RESTRICTED),
    "merge.single-numa-node": merged(MergePolicy.SINGLE_NUMA_NODE),
    "merge.none": merged(MergePolicy.NONE),
    "merge.numeric": numeric,
    "merge.prefer-closest": closest_merge,
    "filter.single-numa": single,
    "maxOfMinAffinityCounts": widest,
    "compareHints": compared,
    "avgDistance": distance,
    "closest": closest,
    "splitDistances": split,
}
