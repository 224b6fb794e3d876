"""Every decision and its effect, from NATS: `python examples/subscribe.py nats://127.0.0.1:4222 [COUNT]`."""

import asyncio
import sys

import nats
from nats.js.api import AckPolicy, ConsumerConfig


async def main(url: str, count: float) -> None:
    connection = await nats.connect(url)
    subjects = ["sw.v1.decision.recorded.>", "sw.v1.effect.measured.>"]
    wanted = ConsumerConfig(filter_subjects=subjects, ack_policy=AckPolicy.NONE, inactive_threshold=60)
    events = await connection.jetstream().pull_subscribe("", stream="DECISIONS", config=wanted)
    while count > 0:
        for message in await events.fetch(1, timeout=60):
            print((message.headers or {})["ce-type"], message.data.decode(), flush=True)
            count -= 1
    await connection.close()


if len(sys.argv) < 2:
    sys.exit(f"{__doc__}\n`slackwater up` records the address as nats_url in .slackwater/endpoint.json")
asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")))
