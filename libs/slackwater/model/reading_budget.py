"""The budget of everything that crosses a boundary: what a text of JSON may hold, checked on its bytes, before
any model sees them. Pure.

A model costs more than the bytes it reads: pydantic's reader takes 150 to 650 bytes for a small object (1 MB of them,
by the process's memory), and a model of ten fields has ten errors for it. So the structure of a text is bounded by its
length, by searches that are linear in the length and whose memory is a part of it. What a budget lets pass still costs
at most a constant times its length, because lists of models end at their first invalid item (`ends_at_first_error`) and
mappings are short. `make bench ARGS="--only refusals"` measures every reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic_core import CoreSchema

from slackwater.model.bounds import MOST_DEPTH, MOST_DOCUMENT, MOST_ITEMS, MOST_LABELS
from slackwater.model.errors import InvalidInput


class BeyondBudget(InvalidInput):
    """A text or value that is not read because of its size or shape; the message names limit and place."""

    code = "beyond_budget"


@dataclass(frozen=True, slots=True)
class ReadingBudget:
    """What one text may hold.

    size_bytes       its length
    depth            levels of lists and objects
    items, keys      of one list, of one object
    text_bytes       of one text or key, as written
    containers       lists and objects in any text, however short, and one more for each `container_bytes` of it
    values           as many values, and one more for each `value_bytes`
    """

    size_bytes: int = MOST_DOCUMENT
    depth: int = 2 * MOST_DEPTH
    items: int = MOST_ITEMS
    keys: int = MOST_LABELS
    text_bytes: int = MOST_DOCUMENT
    containers: int = 4096
    container_bytes: int = 40
    values: int = MOST_ITEMS
    value_bytes: int = 32

    def most_containers(self, size_bytes: int) -> int:
        """Returns the most lists and objects in a text of so many bytes."""
        return self.containers + size_bytes // self.container_bytes

    def most_values(self, size_bytes: int) -> int:
        """Returns the most values in a text of so many bytes."""
        return self.values + size_bytes // self.value_bytes


EVENT: Final = ReadingBudget()
"""A message: the broker's default limit is 1 MiB, and a report has some 90 bytes for each object of it."""
PACKED: Final = ReadingBudget(keys=MOST_ITEMS, containers=MOST_ITEMS, container_bytes=MOST_DOCUMENT)
"""A packed part of a message: free-form, so it is read as plain values, which cost less than those of a model."""
BODY: Final = ReadingBudget(size_bytes=4 * MOST_DOCUMENT)
"""A request's body: a file of several thousand policies."""

_NO_MARK: Final = bytes(range(256)).translate(None, b"[]{},")
_NO_MARK_OR_QUOTE: Final = _NO_MARK.translate(None, b'"')
_LEAF: Final = re.compile(rb"\[,*+\]|\{,*+\}")
"""The marks of a list or object without others in it."""


def check_bytes(body: bytes, budget: ReadingBudget, name: str = "body", *, is_typed: bool = False) -> None:
    """Raises BeyondBudget unless the JSON in `body` keeps to the budget. What is no JSON may pass: its parser, which is
    linear, refuses it. `is_typed`: the reader has a type for every value, which bounds depth, items and keys.
    """
    size = len(body)
    if size > budget.size_bytes:
        raise BeyondBudget(f"{name}: {size} bytes; allowed are {budget.size_bytes}", field=name)
    most_containers, most_values = budget.most_containers(size), budget.most_values(size)
    marks = body.translate(None, _NO_MARK)
    opened, commas = _counts(marks)
    is_within = opened <= most_containers and commas <= most_values
    is_flat = opened <= budget.depth and commas < min(budget.items, budget.keys) and size <= budget.text_bytes
    if is_within and (is_typed or is_flat):
        return  # whatever of it stands in texts
    marks = _marks_outside_texts(body, budget, name)
    opened, commas = _counts(marks)
    if opened > most_containers:
        raise BeyondBudget(f"{name}: more than {most_containers} lists and objects in {size} bytes", field=name)
    if commas > most_values:
        raise BeyondBudget(f"{name}: more than {most_values} values in {size} bytes", field=name)
    if not is_typed:
        _check_levels(marks, budget, name)


def _counts(marks: bytes) -> tuple[int, int]:
    return marks.count(b"{") + marks.count(b"["), marks.count(b",")


def _marks_outside_texts(body: bytes, budget: ReadingBudget, name: str) -> bytes:
    """Returns the marks that are not part of a text. An escaped quote ends no text; a backslash before it may be one
    itself. Of texts without marks only their quotes are left, side by side: then no text has to be cut out, which takes
    four times as long (8 and 2 ms for 250,000 of them).
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    most = 4 * budget.most_values(len(body))
    if body.count(b'"') > most:  # a key and a text for each value
        raise BeyondBudget(f"{name}: more than {most // 2} texts in {len(body)} bytes", field=name)
    if len(body) <= budget.text_bytes:
        marks = body.translate(None, _NO_MARK_OR_QUOTE).replace(b'""', b"")
        if b'"' not in marks:
            return marks
    parts = body.split(b'"')
    if len(body) > budget.text_bytes and any(len(text) > budget.text_bytes for text in parts[1::2]):
        raise BeyondBudget(f"{name}: a text of more than {budget.text_bytes} bytes", field=name)
    return b"".join(parts[::2]).translate(None, _NO_MARK)


def _check_levels(marks: bytes, budget: ReadingBudget, name: str) -> None:
    """Takes the innermost lists and objects away, level by level; a leaf's commas stand together then."""
    excess = _excess(budget)
    for _ in range(budget.depth):
        if (match := excess.search(marks)) is not None:
            most, noun = (
                (budget.keys, "fields in an object") if match[0][:1] == b"{" else (budget.items, "items in a list")
            )
            raise BeyondBudget(f"{name}: more than {most} {noun}", field=name)
        outer = _LEAF.sub(b"", marks)
        if len(outer) == len(marks):
            break  # nothing is left, or what is no JSON
        marks = outer
    unclosed, _ = _counts(marks)
    if unclosed > budget.depth or _LEAF.search(marks) is not None:
        raise BeyondBudget(f"{name}: more than {budget.depth} levels of lists and objects", field=name)


@cache
def _excess(budget: ReadingBudget) -> re.Pattern[bytes]:
    return re.compile(rb"\{,{%d}|\[,{%d}" % (budget.keys, budget.items))


def ends_at_first_error(schema: CoreSchema) -> CoreSchema:
    """Returns the schema with every list in it ending at its first invalid item, instead of collecting the errors of
    all. Changes it in place, as pydantic lets `__get_pydantic_core_schema__` do."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("type") in ("list", "tuple", "set", "frozenset"):
                part["fail_fast"] = True
            waiting += [value for key, value in part.items() if key != "metadata"]
        elif isinstance(part, list | tuple):
            waiting += part
    return schema
