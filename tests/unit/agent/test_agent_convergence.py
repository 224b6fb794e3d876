"""Which limit wins, how a lapsed lease gives way, and that the plan reaches what it wants and then rests."""

from __future__ import annotations

from agent_fakes import CAPACITY_MILLI, FakeDriver, pod, texts
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import FakeClock

from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.controls.control import MachineView, lowers
from slackwater.agent.domain.controls.cpu_limit import ENDING_SHARE, CpuLimit, eased
from slackwater.agent.domain.controls.cpu_weight import CpuWeight
from slackwater.agent.domain.convergence import Do, plan
from slackwater.agent.domain.desired_state import DesiredState, Throttle
from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob, Target, Value
from slackwater.agent.domain.weights import Policy
from slackwater.agent.usecases.actuate import Actuator

uids = st.sampled_from(["a", "b", "c"])
limits = st.integers(10, 2 * CAPACITY_MILLI)
throttles = st.dictionaries(uids, limits).map(
    lambda wanted: tuple(Throttle(uid, limit, f"d-{uid}") for uid, limit in wanted.items())
)
KNOBS = [Knob(name, "cpu_limit") for name in "abc"]


def desired(writer: str, *wanted: Throttle, lease: float = 10.0, policy: Policy = Policy.BY_TIER) -> DesiredState:
    return DesiredState(writer, 1, 0.0, lease, policy, wanted)


def in_force(
    documents: list[DesiredState],
    originals: dict[str, int | None],
    now: float,
    protected: frozenset[str] = frozenset(),
    ending: frozenset[str] = frozenset(),
) -> dict[Target, Value]:
    """The limits that are written: as the controls' use case applies them."""
    control, machine = CpuLimit(), MachineView(CAPACITY_MILLI, now, protected, ending=ending)
    wanted = control.desired(control.merge(documents, machine), [pod(uid) for uid in originals], machine)
    assert control.lowers_only
    return {uid: value for uid, value in wanted.items() if lowers(value, originals[str(uid)])}


@given(throttles, throttles, st.dictionaries(uids, st.none() | limits), st.frozensets(uids))
def test_the_lowest_limit_wins_and_none_is_ever_raised(
    one: tuple[Throttle, ...],
    other: tuple[Throttle, ...],
    originals: dict[str, int | None],
    protected: frozenset[str],
) -> None:
    found = in_force([desired("x", *one), desired("y", *other)], originals, 5.0, protected)
    for uid, original in originals.items():
        wanted = [throttle.limit_milli for throttle in (*one, *other) if throttle.pod_uid == uid]
        binding = [limit for limit in wanted if original is None or limit < original]
        assert found.get(uid) == (min(binding) if binding and uid not in protected else None)
    assert found.keys() <= originals.keys()


@given(throttles, st.dictionaries(uids, st.none() | limits), st.frozensets(uids))
def test_pods_in_their_grace_share_a_fifth_of_the_node_and_others_get_what_is_requested(
    throttled: tuple[Throttle, ...], originals: dict[str, int | None], ending: frozenset[str]
) -> None:
    plain = in_force([desired("x", *throttled)], originals, 5.0)
    eased_ = in_force([desired("x", *throttled)], originals, 5.0, ending=ending)
    limited = {one.pod_uid for one in throttled} & ending & originals.keys()
    for uid, original in originals.items():
        if uid not in limited:
            assert eased_.get(uid) == plain.get(uid)
        elif uid in plain:
            least = int(ENDING_SHARE * CAPACITY_MILLI / len(limited))
            assert eased_.get(uid, original or CAPACITY_MILLI) == min(max(plain[uid], least), original or 1 << 40)
    raised = sum(limit for uid, limit in eased_.items() if limit > plain.get(uid, limit))
    assert raised <= ENDING_SHARE * CAPACITY_MILLI


def test_a_lapsed_lease_gives_back_a_quarter_of_the_node_per_second() -> None:
    wanted = desired("x", Throttle("a", 500, "d"), lease=10)
    series = [in_force([wanted], {"a": None}, now).get("a") for now in (9.9, 10.0, 10.9, 11.0, 12.0, 13.0)]
    assert series == [500, 1500, 1500, 2500, 3500, None]


def test_a_lapsed_limit_above_the_node_does_not_hide_one_that_is_in_force() -> None:
    lapsed = desired("x", Throttle("a", 3900, "d"), lease=1.0)
    alive = desired("y", Throttle("a", 6000, "d"), lease=10.0)
    assert in_force([lapsed, alive], {"a": None}, 5.0) == {"a": 6000}


@given(limits, st.floats(0, 100), st.floats(0, 100))
def test_easing_never_goes_back(limit: int, one: float, other: float) -> None:
    first, second = sorted((one, other))
    assert limit < eased(limit, first, CAPACITY_MILLI) <= eased(limit, second, CAPACITY_MILLI)


def policy_of(*documents: DesiredState) -> Policy | None:
    return CpuWeight().merge(documents, MachineView(CAPACITY_MILLI, 0.0))


def test_the_policy_that_protects_prod_more_is_in_force() -> None:
    assert policy_of() is None
    assert CpuWeight().desired(None, [pod("a")], MachineView(CAPACITY_MILLI, 0.0)) == {}
    assert policy_of(desired("x", policy=Policy.BY_REQUEST)) is Policy.BY_REQUEST
    assert policy_of(desired("x", policy=Policy.BY_REQUEST), desired("y")) is Policy.BY_TIER
    assert policy_of(desired("x", policy=Policy.BY_TIER_IDLE), desired("y")) is Policy.BY_TIER_IDLE


texts_wanted = st.dictionaries(st.sampled_from(KNOBS), st.none() | st.sampled_from(["100", "200", "max"]))


@given(st.lists(texts_wanted, min_size=1, max_size=6))
def test_a_plan_reaches_what_it_wants_and_then_has_nothing_to_do(history: list[dict[Knob, str | None]]) -> None:
    driver = FakeDriver(FakeClock())
    driver.add(pod("a"), pod("b", request_milli=10), limit="max")
    driver.knobs[Knob("b", "cpu_limit")] = "200"
    before = texts(driver, KNOBS)
    actuator = Actuator(driver, MemoryJournal())
    for wanted in history:
        desired = {**dict.fromkeys(actuator.journal.knobs()), **wanted}
        actuator.perform(plan(desired, texts(driver, desired), actuator.journal, {}))
        for knob, text in desired.items():
            assert driver.knobs.get(knob) == (None if before[knob] is None else text or before[knob])
        assert plan(desired, texts(driver, desired), actuator.journal, {}) == []
    report = actuator.restore_all()
    assert report.exact
    assert texts(driver, KNOBS) == before


def test_a_foreign_value_is_yielded_and_not_overwritten_until_ours_is_back() -> None:
    knob = KNOBS[0]
    journal = Journal()
    journal.apply({"op": "claim", "path": "a", "field": "cpu_limit", "text": "max"})
    journal.apply({"op": "write", "path": "a", "field": "cpu_limit", "text": "100"})
    [step] = plan({knob: "50"}, {knob: "777"}, journal, {})
    assert (step.do, step.text, step.previous) == (Do.YIELD, "777", "max")
    assert plan({knob: "50"}, {knob: "777"}, Journal(), {knob: "max"}) == []
    [again] = plan({knob: "50"}, {knob: "max"}, Journal(), {knob: "max"})
    assert (again.do, again.text, again.claim) == (Do.WRITE, "50", True)
