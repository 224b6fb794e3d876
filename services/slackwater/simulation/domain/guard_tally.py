"""Totals of a policy replay: waterline excess, limits, evictions and open gaps by node, summed at the end. Pure.

All sums are integers (milliseconds times milli-cores), so they do not depend on how time was divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from slackwater.decisions.reasons import Reason
from slackwater.simulation.domain.scenes import UsageScene, Use

Film = NDArray[np.float32]
CORE_SECOND = 1000 * 1000
CORE_HOUR = CORE_SECOND * 3600
GapKey = tuple[str, str, str]
"""Kind of action, metric, and the reason why the gap stayed open."""


@dataclass(frozen=True, slots=True)
class TalliedWaterline:
    """A waterline of at least one policy; all policies are measured against it."""

    metric: str
    value: Decimal
    reached_counts: bool = False

    def is_above(self, reading: Decimal) -> bool:
        return reading > self.value or (self.reached_counts and reading == self.value)


@dataclass(slots=True)
class Above:
    """Milliseconds with a reading and milliseconds above one waterline, on one node or summed over several.

    `longest_ms` is the maximum, not the sum.
    """

    known_ms: int = 0
    above_ms: int = 0
    episodes: int = 0
    longest_ms: int = 0
    running_ms: int = 0

    def add(self, milliseconds: int, *, is_above: bool) -> None:
        self.known_ms += milliseconds
        if not is_above:
            self.running_ms = 0
            return
        self.episodes += self.running_ms == 0
        self.above_ms += milliseconds
        self.running_ms += milliseconds
        self.longest_ms = max(self.longest_ms, self.running_ms)


@dataclass(slots=True)
class Gap:
    """A gap that stayed open for one reason: its duration and its maximum (None: unknown)."""

    milliseconds: int = 0
    largest: Decimal | None = None


@dataclass(slots=True)
class Acted:
    """Decisions of one reason, and the pods concerned."""

    decisions: int = 0
    pods: int = 0


@dataclass(slots=True)
class NodeTally:
    """One node under one policy. Amounts are milli-core-milliseconds, `*_ms` milliseconds.

    limited_ms  pod time with a limit of ensurance
    held        work prevented by such limits
    lacked      demand of prod that was not met
    ran         usage of batch
    lost        demand of evicted pods while they are gone
    closed_ms   time closed to new pods
    """

    waterlines: Sequence[Above]
    there_ms: int = 0
    limited_ms: int = 0
    held: int = 0
    lacked: int = 0
    ran: int = 0
    lost: int = 0
    closed_ms: int = 0
    unrelieved_ms: int = 0
    """Time with an open gap after all actions."""
    evictions: int = 0
    returned: int = 0
    acted: dict[Reason, Acted] = field(default_factory=dict)
    gaps: dict[GapKey, Gap] = field(default_factory=dict)
    levels: list[float] = field(default_factory=list)
    """For the current scene, by waterline: reading times milliseconds."""
    levels_ms: int = 0

    def __post_init__(self) -> None:
        self.levels = [0.0] * len(self.waterlines)

    def add(self, scene: UsageScene, use: Use, milliseconds: int, lost_milli: int, *, is_closed: bool) -> None:
        """Adds a time in which scene and use were constant."""
        self.there_ms += milliseconds
        self.limited_ms += use.limited * milliseconds
        self.held += use.held_milli * milliseconds
        self.lacked += use.lacked_milli * milliseconds
        self.ran += use.batch_milli * milliseconds
        self.lost += lost_milli * milliseconds
        self.closed_ms += milliseconds if is_closed else 0

    def level(self, milliseconds: int, readings: Sequence[tuple[float, bool] | None]) -> None:
        """Adds, by waterline, the reading and whether it is above; None: no reading, or not for this node."""
        self.levels_ms += milliseconds
        for place, one in enumerate(readings):
            if one is not None:
                self.waterlines[place].add(milliseconds, is_above=one[1])
                self.levels[place] += one[0] * milliseconds

    def open(self, milliseconds: int, gaps: Sequence[tuple[GapKey, Decimal | None]]) -> None:
        self.unrelieved_ms += milliseconds if gaps else 0
        for key, amount in gaps:
            gap_sum = self.gaps.setdefault(key, Gap())
            gap_sum.milliseconds += milliseconds
            if amount is not None:
                gap_sum.largest = amount if gap_sum.largest is None else max(gap_sum.largest, amount)

    def act(self, reason: Reason, pods: int) -> None:
        acted = self.acted.setdefault(reason, Acted())
        acted.decisions += 1
        acted.pods += pods

    def cut(self) -> list[float]:
        """Ends the scene. Returns its mean readings by waterline; NaN without a reading."""
        span, self.levels_ms = self.levels_ms, 0
        means = [level / span if span else float("nan") for level in self.levels]
        self.levels = [0.0] * len(self.waterlines)
        return means


@dataclass(frozen=True, slots=True)
class AboveFigures:
    """One waterline over all nodes that it applies to."""

    waterline: TalliedWaterline
    nodes: int
    known_seconds: float
    above_seconds: float
    episodes: int
    longest_episode_seconds: float

    @property
    def share(self) -> float:
        return self.above_seconds / self.known_seconds if self.known_seconds else 0.0


@dataclass(frozen=True, slots=True)
class GuardFigures:
    """Totals over all nodes; seconds are summed over pods or nodes."""

    node_hours: float
    throttle_seconds: float
    throttled_core_seconds: float
    evictions: int
    returned: int
    evicted_core_seconds: float
    closed_seconds: float
    batch_core_hours: float
    prod_lacked_core_seconds: float
    unrelieved_seconds: float
    step_backs: int
    waterlines: Sequence[AboveFigures]
    acted: Mapping[Reason, Acted]
    gaps: Mapping[GapKey, Gap]


@dataclass(slots=True)
class GuardTally:
    """One policy on all nodes. Films have one entry per scene: mean readings of each waterline by node, and over all
    nodes the limited pod seconds and the evictions."""

    waterlines: Sequence[TalliedWaterline]
    nodes: Sequence[NodeTally]
    film: list[Film] = field(default_factory=list)
    """For each scene (waterlines, nodes)."""
    limited_seconds: list[float] = field(default_factory=list)
    evictions: list[int] = field(default_factory=list)
    step_backs: int = 0
    _limited_ms: int = 0
    _evicted: int = 0

    def cut(self) -> None:
        """Called when a scene has ended on all nodes."""
        levels = np.array([node.cut() for node in self.nodes], np.float32).reshape(
            len(self.nodes), len(self.waterlines)
        )
        self.film.append(levels.T)
        limited, evicted = (sum(getattr(node, name) for node in self.nodes) for name in ("limited_ms", "evictions"))
        self.limited_seconds.append((limited - self._limited_ms) / 1000)
        self.evictions.append(evicted - self._evicted)
        self._limited_ms, self._evicted = limited, evicted

    def figures(self) -> GuardFigures:
        def total(name: str) -> int:
            return sum(getattr(node, name) for node in self.nodes)

        return GuardFigures(
            node_hours=total("there_ms") / 3_600_000,
            throttle_seconds=total("limited_ms") / 1000,
            throttled_core_seconds=total("held") / CORE_SECOND,
            evictions=total("evictions"),
            returned=total("returned"),
            evicted_core_seconds=total("lost") / CORE_SECOND,
            closed_seconds=total("closed_ms") / 1000,
            batch_core_hours=total("ran") / CORE_HOUR,
            prod_lacked_core_seconds=total("lacked") / CORE_SECOND,
            unrelieved_seconds=total("unrelieved_ms") / 1000,
            step_backs=self.step_backs,
            waterlines=[self._above(place) for place in range(len(self.waterlines))],
            acted=self._acted(),
            gaps=self._gaps(),
        )

    def _above(self, place: int) -> AboveFigures:
        excesses = [node.waterlines[place] for node in self.nodes if node.waterlines[place].known_ms]
        return AboveFigures(
            waterline=self.waterlines[place],
            nodes=len(excesses),
            known_seconds=sum(node.known_ms for node in excesses) / 1000,
            above_seconds=sum(node.above_ms for node in excesses) / 1000,
            episodes=sum(node.episodes for node in excesses),
            longest_episode_seconds=max((node.longest_ms for node in excesses), default=0) / 1000,
        )

    def _acted(self) -> dict[Reason, Acted]:
        totals: dict[Reason, Acted] = {}
        for reason in Reason:
            parts = [node.acted[reason] for node in self.nodes if reason in node.acted]
            if parts:
                totals[reason] = Acted(sum(part.decisions for part in parts), sum(part.pods for part in parts))
        return totals

    def _gaps(self) -> dict[GapKey, Gap]:
        totals: dict[GapKey, Gap] = {}
        for node in self.nodes:
            for key, gap in node.gaps.items():
                whole = totals.setdefault(key, Gap())
                whole.milliseconds += gap.milliseconds
                known = [value for value in (whole.largest, gap.largest) if value is not None]
                whole.largest = max(known) if known else None
        return dict(sorted(totals.items(), key=lambda item: (-item[1].milliseconds, item[0])))
