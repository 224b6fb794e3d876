"""The validated options of a simulation or an assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.api_answers import ApiReader
from slackwater.simulation.adapters.prometheus_queries import matchers_of
from slackwater.simulation.adapters.trace_history import USUAL_MODEL
from slackwater.simulation.adapters.trace_scenes import BatchLayout
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.domain.risk import USUAL_ACCEPTED
from slackwater.simulation.domain.worth import Prices
from slackwater.simulation.usecases.replay_quotas import QuotaTerms
from slackwater.traces.options import TraceResource

if TYPE_CHECKING:
    import httpx2

MODELS = (USUAL_MODEL, f"{USUAL_MODEL}:knob=0.20", *(f"{USUAL_MODEL}:violation_rate={rate}" for rate in (0.01, 0.05)))


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """A trace with its layout and the evaluated range."""

    path: Path
    form: str | None
    resources: Sequence[TraceResource] = tuple(TraceResource)
    per_node: int | None = None
    churn_days: float | None = None
    seed: int = 1
    """See adapters.trace_history.TraceLayout."""
    model: str = USUAL_MODEL
    since: str | None = None
    until: str | None = None
    """Start and end as days after the start of the trace, or dates. Earlier data is warm-up."""


@dataclass(frozen=True, slots=True)
class AssessmentOptions:
    """The tested settings of an assessment, and the accepted risk as a share of node minutes."""

    models: Sequence[str] = MODELS
    percents: Sequence[int] = ()
    """Empty: usecases.assess.PERCENTS, and the highest that may be recommended."""
    accepted: float = USUAL_ACCEPTED
    prices: Prices = field(default_factory=Prices)
    pool: str | None = None
    """The node pool that the recommended documents are for; None: the whole cluster."""
    gib_per_core: float | None = None
    """Memory that a job takes with each core; None: as the history's requests."""

    def __post_init__(self) -> None:
        if self.gib_per_core is not None and not 0 < self.gib_per_core < 1e6:
            raise InvalidInput(f"--gib-per-core: {self.gib_per_core:g} is not allowed; above 0", field="gib-per-core")
        if not 0 <= self.accepted < 1:
            raise InvalidInput(f"--accept: {self.accepted} is not a share; 0 to below 1", field="accept")
        for percent in self.percents:
            if not 0 <= percent <= 1000:
                raise InvalidInput(f"--percent: {percent} is not allowed; 0 to 1000", field="percent")


@dataclass(frozen=True, slots=True)
class PrometheusOrder:
    """A Prometheus and the range to read. `client` holds the credentials. Series that match `selector` are read."""

    client: httpx2.Client
    since_seconds: int
    step_seconds: int
    retries: int = 3
    selector: str = ""

    def __post_init__(self) -> None:
        matchers_of(self.selector)
        if self.step_seconds < 15 or self.step_seconds > 3600:
            raise InvalidInput(f"--step: {self.step_seconds} s is not allowed; 15 s to 1 h", field="step")
        if self.since_seconds < 2 * self.step_seconds:
            raise InvalidInput(f"--since: {self.since_seconds} s is not allowed; at least two steps", field="since")
        if self.retries < 0:
            raise InvalidInput(f"--retries: {self.retries} is not allowed; at least 0", field="retries")


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """The recorded history of an installation. `step_seconds` None: every window."""

    reads: ApiReader
    since_seconds: int
    step_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """The conditions of a policy replay. `batch` applies to traces (see adapters.trace_scenes)."""

    terms: GuardTerms = field(default_factory=GuardTerms)
    batch: BatchLayout = field(default_factory=BatchLayout)


def prices_of(core_hour: float | None, gib_hour: float | None, node_month: float | None) -> Prices:
    """Raises InvalidInput for a price that is no amount, or prices that exclude each other."""
    return Prices(core_hour, gib_hour, node_month)


def quota_terms(capacity: float | None, period_s: float | None) -> QuotaTerms:
    """Returns the terms of a replay of quotas; None: the usual ones."""
    usual = QuotaTerms()
    return QuotaTerms(
        usual.capacity if capacity is None else capacity, usual.period_s if period_s is None else float(period_s)
    )
