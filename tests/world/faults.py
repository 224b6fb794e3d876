"""The faults that a plan may contain. Every fault has an end; after the fault phase all of them are over.

A new kind is one entry of `fault_kinds`: whom it can meet, how long it lasts, what begins it and what ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import cache, partial

from tests.world.attacks import attackers, expand, fill, flood, forge, make_room, of_ensurance, too_large
from tests.world.machine.station import Station
from tests.world.plan import BROKER, POSTGRES, Plan, PlannedFault, agents, machines, replicas, services_of
from tests.world.roster_kills import kill_at_roster
from tests.world.world import REPLACED_SECONDS, World

MOST_SESSIONS = 100
"""Of PostgreSQL, without a fault."""

FORGETS_MESSAGE_IDS = ("broker killed", "power of the broker fails", "power of a rack fails")
"""Kinds after which the broker knows only the ids of the messages that it still holds."""

Act = Callable[[World, PlannedFault], None]


def nothing(_: World, __: PlannedFault) -> None:
    """For faults that end by themselves."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """`seconds` and `amount` are the ranges from which a plan draws."""

    name: str
    targets: Callable[[Plan], Sequence[str]]
    seconds: tuple[float, float]
    begin: Act
    end: Act = nothing
    amount: tuple[float, float] = (0.0, 0.0)


def processes(plan: Plan) -> Sequence[str]:
    return [*replicas(plan), *agents(plan), *machines(plan)]


def connections(plan: Plan) -> Sequence[str]:
    """`process>server` for each connection."""
    to_databases = [f"{name}>{POSTGRES}" for name in replicas(plan)]
    return [*to_databases, *(f"{name}>{BROKER}" for name in processes(plan))]


def agent_connections(plan: Plan) -> Sequence[str]:
    return [f"{name}>{BROKER}" for name in agents(plan)]


def broker(_: Plan) -> Sequence[str]:
    return (BROKER,)


def postgres(_: Plan) -> Sequence[str]:
    return (POSTGRES,)


def _crash(world: World, fault: PlannedFault) -> None:
    world.crash(fault.target, restart_after=fault.seconds)


def _stop(world: World, fault: PlannedFault) -> None:
    world.stop(fault.target, restart_after=fault.seconds)


def _freeze(world: World, fault: PlannedFault) -> None:
    world.freeze(fault.target)


def _resume(world: World, fault: PlannedFault) -> None:
    world.resume(fault.target)


def _cut(out: bool, back: bool, is_cut: bool) -> Act:
    def act(world: World, fault: PlannedFault) -> None:
        lanes = world.network.lanes(*fault.target.split(">"))
        for lane, is_meant in zip(lanes, (out, back), strict=True):
            if is_meant:
                lane.is_cut = is_cut

    return act


def _slow(world: World, fault: PlannedFault) -> None:
    for lane in world.network.lanes(*fault.target.split(">")):
        lane.delay_seconds, lane.spread_seconds = fault.amount, fault.amount


def _fast(world: World, fault: PlannedFault) -> None:
    for lane in world.network.lanes(*fault.target.split(">")):
        lane.delay_seconds, lane.spread_seconds = world.plan.delay_seconds, world.plan.spread_seconds


def _lossy(world: World, fault: PlannedFault) -> None:
    for lane in world.network.lanes(*fault.target.split(">")):
        lane.loss = fault.amount


def _lossless(world: World, fault: PlannedFault) -> None:
    for lane in world.network.lanes(*fault.target.split(">")):
        lane.loss = 0.0


def _jump(world: World, fault: PlannedFault) -> None:
    world.clock_of(fault.target).jump(fault.amount)


def _jump_back(world: World, fault: PlannedFault) -> None:
    world.clock_of(fault.target).jump(-fault.amount)


def _drift(world: World, fault: PlannedFault) -> None:
    world.clock_of(fault.target).drift(1.0 + fault.amount)


def _end_drift(world: World, fault: PlannedFault) -> None:
    world.clock_of(fault.target).drift(1.0)


def _broker_down(world: World, _: PlannedFault) -> None:
    world.broker.away = True


def _broker_up(world: World, _: PlannedFault) -> None:
    world.broker.start()


def _kill_broker(world: World, _: PlannedFault) -> None:
    world.broker.kill()


def _power_failure(world: World, _: PlannedFault) -> None:
    world.broker.power_failure()


def _rack_power_failure(world: World, fault: PlannedFault) -> None:
    world.broker.power_failure()
    world.crash(fault.target, restart_after=fault.seconds)


def _refuse_to_store(world: World, _: PlannedFault) -> None:
    world.broker.refuses_to_store = True


def _store_again(world: World, _: PlannedFault) -> None:
    world.broker.refuses_to_store = False


def _disconnect(world: World, fault: PlannedFault) -> None:
    world.broker.disconnect(fault.target)


def _consumer(act: Callable[[World, str], None]) -> Act:
    """An act on one of the broker's consumers that has been sent something, which `amount` (0..1) chooses; none while
    the broker has none."""

    def begin(world: World, fault: PlannedFault) -> None:
        names = world.broker.busy_consumers()
        if names:
            act(world, names[int(fault.amount * (len(names) - 1))])

    return begin


def _database_down(world: World, _: PlannedFault) -> None:
    world.postgres.stop()


def _database_up(world: World, _: PlannedFault) -> None:
    world.postgres.start()


def _restart_database(world: World, _: PlannedFault) -> None:
    world.postgres.restart()


def _rewind(world: World, consumer: str) -> None:
    world.broker.rewind_consumer(consumer)


def _lose(world: World, consumer: str) -> None:
    world.broker.lose_consumer(consumer)


def _lose_answers(world: World, fault: PlannedFault) -> None:
    world.postgres.lose_answer(max(1, round(fault.amount)))


def _few_sessions(world: World, fault: PlannedFault) -> None:
    world.postgres.most_sessions = round(fault.amount)


def _many_sessions(world: World, _: PlannedFault) -> None:
    world.postgres.most_sessions = MOST_SESSIONS


def _slow_statements(world: World, fault: PlannedFault) -> None:
    world.postgres.slow_seconds = fault.amount


def _fast_statements(world: World, _: PlannedFault) -> None:
    world.postgres.slow_seconds = 0.0


def _read_only(world: World, _: PlannedFault) -> None:
    world.postgres.refuse_writes()


def _writable(world: World, _: PlannedFault) -> None:
    world.postgres.refuse_writes(refuses=False)


def _on_machine(act: Callable[[Station, PlannedFault], None]) -> Act:
    return lambda world, fault: act(world.stations[fault.target], fault)


def _refuse(station: Station, fault: PlannedFault) -> None:
    station.refusal = fault.amount


def _take(station: Station, _: PlannedFault) -> None:
    station.refusal = 0.0


def _vanish(station: Station, fault: PlannedFault) -> None:
    station.vanishes_after = round(fault.amount)


def _write_foreign(station: Station, _: PlannedFault) -> None:
    station.write_foreign()


def _fill_disk(station: Station, fault: PlannedFault) -> None:
    station.disk.room = round(fault.amount)


def _empty_disk(station: Station, _: PlannedFault) -> None:
    station.disk.room = None


def _lock_disk(station: Station, _: PlannedFault) -> None:
    station.disk.is_read_only = True


def _unlock_disk(station: Station, _: PlannedFault) -> None:
    station.disk.is_read_only = False


def _kill_at_file(world: World, fault: PlannedFault) -> None:
    """Kill an agent between two of its accesses to files, with no await between them."""
    station = world.stations[fault.target]

    def kill() -> None:
        task = asyncio.current_task()
        if task is not None:  # nothing awaits its exception
            task.add_done_callback(lambda ended: ended.exception(), context=Context())
        world.crash(fault.target, restart_after=fault.seconds)

    station.dies_after, station.on_kill = round(fault.amount), kill


def _reboot(world: World, fault: PlannedFault) -> None:
    world.crash(fault.target, restart_after=fault.seconds)
    world.stations[fault.target].reboot()


def _restart_often(world: World, fault: PlannedFault) -> None:
    """Kill an agent again and again. `amount` is the time between, in report intervals."""
    interval_seconds = fault.amount * world.plan.settings["agent"]["report_seconds"]
    for number in range(1 + int(fault.seconds / interval_seconds)):
        restart = partial(world.crash, fault.target, restart_after=REPLACED_SECONDS)
        world.loop.call_later(number * interval_seconds, restart, context=Context())


def machine_kinds() -> Sequence[FaultKind]:
    """What goes wrong on the machines of the agents."""
    return (
        FaultKind("files refuse", agents, (0.5, 30.0), _on_machine(_refuse), _on_machine(_take), (0.05, 1.0)),
        FaultKind("pod vanishes", agents, (0.0, 0.0), _on_machine(_vanish), amount=(1.0, 60.0)),
        FaultKind("foreign writer", agents, (0.0, 0.0), _on_machine(_write_foreign)),
        FaultKind(
            "disk of an agent is full",
            agents,
            (1.0, 60.0),
            _on_machine(_fill_disk),
            _on_machine(_empty_disk),
            (0.0, 2000.0),
        ),
        FaultKind(
            "disk of an agent is read-only", agents, (1.0, 60.0), _on_machine(_lock_disk), _on_machine(_unlock_disk)
        ),
        FaultKind("machine reboots", agents, (1.0, 30.0), _reboot),
    )


KILLED_AT_A_ROSTER = FaultKind("agent killed at a roster", agents, (0.0, 20.0), kill_at_roster)
"""Between a roster and the first report that counts by it."""
KILLED_AT_A_FILE = FaultKind("agent killed at a file", agents, (0.0, 20.0), _kill_at_file, amount=(1.0, 400.0))
AGENTS = "agents"
"""The target of a fault that meets all of them."""


def rolled(plan: Plan) -> Sequence[str]:
    return [*services_of(plan), *([AGENTS] if plan.nodes else [])]


def _roll(*, is_older: bool) -> Act:
    """Replace the replicas of a service, or all agents, one by one, until the faults are over: those that are left
    then stay, or go forward together. `amount` is the pause between two of them; its fraction of a second decides
    whether they are killed or stopped."""

    def act(world: World, fault: PlannedFault) -> None:
        names = agents(world.plan) if fault.target == AGENTS else replicas(world.plan, fault.target)
        kills, left_seconds = int(fault.amount * 1000) % 2 == 0, world.plan.fault_seconds - world.loop.time()
        for number, name in enumerate(names):
            replace = partial(world.replace, name, is_older=is_older, kills=kills)
            if number * fault.amount < left_seconds or not is_older:
                delay_seconds = max(0.0, min(number * fault.amount, left_seconds))
                world.loop.call_later(delay_seconds, replace, context=Context())

    return act


ROLLED = FaultKind(
    "rolled to an older version", rolled, (10.0, 90.0), _roll(is_older=True), _roll(is_older=False), (2.0, 15.0)
)
"""A rolling change back to the version before this one, and forward again (tests.world.versions)."""
CONSOLE_CRASHES = FaultKind("console crashes", lambda plan: plan.consoles * ("console-0",), (0.0, 20.0), _crash)
CONSOLE_CUT = FaultKind(
    "console cut off",
    lambda plan: plan.consoles * (f"console-0>{BROKER}", f"reader-0>{BROKER}", f"reader-0>{BROKER}"),
    (0.5, 40.0),
    _cut(True, True, True),
    _cut(True, True, False),
)
AGENT_AWAY = FaultKind("agent away", agents, (20.0, 240.0), _crash)
"""Longer than a crash: usage ages, and the node is lost."""
AGENT_CUT = FaultKind("agent cut off", agent_connections, (5.0, 60.0), _cut(True, True, True), _cut(True, True, False))
"""Long enough for an agent to drop reports, and to be disconnected."""
AGENT_RESTARTS = FaultKind("agent restarts again and again", agents, (10.0, 60.0), _restart_often, amount=(0.3, 2.5))
"""Each of its processes sends a report or two, or none."""
RACK_POWER = FaultKind("power of a rack fails", agents, (0.5, 10.0), _rack_power_failure, _broker_up)
"""That of the broker and of one agent's process, whose disk stays as it is."""


def _vanish_machine(world: World, fault: PlannedFault) -> None:
    world.crash(fault.target, restart_after=fault.seconds)
    world.machines[fault.target].vanish()


def _return_machine(world: World, fault: PlannedFault) -> None:
    world.machines[fault.target].come_back()


MACHINE_VANISHES = FaultKind("machine vanishes", machines, (3.0, 40.0), _vanish_machine, _return_machine)
"""Of a world of moves: its pods end, and it comes back without them."""
LONG_READ_ONLY = FaultKind("database long read-only", postgres, (15.0, 20.0), _read_only, _writable)
"""Long enough to use up the deliveries of a message. A minute with processes that change is a regression."""


ATTACKS = (
    FaultKind("an agent floods", attackers, (8.0, 25.0), flood),
    FaultKind("an agent answers for another", attackers, (2.0, 30.0), forge),
    FaultKind("a stream full", broker, (1.0, 20.0), fill, make_room),
    FaultKind("a document that expands", of_ensurance, (0.0, 0.0), expand),
    FaultKind("a message too large", of_ensurance, (0.0, 0.0), too_large),
)
"""tests.world.attacks"""


def _refuse_evictions(world: World, fault: PlannedFault) -> None:
    _budget(world, fault.target, fault.amount)


def _allow_evictions(world: World, fault: PlannedFault) -> None:
    _budget(world, fault.target, 0.0)


def _budget(world: World, target: str, share: float) -> None:
    if target in world.machines:
        world.machines[target].budgeted = share
    else:
        world.stations[target].machine.budgeted = share


REFUSED_EVICTIONS = FaultKind(
    "evictions refused by a budget", attackers, (10.0, 120.0), _refuse_evictions, _allow_evictions, (0.3, 1.0)
)
"""tests.world.refusals"""


@cache
def fault_kinds() -> Mapping[str, FaultKind]:
    """All kinds by name."""
    kinds = (
        FaultKind("crash", processes, (0.0, 30.0), _crash),
        FaultKind("stop", processes, (0.0, 10.0), _stop),
        FaultKind("freeze", processes, (0.5, 30.0), _freeze, _resume),
        FaultKind("cut", connections, (0.5, 40.0), _cut(True, True, True), _cut(True, True, False)),
        FaultKind("cut requests", connections, (0.5, 40.0), _cut(True, False, True), _cut(True, False, False)),
        FaultKind("cut answers", connections, (0.5, 40.0), _cut(False, True, True), _cut(False, True, False)),
        FaultKind("slow link", connections, (1.0, 60.0), _slow, _fast, (0.05, 2.0)),
        FaultKind("lossy link", connections, (1.0, 60.0), _lossy, _lossless, (0.01, 0.5)),
        FaultKind("clock jump", processes, (1.0, 120.0), _jump, _jump_back, (-300.0, 300.0)),
        FaultKind("clock drift", processes, (10.0, 200.0), _drift, _end_drift, (-0.05, 0.05)),
        FaultKind("broker unreachable", broker, (0.2, 20.0), _broker_down, _broker_up),
        FaultKind("broker killed", broker, (0.2, 20.0), _kill_broker, _broker_up),
        FaultKind("power of the broker fails", broker, (0.2, 20.0), _power_failure, _broker_up),
        FaultKind("disk of the broker is full", broker, (0.2, 20.0), _refuse_to_store, _store_again),
        FaultKind("disconnect", processes, (0.0, 0.0), _disconnect),
        FaultKind("consumer forgets", broker, (0.0, 0.0), _consumer(_rewind), amount=(0.0, 1.0)),
        FaultKind("consumer lost", broker, (0.0, 0.0), _consumer(_lose), amount=(0.0, 1.0)),
        FaultKind("database down", postgres, (0.2, 20.0), _database_down, _database_up),
        FaultKind("database restarts", postgres, (0.0, 0.0), _restart_database),
        FaultKind("database is read-only", postgres, (0.5, 20.0), _read_only, _writable),
        FaultKind("commit answers lost", postgres, (0.0, 0.0), _lose_answers, amount=(1.0, 5.0)),
        FaultKind("few database sessions", postgres, (1.0, 60.0), _few_sessions, _many_sessions, (1.0, 30.0)),
        *machine_kinds(),
        KILLED_AT_A_FILE,
        ROLLED,
        CONSOLE_CRASHES,
        CONSOLE_CUT,
        AGENT_AWAY,
        LONG_READ_ONLY,
        AGENT_CUT,
        RACK_POWER,
        AGENT_RESTARTS,
        MACHINE_VANISHES,
        *ATTACKS,
        REFUSED_EVICTIONS,
        KILLED_AT_A_ROSTER,
        FaultKind("slow statements", postgres, (1.0, 60.0), _slow_statements, _fast_statements, (0.01, 0.5)),
    )
    return {kind.name: kind for kind in kinds}
