"""The summary of a run: measured phases, reaction times, counts and the verdict. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.load import Sample, percentile
from slackwater.demo.scenes.memory_result import MemoryScene
from slackwater.demo.scenes.result import SceneSummary

ALONE, PLAIN, WEIGHTS, SLACKWATER = "alone", "plain", "weights", "slackwater"
PAIRS = 3
"""A pair is a surge with batch frozen and, just after it, one under Slackwater. If the first pair is out of bounds, two
more are measured, and the median of the three decides (decision 0063)."""
HARDLY = 1.1
"""Factor on the waterline for the p90 of the seconds."""
P99_FACTOR, P99_ALLOWANCE_MS = 1.5, 5.0
_NOTICEABLE_MS = 2.0
_DISTURBING_SHARE, _STOLEN_SHARE = 0.15, 0.02
MOST_STEAL = 0.03
"""Limit of steal as a share of the machine's CPUs. Above it, latencies depend on the host more than on Slackwater."""
EXIT_CLOSED, EXIT_OPEN, EXIT_NOT_MEASURABLE = 0, 2, 3
EXITS = {
    EXIT_CLOSED: "everything was shown",
    EXIT_OPEN: "something promised was not seen",
    EXIT_NOT_MEASURABLE: "this host cannot be measured right now",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Phase(_Part):
    """Measurements of a surge. Latencies in ms from the intended send time; CPU in cores; pressure 0..1 per second."""

    name: str
    seconds: float
    requests: int
    request_rate: float
    p50_ms: float | None
    p99_ms: float | None
    errors: int
    pressure_mean: float | None
    pressure_p90: float | None
    prod_cpu: float
    batch_cpu: float
    other_cpu: float = 0.0
    """CPU used by neither prod nor batch nor the host: Slackwater, the load generator and other processes."""
    stolen_cpu: float = 0.0
    """CPU that the host gave to other guests (steal)."""


class Reaction(_Part):
    """Reaction times: seconds from the start of the surge to the first lowered quota and to pressure at the waterline,
    and from the end of the surge until every quota is restored. None: did not happen."""

    seconds_to_lowered: float | None = None
    seconds_to_relief: float | None = None
    seconds_to_restored: float | None = None


class RunCounts(_Part):
    """Counts of this run; `decisions` by kind."""

    reports: int = 0
    windows: int = 0
    predictions: int = 0
    offers: int = 0
    decisions: Mapping[str, int] = {}


class OfferLine(_Part):
    """The last offer of a node, with the decision ids for `slackwater why decision/ID`."""

    node: str
    cpu_milli: int
    memory_bytes: int
    decision_ids: Mapping[str, str]


class RunSummary(_Part):
    """The document `.slackwater/run-summary.json`. `finished` is true after everything was stopped and checked."""

    driver: str
    driver_note: str
    machine: Mapping[str, Any]
    started_at: datetime
    seconds: int | None
    workload: Mapping[str, Any]
    waterline: float | None
    phases: Mapping[str, Phase]
    reaction: Reaction = Reaction()
    comparison: PolicyComparison = PolicyComparison()
    counts: RunCounts = RunCounts()
    offers: tuple[OfferLine, ...] = ()
    interrupted: bool = False
    restored_exactly: bool | None = None
    restored_files: int = 0
    leftovers: tuple[str, ...] = ()
    finished: bool = False
    failures: tuple[str, ...] = ()
    conclusion: str = ""
    took_seconds: float | None = None
    """Seconds from the start of the demo to the end of its measurements."""
    exit: int | None = None
    """The exit status, once `finished`. make itself exits with 2 for every status other than 0."""
    not_measurable: str = ""
    """Why the latency bound is not meaningful on this host; empty if it is."""
    scene: str = "all"
    """The scene that was asked for."""
    memory: MemoryScene | None = None
    """The result of the scene memory, as in `scenes`."""
    scenes: Mapping[str, SceneSummary] = {}
    """By name, in the order of the run. Empty on a simulated fleet, whose run is `phases`."""

    @property
    def ok(self) -> bool:
        return self.finished and not self.failures


def phase(
    name: str,
    seconds: float,
    samples: Sequence[Sample],
    pressures: Sequence[float],
    cores: tuple[float, float, float, float],
) -> Phase:
    """A phase from its raw measurements; `cores` are used by prod, by batch and by the rest, and stolen by the host.

    Failed requests count as errors and, with the time they took, as latency.
    """
    latencies = [sample.latency * 1000 for sample in samples]
    return Phase(
        name=name,
        seconds=seconds,
        requests=len(samples),
        request_rate=round(len(samples) / seconds, 1) if seconds > 0 else 0.0,
        p50_ms=_rounded(percentile(latencies, 0.50)),
        p99_ms=_rounded(percentile(latencies, 0.99)),
        errors=sum(not sample.ok for sample in samples),
        pressure_mean=round(sum(pressures) / len(pressures), 4) if pressures else None,
        pressure_p90=round(percentile(pressures, 0.90), 4) if pressures else None,
        prod_cpu=round(cores[0], 3),
        batch_cpu=round(cores[1], 3),
        other_cpu=round(cores[2], 3),
        stolen_cpu=round(cores[3], 3),
    )


def cpu_seconds_per_request(phases: Iterable[Phase]) -> float:
    """CPU cost per request in these surges, with and without batch. Raises ValueError without any request."""
    seen = [(phase.prod_cpu * phase.seconds, phase.requests) for phase in phases if phase.requests]
    if not seen:
        raise ValueError("phases: none of them has a request to count")
    return sum(cpu for cpu, _ in seen) / sum(requests for _, requests in seen)


def allowed_p99_ms(alone_p99_ms: float) -> float:
    """The upper bound of the service's p99 under Slackwater, in milliseconds."""
    return P99_FACTOR * alone_p99_ms + P99_ALLOWANCE_MS


def nth(name: str, number: int) -> str:
    """The name of a phase in the pair `number` (from 1); the first pair has no suffix."""
    return name if number == 1 else f"{name}-{number}"


def pairs(phases: Mapping[str, Phase]) -> list[tuple[Phase, Phase]]:
    """The pairs (alone, under Slackwater) of which both were measured, in order of measurement."""
    candidates = [
        (phases.get(nth(ALONE, number)), phases.get(nth(SLACKWATER, number))) for number in range(1, PAIRS + 1)
    ]
    return [(alone, ours) for alone, ours in candidates if alone and ours and _both_known(alone, ours)]


def deciding_pair(phases: Mapping[str, Phase]) -> tuple[Phase, Phase] | None:
    """The median of three pairs by distance from the bound; the first if there are fewer; None without pairs."""
    measured = pairs(phases)
    if len(measured) < PAIRS:
        return measured[0] if measured else None
    return sorted(measured, key=_times_allowed)[PAIRS // 2]


def _p99s(pair: tuple[Phase, Phase]) -> tuple[float, float]:
    alone, ours = pair
    return alone.p99_ms or 0.0, ours.p99_ms or 0.0


def _both_known(alone: Phase, ours: Phase) -> bool:
    return alone.p99_ms is not None and ours.p99_ms is not None


def _times_allowed(pair: tuple[Phase, Phase]) -> float:
    alone, ours = _p99s(pair)
    return ours / allowed_p99_ms(alone)


def failures(summary: RunSummary) -> tuple[str, ...]:
    """The failed conditions of the run, one line each; empty if the run succeeded and left nothing behind."""
    if summary.scenes:
        broken = [text for scene in summary.scenes.values() for text in scene.failures]
        return (*broken, *_left_behind(summary))
    return (*_latency(summary), *_loop(summary), *_left_behind(summary))


def is_too_slow(phases: Mapping[str, Phase]) -> bool:
    """Whether the p99 of the service under Slackwater exceeds its bound; False if either is unknown."""
    pair = deciding_pair(phases)
    return pair is not None and _times_allowed(pair) > 1


def exit_status(summary: RunSummary) -> int:
    """2 if something failed, 3 if something could not be measured, else 0.

    On a simulated fleet 3 needs a failure: of latencies or requests alone.
    """
    failed = failures(summary)
    if summary.scenes:
        return EXIT_OPEN if failed else EXIT_NOT_MEASURABLE if why_not_measurable(summary) else EXIT_CLOSED
    if not failed:
        return EXIT_CLOSED
    if failed != tuple(_latency(summary)) or deciding_pair(summary.phases) is None:
        return EXIT_OPEN
    return EXIT_NOT_MEASURABLE if why_not_measurable(summary) else EXIT_OPEN


def why_not_measurable(summary: RunSummary) -> str:
    """Why this host cannot be measured; empty if it can. A scene says so itself: a turn that was disturbed, or what
    this machine lacks.

    Reasons on a simulated fleet: steal above 3 % of the CPUs in a surge of a pair; failed requests of the service
    alone; or a p99 of the service alone that exceeds Slackwater's bound when it is measured again.
    """
    if summary.scenes:
        found = _scenes_not_measured(summary)
        return found[0] + (f", and {len(found) - 1} more" if len(found) > 1 else "") if found else ""
    measured, cpus, reasons = pairs(summary.phases), float(summary.machine.get("cpus", 0)), []
    stolen = max((phase.stolen_cpu for pair in measured for phase in pair), default=0.0)
    if cpus and stolen > MOST_STEAL * cpus:
        share = stolen / cpus
        reasons.append(f"the host took {share:.1%} of the CPUs in a surge (steal), more than {MOST_STEAL:.0%}")
    if errors := sum(pair[0].errors for pair in measured):
        reasons.append(
            f"{errors} of {sum(pair[0].requests for pair in measured)} requests failed with the service alone"
        )
    alone = [_p99s(pair)[0] for pair in measured]
    if alone and max(alone) > allowed_p99_ms(min(alone)):
        values = ", ".join(f"{p99:.1f}" for p99 in alone)
        reasons.append(f"the p99 of the service alone varied ({values} ms) by more than the bound allows Slackwater")
    return "; ".join(reasons)


def _scenes_not_measured(summary: RunSummary) -> list[str]:
    found = [text for scene in summary.scenes.values() for text in scene.not_measurable]
    if all(scene.skipped for scene in summary.scenes.values()):
        found += [f"{name}: {scene.skipped}" for name, scene in summary.scenes.items()]
    return found


def last_line(summary: RunSummary) -> str:
    """The exit status as text, because make replaces the status itself."""
    status = exit_status(summary)
    why = f": {summary.not_measurable}" if status == EXIT_NOT_MEASURABLE else ""
    return f"exit {status}: {EXITS[status]}{why}"


def _latency(summary: RunSummary) -> list[str]:
    measured, pair = pairs(summary.phases), deciding_pair(summary.phases)
    if pair is None:
        return ["the service's latency was not measured alone and under Slackwater"]
    problems = []
    if is_too_slow(summary.phases):
        alone, ours = _p99s(pair)
        problems.append(
            f"p99 under Slackwater {ours:.1f} ms is above {allowed_p99_ms(alone):.1f} ms "
            f"({P99_FACTOR:g} x {alone:.1f} ms alone + {P99_ALLOWANCE_MS:g} ms)"
            + (f": the median of {reported_pairs(measured)}" if len(measured) == PAIRS else "")
        )
    return [*problems, *_failed_requests(summary)]


def _failed_requests(summary: RunSummary) -> list[str]:
    return [
        f"{ours.errors} of {ours.requests} requests failed under Slackwater"
        for _, ours in pairs(summary.phases)
        if ours.errors
    ]


def reported_pairs(measured: Sequence[tuple[Phase, Phase]]) -> str:
    """The measured and allowed p99 of each pair as text."""
    p99s = [_p99s(pair) for pair in measured]
    return ", ".join(f"{ours:.1f} of {allowed_p99_ms(alone):.1f}" for alone, ours in p99s)


def needed_no_throttle(summary: RunSummary) -> bool:
    """Whether prod's pressure under Slackwater stayed close to its waterline, so that no throttle was needed.

    On a quiet machine the weights may be enough: an excess of a tenth asks for less than a hundredth of the node, which
    is not worth a change.
    """
    ours = summary.phases.get(SLACKWATER)
    if ours is None or ours.pressure_p90 is None or summary.waterline is None:
        return False
    return summary.reaction.seconds_to_lowered is None and ours.pressure_p90 <= HARDLY * summary.waterline


def _loop(summary: RunSummary) -> list[str]:
    counts, reaction = summary.counts, summary.reaction
    conditions = [
        (counts.reports > 0, "no report arrived"),
        (counts.windows > 0, "no usage window was closed"),
        (counts.predictions > 0, "no peak was published"),
        (bool(summary.offers), "no batch offer is in force"),
    ]
    taken = (
        (counts.decisions.get("throttle", 0) > 0, "no throttle was decided"),
        (reaction.seconds_to_lowered is not None, "no batch quota was lowered"),
        (counts.decisions.get("restore", 0) > 0, "no restore was decided"),
        (reaction.seconds_to_restored is not None, "not all batch quotas were restored after the surge"),
    )
    conditions += () if needed_no_throttle(summary) else taken
    return [text for holds, text in conditions if not holds]


def _left_behind(summary: RunSummary) -> list[str]:
    problems = [f"left behind: {what}" for what in summary.leftovers]
    if summary.restored_exactly is None:
        problems.append("the agent wrote no restore report: whether every file was restored is unknown")
    elif not summary.restored_exactly:
        problems.append("not every file has its original value")
    return problems


def disturbance(phases: Mapping[str, Phase], cpus: float) -> str:
    """A warning about other work on the machine during the surges; empty if there was none."""
    most = max((phase.other_cpu for phase in phases.values()), default=0.0)
    stolen = max((phase.stolen_cpu for phase in phases.values()), default=0.0)
    sources = []
    if most > _DISTURBING_SHARE * cpus:
        sources.append(f"Other work used up to {most:.2f} of {cpus:g} CPUs during the surges")
    if stolen > _STOLEN_SHARE * cpus:
        sources.append(f"the host took up to {stolen:.2f} of {cpus:g} CPUs from this virtual machine (steal)")
    causes = " and ".join(sources)
    return f"{causes[0].upper()}{causes[1:]}; this disturbs the figures." if causes else ""


def conclusion(phases: Mapping[str, Phase]) -> str:
    """One or two sentences on the cost of plain sharing, the effect of weights and the effect of the waterline."""
    pair = deciding_pair(phases)
    if pair is None or any(phases.get(name) is None or phases[name].p99_ms is None for name in (PLAIN, WEIGHTS)):
        return "No conclusion: not every phase was measured."
    plain, weights, (alone, ours) = phases[PLAIN].p99_ms or 0.0, phases[WEIGHTS].p99_ms or 0.0, _p99s(pair)
    cost = plain - alone
    first = f"Plain sharing changes p99 from {alone:.1f} to {plain:.1f} ms."
    if cost <= _NOTICEABLE_MS:
        return f"{first} On this machine the effect is negligible{_pressure_words(phases, pair)}."
    by_weights, by_both = (plain - weights) / cost, (plain - ours) / cost
    if by_both < 0.5:
        second = (
            f"Slackwater removes only {_percent(by_both)} of the increase, the weights alone {_percent(by_weights)}"
        )
    elif by_weights >= 0.8 and by_both - by_weights < 0.1:
        second = f"Tier weights alone remove {_percent(by_weights)} of the increase; the waterline adds little"
    else:
        second = (
            f"Tier weights alone remove {_percent(by_weights)} of the increase, with the waterline {_percent(by_both)}"
        )
    return f"{first} {second}{_pressure_words(phases, pair)}."


def _pressure_words(phases: Mapping[str, Phase], pair: tuple[Phase, Phase]) -> str:
    weights, ours = phases[WEIGHTS].pressure_mean, pair[1].pressure_mean
    if weights is None or ours is None:
        return ""
    return f"; prod's CPU pressure is {weights:.3f} with weights and {ours:.3f} with the waterline"


def _percent(ratio: float) -> str:
    return f"{min(1.0, max(0.0, ratio)) * 100:.0f} %"


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)
