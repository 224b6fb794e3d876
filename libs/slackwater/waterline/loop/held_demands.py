"""Demands for limits that are known to be needless or useless, and limits that are undone for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from slackwater.waterline.analysis.analyzer import Analysis, Ignored
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.loop.usefulness import RuleEffect, UselessThrottle


def left_to_weights(
    analysis: Analysis, effects: Sequence[RuleEffect], now: datetime
) -> tuple[Analysis, tuple[str, ...]]:
    """Returns the analysis in which throttles that CPU weights make needless for now are previews, and their rules.

    Evictions for the same metric, which come after throttles, wait as well. A demand without candidates stays as it is,
    because weights do nothing about it.
    """
    waiting = {effect.rule: effect for effect in effects if effect.is_waiting(now)}
    limitless = {effect.rule for effect in effects if effect.sets_no_limit(now)}
    previews = {verdict.rule.key for verdict in analysis.verdicts if verdict.rule.is_preview}
    throttles = (
        *analysis.throttles,
        *(demand for demand in analysis.previews if demand.kind is ActionKind.THROTTLE),
    )
    left = [
        demand
        for demand in throttles
        if demand.candidates and waiting.keys() & set(demand.rules) and limitless >= set(demand.rules)
    ]
    if not left:
        return analysis, ()
    metrics = {demand.metric.name for demand in left}
    evictions = (*analysis.evictions, *(demand for demand in analysis.previews if demand.kind is ActionKind.EVICT))
    late = [demand for demand in evictions if demand.metric.name in metrics]
    until = max(effect.waits_until for effect in waiting.values() if effect.waits_until is not None)
    because = f"CPU weights protect prod: no eviction before limits were tried, from {until:%H:%M:%S} UTC on"
    moved = tuple(demand for demand in left if not previews & set(demand.rules))
    held = replace(
        analysis,
        throttles=tuple(demand for demand in analysis.throttles if demand not in left),
        evictions=tuple(demand for demand in analysis.evictions if demand not in late),
        previews=(*moved, *(demand for demand in analysis.previews if demand not in late)),
        ignored=_ignored(analysis, [Ignored(key, because) for demand in late for key in demand.rules]),
    )
    return held, tuple(sorted({key for demand in left for key in demand.rules}))


def without_suspended(analysis: Analysis, effects: Sequence[RuleEffect], now: datetime) -> Analysis:
    """Returns the analysis without throttles that only suspended rules request. Their evictions stay."""
    until = {effect.rule: effect.until for effect in effects if effect.is_suspended(now)}
    if not until:
        return analysis
    because = "its throttles had no effect: no limits before {:%H:%M:%S} UTC"
    requested = {key for demand in analysis.throttles for key in demand.rules}
    ignored = [Ignored(key, because.format(time)) for key, time in until.items() if key in requested]
    return replace(
        analysis,
        throttles=tuple(demand for demand in analysis.throttles if not until.keys() >= set(demand.rules)),
        ignored=_ignored(analysis, ignored),
    )


def throttles_to_undo(analysis: Analysis, effects: Sequence[RuleEffect], now: datetime) -> tuple[UselessThrottle, ...]:
    """Returns the findings to carry out. Limits of another rule that is triggered or cools down stay, and so do limits
    that help another rule or whose trial for it is under way: it would set them again at once.
    """
    suspended = {
        effect.rule: effect.finding for effect in effects if effect.is_suspended(now) and effect.finding is not None
    }
    others = (
        verdict for verdict in analysis.verdicts if verdict.rule.key not in suspended and not verdict.rule.is_preview
    )
    if analysis.throttles or any(verdict.triggered or not verdict.is_over(now) for verdict in others):
        return ()
    if any(effect.rule not in suspended and (effect.has_helped or effect.is_on_trial) for effect in effects):
        return ()
    return tuple(suspended.values())


def _ignored(analysis: Analysis, added: Sequence[Ignored]) -> tuple[Ignored, ...]:
    return tuple(sorted((*analysis.ignored, *added), key=lambda ignored: ignored.rule))
