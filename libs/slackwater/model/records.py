"""Values that are made by the hundred in every decision: immutable by the type checker's word alone.

A frozen dataclass sets each field by a call of `object.__setattr__`: one with four fields takes 1.4 us to make where
one that is not frozen takes 0.4 (a named tuple 0.6, and its JSON is a list); in a plan for a node of 110 pods that was
a quarter of the time. To mypy they are the same, and nothing of ours writes to them.

What nobody else makes, copies with `dataclasses.replace` or reads back from JSON is a `msgspec.Struct` instead, frozen
and without a part in collecting cycles: with five fields it takes 0.07 us to make where such a record takes 0.49.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import dataclass

    def record(*, frozen, slots):
        """As `dataclass(frozen=True, slots=True)`, hashable and compared by value; the writing is not prevented."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["record"]
