"""The owner of each partition of each sharded service, from the replicas' reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.loop import LeaseView, ProcessView, ServiceView
from slackwater.model.identifiers import PARTITIONS, SHARDS


@dataclass(frozen=True, slots=True)
class ShardView:
    """One partition of one service. `owner` is the replica that owns it under `epoch`, None without an owner; `since`
    is its last change of owner. `told_at` is the time of the newest report by a live replica, which decides.
    """

    service: str
    partition: int
    first_shard: int
    last_shard: int
    owner: str | None
    epoch: int
    since: datetime | None
    told_at: datetime


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica of a service and its share, for a page; `name` is empty for partitions without an owner."""

    service: str
    name: str
    partitions: tuple[int, ...]
    since: datetime | None


def shard_views(processes: Sequence[ProcessView], now: datetime) -> list[ShardView]:
    """Views by service and partition. A service without a recent report is left out."""
    newest: dict[str, tuple[ProcessView, ServiceView]] = {}
    for process in processes:
        for service in process.services if not process.silent(now) else ():
            known = newest.get(service.name)
            if service.leases and (known is None or known[0].reported_at < process.reported_at):
                newest[service.name] = process, service
    return [
        _view(name, lease, process.reported_at)
        for name, (process, service) in sorted(newest.items())
        for lease in sorted(service.leases, key=lambda lease: lease.partition)
    ]


def replicas_of(shards: Sequence[ShardView]) -> list[ReplicaView]:
    """Replicas by service and name; partitions without an owner come first."""
    shares: dict[tuple[str, str], list[ShardView]] = {}
    for shard in shards:
        shares.setdefault((shard.service, shard.owner or ""), []).append(shard)
    return [
        ReplicaView(
            service,
            name.partition("/")[0],
            tuple(shard.partition for shard in share),
            max((shard.since for shard in share if shard.since is not None), default=None),
        )
        for (service, name), share in sorted(shares.items())
    ]


def _view(service: str, lease: LeaseView, told_at: datetime) -> ShardView:
    width = SHARDS // PARTITIONS
    first = lease.partition * width
    return ShardView(service, lease.partition, first, first + width - 1, lease.owner, lease.epoch, lease.since, told_at)
