"""Judges any JSON as a case: bounded in memory and CPU, and failures name the place of the case that was read last."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verdicts import Adaptor, Case, Verdict

MOST_BYTES = 2**30
"""Address space that one case may add to the process."""
MOST_CPU_SECONDS = 20.0
"""CPU time of one case, user mode: what other processes take does not count."""
_PAGE = resource.getpagesize()
_EXACT = 2**53
"""Below it a float is a whole number exactly."""
_LONGEST = 60


class TooLong(Exception):
    """The case took more than MOST_CPU_SECONDS."""


@contextmanager
def bounded() -> Iterator[None]:
    """Raises MemoryError or TooLong inside the block where it takes more. Main thread only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    before = signal.signal(signal.SIGVTALRM, _too_long)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _too_long(*_: object) -> None:
    raise TooLong


def verdict_within_bounds(adaptor: Adaptor, case: Case) -> Verdict:
    """The verdict on any JSON: numbers are equal however they are written, and a field that is left out is null.

    What an adaptor cannot read fails with the place that was read last, for which it is read a second time."""
    case = whole_numbers(case)
    try:
        with bounded():
            return adaptor(case)
    except MemoryError:
        return Verdict("FAIL", f"this case needs more than {MOST_BYTES >> 20} MiB of memory")
    except TooLong:
        return Verdict("FAIL", f"this case takes more than {MOST_CPU_SECONDS:.0f} s of CPU")
    except Exception:  # noqa: BLE001 - whatever a case of another form raises: the others are judged all the same
        trail = _Trail()
    try:
        with bounded():
            return adaptor(_traced(case, (), trail))
    except Exception as error:  # noqa: BLE001 - as the first time, with the place
        what = f"is {trail.value!r:.{_LONGEST}} ({type(error).__name__}: {error})"
    place, why = (trail.missing[0], "is missing") if trail.missing else (trail.place or "case", what)
    return Verdict("FAIL", f"this case cannot be read: {place} {why}")


def whole_numbers(value: Any) -> Any:
    """The same with each float that is a whole number as one: JSON has one kind of number, and 3.0 is 3."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [whole_numbers(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value


class _Trail:
    """The place that was read last, and the fields that were asked for and are not there."""

    def __init__(self) -> None:
        self.place, self.value = "", None
        self.missing: list[str] = []

    def reached(self, path: tuple[Any, ...], value: Any) -> Any:
        self.place, self.value = ".".join(map(str, path)), value
        return value


class _TracedObject(dict[Any, Any]):
    def __init__(self, entries: Mapping[Any, Any], path: tuple[Any, ...], trail: _Trail) -> None:
        super().__init__({key: _traced(value, (*path, key), trail) for key, value in entries.items()})
        self._path, self._trail = path, trail

    def __getitem__(self, key: Any) -> Any:
        return self._trail.reached((*self._path, key), super().__getitem__(key))

    def __missing__(self, key: Any) -> Any:
        self._trail.missing.append(".".join(map(str, (*self._path, key))))
        return None

    def get(self, key: Any, default: Any = None) -> Any:
        return self._trail.reached((*self._path, key), super().get(key, default))


class _TracedList(list[Any]):
    def __init__(self, entries: list[Any], path: tuple[Any, ...], trail: _Trail) -> None:
        super().__init__(_traced(value, (*path, number), trail) for number, value in enumerate(entries))
        self._path, self._trail = path, trail

    def __iter__(self) -> Iterator[Any]:
        for number, value in enumerate(super().__iter__()):
            yield self._trail.reached((*self._path, number), value)


def _traced(value: Any, path: tuple[Any, ...], trail: _Trail) -> Any:
    if isinstance(value, Mapping):
        return _TracedObject(value, path, trail)
    return _TracedList(value, path, trail) if isinstance(value, list) else value
