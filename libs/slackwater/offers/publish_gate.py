"""Hysteresis: decides when a new value is published.

At once: the first value, a drop beyond the threshold, any drop while degraded, and any change if the published value
exceeds the ceiling. After a delay: a rise beyond the threshold, at its lowest value during the delay; and, much later,
a persistent difference within the threshold (`update_time_threshold_seconds`), so that offers do not drift from their
inputs. Never: noise within the threshold, and unchanged values.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.model.records import record
from slackwater.offers.strategy import Strategy


@record(frozen=True, slots=True)
class PublishGate:
    """The gate of one resource: the value in force (None: none yet) and the change being watched.

    `rising_windows` counts the windows a rise has lasted, `rising_to` is the lowest value in them. `last_window` is the
    end (seconds since 1970) of the last counted window, or of the window in which a delayed value was published: that
    window starts no rise, so that a repeated computation within it gives the same value. `drifting_since` is the end of
    the first window of a small difference that has kept its sign since (0: none), `drifting_to` the lowest value in it.
    """

    published: int | None = None
    rising_windows: int = 0
    rising_to: int = 0
    last_window: int = 0
    drifting_since: int = 0
    drifting_to: int = 0


def pass_gate(
    gate: PublishGate, computed: int, *, ceiling: int, window: int, degraded: bool, strategy: Strategy
) -> tuple[int, PublishGate]:
    """Returns the value in force and the gate afterwards. The value is new if it differs from `gate.published`."""
    published = gate.published
    if published is None or published > ceiling or _drops(published, computed, degraded, strategy):
        return computed, PublishGate(published=computed)
    if not _beyond(computed - published, published, strategy):
        return _drift(gate, published, computed, window, strategy)
    watched = _watch(gate, computed, window)
    if watched.rising_windows >= strategy.rise_windows:
        return watched.rising_to, PublishGate(published=watched.rising_to, last_window=window)
    return published, watched


def _drops(published: int, computed: int, degraded: bool, strategy: Strategy) -> bool:
    return computed < published and (degraded or _beyond(published - computed, published, strategy))


def _beyond(difference: int, published: int, strategy: Strategy) -> bool:
    return difference > published * strategy.diff_threshold


def _watch(gate: PublishGate, computed: int, window: int) -> PublishGate:
    """Updates the watched rise. A window counts once, however often the offer is computed within it."""
    lowest = min(gate.rising_to, computed) if gate.rising_windows else computed
    watched = replace(gate, rising_to=lowest, drifting_since=0, drifting_to=0)
    if window <= gate.last_window:
        return watched
    return replace(watched, rising_windows=gate.rising_windows + 1, last_window=window)


def _drift(
    gate: PublishGate, published: int, computed: int, window: int, strategy: Strategy
) -> tuple[int, PublishGate]:
    """Publishes a drift as the lowest value it had all that time, in either direction."""
    if computed == published:
        return published, PublishGate(published=published)
    goes_on = gate.drifting_since and (gate.drifting_to < published) == (computed < published)
    since, lowest = (gate.drifting_since, min(gate.drifting_to, computed)) if goes_on else (window, computed)
    if window - since >= strategy.update_time_threshold_seconds:
        return lowest, PublishGate(published=lowest, last_window=window)
    return published, PublishGate(published=published, drifting_since=since, drifting_to=lowest)
