"""Classifies the numbered reports of one agent as new, repeated or missing."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto

from slackwater.ingestion.domain.reports import SequenceTrack
from slackwater.model.records import record

REMEMBERED = 256
"""Number of holes that are kept. A report older than these is treated as a repeat."""
REMEMBERED_EPOCHS = 16
"""Number of replaced agents that are kept: a report whose acknowledgement was lost may come again after an agent has
restarted several times.
"""


@record(frozen=True, slots=True)
class Fresh:
    """A report not seen before: the track after it, and the change of the missing count."""

    track: SequenceTrack
    gap_delta: int


@record(frozen=True, slots=True)
class Repeated:
    """A sequence that was already seen, or that belongs to a replaced agent or an earlier boot."""


class BootOrder(Enum):
    """How a report of another boot than the running agent's stands to it.

    LATER     measured after all reports of the running agent
    EARLIER   not so, while the node is fresh: a boot before the running agent, whose report comes late
    UNCLEAR   not so, but the node is silent: an agent whose clock was set back may have taken over
    RETURNED  measured after all reports while the node is silent: also an agent that was taken for replaced
    """

    LATER = auto()
    EARLIER = auto()
    UNCLEAR = auto()
    RETURNED = auto()


def order_of(measured_at: datetime, newest_at: datetime | None, *, is_fresh: bool) -> BootOrder:
    """Returns the order of a report of another boot. `newest_at` is the newest measurement of the node that was
    accepted, `is_fresh` whether the running agent still reports. Agents state no order of their boots, and their clocks
    may be set back between two: silence of the running agent decides then.
    """
    if newest_at is None:
        return BootOrder.LATER
    if measured_at > newest_at:
        return BootOrder.LATER if is_fresh else BootOrder.RETURNED
    return BootOrder.EARLIER if is_fresh else BootOrder.UNCLEAR


def observe(
    track: SequenceTrack, boot_epoch: str, sequence: int, order: BootOrder = BootOrder.LATER
) -> Fresh | Repeated:
    """Classifies a report and returns the new track. `order` counts for another boot than the running agent's.

    A new boot epoch counts from 1, so its missing start is counted. If the node is unknown and its first sequence is
    above REMEMBERED, that sequence is the baseline. A report that fills a known hole is accepted and closes the hole,
    because delivery may reorder. An agent that was taken for replaced and returns goes on from the sequence that it
    brings: what it sent meanwhile was refused.
    """
    if track.boot_epoch is None and sequence > REMEMBERED:
        return Fresh(SequenceTrack(boot_epoch, (), sequence), 0)
    if boot_epoch == track.boot_epoch:
        return _same_agent(track, sequence)
    is_known = boot_epoch in track.previous_epochs
    if order is BootOrder.EARLIER or (is_known and order is not BootOrder.RETURNED):
        return Repeated()
    others = (epoch for epoch in track.previous_epochs if epoch != boot_epoch)
    replaced = () if track.boot_epoch is None else (track.boot_epoch, *others)[:REMEMBERED_EPOCHS]
    if is_known:
        return Fresh(SequenceTrack(boot_epoch, replaced, sequence), 0)
    return Fresh(SequenceTrack(boot_epoch, replaced, sequence, _holes((), 0, sequence)), sequence - 1)


def _same_agent(track: SequenceTrack, sequence: int) -> Fresh | Repeated:
    if sequence > track.last:
        missing = _holes(track.missing, track.last, sequence)
        fresh = SequenceTrack(track.boot_epoch, track.previous_epochs, sequence, missing)
        return Fresh(fresh, sequence - track.last - 1)
    if sequence in track.missing:
        rest = tuple(hole for hole in track.missing if hole != sequence)
        return Fresh(SequenceTrack(track.boot_epoch, track.previous_epochs, track.last, rest), -1)
    return Repeated()


def _holes(missing: tuple[int, ...], last: int, sequence: int) -> tuple[int, ...]:
    """Returns the newest REMEMBERED holes once `sequence` has followed `last`."""
    new = range(max(last + 1, sequence - REMEMBERED), sequence)
    return (*missing, *new)[-REMEMBERED:]
