"""Decisions as a list shows them."""

from __future__ import annotations

from slackwater.console.domain.views import DecisionSummary, EffectView
from slackwater.decisions.record import DecisionRecord


def summary_of(record: DecisionRecord, effect: EffectView | None) -> DecisionSummary:
    """The list entry of a record, with its effect if known."""
    return DecisionSummary(
        id=record.id,
        kind=record.kind,
        node=record.node,
        subject=record.subject,
        service=record.service,
        rule=record.rule,
        mode=record.mode,
        reason=record.reason,
        decided_at=record.decided_at,
        result=record.result,
        unit=record.unit,
        remaining=record.remaining,
        remaining_because=record.remaining_because,
        actions=record.actions,
        relieved=effect.relieved if effect else None,
        seconds_to_actuation=effect.seconds_to_actuation if effect else None,
        episode=record.episode,
        step=record.step,
    )
