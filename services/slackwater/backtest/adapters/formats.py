"""The formats that can be read, by the name that the command takes."""

from __future__ import annotations

from pathlib import Path

from slackwater.backtest.domain.choices import Resource, TraceFormat
from slackwater.backtest.domain.trace import Trace
from slackwater.backtest.ports import TraceReader


def read_trace(path: Path, form: TraceFormat, resource: Resource) -> Trace:
    """Raises InvalidInput that names the file and what is wrong with it; Misconfigured without a library."""
    return _reader(form)(path, resource)


def _reader(form: TraceFormat) -> TraceReader:
    from slackwater.backtest.adapters import alibaba2018, bitbrains, google2011, long_csv

    return {
        TraceFormat.BITBRAINS: bitbrains.read,
        TraceFormat.GOOGLE2011: google2011.read,
        TraceFormat.ALIBABA2018: alibaba2018.read,
        TraceFormat.CSV: long_csv.read,
    }[form]
