"""The result of the cache scene, and every sentence that its table carries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.model.plurals import counted

ALONE, PLAIN, SLACKWATER = "alone", "plain", "slackwater"
VARIANTS: Final = (ALONE, PLAIN, SLACKWATER)
TITLES: Final = {ALONE: "prod alone", PLAIN: "beside batch, plain", SLACKWATER: "beside batch, Slackwater"}
SLOWED: Final = 2.0
"""So many times its p99 alone, prod counts as slowed down; below that there is nothing to protect."""


class CacheMoment(BaseModel):
    """A fraction of a second: the p99 of prod's reads (None: no read ended), and the limit of batch (None: none)."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    p99_ms: float | None
    limit_mib: int | None = None


class CacheTurn(Turn):
    """One turn. What `end_` names is measured in its last seconds: by then Slackwater has reacted, or could have.

    Rates are MiB per second: what prod read again after the kernel had dropped it, and what all batch pods read.
    `limit_mib` is the limit of all batch pods together at the end, and `seconds_to_limit` when the first was set. Both
    are None where none was. `is_restored`: whether at the end every limit had its value of before; None = not asked.
    """

    variant: Literal["alone", "plain", "slackwater"]
    p99_ms: float
    end_p99_ms: float
    end_refault_mib: float
    end_batch_mib: float = 0.0
    limit_mib: int | None = None
    seconds_to_limit: float | None = None
    is_restored: bool | None = None
    moments: tuple[CacheMoment, ...] = ()


class CacheScene(Result):
    """The scene: prod rereads `prod_mib` in a parent of `limit_mib`, alone and beside `batch_pods` that reread
    `batch_mib` each, in turns. `disk_mib` is what the disk gave per second at first, `wanted_mib` what batch asks for.
    """

    limit_mib: int
    prod_mib: int
    batch_pods: int = 0
    batch_mib: int = 0
    disk_mib: float | None = None
    wanted_mib: float = 0.0
    turns: tuple[CacheTurn, ...] = ()

    def of(self, variant: str) -> tuple[CacheTurn, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)


def report(scene: CacheScene) -> SceneReport:
    """Returns a table with a row per turn, and what it says."""
    nothing = not_measurable(scene)
    return SceneReport(
        title=f"cache: prod rereads {scene.prod_mib} MiB in a parent of {scene.limit_mib} MiB beside "
        f"{counted(scene.batch_pods, 'batch pod')} that reread {scene.batch_mib} MiB each",
        columns=(
            "",
            "p99 ms\nof a read",
            "at the\nend",
            "read again\nMiB/s",
            "batch read\nMiB/s",
            "limit of\nbatch MiB",
            "set\nafter s",
            "restored\nexactly",
        ),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=tuple(failures(scene)),
        not_measurable=(nothing,) if nothing else (),
    )


def _row(turn: CacheTurn) -> tuple[str, ...]:
    return (
        TITLES[turn.variant],
        f"{turn.p99_ms:.2f}",
        f"{turn.end_p99_ms:.2f}",
        f"{turn.end_refault_mib:.0f}",
        f"{turn.end_batch_mib:.0f}" if turn.variant != ALONE else "-",
        "-" if turn.limit_mib is None else str(turn.limit_mib),
        "-" if turn.seconds_to_limit is None else f"{turn.seconds_to_limit:.1f}",
        {None: "-", True: "yes", False: "NO"}[turn.is_restored],
    )


def sentences(scene: CacheScene) -> list[str]:
    """Returns what the table says in words: one sentence per variant with its numbers, and in how many rounds prod was
    faster."""
    found = [text for variant in VARIANTS if (text := _sentence(variant, scene.of(variant)))]
    if (rounds := list(zip(scene.of(PLAIN), scene.of(SLACKWATER), strict=False))) and not not_measurable(scene):
        lower = sum(ours.end_p99_ms < plain.end_p99_ms for plain, ours in rounds)
        found.append(f"cache: prod's p99 at the end was lower with Slackwater in {lower} of {_rounds(len(rounds))}")
    if scene.disk_mib is not None and scene.disk_mib < scene.wanted_mib:
        found.append(
            f"cache: the disk gave {scene.disk_mib:.0f} MiB/s, batch asks for {scene.wanted_mib:.0f}: the disk is the "
            "bottleneck of batch"
        )
    return found


def _rounds(count: int) -> str:
    return counted(count, "round")


def _sentence(variant: str, turns: Sequence[CacheTurn]) -> str:
    if not turns:
        return ""
    parts = [f"p99 of a read at the end {_all(turn.end_p99_ms for turn in turns)} ms"]
    if variant != ALONE:
        parts.append(f"batch read {_all((turn.end_batch_mib for turn in turns), 0)} MiB/s")
    if variant == SLACKWATER:
        parts.append(_limits(turns))
    return f"cache, {TITLES[variant]}: {'; '.join(parts)}"


def _limits(turns: Sequence[CacheTurn]) -> str:
    limited = [turn for turn in turns if turn.limit_mib is not None]
    if not limited:
        return "no limit was set"
    restored = sum(turn.is_restored is True for turn in limited)
    count = counted(len(limited), "turn")
    held = ", ".join(str(turn.limit_mib) for turn in limited)
    return f"held to {held} MiB, restored exactly in {restored} of {count}"


def _all(values: Iterable[float], digits: int = 2) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def not_measurable(scene: CacheScene) -> str:
    """Returns why this machine does not show what the scene is about; empty if it does."""
    alone, plain = (_p99(scene.of(variant)) for variant in (ALONE, PLAIN))
    if alone is None or plain is None or plain >= SLOWED * alone:
        return ""
    return (
        f"cache: batch slows prod down by less than {SLOWED:g} times (p99 {alone:.2f} ms alone, {plain:.2f} ms beside "
        "it): there is nothing to protect"
    )


def failures(scene: CacheScene) -> list[str]:
    """Returns what the scene promises and did not show."""
    ours, plain, found = scene.of(SLACKWATER), _p99(scene.of(PLAIN)), []
    if any(turn.is_restored is False for turn in ours):
        found.append("cache: not every memory limit was restored")
    if not_measurable(scene):
        return found
    if any(turn.limit_mib is None for turn in ours):
        found.append("cache: batch got no memory limit under Slackwater")
    guarded = _p99(ours)
    if guarded is not None and plain is not None and guarded >= plain:
        found.append(f"cache: prod's p99 is {guarded:.2f} ms with Slackwater and {plain:.2f} ms without")
    return found


def _p99(turns: Sequence[CacheTurn]) -> float | None:
    return median(turn.end_p99_ms for turn in turns) if turns else None
