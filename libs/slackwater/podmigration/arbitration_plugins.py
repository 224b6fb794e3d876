"""The stages Sort and GroupFilter as plugins: the built-in ones, and those of other distributions by entry point.

An entry point of the group `slackwater.arbitrate.sort` names a SortFn, one of `slackwater.arbitrate.filter` a
GroupFilterFn. ArbitrationArgs choose them by name. Plugins run before a round, and what they come to is part of its
snapshot: a round is decided again from its record alone, whether or not its plugins are still installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from slackwater.model.plugins import entry_points
from slackwater.model.records import record
from slackwater.podmigration.job_order import QOS_RANK, pulled_together
from slackwater.podmigration.limits import SkipGate
from slackwater.podmigration.snapshot import MigrationSnapshot, WaitingJob

SORT_POINT: Final = "slackwater.arbitrate.sort"
FILTER_POINT: Final = "slackwater.arbitrate.filter"
MOST_TEXT: Final = 400

SortPlugin = Callable[[Sequence[WaitingJob], MigrationSnapshot, float], Sequence[WaitingJob]]
"""A SortFn: the waiting jobs in another order, from the snapshot and the time. Equal jobs keep theirs."""
FilterPlugin = Callable[[Sequence[WaitingJob], MigrationSnapshot, float], Mapping[str, str]]
"""A GroupFilterFn: of the waiting jobs in rank order those that it holds, by id, each with the reason."""


@record(frozen=True, slots=True)
class LimitFilter:
    """A built-in GroupFilterFn: a check of the limits. All of these are counted together, in one pass over the jobs."""

    gates: frozenset[SkipGate] = frozenset()
    limiters: bool = False
    budgets: bool = False

    def without(self, snapshot: MigrationSnapshot) -> MigrationSnapshot:
        """Returns the snapshot with this check switched off."""
        limits = replace(
            snapshot.limits,
            skip_gates=snapshot.limits.skip_gates | self.gates,
            object_limiters={} if self.limiters else snapshot.limits.object_limiters,
        )
        if not self.budgets:
            return replace(snapshot, limits=limits)
        waiting = [replace(job, budgets=()) if job.budgets else job for job in snapshot.waiting]
        return replace(snapshot, limits=limits, waiting=waiting)


def interval_since_start(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    """Last submitted first, in whole seconds."""
    return sorted(jobs, key=lambda job: int(now_s - job.submitted_s))


def pod_priority(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    """Pods of low priority first."""
    return sorted(jobs, key=lambda job: job.pod_priority)


def co_members_migrating(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    """Members of batch jobs that are under way first."""
    migrating = {job.batch_job for job in snapshot.active if job.batch_job}
    return sorted(jobs, key=lambda job: job.batch_job not in migrating)


def migration_priority(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    """Migrations of high priority first."""
    return sorted(jobs, key=lambda job: -job.priority)


def qos_class(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    """BE, then LS, then LSR and LSE."""
    return sorted(jobs, key=lambda job: QOS_RANK[job.qos])


PER_WORKLOAD: Final = LimitFilter(
    frozenset({SkipGate.MAX_MIGRATING_PER_WORKLOAD, SkipGate.MAX_UNAVAILABLE_PER_WORKLOAD})
)
PER_NODE: Final = LimitFilter(frozenset({SkipGate.MAX_MIGRATING_PER_NODE}))
PER_NAMESPACE: Final = LimitFilter(frozenset({SkipGate.MAX_MIGRATING_PER_NAMESPACE}))
GLOBALLY: Final = LimitFilter(frozenset({SkipGate.MAX_MIGRATING_GLOBALLY}))
DISRUPTION_BUDGET: Final = LimitFilter(budgets=True)
OBJECT_LIMITER: Final = LimitFilter(limiters=True)

SORTS: Final[Mapping[str, SortPlugin]] = {
    "IntervalSinceStart": interval_since_start,
    "PodPriority": pod_priority,
    "CoMembersMigrating": co_members_migrating,
    "MigrationPriority": migration_priority,
    "QoSClass": qos_class,
}
"""The five keys of the proposal, in its order: of two jobs the first that tells them apart decides. A test compares
these and the filters with the entry points in pyproject.toml."""
FILTERS: Final[Mapping[str, LimitFilter]] = {
    "PerWorkload": PER_WORKLOAD,
    "PerNode": PER_NODE,
    "PerNamespace": PER_NAMESPACE,
    "Globally": GLOBALLY,
    "DisruptionBudget": DISRUPTION_BUDGET,
    "ObjectLimiter": OBJECT_LIMITER,
}
DEFAULT_SORTS: Final = tuple(SORTS)
DEFAULT_FILTERS: Final = tuple(FILTERS)


def plugin_names(point: str) -> tuple[str, ...]:
    """Returns the names of all plugins of a point, sorted."""
    built_in: Mapping[str, Any] = SORTS if point == SORT_POINT else FILTERS
    return tuple(sorted({*built_in, *(entry.name for entry in entry_points(point))}))


def with_plugins(
    snapshot: MigrationSnapshot, now_s: float, sorts: Sequence[str], filters: Sequence[str]
) -> MigrationSnapshot:
    """Returns the snapshot with what the chosen plugins come to: `ranked`, `held`, and the limits without the built-in
    checks that are not chosen. It is the same where the defaults are chosen.

    A SortFn that fails, or returns other jobs, changes no order and is named in `problems`. A GroupFilterFn that fails
    holds all jobs: what it protects is not known.
    """
    problems = list[str]()
    for name in sorted(FILTERS.keys() - set(filters)):
        snapshot = FILTERS[name].without(snapshot)
    chosen = [name for name in filters if name not in FILTERS]
    ranked: Sequence[WaitingJob] | None = None
    if snapshot.args.enabled and tuple(sorts) != DEFAULT_SORTS:
        ranked = _ranked(snapshot, now_s, sorts, problems)
    held: dict[str, str] = {}
    for name in chosen:
        for job, reason in _held(name, snapshot.waiting if ranked is None else ranked, snapshot, now_s).items():
            held.setdefault(job, one_line(f"{name}: {reason}"))
    if ranked is None and not held:
        return snapshot
    return replace(
        snapshot,
        held=held,
        ranked=None if ranked is None else tuple(job.id for job in ranked),
        problems=tuple(problems),
    )


def one_line(text: str) -> str:
    """Returns text of another distribution as events and records take it."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())[:MOST_TEXT]


def _ranked(
    snapshot: MigrationSnapshot, now_s: float, sorts: Sequence[str], problems: list[str]
) -> Sequence[WaitingJob]:
    """The jobs in the order of the sorts: the last is applied first, so that the first decides, each stable; then the
    members of a batch job are pulled to the best of them."""
    ordered: Sequence[WaitingJob] = snapshot.waiting
    jobs = {job.id: job for job in ordered}
    for name in reversed(sorts):
        try:
            found = [job.id for job in _loaded(SORT_POINT, name, SORTS)(ordered, snapshot, now_s)]
        except Exception as error:  # noqa: BLE001 - of another distribution: the record names it
            problems.append(one_line(f"sort {name} failed: {type(error).__name__}: {error}"))
            continue
        if len(found) != len(jobs) or set(found) != jobs.keys():
            problems.append(f"sort {name} returned other jobs than it was given")
            continue
        ordered = [jobs[job] for job in found]
    return pulled_together(ordered, [job.batch_job or None for job in ordered])


def _held(name: str, ranked: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> Mapping[str, str]:
    try:
        found = _loaded(FILTER_POINT, name, {})(ranked, snapshot, now_s)
        return {str(job): str(reason) for job, reason in found.items()}
    except Exception as error:  # noqa: BLE001 - of another distribution: every job that it holds says it
        return dict.fromkeys((job.id for job in ranked), f"failed: {type(error).__name__}: {error}")


def _loaded(point: str, name: str, built_in: Mapping[str, Any]) -> Callable[..., Any]:
    """Raises LookupError where no distribution brings it any more, and whatever its import raises."""
    if name in built_in:
        return built_in[name]  # type: ignore[no-any-return]
    entry = next((entry for entry in entry_points(point) if entry.name == name), None)
    if entry is None:
        raise LookupError("it is not installed")
    return entry.load()  # type: ignore[no-any-return]
