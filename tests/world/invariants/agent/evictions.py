"""Evictions: once per id, of no protected pod, and never more than the pool's autonomy allows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.payloads import payload_of
from tests.world.machine.machine import Effect
from tests.world.machine.station import FOLDER, Station
from tests.world.trace import Kind, Step

from slackwater.agent.usecases.disconnected_mode import OWN_WRITER
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.policies.autonomy import AutonomyPolicy

if TYPE_CHECKING:
    from tests.world.world import World

LEDGER = str(FOLDER / "evictions.json")
EVICT = "evict"
HOUR = 3600.0
AUTONOMY = "Autonomy"
HEARD_SECONDS = 60.0
"""So long after a change an eviction may still be declared by the bounds from before it: a replica hears of it late."""
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
        records = [one for one in _ledger(station) if one["pod_uid"] == uid]
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
    """No eviction without the grant; per node and per pool not more within an hour than the bounds say that were in
    force lately. What a disconnected agent decides follows the rules of its last document, and is only counted."""

    NAME = "evictions are within autonomy"
    KINDS: ClassVar = (Kind.POD_SIGNALLED, Kind.APPLIED, Kind.DELETED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted: set[str] = {EnsuranceSettings(**world.plan.settings.get("ensurance", {})).mode}
        self._bounds: list[tuple[float, int, int]] = [(0.0, *bounds_of({}))]
        """Since when, per node and per pool. The last is in force."""
        self._begun: dict[str, tuple[float, str]] = {}
        """By pod uid, the time of the first signal and the node."""
        self._declared: dict[str, float] = {}
        """By eviction id, when it was declared first."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.STORED:
            intent = payload_of(step, IntentDeclared)
            for one in () if intent is None else intent.evictions:
                self._declared.setdefault(one.id, step.at)
        elif step.kind is Kind.POD_SIGNALLED:
            self._check(step)
        else:
            self._follow(step)

    def _check(self, step: Step) -> None:
        station, effect = step.value
        if EVICT not in self._granted:
            raise Violation(f"{station.node}: {effect.pod.uid} is evicted; granted so far: {sorted(self._granted)}")
        is_new = effect.pod.uid not in self._begun
        self._begun.setdefault(effect.pod.uid, (step.at, station.node))
        records = [one for one in _ledger(station) if one["pod_uid"] == effect.pod.uid]
        if is_new and not any(one["writer"] == OWN_WRITER for one in records):
            declared = min((self._declared.get(one["id"], step.at) for one in records), default=step.at)
            self._check_bounds(step.at, declared, station.node)

    def _follow(self, step: Step) -> None:
        planned, is_done = step.value, step.detail["result"] == "done"
        if planned.kind != AUTONOMY or step.detail["result"].startswith("InvalidInput"):
            return
        spec = planned.spec if step.kind is Kind.APPLIED else {}
        self._granted |= {str(spec["mode"])} if "mode" in spec else set()
        in_force = self._bounds[-1]
        self._bounds.append((step.at, *bounds_of(spec)))
        if not is_done:  # it may be in force or not
            per_node, per_pool = bounds_of(spec)
            self._bounds.append((step.at, max(in_force[1], per_node), max(in_force[2], per_pool)))

    def _check_bounds(self, now: float, declared: float, node: str) -> None:
        since = max(0.0, declared - HEARD_SECONDS)
        last = max(place for place, (begun, _, _) in enumerate(self._bounds) if begun <= since)
        in_force = [bounds for bounds in self._bounds[last:] if bounds[0] <= declared]
        per_node, per_pool = max(bound for _, bound, _ in in_force), max(bound for _, _, bound in in_force)
        lately = Counter(where for at, where in self._begun.values() if now - at < HOUR)
        if lately[node] > per_node:
            raise Violation(f"{node}: {lately[node]} evictions within an hour; allowed: {per_node}")
        beyond = (ActionLimits().evictions_per_cycle or 0) * len(self.world.stations)
        if lately.total() > per_pool + beyond:  # each node may have begun one cycle's before the pool stepped back
            raise Violation(f"{lately.total()} evictions in the pool within an hour; allowed: {per_pool} and {beyond}")


def bounds_of(spec: Mapping[str, Any]) -> tuple[int, int]:
    """Evictions within an hour that an Autonomy allows, per node and per pool."""
    per_node = spec.get("nodeEvictionsPerHour", ActionLimits().evictions_per_hour)
    return per_node, spec.get("evictionsPerHour", AutonomyPolicy().evictions_per_hour)


def _ledger(station: Station) -> list[dict[str, Any]]:
    """The records on the disk of the agent."""
    content = station.disk.files().get(LEDGER)
    found: list[dict[str, Any]] = json.loads(content) if content else []
    return found


INVARIANTS = (EvictionsAreCarriedOutOnce, EvictionsAreWithinAutonomy)
