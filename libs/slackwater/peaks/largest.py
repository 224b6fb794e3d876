"""max: the largest peak of several models for each machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.port import ByClass, Floats, KeptModel, Members, Peaks, ReportsProblems, RolloutAware, Rows
from slackwater.peaks.tables import State, named, part_of


class Largest:
    """The terms are those of the model with the largest peak (the first of equals), prefixed with its name."""

    name = "max"
    version = "1"

    def __init__(self, models: Sequence[KeptModel]) -> None:
        self.models = tuple(models)

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        for model in self.models:
            model.fold(at_seconds, members, usage)

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        answers = [model.peaks(at_seconds, members) for model in self.models]
        largest = np.argmax([answer.peak for answer in answers], axis=0)
        terms: dict[str, Floats] = {}
        for number, (model, answer) in enumerate(zip(self.models, answers, strict=True)):
            for name, values in answer.terms.items():
                terms[f"{number}.{model.name}.{name}"] = np.where(largest == number, values, 0.0)
        return Peaks(
            np.max([answer.peak for answer in answers], axis=0),
            terms,
            np.max([answer.cold_share for answer in answers], axis=0),
        )

    @property
    def problem(self) -> str:
        return "; ".join(
            f"{model.name}: {model.problem}"
            for model in self.models
            if isinstance(model, ReportsProblems) and model.problem
        )

    @property
    def by_class(self) -> bool:
        return any(isinstance(model, ByClass) and model.by_class for model in self.models)

    def prior(self, kind: int) -> tuple[float, int]:
        """Returns the largest prior of the models, with the smallest number of workloads."""
        priors = [model.prior(kind) for model in self.models if isinstance(model, ByClass) and model.by_class]
        return max((share for share, _ in priors), default=1.0), min((workloads for _, workloads in priors), default=0)

    def announce(self, at_seconds: float, workloads: Rows) -> None:
        for model in self.models:
            if isinstance(model, RolloutAware):
                model.announce(at_seconds, workloads)

    def changing(self, at_seconds: float, workloads: Rows) -> NDArray[np.bool_]:
        flags = np.zeros(len(workloads), dtype=bool)
        for model in self.models:
            if isinstance(model, RolloutAware):
                flags |= model.changing(at_seconds, workloads)
        return flags

    def state(self) -> State:
        parts = (named(str(number), model.state()) for number, model in enumerate(self.models))
        return {name: array for part in parts for name, array in part.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        for number, model in enumerate(self.models):
            model.restore(part_of(state, str(number)))

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        for model in self.models:
            model.forget(machines, series, workloads)
