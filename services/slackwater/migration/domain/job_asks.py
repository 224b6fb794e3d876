"""What was asked of the service beside documents: jobs that were proposed, and jobs that are to be aborted."""

from __future__ import annotations

from slackwater.model.records import record
from slackwater.podmigration.documents import JobRequest


@record(frozen=True, slots=True)
class JobAsk:
    """A proposed job (`request`), or the end of the job `name`. Kept until a round takes it in."""

    name: str
    asked_s: float
    request: JobRequest | None = None

    @property
    def key(self) -> str:
        """One job is proposed once and aborted once."""
        return f"{'abort' if self.request is None else 'propose'}/{self.name}"
