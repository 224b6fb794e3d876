"""The result of the scene lend, and every sentence that its table carries. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from slackwater.demo.chance import BY_CHANCE, by_chance
from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.demo.scenes.spread import difference_text, spread_text
from slackwater.demo.summary import P99_ALLOWANCE_MS, P99_FACTOR
from slackwater.model.quantities import format_cpu

REQUESTS, OFFERS = "requests", "offers"
VARIANTS: Final = (REQUESTS, OFFERS)
TITLES: Final = {REQUESTS: "without offers", OFFERS: "with offers"}
BEYOND_PLACED: Final = 1.1
"""A quota is kept per period, so that a pod may use a little more than its limit at the edges of a turn."""
SAME_P99_FACTOR, SAME_P99_MS = 1.2, 5.0
"""Up to which the median p99 with offers counts as the same. A turn has some 230 requests, so its p99 is the third
slowest: turns without any batch took 16.1 to 20.8 ms on one quiet machine (docs/reference/figures.md). Batch in the
idle class may hold a CPU for one time slice, about 3 ms, before prod's thread gets it."""


class LendTurn(Turn):
    """One turn. CPU in milli-cores: what the placer could give, and what the pods that it placed request.

    `batch_core_seconds` is what these used in the turn. `free_milli` is the room by requests, or the offer.
    `slowest_ms` are its slowest requests, falling.
    """

    variant: Literal["requests", "offers"]
    seconds: float
    requests: int
    errors: int
    p99_ms: float | None
    slowest_ms: tuple[float, ...] = ()
    prod_cpu: float
    free_milli: int
    placed: int
    placed_milli: int
    batch_core_seconds: float


class LendScene(Result):
    """The scene: prod requests all of the machine, and `waiting` batch pods of `pod_milli` wait for room."""

    cpu_milli: int = 0
    waiting: int = 0
    pod_milli: int = 0
    turns: tuple[LendTurn, ...] = ()

    def of(self, variant: str) -> tuple[LendTurn, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)

    def p99s(self, variant: str) -> list[float]:
        return [turn.p99_ms for turn in self.of(variant) if turn.p99_ms is not None]


def report(scene: LendScene) -> SceneReport:
    """Returns a table with a row per turn, and what it says."""
    return SceneReport(
        title=f"lend: prod requests all {format_cpu(scene.cpu_milli)} CPU; {scene.waiting} batch pods of "
        f"{format_cpu(scene.pod_milli)} CPU wait",
        columns=("", "room\nCPU", "pods\nplaced", "CPU\nplaced", "batch\ncore-s", "core-h\nper day", "prod\nCPU",
                 "prod\np99 ms", "errors"),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=tuple(failures(scene)),
    )  # fmt: skip


def _row(turn: LendTurn) -> tuple[str, ...]:
    return (
        TITLES[turn.variant],
        format_cpu(turn.free_milli),
        str(turn.placed),
        format_cpu(turn.placed_milli),
        f"{turn.batch_core_seconds:.1f}",
        f"{core_hours_per_day(turn):.1f}",
        f"{turn.prod_cpu:.2f}",
        "-" if turn.p99_ms is None else f"{turn.p99_ms:.1f}",
        str(turn.errors),
    )


def core_hours_per_day(turn: LendTurn) -> float:
    """Returns what a day at the rate of this turn gives."""
    return 24 * turn.batch_core_seconds / turn.seconds if turn.seconds > 0 else 0.0


def sentences(scene: LendScene) -> list[str]:
    """Returns what the table says in words."""
    found = []
    for variant in VARIANTS:
        if turns := scene.of(variant):
            won = spread_text([turn.batch_core_seconds for turn in turns])
            pods = spread_text([float(turn.placed) for turn in turns], 0)
            found.append(
                f"lend, {TITLES[variant]}: {pods} of {scene.waiting} pods placed, {won} core-seconds won in a turn of "
                f"{turns[0].seconds:g} s; prod's p99 {spread_text(scene.p99s(variant))} ms"
            )
    if all(scene.p99s(variant) for variant in VARIANTS):
        text = difference_text(TITLES[OFFERS], scene.p99s(OFFERS), TITLES[REQUESTS], scene.p99s(REQUESTS))
        found.append(f"lend, prod's p99: {text}")
    if (compared := _compared(scene)) and compared.above and not compared.missed:
        found.append(f"lend: {compared.text}, which is by chance in {compared.chance:.0%} of runs: more turns tell")
    return found


def failures(scene: LendScene) -> list[str]:
    """Returns what the scene promises and did not show."""
    found = []
    if any(turn.placed for turn in scene.of(REQUESTS)):
        found.append("lend: a batch pod was placed without an offer")
    if not all(turn.placed and turn.batch_core_seconds > 0 for turn in scene.of(OFFERS)):
        found.append("lend: no batch pod ran on the offer")
    if any(turn.placed_milli > turn.free_milli for turn in scene.turns):
        found.append("lend: more CPU was placed than there was room for")
    if any(turn.batch_core_seconds > BEYOND_PLACED * turn.placed_milli / 1000 * turn.seconds for turn in scene.turns):
        found.append("lend: batch used more CPU than was placed")
    if errors := sum(turn.errors for turn in scene.of(OFFERS)):
        found.append(f"lend: {errors} requests failed beside batch on the offer")
    return found + not_the_same(scene)


def not_the_same(scene: LendScene) -> list[str]:
    """Returns that core-hours were not won at the same p99, by the medians of the turns."""
    compared = _compared(scene)
    if compared is None:
        return ["lend: prod's p99 was not measured in both variants"]
    if not compared.missed:
        return []
    return [f"lend: {compared.text}, which is by chance in {compared.chance:.1%} of runs"]


@dataclass(frozen=True, slots=True)
class ComparedP99:
    """Prod's median p99 with offers beside its bound in milliseconds, and how many requests took longer."""

    median_ms: float
    bound_ms: float
    slower: int
    requests: int

    @property
    def above(self) -> bool:
        return self.median_ms > self.bound_ms

    @property
    def chance(self) -> float:
        return by_chance(self.slower, self.requests)

    @property
    def missed(self) -> bool:
        return self.above and self.chance <= BY_CHANCE

    @property
    def text(self) -> str:
        terms = f"{SAME_P99_FACTOR:g} x {TITLES[REQUESTS]} + {SAME_P99_MS:g} ms"
        return (
            f"prod's median p99 with offers, {self.median_ms:.1f} ms, is above {self.bound_ms:.1f} ms ({terms}); "
            f"{self.slower} of {self.requests:,} requests took longer"
        )


def _compared(scene: LendScene) -> ComparedP99 | None:
    ours, reference = scene.p99s(OFFERS), scene.p99s(REQUESTS)
    if not ours or not reference:
        return None
    bound_ms = SAME_P99_FACTOR * median(reference) + SAME_P99_MS
    turns = scene.of(OFFERS)
    slower_ones = sum(latency > bound_ms for turn in turns for latency in turn.slowest_ms)
    return ComparedP99(median(ours), bound_ms, slower_ones, sum(turn.requests for turn in turns))


def slower(name: str, ours: list[float], reference: list[float], words: str) -> list[str]:
    """Returns that prod's p99 is out of its bound, if the median of its turns is above the bound of the worst
    reference."""
    if not ours or not reference:
        return [f"{name}: prod's p99 was not measured in both variants"]
    bound = P99_FACTOR * max(reference) + P99_ALLOWANCE_MS
    if median(ours) <= bound:
        return []
    return [f"{name}: prod's p99 {spread_text(ours)} ms is above {bound:.1f} ms ({P99_FACTOR:g} x {words} + 5 ms)"]
