"""Converges the machine to the documents of all writers, and answers what is in force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slackwater.agent.domain.controls.catalog import CONTROLS
from slackwater.agent.domain.controls.control import Control, Cpuset, MachineView
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT, RESTORE_STEP, milli
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.controls.memory_high import MEMORY_HIGH
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.limits import Limits, ReadLimits, lower
from slackwater.agent.domain.protected_pods import PROTECTED, protection_reason
from slackwater.agent.domain.resizes import Resizes
from slackwater.agent.domain.weights import Policy, ProtectingWeights, protection_of, tiers_with
from slackwater.agent.ports import Driver, Observed
from slackwater.agent.usecases import memory_answers
from slackwater.agent.usecases.actuate import Actuator, Outcome
from slackwater.agent.usecases.apply_controls import ApplyControls
from slackwater.agent.usecases.held_documents import Acceptance, HeldDocuments
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit, ObservedStart
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Unset:
    """The limits in force of pods whose CPU limit or memory level could not be set, by uid."""

    cpu: Mapping[str, int | None]
    memory: Mapping[str, int | None]


@dataclass(slots=True)
class ConvergeToIntents:
    """All but the documents is recomputed each time from the machine and the journal."""

    node: str
    boot_epoch: str
    driver: Driver
    actuator: Actuator
    clock: Clock
    capacity_milli: int
    held: HeldDocuments = field(init=False)
    capacity_bytes: int = 0
    memory_limit_bytes: int | None = None
    """What all pods together may use, if the operator bounds it."""
    own: DesiredState | None = None
    """What this agent decides itself, in disconnected mode and for some seconds after."""
    controls: Sequence[Control[Any]] = CONTROLS
    starts: Callable[[IntentDeclared], tuple[ObservedStart, ...]] = lambda document: ()
    """The state of the starts of a document."""
    cpusets: Callable[[], Mapping[str, Cpuset]] = dict
    """The CPUs of pods that do not have all of the machine."""
    evicted: Callable[[], Collection[str]] = lambda: ()
    """The uids of pods that this agent is evicting."""
    _apply: ApplyControls = field(init=False)
    _protected: frozenset[str] = frozenset()
    _ticks: int = 0
    _last_read: Limits = field(default_factory=dict)
    """The CPU limits as they were read last."""
    _resizes: Resizes = field(default_factory=Resizes)

    def __post_init__(self) -> None:
        self.held = HeldDocuments(self.node)
        self._apply = ApplyControls(self.driver, self.actuator, self.controls)

    def remember(self, events: Iterable[Event[IntentDeclared]]) -> None:
        """After a restart, load the documents from before it."""
        self.held.remember(events, self.clock.monotonic())

    def receive(self, event: Event[IntentDeclared], accepted: Callable[[], object] = lambda: None) -> list[Observed]:
        """Accept one document, converge, and return what is in force now. A repeated document is not answered.
        `accepted` is called before the first write, which a slow disk may delay."""
        document, now_s = event.data, self.clock.monotonic()
        acceptance, held = self.held.accept(event, now_s, disconnected=self.own is not None)
        if acceptance is not Acceptance.NEW:
            if acceptance is Acceptance.IGNORED:
                _log.warning(
                    "intent ignored", writer=document.writer, intended_for=document.node, generation=document.generation
                )
            return []
        before, received_at = None if held is None else held.event.data, self.clock.now()
        accepted()
        pods = self.driver.pods()
        if (kubelet := self.driver.kubelet()) is not None:  # what is written now is from before any later resize
            self._resizes.update(kubelet, self._ticks)
        outcome = self._converge(pods)
        answers = self._answer_foreign(outcome)
        changed = _changed(before, document)
        if before is None or changed or before.generation != document.generation:
            answers = [answer for answer in answers if answer.payload.writer != document.writer]
            memory = memory_answers.changed_pods(before, document)
            cpu_pods = changed | self._pods_of(outcome, pods)
            memory_pods = memory | memory_answers.failed_pods(self._apply, outcome, pods)
            answers.append(self._observed(event, cpu_pods, memory_pods, outcome, received_at))
        return answers

    def answer(self, writer: str) -> list[Observed]:
        """What is in force of the writer's document now, without its limits."""
        held = self.held.by_writer.get(writer)
        return [] if held is None else [self._observed(held.event, set(), set(), Outcome(), self.clock.now())]

    def settle(self, pods: Sequence[Pod]) -> Unset:
        """Converge now. Returns the pods whose limits could not be set, with the limit in force."""
        outcome = self._converge(pods)
        cpu, memory = self.limits(pods), self.memory_limits(pods)
        failed = memory_answers.failed_pods(self._apply, outcome, pods)
        return Unset(
            {uid: cpu.known[uid][0] for uid in self._pods_of(outcome, pods) if uid in cpu.known.keys() - cpu.unread},
            {uid: memory[uid][0] for uid in failed if uid in memory},
        )

    def tick(self, pods: Sequence[Pod]) -> list[Observed]:
        """Converge once per sample: leases lapse, pods come and go, other programs write to the same files."""
        self._ticks += 1
        self._drop_faded()
        kubelet, resized = self.driver.kubelet(), set[Knob]()
        if kubelet is not None:
            self._resizes.update(kubelet, self._ticks)
            resized = self._resizes.of_resized(self._apply.foreign, kubelet)
            self._apply.adopt({*resized, *self._resizes.of_resized(self.actuator.given_back(), kubelet)})
        is_idle = kubelet is None or not kubelet.shares
        is_idle = is_idle and not self.cpusets()
        if is_idle and not self.held.by_writer and not len(self.actuator.journal) and self.memory_limit_bytes is None:
            return []
        return self._answer_foreign(self._converge(pods, self._ticks), resized)

    def _drop_faded(self) -> None:
        """Drop the agent's own state when its limits have risen to the top."""
        now = self.clock.monotonic()
        if self.own is not None and self.own.lapsed_seconds(now) * RESTORE_STEP >= 1:
            self.own = None

    def throttled(self) -> int:
        """How many CPU limits that a writer requested are in force. Limits of what a pod has borrowed do not count."""
        claimed, kubelet = self._apply.claimed(CPU_LIMIT), self.driver.kubelet()
        if not claimed or kubelet is None:
            return len(claimed)
        requested = {throttle.pod_uid for document in self._documents() for throttle in document.throttles}
        borrowed = {self._knob_of(uid) for uid in kubelet.shares.keys() - requested}
        return sum(knob not in borrowed for knob in claimed)

    def throttling(self) -> bool:
        """Whether any limit that a writer requested is in force."""
        return self.throttled() > 0 or bool(self._apply.claimed(MEMORY_HIGH))

    def limits(self, pods: Sequence[Pod]) -> ReadLimits:
        """The CPU limits of these pods. Pods that have just vanished are missing. What a pod has borrowed is its limit
        before any throttle."""
        limits: dict[str, tuple[int | None, int | None]] = {}
        unread: dict[str, str] = {}
        kubelet = self.driver.kubelet()
        for pod in pods:
            try:
                now, original = self._apply.values(CPU_LIMIT, pod.uid)
                share = None if kubelet is None else kubelet.shares.get(pod.uid)
                of_pod = lower(milli(original), None if share is None else share.cpu_milli)
                limits[pod.uid] = (milli(now), of_pod)
            except NotFound:
                continue
            except Misconfigured as error:
                limits[pod.uid] = self._last_read.get(pod.uid, (None, None))
                unread[pod.uid] = error.code
        self._last_read = limits
        return ReadLimits(limits, unread)

    def memory_limits(self, pods: Sequence[Pod]) -> dict[str, tuple[int | None, int | None]]:
        """The same of upper memory levels in bytes; empty where this machine has none."""
        return memory_answers.memory_limits(self._apply, pods)

    def weights_in_force(self) -> ProtectingWeights | None:
        """How the tiers' weights, read back from the machine, put prod first; None where no document asks for that, or
        the machine does not show it."""
        if all(document.policy is Policy.BY_REQUEST for document in self._documents()):
            return None
        pods = self.driver.pods()
        shares: dict[Tier, int] = {}
        for tier in set(Tier) - tiers_with(pods, self._ending(pods)):  # those weigh more only for a grace period
            try:
                shares[tier] = int(self._apply.values(CPU_WEIGHT, tier)[0] or 0)
            except NotFound:
                continue
            except Misconfigured:
                return None
        return protection_of(shares)

    def _documents(self) -> list[DesiredState]:
        return [*self.held.states(), *(() if self.own is None else (self.own,))]

    def _converge(self, pods: Sequence[Pod], sample: int | None = None) -> Outcome:
        documents = self._documents()
        self._protected = frozenset(pod.uid for pod in pods if protection_reason(pod) is not None)
        now = self.clock.monotonic()
        machine = MachineView(
            self.capacity_milli,
            now,
            self._protected,
            self.capacity_bytes,
            self.memory_limit_bytes,
            self._ending(pods),
            self.cpusets(),
            self.driver.kubelet(),
        )
        return self._apply.apply(documents, pods, machine, sample)

    def _ending(self, pods: Sequence[Pod]) -> frozenset[str]:
        """The pods in their grace period, by whomever they were evicted."""
        terminating = (pod.uid for pod in pods if pod.status is not None and pod.status.terminating)
        return frozenset((*self.evicted(), *terminating))

    def _knob_of(self, uid: str) -> Knob | None:
        try:
            return self.driver.knob(CPU_LIMIT, uid)
        except NotFound:
            return None

    def _pods_of(self, outcome: Outcome, pods: Sequence[Pod], more: AbstractSet[Knob] = frozenset()) -> set[str]:
        """Pods whose limit these steps failed to set or had to yield, or that is one of `more`."""
        touched = outcome.errors.keys() | outcome.yielded.keys() | more
        uids: set[str] = set()
        for pod in pods if touched else ():
            if self._knob_of(pod.uid) in touched:
                uids.add(pod.uid)
        return uids

    def _answer_foreign(self, outcome: Outcome, back: AbstractSet[Knob] = frozenset()) -> list[Observed]:
        """Answers of all writers where a knob was left to another program. `back`: knobs that were until now."""
        self._apply.yielded(outcome)
        kubelet = self.driver.kubelet()
        if kubelet is not None and (resized := self._resizes.of_resized(self._apply.foreign, kubelet)):
            self._apply.adopt(resized)
            outcome.yielded = {knob: text for knob, text in outcome.yielded.items() if knob not in resized}
        for knob in outcome.yielded:
            _log.warning("foreign writer found", node=self.node, file=knob.path, field=knob.field)
        if not outcome.yielded and not back:
            return []
        present, now = self.driver.pods(), self.clock.now()
        cpu = self._pods_of(outcome, present, back)
        memory = memory_answers.failed_pods(self._apply, outcome, present)
        return [self._observed(held.event, cpu, memory, outcome, now) for held in self.held.by_writer.values()]

    def _observed(
        self,
        event: Event[IntentDeclared],
        uids: set[str],
        memory_uids: set[str],
        outcome: Outcome,
        received_at: datetime,
    ) -> Observed:
        document = event.data
        decisions = {throttle.pod_uid: throttle.decision_id for throttle in document.throttles}
        payload = IntentObserved.model_construct(
            node=self.node,
            writer=document.writer,
            generation=document.generation,
            boot_epoch=self.boot_epoch,
            received_at=received_at,
            limits=tuple(self._limit(uid, decisions.get(uid), outcome) for uid in sorted(uids)),
            memory_limits=memory_answers.answers(self._apply, document, memory_uids, outcome, self._protected),
            starts=self.starts(document),
            foreign_writers=tuple(sorted(knob.path for knob in self._apply.foreign)),
            observed_at=self.clock.now(),
        )
        return Observed(payload, event)

    def _limit(self, uid: str, decision_id: str | None, outcome: Outcome) -> ObservedLimit:
        try:
            knob = self.driver.knob(CPU_LIMIT, uid)
            now = milli(self.driver.parse(knob, self.driver.read(knob)))
        except NotFound:
            return ObservedLimit(pod_uid=uid, cpu_limit_milli=None, error="not_found", decision_id=decision_id)
        except Misconfigured as error:
            return ObservedLimit(pod_uid=uid, cpu_limit_milli=None, error=error.code, decision_id=decision_id)
        reason = "foreign_writer" if knob in self._apply.foreign else outcome.errors.get(knob)
        if decision_id is not None and uid in self._protected:
            reason = PROTECTED
        return ObservedLimit.model_construct(  # a tenant may ask for any limit: it is bounded where it is published
            pod_uid=uid, cpu_limit_milli=now, error=reason, decision_id=decision_id
        )


def _changed(before: IntentDeclared | None, after: IntentDeclared) -> set[str]:
    """Pods whose wanted limit differs between two documents of one writer."""
    old = {item.pod_uid: item.cpu_limit_milli for item in (before.throttles if before is not None else ())}
    new = {item.pod_uid: item.cpu_limit_milli for item in after.throttles}
    return {uid for uid in old.keys() | new.keys() if old.get(uid) != new.get(uid)}
