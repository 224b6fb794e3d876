"""Encodes the whole state as checksummed bytes and decodes it, to the last bit.

Names, open slots and progress are JSON, followed by every array as stored in memory, all compressed. `freeze` copies
quickly, so that the state does not change meanwhile; `pack` may be slow. Raises InvalidInput (`snapshot_corrupt`) if
the bytes do not match their checksum or have another version.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.model.records import record
from slackwater.peaks.tables import State, named, part_of
from slackwater.prediction.domain.pod_table import RESOURCES, PodModels
from slackwater.prediction.domain.policy import PoolPolicies
from slackwater.prediction.domain.state import Keeping, LastWindow, MakeModel, Node, PartitionState

VERSION = 4
_READABLE = frozenset({3, VERSION})
"""Version 3 has no rollouts: they are detected from then on."""
_QUICK = 1
"""zlib's level: more effort hardly compresses numbers better."""


@record(frozen=True, slots=True)
class Snapshot:
    """State up to and including `position` in the stream WINDOWS."""

    version: int
    position: int
    checksum: str
    body: bytes


@record(frozen=True, slots=True)
class Frozen:
    """A copy of the state, while the state goes on changing."""

    position: int
    about: dict[str, Any]
    arrays: State


def encode(state: PartitionState, position: int) -> Snapshot:
    """Freezes and packs the present state."""
    return pack(freeze(state, position))


def freeze(state: PartitionState, position: int) -> Frozen:
    """Copies the state. It must not change meanwhile."""
    arrays: State = {}
    pools = {}
    for number, (name, pool) in enumerate(sorted(state.pools.items())):
        about: dict[str, Any] = {"slot_seconds": pool.slot_seconds, "newest_slot": pool.newest_slot}
        for kind, crowd in pool.crowds():
            about[kind] = {"names": crowd.names(), "models": _names_of(crowd)}
            arrays |= named(f"{number}.{kind}.crowd", crowd.state())
            for resource in RESOURCES:
                arrays |= named(f"{number}.{kind}.{resource}", crowd.models[resource].state())
        pools[name] = {**about, "waiting": sorted(pool.waiting)}
    return Frozen(position, {"pools": pools, **_progress(state)}, arrays)


def _names_of(crowd: PodModels) -> dict[str, list[str]]:
    return {resource: [model.name, model.version] for resource, model in crowd.models.items()}


def _progress(state: PartitionState) -> dict[str, Any]:
    nodes = [
        None if node is None else [node.name, node.pool, list(node.taken), list(node.folded) if node.folded else None]
        for node in state.by_number
    ]
    seconds = {"latest_seconds": state.latest_seconds, "collected_seconds": state.collected_seconds}
    return {"nodes": nodes, "free": list(state.free), **seconds}


def pack(frozen: Frozen) -> Snapshot:
    """Packs a copy into checksummed bytes."""
    arrays = {name: np.ascontiguousarray(array) for name, array in frozen.arrays.items()}
    table = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    head = json.dumps({**frozen.about, "arrays": table}).encode()
    packer = zlib.compressobj(_QUICK)
    parts: list[bytes | memoryview] = [len(head).to_bytes(8, "big"), head]
    parts += [array.reshape(-1).view(np.uint8).data for array in arrays.values() if array.size]
    body = b"".join([*(packer.compress(part) for part in parts), packer.flush()])
    return Snapshot(VERSION, frozen.position, hashlib.sha256(body).hexdigest(), body)


def decode(
    snapshot: Snapshot, policies: PoolPolicies, make: MakeModel, keeping: Keeping | None = None
) -> tuple[PartitionState, list[str]]:
    """Returns the decoded state, and the reasons of models that start empty because they cannot restore their
    history.
    """
    if snapshot.position < 0:
        raise _corrupt(f"position is {snapshot.position}, it must be at least 0")
    if snapshot.version not in _READABLE:
        readable = " and ".join(map(str, sorted(_READABLE)))
        raise _corrupt(f"version is {snapshot.version}, this program reads {readable}")
    if hashlib.sha256(snapshot.body).hexdigest() != snapshot.checksum:
        raise _corrupt("checksum does not match")
    try:
        about, arrays = _unpack(snapshot.body)
        return _rebuild(about, arrays, PartitionState(policies, make, keeping), snapshot.version)
    except (zlib.error, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise _corrupt(f"not readable: {error}") from error


def _unpack(body: bytes) -> tuple[dict[str, Any], State]:
    data = zlib.decompress(body)
    at = 8 + int.from_bytes(data[:8], "big")
    about = json.loads(data[8:at])
    arrays: State = {}
    for name, kind, shape in about["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, np.dtype(kind), count, at).reshape(shape)
        at += arrays[name].nbytes
    return about, arrays


def _rebuild(
    about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], state: PartitionState, version: int
) -> tuple[PartitionState, list[str]]:
    anew: list[str] = []
    for number, node in enumerate(about["nodes"]):
        state.by_number.append(None)
        if node is not None:
            name, pool_name, taken, folded = node
            made = Node(number, name, pool_name, LastWindow(*taken), LastWindow(*folded) if folded else None)
            state.nodes[name] = state.by_number[number] = made
    for number, (name, saved) in enumerate(about["pools"].items()):
        pool, mine = state.pool(name), part_of(arrays, str(number))
        pool.slot_seconds, pool.newest_slot = saved["slot_seconds"], saved["newest_slot"]
        pool.waiting = {waiting: state.nodes[waiting] for waiting in saved["waiting"]}
        for kind, crowd in pool.crowds():
            crowd.restore(part_of(mine, f"{kind}.crowd"), saved[kind]["names"], version)
            for resource in RESOURCES:
                why = _refill(crowd, resource, saved[kind]["models"][resource], part_of(mine, f"{kind}.{resource}"))
                if why:
                    crowd.models[resource] = state.new_model(name, resource)
                    anew.append(f"{name}/{kind}/{resource}: {why}")
    state.free = list(about["free"])
    state.latest_seconds, state.collected_seconds = about["latest_seconds"], about["collected_seconds"]
    state.use_slots()
    return state, anew


def _refill(crowd: PodModels, resource: str, kind: list[str], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Restores the model. Returns why it could not; empty if it did."""
    model = crowd.models[resource]
    if kind != [model.name, model.version]:
        return f"the snapshot has {kind[0]} {kind[1]}, the policy has {model.name} {model.version}"
    try:
        model.restore(arrays)
    except InvalidInput as error:
        return error.message
    return ""


def _corrupt(why: str) -> InvalidInput:
    return InvalidInput(f"snapshot: {why}; the previous one is used", code="snapshot_corrupt", field="snapshot")
