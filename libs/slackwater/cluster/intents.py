"""What writers want of one node's pods, and what the agent answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.cluster.rows import UNKNOWN
from slackwater.cluster.versions import micros
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.bounds import MOST_CPU_MILLI

MOST_COMPLETED = 4096
"""Ids of completed evictions that are kept for one node."""


@dataclass(frozen=True, slots=True)
class _Declared:
    generation: int
    limits: Mapping[str, int]
    evictions: tuple[tuple[str, str, int], ...]
    """Id, uid and deadline in microseconds."""
    at: int


@dataclass(frozen=True, slots=True)
class _Answer:
    generation: int
    failed: frozenset[str]
    """Pods whose limit could not be set."""
    at: int


_NO_ANSWER = _Answer(-1, frozenset(), 0)


@dataclass(slots=True)
class Intents:
    """The documents of all writers for one node."""

    _declared: dict[str, _Declared] = field(default_factory=dict)
    _answers: dict[str, _Answer] = field(default_factory=dict)
    _completed: dict[str, None] = field(default_factory=dict)

    def declare(self, data: IntentDeclared) -> int:
        """Takes the newest document of its writer; when the newest of all was declared, in microseconds."""
        limits: dict[str, int] = {}
        for throttle in data.throttles:
            limits[throttle.pod_uid] = min(throttle.cpu_limit_milli, limits.get(throttle.pod_uid, MOST_CPU_MILLI))
        self._declared[data.writer] = _Declared(
            data.generation,
            limits,
            tuple((eviction.id, eviction.pod_uid, micros(eviction.deadline)) for eviction in data.evictions),
            micros(data.declared_at),
        )
        return max(document.at for document in self._declared.values())

    def observe(self, data: IntentObserved) -> int:
        """Takes the newest answer to a writer; when the newest of all was observed, in microseconds."""
        failed = frozenset(limit.pod_uid for limit in data.limits if limit.error is not None)
        self._answers[data.writer] = _Answer(data.generation, failed, micros(data.observed_at))
        return max(answer.at for answer in self._answers.values())

    def complete(self, data: EvictionCompleted) -> bool:
        """Whether the end of the eviction was not known yet."""
        if data.id in self._completed:
            return False
        self._completed[data.id] = None
        while len(self._completed) > MOST_COMPLETED:
            del self._completed[next(iter(self._completed))]
        return True

    @property
    def is_pending(self) -> bool:
        """Whether a document is newer than the agent's last answer to its writer."""
        return any(
            document.generation > self._answers.get(writer, _NO_ANSWER).generation
            for writer, document in self._declared.items()
        )

    def pods(self) -> Mapping[str, tuple[int, int, int]]:
        """By uid: the lowest CPU limit wanted, the last deadline of an eviction that is not completed, and whether the
        answer to a document in force says that the limit failed. UNKNOWN where there is none."""
        limits: dict[str, int] = {}
        deadlines: dict[str, int] = {}
        failed: set[str] = set()
        for writer, document in self._declared.items():
            for uid, limit in document.limits.items():
                limits[uid] = min(limit, limits.get(uid, limit))
            for id_, uid, deadline in document.evictions:
                if id_ not in self._completed:
                    deadlines[uid] = max(deadline, deadlines.get(uid, deadline))
            answer = self._answers.get(writer, _NO_ANSWER)
            if answer.generation == document.generation:
                failed |= answer.failed
        return {
            uid: (limits.get(uid, UNKNOWN), deadlines.get(uid, UNKNOWN), int(uid in failed))
            for uid in (*limits, *(deadlines.keys() - limits.keys()), *(failed - limits.keys() - deadlines.keys()))
        }
