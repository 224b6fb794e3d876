"""Every limit on a machine is the amount of the document that wants it, and what an agent decides alone is recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.invariants.agent.evictions import ledger_of
from tests.world.invariants.agent.limits import CPU_FILES, PERIOD_US, limited
from tests.world.invariants.core.at_rest import amount_in
from tests.world.invariants.decisions.changes import CPU, EVICT, MEMORY, effect_of
from tests.world.invariants.payloads import raw_record_of
from tests.world.machine.cgroups import PAGE
from tests.world.machine.kernel import AGENT, Write
from tests.world.machine.station import Station
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.agent.domain.controls.cpu_limit import ENDING_SHARE, MIN_QUOTA_US
from slackwater.agent.domain.controls.memory_high import hard_limit
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.events.intent_declared import AGENT_WRITER

RAISED_V1 = "memory.limit_in_bytes"
"""The agent keeps this limit above what a pod cannot drop, whatever a document wants."""
RAISED_V2 = "memory.high"
"""So is this one, by a tenth and up to whole GRAINS (decision 0081)."""
GRAIN = 16 << 20


class MachinesFollowDecisions(Invariant):
    """While the documents that name a pod live, a limit that its agent writes is the lowest of theirs, and a limit that
    goes back is named by none of them. What an agent has decided alone has a record at rest, or waits in its account
    to be listed in the next one, unless its process has ended before it could publish it. A limit that it took over
    from a document is a decision of that document's writer."""

    NAME = "machines follow decisions"
    KINDS: ClassVar = (Kind.KNOB_WRITTEN, Kind.POD_SIGNALLED, Kind.STORED, Kind.STARTED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._names: dict[str, str] = {}
        """The agent's process of each node."""
        self._recorded: set[tuple[str, str, str]] = set()
        """Decision, pod uid and what it changes."""
        self._listed: set[str] = set()
        self._carried_out: dict[tuple[str, str, str], str] = {}
        """What a disconnected agent has decided and done, with the process that did it."""
        self._ended: set[str] = set()
        """Decisions of processes that have ended: the next process goes on with their evictions, and has no record."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.KNOB_WRITTEN:
            station, write = step.value
            self._check_write(step.process, station, write)
        elif step.kind is Kind.POD_SIGNALLED:
            self._note_signal(step.process, *step.value)
        elif step.kind is Kind.STARTED:
            started = step.subject.partition("/")[0]  # what waited in its memory for the bus is gone
            self._ended.update(decision for (decision, _, _), one in self._carried_out.items() if one == started)
            self._carried_out = {key: one for key, one in self._carried_out.items() if one != started}
        elif (record := raw_record_of(step)) is not None:
            self._recorded.update((record["id"], one["pod_uid"], effect_of(one)[0]) for one in record["actions"])
            self._listed.update(one["id"] for one in record.get("listed", ()))

    def at_rest(self) -> None:
        listed = {*self._listed, *self._ended}
        for station in self.world.stations.values():
            listed |= _waiting(station)
        for (decision, uid, what), process in self._carried_out.items():
            if decision not in listed and (decision, uid, what) not in self._recorded:
                raise Violation(f"{process} did {what} to {uid} by its decision {decision}, which has no record")

    def _check_write(self, process: str, station: Station, write: Write) -> None:
        name, uid = limited(write.path)
        if not name or write.by != AGENT or station.service is None or self._is_ending(process):
            return
        what = CPU if name in CPU_FILES else MEMORY
        now, states = station.clock.monotonic(), station.service.desired_states()
        wanting = [(state, amount, decision) for state in states for amount, decision in _wanted(state, uid, what)]
        self._note_own(process, uid, what, wanting)
        if what == CPU:
            least = _least_in_grace(station, states, uid)
            wanting = [(state, max(amount, least), decision) for state, amount, decision in wanting]
        living = [amount for state, amount, _ in wanting if state.alive(now)]
        if not living:
            return
        plain, written = amount_in(_plain(station, write)), amount_in(write.after)
        lowest = min(plain, as_written(name, min(amount for _, amount, _ in wanting)))
        is_bounded_by_kernel = what == MEMORY and min(living) >= hard_limit(station.machine.pods[uid].pod)
        highest = math.inf if name == RAISED_V1 or is_bounded_by_kernel else min(plain, as_written(name, min(living)))
        if name == RAISED_V2:
            highest = max(highest, _raised(station, write))
        if not lowest <= written <= highest:
            raise Violation(
                f"{station.node}: {write.path} was set to {write.after!r} ({plain:g} before the agent); its documents "
                f"want {lowest:g} to {highest:g}"
            )

    def _note_own(self, process: str, uid: str, what: str, wanting: Iterable[tuple[DesiredState, int, str]]) -> None:
        wanting = tuple(wanting)
        inherited = {decision for state, _, decision in wanting if state.writer != AGENT_WRITER}
        for state, _, decision in wanting:
            if (
                state.writer == AGENT_WRITER
                and state.lease_seconds == math.inf
                and decision
                and decision not in inherited
            ):
                self._carried_out[decision, uid, what] = process

    def _note_signal(self, process: str, station: Station, effect: Any) -> None:
        for one in ledger_of(station):
            if one["pod_uid"] == effect.pod.uid and one["outcome"] is None and one["writer"] == AGENT_WRITER:
                self._carried_out[one["id"].rpartition("-")[0], effect.pod.uid, EVICT] = process

    def _is_ending(self, process: str) -> bool:
        """Whether the agent stops, and gives everything back whatever its documents say."""
        task = self.world.places[process].task if process in self.world.places else None
        return task is None or task.cancelling() > 0


def _wanted(state: DesiredState, uid: str, what: str) -> Iterable[tuple[int, str]]:
    if what == CPU:
        return [(one.limit_milli, one.decision_id) for one in state.throttles if one.pod_uid == uid]
    return [(one.high_bytes, one.decision_id) for one in state.memory_throttles if one.pod_uid == uid]


def _least_in_grace(station: Station, states: Iterable[DesiredState], uid: str) -> int:
    """What a pod in its grace period may use at least, whatever limit is wanted; 0 for any other pod."""
    limited_pods = {one.pod_uid for state in states for one in state.throttles} & station.machine.pods.keys()
    ending = {one["pod_uid"] for one in ledger_of(station) if one["outcome"] is None} & limited_pods
    share = ENDING_SHARE * station.machine.hardware.cpus * 1000
    return math.floor(share / len(ending)) if uid in ending else 0


def as_written(name: str, amount: int) -> int:
    """The amount as a file holds it: a quota per period, or bytes in whole pages."""
    return max(MIN_QUOTA_US, amount * PERIOD_US // 1000) if name in CPU_FILES else amount // PAGE * PAGE


def _raised(station: Station, write: Write) -> int:
    """The highest level of a pod that has grown: a tenth more than its anonymous memory, and less than a grain."""
    group = station.machine.kernel.group_at(write.path)
    anonymous = 0 if group is None else group.total("anonymous")
    return anonymous * 11 // 10 + GRAIN


def _waiting(station: Station) -> set[str]:
    """The agent's own decisions that its next record will list."""
    running = getattr(station.service, "_running", None)
    records = None if running is None else running.disconnected._records
    return set() if records is None else {one.id for one in records.account.waiting}


def _plain(station: Station, write: Write) -> str:
    """The text from before the agent."""
    differences = station.machine.kernel.differences()
    return differences[write.path][0] if write.path in differences else write.after


INVARIANTS = (MachinesFollowDecisions,)
