"""The result of the scene quotas, and every sentence that its table carries. Pure.

Nothing here is a matter of speed: the figures are those of the quota ledger and exit statuses of jobs, so other work on
the machine makes a stage longer and changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.demo.scenes.spread import spread_text
from slackwater.model.plurals import counted
from slackwater.model.quantities import format_cpu

FIXED, ELASTIC, ASKED = "fixed", "elastic", "asked"
VARIANTS: Final = (FIXED, ELASTIC, ASKED)
TITLES: Final = {FIXED: "fixed shares", ELASTIC: "elastic, team-a idle", ASKED: "elastic, team-a asks"}
LENDER, BORROWER = "team-a", "team-b"
Ending = Literal["running", "checkpoint", "killed"]


class QuotaStage(Turn):
    """One stage. Jobs are counted at its end; lent, borrowed (milli-cores) too, owed at its highest.

    `reclaimed` claims of the borrower had to end for the lender; `endings` is how each of its jobs stands.
    `waited_seconds` is the longest time from submission to admission of the lender's claims; None without one.
    """

    variant: Literal["fixed", "elastic", "asked"]
    lender_running: int = 0
    lender_waiting: int = 0
    borrower_running: int = 0
    borrower_waiting: int = 0
    lent_milli: int = 0
    borrowed_milli: int = 0
    owed_milli: int = 0
    reclaimed: int = 0
    endings: tuple[Ending, ...] = ()
    waited_seconds: float | None = None

    def ended(self, how: Ending) -> int:
        return sum(1 for one in self.endings if one == how)


class TeamLevel(BaseModel):
    """What both teams used at one moment of a round of stages, in milli-cores."""

    model_config = ConfigDict(frozen=True)

    stage: str
    seconds: float
    lender_milli: int
    borrower_milli: int


class QuotasScene(Result):
    """The scene: two teams share `total_milli`, half each as min; `jobs` of the borrower, `asked` of the lender."""

    total_milli: int = 0
    job_milli: int = 0
    jobs: int = 0
    asked: int = 0
    turns: tuple[QuotaStage, ...] = ()
    levels: tuple[TeamLevel, ...] = ()
    """Of the last round: what the picture shows."""

    def of(self, variant: str) -> tuple[QuotaStage, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)


def report(scene: QuotasScene) -> SceneReport:
    """Returns a table with a row per stage, and what it says."""
    return SceneReport(
        title=f"quotas: {LENDER} and {BORROWER} share {format_cpu(scene.total_milli)} CPU, half each as min; jobs of "
        f"{format_cpu(scene.job_milli)} CPU; borrowed, lent and owed in CPU",
        columns=("", f"{BORROWER}\nruns", f"{BORROWER}\nwaits", f"{BORROWER}\nborrows", f"{LENDER}\nlends",
                 f"{LENDER}\nis owed", f"{LENDER}\nruns", f"{LENDER}\nwaited s", "reclaimed", "checkpoint,\nexit 143",
                 "killed"),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=tuple(failures(scene)),
    )  # fmt: skip


def _row(turn: QuotaStage) -> tuple[str, ...]:
    return (
        TITLES[turn.variant],
        str(turn.borrower_running),
        str(turn.borrower_waiting),
        format_cpu(turn.borrowed_milli),
        format_cpu(turn.lent_milli),
        format_cpu(turn.owed_milli),
        str(turn.lender_running),
        "-" if turn.waited_seconds is None else f"{turn.waited_seconds:.1f}",
        str(turn.reclaimed),
        str(turn.ended("checkpoint")),
        str(turn.ended("killed")),
    )


def sentences(scene: QuotasScene) -> list[str]:
    """Returns what the table says in words: one sentence per variant, with its numbers and no more."""
    said: dict[str, Callable[[QuotasScene, Sequence[QuotaStage]], str]] = {
        FIXED: _fixed, ELASTIC: _elastic, ASKED: _asked
    }  # fmt: skip
    return [
        f"quotas, {TITLES[variant]}: {said[variant](scene, turns)}{_turns(turns)}"
        for variant in VARIANTS
        if (turns := scene.of(variant))
    ]


def _turns(turns: Sequence[QuotaStage]) -> str:
    return f" (sums of {len(turns)} turns)" if len(turns) > 1 else ""


def _fixed(scene: QuotasScene, turns: Sequence[QuotaStage]) -> str:
    running, waiting = (sum(one.borrower_running for one in turns), sum(one.borrower_waiting for one in turns))
    return f"{BORROWER} runs {running} of {counted(scene.jobs * len(turns), 'job')}, {waiting} wait, {LENDER} runs none"


def _elastic(scene: QuotasScene, turns: Sequence[QuotaStage]) -> str:
    running = sum(one.borrower_running for one in turns)
    borrowed, lent = sum(one.borrowed_milli for one in turns), sum(one.lent_milli for one in turns)
    return (
        f"{BORROWER} runs {running} of {counted(scene.jobs * len(turns), 'job')} and borrows {format_cpu(borrowed)} "
        f"CPU; {LENDER} lends {format_cpu(lent)} CPU"
    )


def _asked(scene: QuotasScene, turns: Sequence[QuotaStage]) -> str:
    running, reclaimed = sum(one.lender_running for one in turns), sum(one.reclaimed for one in turns)
    kept, killed = (sum(one.ended(how) for one in turns) for how in ("checkpoint", "killed"))
    waits = [one.waited_seconds for one in turns if one.waited_seconds is not None]
    waited = f" after {spread_text(waits)} s" if waits else ""
    return (
        f"{LENDER} runs {running} of {counted(scene.asked * len(turns), 'job')}{waited}; "
        f"{counted(reclaimed, 'job')} of {BORROWER} reclaimed for it, {kept} ended with a checkpoint and exit status "
        f"143, {killed} killed"
    )


def failures(scene: QuotasScene) -> list[str]:
    """Returns what the scene promises and did not show."""
    half = scene.total_milli // 2
    found = []
    for turn in scene.turns:
        name = f"quotas, {TITLES[turn.variant]}"
        used = turn.borrower_running * scene.job_milli
        if turn.lent_milli != turn.borrowed_milli:
            found.append(f"{name}: {format_cpu(turn.lent_milli)} CPU lent, {format_cpu(turn.borrowed_milli)} borrowed")
        if turn.ended("killed"):
            found.append(f"{name}: {counted(turn.ended('killed'), 'job')} of {BORROWER} killed without a checkpoint")
        if turn.variant == FIXED and (used > half or not turn.borrower_waiting):
            found.append(f"{name}: {BORROWER} was not held to its half")
        if turn.variant == ELASTIC and (turn.borrower_running < scene.jobs or not turn.borrowed_milli):
            found.append(f"{name}: {BORROWER} did not borrow what {LENDER} left idle")
        if turn.variant == ASKED:
            found += _not_taken_back(scene, turn, name)
    return found


def _not_taken_back(scene: QuotasScene, turn: QuotaStage, name: str) -> list[str]:
    found = []
    if turn.lender_running < scene.asked:
        found.append(f"{name}: {LENDER} did not get its min back")
    if turn.reclaimed != scene.asked:
        found.append(f"{name}: {counted(turn.reclaimed, 'job')} reclaimed, {scene.asked} were needed")
    if turn.ended("checkpoint") < turn.reclaimed:
        found.append(f"{name}: a reclaimed job left no checkpoint")
    return found
