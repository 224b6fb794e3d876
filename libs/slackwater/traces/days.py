"""Parses days of a trace from the command line: days after its start, or dates."""

from __future__ import annotations

from datetime import UTC, datetime

from slackwater.model.errors import InvalidInput
from slackwater.traces.trace import DAY_CELLS, Trace


def cell_at(trace: Trace, text: str, field: str) -> int:
    """The cell of days after the trace's beginning (8, 9.5) or of a date in UTC (2013-08-09). Raises InvalidInput."""
    try:
        cell = round(float(text) * DAY_CELLS)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            wanted = "days after the trace's beginning (8, 9.5) or a date (2013-08-09)"
            raise InvalidInput(f"--{field}: {text!r} is not allowed; wanted are {wanted}", field=field) from None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        cell = trace.cell_at(at.timestamp())
    except OverflowError:
        raise InvalidInput(f"--{field}: {text!r} is not a day", field=field) from None
    if not 0 <= cell <= trace.cells:
        raise InvalidInput(f"--{field}: {text} is outside of the trace, which has {trace.days:.4g} days", field=field)
    return cell
