"""What readers without a consumer cannot read. They have no dead letters, and the last value of a subject is delivered
again at each start: it is skipped, named once, and counted.

A skipped value costs a check of its bytes at each start, unless a consumer has buried and removed it
(decision 0068).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.codec.decoder import decode_message
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, Payload
from slackwater.events.rosters import FindRoster, no_roster
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import Meters

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)

MOST_SUBJECTS: Final = 1000
SHOWN: Final = 5


class UnreadSubjects:
    """The subjects whose last message was skipped, with the reason; at most MOST_SUBJECTS, the newest. One per bus."""

    def __init__(self, meters: Meters) -> None:
        self._unread = meters.counter(
            "slackwater_bus_unread_total",
            "Messages that a reader without a consumer skipped: a watch, a broadcast, a last value.",
            ["event", "reason"],
            look="Growth: see the check bus-unread in /readyz for the subjects.",
        )
        self._subjects = meters.gauge(
            "slackwater_bus_unread_messages",
            "Last values that were skipped, and that nothing readable has replaced.",
            look="Above 0 for minutes: the check bus-unread in /readyz names them.",
        )
        self._reasons: OrderedDict[str, str] = OrderedDict()

    def decoded(self, payload: type[P], message: Message, find: FindRoster = no_roster) -> Event[P] | None:
        """Returns the event in a message; None if it cannot be read, which is logged once for its subject. Raises
        RosterMissing; Unavailable when the machine is out of memory."""
        try:
            event = decode_message(message.subject, payload, message.headers, message.body, find=find)
        except Undecodable as error:
            self._note(payload, message.subject, error)
            return None
        if self._reasons and self._reasons.pop(message.subject, None) is not None:
            self._subjects.set(len(self._reasons))
        return event

    def text(self) -> str:
        """Returns the subjects for a check; empty if all was read."""
        if not self._reasons:
            return ""
        named = [f"{subject} ({reason})" for subject, reason in list(self._reasons.items())[-SHOWN:]]
        more = f" and {len(self._reasons) - SHOWN} more" if len(self._reasons) > SHOWN else ""
        return f"skipped, because they cannot be read: {', '.join(named)}{more}"

    def _note(self, payload: type[Payload], subject: str, error: Undecodable) -> None:
        self._unread.labels(payload.TYPE, error.code).inc()
        if subject not in self._reasons:
            log.warning("unreadable message skipped", type=payload.TYPE, subject=subject, error=error.message)
        self._reasons[subject] = error.code
        self._reasons.move_to_end(subject)
        while len(self._reasons) > MOST_SUBJECTS:
            self._reasons.popitem(last=False)
        self._subjects.set(len(self._reasons))
