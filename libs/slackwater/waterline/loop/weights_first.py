"""Leaves prod's CPU to the weights of tiers where the agent finds them in force. Pure.

Weights and the idle class let prod run first, so above a waterline on prod's CPU pressure a quota would mostly take CPU
from batch that prod does not use. Such a rule sets limits only if its waterline stays crossed for `quota_after_seconds`
although weights are in force, because then weights do not suffice; or if its limits brought relief when they were last
judged (loop.usefulness). So a node on which weights are in force, and prod's pressure falls in time, has no quota.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.facts.node import NodeReadings

PROTECTING: Final = frozenset({"by-tier", "by-tier-idle"})
"""The weights that put prod first."""
GAP_SECONDS: Final = 30.0
"""Samples further apart do not show that a waterline stayed crossed between them."""


@record(frozen=True, slots=True)
class Crossed:
    """A waterline that is crossed: since when, and the last sample that was not calm."""

    since: datetime
    at: datetime


def is_protected(verdict: RuleVerdict, view: NodeReadings) -> bool:
    """Returns whether weights in force protect prod from what this rule measures."""
    return verdict.metric is not None and verdict.metric.left_to_weights and view.cpu_weights in PROTECTING


def crossed(before: Crossed | None, verdict: RuleVerdict, now: datetime) -> Crossed | None:
    """Returns the crossing after this sample. It begins with a trigger and ends when the rule is calm; single samples
    below do not end it, nor do missing ones, unless for longer than GAP_SECONDS.
    """
    if verdict.calm:
        return None
    if before is not None and not 0 <= (now - before.at).total_seconds() <= GAP_SECONDS:
        before = None
    if before is None:
        return Crossed(now, now) if verdict.triggered else None
    return before if verdict.reading is None else replace(before, at=now)
