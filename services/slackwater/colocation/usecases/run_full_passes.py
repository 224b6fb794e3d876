"""Runs full passes in a loop and reports their results to log and metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from slackwater.colocation.ports import Found
from slackwater.colocation.usecases.full_pass import FullPass, Passed
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

MOST_NAMED = 10


class RunFullPasses:
    """One pass, spread over `seconds`; runs in a loop."""

    def __init__(
        self,
        full_pass: FullPass,
        offering: Offering,
        working: Callable[[], Collection[int]],
        seconds: float,
        passed: Callable[[Mapping[Found, int]], None],
    ) -> None:
        self._full_pass = full_pass
        self._offering = offering
        self._working = working
        self._seconds = seconds
        self._report = passed
        self._last = Passed()

    def pause_seconds(self) -> float:
        """Returns the seconds until the next pass: none after a pass that checked nodes, because it took its time."""
        return 0.0 if self._last.took_time else self._seconds

    async def __call__(self) -> None:
        """Runs one pass and reports its results, also after an error. Raises Unavailable, Conflict."""
        passed = self._last = Passed()
        try:
            await self._full_pass.run(self._offering, self._working, self._seconds, passed)
        finally:
            if passed.healed:
                log.warning("offers were healed", nodes=passed.healed[:MOST_NAMED], count=len(passed.healed))
            self._report(passed.counts)
