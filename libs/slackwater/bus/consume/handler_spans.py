"""Handlers with spans: one per message of a sampled trace, named after the consumer.

A handler sees its event with the traceparent of the span that handles it, so an event published in
response becomes a child of this step. Messages of unsampled traces cost one flag check.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from slackwater.bus.codec.cloudevents import subject_key
from slackwater.bus.consume.cooperative import yield_between
from slackwater.bus.port import BatchHandler, Done, P, Received, Settlement
from slackwater.events.serialized import Written
from slackwater.telemetry.spans import Attributes, Span, begin, exporting, span


def traced_each(consumer: str, judge: Callable[[Received[P]], Awaitable[Settlement]]) -> BatchHandler[P]:
    """Handles events one by one; each step is a span, and its log lines carry trace and node."""

    async def handle(batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        verdicts: list[Settlement] = []
        for number, received in enumerate(batch, 1):
            await yield_between(number)
            parent = received.event.traceparent
            with span(_name(consumer), parent, _attributes(consumer, received, len(batch)), kind="consumer") as step:
                verdicts.append(await judge(_under(received, step)))
                _note(step, verdicts[-1])
        return verdicts

    return handle


def traced_batch(consumer: str, handler: BatchHandler[P]) -> BatchHandler[P]:
    """Returns the same handler with a span for each event of a sampled trace."""

    async def handle(batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        steps = {
            place: begin(
                _name(consumer), one.event.traceparent, _attributes(consumer, one, len(batch)), kind="consumer"
            )
            for place, one in enumerate(batch)
            if exporting(one.event.traceparent)
        }
        if not steps:
            return await handler(batch)
        try:
            verdicts = await handler([_under(one, steps.get(place)) for place, one in enumerate(batch)])
        except Exception as error:
            for step in steps.values():
                step.failed(f"{type(error).__name__}: {error}")
            raise
        else:
            for place, step in steps.items():
                _note(step, verdicts[place] if place < len(verdicts) else Done())
            return verdicts
        finally:
            for step in steps.values():
                step.end()

    return handle


def publishing(event: Written) -> AbstractContextManager[Span]:
    """Returns the span of publishing one event to the broker."""
    return span(
        f"publish {event.type.rsplit('.v', 1)[0]}",
        event.traceparent,
        {
            "messaging_system": "nats",
            "messaging_destination": event.stream,
            "key": subject_key(event.subject),
            "event_id": event.id,
        },
        kind="producer",
    )


def _name(consumer: str) -> str:
    return f"handle {consumer}"


def _attributes(consumer: str, received: Received[Any], batch: int) -> Attributes:
    return {
        "messaging_system": "nats",
        "messaging_consumer": consumer,
        "node": received.subject_key.split("/")[0],
        "event_id": received.event.id,
        "batch_size": batch,
        "deliveries": received.deliveries,
    }


def _under(received: Received[P], step: Span | None) -> Received[P]:
    if step is None or step.real is None:
        return received
    return replace(received, event=received.event.model_copy(update={"traceparent": step.traceparent}))


def _note(step: Span, verdict: Settlement) -> None:
    """Mark the step as failed for Retry and Reject, whatever the cause."""
    if not isinstance(verdict, Done):
        step.failed(f"{type(verdict).__name__.lower()}: {verdict.reason}")
