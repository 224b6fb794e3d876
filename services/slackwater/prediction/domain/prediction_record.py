"""Explains a prod peak of one node and resource as whole units that add up, and repeats it from the record's JSON.

    peak = min(sum of the model's terms, limits), rounded up to a whole unit, + owned and never lent

For `workload-profile` the terms are computed again from B, S, L, the knob and its increase by rollouts. For other
models the recorded terms are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from slackwater.decisions.record import Term
from slackwater.model.records import record
from slackwater.peaks.port import Floats
from slackwater.peaks.workload_profile import four_terms, insured_risk
from slackwater.prediction.domain.forecast import Seen

_LEAST = 1e-6
_FORMULA = frozenset({"seen_together", "own_peaks", "limits", "insured", "novelty", "noise"})
_ROLLOUT = frozenset({"rollout", "rollout_share"})
_COLD = frozenset({"cold_stand_in", "cold_limits"})
NOTES: Mapping[str, str] = {
    "seen_together": "largest hour of two weeks of the present workloads' combined usage",
    "coincidence": "insured: all own largest hours at the same time",
    "novelty": "insured: all pods at their limits",
    "noise": "insured: variation that hourly maxima do not show",
    "rollout": "insured after a deployment, scaling or new configuration",
    "limits_cut": "a peak is at most the sum of the limits",
    "owned_cores": "limits of pods whose CPU is never lent",
    "periodic": "largest hour of the next day of the pods with a proven period, combined",
    "no_proven_period": "largest hours of the pods without a proven period",
    "cold_start_limits": "limits of pods that are not known yet",
}


@record(frozen=True, slots=True)
class Reasons:
    """The inputs of a peak in JSON types. `formula` has B, S, L and k; it is empty for models without a formula."""

    terms: Mapping[str, float]
    limits: float
    owned: int
    formula: Mapping[str, float]


def reasons(seen: Seen, node: int) -> Reasons:
    """Returns the inputs of a node's prod peak."""
    group = int(seen.group[node])
    owned = round(float(seen.owned[node]))
    if group < 0:
        return Reasons({}, 0.0, owned, {})
    terms = {name: float(values[group]) for name, values in seen.peaks.terms.items()}
    inputs = {name: float(values[group]) for name, values in seen.peaks.inputs.items()}
    silent = set() if inputs.get("rollout_share") else _ROLLOUT  # no workload changes, so the term is left out
    silent = silent | (set() if inputs.get("cold_limits") else _COLD)
    terms, inputs = (
        {name: value for name, value in mapping.items() if name not in silent} for mapping in (terms, inputs)
    )
    return Reasons(terms, float(seen.limits[group]), owned, inputs if inputs.keys() >= _FORMULA else {})


def explain(why: Reasons) -> tuple[int, tuple[Term, ...]]:
    """Returns the peak, and terms that add up to it."""
    terms = _again(why)
    total = sum(terms.values(), 0.0)
    peak = min(_cut_up(total), _cut_up(why.limits))
    parts = _whole(list(terms.values()))
    terms_shown = [Term(name=name, value=value, note=_note(name)) for name, value in zip(terms, parts, strict=True)]
    cut = peak - sum(parts)
    if _cut_up(total) > peak:
        terms_shown.append(Term(name="limits_cut", value=cut, note=_note("limits_cut")))
    elif cut:
        terms_shown.append(Term(name="rounding", value=cut, note="rounding up to a whole unit"))
    if why.owned:
        terms_shown.append(Term(name="owned_cores", value=why.owned, note=_note("owned_cores")))
    return peak + why.owned, tuple(terms_shown)


def decide(terms: Mapping[str, float], limits: float, owned: int, formula: Mapping[str, float], **said: Any) -> int:
    """Repeats a recorded decision from the JSON of its record."""
    return explain(Reasons(terms, limits, owned, formula))[0]


def _again(why: Reasons) -> Mapping[str, float]:
    """Returns the terms, computed again if the formula is known."""
    if not why.formula:
        return why.terms
    terms = _four(why.formula, "insured")
    if "rollout" in why.formula:
        terms["rollout"] = insured_risk(_four(why.formula, "rollout"))
    return {name: float(values[0]) for name, values in terms.items()}


def _four(formula: Mapping[str, float], insured: str) -> dict[str, Floats]:
    names = ("seen_together", "own_peaks", "limits", insured)
    together, own_peaks, limits, knob = (np.array([formula[name]]) for name in names)
    return four_terms(together, own_peaks, limits, knob, formula["novelty"], formula["noise"])


def _whole(amounts: Sequence[float]) -> list[int]:
    """Rounds the amounts so that every partial sum is within half a unit."""
    sums = [0, *(round(total) for total in np.cumsum(amounts).tolist())]
    return [after - before for before, after in pairwise(sums)]


def _cut_up(amount: float) -> int:
    return max(math.ceil(amount - _LEAST), 0)


def _note(name: str) -> str:
    return NOTES.get(name.rsplit(".", 1)[-1], "")
