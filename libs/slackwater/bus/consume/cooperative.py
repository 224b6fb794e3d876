"""Yields to the event loop within large batches, so that urgent work waits for a few messages and
not for a whole batch; and pauses of a reader that is flooded.
"""

from __future__ import annotations

import asyncio

AT_A_STRETCH = 1
"""Messages read or handled one by one between two yields.

A decision waits for about ten such pauses, one for each exchange with PostgreSQL and the broker. On
a slow machine (0.4 ms per message) an intent took 19.9 ms at p50 and 49.5 ms at p99 with 2, and
16.8 and 43.4 ms with 1 (one run each). With 16, and hundreds of acknowledgements without a yield,
ensurance stalled for 8 to 37 ms 117 times in a minute of 2,000 reports/s; with 4, for 8 to 49 ms 48
times in 40 s.

Acknowledgements of messages settled together (AT_ONCE) are sent without a yield: in pairs, 18 % of
ensurance's samples were in socket writes, and it took 0.192 core instead of 0.177 (one run each,
150 reports/s). Where a batch is read whole (ingestion) yields cost more than they give: 466 to 482
us per report, 422 without.
"""
AT_ONCE = 16
"""Messages read, handled and settled before the next are read, where only the newest value counts.

A handler that does not wait takes half a millisecond for them, and settled messages are freed at
once. Freeing hundreds of messages of 22 kB together stalled the loop for 5 to 10 ms.
"""


FLOOD_PAUSE_SECONDS = 0.1
"""A reader that leaves most of a batch unread pauses before the next one. Without a pause each reader of a flood takes
all the CPU it can get, to read and drop; with it, the broker drops what newer messages replace (a stream keeps 60
reports of a node).
"""


def is_flood(unread: int, messages: int) -> bool:
    """Returns whether most of a batch was left unread."""
    return 2 * unread > messages


async def yield_between(number: int, at_a_stretch: int = AT_A_STRETCH) -> None:
    """Yield to the event loop after every `at_a_stretch` messages; `number` counts those of a batch
    from 1.
    """
    if number % at_a_stretch == 0:
        await asyncio.sleep(0)
