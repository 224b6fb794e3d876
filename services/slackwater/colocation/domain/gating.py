"""When a new value is worth telling.

At once: the first, a drop beyond the threshold, any drop while degraded, and anything that would leave the published
value above what the node can bear. After it lasted: a rise beyond the threshold, and then only as high as it was all
that time; and, much later, a difference within the threshold that never went away (`update_time_threshold_seconds`), so
that offers do not drift from what justifies them. Never: noise within the threshold, and what has not changed.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.colocation.domain.strategy import Strategy
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Gate:
    """Of one resource: the value in force (None: none yet) and the change that is being watched.

    `rising_windows` counts the windows a rise has lasted, `rising_to` is the lowest value in them, `last_window` the
    end (seconds since 1970) of the last one counted, or of the one in which a value that had lasted was told: it begins
    no rise, so that whoever asks again within it is told the same. `drifting_since` is the end of the first window of a
    small difference that has kept its sign since (0: none), `drifting_to` the lowest value in it.
    """

    published: int | None = None
    rising_windows: int = 0
    rising_to: int = 0
    last_window: int = 0
    drifting_since: int = 0
    drifting_to: int = 0


def pass_gate(
    gate: Gate, computed: int, *, ceiling: int, window: int, degraded: bool, strategy: Strategy
) -> tuple[int, Gate]:
    """The value to be in force and the gate afterwards; the value is new if it differs from `gate.published`."""
    published = gate.published
    if published is None or published > ceiling or _drops(published, computed, degraded, strategy):
        return computed, Gate(published=computed)
    if not _beyond(computed - published, published, strategy):
        return _drift(gate, published, computed, window, strategy)
    watched = _watch(gate, computed, window)
    if watched.rising_windows >= strategy.rise_windows:
        return watched.rising_to, Gate(published=watched.rising_to, last_window=window)
    return published, watched


def _drops(published: int, computed: int, degraded: bool, strategy: Strategy) -> bool:
    return computed < published and (degraded or _beyond(published - computed, published, strategy))


def _beyond(difference: int, published: int, strategy: Strategy) -> bool:
    return difference > published * strategy.diff_threshold


def _watch(gate: Gate, computed: int, window: int) -> Gate:
    """A window counts once, however often the offer is computed within it."""
    lowest = min(gate.rising_to, computed) if gate.rising_windows else computed
    watched = replace(gate, rising_to=lowest, drifting_since=0, drifting_to=0)
    if window <= gate.last_window:
        return watched
    return replace(watched, rising_windows=gate.rising_windows + 1, last_window=window)


def _drift(gate: Gate, published: int, computed: int, window: int, strategy: Strategy) -> tuple[int, Gate]:
    """Told as the lowest value it had all that time, in either direction."""
    if computed == published:
        return published, Gate(published=published)
    goes_on = gate.drifting_since and (gate.drifting_to < published) == (computed < published)
    since, lowest = (gate.drifting_since, min(gate.drifting_to, computed)) if goes_on else (window, computed)
    if window - since >= strategy.update_time_threshold_seconds:
        return lowest, Gate(published=lowest, last_window=window)
    return published, Gate(published=published, drifting_since=since, drifting_to=lowest)
