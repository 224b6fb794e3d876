"""Large batches let others in between: what is urgent waits for a few messages of another consumer, not for all."""

from __future__ import annotations

import asyncio

AT_A_STRETCH = 1
"""So many messages are read or handled one by one without a pause. A decision waits for some ten such pauses, one for
each word with PostgreSQL and the broker; with 2 of them on a slow machine (0.4 ms each) its intent took 19.9 ms at p50
and 49.5 at p99, with 1 16.8 and 43.4 (one run each). With 16, and hundreds of
acknowledgements without any, ensurance stood still for 8 to 37 ms 117 times in a minute of 2,000 reports/s, with 4 for
8 to 49 ms 48 times in 40 s. The acknowledgements of what is settled together (AT_ONCE) go out in one piece: with
pairs of them 18 % of ensurance's samples were in socket writes, and it took 0.192 core in place of 0.177 (one run
each, 150 reports/s). Where a batch is read whole (ingestion) pauses cost more than they give: 466 to 482 us a report,
422 without."""
AT_ONCE = 16
"""Where only the newest counts, so many messages of a batch are read, handled and settled before the next are read: a
handler that waits for nothing has half a millisecond of them, and what is settled is given back to memory. Hundreds of
messages of 22 kB freed at once stood for 5 to 10 ms."""


async def breathe(number: int, at_a_stretch: int = AT_A_STRETCH) -> None:
    """Let whatever else is ready go on, after so many messages; `number` counts those of a batch from 1."""
    if number % at_a_stretch == 0:
        await asyncio.sleep(0)
