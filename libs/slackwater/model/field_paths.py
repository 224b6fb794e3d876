"""Translates a validator's path to an invalid value into the keys of the document as written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Step = str | int
OF_A_KEY = "[key]"
"""The last step of a path when the key itself is invalid, not its value."""


def as_written(steps: Sequence[Step], document: Any, *, is_missing: bool = False) -> tuple[Step, ...]:
    """The steps of a validator's path that exist in the document.

    Where several types are allowed, a validator's path also names the type it tried (`constrained-float`); such steps
    are dropped. With `is_missing` the last step is kept, because it names the absent key.
    """
    names: list[Step] = []
    here = document
    for place, step in enumerate(steps):
        name = _name_in(here, step)
        if name is not None:
            names.append(name)
            here = here[name]
        elif step == OF_A_KEY or (is_missing and place == len(steps) - 1):
            names.append(step)
    return tuple(names)


def _name_in(here: Any, step: Step) -> Step | None:
    """The key or index of the step in this value; None if it does not exist."""
    if isinstance(here, Mapping):
        if step in here:
            return step
        name = _snake(step)
        return name if name in here else None
    if isinstance(here, list | tuple) and isinstance(step, int) and 0 <= step < len(here):
        return step
    return None


def _snake(step: Step) -> Step:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", step).lower() if isinstance(step, str) else step
