"""The page of quotas: the ledger of a tree in one resource, its debts, queue and reclaims, and its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slackwater.charts.quota_chart import QuotaSample, quota_bullet, quota_history
from slackwater.charts.svg import Frame
from slackwater.charts.units import bare
from slackwater.console.domain.quota_points import QuotaPoint
from slackwater.console.ports import ReadQueries
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted
from slackwater.fairshare.documents import MOST_AMOUNT, MOST_BYTES, MOST_CORES
from slackwater.fairshare.tree import is_cpu
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA

SPANS: Final[Mapping[str, tuple[timedelta, int]]] = {
    "15m": (timedelta(minutes=15), 5),
    "1h": (timedelta(hours=1), 30),
    "6h": (timedelta(hours=6), 180),
    "24h": (timedelta(hours=24), 600),
}
"""How far the history goes back, and its step in seconds."""
MOST_CHARTS: Final = 12
GIBIBYTE: Final = 1 << 30
STALE_SECONDS: Final = 180.0
"""Quota publishes each ledger once a minute even if nothing changes."""
_NO_LIMIT: Final = {"milli-cores": 1000 * MOST_CORES, "bytes": MOST_BYTES}
"""The max of the generated quota `default`, by unit."""
_HISTORY: Final = Frame(400, 110, left=52, right=8, top=8, bottom=22)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota in the shown resource. `maximum` None: not limited."""

    name: str
    depth: int
    used: int
    requested: int
    runtime: int
    minimum: int
    maximum: int | None
    entitled: int
    fair_share: int
    borrowed: int
    lent: int
    owed: int
    holding: int
    queued: int
    bullet: str


@dataclass(frozen=True, slots=True)
class QuotaDebt:
    """What moves between the children of one quota: lent = borrowed. `owed` is what lenders want back of it."""

    parent: str
    lent: int
    owed: int
    lenders: Sequence[QuotaRow]
    borrowers: Sequence[QuotaRow]


@dataclass(frozen=True, slots=True)
class QuotaHistory:
    """What one quota used, as a picture."""

    name: str
    picture: str


@dataclass(frozen=True, slots=True)
class QuotasPage:
    """`/quotas`. `ledger` is None where no tree has quotas; `stale` if it is older than it may be."""

    now: datetime
    trees: Sequence[str]
    ledger: QuotaAccounted | None
    resources: Sequence[str] = ()
    resource: str = ""
    unit: str = ""
    span: str = "1h"
    rows: Sequence[QuotaRow] = ()
    debts: Sequence[QuotaDebt] = ()
    histories: Sequence[QuotaHistory] = ()
    charts_beyond: int = 0
    stale: bool = False
    documents: frozenset[str] = frozenset()
    """Names of quotas whose document is there: a ledger may still hold one that was deleted."""


async def quotas_page(reads: ReadQueries, now: datetime, tree: str, resource: str, span: str) -> QuotasPage:
    ledgers = {ledger.tree: ledger for ledger in await reads.quota_ledgers() if ledger.quotas}
    if not ledgers:
        return QuotasPage(now, (), None)
    ledger = ledgers.get(tree) or next(iter(ledgers.values()))
    resources = resources_of(ledger)
    shown = resource if resource in resources else _first(ledger, resources)
    chosen = span if span in SPANS else "1h"
    length, step = SPANS[chosen]
    points = await reads.quota_points(ledger.tree, shown, now - length, now, step)
    rows = rows_of(ledger, shown)
    return QuotasPage(
        now=now,
        trees=list(ledgers),
        ledger=ledger,
        resources=resources,
        resource=shown,
        unit=unit_of(shown),
        span=chosen,
        rows=rows,
        debts=debts_of(ledger, rows),
        histories=_histories(ledger, rows, points, shown, now - length, now),
        charts_beyond=max(0, len(rows) - MOST_CHARTS),
        stale=(now - ledger.accounted_at).total_seconds() > STALE_SECONDS,
        documents=frozenset(view.name for view in await reads.resources(ELASTIC_QUOTA.name)),
    )


def unit_of(resource: str) -> str:
    """Returns the unit of a resource, as the filters for amounts know it."""
    if is_cpu(resource):
        return "milli-cores"
    return "bytes" if resource.endswith("memory") else ""


class UnitByResource(dict[str, str]):
    """The unit of any resource, by its name."""

    def __missing__(self, resource: str) -> str:
        return unit_of(resource)


def resources_of(ledger: QuotaAccounted) -> list[str]:
    """Returns the resources that a quota of the tree names or uses."""
    return sorted({key for quota in ledger.quotas for key in (*quota.min, *quota.max, *quota.used)})


def _first(ledger: QuotaAccounted, resources: Sequence[str]) -> str:
    """The resource of which most is lent, then most is used, as a part of the total; one that the pool has before one
    that only a document names."""

    def weight(resource: str) -> tuple[bool, float, float]:
        total = ledger.total.get(resource, 0) or 1
        lent, used = (
            sum(getattr(quota, word).get(resource, 0) for quota in ledger.quotas) for word in ("lent", "used")
        )
        return bool(ledger.total.get(resource)), lent / total, used / total

    return max(resources, key=weight, default="")


def rows_of(ledger: QuotaAccounted, resource: str) -> list[QuotaRow]:
    """Returns the quotas in the order of the tree, with bullets on one scale."""
    unit = unit_of(resource)
    most = [ledger.total.get(resource, 0)]
    most += [max(quota.used.get(resource, 0), quota.min.get(resource, 0)) for quota in ledger.quotas]
    return [_row(quota, resource, max(most), unit) for quota in ledger.quotas]


def _row(quota: AccountedQuota, resource: str, top: int, unit: str) -> QuotaRow:
    def of(amounts: Mapping[str, int]) -> int:
        return amounts.get(resource, 0)

    maximum = quota.max.get(resource)
    if maximum is not None and maximum >= _NO_LIMIT.get(unit, MOST_AMOUNT):
        maximum = None
    bullet = quota_bullet(
        of(quota.used), of(quota.borrowed), of(quota.runtime), of(quota.min), maximum, top, lambda one: bare(one, unit)
    )
    return QuotaRow(
        name=quota.name,
        depth=quota.depth,
        used=of(quota.used),
        requested=of(quota.requested),
        runtime=of(quota.runtime),
        minimum=of(quota.min),
        maximum=maximum,
        entitled=of(quota.entitled),
        fair_share=of(quota.fair_share),
        borrowed=of(quota.borrowed),
        lent=of(quota.lent),
        owed=of(quota.owed),
        holding=quota.holding,
        queued=quota.queued,
        bullet=bullet,
    )


def debts_of(ledger: QuotaAccounted, rows: Sequence[QuotaRow]) -> list[QuotaDebt]:
    """Returns the levels on which something is lent."""
    levels: dict[str, list[QuotaRow]] = {}
    for quota, row in zip(ledger.quotas, rows, strict=True):
        if row.lent or row.borrowed:
            levels.setdefault(quota.parent, []).append(row)
    return [
        QuotaDebt(
            parent=parent,
            lent=sum(row.lent for row in level),
            owed=sum(row.owed for row in level),
            lenders=[row for row in level if row.lent],
            borrowers=[row for row in level if row.borrowed],
        )
        for parent, level in levels.items()
    ]


def _histories(
    ledger: QuotaAccounted,
    rows: Sequence[QuotaRow],
    points: Sequence[QuotaPoint],
    resource: str,
    since: datetime,
    until: datetime,
) -> list[QuotaHistory]:
    shown, unit = rows[:MOST_CHARTS], unit_of(resource)
    per = GIBIBYTE if unit == "bytes" else 1
    series = {
        row.name: [
            QuotaSample(point.at, figures.used / per, figures.runtime / per, figures.requested / per)
            for point in points
            if (figures := point.quotas.get(row.name)) is not None
        ]
        for row in shown
    }
    most = [max(sample.used, sample.runtime, sample.requested) for samples in series.values() for sample in samples]
    top = max([ledger.total.get(resource, 0) / per, *most])
    return [
        QuotaHistory(
            row.name,
            quota_history(
                _HISTORY,
                since,
                until,
                series[row.name],
                row.minimum / per,
                top,
                lambda one: bare(round(one * per), unit),
                f"{resource} of quota {row.name} over time",
            ),
        )
        for row in shown
    ]
