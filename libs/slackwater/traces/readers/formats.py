"""The registry of trace formats: built-in ones by name, and those of other distributions by entry point.

A format is a module or object with the attributes of `TraceFormatReader`. Another distribution registers one under the
entry point group `slackwater.trace_formats`; its name is the name of the format.
"""

from __future__ import annotations

import difflib
import importlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.plugins import entry_points
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.readers.files import first_line, matching
from slackwater.traces.trace import Trace

GROUP: Final = "slackwater.trace_formats"
_PACKAGE: Final = "slackwater.traces.readers"
_MODULES: Final[Mapping[str, str]] = {
    TraceFormat.BITBRAINS: "bitbrains",
    TraceFormat.PLANETLAB: "planetlab",
    TraceFormat.AZURE: "azure",
    TraceFormat.ALIBABA2018: "alibaba2018",
    TraceFormat.ALIBABA2018_CONTAINERS: "alibaba2018_containers",
    TraceFormat.GOOGLE2011: "google2011",
    TraceFormat.GOOGLE2019: "google2019",
    TraceFormat.CSV: "long_csv",
}


class TraceFormatReader(Protocol):
    """One format of trace files. `FILES` says in one line which files it reads.
    An optional `RESOURCES` names the resources that it has; without it, both."""

    FILES: str

    def recognises(self, path: Path) -> bool:
        """Whether a file or folder is of this format, by names and first lines. Reads little and never raises."""
        ...

    def read(self, path: Path, resource: TraceResource) -> Trace:
        """Raises InvalidInput that names the file, what is expected and what was found; Misconfigured without a
        library."""
        ...


def format_names() -> tuple[str, ...]:
    """The names of all formats, built-in ones first."""
    return (*_MODULES, *sorted({entry.name for entry in entry_points(GROUP)} - set(_MODULES)))


def format_of(name: str) -> TraceFormatReader:
    """The reader of a format. Raises InvalidInput for an unknown name, Misconfigured for one that cannot be loaded."""
    if name in _MODULES:
        return cast(TraceFormatReader, importlib.import_module(f"{_PACKAGE}.{_MODULES[name]}"))
    entry = next((point for point in entry_points(GROUP) if point.name == name), None)
    if entry is None:
        near = difflib.get_close_matches(name, format_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidInput(f"--format: {name!r} is unknown; allowed: {', '.join(format_names())}{hint}", field="format")
    try:
        return cast(TraceFormatReader, entry.load())
    except Exception as error:
        raise Misconfigured(f"--format {name}: {entry.value} cannot be loaded: {error}") from error


def detected(path: Path) -> str:
    """The name of the format of a file or folder. Raises InvalidInput if there is none, or more than one."""
    if not path.exists():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    found = [name for name in format_names() if format_of(name).recognises(path)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"--trace: {path} may be {' or '.join(found)}; choose one with --format", field="format")
    expected = "; ".join(f"{name}: {format_of(name).FILES}" for name in format_names())
    raise InvalidInput(
        f"--trace: {path} is of no known format; found {_contents(path)}; expected {expected}", field="trace"
    )


def _contents(path: Path) -> str:
    files = matching(path, "*")
    if not files:
        return "no file"
    line = first_line(files[0])
    of = "" if path.is_file() else f"{files[0].relative_to(path)} "
    if zipfile.is_zipfile(files[0]):
        return f"{of or 'a '}zip archive: unpack it, and give its folder"
    return f"{of or 'a file '}{f'beginning with {line[:80]!r}' if line else 'without text'}"


def resources_of(name: str) -> Sequence[TraceResource]:
    """The resources that a format has: both, unless it names them in `RESOURCES`."""
    return getattr(format_of(name), "RESOURCES", tuple(TraceResource))


def read_trace(path: Path, form: str | None, resource: TraceResource) -> Trace:
    """Reads a trace; without a format it is detected. Raises InvalidInput, Misconfigured."""
    return format_of(form or detected(path)).read(path, resource)
