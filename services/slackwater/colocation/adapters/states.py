"""A node's state as it is kept: what statements read as one document, what none reads as text beside it.

Pods and peaks are most of a state. As part of a jsonb they were parsed, compressed and taken apart again with every
window and every peak (decision 0053).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from slackwater.colocation.domain.node import KnownPeak, NodeState
from slackwater.colocation.domain.snapshot import PodUse
from slackwater.store.keyed import UNREADABLE, Column, KeyedTable, note_unreadable
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


def readable_facts(rows: Iterable[Any], quarantine: Quarantine) -> Iterator[NodeState]:
    """The facts of rows with `node` and `facts`; those that cannot be read are noted and left out."""
    for row in rows:
        if quarantine.holds_node(row.node):
            continue
        try:
            state = checked(row.node, facts_of(row.facts))
        except UNREADABLE as error:
            note_unreadable(NODE_STATES, row.node, error, row.facts, quarantine)
        else:
            yield state


def checked(node: str, state: NodeState) -> NodeState:
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


def _columns(state: NodeState) -> tuple[str, str, int, int, bool]:
    return (*kept_of(state), state.window_end, state.due_at, state.offers_something)


NODE_STATES: Final[KeyedTable[NodeState]] = KeyedTable(
    name="nodes",
    key="node",
    columns=(
        Column("facts", "jsonb", as_text=True),
        Column("held", "text"),
        Column("window_end", "bigint", write_only=True),
        Column("due_at", "bigint", write_only=True),
        Column("offers", "boolean", write_only=True),
    ),
    key_of=lambda state: state.node,
    encode=_columns,
    decode=lambda row: checked(row.node, state_of(row.facts, row.held)),
    empty=NodeState,
    touched="changed_at",
)
