"""Identifiers: time-ordered ids for what happens, stable shards for what is owned."""

from __future__ import annotations

import os
import time
import uuid
import zlib

SHARDS = 64
PARTITIONS = 8
"""Groups of neighbouring shards, the unit of ownership. Durable consumers are named by them: part of the contract."""

ALL_PARTITIONS = frozenset(range(PARTITIONS))


def new_id() -> str:
    """A UUIDv7 (RFC 9562): sorts by creation time, 74 random bits. Only edges and use cases may call this."""
    millis = time.time_ns() // 1_000_000
    value = (millis & 0xFFFFFFFFFFFF) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return str(uuid.UUID(int=value))


def shard_of(key: str) -> int:
    """The shard (0..63) of a node, quota root or workload; the same on every machine and version."""
    return zlib.crc32(key.encode()) % SHARDS


def partition_of(key: str) -> int:
    """The partition (0..7) that holds the shard of a key."""
    return partition_of_shard(shard_of(key))


def partition_of_shard(shard: int) -> int:
    return shard * PARTITIONS // SHARDS


def shards_in(partition: int) -> range:
    """The shards of a partition, in order."""
    size = SHARDS // PARTITIONS
    return range(partition * size, (partition + 1) * size)
