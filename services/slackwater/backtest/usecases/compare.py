"""All placements one after the other, and what they say of each model together."""

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
    """How series are put on machines."""

    per_machine: int
    """1: each series is a machine of its own."""
    churn_days: float | None
    """Mean stay; None: nobody moves."""
    seeds: int
    wrong_keys: float
    """Share of workloads (0..1) for which predictions are made with the history of another one."""

    def __post_init__(self) -> None:
        if self.per_machine < 1:
            raise InvalidInput(f"--vms-per-node: {self.per_machine} is not allowed; at least 1", field="vms-per-node")
        if self.seeds < 1:
            raise InvalidInput(f"--seeds: {self.seeds} is not allowed; at least 1", field="seeds")
        if not 0 <= self.wrong_keys <= 1:
            raise InvalidInput(f"--wrong-keys: {self.wrong_keys} is not a share; 0..1", field="wrong-keys")
        if self.per_machine == 1 and self.churn_days is not None:
            raise InvalidInput("--churn: nobody moves where each series is a machine of its own", field="churn")

    @property
    def placements(self) -> int:
        """Where nothing is drawn, all seeds would say the same: one is enough."""
        return 1 if self.per_machine == 1 and not self.wrong_keys else self.seeds


@dataclass(frozen=True, slots=True)
class Judgement:
    """One model: what all placements say together, and each of them."""

    label: str
    version: str
    settings: Mapping[str, object]
    verdict: ModelVerdict
    placements: Sequence[ErrorScores]
    seconds: float
    """What the model itself took, all placements together."""


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The oracle first, then the models in the order in which they were asked for."""

    judgements: Sequence[Judgement]
    machines: int
    film: Film | None
    """Of the first placement."""


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
    """Seeds are 1, 2, …: the same command gives the same figures."""
    watch.begin(layout.placements * span.stop)
    found = []
    for seed in range(1, layout.placements + 1):
        chance = np.random.default_rng(seed)
        stays = place(trace, layout, chance)
        keys = wrong_keys(int(trace.workload.max()) + 1, layout.wrong_keys, chance)
        first = seed == 1
        found.append(
            judge(trace, stays, contenders, span, keys=keys, watch=watch, stopwatch=stopwatch, filmed=filmed and first)
        )
    perfect = Contender(ORACLE, "", {}, _cannot_be_made)
    judgements = [
        Judgement(
            one.label,
            one.version,
            one.settings,
            ModelVerdict.of([judged.scores[one.label] for judged in found]),
            [judged.scores[one.label] for judged in found],
            sum(judged.seconds.get(one.label, 0.0) for judged in found),
        )
        for one in (perfect, *contenders)
    ]
    return ModelComparison(judgements, found[0].machines, found[0].film)


def place(trace: Trace, layout: PlacementLayout, chance: np.random.Generator) -> Stays:
    """Who is where, as the layout wants it."""
    if layout.per_machine == 1:
        return each_its_own(trace.present)
    if layout.churn_days is None:
        return still(trace.present, layout.per_machine, chance)
    return churned(trace.present, layout.per_machine, layout.churn_days * DAY_CELLS, chance)


def _cannot_be_made() -> NoReturn:
    raise AssertionError("the oracle is no model: it knows what comes")
