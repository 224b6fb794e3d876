"""The result of the memory scene, and every sentence that its table carries. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from slackwater.model.plurals import counted

PLAIN, SLACKWATER = "plain", "slackwater"
Ending = Literal["running", "checkpoint", "killed"]
ENDINGS: Final[tuple[Ending, ...]] = ("running", "checkpoint", "killed")


class MemoryTurn(BaseModel):
    """One turn. `batch` is how each batch pod ended: still running, with a checkpoint, or killed without one."""

    model_config = ConfigDict(frozen=True)

    variant: Literal["plain", "slackwater"]
    prod_finished: bool
    prod_mib: int
    slowest_mib_ms: float
    batch: tuple[Ending, ...]
    levels: tuple[tuple[float, int, int], ...] = ()
    """Seconds, MiB of prod, MiB of batch: what the picture shows."""

    def ended(self, how: Ending) -> int:
        return sum(1 for one in self.batch if one == how)


class MemoryScene(BaseModel):
    """The scene: the same growth in a parent of `limit_mib`, with and without Slackwater, as often."""

    model_config = ConfigDict(frozen=True)

    limit_mib: int
    prod_end_mib: int
    turns: tuple[MemoryTurn, ...] = ()
    left_out: str = ""

    def of(self, variant: str) -> tuple[MemoryTurn, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)


def sentences(scene: MemoryScene) -> list[str]:
    """Returns what the table says in words: one sentence per variant, with its numbers and no more."""
    if scene.left_out:
        return [f"memory: {scene.left_out}"]
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
    if scene.left_out:
        return []
    found = []
    ours = scene.of(SLACKWATER)
    if not all(turn.prod_finished for turn in ours):
        found.append("memory: prod was killed under Slackwater")
    if killed := sum(turn.ended("killed") for turn in ours):
        found.append(f"memory: {counted(killed, 'batch pod')} killed without a checkpoint under Slackwater")
    return found
