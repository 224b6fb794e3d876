"""eviction.completed: the outcome of an eviction, exactly one per eviction id."""

from __future__ import annotations

import uuid
from typing import ClassVar, Final

from slackwater.events.envelope import Payload
from slackwater.events.intent_declared import AGENT_WRITER, WRITERS
from slackwater.model.bounds import Moment, Name, Text
from slackwater.model.eviction_outcomes import EvictionOutcome as EvictionOutcome

_EVENT_IDS: Final = uuid.UUID("5d0e2f7e-6f0c-5c0f-8a53-8d8f8d1a6f10")


class EvictionCompleted(Payload):
    """The outcome of one eviction as observed by the agent, or in a cluster by the service kubernetes."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "eviction.completed"
    STREAM: ClassVar[str] = "AGENTS"
    FROM_AGENT: ClassVar[bool] = True
    AGENT_KEYS: ClassVar[tuple[str, ...]] = (*WRITERS, AGENT_WRITER)
    ALSO_FROM: ClassVar[frozenset[str]] = frozenset({"kubernetes"})  # where the API server evicts

    id: Name
    node: Name
    pod_uid: Name
    writer: Name
    outcome: EvictionOutcome
    detail: Text = ""
    completed_at: Moment
    decision_id: Name

    def key(self) -> str:
        return f"{self.node}/{self.writer}"

    def shard_key(self) -> str:
        return self.node


def completion_id(node: str, eviction: str, cause: str) -> str:
    """The event id of an eviction's completion: published twice, it is stored once.

    `cause` is the id of the intent that asked for it. It is random, and no other node reads it: an agent that could
    guess the id would publish under it first, and the broker would drop the true answer as a repeat.
    """
    return str(uuid.uuid5(_EVENT_IDS, f"{node}/{eviction}/{cause}"))
