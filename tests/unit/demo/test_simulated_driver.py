"""The physics of the simulated machine: conservation, limits, weights, pressure."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock

from slackwater.agent.adapters.simulated import CpuClaim, SimulatedDriver, divide, fill, settle
from slackwater.agent.adapters.simulated_load import (
    DAY_SECONDS,
    DAY_SURGE_SECONDS,
    REST_LOAD,
    REST_SECONDS,
    RESUBMITTED_SECONDS,
    SURGE_LOAD,
    TIDE_SECONDS,
    prod_load,
    surging,
    surging_by_day,
)
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.settings import AgentSettings
from slackwater.cli.simulated_day import SURGE_RULE
from slackwater.demo.scenes.fleet import WATERLINE
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.tiers import Tier
from slackwater.offers.strategy import Strategy

CAPACITY = 8000.0

claims = st.lists(
    st.builds(
        lambda tier, demand, weight, limit: (tier, demand, weight, limit),
        st.sampled_from(list(Tier)),
        st.floats(0, 20_000),
        st.integers(2, 262_144),
        st.one_of(st.none(), st.floats(10, 20_000)),
    ),
    max_size=12,
).map(lambda rows: [CpuClaim(str(n), tier, d, w, limit) for n, (tier, d, w, limit) in enumerate(rows)])
tier_weights = st.fixed_dictionaries({tier: st.integers(2, 262_144) for tier in Tier})


@given(claims, tier_weights)
def test_no_pod_gets_more_than_the_free_cpu_its_demand_or_its_limit(
    some: list[CpuClaim], weights: dict[Tier, int]
) -> None:
    got = divide(CAPACITY, some, weights)
    assert sum(got.values()) <= CAPACITY + 1e-6
    for claim in some:
        assert -1e-9 <= got[claim.key] <= claim.wanted + 1e-6


@given(claims, tier_weights)
def test_no_cpu_is_idle_while_a_pod_has_unmet_demand(some: list[CpuClaim], weights: dict[Tier, int]) -> None:
    got = divide(CAPACITY, some, weights)
    assert sum(got.values()) == pytest.approx(min(CAPACITY, sum(claim.wanted for claim in some)), abs=1e-3)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(2, 10_000), min_size=1, max_size=6))
def test_the_greedy_share_in_proportion_to_their_weights(weights: dict[str, int]) -> None:
    got = fill(CAPACITY, dict.fromkeys(weights, 1e12), weights)
    for key, weight in weights.items():
        assert got[key] == pytest.approx(CAPACITY * weight / sum(weights.values()))


@given(claims, tier_weights)
def test_pressure_and_latency_are_finite_and_in_range(some: list[CpuClaim], weights: dict[Tier, int]) -> None:
    found = settle(CAPACITY, 8, some, weights)
    assert 0 <= found.prod_pressure <= 1
    assert 0 < found.prod_p99_seconds < 100


@given(st.floats(0, CAPACITY))
def test_prod_alone_with_its_demand_met_feels_next_to_nothing(demand: float) -> None:
    found = settle(CAPACITY, 8, [CpuClaim("p", Tier.PROD, demand, 1024)], dict.fromkeys(Tier, 1024))
    assert found.prod_pressure <= 0.02 + 1e-9


def both(limit: float | None, batch_weight: int) -> float:
    some = [CpuClaim("p", Tier.PROD, 4800, 4096), CpuClaim("b", Tier.BATCH, 8000, 2048, limit)]
    weights = dict.fromkeys(Tier, 1024) | {Tier.PROD: 4096, Tier.BATCH: batch_weight}
    return settle(CAPACITY, 8, some, weights).prod_pressure


def test_weights_relieve_and_limits_relieve_further() -> None:
    assert both(None, 4096) > both(None, 2) > both(1000, 2) > both(50, 2)


def test_only_the_surge_crosses_the_waterline_of_the_scene() -> None:
    def pressure(load: float) -> float:
        some = [CpuClaim("p", Tier.PROD, load * CAPACITY, 4096), CpuClaim("b", Tier.BATCH, CAPACITY, 2)]
        return settle(CAPACITY, 8, some, dict.fromkeys(Tier, 1024)).prod_pressure

    assert pressure(1.05 * REST_LOAD) < WATERLINE < pressure(0.95 * SURGE_LOAD)


@given(st.integers(0, 99), st.integers(0, 10_000))
def test_the_tide_repeats_and_the_noise_is_by_seed(seed: int, seconds: int) -> None:
    at = EPOCH + timedelta(seconds=seconds)
    assert surging(at) == surging(at + timedelta(seconds=TIDE_SECONDS))
    assert surging(at) == (at.timestamp() % TIDE_SECONDS >= REST_SECONDS)
    assert prod_load(seed, at) == prod_load(seed, at)
    assert (prod_load(seed, at) > 0.3) == surging(at)


def opened(clock: FakeClock, seed: int = 1) -> SimulatedDriver:
    driver = SimulatedDriver("sim-1", seed, clock, started_at=EPOCH)
    driver.open()
    return driver


async def test_counters_add_up_to_the_node() -> None:
    clock = FakeClock()
    driver = opened(clock)
    before = driver.sample()
    for _ in range(TIDE_SECONDS):
        await clock.advance(1)
        after = driver.sample()
    used = sum((a.cpu_ns or 0) - (b.cpu_ns or 0) for a, b in zip(after.pods, before.pods, strict=True))
    assert used == pytest.approx((after.node_cpu_busy_ns or 0) - (before.node_cpu_busy_ns or 0), abs=10)
    assert used <= driver.cpus * TIDE_SECONDS * 1e9 + 10


async def test_a_limit_written_is_a_limit_kept_and_seen_as_throttling() -> None:
    clock = FakeClock()
    driver = opened(clock)
    uid = "sim-1-crunch"
    knob = driver.knob(CPU_LIMIT, uid)
    driver.write(knob, driver.render(knob, 500))
    before = {pod.uid: pod for pod in driver.sample().pods}
    await clock.advance(2)
    after = {pod.uid: pod for pod in driver.sample().pods}
    assert (after[uid].cpu_ns or 0) - (before[uid].cpu_ns or 0) == pytest.approx(500 * 1e6 * 2)
    assert (after[uid].periods, after[uid].throttled_periods) == (20, 20)


async def test_two_runs_of_the_same_seed_are_the_same() -> None:
    readings = []
    for _ in range(2):
        clock = FakeClock()
        driver = opened(clock, seed=9)
        driver.sample()
        await clock.advance(13)
        readings.append(driver.sample())
    assert readings[0] == readings[1]


def test_knobs_hold_their_exact_text_and_strangers_are_not_found() -> None:
    driver = opened(FakeClock())
    knob = driver.knob(CPU_WEIGHT, Tier.BATCH)
    driver.write(knob, "2")
    assert driver.read(knob) == "2"
    with pytest.raises(NotFound):
        driver.knob(CPU_LIMIT, "nobody")
    with pytest.raises(NotFound):
        driver.read(Knob("elsewhere", "cpu_limit"))
    with pytest.raises(Misconfigured):
        driver.write(knob, "-5")


def test_a_terminated_pod_is_gone_with_its_knobs() -> None:
    driver = opened(FakeClock())
    driver.terminate("sim-1-crunch", 15)
    assert not driver.alive("sim-1-crunch")
    with pytest.raises(NotFound):
        driver.knob(CPU_LIMIT, "sim-1-crunch")
    driver.terminate("sim-1-crunch", 9)
    assert len(driver.sample().pods) == 3


async def test_a_day_of_the_fleet_lends_most_of_the_time_and_surges_once() -> None:
    """What a user without cgroups sees first: prod with a rhythm, batch within what it requested, one surge."""
    clock = FakeClock()
    driver = SimulatedDriver("sim-1", 1, clock, started_at=EPOCH, load="day")
    driver.open()
    rooms, surges, waiting = [], 0, []
    requested = sum(pod.request.cpu_milli for pod in driver.pods() if pod.tier is Tier.PROD)
    offered = Strategy().cpu_reclaim_threshold_percent / 100 * CAPACITY - requested  # of cold workloads: the request
    for _ in range(DAY_SECONDS):
        await clock.advance(1)
        shares = driver.shares()
        in_surge = surging_by_day(1, clock.now())
        surges += in_surge
        prod = sum(shares.usage[pod.uid] for pod in driver.pods() if pod.tier is Tier.PROD)
        batch = sum(shares.usage[pod.uid] for pod in driver.pods() if pod.tier is Tier.BATCH)
        if in_surge:
            waiting.append(shares.prod_pressure)
        else:
            rooms.append(CAPACITY * 0.65 - prod)
            assert batch <= offered, "batch stays within the offer"
            assert prod <= requested, "prod requests more than its rhythm uses"
            assert shares.prod_pressure < 0.035
    assert surges == DAY_SURGE_SECONDS
    assert min(rooms) > 0.25 * CAPACITY, "what 65 % of the machine leave beside prod"
    assert max(rooms) - min(rooms) > 0.15 * CAPACITY, "prod has a rhythm"
    assert min(waiting) > 0.1, "prod lacks CPU during its surge"


@given(st.integers(0, 99))
def test_one_machine_of_the_fleet_surges_at_a_time(seconds: int) -> None:
    at = EPOCH + timedelta(seconds=seconds * 9)
    assert len([number for number in range(1, 21) if surging_by_day(number, at)]) in (0, 1)


def test_four_machines_of_five_have_no_surge_in_a_day_and_go_on_lending() -> None:
    """A machine that has surged lends nothing from then on: after a day in which each did, none lent."""
    day = [EPOCH + timedelta(seconds=second) for second in range(DAY_SECONDS)]
    surges = {number: sum(surging_by_day(number, at) for at in day) for number in range(1, 21)}
    assert {number for number, seconds in surges.items() if seconds} == {1, 6, 11, 16}
    assert set(surges.values()) == {0, DAY_SURGE_SECONDS}


def test_a_surge_is_longer_than_the_samples_of_the_eviction_that_it_causes() -> None:
    """With 20 s nothing was ever evicted: five samples of a report every five seconds take 25."""
    assert (
        2 * SURGE_RULE["avoidanceThreshold"] * AgentSettings.model_fields["report_seconds"].default < DAY_SURGE_SECONDS
    )


async def test_by_day_an_evicted_job_is_followed_by_the_next() -> None:
    clock = FakeClock()
    machine = SimulatedDriver("n", 1, clock, load="day")
    machine.open()
    machine.sample()
    machine.terminate("n-crunch", 15)
    names = []
    for seconds in (0, RESUBMITTED_SECONDS - 1, 1, 1):
        await clock.advance(seconds)
        machine.sample()
        names.append([pod.uid for pod in machine.pods() if pod.workload == "crunch"])
    assert names == [[], [], ["n-crunch-2"], ["n-crunch-2"]]
