"""A reader of the console's stream that resumes sees each event once."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tests.world.consoles import PAYLOADS
from tests.world.faults import FORGETS_MESSAGE_IDS
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.console.figures import ON_THE_WAY_SECONDS
from tests.world.trace import Kind, Step
from tests.world.world import World

_SUBJECTS = tuple(f"sw.v1.{payload.TYPE}." for payload in PAYLOADS)
GAP, OPEN = "gap", "open"


class StreamsShowEventsOnce(Invariant):
    """Of the events that are stored after a reader has opened its stream first, it sees each, and none more often than
    it is stored, however often it disconnects. A gap that the stream announces ends the account of this reader, and so
    does a broker that forgets what it has stored."""

    NAME = "streams show events once"
    KINDS: ClassVar = (Kind.STORED, Kind.READ, Kind.FAULT_BEGAN)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._stored: dict[str, float] = {}
        self._copies: Counter[str] = Counter()
        self._seen: dict[str, Counter[str]] = {}
        self._opened: dict[str, float] = {}
        self._has_gap: set[str] = set()

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.FAULT_BEGAN:
            if step.subject in FORGETS_MESSAGE_IDS:
                self._has_gap |= {reader.name for reader in self.world.stream_readers}
        elif step.kind is Kind.STORED:
            if step.subject.startswith(_SUBJECTS):
                self._stored[step.detail["id"]] = step.at
                self._copies[step.detail["id"]] += 1
        elif "place" in step.detail and step.process not in self._has_gap:
            self._read(step)

    def _read(self, step: Step) -> None:
        self._opened.setdefault(step.process, step.at)
        seen, event = self._seen.setdefault(step.process, Counter()), step.detail["id"]
        if step.subject == GAP:
            self._has_gap.add(step.process)
        elif event:
            seen[event] += 1
            if seen[event] > self._copies[event]:
                raise Violation(
                    f"{step.process} saw {step.subject} {event} {seen[event]} times at {step.detail['place']}"
                )

    def at_rest(self) -> None:
        now = self.world.loop.time()
        for reader, opened in self._opened.items():
            if reader in self._has_gap:
                continue
            due = [event for event, at in self._stored.items() if opened < at < now - ON_THE_WAY_SECONDS]
            lost = [event for event in due if event not in self._seen[reader]]
            if lost:
                raise Violation(
                    f"{reader} never saw {lost[0]}, stored at {self._stored[lost[0]]:.1f} s; {len(lost)} in all"
                )


INVARIANTS = (StreamsShowEventsOnce,)
