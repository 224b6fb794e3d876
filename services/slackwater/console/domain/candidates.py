"""The candidates of a decision in its order: chosen or spared, with their keys, their releases, and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slackwater.decisions.reasons import ONLY_TOLD, DecisionKind
from slackwater.decisions.record import DecisionRecord

GUARDING = (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT)
"""Kinds of decisions that choose among pods."""


@dataclass(frozen=True, slots=True)
class CandidateView:
    """One pod. `place` counts candidates from 1; None: it was not a candidate, for the reason in `because`. `released`
    is what a chosen pod releases (a restore gives back: negative), `would_release` the most that a spared pod could
    release; both in the unit of the record. `keys` are compared in the record's `order`.
    """

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
    """Whether the decision was to be executed: no preview, not beyond the mode, and at least one pod or node to act
    on.
    """
    return record.reason not in ONLY_TOLD and (record.kind not in GUARDING or bool(record.actions))


def candidates_of(record: DecisionRecord) -> tuple[CandidateView, ...]:
    """The pods in the order of the decision: the first yields first, or is restored first. Pods that are no candidates
    come last. Empty for decisions that are not about pods.
    """
    if record.kind is DecisionKind.CPUSET:
        return (*_placed_pods(record), *_spared(record))
    if record.kind not in GUARDING:
        return ()
    candidates = [*_chosen(record), *_spared(record)]
    ranked = [candidate for candidate in candidates if candidate.keys]
    ranked.sort(key=lambda candidate: (candidate.keys, candidate.pod_uid), reverse=record.kind is DecisionKind.RESTORE)
    return (*_placed(ranked), *(candidate for candidate in candidates if not candidate.keys))


def _placed(ranked: Sequence[CandidateView]) -> list[CandidateView]:
    return [replace(one, place=place) for place, one in enumerate(ranked, 1)]


def _chosen(record: DecisionRecord) -> list[CandidateView]:
    """The chosen pods. Terms and actions list the same pods in the same order; a term is in the unit of the record."""
    values = [term.value for term in record.terms]
    if len(values) != len(record.actions):
        values = [action.released_milli for action in record.actions]
    return [
        CandidateView(one.pod_uid, one.pod_name, one.namespace, None, True, one.keys, released=value)
        for one, value in zip(record.actions, values, strict=True)
    ]


def _placed_pods(record: DecisionRecord) -> list[CandidateView]:
    """The pods whose CPUs change; they release nothing."""
    return [
        CandidateView(action.pod_uid, action.pod_name, action.namespace, None, True, ())
        for action in record.actions
        if action.cpuset is not None
    ]


def _spared(record: DecisionRecord) -> list[CandidateView]:
    """Alternatives that are pods."""
    return [
        CandidateView(
            alternative.pod_uid,
            alternative.what,
            alternative.namespace,
            None,
            False,
            alternative.keys,
            would_release=alternative.would_release,
            because=alternative.rejected_because,
        )
        for alternative in record.alternatives
        if alternative.pod_uid or alternative.keys
    ]
