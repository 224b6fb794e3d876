"""What an agent answered to a document, as its writer uses it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.events.intent_observed import READ_REFUSED, IntentObserved
from slackwater.intents.controls import Writer


@dataclass(frozen=True, slots=True)
class ObservedAnswer:
    """The node has carried out `generation`. `failures` are pods whose limit could not be set, with the limit in force
    there in milli-cores (None: unlimited or unknown); `memory_failures` the same for memory, in bytes. Those of
    `unread` and `memory_unread` among them could not be read back: what was in force may still be."""

    generation: int
    observed_at: datetime
    failures: tuple[tuple[str, int | None], ...] = ()
    memory_failures: tuple[tuple[str, int | None], ...] = ()
    unread: frozenset[str] = frozenset()
    memory_unread: frozenset[str] = frozenset()

    def is_current(self, generation: int) -> bool:
        """Whether it answers the newest document. An answer to an older one must not change the document."""
        return self.generation >= generation


def answer_to(writer: Writer, observed: IntentObserved) -> ObservedAnswer | None:
    """None for an answer to another writer."""
    if observed.writer != writer.name:
        return None
    failures = tuple((limit.pod_uid, limit.cpu_limit_milli) for limit in observed.limits if limit.error is not None)
    memory = tuple(
        (limit.pod_uid, limit.memory_high_bytes) for limit in observed.memory_limits if limit.error is not None
    )
    unread = frozenset(limit.pod_uid for limit in observed.limits if limit.error == READ_REFUSED)
    memory_unread = frozenset(limit.pod_uid for limit in observed.memory_limits if limit.error == READ_REFUSED)
    return ObservedAnswer(observed.generation, observed.observed_at, failures, memory, unread, memory_unread)
