"""Decisions as rows of a list. Pure.

One row has the steps of an episode, from a node's first throttle to the restore of its last limit, or the amounts of
one offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.console.domain.views import DecisionSummary
from slackwater.decisions.effects import PodEffect, RowEffect, StepEffect, effect_of
from slackwater.decisions.reasons import DecisionKind


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """The decisions of one row that a list has read, newest first."""

    steps: tuple[DecisionSummary, ...]

    @property
    def newest(self) -> DecisionSummary:
        return self.steps[0]

    @property
    def episode(self) -> str:
        return self.newest.episode

    @property
    def named(self) -> tuple[DecisionSummary, ...]:
        """The decisions whose outcome the row names: the newest step of an episode, every amount of an offer."""
        return (self.newest,) if self.episode else tuple(sorted(self.steps, key=lambda step: step.subject))

    @property
    def since(self) -> datetime:
        return self.steps[-1].decided_at

    @property
    def lasted(self) -> timedelta:
        return self.newest.decided_at - self.since

    @property
    def count(self) -> int:
        """Steps from the oldest to the newest one read, with those that have no record of their own; else 1."""
        if not self.episode:
            return 1
        numbered = self.newest.step - self.steps[-1].step + 1 if self.newest.step else 1
        return max(len(self.steps), numbered)

    @property
    def kinds(self) -> tuple[tuple[DecisionKind, int], ...]:
        """The number of records of each kind, in the order in which they first occurred."""
        return tuple(Counter(step.kind for step in reversed(self.steps)).items())

    @property
    def effect(self) -> RowEffect:
        """What all steps of the row did together."""
        return effect_of(_step_of(step) for step in self.steps)

    @property
    def kind(self) -> DecisionKind:
        """The kind of the row: an episode that evicted a pod is one of evictions, whatever its last step was."""
        return DecisionKind.EVICT if self.effect.evicted else self.newest.kind

    @property
    def relieved(self) -> bool | None:
        """Whether the last measured effect relieved the node; None until one is measured."""
        return next((step.relieved for step in self.steps if step.relieved is not None), None)


def _step_of(decision: DecisionSummary) -> StepEffect:
    return StepEffect(
        decision.kind,
        decision.mode,
        decision.reason,
        [
            PodEffect(
                action.pod_uid,
                action.pod_name,
                action.released_milli,
                0 if action.memory is None else action.memory.released_bytes,
                action.evicted,
            )
            for action in decision.actions
        ],
    )


def rows_of(decisions: Iterable[DecisionSummary], most: int) -> tuple[DecisionRow, ...]:
    """At most `most` rows of decisions sorted newest first, ordered by their newest step.

    Stops before the decision that would begin one more row, so that the next page begins there.
    """
    rows: dict[str, list[DecisionSummary]] = {}
    for decision in decisions:
        key = _key(decision)
        if key not in rows and len(rows) == most:
            break
        rows.setdefault(key, []).append(decision)
    return tuple(DecisionRow(tuple(steps)) for steps in rows.values())


def _key(decision: DecisionSummary) -> str:
    if decision.episode:
        return decision.episode
    if decision.kind is DecisionKind.OFFER:
        return f"{decision.node} {decision.decided_at.timestamp()}"
    return decision.id


def last_of(rows: Sequence[DecisionRow]) -> DecisionSummary:
    """The oldest decision in the rows: the next page begins behind it."""
    return min((row.steps[-1] for row in rows), key=lambda step: (step.decided_at, step.id))
