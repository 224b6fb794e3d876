"""No ping-pong: a workload that was moved rests, and one that is moved again and again is stopped.

A workload with several replicas may move each of them: the loop detector counts moves per replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from slackwater.model.records import record

Moves = Mapping[str, Sequence[float]]
"""By workload: when its pods were moved, in seconds since the epoch."""


class StayReason(StrEnum):
    """Why a workload is left where it is."""

    RESTING = "resting"
    LOOPING = "looping"
    """Moved too often; an operator is alerted."""


@record(frozen=True, slots=True)
class RestRules:
    """How long a moved workload rests, and how many moves within a window are a loop."""

    rest_s: float = 1800.0
    loop_moves: int = 3
    loop_window_s: float = 86_400.0


def stay_reason(
    moves: Moves, workload: str, now_s: float, rules: RestRules, *, replicas: int = 1, moving: int = 0
) -> StayReason | None:
    """Returns why the workload is not moved now; None where it may be. `moving`: its moves of this moment."""
    times = [at_s for at_s in moves.get(workload, ()) if now_s - at_s < rules.loop_window_s] + [now_s] * moving
    if len(times) >= rules.loop_moves * max(replicas, 1):
        return StayReason.LOOPING
    resting = [at_s for at_s in times if now_s - at_s < rules.rest_s]
    return StayReason.RESTING if len(resting) >= max(replicas, 1) else None


def with_moves(moves: Moves, moved: Mapping[str, int], now_s: float, rules: RestRules) -> dict[str, Sequence[float]]:
    """Returns the moves with those of now by workload, without those before the window. The empty name is left out:
    of a pod without workload the next one is not known to be the same."""
    following: dict[str, Sequence[float]] = {}
    for name, times in moves.items():
        recent = [at_s for at_s in times if now_s - at_s < rules.loop_window_s]
        if recent:
            following[name] = recent
    for name, count in moved.items():
        if name:
            following[name] = [*following.get(name, ()), *[now_s] * count]
    return following
