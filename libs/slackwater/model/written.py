"""Where in a document a wrong value stands, in the names of the person who wrote it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Step = str | int
OF_A_KEY = "[key]"
"""The last step to a name that is wrong itself, not what stands behind it."""


def as_written(steps: Sequence[Step], document: Any, *, is_missing: bool = False) -> tuple[Step, ...]:
    """The steps of a validator that lead to somewhere in the document: where several shapes are allowed, validators
    also name the shape that they tried (`constrained-float`), which nobody has written. `is_missing`: the last step is
    what should be there."""
    found: list[Step] = []
    here = document
    for place, step in enumerate(steps):
        name = _name_in(here, step)
        if name is not None:
            found.append(name)
            here = here[name]
        elif step == OF_A_KEY or (is_missing and place == len(steps) - 1):
            found.append(step)
    return tuple(found)


def _name_in(here: Any, step: Step) -> Step | None:
    """What the step is called there; None if there is no such place."""
    if isinstance(here, Mapping):
        return next((name for name in (step, _snake(step)) if name in here), None)
    if isinstance(here, list | tuple) and isinstance(step, int) and 0 <= step < len(here):
        return step
    return None


def _snake(step: Step) -> Step:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", step).lower() if isinstance(step, str) else step
