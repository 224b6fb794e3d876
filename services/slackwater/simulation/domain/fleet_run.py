"""Replays all nodes under one policy: nodes step at their own times, and the guard of a pool covers its nodes. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from slackwater.simulation.domain.guard_tally import Above, GuardTally, NodeTally, TalliedWaterline
from slackwater.simulation.domain.guarded_run import GuardTerms, NodeRun, moment
from slackwater.simulation.domain.pool_guards import PoolGuard
from slackwater.simulation.domain.scenes import SceneNode, UsageScene
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.rulebook import Rulebook


def waterlines_of(rulebooks: Sequence[Rulebook], metrics: Metrics) -> list[TalliedWaterline]:
    """Returns the distinct waterlines of all policies: every policy is measured against all of them."""
    waterlines: dict[TalliedWaterline, None] = {}
    for rules in rulebooks:
        for policy in rules.policies.nodes:
            for rule in policy.rules:
                metric = metrics.get(rule.metric)
                waterlines[
                    TalliedWaterline(rule.metric, rule.waterline, metric is not None and metric.reached_counts)
                ] = None
    return sorted(waterlines, key=lambda waterline: (waterline.metric, waterline.value))


def watched_by(
    node: SceneNode, waterlines: Sequence[TalliedWaterline], rulebooks: Sequence[Rulebook]
) -> tuple[TalliedWaterline | None, ...]:
    """Returns the waterlines that any policy applies to this node; None for the others."""
    drawn = {
        (rule.metric, rule.waterline)
        for rules in rulebooks
        for policy in rules.policies.nodes
        if policy.selector is None or policy.selector.matches(node.labels)
        for rule in policy.rules
    }
    return tuple(waterline if (waterline.metric, waterline.value) in drawn else None for waterline in waterlines)


class FleetRun:
    """The replay of one policy. All nodes step on one time grid and are ordered by time, then by index."""

    def __init__(
        self,
        nodes: Sequence[SceneNode],
        rules: Rulebook,
        metrics: Metrics,
        terms: GuardTerms,
        waterlines: Sequence[TalliedWaterline],
        watched: Sequence[Sequence[TalliedWaterline | None]],
    ) -> None:
        """`watched` holds the waterlines of each node (see `watched_by`)."""
        self._terms = terms
        self._pool = [node.pool for node in nodes]
        self._guards = {pool: PoolGuard(rules.autonomy_of(pool)) for pool in dict.fromkeys(self._pool)}
        tallies = [NodeTally([Above() for _ in waterlines]) for _ in nodes]
        self.tally = GuardTally(waterlines, tallies)
        self.nodes: Sequence[NodeRun] = [
            NodeRun(facts, rules, metrics, terms, tally, drawn)
            for facts, tally, drawn in zip(nodes, tallies, watched, strict=True)
        ]
        self._due: list[int | None] = [None] * len(nodes)
        self._queue: list[tuple[int, int]] = []

    def play(self, scenes: Sequence[UsageScene | None], begin: int, end: int) -> None:
        """Replays one period; `begin` and `end` are milliseconds since 1970, a whole number of steps apart."""
        for place, (node, scene) in enumerate(zip(self.nodes, scenes, strict=True)):
            node.enter(scene, begin)
            self._due[place] = None
            if scene is not None:
                self._schedule(place, begin + self._terms.every_ms, end)
        while self._queue:
            at, place = heapq.heappop(self._queue)
            if self._due[place] == at:
                self._step(place, at, end)
        for node in self.nodes:
            node.leave(end)
        self.tally.step_backs = sum(guard.step_backs for guard in self._guards.values())
        self.tally.cut()

    def _step(self, place: int, at: int, end: int) -> None:
        guard, now = self._guards[self._pool[place]], moment(at)
        mode, deadlines = guard.mode(now), tuple(guard.deadlines())
        result = self.nodes[place].step(at, mode, deadlines)
        self._due[place] = None
        self._schedule(place, result.next_at, end)
        if result.evictions or result.reliefs:
            guard.note(now, result.evictions, result.reliefs)
            if guard.mode(now) is not mode or tuple(guard.deadlines()) != deadlines:
                for other, when in self._others(place, at):
                    due = self._due[other]
                    if due is None or due > when:
                        self._schedule(other, when, end)

    def _others(self, place: int, at: int) -> Iterator[tuple[int, int]]:
        """Yields the nodes of the same pool with the time of their next step if none is skipped."""
        for other, pool in enumerate(self._pool):
            if pool == self._pool[place] and other >= place:
                yield other, at + self._terms.every_ms if other == place else at
            elif pool == self._pool[place]:
                yield other, at + self._terms.every_ms

    def _schedule(self, place: int, at: int | None, end: int) -> None:
        if at is not None and at <= end and self.nodes[place].use is not None:
            self._due[place] = at
            heapq.heappush(self._queue, (at, place))
