"""How long a world needs after its last fault until nothing that the fault has caused goes on."""

from __future__ import annotations

from tests.world.plan import Plan

from slackwater.colocation.settings import ColocationSettings
from slackwater.ingestion.settings import IngestionSettings

RESTORED_SECONDS = 100.0
"""From the last fault to the last step of a restore: a lease, a cool-down and the steps."""
OFFERED_SECONDS = 20.0
"""From the end of a window to the offer of its prediction, without faults."""


def settling_seconds(plan: Plan) -> float:
    """The quiet time that a plan needs beside its rest, so that invariants at rest may be strict. A pod that has ended
    counts to the end of its window, and a rise of an offer may begin just after the first of its windows."""
    window = IngestionSettings(**plan.settings.get("ingestion", {})).window_seconds
    rise = ColocationSettings(**plan.settings.get("colocation", {})).rise_windows
    return max(RESTORED_SECONDS, (rise + 1) * window + OFFERED_SECONDS - plan.rest_seconds)


def has_settled(plan: Plan) -> bool:
    """Whether a plan gives that time. Every drawn plan does; a shrunk or written one need not."""
    return plan.quiet_seconds >= settling_seconds(plan)
