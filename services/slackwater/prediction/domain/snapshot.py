"""The whole state as checksummed bytes and back, to the last bit.

A compressed .npz: the buckets that hold something (a series fills few of its hundreds), the row table, free rows and
progress as JSON inside it. Taking it is quick, so that nothing changes meanwhile; packing it may take its time.
Raises InvalidInput (`snapshot_corrupt`) when the bytes do not match their checksum or do not fit this version.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.histogram import HistogramMatrix, RowAllocator, SeriesKey
from slackwater.prediction.domain.series import ModelSettings, PredictionState

VERSION = 2
_QUICK = 1
"""zlib's level: numbers compress little better with more effort."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State up to and with `position` in the stream WINDOWS."""

    version: int
    position: int
    checksum: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Frozen:
    """A copy of the state, which goes on changing."""

    position: int
    about: dict[str, Any]
    arrays: dict[str, Any]


def encode(state: PredictionState, position: int) -> Snapshot:
    """Freeze the state as it is now, and pack it."""
    return pack(freeze(state, position))


def freeze(state: PredictionState, position: int) -> Frozen:
    """Copy what is needed; the state must not change meanwhile."""
    used = len(state.rows.keys)
    about = {
        "keys": list(state.rows.keys),
        "free": list(state.rows.free),
        "folded_until": dict(state.folded_until),
        "latest_seconds": state.latest_seconds,
        "collected_seconds": state.collected_seconds,
        "half_lives": [state.cpu.half_life_seconds, state.memory.half_life_seconds],
    }
    arrays = {
        "windows": state.windows[:used].copy(),
        "last_sample": state.last_sample[:used].copy(),
        **_arrays("cpu", state.cpu, used),
        **_arrays("memory", state.memory, used),
    }
    return Frozen(position, about, arrays)


def pack(frozen: Frozen) -> Snapshot:
    """As checksummed bytes."""
    about = np.frombuffer(json.dumps(frozen.about).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, about=about, **frozen.arrays)
    body = zlib.compress(buffer.getvalue(), _QUICK)
    return Snapshot(VERSION, frozen.position, hashlib.sha256(body).hexdigest(), body)


def decode(snapshot: Snapshot, settings: ModelSettings) -> PredictionState:
    """The state that was frozen. Another half-life than the settings' is refused: its weights mean something else."""
    if snapshot.version != VERSION:
        raise _corrupt(f"version is {snapshot.version}, this program reads {VERSION}")
    if hashlib.sha256(snapshot.body).hexdigest() != snapshot.checksum:
        raise _corrupt("checksum does not match")
    try:
        with np.load(io.BytesIO(zlib.decompress(snapshot.body)), allow_pickle=False) as arrays:
            return _rebuild({name: arrays[name] for name in arrays.files}, settings)
    except (zlib.error, zipfile.BadZipFile, KeyError, IndexError, ValueError, OSError, EOFError) as error:
        raise _corrupt(f"not readable: {error}") from error


def _rebuild(arrays: dict[str, Any], settings: ModelSettings) -> PredictionState:
    about = json.loads(arrays["about"].tobytes())
    state = PredictionState(settings)
    expected = [settings.cpu_half_life_seconds, settings.memory_half_life_seconds]
    if about["half_lives"] != expected:
        raise _corrupt(f"half-lives are {about['half_lives']} s, the settings say {expected} s")
    keys = [None if key is None else SeriesKey(*key) for key in about["keys"]]
    state.rows = RowAllocator(keys, about["free"])
    state.ensure_rows(len(keys))
    state.windows[: len(keys)] = arrays["windows"]
    state.last_sample[: len(keys)] = arrays["last_sample"]
    _fill("cpu", state.cpu, arrays, len(keys))
    _fill("memory", state.memory, arrays, len(keys))
    state.folded_until = about["folded_until"]
    state.latest_seconds = about["latest_seconds"]
    state.collected_seconds = about["collected_seconds"]
    return state


def _arrays(name: str, matrix: HistogramMatrix, used: int) -> dict[str, Any]:
    rows, buckets = np.nonzero(matrix.weights[:used])
    return {
        f"{name}_rows": rows.astype(np.int32),
        f"{name}_buckets": buckets.astype(np.int16),
        f"{name}_weights": matrix.weights[rows, buckets],
        f"{name}_totals": matrix.totals[:used].copy(),
        f"{name}_reference": matrix.reference[:used].copy(),
    }


def _fill(name: str, matrix: HistogramMatrix, arrays: dict[str, Any], used: int) -> None:
    matrix.weights[arrays[f"{name}_rows"], arrays[f"{name}_buckets"]] = arrays[f"{name}_weights"]
    matrix.totals[:used] = arrays[f"{name}_totals"]
    matrix.reference[:used] = arrays[f"{name}_reference"]


def _corrupt(why: str) -> InvalidInput:
    return InvalidInput(f"snapshot: {why}; the previous one is used", code="snapshot_corrupt", field="snapshot")
