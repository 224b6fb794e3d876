"""The scene cache: prod rereads a file that fits, two batch pods reread theirs, and all together do not fit.

Prod is alone, beside batch in a plain parent cgroup, and beside batch under Slackwater. Under Slackwater the parent is
the agent's own tree, and a rule on what prod reads again (refaults) lowers the memory limit of batch. A turn under it
goes on until the limit is there, as long as prod reads again: how soon is shown, and decides nothing.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slackwater.charts.latency_chart import percentile
from slackwater.demo.machine.jobs import Start
from slackwater.demo.machine.page_cache import MIB, CacheGroup, CacheWatch, drop_cache, write_file
from slackwater.demo.machine.parent import limited_parent
from slackwater.demo.machine.workloads import program
from slackwater.demo.programs.reader import BlockRead, reads_of
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, Series, TurnFigure
from slackwater.demo.scenes.memory import LIMIT_MIB, NEEDED_MIB
from slackwater.demo.stage import Stage, holds_within, require

ALONE, PLAIN, SLACKWATER = "alone", "plain", "slackwater"
PROD_MIB, BATCH_MIB, BATCH_PODS = 1000, 400, 2
BATCH_REQUEST_MIB: Final = BATCH_MIB + 200
"""A hard limit of a batch pod too, which must not do what the rule is to do."""
READS_PER_SECOND, BATCH_MIB_PER_SECOND = 800.0, 500.0
WATERLINE_MIB, COOL_DOWN_SECONDS = 16, 60
ALONE_SECONDS, BESIDE_SECONDS, SETTLED_SECONDS, END_SECONDS = 2.0, 6.0, 4.0, 2.0
PRESSED_SECONDS: Final = 5
"""So many seconds of reading again above the waterline, batch must have its limit after."""
_START_SECONDS, _LIMIT_SECONDS, _RESTORE_SECONDS, _STEP_SECONDS, _MOMENT_SECONDS = 60.0, 30.0, 90.0, 0.1, 0.25


@dataclass(frozen=True, slots=True)
class CacheTurn:
    """One turn. What `end_` names is of its last seconds: the p99 of prod's reads in ms, and MiB per second that prod
    read again and that batch read. `limit_mib` is that of all batch pods together (None: none was set), `moments` the
    p99 and the limit all the time."""

    p99_ms: float | None
    end_p99_ms: float | None
    end_refault_mib: float
    end_batch_mib: float
    pressed_seconds: int
    limit_mib: int | None
    seconds_to_limit: float | None
    is_restored: bool
    moments: Sequence[tuple[float, float | None, int | None]]


@dataclass(slots=True)
class CacheTurns:
    """Runs the turns on files that were written for them."""

    stage: Stage
    files: Mapping[str, Path]

    async def run_turn(self, variant: str) -> CacheTurn:
        """Let prod reread its file, alone or beside batch."""
        for path in self.files.values():
            drop_cache(path)
        kernel = self.stage.kernel
        if variant == SLACKWATER:
            return await self._turn(
                variant, self._start_pod, lambda name: kernel.memory_folder(_tier(name), f"cache-{name}")
            )
        with limited_parent(kernel.hierarchy, LIMIT_MIB * MIB) as parent:
            return await self._turn(variant, parent.start, parent.directory.joinpath)

    async def _start_pod(self, name: str, command: Sequence[str]) -> Process:
        request = f"{PROD_MIB if name == 'prod' else BATCH_REQUEST_MIB}Mi"
        return await self.stage.workloads.pod(_tier(name), f"cache-{name}", 200, request, *command)

    async def _turn(self, variant: str, start: Start, folder: Callable[[str], Path | None]) -> CacheTurn:
        batch = [name for name in self.files if name != "prod" and variant != ALONE]
        outs = {name: self.stage.file(f"cache-{name}.txt") for name in ("prod", *batch)}
        async with self.stage.programs() as started:

            async def begin(name: str) -> tuple[CacheGroup, tuple[str, ...]]:
                """Start a program; returns its cgroup and first limits once it has read its whole file."""
                pace = READS_PER_SECOND if name == "prod" else BATCH_MIB_PER_SECOND
                command = program(
                    "reader", file=self.files[name], per_second=pace, out=outs[name], in_order=name != "prod"
                )
                started.append(await start(name, command))
                await require(lambda: folder(name) is not None, _START_SECONDS, f"{name} has no cgroup")
                group = CacheGroup(folder(name) or Path("/nonexistent"), self.stage.kernel.hierarchy.pure_v2)
                limits = group.limits()
                await require(lambda: bool(reads_of(outs[name])), _START_SECONDS, f"{name} did not read its file")
                return group, limits

            prod, _ = await begin("prod")  # it has its file in the cache before batch begins
            watch = CacheWatch(prod, dict(await asyncio.gather(*map(begin, batch))), BATCH_REQUEST_MIB)
            await _watched(watch, variant)
            ended, reads = watch.seconds, _reads(outs["prod"], watch)
            begin_of_end = ended - END_SECONDS
            batch_reads = [read for name in batch for read in _reads(outs[name], watch) if read.at >= begin_of_end]
            if variant == SLACKWATER:
                await self.stage.api.observe()
            return CacheTurn(
                p99_ms=_p99_ms(reads, 0.0, ended),
                end_p99_ms=_p99_ms(reads, begin_of_end, ended),
                end_refault_mib=watch.refault_mib(begin_of_end, ended),
                end_batch_mib=round(len(batch_reads) / END_SECONDS, 1),
                pressed_seconds=watch.seconds_above(WATERLINE_MIB),
                limit_mib=watch.limit_mib(ended),
                seconds_to_limit=watch.lowered_at(),
                is_restored=await holds_within(watch.is_original, _RESTORE_SECONDS),
                moments=[
                    (end, _p99_ms(reads, end - _MOMENT_SECONDS, end), watch.limit_mib(end))
                    for end in (number * _MOMENT_SECONDS for number in range(1, int(ended / _MOMENT_SECONDS) + 1))
                ],
            )


async def _watched(watch: CacheWatch, variant: str) -> None:
    """Follow the turn for its seconds, and under Slackwater until the limit of batch has settled."""
    seconds = ALONE_SECONDS if variant == ALONE else BESIDE_SECONDS
    while watch.seconds < seconds:
        watch.note()
        lowered, now = watch.lowered_at(), watch.seconds
        if variant == SLACKWATER and lowered is not None:
            seconds = max(BESIDE_SECONDS, lowered + SETTLED_SECONDS)
        elif variant == SLACKWATER and watch.refault_mib(now - 1, now) > WATERLINE_MIB:
            seconds = min(max(seconds, now + 1), _LIMIT_SECONDS)
        await asyncio.sleep(_STEP_SECONDS)


def _tier(name: str) -> str:
    return "prod" if name == "prod" else "batch"


def _reads(out: Path, watch: CacheWatch) -> list[BlockRead]:
    """Returns the reads so far by seconds since the begin of the watch."""
    return [BlockRead(read.at - watch.began, read.seconds) for read in reads_of(out)]


def _p99_ms(reads: Sequence[BlockRead], since: float, until: float) -> float | None:
    p99 = percentile([read.seconds * 1000 for read in reads if since <= read.at < until], 0.99)
    return None if p99 is None else round(p99, 3)


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[CacheTurn]]:
    """Writes the file of prod and of each batch pod, and removes them."""
    sizes = {"prod": PROD_MIB, **{f"batch-{number}": BATCH_MIB for number in range(1, BATCH_PODS + 1)}}
    files = {name: stage.workloads.folder / f"cache-{name}.data" for name in sizes}
    try:
        for name, mib in sizes.items():
            await asyncio.to_thread(write_file, files[name], mib)
        yield CacheTurns(stage, files).run_turn
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)


_PODS: Final = {
    "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
    "allowedActions": ["throttle"],
}
_RULE: Final = {
    "name": "refaults",
    "metricRule": {"name": "prod_memory_refaults", "value": f"{WATERLINE_MIB}Mi"},
    "avoidanceThreshold": 1,
    "coolDownSeconds": COOL_DOWN_SECONDS,
}
_MEMORY: Final = {"minRequestRatio": 0.1, "stepRatio": 0.5, "refaultHorizonSeconds": 2}

CACHE: Final[DemoScene[CacheTurn]] = DemoScene(
    name="cache",
    plan=f"prod rereads {PROD_MIB} MiB; plain, batch pushes them out of the page cache; else batch gets a limit",
    title=f"cache: prod rereads {PROD_MIB:,} MiB beside batch that reads too, in a parent of {LIMIT_MIB:,} MiB",
    variants=(
        SceneVariant(ALONE, "prod alone"),
        SceneVariant(PLAIN, "beside batch, plain"),
        SceneVariant(
            SLACKWATER,
            "beside batch, Slackwater",
            nodeqos={"mode": "throttle", "weights": "by-tier-idle", "memory": _MEMORY, "rules": [_RULE]},
            documents=(("podqos", "default", _PODS),),
        ),
    ),
    compared=(PLAIN, SLACKWATER),
    columns=(
        TurnFigure("end_p99_ms", "p99 of prod's reads at the end", lambda turn: turn.end_p99_ms, "ms", 2, "less"),
        TurnFigure("end_refault_mib", "prod reads again", lambda turn: turn.end_refault_mib, "MiB/s", 0, "less"),
        TurnFigure("p99_ms", "p99 all the time", lambda turn: turn.p99_ms, "ms", 2),
        TurnFigure("end_batch_mib", "batch reads", lambda turn: turn.end_batch_mib, "MiB/s"),
        TurnFigure("limit_mib", "limit of batch", lambda turn: turn.limit_mib, "MiB"),
        TurnFigure("seconds_to_limit", "set after", lambda turn: turn.seconds_to_limit, "s", 1),
    ),
    promises=(
        Promise(
            "batch gets a memory limit while prod reads its files again",
            lambda turn: turn.limit_mib is not None or turn.pressed_seconds < PRESSED_SECONDS,
            (SLACKWATER,),
            lambda turn: f"none, in {turn.pressed_seconds} s above {WATERLINE_MIB} MiB/s",
        ),
        Promise("every memory limit is put back", lambda turn: turn.is_restored, (SLACKWATER,)),
    ),
    series=(
        Series(
            "p99 of prod's reads, ms: less is better",
            lambda turn: [(at, p99) for at, p99, _ in turn.moments if p99],
        ),
        Series(
            "memory limit of batch, MiB",
            lambda turn: [(at, float(mib)) for at, _, mib in turn.moments if mib is not None],
        ),
    ),
    memory_mib=NEEDED_MIB,
    disk_mib=PROD_MIB + BATCH_PODS * BATCH_MIB + 1000,
    opened=opened,
    setup_seconds=3.0,
    round_seconds=23.0,
)  # fmt: skip
