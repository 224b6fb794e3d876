"""The list of decisions with its filters, and the page of one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.console.domain.views import Chain, DecisionFilter, DecisionSummary
from slackwater.console.ports import Reads
from slackwater.console.usecases.explain import chain, existing_decision
from slackwater.console.usecases.pictures import Waterfall, drawn

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


async def decision_list(reads: Reads, asked: DecisionFilter, now: datetime) -> DecisionList:
    found = await reads.decisions(replace(asked, limit=PAGE + 1))
    return DecisionList(now, asked, found[:PAGE], len(found) > PAGE)


async def newer(reads: Reads, asked: DecisionFilter, than: tuple[datetime, str]) -> int:
    """How many decisions that the filter asks for came after the first one on the page; counted up to 100."""
    found = await reads.decisions(replace(asked, since=than[0], before=None, limit=100))
    return sum((each.decided_at, each.id) > than for each in found)


async def decision_page(reads: Reads, decision_id: str, now: datetime) -> DecisionPageView:
    record = await existing_decision(reads, decision_id)
    return DecisionPageView(now, drawn(record), await chain(reads, decision_id))
