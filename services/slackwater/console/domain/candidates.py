"""Who was looked at by a decision, in its order: chosen or spared, with the keys, what each releases, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slackwater.decisions.reasons import ONLY_TOLD, DecisionKind
from slackwater.decisions.record import DecisionRecord

GUARDING = (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT)
"""Kinds of decisions that choose among pods."""


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One pod. `place` counts from 1 among those that might be chosen; None: it never was one of them, `because` says
    why. `released` is what a chosen pod releases (a restore: gives back, negative), `would_release` what a spared one
    could have at most; both in the unit of the record. `keys` are compared as `order` of the record names them."""

    pod_uid: str
    name: str
    namespace: str
    place: int | None
    chosen: bool
    keys: tuple[float, ...]
    released: int | None = None
    would_release: int | None = None
    because: str = ""


def is_carried_out(record: DecisionRecord) -> bool:
    """Whether somebody was to act: no preview, nothing beyond the mode, and somebody to act on."""
    return record.reason not in ONLY_TOLD and (record.kind not in GUARDING or bool(record.actions))


def candidates_of(record: DecisionRecord) -> tuple[CandidateView, ...]:
    """In the order of the decision: who gives way first comes first, who is given back to first when restoring. Those
    that are no candidates follow. Empty for decisions that are about no pods."""
    if record.kind not in GUARDING:
        return ()
    found = [*_chosen(record), *_spared(record)]
    ranked = [one for one in found if one.keys]
    ranked.sort(key=lambda one: (one.keys, one.pod_uid), reverse=record.kind is DecisionKind.RESTORE)
    return (*_placed(ranked), *(one for one in found if not one.keys))


def _placed(ranked: Sequence[CandidateView]) -> list[CandidateView]:
    return [replace(one, place=place) for place, one in enumerate(ranked, 1)]


def _chosen(record: DecisionRecord) -> list[CandidateView]:
    """Terms and actions are of the same pods in the same order; a term is in the unit of the record."""
    values = [term.value for term in record.terms]
    if len(values) != len(record.actions):
        values = [action.released_milli for action in record.actions]
    return [
        CandidateView(one.pod_uid, one.pod_name, one.namespace, None, True, one.keys, released=value)
        for one, value in zip(record.actions, values, strict=True)
    ]


def _spared(record: DecisionRecord) -> list[CandidateView]:
    """Alternatives that are pods: records from before uids were told name only those that have a place."""
    return [
        CandidateView(
            one.pod_uid,
            one.what,
            one.namespace,
            None,
            False,
            one.keys,
            would_release=one.would_release,
            because=one.rejected_because,
        )
        for one in record.alternatives
        if one.pod_uid or one.keys
    ]
