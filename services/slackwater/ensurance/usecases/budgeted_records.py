"""Puts the decisions of one report into their episode and under the node's budget of records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordBudget, RecordForm, recorded
from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.events.decision_recorded import stream_bytes
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.model.records import record as value

EFFECT_BYTES: Final = 1100
"""The measured effect of a decision, which is published if its record is."""


def bytes_with_effect(record: DecisionRecord) -> int:
    """The bytes of a record in the stream, with the effect that is measured for it."""
    return stream_bytes(record) + EFFECT_BYTES


@value(frozen=True, slots=True)
class DecidedStep:
    """A decision record, the report as traced by the step that made it, and the form of the record. A record of the
    form LISTED is not published: the node's next one lists it."""

    record: DecisionRecord
    cause: Event[UsageReported]
    form: RecordForm = RecordForm.FULL

    @property
    def is_published(self) -> bool:
        return self.form is not RecordForm.LISTED


def budgeted(
    before: GuardedNode, after: GuardedNode, decided: Iterable[DecidedStep], budget: RecordBudget, now: datetime
) -> tuple[Sequence[DecidedStep], GuardedNode]:
    """The decisions in the form that the budget allows, and the node with its account. The effects of decisions
    without a record are not published."""
    account, continues = before.records, before.is_in_episode
    forms = list[DecidedStep]()
    for one in decided:
        step = recorded(account, one.record, budget, now, bytes_with_effect, continues=continues)
        account, continues = step.account, True
        forms.append(replace(one, record=step.record or one.record, form=step.form))
    unrecorded = {form.record.id for form in forms if not form.is_published}
    awaited = tuple(replace(one, is_recorded=False) if one.decision_id in unrecorded else one for one in after.awaited)
    return forms, replace(after, records=account, awaited=awaited)
