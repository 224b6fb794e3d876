"""The cache scene: prod rereads a file that fits, two batch pods reread theirs, and all together do not fit.

Prod is alone, beside batch in a plain parent cgroup, and beside batch under Slackwater, in turns. Under Slackwater the
parent is the agent's own tree, and a rule on what prod reads again (refaults) lowers the memory limit of batch.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slackwater.demo.scenes import cache_picture, cache_result
from slackwater.demo.scenes.cache_result import ALONE, SLACKWATER, VARIANTS, CacheScene, CacheTurn
from slackwater.demo.scenes.cache_watch import CacheWatch, measured_turn
from slackwater.demo.scenes.memory import LIMIT_MIB, MIB, NEEDED_MIB, available_mib
from slackwater.demo.scenes.other_work import measured
from slackwater.demo.scenes.page_cache import CacheGroup, drop_cache, write_file
from slackwater.demo.scenes.parent import ParentGroup
from slackwater.demo.scenes.reread import reads_of
from slackwater.demo.scenes.result import interleaved
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.demo.scenes.stream import progress_of
from slackwater.model.errors import Misconfigured, Unavailable

PROD_MIB, BATCH_MIB, BATCH_PODS = 1000, 400, 2
BATCH_REQUEST_MIB: Final = BATCH_MIB + 200
"""A hard limit of a batch pod too, which must not do what the rule is to do."""
READS_PER_SECOND, BATCH_MIB_PER_SECOND = 800.0, 500.0
WATERLINE, COOL_DOWN_SECONDS = "16Mi", 60
FREE_DISK_MIB: Final = PROD_MIB + BATCH_PODS * BATCH_MIB + 1000
ALONE_SECONDS, BESIDE_SECONDS = 2.0, 7.0
_START_SECONDS, _RESTORE_SECONDS, _STEP_SECONDS = 30.0, 6.0, 0.1
_ROUND_SECONDS: Final = 24.0

Start = Callable[[str, Sequence[str]], Awaitable[Process]]
Folder = Callable[[str], Path | None]


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a turn runs: how a program is started there, and the memory cgroup of one that was."""

    start: Start
    folder: Folder


@dataclass(slots=True)
class CacheTurns:
    """Runs the turns."""

    stage: Stage
    turns: list[CacheTurn] = field(default_factory=list)
    disk_mib: float | None = None

    @property
    def folder(self) -> Path:
        return self.stage.workloads.folder

    async def perform(self, rounds: int) -> CacheScene:
        """Run so many turns of each variant, interleaved."""
        if why := self._why_not():
            return self._scene(left_out=why)
        before = [(kind, name, await self.stage.api.document(kind, name)) for kind, name, _ in documents()]
        try:
            with self._files() as files:
                for path, mib in files.items():
                    await asyncio.to_thread(write_file, path, mib)
                for variant in interleaved(VARIANTS, rounds):
                    for path in files:
                        drop_cache(path)
                    self.turns.append(await self._variant(variant, list(files)))
        except Misconfigured as error:
            return self._scene(left_out=error.message)
        finally:
            for kind, name, document in before:
                await self.stage.api.put_back(kind, name, document)
        return self._scene(turns=tuple(self.turns), disk_mib=self.disk_mib)

    def _scene(self, **parts: Any) -> CacheScene:
        sizes = {"limit_mib": LIMIT_MIB, "prod_mib": PROD_MIB, "batch_pods": BATCH_PODS, "batch_mib": BATCH_MIB}
        return CacheScene(**sizes, wanted_mib=BATCH_PODS * BATCH_MIB_PER_SECOND, **parts)

    def _why_not(self) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        if (available := available_mib()) < NEEDED_MIB:
            return f"{available} MiB are available, it needs {NEEDED_MIB}"
        if (free := shutil.disk_usage(self.folder).free // MIB) < FREE_DISK_MIB:
            return f"{free} MiB are free on the disk of {self.folder}, it needs {FREE_DISK_MIB}"
        return ""

    @contextmanager
    def _files(self) -> Iterator[dict[Path, int]]:
        """The file of prod and of each batch pod with their MiB; removed afterwards."""
        sizes = {"prod": PROD_MIB, **{_batch(number): BATCH_MIB for number in range(BATCH_PODS)}}
        files = {self.folder / f"cache-{name}.data": mib for name, mib in sizes.items()}
        try:
            yield files
        finally:
            for path in files:
                path.unlink(missing_ok=True)

    async def _variant(self, variant: str, files: Sequence[Path]) -> CacheTurn:
        self.stage.narrator.write_line(f"cache, {cache_result.TITLES[variant]}: prod rereads {PROD_MIB} MiB")
        ground = self._guarded() if variant == SLACKWATER else self._plain()
        async with ground as where, self._programs() as started:
            return await self._turn(variant, where, files, started)

    @asynccontextmanager
    async def _plain(self) -> AsyncIterator[Ground]:
        name = f"slackwater-plain-{time.monotonic_ns()}"
        with ParentGroup.limited(self.stage.kernel.hierarchy, name, LIMIT_MIB * MIB) as parent:

            async def start(name: str, command: Sequence[str]) -> Process:
                return await parent.start(*command, name=name)

            yield Ground(start, parent.child)

    @asynccontextmanager
    async def _guarded(self) -> AsyncIterator[Ground]:
        for kind, name, spec in documents():
            await self.stage.api.put(kind, name, spec)

        async def start(name: str, command: Sequence[str]) -> Process:
            return await self.stage.workloads.pod(_tier(name), f"cache-{name}", 200, _request(name), *command)

        yield Ground(start, lambda name: self.stage.kernel.memory_folder(_tier(name), f"cache-{name}"))

    @asynccontextmanager
    async def _programs(self) -> AsyncIterator[list[Process]]:
        started: list[Process] = []
        try:
            yield started
        finally:
            await asyncio.gather(*(self.stage.workloads.stop(one) for one in started))

    async def _turn(self, variant: str, ground: Ground, files: Sequence[Path], started: list[Process]) -> CacheTurn:
        prod_out = await self._prod(ground, files[0], started)
        outs = [] if variant == ALONE else await self._batch(ground, files[1:], started)
        prod = await self._group(ground, "prod")
        batch = [await self._group(ground, _batch(number)) for number in range(len(outs))]
        watch = CacheWatch(time.monotonic(), BATCH_REQUEST_MIB)
        with measured() as other:
            await self._watched(watch, prod, batch, ALONE_SECONDS if variant == ALONE else BESIDE_SECONDS)
        ended = time.monotonic()
        turn = measured_turn(variant, watch, ended, reads_of(prod_out)[1], [progress_of(out) for out in outs])
        if variant != SLACKWATER:
            return turn.model_copy(update={"other": other.found})
        restored = await self._restored(watch, batch)
        await self._name_decision(turn)
        return turn.model_copy(update={"other": other.found, "is_restored": restored})

    async def _prod(self, ground: Ground, file: Path, started: list[Process]) -> Path:
        out = self._out("prod")
        module = ("slackwater.demo.scenes.reread", "--file", str(file), "--per-second", str(READS_PER_SECOND))
        started.append(await ground.start("prod", (sys.executable, "-m", *module, "--out", str(out))))
        await self._until(lambda: bool(reads_of(out)[1]), "prod did not read its file")
        whole, _ = reads_of(out)
        if self.disk_mib is None and whole is not None:
            self.disk_mib = round(PROD_MIB / max(0.001, whole.seconds), 1)
        return out

    async def _batch(self, ground: Ground, files: Sequence[Path], started: list[Process]) -> list[Path]:
        outs = []
        for number, file in enumerate(files):
            outs.append(self._out(_batch(number)))
            pace = ("--mib-per-second", str(BATCH_MIB_PER_SECOND))
            module = ("slackwater.demo.scenes.stream", "--file", str(file), *pace, "--out", str(outs[-1]))
            started.append(await ground.start(_batch(number), (sys.executable, "-m", *module)))
        await self._until(lambda: all(progress_of(out) for out in outs), "batch did not read its files")
        return outs

    def _out(self, name: str) -> Path:
        return self.folder / f"cache-{name}-{time.monotonic_ns()}.txt"

    async def _group(self, ground: Ground, name: str) -> CacheGroup:
        await self._until(lambda: ground.folder(name) is not None, f"{name} has no cgroup")
        folder = ground.folder(name)
        if folder is None:
            raise Unavailable(f"cache scene: {name} has ended")
        return CacheGroup(folder, self.stage.kernel.hierarchy.pure_v2)

    async def _watched(self, watch: CacheWatch, prod: CacheGroup, batch: Sequence[CacheGroup], seconds: float) -> None:
        while time.monotonic() - watch.began < seconds:
            watch.note(prod, batch)
            held = watch.limit_mib(time.monotonic())
            said = "no limit on batch" if held is None else f"batch held to {held} MiB"
            self.stage.narrator.now(f"cache: {said}", None, {})
            await asyncio.sleep(_STEP_SECONDS)

    async def _restored(self, watch: CacheWatch, batch: Sequence[CacheGroup]) -> bool:
        """Release every limit and say whether each has its value of before."""
        for kind, name, spec in documents():
            if kind == "nodeqos":
                await self.stage.api.put(kind, name, {**spec, "mode": "observe"})
        originals = watch.limits[0][1]
        for _ in range(int(_RESTORE_SECONDS / _STEP_SECONDS)):
            if tuple(group.limits() for group in batch) == originals:
                return True
            await asyncio.sleep(_STEP_SECONDS)
        return False

    async def _name_decision(self, turn: CacheTurn) -> None:
        """Say which decision lowered the limits last, so that it can be looked at."""
        cuts = [item for item in await self.stage.api.decisions() if item["kind"] == "throttle"]
        of_memory = [item["id"] for item in cuts if any(action.get("memory") for action in item["actions"])]
        if of_memory and turn.limit_mib is not None:
            self.stage.narrator.write_line(
                f"cache: batch was held to {turn.limit_mib} MiB; try: slackwater why decision/{of_memory[-1]}"
            )

    async def _until(self, holds: Callable[[], bool], problem: str) -> None:
        for _ in range(int(_START_SECONDS / _STEP_SECONDS)):
            if holds():
                return
            await asyncio.sleep(_STEP_SECONDS)
        raise Unavailable(f"cache scene: {problem} within {_START_SECONDS:g} s")


def _batch(number: int) -> str:
    return f"batch-{number + 1}"


def _tier(name: str) -> str:
    return "prod" if name == "prod" else "batch"


def _request(name: str) -> str:
    return f"{PROD_MIB if name == 'prod' else BATCH_REQUEST_MIB}Mi"


def documents() -> list[tuple[str, str, dict[str, Any]]]:
    """Returns path, name and spec of what lets the rule lower the memory limits of batch pods."""
    pods = {
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle"],
    }
    rule = {
        "name": "refaults",
        "metricRule": {"name": "prod_memory_refaults", "value": WATERLINE},
        "avoidanceThreshold": 1,
        "coolDownSeconds": COOL_DOWN_SECONDS,
    }
    memory = {"minRequestRatio": 0.1, "stepRatio": 0.5, "refaultHorizonSeconds": 2}
    nodes = {"mode": "throttle", "weights": "by-tier-idle", "memory": memory, "rules": [rule]}
    return [("podqos", "default", pods), ("nodeqos", "default", nodes)]


async def perform(stage: Stage, turns: int) -> CacheScene:
    """Runs the scene."""
    return await CacheTurns(stage).perform(turns)


CACHE: Final = DemoScene(
    name="cache",
    plan=f"prod rereads {PROD_MIB} MiB in a full parent cgroup of {LIMIT_MIB} MiB, alone and beside batch that reads "
    "too; plain, batch pushes prod's file out of the page cache; with Slackwater, batch's memory is limited",
    turns=1,
    seconds=lambda turns: _ROUND_SECONDS * turns,
    result=CacheScene,
    perform=perform,
    report=cache_result.report,
    picture=cache_picture.picture,
)
