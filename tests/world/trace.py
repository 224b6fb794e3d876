"""The history of a run: every step that matters, in order, folded into one running hash.

A step is one line of JSON with n (its number), at (virtual seconds), process, kind, subject, cause, detail, and hash:
that of the whole history up to it, so that the first line that differs between two runs shows where they part. Two
runs of a seed give the same lines. `--trace FILE` writes them; tools that draw or shrink a history read that file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

_ADDRESS = b" object at 0x"
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(StrEnum):
    """What a step is about. `subject` in each case:"""

    STARTED = "process.started"  # the incarnation
    STOPPED = "process.stopped"  # the incarnation
    CRASHED = "process.crashed"  # the incarnation
    FROZEN = "process.frozen"
    RESUMED = "process.resumed"
    FAULT_BEGAN = "fault.began"  # its kind; detail: target, what was drawn
    FAULT_ENDED = "fault.ended"
    PHASE = "phase"  # faults, quiet, rest, end
    STORED = "message.stored"  # the subject on the bus; cause: the event that caused it; detail: stream, sequence, id
    BROADCAST = "message.broadcast"
    BURIED = "message.buried"  # the subject of the message; detail: reason, consumer
    ACKNOWLEDGED = "message.acknowledged"  # the subject of a report; detail: stream, sequence
    COMMITTED = "transaction.committed"  # the database; detail: events, partitions and epochs it was under
    REFUSED = "transaction.refused"  # the database; detail: the error
    KNOB_WRITTEN = "machine.knob_written"  # the knob; detail: before, after
    RECOVERED = "machine.recovered"  # the node: an agent has put right what an earlier one left
    POD_STARTED = "machine.pod_started"
    POD_SIGNALLED = "machine.pod_signalled"  # the pod; detail: signal
    POD_ENDED = "machine.pod_ended"  # the pod; detail: by signal, or by itself
    APPLIED = "operator.applied"  # the document
    DELETED = "operator.deleted"
    ASKED = "client.asked"  # the claim; detail: verb, replica
    ANSWERED = "client.answered"  # the claim; detail: verb, what the claim is
    READ = "client.read"  # the event type; detail: stream, sequence
    LOGGED = "log.error"  # the event of the log line
    VIOLATED = "invariant.violated"  # the failure, as the last line of a record; detail: its step. Not in the hash.


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `value` is the object it is about, for invariants; it is not part of the record, nor are `decoded` and
    `raw`: a message as payload and as JSON, once an invariant has asked for it (tests.world.invariants.payloads)."""

    n: int
    at: float
    process: str
    kind: Kind
    subject: str
    cause: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    digest: str = ""
    decoded: list[Any] = field(default_factory=list, compare=False)
    raw: list[Any] = field(default_factory=list, compare=False)

    def line(self) -> str:
        """The step as one line of JSON."""
        return json.dumps(
            {
                "n": self.n,
                "at": round(self.at, 6),
                "process": self.process,
                "kind": self.kind.value,
                "subject": self.subject,
                "cause": self.cause,
                "detail": dict(self.detail),
                "hash": self.digest,
            },
            separators=(",", ":"),
        )


Listener = Callable[[Step], None]


@dataclass(slots=True)
class Trace:
    """The steps so far. `kept` is None where only the hash is wanted."""

    kept: list[Step] | None = None
    count: int = 0
    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))
    _listeners: dict[Kind, list[Listener]] = field(default_factory=dict)

    def listen(self, kind: Kind, listener: Listener) -> None:
        """Call `listener` with every later step of a kind."""
        self._listeners.setdefault(kind, []).append(listener)

    def add(
        self,
        at: float,
        process: str,
        kind: Kind,
        subject: str,
        *,
        cause: str = "",
        detail: Mapping[str, Any] = NOTHING,
        value: Any = None,
        content: bytes = b"",
    ) -> None:
        """Append a step; `content` (a message's body, a row) is only folded into the hash."""
        if _ADDRESS in content:
            raise ValueError(f"what is hashed of {kind} {subject} holds an address: its class needs a __repr__")
        self.count += 1
        self.counts[kind] += 1
        self._hash.update(f"{at:.6f}\x1f{process}\x1f{kind}\x1f{subject}\x1f{cause}\x1f{detail}\x1f".encode())
        self._hash.update(content)
        listeners = self._listeners.get(kind)
        if listeners is None and self.kept is None:
            return
        digest = "" if self.kept is None else self.digest()
        step = Step(self.count, at, process, kind, subject, cause, detail, value, digest)
        if self.kept is not None:
            self.kept.append(step)
        for listener in listeners or ():
            listener(step)

    def fold(self, content: bytes) -> None:
        """Fold more state into the hash."""
        self._hash.update(content)

    def digest(self) -> str:
        """The hash of all steps so far, 16 hexadecimal digits."""
        digest: str = self._hash.hexdigest()
        return digest
