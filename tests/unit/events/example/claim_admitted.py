"""claim.admitted: the example of docs/how-to/add-an-event.md. No service publishes it."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Moment, Name


class ClaimAdmitted(Payload):
    """A quota admitted a claim."""

    TYPE: ClassVar[str] = "claim.admitted"
    STREAM: ClassVar[str] = "DECISIONS"
    LISTED: ClassVar[bool] = True

    quota: Name
    claim: Name
    position: Count
    admitted_at: Moment

    def key(self) -> str:
        return self.quota
