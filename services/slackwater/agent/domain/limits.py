"""Limits of pods as they were read from the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Limits = Mapping[str, tuple[int | None, int | None]]
"""By pod uid, the limit in force and the one before any throttle; None = unlimited."""
NO_LIMITS: Limits = MappingProxyType({})


def lower(one: int | None, other: int | None) -> int | None:
    """The limit that binds; None = unlimited."""
    return other if one is None else one if other is None else min(one, other)


def at_most(limits: Limits, most: int) -> Limits:
    """The limits, none above `most`: a tenant may set any, and a decision's record takes none above a machine's."""
    return {
        uid: (None if now is None else min(now, most), None if original is None else min(original, most))
        for uid, (now, original) in limits.items()
    }


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """`known` has every pod of the machine. Of those in `unread`, whose file could not be read now, with the reason, it
    holds what was read last."""

    known: Limits
    unread: Mapping[str, str] = field(default_factory=dict)
