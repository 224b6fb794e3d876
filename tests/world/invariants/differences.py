"""The parts in which two values differ, as short text for a violation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

MOST_PARTS, MOST_CHARACTERS = 3, 120
"""Shown of a difference: its parts, and the characters of each value."""
MISSING = "nothing"


def difference(said: Any, repeated: Any) -> str:
    """Returns `path: said instead of repeated` for the first MOST_PARTS parts that differ; both values are clipped."""
    parts = list(islice(_parts("", said, repeated), MOST_PARTS + 1))
    shown = "; ".join(f"{path}: {one} instead of {other}".removeprefix(": ") for path, one, other in parts[:MOST_PARTS])
    return f"{shown}; …" if len(parts) > MOST_PARTS else shown


def _parts(path: str, one: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    """The path and the two texts of each part that differs."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in {**one, **other}:
            yield from _parts(f"{path}.{name}".lstrip("."), one.get(name, MISSING), other.get(name, MISSING))
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _parts(f"{path}[{number}]", first, second)
    elif one != other:
        yield path, _clipped(one, other), _clipped(other, one)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _clipped(value: Any, beside: Any) -> str:
    """The text of a value from shortly before its first difference on, at most MOST_CHARACTERS."""
    text, other = str(value), str(beside)
    first = next((at for at, pair in enumerate(zip(text, other, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(0, min(first - MOST_CHARACTERS // 4, len(text) - MOST_CHARACTERS))
    end = begin + MOST_CHARACTERS
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
