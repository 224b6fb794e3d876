"""Compares recorded operations with the facts that were found. Pure; unit tests verify it with planted errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tests.faults.ledger import Key, Outcome


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts over all kinds. `unknown` counts operations without an answer, each of which was then looked up and found
    or not. `examples` names a few errors, for display."""

    offered: int = 0
    acked: int = 0
    lost: int = 0
    duplicates: int = 0
    phantom: int = 0
    unknown: int = 0
    gaps: int = 0
    gaps_unaccounted: int = 0
    examples: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name != "examples"
        }
        return Findings(**sums, examples=(self.examples + other.examples)[:12])

    @property
    def clean(self) -> bool:
        """Whether nothing is lost, duplicated, invented or uncounted."""
        return not (self.lost or self.duplicates or self.phantom or self.gaps_unaccounted)


def compare(meant: Mapping[Key, Outcome], found: Iterable[Key], *, may_vanish: bool = False) -> Findings:
    """Each acked operation must be found exactly once, and each found fact must have been intended.

    `found` has one item per effect, so that duplicate effects are visible. `may_vanish`: telemetry, whose loss is
    allowed and counted elsewhere (see gaps). A refused or dropped fact that is found is a phantom.
    """
    effects = Counter(found)
    acked = [key for key, outcome in meant.items() if outcome is Outcome.ACKED]
    lost = [] if may_vanish else [key for key in acked if not effects[key]]
    never = {Outcome.REFUSED, Outcome.DROPPED}
    phantom = [key for key in effects if key not in meant or meant[key] in never]
    doubled = [key for key, count in effects.items() if count > 1]
    return Findings(
        offered=len(meant),
        acked=len(acked),
        lost=len(lost),
        duplicates=sum(effects[key] - 1 for key in doubled),
        phantom=len(phantom),
        unknown=sum(outcome is Outcome.UNKNOWN for outcome in meant.values()),
        examples=(*_named("lost", lost), *_named("doubled", doubled), *_named("phantom", phantom)),
    )


@dataclass(slots=True)
class Track:
    """Reports of one node: sent and stored sequences by boot epoch, and the gaps that the product counted."""

    offered: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    kept: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    counted: int = 0


def gaps(tracks: Mapping[str, Track]) -> Findings:
    """Telemetry may be lost but not silently: missing reports before the newest stored one must equal the counted gaps.

    Reports after the newest stored one of an epoch may still be in flight and are not counted as missing.
    """
    total, wrong, examples = 0, 0, []
    for node, track in sorted(tracks.items()):
        missing = 0
        for epoch, kept in track.kept.items():
            newest = max(kept)
            missing += len({number for number in track.offered[epoch] if number <= newest} - set(kept))
        total += missing
        if missing != track.counted:
            wrong += abs(missing - track.counted)
            examples.append(f"gaps of {node}: {missing} missing, {track.counted} counted")
    return Findings(gaps=total, gaps_unaccounted=wrong, examples=tuple(examples[:4]))


@dataclass(frozen=True, slots=True)
class Applied:
    """One intent document that an agent applied."""

    node: str
    writer: str
    generation: int
    content: str


def monotone(applied: Sequence[Applied]) -> Findings:
    """No agent returns to an older generation, and a generation never has two contents."""
    newest: dict[tuple[str, str], int] = {}
    contents: dict[tuple[str, str, int], str] = {}
    wrong = []
    for one in applied:
        place = (one.node, one.writer)
        if one.generation < newest.get(place, 0):
            wrong.append(f"{one.node}/{one.writer} went back from {newest[place]} to {one.generation}")
        newest[place] = max(one.generation, newest.get(place, 0))
        known = contents.setdefault((*place, one.generation), one.content)
        if known != one.content:
            wrong.append(f"{one.node}/{one.writer} generation {one.generation} has two contents")
    return Findings(duplicates=len(wrong), examples=tuple(wrong[:4]))


def _named(what: str, keys: Sequence[Key]) -> list[str]:
    return [f"{what}: {key.kind} {key.name}" for key in keys[:3]]
