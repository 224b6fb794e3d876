"""The offers of a node's page: over time with the reasons of changes, and one of them as a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.charts.offer_chart import ChartUnit, OfferChangeMark, OfferStep, offer_chart
from slackwater.charts.svg import Frame
from slackwater.charts.units import cores, gibibytes
from slackwater.console.domain.views import OfferView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import mid_has_no_share, record_in_force
from slackwater.console.usecases.pictures import HALF, LEAST_SPAN, Picture, Waterfall, both, drawn
from slackwater.model.quantities import Resources

SUBJECTS = {"batch-cpu": "Batch CPU", "batch-memory": "Batch memory", "mid-cpu": "Mid CPU", "mid-memory": "Mid memory"}
SPANS = {"15m": 900, "1h": 3600, "6h": 21600, "24h": 86400}
UNITS = {"cpu": ChartUnit(cores, 1000.0), "memory": ChartUnit(gibibytes, float(2**30))}
CHANGES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class OfferQuery:
    """The selected view: the amount, the span, and the time (`at` as given, `moment` as parsed; None: now). `problem`
    is the part of it that could not be parsed.
    """

    subject: str = "batch-cpu"
    span: str = "1h"
    at: str = ""
    moment: datetime | None = None
    problem: str = ""

    @property
    def tier(self) -> str:
        return self.subject.partition("-")[0]

    @property
    def resource(self) -> str:
        return self.subject.partition("-")[2]


def offer_query(subject: str, span: str) -> OfferQuery:
    """The view; an unknown word gives the default."""
    return OfferQuery(subject if subject in SUBJECTS else "batch-cpu", span if span in SPANS else "1h")


@dataclass(frozen=True, slots=True)
class OfferPart:
    """`changes` are newest first; `waterfall` is of the record in force at the selected time; `no_share`: there is none
    because mid was offered nothing then.
    """

    look: OfferQuery
    picture: Picture | None
    changes: Sequence[tuple[OfferView, str]]
    cautious: bool
    waterfall: Waterfall | None
    no_share: bool


async def offer_part(reads: ReadQueries, node: str, now: datetime, look: OfferQuery) -> OfferPart:
    since = now - timedelta(seconds=SPANS[look.span])
    offers = await reads.offers(node, since, now)
    if offers:
        since = max(since, min(offers[0].offered_at, now - LEAST_SPAN))  # a younger node begins with its first offer
    found = [
        OfferStep(offer.offered_at, _of(offer.batch, look.resource), _of(offer.mid, look.resource), offer.degraded)
        for offer in offers
    ]
    changed = changes_of(offers, look.resource)
    marks = [_mark(offer, look) for offer in changed if offer.offered_at >= since]
    moment = look.moment or now
    record = None if look.problem else await record_in_force(reads, node, look.subject, moment)
    unit, word = UNITS[look.resource], "CPU" if look.resource == "cpu" else "memory"
    label = f"{word} offered to batch and mid over time, last {look.span}"

    def draw(frame: Frame) -> str:
        return offer_chart(frame, since, now, found, marks, unit, label)

    return OfferPart(
        look=look,
        picture=both(draw, height=170, width=HALF, narrow_height=160) if offers else None,
        changes=[(offer, decision_of(offer, look.subject)) for offer in reversed(changed)][:CHANGES_SHOWN],
        cautious=any(step.degraded for step in found),
        waterfall=drawn(record) if record else None,
        no_share=await mid_has_no_share(reads, node, look.subject, moment),
    )


def changes_of(offers: Sequence[OfferView], resource: str) -> list[OfferView]:
    """The offers that differ from the previous one in an amount of this resource, in being degraded, or in their
    strategies.
    """
    changes: list[OfferView] = []
    before: OfferView | None = None
    for offer in offers:
        if before is None or _published(offer, resource) != _published(before, resource):
            changes.append(offer)
        before = offer
    return changes


def decision_of(offer: OfferView, subject: str) -> str:
    """The record to link: of this subject, or of another one; empty if none is known."""
    return offer.decision_ids.get(subject) or next(iter(offer.decision_ids.values()), "")


def _published(offer: OfferView, resource: str) -> tuple[object, ...]:
    return _of(offer.batch, resource), _of(offer.mid, resource), offer.degraded, offer.strategies


def _of(amount: Resources, resource: str) -> int:
    return amount.cpu_milli if resource == "cpu" else amount.memory_bytes


def _mark(offer: OfferView, look: OfferQuery) -> OfferChangeMark:
    say, word = UNITS[look.resource].say, "cores" if look.resource == "cpu" else "GiB"
    batch, mid = say(_of(offer.batch, look.resource)), say(_of(offer.mid, look.resource))
    why = offer.reason.replace("_", " ") or "offer"
    caution = f"; {offer.degraded}" if offer.degraded else ""
    label = f"{offer.offered_at:%H:%M:%S} {why}: batch {batch}, mid {mid} {word}{caution}"
    decision = decision_of(offer, look.subject)
    return OfferChangeMark(
        offer.offered_at, offer.reason or "offer", label, f"/decisions/{decision}" if decision else ""
    )
