"""The list of decisions with its filters, and the page of one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.charts.bars import effect_bar
from slackwater.console.domain.arithmetic import reading, unit_of
from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary, EffectView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import chain, existing_decision
from slackwater.console.usecases.pictures import Waterfall, drawn
from slackwater.decisions.record import Alternative

PAGE = 40


@dataclass(frozen=True, slots=True)
class DecisionList:
    """`/decisions`: one page, newest first; `older` says whether there are more behind the last one."""

    now: datetime
    asked: DecisionFilter
    items: Sequence[DecisionSummary]
    older: bool


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


async def decision_list(reads: ReadQueries, asked: DecisionFilter, now: datetime) -> DecisionList:
    decisions = await reads.decisions(replace(asked, limit=PAGE + 1))
    return DecisionList(now, asked, decisions[:PAGE], len(decisions) > PAGE)


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
