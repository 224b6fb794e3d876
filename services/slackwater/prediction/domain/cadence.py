"""Decides when a node's prediction is published: first, periodic report, changed value, or maximum age reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from slackwater.model.records import record
from slackwater.peaks.port import Floats
from slackwater.prediction.domain.policy import Cadence

Cause = Literal["first", "report", "diff", "force"]


@record(frozen=True, slots=True)
class Published:
    """The last published prediction of a node: the end of its window (seconds since 1970), its time, policy and values.

    `edition` counts publications about the same window under the same generation of the same policy, from 0.
    """

    until: int
    at: float
    policy: str
    generation: int
    edition: int
    values: tuple[int, ...]

    def next_edition(self, until: int, policy: str, generation: int) -> int:
        """Returns the edition of the next prediction. Ids derive from it, so only a repeat has the same id."""
        same = (self.until, self.policy, self.generation) == (until, policy, generation)
        return self.edition + 1 if same else 0


def causes(
    last: Sequence[Published | None], folded_until: Sequence[int], values: Floats, now: float, cadence: Cadence
) -> list[Cause | None]:
    """Returns the cause for publishing each node now, or None. `values` (nodes, …) are those that would be published.

    A node with less folded than was published is skipped, because its history is being replayed. A report is due half a
    check early, because checks are not exactly on time and it would otherwise wait for the next one.
    """
    due: list[Cause | None] = []
    differs = _differs(last, values, cadence.resource_diff_threshold)
    for published, until, moved in zip(last, folded_until, differs, strict=True):
        if published is None:
            due.append("first")
            continue
        age, fresh = now - published.at, until > published.until
        if until < published.until:
            due.append(None)
        elif fresh and age >= cadence.reporting_seconds - cadence.check_seconds / 2:
            due.append("report")
        elif moved:
            due.append("diff")
        elif fresh and age >= cadence.force_update_seconds:
            due.append("force")
        else:
            due.append(None)
    return due


def _differs(last: Sequence[Published | None], values: Floats, threshold: float) -> list[bool]:
    """Returns whether any value differs from the last one by more than the threshold, relative to the last."""
    if not len(values):
        return []
    width = values.shape[1]
    differences = [
        published.values if published is not None and len(published.values) == width else None for published in last
    ]
    before = np.array(
        [values_before if values_before is not None else (np.nan,) * width for values_before in differences],
        dtype=np.float64,
    )
    moved = np.abs(values - before) > threshold * np.abs(before)
    return [bool(row) for row in np.any(moved | np.isnan(before), axis=1).tolist()]
