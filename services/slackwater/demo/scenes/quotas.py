"""The scene quotas: two teams share a machine, one borrows what the other leaves idle, and gives it back.

Real jobs start through `slackwater exec` with `--quota`. First each team's max is its min, so that half of the machine
stays idle; then the max is raised to all of it, and team-b borrows; then team-a asks for its min, and the newest jobs
of team-b end with grace. The stages of a round follow from each other, so they are not interleaved: more turns are more
rounds.
The quotas count prod's CPU, because that of batch follows the offer, which other scenes have changed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from slackwater.demo.scenes import quotas_picture, quotas_result
from slackwater.demo.scenes.quotas_result import (
    ASKED,
    BORROWER,
    ELASTIC,
    FIXED,
    LENDER,
    Ending,
    QuotasScene,
    QuotaStage,
    TeamLevel,
)
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.model.quantities import format_cpu

JOBS, ASKED_JOBS = 4, 2
JOB_MEMORY, GRACE_SECONDS = "64Mi", 10.0
TERMINATED = 128 + 15
"""Exit status of a job that ended by SIGTERM."""
RESOURCE: Final = "cpu"
TEAMS: Final = (LENDER, BORROWER)
_DESCRIBED_SECONDS, _START_SECONDS, _TAKE_BACK_SECONDS, _STEP_SECONDS = 10.0, 20.0, 25.0, 0.2
_SHOWN_SECONDS: Final = {FIXED: 0.6, ELASTIC: 1.2, ASKED: 1.2}
"""How long a stage goes on once it is complete."""
_ROUND_SECONDS: Final = 12.0


@dataclass(slots=True)
class ClaimedJob:
    """One job of a team: its claim, its process and the files that it writes."""

    team: str
    claim: str
    process: Process
    out: Path
    checkpoint: Path

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None and self.out.exists()

    def ending(self) -> Ending:
        """How it stands; one that has not started counts as running."""
        if self.process.returncode is None:
            return "running"
        kept = self.process.returncode == TERMINATED and self.checkpoint.exists()
        return "checkpoint" if kept else "killed"


@dataclass(slots=True)
class QuotaRounds:
    """Runs the rounds of stages."""

    stage: Stage
    total_milli: int = 0
    turns: list[QuotaStage] = field(default_factory=list)
    jobs: list[ClaimedJob] = field(default_factory=list)
    levels: list[TeamLevel] = field(default_factory=list)
    owed_milli: int = 0
    """The highest of the stage."""
    doing: str = FIXED
    began: float = 0.0
    started: int = 0
    run: str = field(default_factory=lambda: f"{datetime.now(UTC):%H%M%S}")
    """Part of the ids of claims: quota still knows those of an earlier run."""

    @property
    def job_milli(self) -> int:
        return self.total_milli // JOBS

    async def perform(self, turns: int) -> QuotasScene:
        """Run so many rounds."""
        if not await self._until(self._pool_is_known, _DESCRIBED_SECONDS):
            return QuotasScene(left_out=f"the pool of {self.stage.api.node} has no CPU within {_DESCRIBED_SECONDS:g} s")
        before = {team: await self.stage.api.document("elasticquotas", team) for team in TEAMS}
        try:
            for _ in range(turns):
                await self._round()
        finally:
            await self._clear()
            for team, document in before.items():
                await self.stage.api.put_back("elasticquotas", team, document)
        return QuotasScene(
            total_milli=self.total_milli,
            job_milli=self.job_milli,
            jobs=JOBS,
            asked=ASKED_JOBS,
            turns=tuple(self.turns),
            levels=tuple(self.levels),
        )

    async def _pool_is_known(self) -> bool:
        self.total_milli = int((await self.stage.api.quota_tree())["total"].get(RESOURCE, 0))
        return self.job_milli > 0

    async def _round(self) -> None:
        await self._clear()
        self.levels, self.jobs, self.began = [], [], time.monotonic()
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(self._sample())
            try:
                await self._fixed()
                await self._elastic()
                await self._asked()
            finally:
                sampling.cancel()
        await self._clear()

    async def _fixed(self) -> None:
        half = format_cpu(self.total_milli // 2)
        self._announce(
            f"fixed shares: each team's max is its min, {half} CPU; {BORROWER} starts {JOBS} jobs, {LENDER} none"
        )
        await self._share(FIXED, self.total_milli // 2)
        await asyncio.gather(*(self._start(BORROWER) for _ in range(JOBS)))
        fits = self.total_milli // 2 // self.job_milli

        async def complete() -> bool:
            return self._running(BORROWER) == fits and self._waiting(await self._tree(), BORROWER) == JOBS - fits

        await self._shown(FIXED, complete, _START_SECONDS)

    async def _elastic(self) -> None:
        whole = format_cpu(self.total_milli)
        self._announce(f"elastic: each team's max is now {whole} CPU; what {LENDER} leaves idle is lent")
        await self._share(ELASTIC, self.total_milli)

        async def complete() -> bool:
            return self._running(BORROWER) == JOBS

        await self._shown(ELASTIC, complete, _START_SECONDS)

    async def _asked(self) -> None:
        grace = f"{GRACE_SECONDS:g} s"
        self._announce(f"{LENDER} starts {ASKED_JOBS} jobs within its min; as many of {BORROWER} have {grace} to end")
        self.doing, self.owed_milli = ASKED, 0
        await asyncio.gather(*(self._start(LENDER) for _ in range(ASKED_JOBS)))

        async def complete() -> bool:
            return self._running(LENDER) == ASKED_JOBS

        await self._shown(ASKED, complete, _TAKE_BACK_SECONDS)

    def _announce(self, text: str) -> None:
        self.stage.narrator.write_line(f"quotas, {text}")

    async def _shown(self, variant: str, complete: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Wait until the stage is complete, go on a little, and note what is seen: also what is not complete in time,
        which is then a failure of the scene."""
        await self._until(complete, seconds)
        await asyncio.sleep(_SHOWN_SECONDS[variant])
        tree = await self._tree()
        lender, borrower = (_figures(tree, team) for team in TEAMS)
        claims = {job.claim: await self.stage.api.claim(job.claim) for job in self.jobs}
        orders = [order for job in self.jobs if job.team == BORROWER and (order := _order(claims[job.claim]))]
        self.turns.append(
            QuotaStage.model_validate(
                {
                    "variant": variant,
                    "lender_running": self._running(LENDER),
                    "lender_waiting": self._waiting(tree, LENDER),
                    "borrower_running": self._running(BORROWER),
                    "borrower_waiting": self._waiting(tree, BORROWER),
                    "lent_milli": lender["lent"].get(RESOURCE, 0),
                    "borrowed_milli": borrower["borrowed"].get(RESOURCE, 0),
                    "owed_milli": self.owed_milli,
                    "reclaimed": sum(order["for_quota"] == LENDER for order in orders),
                    "endings": tuple(job.ending() for job in self.jobs if job.team == BORROWER),
                    "waited_seconds": max(
                        (_waited(claims[job.claim]) for job in self.jobs if job.team == LENDER), default=None
                    ),
                }
            )
        )

    async def _share(self, variant: str, most_milli: int) -> None:
        """Declare both quotas with this max, and wait until it is in force."""
        self.doing, self.owed_milli = variant, 0
        for team in TEAMS:
            spec = {"min": {RESOURCE: f"{self.total_milli // 2}m"}, "max": {RESOURCE: f"{most_milli}m"}}
            await self.stage.api.put("elasticquotas", team, spec)

        async def in_force() -> bool:
            tree = await self._tree()
            return all(_figures(tree, team)["max"].get(RESOURCE) == most_milli for team in TEAMS)

        await self._until(in_force, _DESCRIBED_SECONDS)

    async def _start(self, team: str) -> None:
        self.started += 1
        folder, name = self.stage.workloads.folder, f"{team}-{self.started}"
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{name}-{self.run}"
        out, checkpoint = folder / f"{stem}.json", folder / f"{stem}.checkpoint"
        files = ("--out", str(out), "--checkpoint", str(checkpoint))
        command = (sys.executable, "-m", "slackwater.demo.scenes.claimed_job", *files)
        flags = ("--quota", team, "--claim", stem, "--grace", f"{GRACE_SECONDS:g}")
        process = await self.stage.workloads.pod("prod", name, self.job_milli, JOB_MEMORY, *command, flags=flags)
        self.jobs.append(ClaimedJob(team, stem, process, out, checkpoint))

    def _running(self, team: str) -> int:
        return sum(job.is_running for job in self.jobs if job.team == team)

    def _waiting(self, tree: dict[str, Any], team: str) -> int:
        return int(_figures(tree, team)["queued"])

    async def _tree(self) -> dict[str, Any]:
        return await self.stage.api.quota_tree()

    async def _sample(self) -> None:
        """Note what both teams use, until cancelled."""
        while True:
            tree = await self._tree()
            lender, borrower = (_figures(tree, team) for team in TEAMS)
            self.owed_milli = max(self.owed_milli, lender["owed"].get(RESOURCE, 0))
            level = TeamLevel(
                stage=self.doing,
                seconds=round(time.monotonic() - self.began, 2),
                lender_milli=lender["used"].get(RESOURCE, 0),
                borrower_milli=borrower["used"].get(RESOURCE, 0),
            )
            self.levels.append(level)
            used = ", ".join(f"{team} uses {format_cpu(milli)} CPU" for team, milli in (
                (LENDER, level.lender_milli), (BORROWER, level.borrower_milli)
            ))  # fmt: skip
            self.stage.narrator.now(used, None, {})
            await asyncio.sleep(_STEP_SECONDS)

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        for _ in range(int(seconds / _STEP_SECONDS)):
            if await holds():
                return True
            await asyncio.sleep(_STEP_SECONDS)
        return False

    async def _clear(self) -> None:
        """End all jobs, and release what they or an earlier run that was killed hold."""
        await asyncio.gather(*(self.stage.workloads.stop(job.process) for job in self.jobs))
        for team in TEAMS:
            for claim in await self.stage.api.claims(team):
                await self.stage.api.release(team, claim["id"])


def _figures(tree: dict[str, Any], team: str) -> dict[str, Any]:
    """Returns a quota of the tree; zeros while it is not there."""
    empty: dict[str, Any] = {name: {} for name in ("max", "used", "lent", "borrowed", "owed")}
    return next((quota for quota in tree["quotas"] if quota["name"] == team), {**empty, "queued": 0})


def _order(claim: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns why a claim had to end; None if it had not to, or was not submitted."""
    return None if claim is None else claim["reclaim"]


def _waited(claim: dict[str, Any] | None) -> float:
    """Returns how long a claim waited for its admission, in seconds; 0 if it was not admitted."""
    if claim is None or claim["admitted_at"] is None:
        return 0.0
    admitted, submitted = (datetime.fromisoformat(claim[name]) for name in ("admitted_at", "submitted_at"))
    return round((admitted - submitted).total_seconds(), 2)


async def perform(stage: Stage, turns: int) -> QuotasScene:
    """Runs the scene."""
    return await QuotaRounds(stage).perform(turns)


QUOTAS: Final = DemoScene(
    name="quotas",
    plan="two teams share the machine, half each; with fixed shares a half stays idle; with elastic quotas team-b "
    "borrows it, and gives it back with grace when team-a asks",
    turns=1,
    seconds=lambda turns: _ROUND_SECONDS * turns,
    result=QuotasScene,
    perform=perform,
    report=quotas_result.report,
    picture=quotas_picture.picture,
)
