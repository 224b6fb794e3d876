"""Copies of JetStream streams including message positions, as `nats stream backup` and `restore`
make them.

Positions matter: prediction's snapshot in PostgreSQL names the last position of WINDOWS that it
contains. Consumers are not copied: they are declared anew and read everything again, and handled
events are deduplicated by id.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.model.errors import Conflict, Unavailable
from slackwater.runtime.owned_files import open_new

CHUNK_BYTES = 128 * 1024
CHUNK_SECONDS = 10.0
"""A broker that sends or acknowledges no chunk for this long is considered stopped."""
LOOK_SECONDS = 3.0
_NAME_IN_USE = 10130
_NO_SUCH_STREAM = 10059


@dataclass(frozen=True, slots=True)
class StreamCopy:
    """The content of a copied stream; `config` and `state` are the broker's own, for its
    restore.
    """

    name: str
    messages: int
    first_position: int
    last_position: int
    config: dict[str, Any]
    state: dict[str, Any]


async def copy_stream(client: Client, stream: str, file: Path) -> StreamCopy:
    """Write a stream to a file while it is in use. Raises Unavailable."""
    inbox = client.new_inbox()
    pieces: asyncio.Queue[Msg] = asyncio.Queue()

    async def take(message: Msg) -> None:
        await pieces.put(message)

    subscription = await client.subscribe(inbox, cb=take)
    try:
        request = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": CHUNK_BYTES, "jsck": True}
        answer = await _ask(client, f"$JS.API.STREAM.SNAPSHOT.{stream}", json.dumps(request).encode())
        with os.fdopen(open_new(file), "wb") as output:
            async with aclosing(_pieces(client, pieces, stream)) as arriving:
                async for piece in arriving:
                    output.write(piece)
    finally:
        await subscription.unsubscribe()
    return _described(stream, answer["config"], answer["state"])


async def _pieces(client: Client, arriving: asyncio.Queue[Msg], stream: str) -> AsyncGenerator[bytes, None]:
    while True:
        try:
            async with asyncio.timeout(CHUNK_SECONDS):
                message = await arriving.get()
        except TimeoutError:
            raise Unavailable(f"the broker stopped sending its copy of {stream}") from None
        status = (message.headers or {}).get("Status", "")
        if status.startswith(("4", "5")):
            raise Unavailable(
                f"the broker could not copy {stream}: {status} {(message.headers or {}).get('Description')}"
            )
        if not message.data:
            return
        yield message.data
        if message.reply:
            await client.publish(message.reply)


async def is_there(client: Client, stream: str) -> bool:
    """Returns whether the broker has a stream of this name. Raises Unavailable, also without
    permission to ask.
    """
    subject = f"$JS.API.STREAM.INFO.{stream}"
    try:
        message = await client.request(subject, b"", timeout=LOOK_SECONDS)
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"NATS does not answer {subject}: {error!r}") from error
    refusal = json.loads(message.data).get("error")
    if refusal is not None and refusal.get("err_code") != _NO_SUCH_STREAM:
        raise Unavailable(f"NATS refuses {subject}: {refusal.get('description')}")
    return refusal is None


async def restore_stream(client: Client, copy: StreamCopy, file: Path) -> None:
    """Create the stream from its copy. Raises Conflict when it exists, Unavailable."""
    # one replica, which every broker can keep; services raise it to what theirs has room for
    request = json.dumps({"config": copy.config | {"num_replicas": 1}, "state": copy.state}).encode()
    answer = await _ask(client, f"$JS.API.STREAM.RESTORE.{copy.name}", request)
    target: str = answer["deliver_subject"]
    with file.open("rb") as pieces:
        while piece := pieces.read(CHUNK_BYTES):
            await _ask(client, target, piece)
    await _ask(client, target, b"")


async def _ask(client: Client, subject: str, payload: bytes) -> dict[str, Any]:
    try:
        message = await client.request(subject, payload, timeout=CHUNK_SECONDS)
    except (NatsError, TimeoutError) as error:
        raise Unavailable(f"NATS does not answer {subject}: {error!r}") from error
    answer: dict[str, Any] = json.loads(message.data) if message.data else {}
    if (refusal := answer.get("error")) is not None:
        kind = Conflict if refusal.get("err_code") == _NAME_IN_USE else Unavailable
        raise kind(f"NATS refuses {subject}: {refusal.get('description')}")
    return answer


def _described(stream: str, config: dict[str, Any], state: dict[str, Any]) -> StreamCopy:
    return StreamCopy(stream, state["messages"], state["first_seq"], state["last_seq"], config, state)
