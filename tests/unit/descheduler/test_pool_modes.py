"""What stands against the moves of a plan, from the documents of ensurance."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.clock import EPOCH

from slackwater.descheduler.usecases.pool_modes import PoolModes
from slackwater.events.envelope import event_of
from slackwater.events.resource_changed import ResourceChanged

EVICT = {"mode": "evict"}
Document = tuple[str, str, dict[str, Any] | None]


def document(kind: str, name: str, spec: dict[str, Any] | None) -> ResourceChanged:
    """`spec` None: it is deleted."""
    found = None if spec is None else {"spec": spec}
    return ResourceChanged(
        service="ensurance", kind=kind, name=name, generation=1, changed_at=EPOCH, document=found, deleted=spec is None
    )


CASES: dict[str, tuple[list[Document], list[str]]] = {
    "nothing is said": ([], ["pool a is in mode observe", "pool b is in mode observe"]),
    "the cluster evicts": ([("NodeQOS", "default", EVICT)], []),
    "the rules of one pool alone evict": ([("NodeQOS", "a", EVICT)], ["pool a is in mode", "pool b is in mode"]),
    "one pool by another name": (
        [("Autonomy", "night", {"mode": "evict", "nodePool": "a"})],
        ["pool b is in mode observe"],
    ),
    "one pool steps back below the cluster": (
        [("NodeQOS", "default", EVICT), ("Autonomy", "b", {"mode": "throttle"})],
        ["pool b is in mode throttle"],
    ),
    "its Autonomy was deleted": (
        [("NodeQOS", "default", EVICT), ("Autonomy", "b", {"mode": "observe"}), ("Autonomy", "b", None)],
        [],
    ),
    "an Autonomy that lets no pod go": (
        [("NodeQOS", "default", EVICT), ("Autonomy", "a", {"mode": "evict", "evictionsPerHour": 0})],
        ["pool a may evict 0 pods an hour: its Autonomy must have evictionsPerHour above 0"],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_plan_says_which_pools_let_no_pod_go(name: str) -> None:
    documents, expected = CASES[name]
    modes = PoolModes()
    for kind, title, spec in documents:
        await modes.receive(event_of(document(kind, title, spec), source="t", time=EPOCH))
    found = modes.obstacles(["a", "b"])
    assert len(found) == len(expected), found
    assert all(said.startswith(begin) for said, begin in zip(found, expected, strict=True)), found
