"""The scene quotas: two teams share a machine, one borrows what the other leaves idle, and gives it back.

Real jobs start through `slackwater exec` with `--quota`. First each team's max is its min, so that half of the machine
stays idle; then the max is raised to all of it, and team-b borrows; then team-a asks for its min, and the newest jobs
of team-b end with grace. These stages follow from each other. The quotas count prod's CPU, because that of batch
follows the offer. Figures are those of the ledger and exit statuses of jobs: other work makes a stage longer.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from slackwater.demo.machine.jobs import Ending, Job, start_job
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, Series, TurnFigure
from slackwater.demo.stage import Stage, beside, holds_within, require
from slackwater.model.errors import Unavailable
from slackwater.model.quantities import format_cpu

FIXED, ELASTIC, ASKED = "fixed", "elastic", "asked"
LENDER, BORROWER = "team-a", "team-b"
TEAMS: Final = (LENDER, BORROWER)
JOBS, HALF, ASKED_JOBS = 4, 2, 2
_TREE, _WAIT = "/v1/quotas/root/tree", ("admitted_at", "submitted_at")
Ledger = dict[str, dict[str, Any]]
"""The quotas of the tree by name."""
JOB_MEMORY, GRACE_SECONDS = "64Mi", 10.0
_DESCRIBED_SECONDS, _STAGE_SECONDS, _SAMPLE_SECONDS, _SHOWN_SECONDS = 90.0, 60.0, 0.2, 1.0  # lost after 60


@dataclass(frozen=True, slots=True)
class QuotaTurn:
    """One stage. Jobs are counted at its end; CPU in milli-cores, `owed_milli` at its highest. `reclaimed` claims of
    the borrower had to end for the lender; `waited_seconds` is the longest wait of the lender's claims."""

    lender_running: int
    borrower_running: int
    borrower_waiting: int
    lent_milli: int
    borrowed_milli: int
    owed_milli: int
    reclaimed: int
    endings: tuple[Ending, ...]
    waited_seconds: float | None
    levels: Sequence[tuple[float, int, int]]
    """Seconds since the first stage, and what the lender and the borrower used."""


@dataclass(slots=True)
class QuotaStages:
    """Runs the stages of a round."""

    stage: Stage
    total_milli: int
    jobs: dict[str, list[Job]] = field(default_factory=lambda: {team: [] for team in TEAMS})
    """By team; a claim has the name of its job."""
    levels: list[tuple[float, int, int]] = field(default_factory=list)
    owed_milli: int = 0
    began: float = 0.0
    started: int = 0
    """In all rounds: quota knows the claims of an earlier one."""

    async def run_turn(self, variant: str) -> QuotaTurn:
        """Run one stage; the first begins a new round."""
        if variant == FIXED:
            await self.clear()
            self.began = time.monotonic()
        self.levels, self.owed_milli = [], 0
        async with beside(self._sample()):
            await {FIXED: self._fixed, ELASTIC: self._elastic, ASKED: self._asked}[variant]()
            await asyncio.sleep(_SHOWN_SECONDS)
        return await self._turn()

    async def _fixed(self) -> None:
        await self._share(self.total_milli // 2)
        await asyncio.gather(*(self._start(BORROWER) for _ in range(JOBS)))

        async def is_complete() -> bool:
            waiting = (await self._ledger())[BORROWER]["queued"]
            return self._running(BORROWER) == HALF and waiting == JOBS - HALF

        await holds_within(is_complete, _STAGE_SECONDS)

    async def _elastic(self) -> None:
        await self._share(self.total_milli)
        await holds_within(lambda: self._running(BORROWER) == JOBS, _STAGE_SECONDS)

    async def _asked(self) -> None:
        await asyncio.gather(*(self._start(LENDER) for _ in range(ASKED_JOBS)))
        await holds_within(lambda: self._running(LENDER) == ASKED_JOBS, _STAGE_SECONDS)

    async def _turn(self) -> QuotaTurn:
        ledger = await self._ledger()
        get = self.stage.api.get
        found = {team: [await get(f"/v1/claims/{job.name}") for job in self.jobs[team]] for team in TEAMS}
        claims = {team: [claim for claim in found[team] if claim] for team in TEAMS}
        orders = [claim["reclaim"] or {} for claim in claims[BORROWER]]
        return QuotaTurn(
            lender_running=self._running(LENDER),
            borrower_running=self._running(BORROWER),
            borrower_waiting=int(ledger[BORROWER]["queued"]),
            lent_milli=_cpu(ledger, LENDER, "lent"),
            borrowed_milli=_cpu(ledger, BORROWER, "borrowed"),
            owed_milli=self.owed_milli,
            reclaimed=sum(order.get("for_quota") == LENDER for order in orders),
            endings=tuple(job.ending() for job in self.jobs[BORROWER]),
            waited_seconds=max((_waited(claim) for claim in claims[LENDER]), default=None),
            levels=tuple(self.levels),
        )

    async def _share(self, most_milli: int) -> None:
        """Declare both quotas with this max, and wait until it is in force."""
        for team in TEAMS:
            spec = {"min": {"cpu": f"{self.total_milli // 2}m"}, "max": {"cpu": f"{most_milli}m"}}
            await self.stage.api.put("elasticquotas", team, spec)

        async def is_in_force() -> bool:
            ledger = await self._ledger()
            return all(_cpu(ledger, team, "max") == most_milli for team in TEAMS)

        await require(is_in_force, _DESCRIBED_SECONDS, "the quotas were not in force")

    async def _start(self, team: str) -> None:
        async def start(name: str, command: Sequence[str]) -> Process:
            flags = ("--quota", team, "--claim", name, "--grace", f"{GRACE_SECONDS:g}")
            return await self.stage.workloads.pod(
                "prod", name, self.total_milli // JOBS, JOB_MEMORY, *command, flags=flags
            )

        self.started += 1
        self.jobs[team].append(await start_job(self.stage, start, f"{team}-{self.started}"))

    def _running(self, team: str) -> int:
        return sum(job.has_begun for job in self.jobs[team])

    async def _ledger(self) -> Ledger:
        tree = await self.stage.api.get(_TREE)
        return {quota["name"]: quota for quota in tree["quotas"]}

    async def _sample(self) -> None:
        while True:
            ledger = await self._ledger()
            self.owed_milli = max(self.owed_milli, _cpu(ledger, LENDER, "owed"))
            used = (_cpu(ledger, LENDER, "used"), _cpu(ledger, BORROWER, "used"))
            self.levels.append((round(time.monotonic() - self.began, 2), *used))
            self.stage.narrator.doing(f"quotas: {LENDER} uses {format_cpu(used[0])}, {BORROWER} {format_cpu(used[1])}")
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def clear(self) -> None:
        """End all jobs, and release what they hold."""
        await asyncio.gather(*(self.stage.workloads.stop(job.process) for jobs in self.jobs.values() for job in jobs))
        for team, jobs in self.jobs.items():
            claims = f"/v1/quotas/{team}/claims"
            for claim in await self.stage.api.items(claims):
                await self.stage.api.delete(f"{claims}/{claim['id']}")
            jobs.clear()


def _cpu(ledger: Ledger, team: str, figure: str) -> int:
    """Returns a figure of a quota in milli-cores; 0 while the quota is not there."""
    return int(ledger.get(team, {}).get(figure, {}).get("cpu", 0))


def _waited(claim: dict[str, Any]) -> float:
    """Returns how long a claim waited for its admission, in seconds; 0 if it was not admitted."""
    admitted, submitted = (datetime.fromisoformat(claim[name] or claim["submitted_at"]) for name in _WAIT)
    return round((admitted - submitted).total_seconds(), 2)


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[QuotaTurn]]:
    """Waits until the pool has CPU; afterwards no job, claim or quota of the teams is left."""
    total, others = 0, set[str]()

    async def is_known() -> bool:
        nonlocal total, others
        others = await stage.api.live() - {stage.api.node}
        total = int((await stage.api.get(_TREE))["total"].get("cpu", 0))
        return total >= JOBS and not others

    if not await holds_within(is_known, _DESCRIBED_SECONDS):
        why = f"counted other nodes: {', '.join(sorted(others))}" if others else "had no CPU"
        raise Unavailable(f"the pool of {stage.api.node} {why} for {_DESCRIBED_SECONDS:g} s")
    before = {team: await stage.api.document("elasticquotas", team) for team in TEAMS}
    stages = QuotaStages(stage, total)
    try:
        yield stages.run_turn
    finally:
        await stages.clear()
        for team, document in before.items():
            await stage.api.put_back("elasticquotas", team, document)


QUOTAS: Final[DemoScene[QuotaTurn]] = DemoScene(
    name="quotas",
    plan=f"two teams own a half each; with fixed shares one is idle; else {BORROWER} borrows it and gives it back",
    title=f"quotas: {LENDER} and {BORROWER} share the machine, half each as min",
    variants=(
        SceneVariant(FIXED, "fixed shares"),
        SceneVariant(ELASTIC, f"elastic, {LENDER} idle"),
        SceneVariant(ASKED, f"elastic, {LENDER} asks"),
    ),
    compared=(FIXED, ELASTIC),
    columns=(
        TurnFigure(
            "borrower_running", f"{BORROWER} runs while {LENDER} is idle (of {JOBS} jobs)",
            lambda turn: turn.borrower_running, counted="more",
        ),
        TurnFigure("borrower_waiting", f"{BORROWER} waits", lambda turn: turn.borrower_waiting),
        TurnFigure("borrowed", f"{BORROWER} borrows", lambda turn: turn.borrowed_milli / 1000, "CPU", 2),
        TurnFigure("owed", f"{LENDER} is owed", lambda turn: turn.owed_milli / 1000, "CPU", 2),
        TurnFigure("lender_running", f"{LENDER} runs", lambda turn: turn.lender_running),
        TurnFigure("waited_seconds", f"{LENDER} waited", lambda turn: turn.waited_seconds, "s", 1),
        TurnFigure("reclaimed", "reclaimed", lambda turn: turn.reclaimed),
        TurnFigure("checkpoint", "ended with a checkpoint", lambda turn: turn.endings.count("checkpoint")),
        TurnFigure("killed", "killed", lambda turn: turn.endings.count("killed")),
    ),
    promises=(
        Promise(
            f"{BORROWER} is held to its half",
            lambda turn: turn.borrower_running <= HALF and turn.borrower_waiting > 0, (FIXED,),
        ),
        Promise(
            f"{BORROWER} borrows what {LENDER} leaves idle",
            lambda turn: turn.borrower_running == JOBS and turn.borrowed_milli > 0,
            (ELASTIC,),
            lambda turn: f"{turn.borrower_running} of {JOBS} jobs run",
        ),
        Promise(
            "what is lent is what is borrowed",
            lambda turn: turn.lent_milli == turn.borrowed_milli,
            seen=lambda turn: f"{format_cpu(turn.lent_milli)} lent, {format_cpu(turn.borrowed_milli)} borrowed",
        ),
        Promise(
            f"{LENDER} gets its min back", lambda turn: turn.lender_running == ASKED_JOBS, (ASKED,),
            lambda turn: f"{turn.lender_running} of {ASKED_JOBS} jobs run",
        ),
        Promise(
            "as many jobs are reclaimed as are asked for", lambda turn: turn.reclaimed == ASKED_JOBS, (ASKED,),
            lambda turn: f"{turn.reclaimed} of {ASKED_JOBS}",
        ),
        Promise("reclaimed jobs keep a checkpoint", lambda turn: turn.endings.count("checkpoint") >= turn.reclaimed),
        Promise("no job is killed", lambda turn: "killed" not in turn.endings),
    ),
    series=(
        Series(f"{BORROWER} uses, CPU", lambda turn: [(at, milli / 1000) for at, _, milli in turn.levels]),
        Series(f"{LENDER} uses, CPU", lambda turn: [(at, milli / 1000) for at, milli, _ in turn.levels]),
    ),
    note=lambda turn: (
        "" if turn.waited_seconds is None
        else f"{LENDER} had its half back after {turn.waited_seconds:.1f} s, {turn.endings.count('checkpoint')} jobs "
        f"of {BORROWER} ended with a checkpoint"
    ),
    opened=opened,
    setup_seconds=0.0,
    round_seconds=13.0,
    is_sequence=True,
)  # fmt: skip
