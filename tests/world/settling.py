"""How long a world needs after its last fault until nothing that the fault has caused goes on."""

from __future__ import annotations

from tests.world.plan import Plan

from slackwater.agent.settings import AgentSettings
from slackwater.colocation.settings import ColocationSettings
from slackwater.ingestion.settings import IngestionSettings

RESTORED_SECONDS = 100.0
"""From the last fault to the last step of a restore, with a report in at most ten seconds: a lease, a cool-down and the
steps, each of which waits for a report."""
REPORT_SECONDS = 10.0
QUOTAS_SECONDS = 75.0
"""Of a world of quotas alone: the longest delay, grace and backoff, one after the other."""
MOVES_SECONDS = 100.0
"""Of a world of moves: the longest wait and time to live that it draws, or what a withdrawal takes to be confirmed."""
OFFERED_SECONDS = 20.0
"""From the end of a window to the offer of its prediction, without faults."""


def settling_seconds(plan: Plan) -> float:
    """The quiet time that a plan needs beside its rest, so that invariants at rest may be strict. A pod that has ended
    counts to the end of its window, and a rise of an offer may begin just after the first of its windows."""
    if plan.move_nodes:
        return MOVES_SECONDS
    if plan.scripted_nodes:
        return QUOTAS_SECONDS
    window = IngestionSettings(**plan.settings.get("ingestion", {})).window_seconds
    rise = ColocationSettings(**plan.settings.get("colocation", {})).rise_windows
    report = AgentSettings(node="node", **plan.settings.get("agent", {})).report_seconds
    restored = RESTORED_SECONDS * max(1.0, report / REPORT_SECONDS)
    return max(restored, (rise + 1) * window + OFFERED_SECONDS - plan.rest_seconds)


def has_settled(plan: Plan) -> bool:
    """Whether a plan gives that time. Every drawn plan does; a shrunk or written one need not."""
    return plan.quiet_seconds >= settling_seconds(plan)
