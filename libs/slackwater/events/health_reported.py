"""health.reported: how one process and the services in it fare, by their own word. Telemetry: latest wins."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Moment, Name, Seconds, SecondsDifference, Text


class HealthCheck(BaseModel):
    """One line of /readyz."""

    model_config = ConfigDict(frozen=True)

    name: Name
    ok: bool
    detail: Text = ""


class LeaseHealth(BaseModel):
    """One partition of a sharded service as the database says it: without `owner` nobody works on it. `epoch` grows
    with every claim, `since` is when the lease changed hands last."""

    model_config = ConfigDict(frozen=True)

    partition: Count
    owner: Name | None
    epoch: Count
    since: Moment | None = None


class ServiceHealth(BaseModel):
    """One service. The outbox numbers are None for a service that keeps nothing, or when its store does not answer.

    `outbox_refused` counts facts that the bus will never take: they wait for an operator.
    """

    model_config = ConfigDict(frozen=True)

    name: Name
    state: Name
    restarts: Count = 0
    last_error: Text = ""
    checks: Items[HealthCheck] = ()
    outbox_depth: Count | None = None
    outbox_oldest_seconds: SecondsDifference | None = None
    outbox_refused: Count | None = None
    member: Name | None = None
    """This replica's name among the owners; None for a service that is not sharded, or before its first heartbeat."""
    members: Count = 0
    """Living replicas, this one included."""
    leases: Items[LeaseHealth] = ()
    """All partitions, not only its own: any replica that answers tells of all."""


class ConsumerHealth(BaseModel):
    """What became of the messages of one consumer since the process opened it."""

    model_config = ConfigDict(frozen=True)

    name: Name
    delivered: Count = 0
    done: Count = 0
    retried: Count = 0
    rejected: Count = 0
    undecodable: Count = 0
    exhausted: Count = 0
    handler_failures: Count = 0


class HealthReported(Payload):
    """`instance` names the process (host and process id); a report older than three intervals says nothing any more."""

    TYPE: ClassVar[str] = "health.reported"
    STREAM: ClassVar[str] = "USAGE"

    instance: Name
    version: Name
    started_at: Moment
    reported_at: Moment
    interval_seconds: Seconds
    services: Items[ServiceHealth]
    consumers: Items[ConsumerHealth] = ()

    def key(self) -> str:
        return self.instance
