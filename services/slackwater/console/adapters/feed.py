"""Who is looking: an in-process feed with a short memory for resuming."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from slackwater.console.ports import News

_LOST = News(id="", type="lost", node="", data={"reason": "too slow, or away for too long: read the state again"})


class _Subscription:
    """One listener's bounded queue; when it is full the oldest goes and a `lost` marker takes its place."""

    def __init__(self, size: int) -> None:
        self._items: deque[News] = deque()
        self._size = size
        self._wake = asyncio.Event()
        self.closed = False

    def put(self, news: News) -> None:
        if len(self._items) >= self._size:
            self._items.popleft()
            self._items[0] = _LOST
        self._items.append(news)
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def get(self) -> News | None:
        """The next news, or None when closed."""
        while not self._items:
            if self.closed:
                return None
            self._wake.clear()
            await self._wake.wait()
        return self._items.popleft()


class LocalFeed:
    """See slackwater.console.ports.Feed. `memory` is how many news can be resumed from."""

    def __init__(self, memory: int = 1000, queue: int = 500) -> None:
        self._recent: deque[News] = deque(maxlen=memory)
        self._queue = queue
        self._listeners: set[_Subscription] = set()

    def publish(self, news: Sequence[News]) -> None:
        self._recent.extend(news)
        for listener in self._listeners:
            for each in news:
                listener.put(each)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    async def subscribe(self, after_id: str | None = None) -> AsyncIterator[News]:
        mine = _Subscription(self._queue)
        for each in self._since(after_id):
            mine.put(each)
        self._listeners.add(mine)
        try:
            while (news := await mine.get()) is not None:
                yield news
        finally:
            self._listeners.discard(mine)

    def _since(self, after_id: str | None) -> list[News]:
        if after_id is None:
            return []
        recent = list(self._recent)
        for index, each in enumerate(recent):
            if each.id == after_id:
                return recent[index + 1 :]
        return [_LOST]

    def close(self) -> None:
        """End every subscription; new ones may follow (a service that failed is started again)."""
        for listener in self._listeners:
            listener.close()
