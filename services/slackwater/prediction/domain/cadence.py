"""When a node's prediction is published: its first, the regular report, a value that moved, or one that got too old."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from slackwater.model.records import record
from slackwater.prediction.domain.models.port import Floats
from slackwater.prediction.domain.policy import Cadence

Cause = Literal["first", "report", "diff", "force"]


@record(frozen=True, slots=True)
class Published:
    """What was last published of a node: up to which end of a window (seconds since 1970), when, under which policy.

    `edition` counts publications about the same window under the same generation of the same policy, from 0.
    """

    until: int
    at: float
    policy: str
    generation: int
    edition: int
    values: tuple[int, ...]

    def next_edition(self, until: int, policy: str, generation: int) -> int:
        """Of a prediction after this one; ids follow from it, so a repeat has the same and no other has."""
        same = (self.until, self.policy, self.generation) == (until, policy, generation)
        return self.edition + 1 if same else 0


def causes(
    last: Sequence[Published | None], folded_until: Sequence[int], values: Floats, now: float, cadence: Cadence
) -> list[Cause | None]:
    """Why each node is to be published now, or None. `values` (nodes, …) as they would be published.

    A node of which less is folded than was published (history is being replayed) is left alone. A report is due half
    a check early: checks are not exactly on time, and it would otherwise wait for the next.
    """
    found: list[Cause | None] = []
    differs = _differs(last, values, cadence.resource_diff_threshold)
    for one, until, moved in zip(last, folded_until, differs, strict=True):
        if one is None:
            found.append("first")
            continue
        age, fresh = now - one.at, until > one.until
        if until < one.until:
            found.append(None)
        elif fresh and age >= cadence.reporting_seconds - cadence.check_seconds / 2:
            found.append("report")
        elif moved:
            found.append("diff")
        elif fresh and age >= cadence.force_update_seconds:
            found.append("force")
        else:
            found.append(None)
    return found


def _differs(last: Sequence[Published | None], values: Floats, threshold: float) -> list[bool]:
    """Whether any value is further from the last than the threshold, relative to the last."""
    if not len(values):
        return []
    width = values.shape[1]
    known = [one.values if one is not None and len(one.values) == width else None for one in last]
    before = np.array([one if one is not None else (np.nan,) * width for one in known], dtype=np.float64)
    moved = np.abs(values - before) > threshold * np.abs(before)
    return [bool(each) for each in np.any(moved | np.isnan(before), axis=1).tolist()]
