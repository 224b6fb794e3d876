"""Removes a last value that cannot be decoded from its stream, once its dead letter is stored, or is counted as dropped
because its agent sends too many, so that no start reads it again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

from slackwater.bus.admin.streams import ConsumerSpec
from slackwater.bus.connect.access import API_PREFIX

REMOVE_SECONDS: Final = 1.0
Remove = Callable[[int], Awaitable[None]]
"""Removes the message at a position of a stream."""


def removal(client: Client, spec: ConsumerSpec, stream: str) -> Remove | None:
    """Returns what removes a message of a stream; None for a consumer that removes none. A newer message of the subject
    has another position and stays. If the broker does not answer, readers skip the message as before."""
    if not spec.removes_unread:
        return None

    async def remove(position: int) -> None:
        wanted = json.dumps({"seq": position, "no_erase": True}).encode()
        with suppress(NatsError, TimeoutError):
            await client.request(f"{API_PREFIX}.STREAM.MSG.DELETE.{stream}", wanted, timeout=REMOVE_SECONDS)

    return remove
