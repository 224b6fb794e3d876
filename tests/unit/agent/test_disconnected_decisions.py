"""Each limit of a disconnected machine names the decision that set it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel, Throttle
from slackwater.agent.domain.disconnected import LimitDecisions, desired_state
from slackwater.agent.domain.weights import Policy
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import CycleState
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.loop.applied_memory import MemoryThrottled
from slackwater.waterline.node_guard import GuardState

CONTROLS = {
    ActionKind.THROTTLE: "cpu",
    ActionKind.RESTORE: "cpu",
    ActionKind.THROTTLE_MEMORY: "memory",
    ActionKind.RESTORE_MEMORY: "memory",
}


@given(st.lists(st.tuples(st.sampled_from(ActionKind), st.sets(st.sampled_from("ab"), min_size=1)), max_size=12))
def test_each_limit_names_the_last_decision_about_its_own_control(made: list[tuple[ActionKind, set[str]]]) -> None:
    before = DesiredState(
        "ensurance", 1, 0.0, 10.0, Policy.BY_TIER,
        (Throttle("a", 100, "first-cpu"),), memory_throttles=(MemoryLevel("a", 4096, "first-memory"),),
    )  # fmt: skip
    decisions = LimitDecisions.of(before)
    expected = {("cpu", "a"): "first-cpu", ("memory", "a"): "first-memory"}
    for number, (kind, uids) in enumerate(made):
        decisions.note(kind, uids, f"d{number}")
        if kind in CONTROLS:
            expected |= {(CONTROLS[kind], uid): f"d{number}" for uid in uids}
    state = GuardState(
        tuple(Throttled(uid, uid, "batch", 100, None) for uid in "ab"),
        CycleState(),
        memory=tuple(MemoryThrottled(uid, uid, "batch", 4096, None) for uid in "ab"),
    )
    wanted = desired_state(state, decisions, before, 0.0)
    named = {("cpu", one.pod_uid): one.decision_id for one in wanted.throttles}
    named |= {("memory", one.pod_uid): one.decision_id for one in wanted.memory_throttles}
    assert named == {(control, uid): expected.get((control, uid), "") for control in ("cpu", "memory") for uid in "ab"}
