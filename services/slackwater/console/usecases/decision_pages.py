"""The list of decisions with its filters, and the page of one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.charts.bars import effect_bar
from slackwater.console.domain.arithmetic import reading, unit_of
from slackwater.console.domain.episodes import DecisionRow, last_of, rows_of
from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary, EffectView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import chain, existing_decision
from slackwater.console.usecases.pictures import Waterfall, drawn
from slackwater.decisions.record import Alternative

PAGE = 40
READ = 240
"""Most decisions read for one page: an episode has many."""


@dataclass(frozen=True, slots=True)
class DecisionList:
    """`/decisions`: one page, newest first; `older` is the last decision of the page if there are more behind it."""

    now: datetime
    asked: DecisionFilter
    rows: Sequence[DecisionRow]
    older: DecisionSummary | None


@dataclass(frozen=True, slots=True)
class DecisionPageView:
    """`/decisions/{id}`."""

    now: datetime
    waterfall: Waterfall
    chain: Chain
    effect: EffectView | None
    effect_picture: str
    others: tuple[Alternative, ...]
    """The alternatives that are no pods; pods are among the candidates."""


async def decision_list(
    reads: ReadQueries, asked: DecisionFilter, now: datetime, each_step: bool = False
) -> DecisionList:
    """A page of episodes, or with `each_step` of decisions."""
    if each_step:
        decisions = await reads.decisions(replace(asked, limit=PAGE + 1))
        rows = tuple(DecisionRow((decision,)) for decision in decisions[:PAGE])
        return DecisionList(now, asked, rows, last_of(rows) if len(decisions) > PAGE else None)
    decisions = await reads.decisions(replace(asked, limit=READ + 1))
    rows = rows_of(decisions[:READ], PAGE)
    older = len(decisions) > sum(len(row.steps) for row in rows)
    return DecisionList(now, asked, rows, last_of(rows) if older else None)


async def newer(reads: ReadQueries, asked: DecisionFilter, than: tuple[datetime, str]) -> int:
    """The number of decisions that match the filter and are newer than the first one on the page; counted up to 100."""
    decisions = await reads.decisions(replace(asked, since=than[0], before=None, limit=100))
    return sum((decision.decided_at, decision.id) > than for decision in decisions)


async def decision_page(reads: ReadQueries, decision_id: str, now: datetime) -> DecisionPageView:
    record = await existing_decision(reads, decision_id)
    effect = await reads.effect(decision_id)
    picture = ""
    if effect is not None:
        unit = unit_of(record, effect.metric)
        picture = effect_bar(effect.before, effect.after, effect.waterline, lambda value: reading(value, unit))
    others = tuple(alternative for alternative in record.alternatives if not (alternative.pod_uid or alternative.keys))
    whole = await chain(reads, decision_id)
    return DecisionPageView(now, drawn(record), whole, effect, picture, others)
