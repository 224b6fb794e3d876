"""The judge: what was meant and acked against what is found. Pure; the scenarios feed it, unit tests sabotage it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tests.faults.ledger import Key, Outcome


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts over all kinds. `unknown` counts operations without an answer; looking them up resolved every one of
    them into there or not there. `examples` names a few of what is wrong, for people."""

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
        """Nothing lost, doubled, invented or uncounted."""
        return not (self.lost or self.duplicates or self.phantom or self.gaps_unaccounted)


def compare(meant: Mapping[Key, Outcome], found: Iterable[Key], *, may_vanish: bool = False) -> Findings:
    """One or several kinds of facts: each acked one must be found once, each found one must have been meant.

    `found` has one item per effect, so that two effects of one fact show. `may_vanish`: telemetry, whose loss is
    allowed and counted elsewhere (see gaps). A refused or dropped fact that is found all the same is a phantom.
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
    """Reports of one node: the sequences offered and kept, by boot epoch, and the holes that the product counted."""

    offered: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    kept: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    counted: int = 0


def gaps(tracks: Mapping[str, Track]) -> Findings:
    """Telemetry may be lost, but never silently: what is missing below the newest kept report is what was counted.

    Behind the newest kept report of an epoch nothing is known to be missing: it may still be on its way.
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
    """One intent document as an agent carried it out: in the order of carrying out."""

    node: str
    writer: str
    generation: int
    content: str


def monotone(applied: Sequence[Applied]) -> Findings:
    """No agent goes back to an older generation, and one generation never has two contents."""
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
