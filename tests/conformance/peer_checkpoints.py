"""One histogram in the form in which peers keep and exchange theirs.

Each bucket's weight is written in ten-thousandths of the heaviest one, rounded half up; buckets that come to 0 are
left out, and so is what lies below the lowest or above the highest bucket that weighs at least epsilon: of a history
that has decayed below it only the total is left. Loading spreads the total over those parts: percentiles agree up to
that rounding (a bucket's weight by half of one ten-thousandth of the heaviest). What Slackwater restores itself from is
`snapshot`, which loses no bit, so the service has no use for this form: it is here because the vectors feed and ask
histograms in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.peaks.histogram import HistogramMatrix

_PARTS = 10_000
BEGINNING = datetime(1, 1, 1, tzinfo=UTC).timestamp()
"""The reference of a history that has seen no sample yet, as peers write it; ours is 0."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`bucket_weights` by bucket, in parts; `reference_seconds` (since 1970) is None for one that does not decay."""

    total_weight: float
    bucket_weights: Mapping[int, int]
    reference_seconds: float | None = None


def save(histogram: HistogramMatrix, row: int) -> Checkpoint:
    """What a row holds, relative to its reference."""
    weights = _in_range(histogram.weights[row], histogram.epsilon)
    heaviest = float(weights.max(initial=0.0))
    parts = np.floor(weights * (_PARTS / heaviest) + 0.5).astype(np.int64) if heaviest > 0 else np.zeros_like(weights)
    kept = np.flatnonzero(parts)
    return Checkpoint(
        total_weight=float(histogram.totals[row]),
        bucket_weights=dict(zip(kept.tolist(), parts[kept].astype(int).tolist(), strict=True)),
        reference_seconds=float(histogram.reference[row]) if math.isfinite(histogram.half_life_seconds) else None,
    )


def _in_range(weights: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """The weights from the first bucket of at least epsilon to the last one; nothing outside of them."""
    present = np.flatnonzero(weights >= epsilon)
    if not len(present):
        return np.zeros_like(weights)
    places = np.arange(len(weights))
    return np.where((places >= present[0]) & (places <= present[-1]), weights, 0.0)


def load(histogram: HistogramMatrix, row: int, checkpoint: Checkpoint) -> None:
    """Add what a checkpoint holds to a row; an empty row takes over its reference too.

    Raises InvalidInput for a total or a weight that is negative or no number, and for buckets the layout has not.
    """
    _check(checkpoint, histogram.buckets.count)
    loaded = HistogramMatrix(histogram.buckets, histogram.half_life_seconds, histogram.epsilon)
    loaded.ensure_rows(1)
    loaded.ensure_columns(histogram.buckets.count)
    whole = sum(checkpoint.bucket_weights.values())
    for bucket, weight in checkpoint.bucket_weights.items():
        loaded.weights[0, bucket] = weight * checkpoint.total_weight / whole if whole else 0.0
    loaded.totals[0] = checkpoint.total_weight if whole else 0.0
    if checkpoint.reference_seconds is not None:
        loaded.reference[0] = checkpoint.reference_seconds
        if not histogram.totals[row]:
            histogram.reference[row] = checkpoint.reference_seconds
    else:
        loaded.reference[0] = histogram.reference[row]
    histogram.merge(row, loaded, 0)


def to_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """In the peers' names; times in RFC 3339."""
    seconds = checkpoint.reference_seconds
    document: dict[str, Any] = {
        "totalWeight": checkpoint.total_weight,
        "bucketWeights": {str(bucket): weight for bucket, weight in sorted(checkpoint.bucket_weights.items())},
    }
    if seconds is not None:
        document["referenceTimestamp"] = (
            datetime.fromtimestamp(seconds or BEGINNING, UTC).isoformat().replace("+00:00", "Z")
        )
    return document


def from_json(document: Mapping[str, Any] | None) -> Checkpoint:
    """The inverse of `to_json`. Raises InvalidInput, also when there is nothing."""
    if document is None:
        raise InvalidInput("checkpoint: there is none; name a file that has one", field="checkpoint")
    try:
        weights = {int(bucket): _whole(weight) for bucket, weight in (document.get("bucketWeights") or {}).items()}
        stamp = document.get("referenceTimestamp")
        seconds = None if stamp is None else datetime.fromisoformat(stamp).timestamp()
        total = document["totalWeight"]
        if isinstance(total, str | bool):
            raise ValueError(f"{total!r:.40} is not a number")
        return Checkpoint(float(total), weights, seconds)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInput(
            f"checkpoint: not readable ({error!r}); totalWeight, bucketWeights and referenceTimestamp are expected",
            field="checkpoint",
        ) from error


def _whole(weight: Any) -> int:
    """A number of JSON, as the peer's decoder takes it; a text is none."""
    if isinstance(weight, str | bool):
        raise ValueError(f"{weight!r:.40} is not a number")
    return int(weight)


def _check(checkpoint: Checkpoint, buckets: int) -> None:
    total = checkpoint.total_weight
    if not (math.isfinite(total) and total >= 0):
        raise InvalidInput(f"checkpoint: totalWeight is {total}, but must be 0 or more", field="totalWeight")
    for bucket, weight in checkpoint.bucket_weights.items():
        if not 0 <= bucket < buckets:
            raise InvalidInput(
                f"checkpoint: bucket {bucket} is not one of 0 to {buckets - 1}; was it written with other buckets?",
                field="bucketWeights",
            )
        if weight < 0:
            raise InvalidInput(f"checkpoint: bucket {bucket} weighs {weight}, less than nothing", field="bucketWeights")
