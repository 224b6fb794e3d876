"""The state of the service: predictions of nodes, dropped nodes, and changes of policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.forecast import Forecast, forecast
from slackwater.prediction.domain.pod_peaks import pod_peaks
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.prediction_record import explain, reasons
from slackwater.prediction.domain.row_ids import RowIds
from slackwater.prediction.domain.snapshot import decode, encode
from slackwater.prediction.domain.state import DEFAULT_POOL, Keeping, NodeWindow, PartitionState

START = 1_700_006_400
MINUTE = 60
GIB = 2.0**30


def policies(name: str = "workload-profile", *, protect_lsr: bool = False, update: float = 30.0, **chosen: float
             ) -> PoolPolicies:  # fmt: skip
    given_ = {"cold_hours": 1, "young_hours": 0, **chosen} if name == "workload-profile" else dict(chosen)
    model = ModelChoice(name, given_)
    cadence = Cadence(histogram_update_seconds=update)
    return PoolPolicies(PoolPolicy(cpu=model, memory=model, cadence=cadence, protect_lsr=protect_lsr))


def pod(uid: str, *, request: int = 2000, tier: Tier = Tier.PROD, qos: QoSClass = QoSClass.LS) -> Pod:
    at = datetime.fromtimestamp(START, UTC)
    return Pod(uid, uid, "default", f"w-{uid}", tier, qos, 9500, Resources(request, 2**31), at)


def sight(node: str, number: int, pods: Sequence[tuple[Pod, float]], *, system: float | None = 300.0,
          seconds: int = MINUTE) -> NodeWindow:  # fmt: skip
    """The `number`-th window; of each pod its milli-cores, NaN where it was not measured."""
    start = START + number * seconds
    usage = np.array([(cpu, GIB if cpu == cpu else np.nan) for _, cpu in pods]).reshape(-1, 2)
    total = float(np.nansum(usage[:, 0]))
    whole = None if system is None else (system, GIB)
    return NodeWindow(
        node, start, start + seconds, number, [one for one, _ in pods], usage, (total, GIB), whole, f"{number}"
    )


def taken(state: PartitionState, *sights: NodeWindow) -> PartitionState:
    for one in sights:
        state.apply_window(one)
    for pool in state.pools.values():
        state.fold(pool)
    return state


def told(state: PartitionState, cpu: float = 8000.0) -> Forecast:
    """With nodes of so many milli-cores and 16 GiB."""
    allocatable = np.full((len(state.by_number), 2), (cpu, 16 * GIB))
    pool, at = state.pools[DEFAULT_POOL], float(state.latest_seconds)
    return forecast(pool, state.policies.of(DEFAULT_POOL), allocatable, at)


def prod_cpu(state: PartitionState, node: str = "n") -> float:
    return float(told(state).seen["cpu"].tiers[0, state.nodes[node].number])


def lent_cpu(state: PartitionState, node: str = "n", cpu: float = 8000.0) -> float:
    return float(told(state, cpu).seen["cpu"].reclaimable[state.nodes[node].number])


def fresh(given_: PoolPolicies | None = None, keeping: Keeping | None = None) -> PartitionState:
    return PartitionState(given_ or policies(), model_of, keeping)


def test_a_window_that_was_taken_is_not_taken_again_nor_an_earlier_one() -> None:
    state = fresh()
    assert state.apply_window(sight("a", 5, [(pod("p"), 500)]))
    before = encode(state, 0)
    assert not state.apply_window(sight("a", 5, [(pod("p"), 900)]))
    assert not state.apply_window(sight("a", 4, [(pod("p"), 900)]))
    assert encode(state, 0) == before
    assert state.apply_window(sight("b", 4, []))


def test_short_windows_of_a_slot_count_as_one_with_the_largest_of_each() -> None:
    put_together = fresh(policies("nsigma-v2", update=30.0))
    for number, cpu in enumerate((100.0, 900.0, 200.0, 300.0, 200.0, 100.0, 500.0)):
        put_together.apply_window(sight("n", number, [(pod("p"), cpu)], seconds=5))
    at_once = fresh(policies("nsigma-v2", update=30.0))
    at_once.apply_window(sight("n", 0, [(pod("p"), 900.0)], seconds=30))
    at_once.apply_window(sight("n", 1, [(pod("p"), 500.0)], seconds=30))
    models = [state.pools[DEFAULT_POOL].pods.models["cpu"].state() for state in (put_together, at_once)]
    assert models[0].keys() == models[1].keys()
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])


def test_a_pod_is_cold_by_the_history_of_its_workload_and_lends_nothing() -> None:
    state = fresh(policies(cold_hours=2))
    taken(state, *(sight("n", number, [(pod("p"), 500)]) for number in range(50)))
    assert prod_cpu(state) == 2000
    assert lent_cpu(state) == 0
    taken(state, *(sight("n", number, [(pod("p"), 500)]) for number in range(50, 70)))
    assert 500 <= prod_cpu(state) < 800
    assert lent_cpu(state) == 2000 - prod_cpu(state)
    taken(state, sight("other", 71, [(Pod(**{**_fields(pod("new")), "workload": "w-p"}), 10)]))
    assert prod_cpu(state, "other") < 800  # its workload is known, however young the pod


def _fields(one: Pod) -> dict[str, object]:
    return {name: getattr(one, name) for name in Pod.__dataclass_fields__}


@pytest.mark.parametrize(("qos", "protect", "lends"), [
    (QoSClass.LSE, False, False), (QoSClass.LSR, False, True), (QoSClass.LSR, True, False), (QoSClass.LS, True, True),
])  # fmt: skip
def test_cpu_of_pods_with_exclusive_cores_is_never_reclaimable_but_their_memory_is(
    qos: QoSClass, protect: bool, lends: bool
) -> None:
    state = taken(fresh(policies(protect_lsr=protect)), sight("n", 0, [(pod("p", qos=qos), 100)]))
    found, number = told(state), state.nodes["n"].number
    assert bool(found.seen["cpu"].reclaimable[number] > 0) is lends
    assert (prod_cpu(state) == 2000) is not lends
    assert found.seen["memory"].reclaimable[number] > 0


def test_a_system_that_was_never_measured_or_a_node_never_described_makes_nothing_reclaimable() -> None:
    state = taken(fresh(), sight("n", 0, [(pod("p"), 100)], system=None))
    assert lent_cpu(state) == 0
    taken(state, sight("n", 1, [(pod("p"), 100)], system=300), sight("n", 2, [(pod("p"), 100)], system=None))
    assert lent_cpu(state) > 0  # what is missing now is what it was, not nothing
    assert lent_cpu(state, cpu=float("nan")) == 0


def test_what_a_tier_without_pods_uses_is_not_learned_as_nothing() -> None:
    state = taken(fresh(), sight("n", 0, [(pod("b", tier=Tier.BATCH), 700)]))
    before = state.pools[DEFAULT_POOL].pods.models["cpu"].state()
    taken(state, sight("n", 1, []))
    after = state.pools[DEFAULT_POOL].pods.models["cpu"].state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert not told(state).has_tier.any()


def test_a_pod_that_uses_more_than_it_asked_for_may_use_that() -> None:
    state = taken(fresh(policies(cold_hours=2)), sight("n", 0, [(pod("p"), 3000)]))
    assert prod_cpu(state) == 3000
    assert lent_cpu(state) == 0


def test_the_vanished_are_forgotten_by_the_streams_time_and_their_numbers_are_given_again() -> None:
    state = fresh(keeping=Keeping(pod_seconds=300, node_seconds=3600, workload_seconds=7200))
    taken(state, sight("n", 0, [(pod("gone"), 900), (pod("stays"), 100)]))
    crowd = state.pools[DEFAULT_POOL].pods
    row = crowd.series.find("n\x1fgone")
    taken(state, *(sight("n", number, [(pod("stays"), 100)]) for number in range(1, 9)))
    assert crowd.series.find("n\x1fgone") is None
    assert crowd.workloads.find("w-gone") is not None
    taken(state, sight("n", 9, [(pod("stays"), 100), (pod("new"), 50)]))
    assert crowd.series.find("n\x1fnew") == row
    assert crowd.limits(np.array([row]), "cpu").tolist() == [2000.0]
    taken(state, sight("other", 80, []))
    assert "n" not in state.nodes
    assert len(crowd.series) == len(crowd.groups) == 0
    assert crowd.workloads.find("w-gone") is not None
    taken(state, sight("other", 200, []))
    assert len(crowd.workloads) == 0


def test_a_node_that_goes_to_another_pool_begins_anew_there() -> None:
    state = taken(fresh(), sight("n", 0, [(pod("p"), 500)]))
    state.apply_window(sight("n", 1, [(pod("p"), 500)]), "other")
    for pool in state.pools.values():
        state.fold(pool)
    assert len(state.pools[DEFAULT_POOL].pods.series) == 0
    assert state.pools[DEFAULT_POOL].pods.workloads.find("w-p") is not None
    assert len(state.pools["other"].pods.series) == 1
    assert not told(state).has_system.any()


def test_a_policy_on_which_no_history_depends_keeps_it_and_another_model_begins_anew() -> None:
    state = taken(fresh(), *(sight("n", number, [(pod("p"), 500)]) for number in range(5)))
    before = prod_cpu(state)
    assert state.follow(policies(knob=0.5)) == []
    assert before < prod_cpu(state) < 2000
    assert state.follow(policies(violation_rate=0.01)) == []
    assert state.follow(policies(history_hours=48)) == ["default/cpu", "default/memory"]
    assert prod_cpu(state) == 2000
    assert state.follow(policies("borg-default")) == ["default/cpu", "default/memory"]
    assert prod_cpu(state) == 1819


def test_slots_of_another_length_lose_nothing() -> None:
    state = fresh(policies(update=120.0))
    state.apply_window(sight("n", 0, [(pod("p"), 1500)]))
    assert state.follow(policies(update=30.0)) == []
    assert prod_cpu(state) >= 1500
    assert state.apply_window(sight("n", 1, [(pod("p"), 100)]))


def test_a_snapshot_that_another_model_cannot_take_begins_only_that_model_anew() -> None:
    state = taken(fresh(), *(sight("n", number, [(pod("p"), 500)]) for number in range(5)))
    kept = encode(state, 7)
    chosen = policies()
    other = PoolPolicies(PoolPolicy(cpu=chosen.cluster.cpu, memory=ModelChoice("resource-central"),
                                cadence=chosen.cluster.cadence))  # fmt: skip
    found, anew = decode(kept, other, model_of)
    assert prod_cpu(found) == prod_cpu(state)
    assert [why.split(":")[0] for why in anew] == ["default/pods/memory", "default/whole/memory"]
    same, none_anew = decode(kept, chosen, model_of)
    assert not none_anew
    assert encode(same, 7) == kept


AMOUNTS = st.sampled_from([0.0, 1.0, 250.0, 1999.0, 2000.0, 5000.0, float("nan")])
PODS = st.dictionaries(st.sampled_from("pqrs"), AMOUNTS, max_size=4)
REQUESTS = st.dictionaries(st.sampled_from("pqrs"), st.sampled_from([0, 100, 2000, 64_000]))
HISTORY = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 90), PODS, st.sampled_from([None, 0.0, 300.0])), max_size=14
)
MODELS = st.sampled_from(
    ["workload-profile", "histogram", "nsigma-v1", "nsigma-v2", "resource-central", "max", "periodic"]
)
MARGINS = st.sampled_from([("workload-profile", "knob"), ("histogram", "margin"), ("nsigma-v2", "sigmas")])
QOS = dict(zip("pqrs", (QoSClass.LS, QoSClass.LSE, QoSClass.LSR, QoSClass.LS), strict=True))
TIERS = dict(zip("pqrs", (Tier.PROD, Tier.PROD, Tier.PROD, Tier.BATCH), strict=True))
Steps = list[tuple[str, int, dict[str, float], float | None]]


def lived(history: Steps, requests: dict[str, int], given_: PoolPolicies, shift: int = 0) -> PartitionState:
    state = fresh(given_)
    for node, number, used, system in history:
        pods = [(pod(f"{node}{uid}", request=requests.get(uid, 500), qos=QOS[uid], tier=TIERS[uid]), cpu)
                for uid, cpu in used.items()]  # fmt: skip
        state.apply_window(sight(node, number + shift, pods, system=system))
    return taken(state)


@settings(max_examples=40, deadline=None)
@given(HISTORY, REQUESTS, MODELS)
def test_no_peak_is_above_the_limits_and_all_published_sums_add_up(
    history: Steps, requests: dict[str, int], model: str
) -> None:
    state = lived(history, requests, policies(model))
    if not state.nodes:
        return
    found, pool = told(state), state.pools[DEFAULT_POOL]
    assert np.isfinite(found.values).all()
    assert (found.values >= 0).all()
    parts = pod_peaks(pool, state.policies.cluster, found, sorted(node.number for node in state.nodes.values()))
    for place, (each, seen) in enumerate(found.seen.items()):
        for node in state.nodes.values():
            why = reasons(seen, node.number)
            result, terms = explain(why)
            assert sum(term.value for term in terms) == result == seen.tiers[0, node.number]
            mine = parts.of(node.number)
            mine = mine[pool.pods.places["tier"][pool.pods.members["group"][parts.rows[mine]]] == 0]
            assert result <= parts.limits[mine, place].sum()
            assert (parts.peaks[mine, place] <= np.ceil(parts.limits[mine, place])).all()
            requested = pool.pods.members[f"request_{each}"][parts.rows[mine]].sum()
            assert seen.reclaimable[node.number] <= requested


@settings(max_examples=25, deadline=None)
@given(
    HISTORY, REQUESTS, st.sampled_from([("workload-profile", "knob"), ("histogram", "margin"), ("nsigma-v2", "sigmas")])
)
def test_more_margin_never_lowers_a_peak_nor_lends_more(
    history: Steps, requests: dict[str, int], how: tuple[str, str]
) -> None:
    model, name = how
    less, more = (lived(history, requests, policies(model, **{name: value})) for value in (0.1, 0.7))
    if not less.nodes:
        return
    for each in ("cpu", "memory"):
        low, high = told(less).seen[each], told(more).seen[each]
        assert (high.tiers >= low.tiers).all()
        assert (high.reclaimable <= low.reclaimable).all()


@settings(max_examples=25, deadline=None)
@given(HISTORY, REQUESTS, st.integers(-30, 30))
def test_shifting_all_times_by_whole_hours_changes_nothing(
    history: Steps, requests: dict[str, int], hours: int
) -> None:
    here, there = (lived(history, requests, policies(), shift * 60) for shift in (0, hours))
    if here.nodes:
        assert np.array_equal(told(here).values, told(there).values)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_numbers_belong_to_one_name_and_are_given_again(steps: list[tuple[bool, int]]) -> None:
    numbers = RowIds()
    living: dict[str, int] = {}
    most = 0
    for keep, number in steps:
        name = str(number)
        if keep:
            living[name] = numbers.allocate(name)
        elif name in living:
            numbers.release([living.pop(name)])
        most = max(most, len(living))
        assert len(set(living.values())) == len(living) == len(numbers)
        assert {one: numbers.find(one) for one in living} == living
    assert len(numbers.names) == most
    again = RowIds(numbers.names, numbers.free)
    assert all(again.name(number) == name for name, number in living.items())
    assert again.allocate("another") == numbers.allocate("another")


@pytest.mark.parametrize(("name", "before", "after", "keeps"), [
    ("workload-profile", {}, {"knob": 0.1, "young_hours": 5, "rollout_hours": 0, "novelty": 0.1, "noise": 0.2}, True),
    ("workload-profile", {}, {"violation_rate": 0.01, "cold_start": "class-prior", "size_power": 0.0}, True),
    ("workload-profile", {}, {"ledger_prior_days": 10, "ledger_half_life_days": 7, "cold_hours": 48}, True),
    ("workload-profile", {}, {"history_hours": 300}, False),
    ("workload-profile", {}, {"live_days": 7}, False),
    ("histogram", {}, {"percentile": 0.9, "margin": 0.2, "warm_seconds": 0}, True),
    ("histogram", {}, {"half_life_seconds": 60}, False),
    ("histogram", {}, {"by_usage": True}, False),
    ("nsigma-v2", {}, {"sigmas": 3}, True),
    ("nsigma-v2", {}, {"window_seconds": 7200}, False),
    ("nsigma-v2", {}, {"blocks": 10}, False),
    ("resource-central", {}, {"percentile": 0.9}, True),
    ("resource-central", {}, {"slots": 10}, False),
    ("borg-default", {}, {"overcommit": 2}, True),
])  # fmt: skip
def test_a_changed_setting_keeps_what_was_learned_unless_it_needs_another_memory(
    name: str, before: dict[str, object], after: dict[str, object], keeps: bool
) -> None:
    """What docs/how-to/set-a-predict-policy.md says a switch costs."""

    def chosen(settings: dict[str, object]) -> PoolPolicies:
        model = ModelChoice(name, settings)
        return PoolPolicies(PoolPolicy(cpu=model, memory=model))

    state = taken(fresh(chosen(before)), *(sight("n", number, [(pod("p"), 500)]) for number in range(5)))
    assert state.follow(chosen(after)) == ([] if keeps else [f"{DEFAULT_POOL}/cpu", f"{DEFAULT_POOL}/memory"])
