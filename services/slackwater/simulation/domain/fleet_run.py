"""All nodes under one policy: every node looks at its own time, and pools keep their guards over all of them. Pure."""

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
    """Every waterline of any of them, once: all are measured against all."""
    found: dict[TalliedWaterline, None] = {}
    for rules in rulebooks:
        for policy in rules.policies.nodes:
            for rule in policy.rules:
                metric = metrics.get(rule.metric)
                found[TalliedWaterline(rule.metric, rule.waterline, metric is not None and metric.reached_counts)] = (
                    None
                )
    return sorted(found, key=lambda one: (one.metric, one.value))


def watched_by(
    node: SceneNode, waterlines: Sequence[TalliedWaterline], rulebooks: Sequence[Rulebook]
) -> tuple[TalliedWaterline | None, ...]:
    """The waterlines that any of the policies draws on this node; None for the others."""
    drawn = {
        (rule.metric, rule.waterline)
        for rules in rulebooks
        for policy in rules.policies.nodes
        if policy.selector is None or policy.selector.matches(node.labels)
        for rule in policy.rules
    }
    return tuple(one if (one.metric, one.value) in drawn else None for one in waterlines)


class FleetRun:
    """One policy on its way through a history. All nodes share the grid of looks, so there is an order among them: by
    time, then by their place."""

    def __init__(
        self,
        nodes: Sequence[SceneNode],
        rules: Rulebook,
        metrics: Metrics,
        terms: GuardTerms,
        waterlines: Sequence[TalliedWaterline],
        watched: Sequence[Sequence[TalliedWaterline | None]],
    ) -> None:
        """`watched` has the waterlines of each node, see `watched_by`."""
        self._terms = terms
        self._pool = [one.pool for one in nodes]
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
        """Milliseconds since 1970; what lies between is a whole number of looks."""
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
        looked = self.nodes[place].step(at, mode, deadlines)
        self._due[place] = None
        self._schedule(place, looked.next_at, end)
        if looked.evictions or looked.reliefs:
            guard.note(now, looked.evictions, looked.reliefs)
            if guard.mode(now) is not mode or tuple(guard.deadlines()) != deadlines:
                for other, when in self._others(place, at):
                    due = self._due[other]
                    if due is None or due > when:
                        self._schedule(other, when, end)

    def _others(self, place: int, at: int) -> Iterator[tuple[int, int]]:
        """Nodes of the same pool, and when each of them looks next if it misses no look."""
        for other, pool in enumerate(self._pool):
            if pool == self._pool[place] and other >= place:
                yield other, at + self._terms.every_ms if other == place else at
            elif pool == self._pool[place]:
                yield other, at + self._terms.every_ms

    def _schedule(self, place: int, at: int | None, end: int) -> None:
        if at is not None and at <= end and self.nodes[place].use is not None:
            self._due[place] = at
            heapq.heappush(self._queue, (at, place))
