"""What the agent's use cases need of a machine and of its disk.

A `Driver` is one machine: real (adapters/linux) or simulated. It measures and it writes single values; it keeps no
policy, no journal and no memory of originals: those are the same for every driver and live above it.

Writable values are `Knob`s, read and written as the exact text that the machine holds, so that a restore is exact
whatever the previous text was. Two methods translate between text and units for CPU limits, one for weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.agent.domain.samples import PodSample, PsiTotals, RawSample
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.nodes import NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

__all__ = ["Driver", "EvictionLedger", "IntentFile", "JournalFile", "Knob", "PodSample", "PsiTotals", "RawSample"]


class Driver(Protocol):
    """One machine. Methods are quick and synchronous (microseconds to few milliseconds), called from one thread.

    Whatever concerns a pod that is gone raises NotFound; what the machine refuses raises Misconfigured.
    """

    def open(self) -> None:
        """Find what is there; remove what a dead instance of the same id left behind; be ready to measure."""
        ...

    def close(self) -> None:
        """Close descriptors; remove what this instance created and nobody uses any more. After every restore."""
        ...

    def facts(self) -> NodeFacts:
        """The machine now. Name, pool, reserved, labels and annotations may be replaced by the agent's settings."""
        ...

    def pods(self) -> tuple[Pod, ...]:
        """The managed pods that live now, by uid order; cheap enough for every tick."""
        ...

    def sample(self) -> RawSample:
        """Read all counters once."""
        ...

    def glance(self) -> RawSample | None:
        """Read the node's CPU and the pressure of prod alone, for a look between two samples; None where nothing
        changes in between."""
        ...

    def limit_knob(self, pod_uid: str) -> Knob:
        """Where the pod's CPU limit is written. Raises NotFound."""
        ...

    def limit_text(self, knob: Knob, limit_milli: int | None) -> str:
        """The text that means this limit (None = unlimited), never below what the kernel accepts. Raises as `read`."""
        ...

    def limit_milli(self, knob: Knob, text: str) -> int | None:
        """The limit that a text read from the knob means, in milli-cores; None = unlimited."""
        ...

    def weight_knob(self, target: str | Tier) -> Knob:
        """Where the CPU weight of a pod (its uid) or of a whole tier is written. Raises NotFound."""
        ...

    def weight_text(self, knob: Knob, shares: int) -> str:
        """The text that means these cpu.shares (2..262144; converted where the machine has weights 1..10000), or of
        0 that the group is scheduled as idle (where the machine cannot, the smallest weight)."""
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
    where the disk is full or refuses, and leaves what was there."""

    def load(self) -> Journal:
        """What an earlier run left; an unreadable last line (torn by a crash) is ignored."""
        ...

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        """Add records in order."""
        ...

    def replace(self, journal: Journal) -> None:
        """Compact: atomically keep only what `journal` still needs."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


class EvictionLedger(Protocol):
    """Evictions by id, on disk: what was started and how it ended survives the agent. Saving raises Unavailable."""

    def load(self) -> dict[str, EvictionRecord]:
        """All records known."""
        ...

    def save(self, records: Mapping[str, EvictionRecord]) -> None:
        """Replace them all, atomically and synced."""
        ...


class IntentFile(Protocol):
    """The last document of each writer, kept over a restart. Saving raises Unavailable."""

    def load(self) -> Sequence[Event[IntentDeclared]]:
        """What was last saved; nothing if that cannot be read."""
        ...

    def save(self, intents: Sequence[Event[IntentDeclared]]) -> None:
        """Replace them all durably."""
        ...
