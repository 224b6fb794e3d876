"""Outcomes of decisions as text."""

from __future__ import annotations

import re

from slackwater.charts.units import amount, cores
from slackwater.console.domain.views import DecisionSummary
from slackwater.decisions.reasons import ONLY_TOLD, DecisionKind, Mode, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.model.plurals import counted

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def short(source: str) -> str:
    """An event's id by its last eight digits (the first encode a time and repeat within a minute); other sources in
    full.
    """
    return f"…{source[-8:]}" if _UUID.fullmatch(source) else source


def outcome(decision: DecisionRecord | DecisionSummary) -> str:
    """The outcome of a decision in a few words: `took back 1 core`, `found nothing to take back`, `2.5 cores`."""
    value = amount(abs(decision.result), decision.unit)
    would = decision.mode is Mode.OBSERVE or decision.reason in ONLY_TOLD
    if decision.kind is DecisionKind.THROTTLE:
        if decision.result == 0:
            return "found nothing to take back"
        if decision.reason is Reason.THROTTLE_LEFT_TO_WEIGHTS:
            return f"left to CPU weights; limits would take back {value}"
        return f"would take back {value}" if would else f"took back {value}"
    if decision.kind is DecisionKind.SCHEDULING:
        if decision.reason is Reason.SCHEDULING_OBSERVED_ONLY:
            return "would take no new pods"
        return "takes no new pods" if decision.result else "takes new pods"
    if decision.kind is DecisionKind.EVICT:
        return f"would release {value}" if would else f"releases {value}"
    if decision.kind is DecisionKind.RESTORE:
        # A change to observe mode restores all limits, so this restore is executed although its mode is observe.
        really = not would or decision.reason is Reason.RESTORE_MODE_CHANGED
        return f"gave back {value}" if really else f"would give back {value}"
    if decision.kind in (DecisionKind.DESCHEDULE, DecisionKind.CPUSET):
        shared = f"pods share {counted(decision.result, 'CPU')}"
        return shared if decision.kind is DecisionKind.CPUSET else _moves(decision.result, would=would)
    if decision.kind is DecisionKind.AUTONOMY:
        return "only throttles for now" if decision.reason is Reason.AUTONOMY_STEPPED_BACK else f"may {decision.mode}"
    # of a claim: what was asked and given, because the result of its sum is what is left after it
    is_told = decision.kind is DecisionKind.CLAIM and decision.remaining_because
    return decision.remaining_because if is_told else amount(decision.result, decision.unit)


def _moves(count: int, *, would: bool) -> str:
    if count == 0:
        return "proposes no move"
    return f"would propose {counted(count, 'move')}" if would else f"proposes {counted(count, 'move')}"


def shortfall(decision: DecisionRecord | DecisionSummary) -> str:
    """The amount that a throttle could not release, and why: `0.8 cores remain: all are at their floor`; empty if it
    closed the gap.
    """
    if not decision.remaining:
        return ""
    because = f": {decision.remaining_because}" if decision.remaining_because else ""
    return f"{amount(decision.remaining, decision.unit)} remain{because}"


def equation(record: DecisionRecord) -> str:
    """The sum with its numbers, to be checked by hand: `8 - 0.4 - 1.6 = 6 cores`. In whole units, not rounded.

    Memory is in bytes, because amounts rounded to a binary unit would not add up.
    """
    milli = record.unit.startswith("milli")

    def figure(value: int) -> str:
        return cores(value) if milli else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")

    parts: list[str] = []
    for term in record.terms:
        sign = "\N{MINUS SIGN}" if term.value < 0 else "+"
        parts += [sign, figure(abs(term.value))] if parts or term.value < 0 else [figure(term.value)]
    result = figure(record.result).replace("-", "\N{MINUS SIGN}")
    unit = ("core" if abs(record.result) == 1000 else "cores") if milli else record.unit
    return f"{' '.join(parts) or '0'} = {result} {unit}".rstrip()
