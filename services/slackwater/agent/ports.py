"""What the agent's use cases need of a machine and of its disk.

A `Driver` is one machine: real (adapters/linux) or simulated. It measures and it writes single values; it keeps no
policy, no journal and no memory of originals: those are the same for every driver and live above it.

Writable values are `Knob`s, read and written as the exact text that the machine holds, so that a restore is exact
whatever the previous text was. `render` and `parse` translate between text and value as the knob's declaration says
(domain/knobs): a driver has no method of its own for any kernel file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob, KnobSpec, Target, Value
from slackwater.agent.domain.kubelet import KubeletView
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.agent.domain.samples import PodSample, PsiTotals, RawSample
from slackwater.agent.domain.starts import StartRecord
from slackwater.agent.domain.workload_template import WorkloadTemplate
from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import NodeFacts
from slackwater.model.pods import Pod

__all__ = ["Driver", "EvictionLedger", "IntentFile", "JournalFile", "Knob", "PodSample", "PsiTotals", "RawSample"]


class Driver(Protocol):
    """One machine. Methods are quick and synchronous (microseconds to few milliseconds), called from one thread.

    Whatever concerns a pod that is gone raises NotFound; what the machine refuses raises Misconfigured.
    """

    def open(self) -> None:
        """Find what is there; remove what a dead instance of the same id left behind; be ready to measure."""
        ...

    def close(self) -> None:
        """Close descriptors; remove what this instance created and no process uses. After every restore."""
        ...

    def facts(self) -> NodeFacts:
        """The machine's facts now. The agent's settings may replace name, pool, reserved, labels and annotations."""
        ...

    def pods(self) -> tuple[Pod, ...]:
        """The managed pods that live now, in uid order; cheap enough for every sample."""
        ...

    def kubelet(self) -> KubeletView | None:
        """What the specs of the pods say, where a kubelet runs them; None where the cgroups are the agent's own. The
        same object until something changes."""
        ...

    def sample(self) -> RawSample:
        """Read all counters once."""
        ...

    def glance(self) -> RawSample | None:
        """Read only the node's CPU and memory and the pressure of prod, between two samples; None where nothing changes
        in between."""
        ...

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        """Where this kind of knob is written for a pod (its uid), a container, or a whole tier. Raises NotFound, also
        where the machine has no such knob."""
        ...

    def render(self, knob: Knob, value: Value) -> str:
        """The text that means this value, never below what the kernel accepts. Raises as `read`."""
        ...

    def parse(self, knob: Knob, text: str) -> Value:
        """The value that a text read from the knob means. Raises as `read`."""
        ...

    def read(self, knob: Knob) -> str:
        """The exact text now, without the trailing newline. Raises NotFound when the pod or file is gone, Misconfigured
        when the machine does not let it be read now."""
        ...

    def write(self, knob: Knob, text: str) -> None:
        """Write the text. Raises NotFound when gone, Misconfigured when refused."""
        ...

    def alive(self, pod_uid: str) -> bool:
        """Whether any process of the pod still runs."""
        ...

    def terminate(self, pod_uid: str, signal: int) -> None:
        """Send a signal to every process of the pod (SIGKILL atomically where the kernel can). Gone is fine."""
        ...

    def protected(self, pod_uid: str) -> str | None:
        """Why this pod must never be evicted (it holds the agent itself, …), or None."""
        ...


class JournalFile(Protocol):
    """The durable form of the journal. `append` returns after fsync when `sync` is set. Writing raises Unavailable
    where the disk is full or refuses, and leaves the earlier content."""

    def load(self) -> Journal:
        """The journal of an earlier run; an unreadable last line (torn by a crash) is ignored."""
        ...

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        """Add records in order."""
        ...

    def replace(self, journal: Journal) -> None:
        """Compact: atomically replace the file by the shortest records of `journal`."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class EvictionLedger(Protocol):
    """Evictions by id, on disk, with how they ended; they survive the agent. Saving raises Unavailable."""

    def load(self) -> dict[str, EvictionRecord]:
        """All records known."""
        ...

    def save(self, records: Mapping[str, EvictionRecord], *, sync: bool = True) -> None:
        """Replace them all, atomically. Unless `sync`, they survive a crash of the agent but not of the machine."""
        ...


class StartLedger(Protocol):
    """Starts by id, on disk, with how they ended; they survive the agent. Saving raises Unavailable."""

    def load(self) -> dict[str, StartRecord]:
        """All records known."""
        ...

    def save(self, records: Mapping[str, StartRecord]) -> None:
        """Replace them all, atomically and synced."""
        ...


class Launcher(Protocol):
    """What starts the workloads that this machine's operator has described."""

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        """By name, as they are described now."""
        ...

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        """Start a pod with this uid and these labels beside its own. It lives on when the agent ends. What has not
        begun `within_seconds` gives up. Raises SlackwaterError where no process can be started."""
        ...

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        """Whether the check of the template succeeds now; returns within about a second."""
        ...

    def why_ended(self, uid: str) -> str:
        """What is known of a pod that was launched and does not run."""
        ...


class IntentFile(Protocol):
    """The last document of each writer, kept over a restart. Saving raises Unavailable."""

    def load(self) -> Sequence[Event[IntentDeclared]]:
        """The documents last saved; none if they cannot be read."""
        ...

    def save(self, intents: Sequence[Event[IntentDeclared]]) -> None:
        """Replace them all durably."""
        ...


class Lock(Protocol):
    """One agent per machine and state: held from open to close, and free again when the process ends."""

    def acquire(self) -> None:
        """Raises Conflict when another live agent has it."""
        ...

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Observed:
    """A payload to publish, and the event that led to it."""

    payload: IntentObserved
    cause: Event[IntentDeclared]


@dataclass(frozen=True, slots=True)
class Completion:
    """What to publish, under which event id, the id of the event that asked for it, and the trace of both."""

    payload: EvictionCompleted
    event_id: str
    cause: str
    traceparent: str | None = None


class Publisher(Protocol):
    """The way to the bus. Returns at once: what the bus does not take now waits."""

    @property
    def waiting(self) -> int:
        """How many facts and reports wait for the bus."""
        ...

    def described(self, payload: NodeDescribed) -> None: ...

    def observed(self, answers: Sequence[Observed]) -> None: ...

    def decided(self, key: str, record: DecisionRecord, cause: Event[IntentDeclared] | None) -> None:
        """Publish a decision of this agent by the rules that came with `cause`, or by its own (None); of those that
        wait under one key the newest is kept."""
        ...

    def completed(self, completion: Completion, stored: Callable[[], None]) -> None:
        """Publish the end of an eviction; `stored` is called when the bus has stored it."""
        ...

    def reported(self, payload: UsageReported) -> None: ...

    def disconnected(self) -> None:
        """Mark the reports that still wait: this node is guarded by its agent from here on."""
        ...
