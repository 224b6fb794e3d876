"""health.reported: how one process and the services in it fare, by their own word. Telemetry: latest wins."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload


class HealthCheck(BaseModel):
    """One line of /readyz."""

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str = ""


class LeaseHealth(BaseModel):
    """One partition of a sharded service as the database says it: without `owner` nobody works on it. `epoch` grows
    with every claim, `since` is when the lease changed hands last."""

    model_config = ConfigDict(frozen=True)

    partition: int
    owner: str | None
    epoch: int
    since: datetime | None = None


class ServiceHealth(BaseModel):
    """One service. The outbox numbers are None for a service that keeps nothing, or when its store does not answer.

    `outbox_refused` counts facts that the bus will never take: they wait for an operator.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    state: str
    restarts: int = 0
    last_error: str = ""
    checks: tuple[HealthCheck, ...] = ()
    outbox_depth: int | None = None
    outbox_oldest_seconds: float | None = None
    outbox_refused: int | None = None
    member: str | None = None
    """This replica's name among the owners; None for a service that is not sharded, or before its first heartbeat."""
    members: int = 0
    """Living replicas, this one included."""
    leases: tuple[LeaseHealth, ...] = ()
    """All partitions, not only its own: any replica that answers tells of all."""


class ConsumerHealth(BaseModel):
    """What became of the messages of one consumer since the process opened it."""

    model_config = ConfigDict(frozen=True)

    name: str
    delivered: int = 0
    done: int = 0
    retried: int = 0
    rejected: int = 0
    undecodable: int = 0
    exhausted: int = 0
    handler_failures: int = 0


class HealthReported(Payload):
    """`instance` names the process (host and process id); a report older than three intervals says nothing any more."""

    TYPE: ClassVar[str] = "health.reported"
    STREAM: ClassVar[str] = "USAGE"

    instance: str
    version: str
    started_at: datetime
    reported_at: datetime
    interval_seconds: float
    services: tuple[ServiceHealth, ...]
    consumers: tuple[ConsumerHealth, ...] = ()

    def key(self) -> str:
        return self.instance
