"""What prediction needs from a store: a place for snapshots, for what was published, and for what nodes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.policy import ModelChoice
from slackwater.prediction.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a node apart from its windows: what is allocatable, and its pool."""

    allocatable: Resources
    pool: str


class PredictionTransaction(Protocol):
    """One transaction: all of it happens on leaving its context, or nothing."""

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox."""
        ...

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        """What of each node is in the outbox with this transaction, or was before."""
        ...

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        """Store the newest snapshot of a partition and drop all but its `keep` newest."""
        ...

    async def describe(self, node: str, described: Described, described_at: datetime) -> bool:
        """Remember what a node is; False if a younger description is known."""
        ...


class PredictionStore(Protocol):
    """Raises Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[PredictionTransaction]: ...

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        """All that are kept of a partition, newest first."""
        ...

    async def published(self) -> Mapping[str, Published]: ...

    async def nodes(self) -> Mapping[str, Described]:
        """Every node that was described."""
        ...


class Predictors(Protocol):
    """The models that there are."""

    def check(self, choice: ModelChoice, resource: str) -> None:
        """Raises InvalidInput that names the model and the setting, Misconfigured if the model cannot be loaded."""
        ...

    def takes_rate(self, name: str) -> bool:
        """Whether the model can be told an accepted rate of violations. False for one that there is not."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of earlier predictions of one resource in one pool; the fields of events.peak_predicted.Calibration."""

    stated_rate: float | None = None
    measured_rate: float | None = None
    machine_days: float = 0.0
    knob: float | None = None


class PredictionMeter(Protocol):
    """What operators watch of the predictions themselves; adapters.metrics.CalibrationMetrics is it.

    `measured` once per report and partition for every pool and resource, from the ledger; what partitions say of a pool
    is added up here. `published` with every batch that was committed. `cold` beside `measured`. `dropped` when a
    partition is given away or lost, so that it is not counted twice in the fleet.
    """

    def measured(self, partition: int, pool: str, resource: str, measured: Measured) -> None: ...

    def published(self, cause: str, predictions: int, newest: datetime) -> None:
        """`cause` is that of the event: first, report, diff or force; `newest` its predicted_at."""
        ...

    def cold(self, partition: int, pool: str, nodes: int, share: float) -> None:
        """The mean cold-start share (0..1) over the pool's nodes in this partition."""
        ...

    def dropped(self, partition: int) -> None: ...
