"""Evictions: once per id, of no protected pod, and never more than the pool's autonomy allows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.core.documents import HISTORY, spec_of
from tests.world.invariants.payloads import payload_of
from tests.world.machine.machine import Effect
from tests.world.machine.station import FOLDER, Station
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.agent.usecases.disconnected_mode import OWN_WRITER
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.policies.autonomy import AutonomyPolicy

LEDGER = str(FOLDER / "evictions.json")
EVICT = "evict"
HOUR = 3600.0
SIGNALLED = (EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.FAILED)


class EvictionsAreCarriedOutOnce(Invariant):
    """A signal goes to an unprotected pod, for an eviction that was declared, is recorded on the agent's disk, begins
    once and has not ended."""

    NAME = "evictions are carried out once"
    KINDS: ClassVar = (Kind.POD_SIGNALLED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._declared: set[str] = set()
        self._begun: dict[str, str] = {}
        self._ended: dict[str, str] = {}

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.POD_SIGNALLED:
            station, effect = step.value
            self._check_signal(station, effect)
        elif (intent := payload_of(step, IntentDeclared)) is not None:
            self._declared.update(one.id for one in intent.evictions)
        elif (completed := payload_of(step, EvictionCompleted)) is not None:
            self._check_end(completed)

    def _check_signal(self, station: Station, effect: Effect) -> None:
        uid = effect.pod.uid
        if effect.is_protected:
            raise Violation(f"{station.node}: signal {effect.what} to {uid}, which is protected")
        records = [one for one in ledger_of(station) if one["pod_uid"] == uid]
        going = [one for one in records if one["outcome"] is None]
        if len(going) != 1:
            raise Violation(f"{station.node}: signal {effect.what} to {uid}, for which the ledger has {records}")
        [record] = going
        if record["writer"] != OWN_WRITER and record["id"] not in self._declared:
            raise Violation(f"{station.node}: eviction {record['id']} of {uid} was never declared")
        begun = self._begun.setdefault(record["id"], record["started_at"])
        if begun != record["started_at"]:
            raise Violation(f"{station.node}: eviction {record['id']} began at {begun} and at {record['started_at']}")
        if record["id"] in self._ended:
            raise Violation(f"{station.node}: eviction {record['id']} goes on after {self._ended[record['id']]}")

    def _check_end(self, completed: EvictionCompleted) -> None:
        """One answer per id, once a process was signalled. `expired` and the like may be answered again, under the same
        event id, where the ledger or the newest document was lost meanwhile."""
        outcome = f"{completed.outcome} at {completed.completed_at.isoformat()}"
        before = self._ended.setdefault(completed.id, outcome)
        if before != outcome and completed.outcome in SIGNALLED:
            raise Violation(f"{completed.node}: eviction {completed.id} ended as {before} and as {outcome}")


class EvictionsAreWithinAutonomy(Invariant):
    """No eviction without the grant; per node and per pool not more within an hour than the bounds say."""

    NAME = "evictions are within autonomy"
    KINDS: ClassVar = (Kind.POD_SIGNALLED, Kind.COMMITTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted: set[str] = {EnsuranceSettings(**world.plan.settings.get("ensurance", {})).mode}
        self._begun: dict[str, tuple[float, str]] = {}
        """By pod uid, the time of the first signal and the node."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            self._grant(step.value)
            return
        station, effect = step.value
        if EVICT not in self._granted:
            raise Violation(f"{station.node}: {effect.pod.uid} is evicted; granted so far: {sorted(self._granted)}")
        self._begun.setdefault(effect.pod.uid, (step.at, station.node))
        self._check_bounds(step.at)

    def _grant(self, commit: Commit) -> None:
        """Count what an operator allows from the moment at which it is stored."""
        for row in commit.inserted(HISTORY):
            if row["kind"] == AUTONOMY.name:
                self._granted.add((spec_of(row) or {}).get("mode", ""))

    def _check_bounds(self, now: float) -> None:
        lately = Counter(node for at, node in self._begun.values() if now - at < HOUR)
        per_node, per_pool = ActionLimits().evictions_per_hour or 0, AutonomyPolicy().evictions_per_hour
        node, most = lately.most_common(1)[0]
        if most > per_node:
            raise Violation(f"{node}: {most} evictions within an hour; allowed: {per_node}")
        beyond = (ActionLimits().evictions_per_cycle or 0) * len(self.world.stations)
        if lately.total() > per_pool + beyond:  # each node may have begun one cycle's before the pool stepped back
            raise Violation(f"{lately.total()} evictions in the pool within an hour; allowed: {per_pool} and {beyond}")


def ledger_of(station: Station) -> list[dict[str, Any]]:
    """The records on the disk of the agent."""
    content = station.disk.files().get(LEDGER)
    found: list[dict[str, Any]] = json.loads(content) if content else []
    return found


INVARIANTS = (EvictionsAreCarriedOutOnce, EvictionsAreWithinAutonomy)
