"""Large batches let others in between: what is urgent waits for a few messages of another consumer, not for all."""

from __future__ import annotations

import asyncio

AT_A_STRETCH = 16
"""So many messages are read, or handled one by one, without a pause: a millisecond or two. Where a batch is read whole
(ingestion) pauses cost more than they give: 466 to 482 us a report with them, 422 without."""


async def breathe(number: int) -> None:
    """Let whatever else is ready go on, after each AT_A_STRETCH messages; `number` counts those of a batch from 1."""
    if number % AT_A_STRETCH == 0:
        await asyncio.sleep(0)
