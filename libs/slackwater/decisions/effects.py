"""What decisions did, as lists show it: a single one, or all steps of an episode. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.model.plurals import counted
from slackwater.model.quantities import format_cpu, format_memory

GUARDING = frozenset({DecisionKind.THROTTLE, DecisionKind.EVICT, DecisionKind.RESTORE})
"""Decisions about pods: one without a pod changed nothing."""
_DRY_RUNS = frozenset(
    {
        Reason.THROTTLE_OBSERVED_ONLY,
        Reason.EVICT_OBSERVED_ONLY,
        Reason.SCHEDULING_OBSERVED_ONLY,
        Reason.DESCHEDULE_DRY_RUN,
    }
)
SHOWN_PODS = 2


class Standing(StrEnum):
    """Whether a decision was carried out, and if not, why not."""

    CARRIED_OUT = "yes"
    DRY_RUN = "dry run"
    TO_WEIGHTS = "left to weights"
    NOTHING = "nothing to do"


@dataclass(frozen=True, slots=True)
class PodEffect:
    """One pod in a decision: what its limits released (0 of an eviction: its end releases all), or its eviction."""

    uid: str
    name: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class StepEffect:
    """What a list reads of one decision."""

    kind: str
    mode: str | None
    reason: str
    pods: Sequence[PodEffect] = ()

    @property
    def standing(self) -> Standing:
        """A change to mode observe gives back all limits, so that restore is carried out."""
        if self.reason == Reason.THROTTLE_LEFT_TO_WEIGHTS:
            return Standing.TO_WEIGHTS
        guards = self.kind in GUARDING
        if self.reason in _DRY_RUNS:
            return Standing.DRY_RUN
        if guards and self.mode == Mode.OBSERVE and self.reason != Reason.RESTORE_MODE_CHANGED:
            return Standing.DRY_RUN
        return Standing.NOTHING if guards and not self.pods else Standing.CARRIED_OUT


@dataclass(frozen=True, slots=True)
class RowEffect:
    """What the decisions of one row did together: the whole of an episode, not its last step.

    standing      of the steps that took something, the one that did most; else of the newest
    cpu_milli     by how much CPU limits fell in all steps; what was given back later is not subtracted
    memory_bytes  the same of memory limits
    evicted       names of pods that were evicted, and of those that were limited
    """

    standing: Standing
    cpu_milli: int = 0
    memory_bytes: int = 0
    evicted: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    is_restored: bool = False

    @property
    def pods(self) -> tuple[str, ...]:
        """Every pod, the evicted ones first."""
        return tuple(dict.fromkeys((*self.evicted, *self.limited)))

    @property
    def text(self) -> str:
        """In a few words: `evicted 2 pods, took 1.3 cores, gave all back`. Empty if no limit fell and no pod ended."""
        took = [format_cpu(self.cpu_milli) + " cores"] if self.cpu_milli else []
        took += [format_memory(self.memory_bytes)] if self.memory_bytes else []
        parts = [f"evicted {counted(len(self.evicted), 'pod')}"] if self.evicted else []
        parts += [f"took {' and '.join(took)}"] if took else []
        if not parts:
            return ""
        if self.standing is Standing.TO_WEIGHTS:
            return f"left to CPU weights; limits would take {' and '.join(took)}"
        if self.standing is Standing.DRY_RUN:
            return "would have " + ", ".join(parts).replace("took", "taken")
        return ", ".join([*parts, "gave all back"] if self.is_restored else parts)


_BY_DEED = (Standing.CARRIED_OUT, Standing.DRY_RUN, Standing.TO_WEIGHTS, Standing.NOTHING)


def effect_of(steps: Iterable[StepEffect]) -> RowEffect:
    """The effect of a row's decisions, newest first: what its steps of the strongest standing did."""
    every = tuple(steps)
    taking = [step for step in every if step.kind in (DecisionKind.THROTTLE, DecisionKind.EVICT)]
    if not taking:
        names = tuple(dict.fromkeys(pod.name for step in every for pod in step.pods))
        return RowEffect(every[0].standing, limited=names)
    standing = min((step.standing for step in taking), key=_BY_DEED.index)
    pods = [pod for step in taking if step.standing is standing for pod in step.pods]
    return RowEffect(
        standing=standing,
        cpu_milli=sum(pod.cpu_milli for pod in pods if not pod.evicted),
        memory_bytes=sum(pod.memory_bytes for pod in pods if not pod.evicted),
        evicted=tuple(dict.fromkeys(pod.name for pod in pods if pod.evicted)),
        limited=tuple(dict.fromkeys(pod.name for pod in pods if not pod.evicted)),
        is_restored=every[0].reason in (Reason.RESTORE_COMPLETE, Reason.RESTORE_MODE_CHANGED),
    )


def pods_text(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - SHOWN_PODS
    return ", ".join(names[:SHOWN_PODS]) + (f" and {more} more" if more > 0 else "")
