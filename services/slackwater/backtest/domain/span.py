"""The evaluated part of a trace: after the warm-up of the models, and ending 24 hours before the trace ends."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.errors import InvalidInput
from slackwater.traces.days import cell_at
from slackwater.traces.trace import DAY_CELLS, Trace

LONG_DAYS, WARM_UP_DAYS, SHORT_WARM_UP_DAYS = 14, 8, 2


@dataclass(frozen=True, slots=True)
class JudgedSpan:
    """The cells `first` <= cell < `stop` are evaluated. Earlier cells are warm-up: models only learn from them."""

    first: int
    stop: int


def judged_span(trace: Trace, since: str | None, until: str | None) -> JudgedSpan:
    """Returns the span between `since` and `until`: days after the start of the trace (8, 9.5) or dates in UTC
    (2013-08-09).

    Default of `since`: 8 days of warm-up for traces of at least two weeks, else 2 days. Raises InvalidInput.
    """
    last = trace.cells - DAY_CELLS
    warm_up = WARM_UP_DAYS if trace.days >= LONG_DAYS else SHORT_WARM_UP_DAYS
    first = cell_at(trace, since, "from") if since is not None else warm_up * DAY_CELLS
    stop = min(last, cell_at(trace, until, "to")) if until is not None else last
    if first >= stop:
        raise InvalidInput(
            f"nothing to evaluate from day {first / DAY_CELLS:g} to day {stop / DAY_CELLS:g} of a trace of "
            f"{trace.days:.4g} days: the last day cannot be evaluated, because the 24 hours after it are unknown; "
            "choose an earlier --from or a later --to",
            field="from",
        )
    return JudgedSpan(first, stop)
