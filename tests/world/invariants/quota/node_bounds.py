"""Between which amounts a reader of node events can take the pools to be, if readers know different events.

A broker whose power fails loses its last messages: a reader that has had them keeps them, one that starts later reads
what was stored before. And a reader whose clock is wrong takes a cordon for lapsed that holds, or the other way round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.events.envelope import Payload
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.fairshare.tree import Amounts
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources

STREAM = "STATE"


@dataclass(slots=True)
class _Stored:
    at: float
    sequence: int
    payload: Any
    is_lost: bool = False


class NodeEvents:
    """What was stored of each node, and what of it the broker has lost."""

    def __init__(self) -> None:
        self._stored: dict[str, dict[type[Payload], list[_Stored]]] = {}
        self._last_sequence = 0
        self.has_lost = False

    def note(self, at: float, sequence: int, node: str, payload: Payload) -> None:
        """Add an event that was stored under this number of its stream."""
        self._stored.setdefault(node, {}).setdefault(type(payload), []).append(_Stored(at, sequence, payload))

    def note_end(self, sequence: int) -> None:
        """The stream ends with this number now: what was stored under a greater one is lost."""
        if sequence < self._last_sequence:
            self.has_lost = True
            for of_node in self._stored.values():
                for event in (event for events in of_node.values() for event in events):
                    event.is_lost = event.is_lost or event.sequence > sequence
        self._last_sequence = sequence

    def bounds(self, since: float) -> tuple[Amounts, Amounts]:
        """Returns the least and the most that all pools have for a reader of events that were the newest of their kind
        after `since`, or are for one that lacks what is lost. Cordons may have lapsed or not."""
        least: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for of_node in self._stored.values():
            known = {kind: _known(events, since) for kind, events in of_node.items()}
            described = [event for event in known.get(NodeDescribed, ()) if event is not None]
            amounts = [_amounts(about, offer) for about in described for offer in known.get(ResourcesOffered, [None])]
            for key in amounts[0] if amounts else ():
                most[key] += max(each[key] for each in amounts)
                least[key] += 0 if _may_be_out(known) else min(each[key] for each in amounts)
        return least, most


def _known(events: list[_Stored], since: float) -> list[Any]:
    """What readers can know: the newest of then with and without what is lost, and everything since. None: nothing."""
    before = [event for event in events if event.at <= since]
    newest = [before[-1].payload if before else None]
    kept = [event.payload for event in before if not event.is_lost]
    return [*newest, kept[-1] if kept else None, *(event.payload for event in events if event.at > since)]


def _may_be_out(known: Mapping[type[Payload], list[Any]]) -> bool:
    """Whether a node may count for nothing."""
    return (
        None in known[NodeDescribed]
        or any(known.get(NodeDeleted, ()))
        or any(event and event.liveness is Liveness.LOST for event in known.get(NodeLivenessChanged, ()))
        or any(event and event.closed for event in known.get(NodeSchedulingChanged, ()))
    )


def _amounts(described: NodeDescribed, offered: ResourcesOffered | None) -> Amounts:
    allocatable = (described.facts.capacity - described.facts.reserved).at_least_zero()
    mid, batch = (Resources(), Resources()) if offered is None else (offered.mid, offered.batch)
    return {
        f"{prefix}{resource}": amount
        for prefix, each in (("", allocatable), ("mid-", mid), ("batch-", batch))
        for resource, amount in (("cpu", each.cpu_milli), ("memory", each.memory_bytes))
    }
