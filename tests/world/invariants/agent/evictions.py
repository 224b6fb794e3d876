"""Evictions: once per id, of no protected pod, and never more than the pool's autonomy allows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.core.documents import HISTORY, spec_of
from tests.world.invariants.payloads import payload_of
from tests.world.machine.machine import Effect
from tests.world.machine.station import FOLDER, Station
from tests.world.servers import Commit
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import AGENT_WRITER, IntentDeclared
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.policies.autonomy import AutonomyPolicy
from slackwater.waterline.policies.grants import Autonomy

LEDGER = str(FOLDER / "evictions.json")
EVICT = "evict"
HOUR = 3600.0
KNOWN_SECONDS = 5.0
"""From the commit of a document until every replica follows it, without faults."""
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
        self._unstored: set[str] = set()
        """Ends that came while the agent's disk took no writes."""

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
        if record["writer"] != AGENT_WRITER and record["id"] not in self._declared:
            raise Violation(f"{station.node}: eviction {record['id']} of {uid} was never declared")
        begun = self._begun.setdefault(record["id"], record["started_at"])
        if begun != record["started_at"]:
            raise Violation(f"{station.node}: eviction {record['id']} began at {begun} and at {record['started_at']}")
        if record["id"] in self._ended:
            raise Violation(f"{station.node}: eviction {record['id']} goes on after {self._ended[record['id']]}")

    def _check_end(self, completed: EvictionCompleted) -> None:
        """One answer per id, once a process was signalled. `expired` and the like may be answered again, under the same
        event id, where the ledger or the newest document was lost meanwhile; so may an end that the disk refused."""
        outcome = f"{completed.outcome} at {completed.completed_at.isoformat()}"
        before = self._ended.setdefault(completed.id, outcome)
        if before == outcome and self._is_refused(completed.node):
            self._unstored.add(completed.id)
        if before != outcome and completed.outcome in SIGNALLED and completed.id not in self._unstored:
            raise Violation(f"{completed.node}: eviction {completed.id} ended as {before} and as {outcome}")

    def _is_refused(self, node: str) -> bool:
        """Whether the disk of a node's agent takes no writes now."""
        stations = (one for one in self.world.stations.values() if one.node == node)
        return any(one.disk.is_read_only or one.disk.room is not None for one in stations)


@dataclass(frozen=True, slots=True)
class _Grant:
    """An Autonomy in force from its commit until `until`, when the next one is known everywhere."""

    limits: ActionLimits
    policy: AutonomyPolicy
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class _Begun:
    at: float
    node: str
    writer: str


class EvictionsAreWithinAutonomy(Invariant):
    """No eviction without the grant. Within an hour no writer begins more evictions on a node than the grant says, and
    ensurance no more in the pool than the cycle that passes the pool's bound. An eviction that failed does not count.

    Of several grants the widest counts, because a replica or a disconnected agent may have known the one before. One
    that was replaced before any fault counts for KNOWN_SECONDS more."""

    NAME = "evictions are within autonomy"
    KINDS: ClassVar = (Kind.POD_SIGNALLED, Kind.COMMITTED, Kind.STORED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._granted: set[str] = {EnsuranceSettings(**world.plan.settings.get("ensurance", {})).mode}
        self._grants = [_Grant(ActionLimits(), AutonomyPolicy())]
        self._begun: dict[str, _Begun] = {}
        """By pod uid, its first signal."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.COMMITTED:
            self._grant(step.value, step.at)
        elif step.kind is Kind.POD_SIGNALLED:
            self._signal(step)
        elif (done := payload_of(step, EvictionCompleted)) is not None and done.outcome is EvictionOutcome.FAILED:
            self._begun.pop(done.pod_uid, None)

    def _signal(self, step: Step) -> None:
        station, effect = step.value
        uid = effect.pod.uid
        if EVICT not in self._granted:
            raise Violation(f"{station.node}: {uid} is evicted; granted so far: {sorted(self._granted)}")
        if uid not in self._begun:
            writer = next((one["writer"] for one in ledger_of(station) if one["pod_uid"] == uid), "")
            self._begun[uid] = _Begun(step.at, station.node, writer)
            self._check_bounds(step.at)

    def _grant(self, commit: Commit, now: float) -> None:
        """Count what an operator allows from the moment at which it is stored."""
        for row in commit.inserted(HISTORY):
            if row["kind"] == AUTONOMY.name:
                spec = spec_of(row)
                self._granted.add((spec or {}).get("mode", ""))
                before_any_fault = min((fault.at for fault in self.world.plan.faults), default=math.inf)
                if now + KNOWN_SECONDS < before_any_fault:
                    self._grants = [replace(one, until=min(one.until, now + KNOWN_SECONDS)) for one in self._grants]
                self._grants.append(_grant_of(spec))

    def _check_bounds(self, now: float) -> None:
        grants = [one for one in self._grants if now < one.until]
        lately = [one for one in self._begun.values() if now - one.at < HOUR]
        (node, writer), most = Counter((one.node, one.writer) for one in lately).most_common(1)[0]
        per_node = max(one.limits.evictions_per_hour or 0 for one in grants)
        if most > per_node:
            raise Violation(f"{node}: {writer} began {most} evictions within an hour; allowed: {per_node}")
        per_pool = max(one.policy.evictions_per_hour + (one.limits.evictions_per_cycle or 0) for one in grants)
        total = sum(one.writer != AGENT_WRITER for one in lately)
        if total > per_pool:
            raise Violation(f"{total} evictions in the pool within an hour; allowed with a last cycle: {per_pool}")


def _grant_of(spec: Mapping[str, Any] | None) -> _Grant:
    if spec is None:
        return _Grant(ActionLimits(), AutonomyPolicy())
    raw = {"apiVersion": "slackwater.io/v1alpha1", "kind": "Autonomy", "metadata": {"name": "any"}, "spec": spec}
    document = Autonomy.model_validate(raw)
    return _Grant(document.limits(), document.policy())


def ledger_of(station: Station) -> list[dict[str, Any]]:
    """The records on the disk of the agent."""
    content = station.disk.files().get(LEDGER)
    found: list[dict[str, Any]] = json.loads(content) if content else []
    return found


INVARIANTS = (EvictionsAreCarriedOutOnce, EvictionsAreWithinAutonomy)
