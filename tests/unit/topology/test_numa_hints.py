"""Properties of hints for bound containers: each set holds the request, and what is asked for is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.topology.hints import nodes_of
from slackwater.kernels.topology.numa_hints import SLACK, NodeAmounts, NumaRequest, numa_hints
from slackwater.model.errors import Conflict, InvalidInput


@st.composite
def rooms(draw: st.DrawFn) -> list[NodeAmounts]:
    sockets, per_socket = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    return [
        NodeAmounts(
            number, number // per_socket, 8, free := draw(st.integers(0, 8)), free // 2, busy=draw(st.booleans())
        )
        for number in range(sockets * per_socket)
    ]


REQUESTS = st.builds(
    NumaRequest,
    amount=st.integers(1, 20),
    exclusive=st.booleans(),
    node_count=st.none() | st.integers(1, 4),
    nodes=st.just(frozenset[int]()) | st.frozensets(st.integers(0, 3), max_size=2),
)


@given(rooms(), REQUESTS)
def test_every_set_holds_the_request_on_nodes_that_it_may_have(nodes: list[NodeAmounts], request: NumaRequest) -> None:
    by_id = {node.node: node for node in nodes}
    try:
        hints = numa_hints(nodes, request)
    except Conflict:
        return
    assert len({hint.mask for hint in hints}) == len(hints)
    for hint in hints:
        chosen = [by_id[node] for node in nodes_of(hint.mask or 0)]
        assert sum(node.free for node in chosen) + SLACK >= request.amount
        assert not request.exclusive or not any(node.busy for node in chosen)
        assert not request.nodes or {node.node for node in chosen} == request.nodes
    assert [hint.width for hint in hints] == sorted(hint.width for hint in hints)


@given(rooms(), st.integers(1, 20))
def test_what_is_preferred_is_as_narrow_as_any(nodes: list[NodeAmounts], amount: int) -> None:
    try:
        hints = numa_hints(nodes, NumaRequest(amount, exclusive=True))
    except Conflict:
        return
    widths = {hint.width for hint in hints if hint.preferred}
    assert widths == {min(hint.width for hint in hints)}


@given(rooms(), st.integers(1, 12), st.sampled_from([None, 2]))
def test_what_is_even_is_even_on_every_node(nodes: list[NodeAmounts], amount: int, threads: int | None) -> None:
    try:
        hints = numa_hints(nodes, NumaRequest(amount, evenly=True, node_count=2, whole_cores=threads))
    except Conflict:
        return
    for hint in hints:
        for node in nodes_of(hint.mask or 0):
            assert nodes[node].free >= amount / 2
            assert threads is None or nodes[node].whole_cores >= amount // 2 // threads


@pytest.mark.parametrize("wish", [{"evenly": True}, {"whole_cores": 2}])
def test_what_contradicts_itself_is_refused(wish: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="exclusive"):
        numa_hints([NodeAmounts(0, 0, 8, 8)], NumaRequest(2, exclusive=True, **wish))  # type: ignore[arg-type]


def test_a_machine_of_thirty_four_nodes_offers_few_sets() -> None:
    nodes = [NodeAmounts(number, number // 17, 8, 8) for number in range(34)]
    hints = numa_hints(nodes, NumaRequest(2, exclusive=True))
    assert len(hints) == 34 + 2 * 136, "single nodes, and pairs of one socket"
