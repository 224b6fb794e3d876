"""The end of a stream, restricted to some event types or one subject."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeVar

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import APIError, NotFoundError

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.port import StreamHead
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.envelope import Event, Payload, subjects_of
from slackwater.model.errors import Unavailable

P = TypeVar("P", bound=Payload)


async def stream_head(js: JetStreamContext, payloads: Sequence[type[Payload]]) -> StreamHead:
    """See slackwater.bus.port.Bus.mark. Raises Unavailable."""
    stream = payloads[0].STREAM
    try:
        created = (await js.stream_info(stream)).created
        ends = [await _end(js, stream, subjects_of(payload)) for payload in payloads]
    except (NatsError, APIError, TimeoutError) as error:
        raise Unavailable(f"the end of {stream} cannot be read now: {error!r}") from error
    return StreamHead(created.isoformat() if created else "", max(ends))


async def _end(js: JetStreamContext, stream: str, subjects: str) -> int:
    try:
        return (await js.get_last_msg(stream, subjects)).seq or 0
    except NotFoundError:
        return 0


async def latest_of(
    js: JetStreamContext, payload: type[P], subjects: Iterable[str], blocks: Blocks, unread: UnreadSubjects
) -> Event[P] | None:
    """Returns the last event on these subjects: see slackwater.bus.port.Bus.latest. Raises Unavailable."""
    found: list[tuple[int, Message]] = []
    for subject in subjects:
        try:
            last = await js.get_last_msg(payload.STREAM, subject)
        except NotFoundError:
            continue
        except (NatsError, APIError, TimeoutError) as error:
            raise Unavailable(f"the last {payload.TYPE} on {subject} cannot be read now: {error!r}") from error
        found.append((last.seq or 0, Message(last.subject or "", last.headers or {}, last.data or b"")))
    return latest_in(payload, found, blocks, unread)


def latest_in(
    payload: type[P], found: Iterable[tuple[int, Message]], blocks: Blocks, unread: UnreadSubjects
) -> Event[P] | None:
    """Returns the event with the highest position, without those of a blocked agent; None if it cannot be decoded."""
    shown = [one for one in found if not blocks.hides(payload, one[1].subject)]
    return unread.decoded(payload, max(shown, key=itemgetter(0))[1]) if shown else None
