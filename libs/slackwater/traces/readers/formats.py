"""The formats that can be read, by the name that the command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.trace import Trace


class TraceReader(Protocol):
    """One format of trace files."""

    def __call__(self, path: Path, resource: TraceResource) -> Trace:
        """Raises InvalidInput that names the file and what is wrong with it; Misconfigured without a library."""
        ...


def read_trace(path: Path, form: TraceFormat, resource: TraceResource) -> Trace:
    """Raises InvalidInput that names the file and what is wrong with it; Misconfigured without a library."""
    return _reader(form)(path, resource)


def _reader(form: TraceFormat) -> TraceReader:
    from slackwater.traces.readers import alibaba2018, bitbrains, google2011, long_csv

    return {
        TraceFormat.BITBRAINS: bitbrains.read,
        TraceFormat.GOOGLE2011: google2011.read,
        TraceFormat.ALIBABA2018: alibaba2018.read,
        TraceFormat.CSV: long_csv.read,
    }[form]
