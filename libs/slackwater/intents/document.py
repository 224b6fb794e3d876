"""The intent document: what a writer wants of a node, and the rules by which a reader accepts and keeps it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import (
    CpuThrottle,
    Eviction,
    IntentDeclared,
    LocalWaterline,
    MemoryProtection,
    MemoryThrottle,
    WeightPolicy,
    WorkloadStart,
)
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.intents.controls import ControlField, Writer
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Content:
    """What a writer wants of one node. A field that is left out has no effect beside the documents of other writers."""

    throttles: tuple[CpuThrottle, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    weights: WeightPolicy = WeightPolicy.BY_REQUEST
    """The agent applies the policy that protects prod most; this one protects it least."""
    waterlines: tuple[LocalWaterline, ...] = ()
    rules: str = ""
    memory_throttles: tuple[MemoryThrottle, ...] = ()
    memory_protection: MemoryProtection = MemoryProtection.NONE
    starts: tuple[WorkloadStart, ...] = ()

    def controls(self) -> frozenset[ControlField]:
        """The controls that this content sets."""
        is_set = (
            (ControlField.THROTTLES, bool(self.throttles)),
            (ControlField.EVICTIONS, bool(self.evictions)),
            (ControlField.WEIGHTS, self.weights is not WeightPolicy.BY_REQUEST),
            (ControlField.WATERLINES, bool(self.waterlines)),
            (ControlField.RULES, bool(self.rules)),
            (ControlField.MEMORY_THROTTLES, bool(self.memory_throttles)),
            (ControlField.MEMORY_PROTECTION, self.memory_protection is not MemoryProtection.NONE),
            (ControlField.STARTS, bool(self.starts)),
        )
        return frozenset(control for control, present in is_set if present)


NO_CONTENT: Final = Content()


@record(frozen=True, slots=True)
class IntentLease:
    """For how long a document holds after its receipt and after each renewal. `epoch` is that of the writer's
    partition lease (0: the writer holds no partitions, and nothing renews its documents); 0 seconds releases the
    node."""

    epoch: int
    seconds: float


def document_event(
    writer: Writer,
    node: str,
    generation: int,
    content: Content,
    lease: IntentLease,
    now: datetime,
    cause: Event[Any] | str | None,
) -> Event[IntentDeclared]:
    """The whole document of one node: an agent that reads only this knows all that the writer wants.

    Raises:
        ValueError: `content` sets a control that the writer does not own.
    """
    if not content.controls() <= writer.controls:
        raise ValueError(f"writer {writer.name} does not own {sorted(content.controls() - writer.controls)}")
    document = IntentDeclared(
        node=node,
        writer=writer.name,
        generation=generation,
        epoch=lease.epoch,
        declared_at=now,
        lease_seconds=lease.seconds,
        weights=content.weights,
        throttles=content.throttles,
        evictions=content.evictions,
        waterlines=content.waterlines,
        rules=content.rules,
        memory_throttles=content.memory_throttles,
        memory_protection=content.memory_protection,
        starts=content.starts,
    )
    return event_of(document, source=writer.name, time=now, causedby=cause)


def is_older(document: IntentDeclared, held: IntentDeclared) -> bool:
    """Whether a document came late, was replayed, or is from a replica that has lost the node to another one. A writer
    that lost its count starts again with a newer time and is accepted."""
    if document.epoch != held.epoch:
        return document.epoch < held.epoch
    return document.generation < held.generation and document.declared_at <= held.declared_at


def is_renewable(document: IntentDeclared, epoch: int) -> bool:
    """Whether a renewal by the replica that holds the partition under `epoch` prolongs this document. It does not if a
    later owner has declared it since, nor if the document releases the node."""
    return document.lease_seconds > 0 and 0 < document.epoch <= epoch


def renewal_event(
    writer: Writer,
    partition: int,
    epoch: int,
    read_up_to: int,
    heard_within_seconds: float,
    blocked: tuple[str, ...],
    now: datetime,
) -> Event[LeaseRenewed]:
    """The broadcast that renews the documents of one partition."""
    renewed = LeaseRenewed(
        writer=writer.name,
        partition=partition,
        epoch=epoch,
        read_up_to=read_up_to,
        heard_within_seconds=heard_within_seconds,
        blocked=blocked,
        sent_at=now,
    )
    return event_of(renewed, source=writer.name, time=now)
