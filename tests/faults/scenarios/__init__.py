"""All scenarios, in the order of the summary page."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.faults.move_points import crash_points
from tests.faults.scenario import Scenario
from tests.faults.scenarios.agents import kill_real, kill_simulated
from tests.faults.scenarios.bounded import bounded
from tests.faults.scenarios.brokers import brokers
from tests.faults.scenarios.disks import broker_full, database_full, up_full
from tests.faults.scenarios.frozen import frozen
from tests.faults.scenarios.kills import VICTIMS, kills
from tests.faults.scenarios.memory import BUSY_LOOPS, memory_growth
from tests.faults.scenarios.moves import killed_moves
from tests.faults.scenarios.network import partition, slow
from tests.faults.scenarios.order import order
from tests.faults.scenarios.overload import overload
from tests.faults.scenarios.poisoning import poisoning
from tests.faults.scenarios.quotas import quotas
from tests.faults.scenarios.reconnecting import AGENTS, reconnecting
from tests.faults.scenarios.replicas import SHARED, replicas
from tests.faults.scenarios.sabotaged import sabotaged
from tests.faults.scenarios.slowness import slow_consumer
from tests.faults.site import SERVICES

KILLS: Final = 20
"""Kills per victim."""

_KILLS = tuple(
    Scenario(
        f"kill-{victim}",
        f"kill -9 of {victim}, {KILLS} times under load",
        partial(kills, victims=(victim,), times=KILLS),
        minutes=2.5 if victim in SERVICES else 1.5,
    )
    for victim in VICTIMS
)

SCENARIOS: Final = (
    *_KILLS,
    Scenario(
        "kill-agent",
        f"kill -9 of the agent, {KILLS} times, in the middle of throttling and evicting",
        partial(kill_simulated, times=KILLS),
    ),
    Scenario(
        "kill-agent-cgroups",
        f"kill -9 of the agent, {KILLS} times, on real cgroups with a real job",
        partial(kill_real, times=KILLS),
        needs_root=True,
    ),
    Scenario(
        "broker-cluster",
        "the leader of three brokers is killed, stopped and cut off, twice each, under load",
        partial(brokers, times=2),
        minutes=6,
    ),
    Scenario(
        "kill-replicas",
        f"kill -9 of one of two replicas, {KILLS} times, alternating between services",
        partial(replicas, times=KILLS // len(SHARED)),
        minutes=4,
    ),
    Scenario(
        "quota-ledger",
        "64 writers make 10,000 claims; kill -9 of quota and of PostgreSQL, 5 times each, meanwhile",
        partial(quotas, writers=64, claims=10_000, times=5),
        minutes=4,
    ),
    Scenario(
        "kill-moves",
        "kill -9 of descheduler, migration and agents at every step of a move",
        partial(killed_moves, points=crash_points()),
        minutes=18,
        by_name=True,
    ),
    Scenario("partition", "no network between agent and broker for 60 s", partition, minutes=1.6),
    Scenario(
        "half-open",
        "bytes from the broker do not reach the agent for 60 s",
        partial(partition, half_open=True),
        minutes=1.6,
    ),
    Scenario(
        "slow-network",
        "latency of half a second, low bandwidth and resets on all connections to the broker",
        slow,
        minutes=1.8,
    ),
    Scenario("frozen-owner", "an owner is stopped for longer than its lease, and wakes up", frozen, minutes=1.5),
    Scenario("order", "whole streams delivered twice and out of order", order, minutes=1.5),
    Scenario(
        "poison",
        "one agent sends 20 poisoned messages a second for a minute, honest agents beside it",
        partial(poisoning, quiet_seconds=30, poison_seconds=60),
        minutes=3,
    ),
    Scenario(
        "bounded",
        "floods, bombs, half requests and forgeries beside honest agents, each service within its declared memory",
        partial(bounded, quiet_seconds=25, attack_seconds=25),
        minutes=8,
        needs_root=True,
    ),
    Scenario("broker-disk-full", "the broker's disk is full", broker_full, minutes=0.8, needs_root=True),
    Scenario("database-disk-full", "PostgreSQL's disk is full", database_full, minutes=1.1, needs_root=True),
    Scenario("up-disk-full", "the disk of a whole `slackwater up` is full", up_full, minutes=1.2, needs_root=True),
    Scenario(
        "memory-growth",
        f"prod grows into a full parent beside {BUSY_LOOPS} busy loops and a slow disk",
        memory_growth,
        minutes=0.7,
        needs_root=True,
    ),
    Scenario("slow-consumer", "a consumer that is 100 times too slow", slow_consumer, minutes=1.2),
    Scenario("overload", "ten times what can be handled", overload, minutes=1.2),
    Scenario("sabotage", "planted defects are detected", sabotaged, minutes=2),
    Scenario("reconnect", f"{AGENTS:,} agents reconnect at once", reconnecting, minutes=0.5),
)
