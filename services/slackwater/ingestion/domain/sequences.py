"""Classifies the numbered reports of one agent as new, repeated or missing."""

from __future__ import annotations

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
    """A sequence that was already seen, or that belongs to a replaced agent."""


def observe(track: SequenceTrack, boot_epoch: str, sequence: int) -> Fresh | Repeated:
    """Classifies a report and returns the new track.

    A new boot epoch counts from 1, so its missing start is counted. If the node is unknown and its first sequence is
    above REMEMBERED, that sequence is the baseline. A report that fills a known hole is accepted and closes the hole,
    because delivery may reorder.
    """
    if track.boot_epoch is None and sequence > REMEMBERED:
        return Fresh(SequenceTrack(boot_epoch, (), sequence), 0)
    if boot_epoch == track.boot_epoch:
        return _same_agent(track, sequence)
    if boot_epoch in track.previous_epochs:
        return Repeated()
    replaced = () if track.boot_epoch is None else (track.boot_epoch, *track.previous_epochs)[:REMEMBERED_EPOCHS]
    restarted = SequenceTrack(boot_epoch, replaced, sequence, _holes((), 0, sequence))
    return Fresh(restarted, sequence - 1)


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
