"""Since when a quota uses more than its runtime. Source: shared/facts/koordinator-quota-scheduling.md 1.8."""

from __future__ import annotations

from slackwater.model.records import record


@record(frozen=True, slots=True)
class Overuse:
    """The clock of one quota: when it was last within its runtime, or when it last had to give back."""

    within_at: float

    def seen(self, now: float, *, over: bool, delay_seconds: float) -> tuple[Overuse, bool]:
        """Returns the clock after a look, and whether to reclaim now.

        Reclaims after more than `delay_seconds` above the runtime without a break; then the clock begins anew, so that
        what was asked for has time to happen.
        """
        if not over:
            return Overuse(now), False
        due = now - self.within_at > delay_seconds
        return (Overuse(now) if due else self), due
