"""Evaluates the models under every placement and combines the results of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from slackwater.backtest.domain.measures import ErrorScores, ModelVerdict
from slackwater.backtest.domain.span import JudgedSpan
from slackwater.backtest.ports import BacktestProgress, Contender, Stopwatch
from slackwater.backtest.usecases.judge import ORACLE, Film, judge
from slackwater.model.errors import InvalidInput
from slackwater.traces.placement import Stays, churned, each_its_own, still, wrong_keys
from slackwater.traces.trace import DAY_CELLS, Trace


@dataclass(frozen=True, slots=True)
class PlacementLayout:
    """How series are placed on machines."""

    per_machine: int
    """1: each series is one machine."""
    churn_days: float | None
    """Mean stay on a machine; None: workloads do not move."""
    seeds: int
    wrong_keys: float
    """Share of workloads (0..1) that are predicted from the history of another workload."""

    def __post_init__(self) -> None:
        if self.per_machine < 1:
            raise InvalidInput(f"--vms-per-node: {self.per_machine} is not allowed; at least 1", field="vms-per-node")
        if self.seeds < 1:
            raise InvalidInput(f"--seeds: {self.seeds} is not allowed; at least 1", field="seeds")
        if not 0 <= self.wrong_keys <= 1:
            raise InvalidInput(f"--wrong-keys: {self.wrong_keys} is not a share; 0..1", field="wrong-keys")
        if self.per_machine == 1 and self.churn_days is not None:
            raise InvalidInput(
                "--churn: not allowed if each series is one machine; also give --vms-per-node above 1", field="churn"
            )

    @property
    def placements(self) -> int:
        """The number of placements: 1 if nothing is random, because every seed would give the same result."""
        return 1 if self.per_machine == 1 and not self.wrong_keys else self.seeds


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one model: over all placements, and for each placement."""

    label: str
    version: str
    settings: Mapping[str, object]
    verdict: ModelVerdict
    placements: Sequence[ErrorScores]
    seconds: float
    """CPU time of the model over all placements."""


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The oracle first, then the models in the requested order."""

    judgements: Sequence[Judgement]
    machines: int
    film: Film | None
    """The film of the first placement."""


def compare(
    trace: Trace,
    layout: PlacementLayout,
    contenders: Sequence[Contender],
    span: JudgedSpan,
    *,
    watch: BacktestProgress,
    stopwatch: Stopwatch,
    filmed: bool = False,
) -> ModelComparison:
    """Evaluates all models. The seeds are 1, 2, …, so that the same command gives the same figures."""
    watch.begin(layout.placements * span.stop)
    placements = []
    for seed in range(1, layout.placements + 1):
        chance = np.random.default_rng(seed)
        stays = place(trace, layout, chance)
        keys = wrong_keys(int(trace.workload.max()) + 1, layout.wrong_keys, chance)
        first = seed == 1
        placements.append(
            judge(trace, stays, contenders, span, keys=keys, watch=watch, stopwatch=stopwatch, filmed=filmed and first)
        )
    perfect = Contender(ORACLE, "", {}, _cannot_be_made)
    judgements = [
        Judgement(
            contender.label,
            contender.version,
            contender.settings,
            ModelVerdict.of([judged.scores[contender.label] for judged in placements]),
            [judged.scores[contender.label] for judged in placements],
            sum(judged.seconds.get(contender.label, 0.0) for judged in placements),
        )
        for contender in (perfect, *contenders)
    ]
    return ModelComparison(judgements, placements[0].machines, placements[0].film)


def place(trace: Trace, layout: PlacementLayout, chance: np.random.Generator) -> Stays:
    """Places the series of the trace on machines according to the layout."""
    if layout.per_machine == 1:
        return each_its_own(trace.present)
    if layout.churn_days is None:
        return still(trace.present, layout.per_machine, chance)
    return churned(trace.present, layout.per_machine, layout.churn_days * DAY_CELLS, chance)


def _cannot_be_made() -> NoReturn:
    raise AssertionError("the oracle is not a model and cannot be built")
