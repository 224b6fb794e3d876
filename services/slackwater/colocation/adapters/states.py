"""A node's state as it is kept: what statements read as one document, what none reads as text beside it.

Pods and peaks are most of a state. As part of a jsonb they were parsed, compressed and taken apart again with every
window and every peak (decision 0053).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from slackwater.colocation.domain.node import KnownPeak, NodeState
from slackwater.colocation.domain.snapshot import PodUse


class _Held(msgspec.Struct):
    pods: tuple[PodUse, ...] = ()
    peaks: Mapping[str, KnownPeak] = {}


_FACTS, _HELD = msgspec.json.Decoder(NodeState), msgspec.json.Decoder(_Held)
_ENCODER = msgspec.json.Encoder()


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
