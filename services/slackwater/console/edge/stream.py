"""Server-sent events: one frame per news, a comment as heartbeat when nothing happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from slackwater.console.ports import Feed, News
from slackwater.model.time import Clock

RETRY_MILLISECONDS = 2000


def frame(news: News) -> bytes:
    """One event frame. JSON holds no raw line breaks, so one data line is enough."""
    data = json.dumps({"type": news.type, "node": news.node, "data": news.data}, default=str, separators=(",", ":"))
    head = f"id: {news.id}\n" if news.id else ""
    return f"{head}event: {news.type}\ndata: {data}\n\n".encode()


async def server_sent_events(
    feed: Feed, clock: Clock, types: frozenset[str], node: str | None, after_id: str | None, heartbeat_seconds: float
) -> AsyncIterator[bytes]:
    """Frames of the news that pass the filters (empty = all types), until the feed closes or the client goes.

    A `lost` event is never filtered out: it tells the client to read the state again.
    """
    yield f"retry: {RETRY_MILLISECONDS}\n: open\n\n".encode()
    news_of = feed.subscribe(after_id)
    arriving = asyncio.ensure_future(anext(news_of, None))
    try:
        while True:
            if not await _before_heartbeat(arriving, clock, heartbeat_seconds):
                yield b": alive\n\n"
                continue
            news = arriving.result()
            if news is None:
                return
            arriving = asyncio.ensure_future(anext(news_of, None))
            if news.type == "lost" or ((not types or news.type in types) and node in (None, news.node)):
                yield frame(news)
    finally:
        arriving.cancel()
        await asyncio.gather(arriving, return_exceptions=True)


async def _before_heartbeat(arriving: asyncio.Future[News | None], clock: Clock, seconds: float) -> bool:
    if arriving.done():
        return True
    beat = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((arriving, beat), return_when=asyncio.FIRST_COMPLETED)
    finally:
        beat.cancel()
    return arriving.done()
