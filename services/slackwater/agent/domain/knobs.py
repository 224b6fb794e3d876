"""A knob: one writable value of the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Knob:
    """`path` is the file (or its like in a simulation), `field` what it sets: `cpu_limit` or `cpu_weight`."""

    path: str
    field: str
