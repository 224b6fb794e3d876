"""What comes while no lease of ours counts goes back, slowly, and is no attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.bus.consume.partition_ownership import RETURN_SECONDS, Unsettled
from slackwater.bus.consume.settlement import Delivery


@dataclass
class Message:
    """As the broker hands it out, once more each time."""

    subject: str = "sw.v1.intent.observed.0.node"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    deliveries: int = 0
    stream_sequence: int = 7
    stored_at_seconds: float = 0.0
    pending: int = 0
    given_back_for: list[float] = field(default_factory=list)

    async def ack(self) -> None: ...

    async def nak(self, delay_seconds: float) -> None:
        self.given_back_for.append(delay_seconds)

    async def term(self) -> None: ...

    async def in_progress(self) -> None: ...


async def test_an_outage_of_the_leases_is_no_attempt_and_no_busy_loop() -> None:
    seen: list[int] = []
    held = False

    async def settle(batch: Sequence[Delivery]) -> None:
        seen.extend(one.deliveries for one in batch)

    in_hand, message = Unsettled(settle, lambda _: held), Message()
    for _ in range(100):
        message.deliveries += 1
        await in_hand.settle([message])
    assert message.given_back_for == [0, *[RETURN_SECONDS] * 99]
    held = True
    for _ in range(2):  # from now on each counts
        message.deliveries += 1
        await in_hand.settle([message])
    assert seen == [1, 2]
