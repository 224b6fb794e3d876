"""Records of CPUs: each allocation, release, resize and refusal once, with a plan that can be made again."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from test_place_pods import MemoryPlacements, _placing, _pod
from tests.support.clock import FakeClock

from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.agent.usecases.record_placements import RecordPlacements
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordBudget
from slackwater.events.decision_recorded import stream_bytes
from slackwater.kernels.topology.plan_replay import basis_document, basis_of
from slackwater.model.pods import Pod
from slackwater.model.tiers import QoSClass

BUDGET = RecordBudget(32_768, 1_000)


@dataclass
class Published:
    """The part of Publisher that records need."""

    records: list[DecisionRecord] = field(default_factory=list)

    def decided(self, key: str, record: DecisionRecord, cause: Any) -> None:
        assert cause is None
        self.records.append(record)


def _recording(arriving: list[Pod], files: MemoryPlacements | None = None) -> tuple[PlacePods, Published]:
    placing, published = _placing(files or MemoryPlacements(), arriving), Published()
    placing.recorder = RecordPlacements("n1", FakeClock(), published, BUDGET)  # type: ignore[arg-type]
    return placing, published


def _replayed(record: DecisionRecord) -> int:
    module, name = record.replay.function.split(":")
    arguments = json.loads(json.dumps(record.replay.arguments))
    return int(getattr(importlib.import_module(module), name)(**arguments))


def test_an_allocation_and_its_release_are_recorded_once_each() -> None:
    arriving = [_pod("lsr", milli=1500)]
    placing, published = _recording(arriving)
    web = _pod("web", QoSClass.LS)
    placing.update([web])
    placing.update([web])
    arriving.clear()
    placing.update([web])
    allocated, released = published.records
    assert (allocated.kind, allocated.reason, allocated.subject) == (
        DecisionKind.CPUSET,
        Reason.CPUSET_ALLOCATED,
        "cpuset",
    )
    assert [(term.name, term.value, term.note) for term in allocated.terms] == [
        ("online", 4, "0-3"),
        ("lsr", -2, "0-1 alone"),
    ]
    assert allocated.result == _replayed(allocated) == 2
    changes = {action.pod_name: action.cpuset for action in allocated.actions}
    assert [(name, cpuset.before, cpuset.after, cpuset.holder) for name, cpuset in changes.items() if cpuset] == [
        ("lsr", "", "0-1", "dedicated"),
        ("web", "", "2-3", "shared"),
    ]
    assert (released.reason, released.result, _replayed(released)) == (Reason.CPUSET_RELEASED, 4, 4)
    assert [(action.pod_name, action.cpuset and action.cpuset.after) for action in released.actions] == [("web", "")]


def test_nothing_is_recorded_while_every_pod_may_run_anywhere() -> None:
    placing, published = _recording([])
    placing.update([_pod("web", QoSClass.LS)])
    placing.update([_pod("web", QoSClass.LS), _pod("batch", QoSClass.BE)])
    assert published.records == []


def test_a_pool_that_gives_way_names_its_sizes_and_why() -> None:
    placing, published = _recording([])
    web = _pod("web", QoSClass.LS)
    placing.update([web, _pod("a")])
    placing.update([web, _pod("a"), _pod("b")])
    pools = [entry.value for entry in published.records[-1].inputs if entry.name == "pool share"]
    assert len(pools) == 1
    assert str(pools[0]).startswith("share: 3 -> 2 CPUs")


def test_a_refusal_is_recorded_with_its_sentence() -> None:
    placing, published = _recording([_pod("large", milli=4000)])
    placing.update([_pod("web", QoSClass.LS)])
    (record,) = published.records
    assert record.reason is Reason.CPUSET_REFUSED
    (refused,) = record.alternatives
    assert (refused.what, refused.pod_uid) == ("large", "large")
    assert "shared containers would have none" in refused.rejected_because


def test_a_restarted_agent_does_not_record_again_what_is_in_force() -> None:
    files = MemoryPlacements()
    pods = [_pod("lsr"), _pod("web", QoSClass.LS)]
    _recording([], files)[0].update(pods)
    again, published = _recording([], files)
    again.update(pods)
    assert published.records == []
    again.update([pods[1]])
    assert [record.reason for record in published.records] == [Reason.CPUSET_RELEASED]


def test_the_record_of_many_pods_stays_within_what_a_node_may_publish_at_once() -> None:
    placing, published = _recording([])
    placing.update([_pod("lsr"), *(_pod(f"web-{number:03}", QoSClass.LS, 10) for number in range(250))])
    (record,) = published.records
    assert record.actions[0].pod_uid == "lsr"
    assert not record.compact
    assert stream_bytes(record) < BUDGET.burst_bytes


def test_a_basis_is_the_same_after_json() -> None:
    placing, _ = _recording([])
    placing.update([_pod("lsr"), _pod("web", QoSClass.LS)])
    basis = placing.cpu.basis
    assert basis_of(json.loads(json.dumps(basis_document(basis)))) == replace(
        basis, holders=sorted(basis.holders, key=lambda holder: holder.key)
    )


def test_reserved_cpus_are_a_term_of_their_own() -> None:
    placing, published = _recording([])
    placing.cpu.demand = replace(placing.cpu.demand, reserved=frozenset({0}))
    placing.update([_pod("lsr")])
    (record,) = published.records
    terms = [(term.name, term.value) for term in record.terms]
    assert terms == [("online", 4), ("reserved", -1), ("lsr", -1)]
    assert _replayed(record) == record.result == 2
