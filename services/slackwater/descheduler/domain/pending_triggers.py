"""Events that ask for a cycle, until one has run: bursts come together, and no cycle follows another at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slackwater.descheduling.profile import CycleTrigger, TriggerRules

KEPT_S: Final = 3600.0
"""An event that started no cycle for so long does not start one any more."""


class PendingTriggers:
    """By trigger and node, when the first event came that no cycle has followed."""

    def __init__(self) -> None:
        self._first_s: dict[CycleTrigger, dict[str, float]] = {}

    def add(self, trigger: CycleTrigger, node: str, now_s: float) -> None:
        """Record an event of a node; the empty name stands for all nodes."""
        self._first_s.setdefault(trigger, {}).setdefault(node, now_s)

    def due(
        self,
        rules: TriggerRules,
        reads: Callable[[str], bool],
        *,
        interval_s: float,
        last_cycle_s: float,
        now_s: float,
    ) -> CycleTrigger | None:
        """Returns what starts a cycle now; None: nothing. `reads`: whether a node is one of the profile's. Events of
        before the last cycle count no longer; a clock that was set back starts one."""
        if now_s - last_cycle_s >= interval_s or last_cycle_s > now_s:
            return CycleTrigger.INTERVAL
        if now_s - last_cycle_s < rules.debounce_s:
            return None
        for trigger, nodes in self._first_s.items():
            if rules.follows(trigger) and any(
                last_cycle_s < first_s <= now_s - rules.debounce_s and (not node or reads(node))
                for node, first_s in nodes.items()
            ):
                return trigger
        return None

    def drop_before(self, before_s: float) -> None:
        """Drop the events of before a time: every profile has had a cycle since."""
        for trigger, nodes in list(self._first_s.items()):
            kept = {node: first_s for node, first_s in nodes.items() if first_s >= before_s}
            if kept:
                self._first_s[trigger] = kept
            else:
                del self._first_s[trigger]
