"""Events as a client reads them (GET /v1/stream, server-sent events): parsed, and resumed where a connection ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STREAM = "/v1/stream"
SILENCE_SECONDS = 60.0
"""Four heartbeats: a connection without data for this long is dead."""
PAUSE_SECONDS = 2.0
CLOSING = "closing"


def names_text(names: Sequence[str] | str) -> str | None:
    """The parameter of several names; one name may be given by itself. None for no name."""
    return (names if isinstance(names, str) else ",".join(names)) or None


@dataclass(frozen=True, slots=True)
class WatchedEvent:
    """One event. Pass `place` as `after` to resume after it. `type` is also `gap` (what followed is not kept any more:
    read the state again) or `closing`; `data` has the event's attributes and, under `data`, its payload.
    """

    place: str
    type: str
    data: Mapping[str, Any]


@dataclass(slots=True)
class EventParser:
    """Makes events of the lines of a stream; an event without data only advances the place and has an empty type."""

    _place: str = ""
    _type: str = ""
    _data: str = ""

    def feed(self, line: str) -> WatchedEvent | None:
        """The event that this line ends; None before."""
        name, _, value = line.partition(": ")
        if name == "id":
            self._place = value
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data = value
        elif line == "":
            event = WatchedEvent(
                self._place, self._type if self._data else "", json.loads(self._data) if self._data else {}
            )
            self._type, self._data = "", ""
            return event
        return None


@dataclass(slots=True)
class Position:
    """Where a reader of the stream is: what it asks for, and after which event it resumes."""

    params: Mapping[str, Any]
    place: str = ""
    opened: bool = field(default=False)
    """Whether the stream has answered: an error before is an error of the request."""

    def request(self) -> dict[str, Any]:
        """Parameters and headers of the next connection."""
        if not self.place:
            return {"params": dict(self.params), "headers": {}}
        params = {name: value for name, value in self.params.items() if name != "since"}
        return {"params": params, "headers": {"Last-Event-ID": self.place}}

    def advance(self, event: WatchedEvent) -> None:
        self.opened = True
        self.place = event.place or self.place
