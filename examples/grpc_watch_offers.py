"""How a scheduler uses Slackwater: know the nodes, hold the offers, follow every change, survive a broken connection.

    python examples/grpc_watch_offers.py 127.0.0.1:8461
    python examples/grpc_watch_offers.py slackwater.example:8461 --ca ca.pem --token-file token --pool web

Needs only the package `slackwater` (or stubs generated from contracts/proto). One line per thing that happens.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import grpc
import grpc.aio

from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs
from slackwater.v1 import offer_pb2

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 5.0
# Worth another attempt with the same token; anything else (a wrong token, no permission) needs a person.
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED}


class Offers:
    """What a scheduler keeps: the offer in force of every node, and where to go on."""

    def __init__(self) -> None:
        self.by_node: dict[str, offer_pb2.Offer] = {}
        self.resume_token = ""

    def take(self, message: api.WatchOffersResponse) -> None:
        """Handle one message, and only then keep its token: what was not handled comes again."""
        kind = message.WhichOneof("event")
        if kind == "snapshot_start":
            self.by_node.clear()  # everything follows
            print("snapshot", api.SnapshotReason.Name(message.snapshot_start.reason), flush=True)
        elif kind == "offer":
            offer = message.offer
            self.by_node[offer.node] = offer
            why = offer.decision_ids.get("batch-cpu", "-")
            amounts = f"cpu={offer.batch.cpu_milli}m memory={offer.batch.memory_bytes}B"
            print("offer", offer.node, f"generation={offer.generation}", amounts, f"why=decision/{why}", flush=True)
        elif kind == "offer_withdrawn":
            self.by_node.pop(message.offer_withdrawn.node, None)
            print("withdrawn", message.offer_withdrawn.node, flush=True)
        elif kind == "bookmark":
            # Nothing is missing, and all offers held may be relied upon until `valid_until`.
            print(
                "current", f"offers={len(self.by_node)}", f"as_of={message.bookmark.as_of.ToJsonString()}", flush=True
            )
        self.resume_token = message.resume_token


async def follow(service: stubs.ColocationServiceStub, offers: Offers, pool: str, metadata: grpc.aio.Metadata) -> None:
    """Watch for ever; after a broken connection go on behind the last message that was handled."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        request = api.WatchOffersRequest(pool=pool, resume_token=offers.resume_token, bookmark_interval_seconds=1)
        try:
            async for message in service.WatchOffers(request, metadata=metadata):
                offers.take(message)
                pause = FIRST_PAUSE_SECONDS
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            print("broken", error.code().name, flush=True)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def print_nodes(service: stubs.ColocationServiceStub, pool: str, metadata: grpc.aio.Metadata) -> None:
    """All pages of the list."""
    request = api.ListNodesRequest(pool=pool)
    while True:
        answer = await service.ListNodes(request, metadata=metadata, timeout=60, wait_for_ready=True)
        for node in answer.nodes:
            print("node", node.name, f"pool={node.pool}", f"cpu={node.capacity.cpu_milli}m", flush=True)
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


async def run(target: str, token: str, authorities: bytes | None, pool: str) -> None:
    metadata = grpc.aio.Metadata(*([("authorization", f"Bearer {token}")] if token else []))
    # Keepalive notices a server that vanished without a word; short backoff finds it soon when it is back.
    options = [("grpc.keepalive_time_ms", 20_000), ("grpc.max_reconnect_backoff_ms", 2_000)]
    if authorities is None:
        channel = grpc.aio.insecure_channel(target, options)
    else:
        channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authorities), options)
    async with channel:
        service = stubs.ColocationServiceStub(channel)
        await print_nodes(service, pool, metadata)
        await follow(service, Offers(), pool, metadata)


def main() -> None:
    parser = argparse.ArgumentParser(description="Follow the offers of a Slackwater.")
    parser.add_argument("target", help="HOST:PORT, as `slackwater up` prints it behind `grpc`")
    parser.add_argument("--pool", default="", help="only nodes of this pool")
    parser.add_argument("--token-file", type=Path, help="a token of role viewer")
    parser.add_argument("--ca", type=Path, help="certificates to trust; without it the connection is not encrypted")
    given = parser.parse_args()
    token = given.token_file.read_text().strip() if given.token_file else ""
    authorities = given.ca.read_bytes() if given.ca else None
    try:
        asyncio.run(run(given.target, token, authorities, given.pool))
    except KeyboardInterrupt:
        pass
    except grpc.aio.AioRpcError as error:
        raise SystemExit(f"{error.code().name}: {error.details()}") from None


if __name__ == "__main__":
    main()
