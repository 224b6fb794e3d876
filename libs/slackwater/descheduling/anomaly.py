"""When a node has been overloaded for long enough: consecutive counts, so that one peak moves nothing.

Source: koordinator's pkg/descheduler/utils/anomaly. Unlike there, a node between the thresholds ends the count, so that
it is of consecutive rounds.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.model.records import record


@record(frozen=True, slots=True)
class AnomalyCondition:
    """After how many consecutive rounds a state changes. More than `consecutive_*` rounds, as in the field."""

    consecutive_abnormalities: int = 5
    consecutive_normalities: int = 3
    timeout_s: float = 60.0
    """An anomaly ends this long after it began."""

    @property
    def at_once(self) -> bool:
        """Whether the first overloaded round counts."""
        return self.consecutive_abnormalities <= 1


@record(frozen=True, slots=True)
class AnomalyState:
    """Of one node: its counters, and since when it is abnormal."""

    abnormalities: int = 0
    normalities: int = 0
    abnormal_since_s: float | None = None
    marked_s: float = 0.0


def marked(
    state: AnomalyState, *, abnormal: bool, abnormal_at: int, normal_at: int, timeout_s: float, now_s: float
) -> AnomalyState:
    """Returns the state after a round. Abnormal from `abnormal_at` consecutive abnormal rounds on, normal again from
    `normal_at` normal ones or `timeout_s` on; counters start anew with each change."""
    since_s = state.abnormal_since_s
    if since_s is not None and now_s - since_s >= timeout_s:
        state, since_s = AnomalyState(), None
    if abnormal:
        state = replace(state, abnormalities=state.abnormalities + 1, normalities=0, marked_s=now_s)
        if since_s is None and state.abnormalities >= abnormal_at:
            return AnomalyState(abnormal_since_s=now_s, marked_s=now_s)
        return state
    state = replace(state, abnormalities=0, normalities=state.normalities + 1, marked_s=now_s)
    if since_s is not None and state.normalities >= normal_at:
        return AnomalyState(marked_s=now_s)
    return state


def after_round(
    state: AnomalyState | None, condition: AnomalyCondition, *, overloaded: bool, cache_s: float, now_s: float
) -> AnomalyState:
    """Returns the state of a node after a round; one that was not marked for `cache_s` starts anew."""
    fresh = state is None or now_s - state.marked_s > cache_s
    return marked(
        AnomalyState() if fresh or state is None else state,
        abnormal=overloaded,
        abnormal_at=condition.consecutive_abnormalities + 1,
        normal_at=condition.consecutive_normalities + 1,
        timeout_s=condition.timeout_s,
        now_s=now_s,
    )
