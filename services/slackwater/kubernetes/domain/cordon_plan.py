"""Plans the taints of cordoned nodes. Pure.

A cordon is the taint CORDON_TAINT. Its value is the end of its lease, `until-20261126T034500Z`, so that it says by
itself how long it holds. It is written when ensurance cordons a node, written again with every renewal, and removed
when ensurance uncordons the node or when the lease ends without a renewal (decision 0109).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from slackwater.apiserver.records import CORDON_TAINT, Taint
from slackwater.model.bounds import Moment, Name
from slackwater.model.records import record

FORMAT: Final = "until-%Y%m%dT%H%M%SZ"


class CordonEffect(StrEnum):
    """The effect of the taint; OFF: none is written, and what is there is removed."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    OFF = "off"


@record(frozen=True, slots=True)
class CordonNews:
    """What ensurance published last about a node. `until` is None of an open one."""

    told_at: Moment
    until: Moment | None
    decision_id: Name = ""


@record(frozen=True, slots=True)
class NodeCordonFacts:
    """A node of the cluster. `taint` is the one of Slackwater, `news` what ensurance said (None: nothing was read yet).
    `waits_until`: after a refusal no write before. `is_settling`: a write was made that the watch has not shown yet."""

    node: Name
    taint: Taint | None
    news: CordonNews | None
    waits_until: Moment | None = None
    is_settling: bool = False


@record(frozen=True, slots=True)
class CordonWrite:
    """One write: the taint that the node shall have of Slackwater; None: none."""

    node: Name
    taint: Taint | None


@record(frozen=True, slots=True)
class CordonPlan:
    """The writes to make now; when to plan again without news."""

    writes: tuple[CordonWrite, ...]
    again_at: datetime | None


def plan_cordons(nodes: Iterable[NodeCordonFacts], effect: CordonEffect, now: datetime) -> CordonPlan:
    """The taints that differ from what they should be."""
    writes, again = list[CordonWrite](), list[datetime]()
    for facts in nodes:
        until = holds_until(facts, effect, now)
        wanted = None if until is None else cordon_taint(until, effect)
        if until is not None:
            again.append(until)
        if facts.is_settling or _same(wanted, facts.taint):
            continue
        if facts.waits_until is not None and now < facts.waits_until:
            again.append(facts.waits_until)
            continue
        writes.append(CordonWrite(facts.node, wanted))
    return CordonPlan(tuple(writes), min(again, default=None))


def holds_until(facts: NodeCordonFacts, effect: CordonEffect, now: datetime) -> datetime | None:
    """The end of the cordon's lease, None for a node that shall not be cordoned. Without news, which are read one by
    one after a start, the taint's own lease counts."""
    if effect is CordonEffect.OFF:
        return None
    until = lease_of(facts.taint) if facts.news is None else facts.news.until
    return None if until is None or until <= now else until


def cordon_taint(until: datetime, effect: CordonEffect) -> Taint:
    """The taint of a cordon that holds until then, in whole seconds."""
    return Taint(CORDON_TAINT, until.astimezone(UTC).strftime(FORMAT), effect.value)


def lease_of(taint: Taint | None) -> datetime | None:
    """The end of a taint's lease; None without a taint, or if its value is none of Slackwater's."""
    try:
        return None if taint is None else datetime.strptime(taint.value, FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None


def _same(wanted: Taint | None, present: Taint | None) -> bool:
    if wanted is None or present is None:
        return wanted is present
    return (wanted.value, wanted.effect) == (present.value, present.effect)
