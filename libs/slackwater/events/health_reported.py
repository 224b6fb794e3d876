"""health.reported: the health of one process and its services, as they report it. Telemetry: latest wins."""

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
    """The lease on one partition of a sharded service, as stored; without `owner` the partition is not processed.
    `epoch` rises with every claim, `since` is the time of the last change of owner."""

    model_config = ConfigDict(frozen=True)

    partition: Count
    owner: Name | None
    epoch: Count
    since: Moment | None = None


class ServiceHealth(BaseModel):
    """The health of one service. The outbox fields are None for a service without a store, or if it does not answer.

    `outbox_refused` is the number of events that the bus permanently rejects; an operator must resolve them.
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
    """The name of this replica; None for a service that is not sharded, or before the first heartbeat."""
    members: Count = 0
    """Number of live replicas, including this one."""
    leases: Items[LeaseHealth] = ()
    """The leases of all partitions, not only those of this replica."""


class LimitedHealth(BaseModel):
    """How far something that can be used up is used: bytes, or the number of sessions or descriptors. A stream or store
    (`kind`) is the broker's and reported by every process; a disk, pool or descriptors are the process's own."""

    model_config = ConfigDict(frozen=True)

    kind: Name
    name: Name
    used: Count
    limit: Count


class ConsumerHealth(BaseModel):
    """Counts of one consumer's messages by outcome, since the process opened the consumer."""

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
    """The health of a process. `instance` names it (host and process id). A report expires after three intervals."""

    TYPE: ClassVar[str] = "health.reported"
    STREAM: ClassVar[str] = "USAGE"

    instance: Name
    version: Name
    started_at: Moment
    reported_at: Moment
    interval_seconds: Seconds
    services: Items[ServiceHealth]
    consumers: Items[ConsumerHealth] = ()
    limited: Items[LimitedHealth] = ()

    def key(self) -> str:
        return self.instance
