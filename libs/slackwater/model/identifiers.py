"""Identifiers: time-ordered ids for events and records, and stable shards and partitions for keys."""

from __future__ import annotations

import os
import time
import uuid
import zlib

SHARDS = 64
PARTITIONS = 8
"""Groups of adjacent shards, the unit of ownership. Names of durable consumers contain them: part of the contract."""

ALL_PARTITIONS = frozenset(range(PARTITIONS))


def new_id() -> str:
    """A UUIDv7 (RFC 9562): sorts by creation time, 74 random bits. Domain code must not call this function."""
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFFFFFFFFFF) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return str(uuid.UUID(int=value))


def shard_of(key: str) -> int:
    """The shard (0..63) of a node, quota root or workload; identical on every machine and in every version."""
    return zlib.crc32(key.encode()) % SHARDS


def partition_of(key: str) -> int:
    """The partition (0..7) that contains the shard of a key."""
    return partition_of_shard(shard_of(key))


def partition_of_shard(shard: int) -> int:
    return shard * PARTITIONS // SHARDS


def shards_in(partition: int) -> range:
    """The shards of a partition, ascending."""
    size = SHARDS // PARTITIONS
    return range(partition * size, (partition + 1) * size)
