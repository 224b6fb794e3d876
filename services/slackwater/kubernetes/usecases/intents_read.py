"""The newest document of each node and writer, and the nodes whose evictions are the API server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.intents.document import is_older
from slackwater.kubernetes.domain.eviction_plan import TrackedEviction


class IntentsRead:
    """Level-triggered: only the newest document of a node and writer counts, and after a restart all are read again. Of
    a document only evictions and what orders it are kept."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._documents: dict[str, dict[str, Event[IntentDeclared]]] = {}
        self._served: set[str] = set()

    async def declare(self, event: Event[IntentDeclared]) -> None:
        """Keep a document unless a newer one is known."""
        document = event.data
        held = self._documents.setdefault(document.node, {})
        known = held.get(document.writer)
        if known is not None and is_older(document, known.data):
            return
        kept = {"throttles": (), "memory_throttles": (), "waterlines": (), "rules": ""}
        held[document.writer] = event.model_copy(update={"data": document.model_copy(update=kept)})
        if document.evictions or (known is not None and known.data.evictions):
            self._changed()

    async def describe(self, event: Event[NodeDescribed]) -> None:
        """Note whether the evictions of a node are the API server's."""
        facts = event.data.facts
        if facts.is_evicted_by_api_server == (facts.name in self._served):
            return
        (self._served.add if facts.is_evicted_by_api_server else self._served.discard)(facts.name)
        self._changed()

    def serves(self, node: str) -> bool:
        """Whether the API server evicts the pods of this node."""
        return node in self._served

    def nodes(self) -> Iterable[str]:
        """The served nodes of which evictions are wanted."""
        return (node for node in self._served if any(event.data.evictions for event in self._of(node)))

    def wanted(self, node: str) -> tuple[TrackedEviction, ...]:
        """The evictions of a node in the newest document of every writer."""
        return tuple(
            TrackedEviction(
                id=eviction.id,
                pod_uid=eviction.pod_uid,
                writer=event.data.writer,
                decision_id=eviction.decision_id,
                grace_seconds=eviction.grace_seconds,
                deadline=eviction.deadline,
                waits=eviction.waits,
                cause=event.id,
                traceparent=event.traceparent or "",
            )
            for event in self._of(node)
            for eviction in event.data.evictions
        )

    def may_begin(self, node: str) -> frozenset[str]:
        """Writers that have not released the node: a writer that receives no reports of it evicts nothing there."""
        return frozenset(event.data.writer for event in self._of(node) if event.data.lease_seconds > 0)

    def _of(self, node: str) -> Iterable[Event[IntentDeclared]]:
        return self._documents.get(node, {}).values()
