"""Gates of many nodes as arrays, for tests that compare both forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from slackwater.offers.fleet import NONE, GateRows, no_gates
from slackwater.offers.node_offer import Gates


def gate_rows(gates: Sequence[Gates]) -> GateRows:
    """Converts the gates of many nodes to arrays."""
    rows = [
        [(node_gates.mid_cpu, node_gates.mid_memory, node_gates.batch_cpu, node_gates.batch_memory)]
        for node_gates in gates
    ]
    rows_of_gates = no_gates(len(gates))
    for node, (four,) in enumerate(rows):
        for place, gate in enumerate(four):
            for column in fields(rows_of_gates):
                value = getattr(gate, column.name)
                getattr(rows_of_gates, column.name)[node, place] = NONE if value is None else value
    return rows_of_gates
