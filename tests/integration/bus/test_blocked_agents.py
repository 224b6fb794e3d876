"""A blocked agent: its messages are left unread by every consumer, on the real bus and on its twin."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from test_bus_contract import until
from tests.support.reports import described, report

from slackwater.bus.codec.cloudevents import MESSAGE_ID, Message, encode
from slackwater.bus.consume import agent_blocks
from slackwater.bus.consume.agent_rates import AT_ONCE
from slackwater.bus.consume.handlers import each
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Event, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported

NOW = datetime(2026, 1, 5, tzinfo=UTC)
REPORTS, DESCRIPTIONS, EVICTIONS = "ingestion-usage-reported", "console-node-described", "console-eviction-completed"


def block(node: str, *, blocked: bool = True) -> Event[AgentBlockChanged]:
    change = AgentBlockChanged(node=node, blocked=blocked, reason="sends poison", changed_by="ada", since=NOW)
    return event_of(change, source="ingestion", time=NOW)


def reported(node: str, sequence: int = 1) -> Event[UsageReported]:
    return event_of(report(node, sequence, NOW), source=f"agent/{node}", time=NOW)


def description(node: str) -> Event[NodeDescribed]:
    return event_of(described(node, NOW), source=f"agent/{node}", time=NOW)


def ended(node: str, source: str, identity: str = "e") -> Event[EvictionCompleted]:
    payload = EvictionCompleted(
        id=identity, node=node, pod_uid="p", writer="ensurance", outcome=EvictionOutcome.KILLED, completed_at=NOW,
        decision_id="d",
    )  # fmt: skip
    return event_of(payload, source=source, time=NOW)


class Seen:
    """Keys of what a handler gets, with how often it was delivered."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[str, int]] = []

    async def __call__(self, received: Received[Any]) -> Settlement:
        self.deliveries.append((received.subject_key.split("/")[0], received.deliveries))
        return Done()

    @property
    def nodes(self) -> list[str]:
        return [node for node, _ in self.deliveries]

    def has(self, *nodes: str) -> Any:
        async def found() -> bool:
            return set(nodes) <= set(self.nodes)

        return found


def settled(bus: Any, consumer: str, count: int) -> Any:
    async def found() -> bool:
        return bool(bus.stats()[consumer].done >= count)

    return found


def knows(bus: Any, event: Event[AgentBlockChanged]) -> Any:
    async def found() -> bool:
        return bool(bus.blocks.last(event.data.node) == event.data)

    return found


async def test_a_block_holds_before_the_first_message_is_handled(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus:
        await bus.publish(block("bad"))
        await bus.publish(block("once", blocked=False))
        for node in ("bad", "good", "once"):
            await bus.publish(reported(node))
    async with given.process() as bus, bus.consume(UsageReported, REPORTS, each(seen)):
        await until(settled(bus, REPORTS, 3))
    assert sorted(seen.nodes) == ["good", "once"]


async def test_a_block_counts_at_once_and_until_it_is_lifted(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus, bus.consume(UsageReported, REPORTS, each(seen)):
        for number, blocked in enumerate((False, True, False), 1):
            await bus.publish(event := block("bad", blocked=blocked))
            await until(knows(bus, event))
            await bus.publish(reported("bad", number))
            await bus.publish(reported("good", number))
            await until(settled(bus, REPORTS, 2 * number))
    assert (seen.nodes.count("bad"), seen.nodes.count("good")) == (2, 3)


async def test_what_a_blocked_agent_sends_is_no_dead_letter_whatever_it_holds(given: Any) -> None:
    seen = Seen()
    poison = Message(reported("bad").subject, {"ce-source": "ensurance"}, b"\xed\xa0\x80")
    async with given.process() as bus:
        await bus.publish(block("bad"))
        await given.inject("USAGE", poison)
        async with bus.consume(UsageReported, REPORTS, each(seen)):
            await until(settled(bus, REPORTS, 1))
    assert seen.nodes == []
    assert await given.letters() == []


async def test_what_a_service_says_of_the_same_kind_is_read(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus:
        await bus.publish(block("bad"))
        forged = encode(ended("bad", "kubernetes"))
        await given.inject("AGENTS", replace(forged, subject=forged.subject.removesuffix(".kubernetes")))
        for source in ("agent/bad", "kubernetes"):
            await bus.publish(ended("bad", source))
        async with bus.consume(EvictionCompleted, EVICTIONS, each(seen)):
            await until(settled(bus, EVICTIONS, 3))
    assert seen.nodes == ["bad"]


async def test_the_source_of_an_event_is_what_its_subject_says(given: Any) -> None:
    sources: list[str] = []

    async def note(received: Received[Any]) -> Settlement:
        sources.append(received.event.source)
        return Done()

    async def four() -> bool:
        return len(sources) == 4

    of_agent, of_service = encode(ended("n", "agent/n")), encode(ended("n", "kubernetes"))
    async with given.process() as bus:
        for number, (message, subject) in enumerate(
            (
                (of_agent, of_agent.subject),
                (of_service, of_agent.subject),
                (encode(ended("n", "agent/other")), of_agent.subject),
                (of_agent, of_service.subject),
                (of_agent, f"{of_agent.subject}.ensurance"),
            )
        ):
            headers = {**message.headers, MESSAGE_ID: str(number)}
            await given.inject("AGENTS", replace(message, subject=subject, headers=headers))
        async with bus.consume(EvictionCompleted, EVICTIONS, each(note)):
            await until(four)
    assert sources == ["agent/n", "agent/n", "agent/n", "kubernetes"]
    assert [letter.headers["sw-reason"] for letter in await given.letters()] == ["wrong_subject"]


async def test_an_agent_that_floods_displaces_no_answer_of_another(given: Any) -> None:
    seen = Seen()
    async with given.process() as bus:
        for number in range(AT_ONCE + 100):
            await bus.publish(ended("bad", "agent/bad", f"e{number}"))
            if number % 60 == 0:
                await bus.publish(ended("good", "agent/good"))
        async with bus.consume(EvictionCompleted, EVICTIONS, each(seen)):
            await until(settled(bus, EVICTIONS, AT_ONCE + 5))
            delivered = bus.stats()[EVICTIONS].delivered
    assert seen.nodes.count("good") == 5
    assert delivered == AT_ONCE + 5, "the stream keeps no more of one agent, whatever ids it gives"


async def test_a_description_waits_for_the_end_of_the_block(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_blocks, "HOLD_SECONDS", 0.05)
    seen = Seen()
    async with given.process() as bus:
        await bus.publish(block("bad"))
        for node in ("bad", "good"):
            await bus.publish(description(node))
        async with bus.consume(NodeDescribed, DESCRIPTIONS, each(seen)):
            await until(seen.has("good"))
    assert seen.nodes == ["good"]
    async with given.process() as bus:
        await bus.publish(block("bad", blocked=False))
        async with bus.consume(NodeDescribed, DESCRIPTIONS, each(seen)):
            await until(seen.has("bad"))
    assert seen.deliveries[1:] == [("bad", 1)]
    assert await given.letters() == []


async def test_a_watch_leaves_a_blocked_agent_unread_until_it_is_unblocked(given: Any) -> None:
    """Quota, migration and the descheduler watch: the last values too, at the next start."""
    seen: list[str] = []

    async def note(event: Event[NodeDescribed]) -> None:
        seen.append(event.data.facts.name)

    def has(*nodes: str) -> Any:
        async def found() -> bool:
            return set(nodes) <= set(seen)

        return found

    async with given.process() as bus:
        await bus.publish(block("bad"))
        await bus.publish(description("bad"))
        await bus.publish(description("good"))
    async with given.process() as bus, bus.watch(NodeDescribed, note):
        await until(has("good"))
        await bus.publish(description("late"))
        await until(has("late"))
        assert "bad" not in seen
        await bus.publish(lifted := block("bad", blocked=False))
        await until(knows(bus, lifted))
        await bus.publish(description("later"))
        await until(has("bad", "later"))
    assert sorted(seen) == ["bad", "good", "late", "later"]


async def test_a_watch_of_reports_drops_what_a_blocked_agent_sent(given: Any) -> None:
    seen: list[str] = []

    async def note(event: Event[UsageReported]) -> None:
        seen.append(event.data.node)

    async with given.process() as bus, bus.watch(UsageReported, note):
        await bus.publish(stopped := block("bad"))
        await until(knows(bus, stopped))
        await bus.publish(reported("bad", 1))
        await bus.publish(reported("good", 1))

        async def is_read() -> bool:
            return "good" in seen

        await until(is_read)
    assert seen == ["good"]
