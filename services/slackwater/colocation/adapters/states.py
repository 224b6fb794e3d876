"""A node's state as it is kept: what statements read as one document, what none reads as text beside it.

Pods and peaks are most of a state. As part of a jsonb they were parsed, compressed and taken apart again with every
window and every peak (decision 0053).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from slackwater.colocation.domain.node import KnownPeak, NodeState
from slackwater.colocation.domain.snapshot import PodUse
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.store.quarantine import Quarantine


class _Held(msgspec.Struct):
    pods: tuple[PodUse, ...] = ()
    peaks: Mapping[str, KnownPeak] = {}


_FACTS, _HELD = msgspec.json.Decoder(NodeState), msgspec.json.Decoder(_Held)
_ENCODER = msgspec.json.Encoder()
_YEAR_9999 = 253_370_764_800
_MOST = 2**62
"""Beyond, sums and generations no longer fit 64 bits."""


def kept_of(state: NodeState) -> tuple[str, str]:
    """The columns `facts` and `held`."""
    held = _Held(state.pods, state.peaks)
    return _ENCODER.encode(replace(state, pods=(), peaks={})).decode(), _ENCODER.encode(held).decode()


def facts_of(facts: str) -> NodeState:
    """The state without its pods and their peaks."""
    return _FACTS.decode(facts)


def state_of(facts: str, held: str) -> NodeState:
    """The state that `kept_of` has taken apart. Raises msgspec.ValidationError for what no state was written as."""
    found = _HELD.decode(held)
    return replace(_FACTS.decode(facts), pods=found.pods, peaks=found.peaks)


def readable_states(rows: Iterable[Any], quarantine: Quarantine) -> Iterator[NodeState]:
    """The states of rows with `node`, `facts` and `held`; those that cannot be read are noted and left out."""
    return _readable(rows, quarantine, lambda row: state_of(row.facts, row.held))


def readable_facts(rows: Iterable[Any], quarantine: Quarantine) -> Iterator[NodeState]:
    """The same of rows with `node` and `facts` alone."""
    return _readable(rows, quarantine, lambda row: facts_of(row.facts))


def _readable(rows: Iterable[Any], quarantine: Quarantine, read: Callable[[Any], NodeState]) -> Iterator[NodeState]:
    for row in rows:
        if quarantine.holds_node(row.node):
            continue
        try:
            state = _checked(row.node, read(row))
        except (ValueError, OverflowError, RecursionError) as error:
            unreadable = QuarantineReason.UNREADABLE
            quarantine.note("nodes", row.node, error, reason=unreadable, node=row.node, document=row.facts)
        else:
            yield state


def _checked(node: str, state: NodeState) -> NodeState:
    """Raises ValueError for a state of another node, for what it says would be decided under that name, and for times
    and amounts with which nothing can be decided."""
    if state.node != node:
        raise ValueError(f"the row of {node} holds the state of {state.node}")
    for name in ("window_end", "whole_end", "due_at"):
        if not 0 <= getattr(state, name) < _YEAR_9999:
            raise ValueError(f"{name} is {getattr(state, name)}, not seconds since 1970")
    for amount in (state.generation, state.capacity.cpu_milli, state.capacity.memory_bytes):
        if not 0 <= amount < _MOST:
            raise ValueError(f"{amount} is no generation or capacity")
    return state
