"""Attacks: what an agent's account of the broker lets through, and what no broker accepts.

Their messages have ids of their own (FORGED). Invariants leave these messages out: what is true has to stay true beside
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from tests.world.plan import ENSURANCE, Plan, PlannedChange, PlannedFault, agents, machines, replicas, services_of
from tests.world.world import World

from slackwater.bus.admin.streams import load
from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.events.envelope import Event, Payload, agent_source, agent_subjects, event_of, subject_token
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.registry import EVENTS
from slackwater.events.state_quarantined import QuarantineReason, StateQuarantined
from slackwater.model.errors import SlackwaterError, Unavailable
from slackwater.model.identifiers import shard_of
from slackwater.store.port import Database

FORGED: Final = "f0f0f0f0-0000-4000-8000-"
"""How the ids of messages of attacks begin; PostgreSQL takes them for UUIDs."""
INTRUDER: Final = "intruder"
"""The node whose agent floods. It has no machine."""
FLOOD_SECONDS, FLOOD = 0.5, 50
"""So many messages on each subject of an agent, again and again."""
FORGE_SECONDS: Final = 0.5
GARBAGE: Final = b'{"pods":[{},{},{}],"limits":[{},{}]}'
FILLED: Final = "DECISIONS"
"""The stream that refuses what is new when it is full."""
LARGE_CHARACTERS: Final = 1_200_000
EXPANDING: Final = MappingProxyType(
    {
        "scopeSelector": {
            "matchExpressions": [
                {"scopeName": "Namespace", "operator": "NotIn", "values": [f"namespace-of-a-long-name-{n}-{'x' * 40}"]}
                for n in range(6000)
            ]
        },
        "allowedActions": ["throttle"],
    }
)
"""The spec of a PodQOS that no intent can hold."""


def is_forged(identifier: object) -> bool:
    """Returns whether an event id is that of a message of an attack."""
    return str(identifier).startswith(FORGED)


def attackers(plan: Plan) -> Sequence[str]:
    return [*agents(plan), *machines(plan)]


def of_ensurance(plan: Plan) -> Sequence[str]:
    return replicas(plan, ENSURANCE) if ENSURANCE in services_of(plan) else ()


def _repeat(world: World, seconds: float, pause_seconds: float, act: Callable[[], None]) -> None:
    ends_at = world.loop.time() + seconds

    def again() -> None:
        if world.loop.time() <= ends_at:
            act()
            world.loop.call_later(pause_seconds, again, context=Context())

    again()


def _publish(world: World, message: Message, number: int) -> None:
    """Publish as a client of the broker that waits for no acknowledgement."""
    identifier = f"{FORGED}{number:012x}"
    headers = {**message.headers, "ce-id": identifier, "Nats-Msg-Id": identifier}
    stream = next(payload.STREAM for payload in EVENTS if message.subject.startswith(f"sw.v1.{payload.TYPE}."))
    if stream not in world.broker.jetstreams:
        return  # of a broker that has just begun
    try:
        world.broker.store(stream, Message(message.subject, headers, message.body))
    except Unavailable:
        return


def flood(world: World, fault: PlannedFault) -> None:
    """An agent publishes on all of its subjects as fast as it can."""
    subjects = [one for payload in EVENTS if payload.FROM_AGENT for one in agent_subjects(payload, INTRUDER)]
    numbers = count(int(fault.at * 1e6))

    def act() -> None:
        for subject in subjects:
            for _ in range(FLOOD):
                _publish(world, Message(subject, {}, GARBAGE), next(numbers))

    _repeat(world, fault.seconds, FLOOD_SECONDS, act)


def forge(world: World, fault: PlannedFault) -> None:
    """An agent answers what other nodes were asked: on its own subjects, because its account has no others; in their
    name, in its own name, and in that of a service."""
    node = (world.stations.get(fault.target) or world.machines[fault.target]).node
    numbers = count(int(fault.at * 1e6))

    def act() -> None:
        for document in _documents(world):
            if document.node != node:
                for message in _answers(world, document, node):
                    _publish(world, message, next(numbers))

    _repeat(world, fault.seconds, FORGE_SECONDS, act)


def _documents(world: World) -> list[IntentDeclared]:
    stored = world.broker.jetstreams[IntentDeclared.STREAM].messages.values()
    return [IntentDeclared.model_validate_json(one.message.body) for one in stored]


def _answers(world: World, document: IntentDeclared, node: str) -> list[Message]:
    now = world.clock_of("broker").now()
    answers: list[Message] = []
    for item in document.evictions:
        for claimed in (document.node, node):
            ended = EvictionCompleted(
                id=item.id, node=claimed, pod_uid=item.pod_uid, writer=document.writer,
                outcome=EvictionOutcome.TERMINATED, completed_at=now, decision_id=item.decision_id,
            )  # fmt: skip
            answers += [
                _on(node, event_of(ended, source=source, time=now)) for source in (agent_source(node), "kubernetes")
            ]
    observed = IntentObserved(
        node=document.node, writer=document.writer, generation=document.generation + 1, boot_epoch="forged",
        received_at=now, observed_at=now + timedelta(seconds=1),
    )  # fmt: skip
    return [*answers, _on(node, event_of(observed, source=agent_source(document.node), time=now))]


def _on(node: str, event: Event[Any]) -> Message:
    """The message of an event on the subject of this node's agent, whatever its body and its source say."""
    message, payload = encode(event), type(event.data)
    subject = ".".join([f"sw.v1.{payload.TYPE}", str(shard_of(node)), subject_token(node), event.data.writer])
    return Message(subject, message.headers, message.body)


def fill(world: World, fault: PlannedFault) -> None:
    """A stream has no room."""
    stream = world.broker.jetstreams.get(FILLED)
    if stream is not None:
        stream.configure({**stream.config, "max_bytes": 1})


def make_room(world: World, fault: PlannedFault) -> None:
    stream = world.broker.jetstreams.get(FILLED)
    if stream is not None:
        stream.configure({**stream.config, "max_bytes": load().streams[FILLED].max_bytes})


def expand(world: World, fault: PlannedFault) -> None:
    """An operator puts a document that would make each node's intent larger than a message."""
    world.change(PlannedChange(fault.at, "put", "PodQOS", "expanding", EXPANDING))


@cache
def _large() -> str:
    return "x" * LARGE_CHARACTERS


def too_large(world: World, fault: PlannedFault) -> None:
    """A service commits an event that no broker takes, among its others."""
    place = world.places[fault.target]
    if not place.is_serving or place.process is None:
        return
    now = place.clock.now()
    data = StateQuarantined.model_construct(
        service=ENSURANCE, id="large", table="t", row="r", node="", reason=QuarantineReason.UNREADABLE,
        detail=_large(), since=now, count=1, told_at=now,
    )  # fmt: skip
    event: Event[Payload] = event_of(data, source=ENSURANCE, time=now, id=f"{FORGED}{int(fault.at * 1e6):012x}")
    place.process.start(_commit(world.databases(place.process)(ENSURANCE), event), "large event")


async def _commit(database: Database, event: Event[Payload]) -> None:
    with suppress(SlackwaterError):
        async with database.unit_of_work() as unit:
            await unit.publish(event)
