"""Throttle and full restore are the identity on every file: planner, intents and agent together, on cgroup trees."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_fakes import NODE, fake_hierarchy, pod
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.cycle import Options
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.loop.applied_limits import pod_view
from slackwater.waterline.node_guard import GuardState, guard
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule

CAPACITY = 4000
THROTTLE = PolicyAction("throttle", ThrottleBounds(), RestoreBounds(Decimal("0.7")), disables_scheduling=False)
RULE = Rule("nq", "cpu", "node_cpu_usage", Decimal(1500), Decimal(1500), "throttle")
EVERYBODY = PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=("throttle",))
POLICIES = Policies((NodePolicy("nq", (RULE,)),), (THROTTLE,), (EVERYBODY,))
quotas = st.none() | st.integers(1_000, 400_000)


class Machine:
    """One node with an agent that follows the planner at once."""

    def __init__(self, folder: Path, version: str, originals: list[int | None]) -> None:
        self.clock = FakeClock()
        layout = Layout(fake_hierarchy(folder / "trees", version), "test", folder / "agent", CAPACITY // 1000)
        self.folder, self.driver = folder / "trees", LinuxDriver(layout, self.clock)
        self.driver.open()
        for number, quota in enumerate(originals):
            self._start(f"uid-{number}", quota)
        actuator = Actuator(self.driver, MemoryJournal())
        self.converge = ConvergeToIntents(NODE, "boot", self.driver, actuator, self.clock, CAPACITY)
        self.state, self.generation = GuardState(), 0

    def _start(self, uid: str, quota: int | None) -> None:
        one, layout = pod(uid), self.driver.layout
        PodRegistry(layout.agent_dir / "pods").add(Entry(one, process_of(os.getpid()), layout.instance))
        layout.make_pod(Tier.BATCH, uid)
        if quota is not None:
            knob = self.driver.knob(CPU_LIMIT, uid)
            self.driver.write(knob, f"{quota} 100000" if layout.hierarchy.pure_v2 else str(quota))

    def second(self, load_milli: int) -> None:
        """Every pod wants as much; the planner looks, and the agent writes what it says."""
        self.generation += 1
        pods = self.driver.pods()
        limits, ours = self.converge.limits(pods).known, self.state.by_uid()
        uses = [
            pod_view(one, min(load_milli, limits[one.uid][0] or CAPACITY), 0, limits[one.uid][1], ours.get(one.uid))
            for one in pods
        ]
        used = sum(int(one.cpu_usage_milli or 0) for one in uses)
        now = self.clock.now() + timedelta(seconds=self.generation)
        view = NodeReadings(NODE, now, {"node_cpu_usage": (MetricSeries(used),)}, CAPACITY, pods=tuple(uses))
        self.state = guard(view, self.state, POLICIES, now, Options()).state
        throttles = [
            CpuThrottle(pod_uid=one.uid, cpu_limit_milli=one.limit_milli, decision_id="d")
            for one in self.state.throttles
        ]
        intent = IntentDeclared(
            node=NODE, writer="ensurance", generation=self.generation, declared_at=now, lease_seconds=3600.0,
            throttles=tuple(throttles),
        )  # fmt: skip
        self.converge.receive(event_of(intent, source="test", time=now))

    def files(self, *names: str) -> Mapping[str, bytes]:
        found = (path for path in self.folder.rglob("*") if path.is_file() and (not names or path.name in names))
        return {str(path): path.read_bytes().rstrip() for path in found}


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["v1", "v2"]),
    st.lists(quotas, min_size=1, max_size=3),
    st.lists(st.integers(0, CAPACITY), min_size=1, max_size=6),
)
def test_after_any_load_and_a_calm_every_file_holds_what_it_held(
    version: str, originals: list[int | None], loads: list[int]
) -> None:
    with TemporaryDirectory() as folder:
        machine = Machine(Path(folder), version, originals)
        every, limits = machine.files(), machine.files("cpu.max", "cpu.cfs_quota_us")
        for load in loads:
            machine.second(load)
        for _ in range(40):
            machine.second(0)
            if not machine.state.throttles:
                break
        assert machine.state.throttles == ()
        assert machine.files("cpu.max", "cpu.cfs_quota_us") == limits
        machine.converge.actuator.restore_all()
        assert machine.files() == every, "weights, too"


def test_a_load_changes_files_at_all(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "v2", [None, 123_456])
    before = machine.files("cpu.max")
    machine.second(CAPACITY)
    assert machine.files("cpu.max") != before
