"""The result of the scene cpu, and every sentence that its table carries. Pure."""

from __future__ import annotations

from statistics import median
from typing import Final, Literal

from slackwater.demo.scenes.lend_result import slower
from slackwater.demo.scenes.result import Result, SceneReport, Turn
from slackwater.demo.scenes.spread import difference_text, spread_text
from slackwater.demo.summary import Phase, Reaction

PLAIN, WEIGHTS, SLACKWATER = "plain", "weights", "slackwater"
VARIANTS: Final = (PLAIN, WEIGHTS, SLACKWATER)
TITLES: Final = {PLAIN: "plain sharing", WEIGHTS: "weights alone", SLACKWATER: "Slackwater"}
LEAST_USED: Final = 0.95
"""Share of the CPU that prod and batch use together beside weights alone which they use at least under Slackwater.
Batch runs on what prod leaves, and prod's own use differs by a tenth from turn to turn; a quota leaves CPU idle."""


class CpuTurn(Turn):
    """One turn: the surge, and for how many of its seconds, and of those before the measurement, some quota of batch
    was below its original."""

    variant: Literal["plain", "weights", "slackwater"]
    phase: Phase
    quota_seconds: float = 0.0
    lead_quota_seconds: float = 0.0
    reaction: Reaction = Reaction()


class CpuScene(Result):
    """The scene: the same surge beside the same batch, as often under each variant."""

    turns: tuple[CpuTurn, ...] = ()
    waterline: float | None = None
    workers: int = 0
    rounds: int = 0
    request_cpu_ms: float = 0.0
    rate: float = 0.0

    def of(self, variant: str) -> tuple[CpuTurn, ...]:
        return tuple(turn for turn in self.turns if turn.variant == variant)

    def p99s(self, variant: str) -> list[float]:
        return [turn.phase.p99_ms for turn in self.of(variant) if turn.phase.p99_ms is not None]

    def batch(self, variant: str) -> list[float]:
        return [turn.phase.batch_cpu for turn in self.of(variant)]

    def used(self, variant: str) -> list[float]:
        """Returns the CPU of prod and batch together, by turn."""
        return [turn.phase.prod_cpu + turn.phase.batch_cpu for turn in self.of(variant)]


def report(scene: CpuScene) -> SceneReport:
    """Returns a table with a row per turn, and what it says."""
    return SceneReport(
        title=f"cpu: the same surge of {scene.rate:.0f} requests/s beside the same batch, {len(scene.turns)} times, "
        "measured after its beginning",
        columns=(
            "",
            "p50 ms",
            "p99 ms",
            "errors",
            "prod\npressure",
            "prod\nCPU",
            "batch\nCPU",
            "quota\ns",
            "other\nCPU",
        ),
        rows=tuple(_row(turn) for turn in scene.turns),
        sentences=tuple(sentences(scene)),
        failures=tuple(failures(scene)),
    )  # fmt: skip


def _row(turn: CpuTurn) -> tuple[str, ...]:
    phase = turn.phase
    return (
        TITLES[turn.variant],
        "-" if phase.p50_ms is None else f"{phase.p50_ms:.1f}",
        "-" if phase.p99_ms is None else f"{phase.p99_ms:.1f}",
        str(phase.errors),
        "-" if phase.pressure_mean is None else f"{phase.pressure_mean:.3f}",
        f"{phase.prod_cpu:.2f}",
        f"{phase.batch_cpu:.2f}",
        f"{turn.quota_seconds:.1f}",
        f"{turn.other.cpus:.2f}",
    )


def sentences(scene: CpuScene) -> list[str]:
    """Returns what the table says in words: median and spread of every variant, and what all turns agree in."""
    found = [
        f"cpu, {TITLES[variant]}: prod's p99 {spread_text(scene.p99s(variant))} ms, batch "
        f"{spread_text(scene.batch(variant), 2)} CPU{_failed(scene.of(variant))}"
        for variant in VARIANTS
        if scene.of(variant)
    ]
    for first, second in ((WEIGHTS, PLAIN), (SLACKWATER, WEIGHTS)):
        if scene.p99s(first) and scene.p99s(second):
            text = difference_text(TITLES[first], scene.p99s(first), TITLES[second], scene.p99s(second))
            found.append(f"cpu, prod's p99: {text}")
    if scene.of(SLACKWATER) and scene.of(WEIGHTS):
        text = difference_text(TITLES[SLACKWATER], scene.batch(SLACKWATER), TITLES[WEIGHTS], scene.batch(WEIGHTS))
        found.append(f"cpu, batch's CPU: {text}")
        together = f"{spread_text(scene.used(SLACKWATER), 2)} under Slackwater, {spread_text(scene.used(WEIGHTS), 2)}"
        found.append(f"cpu, CPU of prod and batch together: {together} beside weights alone")
    if ours := scene.of(SLACKWATER):
        under, whole = (sum(values) for values in zip(*((t.quota_seconds, t.phase.seconds) for t in ours), strict=True))
        before = sum(turn.lead_quota_seconds for turn in ours)
        found.append(
            f"cpu, Slackwater: batch had a quota for {under:.1f} of {whole:.1f} s, and for {before:.1f} s before"
        )
    return found


def _failed(turns: tuple[CpuTurn, ...]) -> str:
    errors = sum(turn.phase.errors for turn in turns)
    return f", {errors} of {sum(turn.phase.requests for turn in turns)} requests failed" if errors else ""


def failures(scene: CpuScene) -> list[str]:
    """Returns what the scene promises and did not show: equal latency, and no CPU lost to needless quotas."""
    found = slower("cpu", scene.p99s(SLACKWATER), scene.p99s(WEIGHTS), TITLES[WEIGHTS])
    if errors := sum(turn.phase.errors for turn in scene.of(SLACKWATER)):
        found.append(f"cpu: {errors} requests failed under Slackwater")
    if quotas := sum(turn.quota_seconds + turn.lead_quota_seconds for turn in scene.of(SLACKWATER)):
        found.append(f"cpu: batch had a quota for {quotas:.1f} s under Slackwater, although weights protect prod")
    ours, weights = scene.used(SLACKWATER), scene.used(WEIGHTS)
    if ours and weights and median(ours) < LEAST_USED * median(weights) and max(ours) < min(weights):
        found.append(
            f"cpu: prod and batch used {spread_text(ours, 2)} CPU under Slackwater and {spread_text(weights, 2)} "
            f"beside weights alone, less than {LEAST_USED:.0%} of it"
        )
    return found
