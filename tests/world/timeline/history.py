"""A record read from its lines, and what its steps have to do with each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.world.trace import Kind

OPERATED = frozenset({Kind.STARTED, Kind.STOPPED, Kind.CRASHED, Kind.FROZEN, Kind.RESUMED})
"""Steps that happen to a process: their subject is its incarnation."""
RECENT_SECONDS = 60.0
_PREFIX = "sw.v1."
"""Of every subject on the bus."""
SERVERS = ("broker", "postgres")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a record."""

    n: int
    at: float
    process: str
    kind: str
    subject: str
    cause: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lane(self) -> str:
        """The process or server that it is shown with; empty for the world's own."""
        if self.kind in OPERATED:
            return self.subject.partition("/")[0]
        if self.kind in (Kind.FAULT_BEGAN, Kind.FAULT_ENDED):
            return lane_of(str(self.detail.get("target", "")))
        return self.process

    @property
    def text(self) -> str:
        """What happened, in one line."""
        detail = dict(self.detail)
        if self.kind == Kind.FAULT_BEGAN:
            amount = f" ({detail['amount']:g})" if detail.get("amount") else ""
            return f"{self.subject} of {detail.get('target')} for {detail.get('seconds', 0):g} s{amount}"
        subject = self.subject.removeprefix(_PREFIX)
        if "stream" in detail:
            subject += f"  {detail.pop('stream')} #{detail.pop('sequence', '?')}"
        facts = ", ".join(f"{name} {_shown(value)}" for name, value in detail.items() if not _is_plain(value))
        return f"{subject}  {facts}" if facts else subject


def lane_of(target: str) -> str:
    """The process of a fault's target: `process>server` is a connection of the process."""
    return target.partition(">")[0]


def _is_plain(value: object) -> bool:
    """Whether a fact says nothing: empty, or false."""
    return value is False or value in ("", [], {})


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{_shown(of)}" for name, of in value.items())
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return short_id(str(value))


def short_id(text: str) -> str:
    """The last part of an event id: ids of one moment begin alike."""
    return f"…{text[-6:]}" if len(text) == 36 and text.count("-") == 4 else text


@dataclass(frozen=True, slots=True)
class Band:
    """A fault from its begin to its end, in virtual seconds."""

    kind: str
    target: str
    since: float
    until: float
    n: int
    amount: float


@dataclass(frozen=True, slots=True)
class Edge:
    """The step `source` has caused the step `target`; both are places in the list of events."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class History:
    """`violation` is the failure's line, `failed` the place of the step at which it was seen; None if all held."""

    events: Sequence[Event]
    edges: Sequence[Edge]
    bands: Sequence[Band]
    lanes: Sequence[str]
    violation: Event | None
    failed: int | None

    @property
    def is_violation(self) -> bool:
        """Whether an invariant has failed, and not the world or an exception that nothing handles."""
        text = self.violation.subject if self.violation else ""
        return ":" in text and not text.startswith(("the world", "the guard"))

    @property
    def end(self) -> float:
        """The virtual seconds of the last step."""
        return max((event.at for event in self.events), default=0.0)


def read_history(lines: Iterable[str]) -> History:
    """Returns the history of a record's lines."""
    events, violation = [], None
    for line in lines:
        raw = json.loads(line)
        raw.pop("hash", None)
        event = Event(**raw)
        if event.kind == Kind.VIOLATED:
            violation = event
        else:
            events.append(event)
    failed = None
    if violation is not None and events:
        step = int(violation.detail.get("step", events[-1].n))
        failed = max(0, min(step, len(events)) - 1)
    return History(events, _edges(events), _bands(events), _lanes(events), violation, failed)


def _edges(events: Sequence[Event]) -> list[Edge]:
    """Arrows: a commit to the message that its outbox publishes, a message to what it caused and to its readers."""
    stored: dict[str, int] = {}
    sequences: dict[tuple[str, int], int] = {}
    commits: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = {}
    for place, event in enumerate(events):
        detail = event.detail
        if event.kind == Kind.COMMITTED:
            commits |= dict.fromkeys(detail.get("events", ()), place)
            if event.cause in stored:
                edges[stored[event.cause], place] = None
        elif event.kind == Kind.STORED:
            committed, cause = commits.get(str(detail.get("id"))), stored.get(event.cause)
            if committed is not None:
                edges[committed, place] = None
            if cause is not None:  # the reader's commit, if there was one, comes between the two messages
                edges[cause, place if committed is None or committed < cause else committed] = None
            stored.setdefault(str(detail.get("id")), place)
            sequences[str(detail.get("stream")), int(detail.get("sequence", 0))] = place
        elif event.kind == Kind.READ and not detail.get("gap"):
            source = sequences.get((str(detail.get("stream")), int(detail.get("sequence", 0))))
            if source is not None:
                edges[source, place] = None
        elif event.cause in stored:
            edges[stored[event.cause], place] = None
    return [Edge(source, target) for source, target in edges]


def _bands(events: Sequence[Event]) -> list[Band]:
    bands = []
    for event in events:
        if event.kind == Kind.FAULT_BEGAN:
            seconds, amount = float(event.detail.get("seconds", 0)), float(event.detail.get("amount", 0))
            target = str(event.detail.get("target", ""))
            bands.append(Band(event.subject, target, event.at, event.at + seconds, event.n, amount))
    return bands


def _lanes(events: Sequence[Event]) -> list[str]:
    """Servers first, then processes in the order in which they appear: services, agents, clients."""
    found = dict.fromkeys(event.lane for event in events if event.lane)
    return [*(name for name in SERVERS if name in found), *(name for name in found if name not in SERVERS)]


def chain(history: History) -> set[int]:
    """Returns the places of the steps that led to the failure: the causes of the step that failed and of the steps
    whose event the failure names, and for each process among them its start or crash before, and its faults then."""
    if history.failed is None:
        return set()
    known = {history.failed, *_named(history)}
    sources: dict[int, list[int]] = {}
    for edge in history.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    waiting = list(known)
    while waiting:
        for source in sources.get(waiting.pop(), ()):
            if source not in known:
                known.add(source)
                waiting.append(source)
    text = history.violation.subject if history.violation else ""
    concerned = {history.events[place].lane for place in known}
    concerned |= {lane for lane in history.lanes if re.search(rf"\b{re.escape(lane)}\b", text)}
    return known | _circumstances(history, concerned)


def _named(history: History) -> list[int]:
    """The last steps of the events whose id the failure's text names."""
    text = history.violation.subject if history.violation else ""
    named = []
    for place, event in enumerate(history.events[: (history.failed or 0) + 1]):
        ids = [event.detail.get("id"), *event.detail.get("events", ())]
        if any(each and str(each) in text for each in ids):
            named.append(place)
    return named


def _circumstances(history: History, lanes: set[str]) -> set[int]:
    """The last start, crash or freeze of each process, its last commit of leases, and its faults that lasted to within
    a minute of the failure."""
    assert history.failed is not None
    at, last = history.events[history.failed].at, {}
    found = set()
    for place, event in enumerate(history.events[: history.failed + 1]):
        writes_leases = event.kind == Kind.COMMITTED and "leases" in event.detail.get("rows", {})
        if event.lane in lanes and (writes_leases or event.kind in OPERATED):
            last[event.lane, event.kind] = place
        elif event.kind == Kind.FAULT_BEGAN and event.lane in {*lanes, *SERVERS}:
            is_recent = event.at + float(event.detail.get("seconds", 0)) >= at - RECENT_SECONDS
            found |= {place} if is_recent else set()
    return found | set(last.values())


def near(history: History, most: int) -> list[int]:
    """Returns the places of the steps to show: the causal chain, and the last steps up to the failure; at most `most`
    of each, in order."""
    end = len(history.events) - 1 if history.failed is None else history.failed
    last = range(max(0, end - most + 1), min(len(history.events), end + 1))
    return sorted({*last, *sorted(chain(history))[-most:]})
