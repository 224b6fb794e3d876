"""The result of the memory scene, and every sentence that its table carries. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.model.plurals import counted

PLAIN, SLACKWATER = "plain", "slackwater"
TITLES: Final = {PLAIN: "plain", SLACKWATER: "Slackwater"}
Ending = Literal["running", "checkpoint", "killed"]
ENDINGS: Final[tuple[Ending, ...]] = ("running", "checkpoint", "killed")


class MemoryTurn(Turn):
    """One turn. `batch` is how each batch pod ended: still running, with a checkpoint, or killed without one."""

    variant: Literal["plain", "slackwater"]
    prod_finished: bool
    prod_mib: int
    slowest_mib_ms: float
    batch: tuple[Ending, ...]
    levels: tuple[tuple[float, int, int], ...] = ()
    """Seconds, MiB of prod, MiB of batch: what the picture shows."""

    def ended(self, how: Ending) -> int:
        return sum(1 for one in self.batch if one == how)


class MemoryScene(Result):
    """The scene: the same growth in a parent of `limit_mib`, with and without Slackwater, as often."""

    limit_mib: int
    prod_end_mib: int
    turns: tuple[MemoryTurn, ...] = ()

    def of(self, variant: str) -> tuple[MemoryTurn, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)


def report(scene: MemoryScene) -> SceneReport:
    """Returns a table with a row per turn, and what it says."""
    return SceneReport(
        title=f"memory: prod grows to {scene.prod_end_mib} MiB in a parent of {scene.limit_mib} MiB",
        columns=("", "prod", "MiB\nheld", "slowest\nMiB ms", "batch\nrunning", "ended with\na checkpoint", "killed"),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=tuple(failures(scene)),
    )


def _row(turn: MemoryTurn) -> tuple[str, ...]:
    prod = "finished" if turn.prod_finished else "killed"
    ends = (str(turn.ended(how)) for how in ENDINGS)
    return (TITLES[turn.variant], prod, str(turn.prod_mib), f"{turn.slowest_mib_ms:.1f}", *ends)


def sentences(scene: MemoryScene) -> list[str]:
    """Returns what the table says in words: one sentence per variant, with its numbers and no more."""
    return [text for variant, name in ((PLAIN, "without Slackwater"), (SLACKWATER, "with Slackwater"))
            if (text := _sentence(name, scene.of(variant)))]  # fmt: skip


def _sentence(name: str, turns: Sequence[MemoryTurn]) -> str:
    if not turns:
        return ""
    finished = sum(turn.prod_finished for turn in turns)
    killed, kept, running = (sum(turn.ended(how) for turn in turns) for how in ("killed", "checkpoint", "running"))
    prod = f"prod finished in {finished} of {counted(len(turns), 'turn')}"
    if finished < len(turns):
        prod += f", and was killed in {len(turns) - finished}"
    ends = [
        f"{killed} killed without a checkpoint" if killed else "",
        f"{kept} ended with a checkpoint" if kept else "",
        f"{running} still running" if running else "",
    ]
    return f"memory, {name}: {prod}; batch pods: {', '.join(one for one in ends if one) or 'none'}"


def failures(scene: MemoryScene) -> list[str]:
    """Returns what the scene promises and did not show."""
    found = []
    ours = scene.of(SLACKWATER)
    if not all(turn.prod_finished for turn in ours):
        found.append("memory: prod was killed under Slackwater")
    if killed := sum(turn.ended("killed") for turn in ours):
        found.append(f"memory: {counted(killed, 'batch pod')} killed without a checkpoint under Slackwater")
    return found
