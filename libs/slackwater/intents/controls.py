"""Which writer may set which field of an intent document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slackwater.events import intent_declared


class ControlField(StrEnum):
    """The fields of slackwater.events.intent_declared.IntentDeclared by which a writer changes a node."""

    THROTTLES = "throttles"
    EVICTIONS = "evictions"
    WEIGHTS = "weights"
    WATERLINES = "waterlines"
    RULES = "rules"
    MEMORY_THROTTLES = "memory_throttles"
    MEMORY_PROTECTION = "memory_protection"
    STARTS = "starts"


EXCLUSIVE: Final = frozenset({ControlField.WEIGHTS, ControlField.RULES, ControlField.MEMORY_PROTECTION})
"""Controls with one owner. The others merge in the agent: the lowest limit of a pod applies, evictions and starts
are separate items, and the lowest waterline reports first."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A service that declares intents, and the controls that it may set."""

    name: str
    controls: frozenset[ControlField]


_ENSURANCE, _MIGRATION = intent_declared.WRITERS
ENSURANCE: Final = Writer(_ENSURANCE, frozenset(ControlField) - {ControlField.STARTS})
MIGRATION: Final = Writer(_MIGRATION, frozenset({ControlField.EVICTIONS, ControlField.STARTS}))
WRITERS: Final = (ENSURANCE, MIGRATION)
"""Every writer of this version. A new one is added here."""


def shared_exclusive(writers: Iterable[Writer]) -> frozenset[ControlField]:
    """Exclusive controls that more than one of these writers owns. Empty for a valid set of writers."""
    owners = Counter(control for writer in writers for control in writer.controls & EXCLUSIVE)
    return frozenset(control for control, count in owners.items() if count > 1)
