"""When a new value is worth telling.

At once: the first, a drop beyond the threshold, any drop while degraded, and anything that would leave the published
value above what the node can bear. After it lasted: a rise beyond the threshold, and then only as high as it was all
that time. Never: what stays within the threshold, and what has not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slackwater.colocation.domain.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Gate:
    """Of one resource: the value in force (None: none yet) and the rise that is being watched.

    `rising_windows` counts the windows the rise has lasted, `rising_to` is the lowest value in them, `last_window`
    the end (seconds since 1970) of the last one counted.
    """

    published: int | None = None
    rising_windows: int = 0
    rising_to: int = 0
    last_window: int = 0


def pass_gate(
    gate: Gate, computed: int, *, ceiling: int, window: int, degraded: bool, strategy: Strategy
) -> tuple[int, Gate]:
    """The value to be in force and the gate afterwards; the value is new if it differs from `gate.published`."""
    if gate.published is None or gate.published > ceiling or _drops(gate.published, computed, degraded, strategy):
        return computed, Gate(published=computed)
    if not _beyond(computed - gate.published, gate.published, strategy):
        return gate.published, Gate(published=gate.published)
    watched = _watch(gate, computed, window)
    if watched.rising_windows >= strategy.rise_windows:
        return watched.rising_to, Gate(published=watched.rising_to)
    return gate.published, watched


def _drops(published: int, computed: int, degraded: bool, strategy: Strategy) -> bool:
    return computed < published and (degraded or _beyond(published - computed, published, strategy))


def _beyond(difference: int, published: int, strategy: Strategy) -> bool:
    return difference > published * strategy.diff_threshold


def _watch(gate: Gate, computed: int, window: int) -> Gate:
    """A window counts once, however often the offer is computed within it."""
    lowest = min(gate.rising_to, computed) if gate.rising_windows else computed
    if gate.rising_windows and window <= gate.last_window:
        return replace(gate, rising_to=lowest)
    return replace(gate, rising_windows=gate.rising_windows + 1, rising_to=lowest, last_window=window)
