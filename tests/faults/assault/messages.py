"""Attacks with an agent's account on the broker, on whatever subjects that account may publish."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, cycle, islice
from typing import Any

from tests.faults.assault.attacker import Aim, Counts, RawConnection, frame, paced
from tests.faults.flood import Template
from tests.faults.mutations import Specimen
from tests.faults.poison import valid_events
from tests.support.jetstream.subjects import matches_any
from tests.support.story import Character, story

from slackwater.bus.admin.permissions import agent_imports
from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.access import AGENT_API_PREFIX
from slackwater.cli.broker import registry
from slackwater.events.codec.packed import pack
from slackwater.events.envelope import Event, own_subjects
from slackwater.model.identifiers import new_id

MEGABYTE = 1_000_000
LARGE_PER_SECOND, SMALL_PER_SECOND, FILL_PER_SECOND = 20.0, 200.0, 40.0
"""Of messages of a megabyte (160 Mbit/s), of small ones, and of those that only fill."""
UNPACKED_ITEMS = 340_000
BURST = 64
Run = Callable[[Counts], None]


def subjects(node: str) -> tuple[str, ...]:
    """The patterns of subjects on which the agent of a node may publish events."""
    _, agent = registry()
    local = agent_imports(agent, node).values()
    return tuple(one for one in local if not one.startswith(f"{AGENT_API_PREFIX}."))


def own_events(node: str) -> list[Event[Any]]:
    """One valid event of each type that the agent may publish."""
    now, allowed = datetime.now(UTC), subjects(node)
    candidates = [*valid_events(now, node).values(), *story(now, (Character(node, 8000, 2000, surges=True),))]
    found = {type(event.data): event for event in reversed(candidates) if matches_any(allowed, event.subject)}
    return list(found.values())


def invalid_items(aim: Aim) -> Run:
    """A megabyte of items that are no items, in every list of every event, and in an unknown field."""
    objects = b"[" + b"{}," * (MEGABYTE // 3 - 2000) + b"{}]"
    return _in_turn(aim, list(_with_values(aim, [objects])), LARGE_PER_SECOND)


def deep_and_wide(aim: Aim) -> Run:
    """A megabyte of levels, of fields and of numbers."""
    deep = b"[" * (MEGABYTE // 2 - 3000) + b"]" * (MEGABYTE // 2 - 3000)
    wide = b"{" + b",".join(b'"%d":0' % number for number in range(100_000)) + b"}"
    numbers = b"[" + b"1," * (MEGABYTE // 2 - 3000) + b"1]"
    return _in_turn(aim, list(_with_values(aim, [deep, wide, numbers])), LARGE_PER_SECOND)


def packed_bombs(aim: Aim) -> Run:
    """Some kilobytes that unpack to a megabyte, in every packed field."""
    text = json.dumps(pack(b"[" + b"[]," * UNPACKED_ITEMS + b"[]]")).encode()
    frames = []
    for specimen in map(Specimen, own_events(aim.node)):
        if "packed" in specimen.payload.model_fields:
            made = specimen.with_literal("bomb", ("packed",), text, True)
            frames.append((made.subject, made.headers, made.body))
    return _in_turn(aim, frames, SMALL_PER_SECOND)


def floods(aim: Aim) -> Run:
    """Valid reports of its own node as fast as the connection takes them."""
    template = Template(aim.node)

    def run(counts: Counts) -> None:
        wire, numbers = RawConnection(aim, counts), count(1)
        for _ in paced(1e6, aim.seconds):
            at = datetime.now(UTC).isoformat()
            wire.send(b"".join(template.frame(n, at, new_id()) for n in islice(numbers, BURST)), BURST)

    return run


def fills(aim: Aim) -> Run:
    """Megabytes that do not compress, each on a subject of its own where its account has wildcards."""
    block, patterns = os.urandom(MEGABYTE - 100), cycle(subjects(aim.node))

    def run(counts: Counts) -> None:
        wire = RawConnection(aim, counts)
        for number in paced(FILL_PER_SECOND, aim.seconds):
            wire.send(frame(concrete(next(patterns)), {"ce-id": new_id()}, b"%08d" % number + block))

    return run


def forges(aim: Aim) -> Run:
    """Sources of services, other nodes in the body, answers with guessed ids, and subjects of other nodes."""
    frames = cycle(forgeries(aim.node, aim.honest))

    def run(counts: Counts) -> None:
        wire = RawConnection(aim, counts)
        for _ in paced(SMALL_PER_SECOND, aim.seconds):
            made = next(frames)
            wire.send(frame(made.subject, {**made.headers, "ce-id": new_id()}, made.body))

    return run


@dataclass(frozen=True, slots=True)
class Forgery:
    """A message in another's name. `what` says how."""

    what: str
    subject: str
    headers: Mapping[str, str]
    body: bytes


def forgeries(node: str, others: Sequence[str]) -> list[Forgery]:
    """Every event that the agent of `node` may publish, in the name of each service and of each other node."""
    services, _ = registry()
    found = []
    for specimen in map(Specimen, own_events(node)):
        subject, body, headers = specimen.event.subject, encode(specimen.event).body, specimen.headers
        found += [Forgery(f"source {part.name}", subject, {**headers, "ce-source": part.name}, body)
                  for part in services]  # fmt: skip
        for other in others:
            named = body.replace(json.dumps(node).encode(), json.dumps(other).encode())
            source = {**headers, "ce-source": f"agent/{other}"}
            found.append(Forgery(f"source of {other}", subject, source, body))
            found.append(Forgery(f"{other} in the body", subject, source, named))
            found.append(Forgery(f"subject of {other}", _about(specimen, other), source, named))
        for guess in guessed_ids():
            if "id" in specimen.document:
                answer = json.dumps({**specimen.document, "id": guess}).encode()
                found.append(Forgery("guessed id", subject.rsplit(".", 1)[0] + f".{guess}", headers, answer))
    return found


def guessed_ids() -> Iterator[str]:
    """Ids of evictions and of steps of moves as an attacker would guess them."""
    yield from (f"{uuid.UUID(int=number)}-1" for number in range(3))
    yield from ("drain-1-1", "web-0-1-1", "text-1-1", "e")


def concrete(pattern: str) -> str:
    """A subject that matches a pattern and was not used before."""
    return ".".join(uuid.uuid4().hex if part in "*>" else part for part in pattern.split("."))


def _about(specimen: Specimen, other: str) -> str:
    """The subject of the same event about another node."""
    return concrete(own_subjects(specimen.payload, other))


def _with_values(aim: Aim, values: Sequence[bytes]) -> Iterator[tuple[str, Mapping[str, str], bytes]]:
    """Each value in each list and object of each event, and in an unknown field of it."""
    for specimen in map(Specimen, own_events(aim.node)):
        body = json.dumps(specimen.document).encode()
        for value in values:
            yield specimen.event.subject, specimen.headers, b'{"zz":' + value + b"," + body[1:]
            for place, present in specimen.places:
                if len(place) == 1 and isinstance(present, list | dict):
                    made = specimen.with_literal("", place, value, True)
                    yield made.subject, made.headers, made.body


def _in_turn(aim: Aim, messages: Sequence[tuple[str, Mapping[str, str], bytes]], per_second: float) -> Run:
    """Send them one after the other, again and again, each time with a new id."""

    def run(counts: Counts) -> None:
        wire = RawConnection(aim, counts)
        for number in paced(per_second, aim.seconds):
            subject, headers, body = messages[number % len(messages)]
            wire.send(frame(subject, {**headers, "ce-id": new_id()}, body))

    return run
