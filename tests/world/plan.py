"""What one run does, drawn from its seed before it starts: sizes, settings, faults, changes.

A plan is plain data, so that it can be printed, replayed and made smaller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SERVICES = ("ingestion", "prediction", "colocation", "ensurance")
CONSOLE = "console"
QUOTA = "quota"
OUTBOXES = (*SERVICES, QUOTA)
"""Services whose outboxes every plan has; QUOTA runs where something claims."""
ENSURANCE, DESCHEDULER, MIGRATION = "ensurance", "descheduler", "migration"
MOVE_SERVICES = (ENSURANCE, MIGRATION, DESCHEDULER)
"""Services of a world of moves. Ensurance gives leave as Autonomies say."""
BROKER, POSTGRES = "broker", "postgres"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault: `seconds` is how long it lasts, `amount` what its kind makes of it (tests.world.faults)."""

    kind: str
    target: str
    at: float
    seconds: float
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What an operator does: puts or deletes a document. A hostile one is refused, and nothing follows."""

    at: float
    verb: str
    kind: str
    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run has three phases: `fault_seconds`, then `quiet_seconds` without faults and changes, in which everything
    must come to rest, then `rest_seconds` in which nothing may change."""

    seed: int
    nodes: int = 10
    replicas: int = 2
    clients: int = 1
    consoles: int = 0
    """The console costs about a fifth of a run's time: a part of the seeds has one, with a reader of its stream."""
    claimers: int = 0
    """Clients that claim resources; with one, the service quota runs."""
    scripted_nodes: int = 0
    """Nodes whose events a script publishes, instead of agents and the services but quota: a world of quotas alone."""
    habits: tuple[str, ...] = ()
    """Of a world of quotas alone (tests.world.quota_habits), or of moves (tests.world.move_habits)."""
    move_nodes: int = 0
    """Nodes of a world of moves, with scripted agents whose pods end by intents (tests.world.moves)."""
    fault_seconds: float = 390.0
    quiet_seconds: float = 150.0
    rest_seconds: float = 60.0
    in_order: bool = False
    delay_seconds: float = 0.0005
    spread_seconds: float = 0.002
    reorders: bool = False
    return_seconds: float = 0.0
    """From the end of an evicted pod to the start of another one in its place; 0: none takes its place."""
    clock_offsets: Mapping[str, float] = field(default_factory=dict)
    """Seconds by host."""
    clock_rates: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of each service and of the agents, by name, where they are not the defaults."""
    faults: tuple[PlannedFault, ...] = ()
    changes: tuple[PlannedChange, ...] = ()

    @property
    def seconds(self) -> float:
        """The virtual length of the run."""
        return self.fault_seconds + self.quiet_seconds + self.rest_seconds

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        raw = json.loads(text)
        faults = tuple(PlannedFault(**fault) for fault in raw.pop("faults"))
        changes = tuple(PlannedChange(**change) for change in raw.pop("changes"))
        habits = tuple(raw.pop("habits", ()))
        return cls(**raw, habits=habits, faults=faults, changes=changes)


def services_of(plan: Plan) -> Sequence[str]:
    """The services that a plan runs, but for the console."""
    if plan.move_nodes:
        return MOVE_SERVICES
    return (*(() if plan.scripted_nodes else SERVICES), *((QUOTA,) if plan.claimers else ()))


def replicas(plan: Plan, *services: str) -> Sequence[str]:
    """The names of the replicas of these services, or of all."""
    return [f"{service}-{number}" for service in services or services_of(plan) for number in range(plan.replicas)]


def agents(plan: Plan) -> Sequence[str]:
    return [f"agent-{number:02d}" for number in range(plan.nodes)]


def machines(plan: Plan) -> Sequence[str]:
    """The scripted agents of a world of moves."""
    return [f"machine-{number:02d}" for number in range(plan.move_nodes)]


def outboxes(plan: Plan) -> Sequence[str]:
    """The services whose schemas a plan's world has. Others would change the hashes of plans without moves."""
    return (*OUTBOXES, MIGRATION, DESCHEDULER) if plan.move_nodes else OUTBOXES
