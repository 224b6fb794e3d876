"""A prod peak of one node and resource as whole units that add up, and the same again from the record's JSON alone.

    peak = min(sum of the model's terms, limits), cut up to a whole unit, + what is owned and never lent

`workload-profile` is made again from B, S, L and the knob (and what rollouts add to it); of other models the terms are
the record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from slackwater.decisions.record import Term
from slackwater.model.records import record
from slackwater.prediction.domain.forecast import Seen
from slackwater.prediction.domain.models.port import Floats
from slackwater.prediction.domain.models.workload_profile import four_terms, insured_risk

_LEAST = 1e-6
_FORMULA = frozenset({"seen_together", "own_peaks", "limits", "insured", "novelty", "noise"})
_ROLLOUT = frozenset({"rollout", "rollout_share"})
_COLD = frozenset({"cold_stand_in", "cold_limits"})
NOTES: Mapping[str, str] = {
    "seen_together": "the largest hour of two weeks of what is here now, together",
    "coincidence": "insured: each at its own largest hour at once",
    "novelty": "insured: all at their limits",
    "noise": "insured: what hourly maxima do not show",
    "rollout": "insured while something was deployed, scaled or configured anew",
    "limits_cut": "a peak is at most the sum of the limits",
    "owned_cores": "limits of those whose CPU is never lent",
    "periodic": "the largest hour of the next day of those with a proven period, together",
    "no_proven_period": "the largest hours of those without a proven period",
    "cold_start_limits": "limits of those that are not known yet",
}


@record(frozen=True, slots=True)
class Reasons:
    """What a peak follows from, in JSON's types. `formula` has B, S, L and k; empty for models that do not say."""

    terms: Mapping[str, float]
    limits: float
    owned: int
    formula: Mapping[str, float]


def reasons(seen: Seen, node: int) -> Reasons:
    """Of the prod peak of a node."""
    group = int(seen.group[node])
    owned = round(float(seen.owned[node]))
    if group < 0:
        return Reasons({}, 0.0, owned, {})
    terms = {name: float(values[group]) for name, values in seen.peaks.terms.items()}
    inputs = {name: float(values[group]) for name, values in seen.peaks.inputs.items()}
    silent = set() if inputs.get("rollout_share") else _ROLLOUT  # nothing changes: nothing to say
    silent = silent | (set() if inputs.get("cold_limits") else _COLD)
    terms, inputs = ({name: one for name, one in said.items() if name not in silent} for said in (terms, inputs))
    return Reasons(terms, float(seen.limits[group]), owned, inputs if inputs.keys() >= _FORMULA else {})


def explain(why: Reasons) -> tuple[int, tuple[Term, ...]]:
    """The peak, and terms that add up to it."""
    terms = _again(why)
    total = sum(terms.values(), 0.0)
    peak = min(_cut_up(total), _cut_up(why.limits))
    parts = _whole(list(terms.values()))
    found = [Term(name=name, value=value, note=_note(name)) for name, value in zip(terms, parts, strict=True)]
    cut = peak - sum(parts)
    if _cut_up(total) > peak:
        found.append(Term(name="limits_cut", value=cut, note=_note("limits_cut")))
    elif cut:
        found.append(Term(name="rounding", value=cut, note="up to a whole unit"))
    if why.owned:
        found.append(Term(name="owned_cores", value=why.owned, note=_note("owned_cores")))
    return peak + why.owned, tuple(found)


def decide(terms: Mapping[str, float], limits: float, owned: int, formula: Mapping[str, float], **said: Any) -> int:
    """Repeat a recorded decision from the JSON of its record."""
    return explain(Reasons(terms, limits, owned, formula))[0]


def _again(why: Reasons) -> Mapping[str, float]:
    """The terms, made anew where the formula is known."""
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
    """Rounded so that every sum from the left is right within half a unit."""
    sums = [0, *(round(each) for each in np.cumsum(amounts).tolist())]
    return [after - before for before, after in pairwise(sums)]


def _cut_up(amount: float) -> int:
    return max(math.ceil(amount - _LEAST), 0)


def _note(name: str) -> str:
    return NOTES.get(name.rsplit(".", 1)[-1], "")
