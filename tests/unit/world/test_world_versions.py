"""A replica of the older version refuses types that it does not know, and reads what has unknown fields."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

from tests.world import versions
from tests.world.plan import Plan, PlannedFault, replicas
from tests.world.processes import PROCESS
from tests.world.run import Child, perform

from slackwater.bus.codec.decoder import decode_payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.serialized import UNKNOWN_TYPE
from slackwater.model.errors import InvalidInput
from slackwater.store import outbox, outbox_rows
from slackwater.testing.postgres_twin.values import Json


def under_each_version(work: Callable[[], Any]) -> dict[str, Any]:
    """The results of `work` in a process of each version."""

    def both() -> dict[str, Any]:
        versions.install()
        found = {}
        for name, is_older in (("older", True), ("newer", False)):
            context = copy_context()
            context.run(PROCESS.set, SimpleNamespace(is_older=is_older))  # type: ignore[arg-type]
            found[name] = context.run(work)
        return found

    return Child(both).result()


def types_and_refusal() -> tuple[bool, str]:
    knows = "resource.changed.v1" in outbox.known_types()
    try:
        outbox_rows.payload_of("resource.changed.v1")
    except InvalidInput as error:
        return knows, error.message
    return knows, ""


def test_the_older_version_refuses_rows_of_a_type_as_its_relay_would() -> None:
    found = under_each_version(types_and_refusal)
    assert found["newer"] == (True, "")
    knows, refusal = found["older"]
    assert not knows
    assert refusal.endswith(UNKNOWN_TYPE)


EVICTION = (
    b'{"node":"n","id":"d-1","decision_id":"d","writer":"ensurance","pod_uid":"a","outcome":"killed",'
    b'"completed_at":"2026-01-05T00:00:00Z","started_at":null}'
)


def fields_read() -> tuple[bool, str]:
    row = Json({"limits": 1}).copy()
    resource = Json({"spec": {}}).copy()
    assert resource == {"spec": {}}
    return "fieldOfTheNewerVersion" in row, decode_payload(EvictionCompleted, EVICTION).pod_uid


def test_the_older_version_reads_rows_and_events_with_fields_it_does_not_know() -> None:
    assert under_each_version(fields_read) == {"older": (True, "a"), "newer": (False, "a")}


def test_replicas_are_replaced_one_by_one_and_back() -> None:
    roll = PlannedFault("rolled to an older version", "ensurance", 10.0, 10.0, 2.001)
    plan = Plan(3, nodes=1, clients=0, fault_seconds=30.0, quiet_seconds=10.0, rest_seconds=2.0, faults=(roll,))
    outcome = Child(lambda: perform(plan)).result()
    assert outcome.failure == ""
    assert outcome.counts["process.started"] == len(replicas(plan)) + plan.nodes + 2 * plan.replicas
