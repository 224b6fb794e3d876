"""Ports of prediction: the store of snapshots, published predictions and descriptions, the models, and the meter."""

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
class DescribedNode:
    """A node's description: its allocatable resources, and its pool."""

    allocatable: Resources
    pool: str


class PredictionTransaction(Protocol):
    """One transaction: it commits as a whole on leaving its context, or not at all."""

    async def publish(self, event: Event[Any]) -> None:
        """Puts an event into the outbox."""
        ...

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        """Stores the last prediction of each node that is in the outbox with this transaction."""
        ...

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        """Stores the newest snapshot of a partition and drops all but its `keep` newest."""
        ...

    async def describe(self, node: str, described: DescribedNode, described_at: datetime) -> bool:
        """Stores a node's description. Returns False if a newer one is stored."""
        ...

    async def remove(self, node: str, deleted_at: datetime) -> bool:
        """Deletes a node's description. Returns False if it is newer than the deletion."""
        ...


class PredictionStore(Protocol):
    """Methods raise Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[PredictionTransaction]: ...

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        """Returns the stored snapshots of a partition, newest first."""
        ...

    async def published(self) -> Mapping[str, Published]: ...

    async def nodes(self) -> Mapping[str, DescribedNode]:
        """Returns every described node."""
        ...


class PredictorCatalogue(Protocol):
    """The installed models."""

    def check(self, choice: ModelChoice, resource: str) -> None:
        """Raises InvalidInput that names the model and the setting, Misconfigured if the model cannot be loaded."""
        ...

    def takes_rate(self, name: str) -> bool:
        """Returns whether the model accepts a rate of violations. False for an unknown model."""
        ...


@dataclass(frozen=True, slots=True)
class MeasuredRisk:
    """Results of earlier predictions of one resource in one pool; the fields of events.peak_predicted.Calibration."""

    stated_rate: float | None = None
    measured_rate: float | None = None
    machine_days: float = 0.0
    knob: float | None = None
