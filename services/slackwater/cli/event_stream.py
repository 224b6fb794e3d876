"""Server-sent events as a client reads them: parsed, and resumed automatically when the connection ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.cli.answers import answer_of
from slackwater.model.errors import Unavailable

if TYPE_CHECKING:
    import httpx2

STREAM = "/v1/stream"
SILENCE_SECONDS = 60.0
"""Four heartbeats: a connection without data for this long is dead."""
PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One event. Send `place` as Last-Event-ID to resume after it."""

    place: str
    name: str
    data: Mapping[str, Any]


def parsed(lines: Iterable[str]) -> Iterator[Sent]:
    """Events parsed from lines; an event without data only advances the position and has an empty name."""
    place, name, data = "", "", ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "id":
            place = value
        elif field == "event":
            name = value
        elif field == "data":
            data = value
        elif line == "":
            yield Sent(place, name if data else "", json.loads(data) if data else {})
            name, data = "", ""


@dataclass(slots=True)
class Follower:
    """Reads the stream of a running instance, and resumes after the last event when a connection ends.

    `notify` receives every lost connection. An error before the first answer is raised; later errors are retried.
    """

    client: httpx2.Client
    params: Mapping[str, Any]
    notify: Callable[[str], None]
    place: str = ""
    pause_seconds: float = PAUSE_SECONDS

    def __iter__(self) -> Iterator[Sent]:
        opened = False
        while True:
            try:
                for sent in self._once():
                    opened = True
                    self.place = sent.place or self.place
                    if sent.name:
                        yield sent
                    if sent.name == "closing":
                        break
            except Unavailable as error:
                if not opened:
                    raise
                self.notify(f"{error.message}; reconnecting")
            time.sleep(self.pause_seconds)

    def _once(self) -> Iterator[Sent]:
        import httpx2

        headers = {"Last-Event-ID": self.place} if self.place else {}
        params = self.params if not self.place else {k: v for k, v in self.params.items() if k != "since"}
        try:
            with self.client.stream("GET", STREAM, params=params, headers=headers, timeout=SILENCE_SECONDS) as response:
                if response.is_error:
                    response.read()
                    answer_of(response)
                yield from parsed(response.iter_lines())
        except httpx2.HTTPError as error:
            raise Unavailable(
                f"the stream of {self.client.base_url} ended: {str(error) or type(error).__name__}"
            ) from None
