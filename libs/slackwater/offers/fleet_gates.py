"""Gates of a whole fleet in one pass: `publish_gate.pass_gate` on arrays, with equal results."""

from __future__ import annotations

import numpy as np

from slackwater.offers.fleet import NONE, Flags, GateRows, Ints
from slackwater.offers.strategy import Strategy


def pass_gates(
    gates: GateRows, computed: Ints, *, ceiling: Ints, windows: Ints, degraded: Flags, strategy: Strategy
) -> GateRows:
    """Returns the gates afterwards; `published` holds the values in force.

    `computed` and `ceiling` are (nodes, 4), `windows` and `degraded` (nodes,).
    """
    published, window = gates.published, windows[:, None]
    most = published * strategy.diff_threshold
    drops = (computed < published) & (degraded[:, None] | (published - computed > most))
    at_once = (published == NONE) | (published > ceiling) | drops
    rises = ~at_once & (computed - published > most)
    within = ~at_once & ~rises & (computed != published)
    watched = _watched(gates, computed, window, rises)
    lasted = rises & (watched.rising_windows >= strategy.rise_windows)
    drifted = _drifted(gates, computed, window, within)
    old = within & (window - drifted.drifting_since >= strategy.update_time_threshold_seconds)
    value = np.where(at_once, computed, published)
    value = np.where(lasted, watched.rising_to, np.where(old, drifted.drifting_to, value))
    waits, drifts = rises & ~lasted, within & ~old
    return GateRows(
        published=value,
        rising_windows=np.where(waits, watched.rising_windows, 0),
        rising_to=np.where(waits, watched.rising_to, 0),
        last_window=np.where(waits, watched.last_window, np.where(lasted | old, window, 0)),
        drifting_since=np.where(drifts, drifted.drifting_since, 0),
        drifting_to=np.where(drifts, drifted.drifting_to, 0),
    )


def _watched(gates: GateRows, computed: Ints, window: Ints, rises: Flags) -> GateRows:
    """Updates the watched rise; a window counts once."""
    already = gates.rising_windows > 0
    counted = window <= gates.last_window
    return GateRows(
        published=gates.published,
        rising_windows=gates.rising_windows + ~counted,
        rising_to=np.where(already, np.minimum(gates.rising_to, computed), computed),
        last_window=np.where(counted, gates.last_window, window),
        drifting_since=gates.drifting_since,
        drifting_to=gates.drifting_to,
    )


def _drifted(gates: GateRows, computed: Ints, window: Ints, within: Flags) -> GateRows:
    same_way = (gates.drifting_to < gates.published) == (computed < gates.published)
    goes_on = within & (gates.drifting_since != 0) & same_way
    return GateRows(
        published=gates.published,
        rising_windows=gates.rising_windows,
        rising_to=gates.rising_to,
        last_window=gates.last_window,
        drifting_since=np.where(goes_on, gates.drifting_since, window),
        drifting_to=np.where(goes_on, np.minimum(gates.drifting_to, computed), computed),
    )
