"""The page of moves: the pipeline of jobs, what holds them back, and the load of nodes before and now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slackwater.charts.load_chart import load_chart, load_frame
from slackwater.console.domain.moves import (
    ENDED,
    GainSum,
    LoadSpread,
    MeasuredLoad,
    MoveCount,
    MoveGain,
    MoveHold,
    PipelineStage,
    gain_sum,
    load_spread,
    move_gain,
    stage_of,
)
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.pictures import Picture
from slackwater.events.migration_changed import MigrationChanged
from slackwater.podmigration.jobs import MigrationPhase, MoveOutcome

SPANS: Final[Mapping[str, timedelta]] = {
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}
"""How far back ended jobs count, and how long ago "before" is."""
RESOURCES: Final = ("cpu", "memory")
MOST_JOBS: Final = 100
MOST_HOLDS: Final = 30
REPORTED_WITHIN: Final = timedelta(minutes=1)
"""Around a time; in a large fleet the reports of nodes are stored in turns."""
WIDE, NARROW = 1120.0, 340.0
"""Approximate pixels of a separate card."""


@dataclass(frozen=True, slots=True)
class StageTile:
    """One stage with its number of jobs, and what else there is to say."""

    stage: PipelineStage
    jobs: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One job in the list."""

    job: MigrationChanged
    stage: PipelineStage
    gain: MoveGain | None = None

    @property
    def why(self) -> str:
        """Its outcome or step, with the reason and message of the job."""
        words = [(self.job.outcome or self.job.step).replace("_", " ")]
        if self.job.reason:
            words.append(f"({self.job.reason})")
        return " ".join(words) + (f": {self.job.message}" if self.job.message else "")


@dataclass(frozen=True, slots=True)
class LoadComparison:
    """The distribution of one resource over nodes that reported at both times."""

    before_at: datetime
    before: LoadSpread
    now: LoadSpread
    picture: Picture | None


@dataclass(frozen=True, slots=True)
class MovesPage:
    """`/moves`."""

    now: datetime
    span: str
    resource: str
    stages: Sequence[StageTile]
    holds: Sequence[MoveHold]
    rows: Sequence[MoveRow]
    jobs: int
    """All that live or ended within the span; `rows` has at most MOST_JOBS of them."""
    load: LoadComparison
    gains: GainSum | None = None
    """Of the rows whose gain was measured."""

    @property
    def waiting(self) -> int:
        """Jobs before arbitration."""
        return self.stages[0].jobs


async def moves_page(reads: ReadQueries, now: datetime, span: str, resource: str) -> MovesPage:
    chosen = span if span in SPANS else "1h"
    shown = resource if resource in RESOURCES else RESOURCES[0]
    since = now - SPANS[chosen]
    counts, holds, jobs, loads, loads_before = await asyncio.gather(
        reads.move_counts(since),
        reads.move_holds(MOST_HOLDS),
        reads.moves(since, MOST_JOBS),
        reads.node_loads(now, now - REPORTED_WITHIN),
        reads.node_loads(since + REPORTED_WITHIN, since - REPORTED_WITHIN),
    )
    records = await reads.gain_records(jobs) if jobs else ()
    gains = {record.subject: gain for record in records if (gain := move_gain(record)) is not None}
    return MovesPage(
        now=now,
        span=chosen,
        resource=shown,
        stages=stage_tiles(counts),
        holds=holds,
        rows=[MoveRow(job, stage_of(job.step, job.phase), gains.get(job.job)) for job in jobs],
        jobs=sum(count.jobs for count in counts),
        load=compare_loads(loads_before, loads, shown, since),
        gains=gain_sum(list(gains.values())),
    )


def stage_tiles(counts: Sequence[MoveCount]) -> list[StageTile]:
    """Returns the stages in the order of the pipeline, each with its jobs."""
    jobs: Counter[PipelineStage] = Counter()
    for count in counts:
        jobs[stage_of(count.step, count.phase)] += count.jobs
    return [StageTile(stage, jobs[stage], _note(stage, counts)) for stage in PipelineStage]


def _note(stage: PipelineStage, counts: Sequence[MoveCount]) -> str:
    """What a number of jobs does not say of itself."""

    def having(**wanted: str) -> int:
        return sum(c.jobs for c in counts if all(getattr(c, name) == value for name, value in wanted.items()))

    parts: Sequence[tuple[int, str]] = ()
    if stage is PipelineStage.EVICTING:
        parts = ((having(step="replacing"), "await their replacement"), (having(step="withdrawing"), "withdrawn"))
    elif stage is PipelineStage.READY:
        parts = ((having(step=ENDED, outcome=MoveOutcome.EVICTED.value), "evicted only"),)
    elif stage is PipelineStage.FAILED:
        parts = (
            (having(step=ENDED, phase=MigrationPhase.ABORTED.value), "aborted"),
            (having(step=ENDED, outcome=MoveOutcome.REPLACEMENT_PENDING.value), "without replacement"),
            (having(step=ENDED, outcome=MoveOutcome.UNCONFIRMED.value), "unconfirmed"),
        )
    return ", ".join(f"{jobs} {words}" for jobs, words in parts if jobs)


def compare_loads(
    before: Sequence[MeasuredLoad], now: Sequence[MeasuredLoad], resource: str, before_at: datetime
) -> LoadComparison:
    """Returns the distributions of the nodes that reported at both times, so that a node that came or went does not
    look like a move. Where nothing was reported before, those of now alone."""
    earlier = {load.node: load.share(resource) for load in before}
    common = [load for load in now if load.node in earlier] if earlier else list(now)
    spread = load_spread(load.share(resource) for load in common)
    spread_before = load_spread(earlier[load.node] for load in common if load.node in earlier)
    word = "CPU" if resource == "cpu" else "Memory"
    label = f"{word} load of nodes: how many nodes use which part of their capacity, before and now"

    def draw(width: float) -> str:
        counts = spread_before.buckets if spread_before.nodes else ()
        return load_chart(load_frame(width), counts, spread.buckets, (spread_before.mean, spread.mean), label)

    picture = Picture(draw(WIDE), draw(NARROW)) if spread.nodes else None
    return LoadComparison(before_at, spread_before, spread, picture)
