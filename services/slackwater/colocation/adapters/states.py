"""Encodes a node's state: what SQL statements read as JSONB, the rest as text beside it.

Pods and peaks are most of a state. As part of the JSONB they were parsed, compressed and decompressed again with every
window and every peak (decision 0012).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from slackwater.offers.node import KnownPeak, NodeState
from slackwater.offers.snapshot import PodInput
from slackwater.store.keyed import UNREADABLE, KeyedTable, RowColumn, note_unreadable
from slackwater.store.quarantine import Quarantine


class _Held(msgspec.Struct):
    pods: tuple[PodInput, ...] = ()
    peaks: Mapping[str, KnownPeak] = {}


_FACTS, _HELD = msgspec.json.Decoder(NodeState), msgspec.json.Decoder(_Held)
_ENCODER = msgspec.json.Encoder()
_YEAR_9999 = 253_370_764_800
_MOST = 2**62
"""Larger values are refused because sums and generations must fit 64 bits."""


def kept_of(state: NodeState) -> tuple[str, str]:
    """Returns the columns `facts` and `held`."""
    held = _Held(state.pods, state.peaks)
    return _ENCODER.encode(replace(state, pods=(), peaks={})).decode(), _ENCODER.encode(held).decode()


def facts_of(facts: str) -> NodeState:
    """Decodes the state without its pods and their peaks."""
    return _FACTS.decode(facts)


def state_of(facts: str, held: str) -> NodeState:
    """Decodes the state from both columns. Raises msgspec.ValidationError for invalid documents."""
    held_parts = _HELD.decode(held)
    return replace(_FACTS.decode(facts), pods=held_parts.pods, peaks=held_parts.peaks)


def readable_facts(rows: Iterable[Any], quarantine: Quarantine) -> Iterator[NodeState]:
    """Yields the states of rows with `node` and `facts`. Unreadable rows go to the quarantine."""
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
    """Returns the state if it is valid for this node.

    Raises ValueError for the state of another node, and for times and amounts that are out of range.
    """
    if state.node != node:
        raise ValueError(f"the row of {node} holds the state of {state.node}")
    for name in ("window_end", "whole_end", "due_at"):
        if not 0 <= getattr(state, name) < _YEAR_9999:
            raise ValueError(f"{name}: {getattr(state, name)} must be seconds since 1970, before the year 9999")
    for amount in (state.generation, state.capacity.cpu_milli, state.capacity.memory_bytes):
        if not 0 <= amount < _MOST:
            raise ValueError(f"generation, capacity: {amount} must be from 0 to below {_MOST}")
    return state


def _columns(state: NodeState) -> tuple[str, str, int, int, bool]:
    return (*kept_of(state), state.window_end, state.due_at, state.offers_something)


NODE_STATES: Final[KeyedTable[NodeState]] = KeyedTable(
    name="nodes",
    key="node",
    columns=(
        RowColumn("facts", "jsonb", as_text=True),
        RowColumn("held", "text"),
        RowColumn("window_end", "bigint", write_only=True),
        RowColumn("due_at", "bigint", write_only=True),
        RowColumn("offers", "boolean", write_only=True),
    ),
    key_of=lambda state: state.node,
    encode=_columns,
    decode=lambda row: checked(row.node, state_of(row.facts, row.held)),
    empty=NodeState,
    touched="changed_at",
)
