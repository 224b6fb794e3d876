"""Numbered reports of one agent: which are new, which are repeats, which are missing."""

from __future__ import annotations

from slackwater.ingestion.domain.reports import SequenceTrack
from slackwater.model.records import record

REMEMBERED = 256
"""So many holes are remembered: reports older than that are repeats in every practical sense."""


@record(frozen=True, slots=True)
class Fresh:
    """A report not seen before: the track after it, and by how much the count of missing reports changes."""

    track: SequenceTrack
    gap_delta: int


@record(frozen=True, slots=True)
class Repeated:
    """A sequence that was seen, or that belongs to an agent that has been replaced."""


def observe(track: SequenceTrack, boot_epoch: str, sequence: int) -> Fresh | Repeated:
    """A new boot epoch is counted from 1, so its missing start shows; only for a node that has reported for long before
    we ever heard of it, the first report sets the baseline.

    A report that fills a remembered hole is accepted and takes the hole back: delivery may reorder.
    """
    if track.boot_epoch is None and sequence > REMEMBERED:
        return Fresh(SequenceTrack(boot_epoch, None, sequence), 0)
    if boot_epoch == track.boot_epoch:
        return _same_agent(track, sequence)
    if boot_epoch == track.previous_epoch:
        return Repeated()
    restarted = SequenceTrack(boot_epoch, track.boot_epoch, sequence, _holes((), 0, sequence))
    return Fresh(restarted, sequence - 1)


def _same_agent(track: SequenceTrack, sequence: int) -> Fresh | Repeated:
    if sequence > track.last:
        missing = _holes(track.missing, track.last, sequence)
        fresh = SequenceTrack(track.boot_epoch, track.previous_epoch, sequence, missing)
        return Fresh(fresh, sequence - track.last - 1)
    if sequence in track.missing:
        rest = tuple(hole for hole in track.missing if hole != sequence)
        return Fresh(SequenceTrack(track.boot_epoch, track.previous_epoch, track.last, rest), -1)
    return Repeated()


def _holes(missing: tuple[int, ...], last: int, sequence: int) -> tuple[int, ...]:
    """The newest REMEMBERED holes after `sequence` has come behind `last`."""
    new = range(max(last + 1, sequence - REMEMBERED), sequence)
    return (*missing, *new)[-REMEMBERED:]
