"""Makes a value fit the bounds of its type, so that what a process publishes is what every reader accepts. Pure.

The bounds are read from the type (`model.bounds`), as both decoders do: there is no second definition. What does not
fit is changed and named, the rest of the value stays:

number, time, resources   the nearest bound
name                      cut, other characters than printable ones replaced, with a digest so that it stays distinct
text                      cut
entry of a mapping        left out, because half a label is another label
list                      its first items
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import Interval, Len
from pydantic import BaseModel, StringConstraints

from slackwater.model.bounds import (
    EARLIEST,
    LATEST,
    MOST_CPU_MILLI,
    MOST_MEMORY_BYTES,
    MOST_NAME,
    OfOneMachine,
    TimeSpan,
    is_line,
)
from slackwater.model.placement_rules import PlacementRules

Fit = Callable[[Any, list[str]], Any]
"""Returns the value, or what fits in its place; appends to the list what was done, as `place: what`."""

_SHOWN: Final = 60
_LABEL: Final = 200
_DIGEST: Final = 16


def fitter(kind: Any, without: Collection[str] = ()) -> Fit | None:
    """Returns a function that fits values of a type; None if nothing in the type is bounded. `without`: fields of the
    type itself that it leaves alone. Callers build it once per type."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _bounded(kind.__origin__, kind.__metadata__)
    if origin in (Union, UnionType):
        return _optional([fitter(part) for part in get_args(kind) if part is not type(None)])
    if origin in (tuple, list):
        return _items(fitter(get_args(kind)[0]), None)
    if origin is dict:
        return _entries(get_args(kind), None)
    if kind is PlacementRules:
        return _rules(_fields(kind, without))
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)):
        return _fields(kind, without)
    return None


def _bounded(kind: Any, metadata: tuple[Any, ...]) -> Fit | None:
    """The fitter of `Annotated[kind, *metadata]`."""
    length = next((mark.max_length for mark in metadata if isinstance(mark, Len)), None)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _items(fitter(arguments[0]), length)
    if origin is dict:
        return _entries(arguments, length)
    for mark in metadata:
        match mark:
            case Interval():
                return _number(mark)
            case StringConstraints() if mark.max_length is not None:
                return _text(mark.max_length)
            case OfOneMachine():
                return _of_one_machine
            case TimeSpan():
                return _moment
    return fitter(kind)


def _number(bounds: Interval) -> Fit:
    least, most = cast(float, bounds.ge), cast(float, bounds.le)

    def fit(value: Any, notes: list[str]) -> Any:
        if least <= value <= most:
            return value
        bound = least if math.isnan(value) or value < least else most
        notes.append(f": {_amount(value)} is capped at {bound}")
        return bound

    return fit


def _text(most: int) -> Fit:
    """Names and keys are lines; longer texts may have several."""
    return _line if most <= MOST_NAME else lambda value, notes: _long_text(value, most, notes)


def _line(value: str, notes: list[str]) -> str:
    if is_line(value):
        return value
    notes.append(f": {_quoted(value)} is shortened: it is no line of at most {MOST_NAME} printable characters")
    digest = hashlib.sha256(value.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{_printable(value[: MOST_NAME - _DIGEST - 1])}~{digest}"


def _long_text(value: str, most: int, notes: list[str]) -> str:
    is_clean = ("\0" not in value and value.isascii()) or not any(map(_is_unreadable, value))
    if len(value) <= most and is_clean:
        return value
    notes.append(f": {_quoted(value)} is shortened to {most} characters of text")
    return "".join("?" if _is_unreadable(character) else character for character in value[:most])


def _is_unreadable(character: str) -> bool:
    """NUL and halves of surrogate pairs, which no reader takes."""
    return character == "\0" or "\ud800" <= character <= "\udfff"


def _of_one_machine(value: Any, notes: list[str]) -> Any:
    cpu = min(max(value.cpu_milli, 0), MOST_CPU_MILLI)
    memory = min(max(value.memory_bytes, 0), MOST_MEMORY_BYTES)
    if cpu != value.cpu_milli:
        notes.append(f".cpu_milli: {_amount(value.cpu_milli)} is capped at {cpu}")
    if memory != value.memory_bytes:
        notes.append(f".memory_bytes: {_amount(value.memory_bytes)} is capped at {memory}")
    is_same = cpu == value.cpu_milli and memory == value.memory_bytes
    return value if is_same else dataclasses.replace(value, cpu_milli=cpu, memory_bytes=memory)


def _moment(value: datetime, notes: list[str]) -> datetime:
    if value.tzinfo is not None and EARLIEST <= value < LATEST:
        return value
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    bound = EARLIEST if aware < EARLIEST else LATEST - timedelta(seconds=1) if aware >= LATEST else aware
    notes.append(f": {value.isoformat()} is taken as {bound.isoformat()}")
    return bound


def _rules(fields: Fit | None) -> Fit | None:
    """A hard rule of placement is read whole or counts as unread, because a part of it allows other nodes."""
    if fields is None:
        return None

    def fit(value: PlacementRules, notes: list[str]) -> PlacementRules:
        before = len(notes)
        fields(value, notes)
        return value if len(notes) == before else value.as_too_large()

    return fit


def _optional(inner: list[Fit | None]) -> Fit | None:
    """The fitter of `X | None`. A union of several types is left alone: only a decision's input has one, which is
    validated when it is made."""
    (fit, *others) = inner
    if fit is None or others:
        return None
    return lambda value, notes: None if value is None else fit(value, notes)


def _items(item: Fit | None, most: int | None) -> Fit | None:
    def fit(values: Any, notes: list[str]) -> Any:
        kept = values
        if most is not None and len(values) > most:
            notes.append(f": {len(values)} items, the first {most} are kept")
            kept = values[:most]
        if item is None:
            return kept
        fitted, before = [], len(notes)
        for place, value in enumerate(kept):
            known = len(notes)
            fitted.append(item(value, notes))
            if len(notes) > known:
                _name(notes, known, f"[{label_of(value) or place}]")
        return kept if len(notes) == before else tuple(fitted)

    return None if item is None and most is None else fit


def _entries(kinds: tuple[Any, ...], most: int | None) -> Fit | None:
    key, value = map(fitter, kinds)

    def fit(entries: Any, notes: list[str]) -> Any:
        kept, before = {}, len(notes)
        for name, held in entries.items():
            known = len(notes)
            if key is not None:
                key(name, notes)
            fitted = held if value is None or len(notes) > known else value(held, notes)
            if len(notes) == known:
                kept[name] = held
            elif isinstance(held, str) or fitted is held:
                del notes[known:]
                notes.append(f"[{_quoted(name)}]: left out: name or value does not fit")
            else:
                kept[name] = fitted
                _name(notes, known, f"[{_quoted(name)}]")
        if most is not None and len(kept) > most:
            notes.append(f": {len(kept)} entries, the first {most} are kept")
            kept = dict(list(kept.items())[:most])
        return entries if len(notes) == before else kept

    return None if key is None and value is None and most is None else fit


def _fields(shape: type, without: Collection[str]) -> Fit | None:
    fits = [(name, fit) for name, kind in _hints(shape) if name not in without and (fit := fitter(kind)) is not None]
    if not fits:
        return None

    def fit_fields(value: Any, notes: list[str]) -> Any:
        changes = None
        for name, fit in fits:
            known = len(notes)
            fitted = fit(getattr(value, name), notes)
            if len(notes) > known:
                _name(notes, known, f".{name}")
                changes = {**(changes or {}), name: fitted}
        if changes is None:
            return value
        if isinstance(value, BaseModel):
            return value.model_copy(update=changes)
        return dataclasses.replace(value, **changes)

    return fit_fields


def _hints(shape: type) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(shape, include_extras=True)
    names: Iterable[str]
    if issubclass(shape, BaseModel):
        names = shape.model_fields
    else:
        names = [field.name for field in dataclasses.fields(cast(Any, shape))]
    return ((name, hints[name]) for name in names)


def _name(notes: list[str], known: int, place: str) -> None:
    """Puts a place before the notes that were added since."""
    notes[known:] = [place + note for note in notes[known:]]


def label_of(value: Any) -> str:
    """Returns how a person names an item: `pod NAMESPACE/NAME`, or its name; empty if it has none."""
    value = getattr(value, "pod", value)
    name, namespace = getattr(value, "name", None), getattr(value, "namespace", None)
    if isinstance(name, str) and isinstance(namespace, str):
        return "pod " + _printable(f"{namespace}/{name}"[:_LABEL])
    uid = getattr(value, "pod_uid", None)
    if isinstance(uid, str):
        return "pod " + _printable(uid[:_LABEL])
    return _printable(name[:_LABEL]) if isinstance(name, str) else ""


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _quoted(text: str) -> str:
    return _printable(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")


def _amount(value: Any) -> str:
    """A number as text; of one with thousands of digits only that it is one, because Python writes none."""
    return str(value) if isinstance(value, float) or abs(value) < 2**128 else "a number of more than 128 bits"
