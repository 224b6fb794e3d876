"""Blocked agents: consumers of agent events acknowledge the messages of a blocked agent unread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from slackwater.bus.codec.cloudevents import subject_key
from slackwater.bus.consume.metrics import ConsumerMeter
from slackwater.bus.consume.stats import Counters
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Payload, is_of_agent

if TYPE_CHECKING:
    from slackwater.bus.consume.settlement import Delivery

HOLD_SECONDS = 30.0
"""Seconds until the last value of a blocked node is delivered again, and so the delay after an
unblock.
"""


class Blocks:
    """The last known block of each node, in force or lifted. One per connection to the bus."""

    def __init__(self) -> None:
        self._last: dict[str, AgentBlockChanged] = {}

    def note(self, change: AgentBlockChanged) -> None:
        """Apply a change. Changes of one node arrive in the order in which they were made."""
        self._last[change.node] = change

    def in_force(self) -> Mapping[str, AgentBlockChanged]:
        """The blocks of agents that are blocked now, by node."""
        return {node: change for node, change in sorted(self._last.items()) if change.blocked}

    def nodes(self) -> Sequence[str]:
        """The nodes whose agents are or were blocked."""
        return sorted(self._last)

    def last(self, node: str) -> AgentBlockChanged | None:
        """The last change of a node; None if its agent was never blocked."""
        return self._last.get(node)

    def hides(self, payload: type[Payload], subject: str) -> bool:
        """Returns whether an event of this type with this subject came from an agent that is blocked now."""
        if self.is_empty or not is_of_agent(payload, subject):
            return False
        change = self._last.get(_node_in(subject))
        return change is not None and change.blocked

    @property
    def is_empty(self) -> bool:
        """Returns whether no agent was ever blocked, so that messages need no check."""
        return not self._last


@runtime_checkable
class WithBlocks(Protocol):
    """A bus that knows which agents are blocked."""

    @property
    def blocks(self) -> Blocks: ...


def blocks_of(bus: object) -> Blocks:
    """Returns the blocks that a bus knows; empty for a bus that does not track them."""
    return bus.blocks if isinstance(bus, WithBlocks) else Blocks()


class BlockGate:
    """Settles the messages of blocked agents for one consumer.

    They are acknowledged unread and counted. In a stream that keeps one value per subject
    (`keeps_last`) the message is held instead: agents describe their node only on a change, so the
    value must still exist when the agent is unblocked. Deliveries spent on holding do not count
    against the message afterwards.
    """

    def __init__(
        self,
        payload: type[Payload],
        blocks: Callable[[], Blocks],
        counters: Counters,
        meter: ConsumerMeter,
        *,
        keeps_last: bool,
    ) -> None:
        self._blocks = blocks
        self._counters = counters
        self._meter = meter
        self._keeps_last = keeps_last
        self._payload = payload
        self._held: dict[int, int] = {}
        """Deliveries by stream position, up to and including the one that first found the agent
        unblocked.
        """

    def unreadable(self, delivery: Delivery) -> None:
        """Implements Gate: a block does not depend on it."""

    async def admit(self, batch: Sequence[Delivery]) -> Sequence[Delivery]:
        """Returns the messages to handle; the others are settled."""
        if (blocks := self._blocks()).is_empty:
            return batch
        admitted: list[Delivery] = []
        for delivery in batch:
            change = blocks.last(_node_in(delivery.subject))
            if change is None or not is_of_agent(self._payload, delivery.subject):
                admitted.append(delivery)
            elif change.blocked:
                await self._leave_unread(delivery)
            else:
                admitted.append(self._released(delivery))
        return admitted

    async def _leave_unread(self, delivery: Delivery) -> None:
        if self._keeps_last:
            self._held.pop(delivery.stream_sequence, None)
            await delivery.nak(HOLD_SECONDS)
            return
        self._counters.done += 1
        self._meter.blocked()
        await delivery.ack()

    def _released(self, delivery: Delivery) -> Delivery:
        if not self._keeps_last or delivery.deliveries == 1:
            return delivery
        held = self._held.setdefault(delivery.stream_sequence, delivery.deliveries - 1)
        return ReleasedDelivery(delivery, held)


def _node_in(subject: str) -> str:
    return subject_key(subject).split("/", 1)[0]


class ReleasedDelivery:
    """A delivery whose count excludes the `held` deliveries made while its agent was blocked."""

    __slots__ = ("_delivery", "_held")

    def __init__(self, delivery: Delivery, held: int) -> None:
        self._delivery = delivery
        self._held = held

    @property
    def subject(self) -> str:
        return self._delivery.subject

    @property
    def headers(self) -> Mapping[str, str]:
        return self._delivery.headers

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def deliveries(self) -> int:
        return max(1, self._delivery.deliveries - self._held)

    @property
    def stream_sequence(self) -> int:
        return self._delivery.stream_sequence

    @property
    def stored_at_seconds(self) -> float:
        return self._delivery.stored_at_seconds

    @property
    def is_current(self) -> bool:
        return self._delivery.is_current

    @property
    def pending(self) -> int:
        return self._delivery.pending

    async def ack(self) -> None:
        await self._delivery.ack()

    async def nak(self, delay_seconds: float) -> None:
        await self._delivery.nak(delay_seconds)

    async def term(self) -> None:
        await self._delivery.term()

    async def in_progress(self) -> None:
        await self._delivery.in_progress()
