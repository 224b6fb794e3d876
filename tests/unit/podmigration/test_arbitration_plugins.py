"""Sort and GroupFilter plugins: the built-in ones are the proposal, and a failing one harms no limit."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from drawn_jobs import NOW_S, snapshots
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.podmigration import arbitration_plugins
from slackwater.podmigration.arbitration import arbitrate_plainly, ranked_jobs
from slackwater.podmigration.arbitration_plugins import (
    DEFAULT_FILTERS,
    DEFAULT_SORTS,
    FILTER_POINT,
    FILTERS,
    SORT_POINT,
    SORTS,
    with_plugins,
)
from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.limits import HoldFilter
from slackwater.podmigration.snapshot import MigrationSnapshot, WaitingJob, WorkloadReplicas

few = settings(max_examples=10)
LIMITS = {
    "PerWorkload": {HoldFilter.WORKLOAD_MIGRATING, HoldFilter.WORKLOAD_UNAVAILABLE},
    "PerNode": {HoldFilter.NODE},
    "PerNamespace": {HoldFilter.NAMESPACE},
    "Globally": {HoldFilter.GLOBAL},
    "DisruptionBudget": {HoldFilter.DISRUPTION_BUDGET},
    "ObjectLimiter": {HoldFilter.WORKLOAD_LIMITER, HoldFilter.NAMESPACE_LIMITER},
}


def newest_pod_last(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    return sorted(jobs, key=lambda job: job.pod)


def drops_one(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> Sequence[WaitingJob]:
    return jobs[1:]


def freeze(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> Mapping[str, str]:
    return {job.id: f"namespace {job.namespace}\n is \x00frozen" for job in jobs if job.namespace == "a"}


def broken(jobs: Sequence[WaitingJob], snapshot: MigrationSnapshot, now_s: float) -> Any:
    raise ZeroDivisionError("no")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another distribution brings them."""
    sorts, filters = ("newest_pod_last", "drops_one", "broken"), ("freeze", "broken")
    points = {
        point: tuple(EntryPoint(name, f"{__name__}:{name}", point) for name in names)
        for point, names in ((SORT_POINT, sorts), (FILTER_POINT, filters))
    }
    monkeypatch.setattr(arbitration_plugins, "entry_points", points.__getitem__)


def test_the_entry_points_are_the_built_in_plugins() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for point, built_in in ((SORT_POINT, SORTS), (FILTER_POINT, FILTERS)):
        declared = project["entry-points"][point]
        assert list(declared) == list(built_in)
        for name, value in declared.items():
            assert EntryPoint(name, value, point).load() is built_in[name]


@few
@given(snapshots())
def test_the_five_sorts_one_after_the_other_are_the_order_of_the_proposal(snapshot: MigrationSnapshot) -> None:
    assert with_plugins(snapshot, NOW_S, DEFAULT_SORTS, DEFAULT_FILTERS) is snapshot
    enabled = replace(snapshot, args=replace(snapshot.args, enabled=True))
    names = ("PodPriority", "broken", *DEFAULT_SORTS)  # a key twice, and one that changes nothing
    found = with_plugins(enabled, NOW_S, names[2:3] + names[1:2] + names[3:], DEFAULT_FILTERS)
    assert found.ranked == tuple(job.id for job in ranked_jobs(enabled, NOW_S, ()))
    assert found.problems == ("sort broken failed: LookupError: it is not installed",)


@few
@given(snapshots(), st.sampled_from(sorted(permutations(DEFAULT_SORTS, 2))))
def test_of_two_sorts_the_first_decides_and_equal_jobs_keep_their_order(
    snapshot: MigrationSnapshot, names: tuple[str, str]
) -> None:
    single = [replace(job, batch_job="") for job in snapshot.waiting]
    enabled = replace(snapshot, waiting=single, args=replace(snapshot.args, enabled=True))
    found = with_plugins(enabled, NOW_S, names, DEFAULT_FILTERS).ranked
    expected: Sequence[WaitingJob] = single
    for name in reversed(names):
        expected = SORTS[name](expected, enabled, NOW_S)
    assert found == tuple(job.id for job in expected)


@few
@given(snapshots(), st.sets(st.sampled_from(DEFAULT_FILTERS)))
def test_a_built_in_filter_that_is_not_chosen_holds_no_job(snapshot: MigrationSnapshot, chosen: set[str]) -> None:
    found = with_plugins(snapshot, NOW_S, DEFAULT_SORTS, sorted(chosen))
    plan = arbitrate(found, NOW_S)
    assert plan == arbitrate_plainly(found, NOW_S)
    off = {hold for name in DEFAULT_FILTERS if name not in chosen for hold in LIMITS[name]}
    assert not off & {hold.filter for hold in plan.holds.values()}


@pytest.mark.usefixtures("installed")
def test_plugins_of_other_distributions_decide_and_failing_ones_do_no_harm() -> None:
    jobs = [
        WaitingJob(f"job-{number}", f"pod-{9 - number}", "ab"[number % 2], f"n{number}", "", NOW_S)
        for number in range(6)
    ]
    snapshot = MigrationSnapshot(jobs)
    sorts = ("broken", "newest_pod_last", "drops_one")
    found = with_plugins(snapshot, NOW_S, sorts, ("freeze", "PerNode"))
    assert found.ranked == tuple(f"job-{number}" for number in reversed(range(6)))
    assert found.problems == (
        "sort drops_one returned other jobs than it was given",
        "sort broken failed: ZeroDivisionError: no",
    )
    plan = arbitrate(found, NOW_S)
    assert plan == arbitrate_plainly(found, NOW_S)
    assert plan.admitted == ["job-5", "job-3", "job-1"]
    assert {hold.message for hold in plan.holds.values()} == {"held by plugin of freeze: namespace a is frozen: 1 of 0"}
    held = arbitrate(with_plugins(snapshot, NOW_S, DEFAULT_SORTS, ("broken",)), NOW_S)
    assert {hold.scope for hold in held.holds.values()} == {"broken: failed: ZeroDivisionError: no"}
    assert held.admitted == []


def test_the_example_of_the_docs_orders_and_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how_to = (Path(__file__).parents[3] / "docs" / "how-to" / "own-arbitration.md").read_text()
    module, toml = (how_to.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "toml"))
    (tmp_path / "change_freeze.py").write_text(module)
    metadata = tmp_path / "change_freeze-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: change-freeze\nVersion: 1.0\n")
    points = tomllib.loads(toml)["project"]["entry-points"]
    lines = [
        f"[{point}]\n" + "\n".join(f"{name} = {value}" for name, value in points[point].items()) for point in points
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    jobs = [
        WaitingJob("a", "p-a", "shop", "n0", "large", NOW_S),
        WaitingJob("b", "p-b", "shop", "n1", "small", NOW_S),
        WaitingJob("c", "p-c", "finance", "n2", "small", NOW_S),
    ]
    snapshot = MigrationSnapshot(jobs, workloads={"large": WorkloadReplicas(9), "small": WorkloadReplicas(3)})
    chosen = yaml.safe_load(how_to.split("```yaml\n")[1].split("```")[0])["spec"]
    assert set(chosen["sortFns"]) <= set(arbitration_plugins.plugin_names(SORT_POINT))
    assert set(chosen["groupFilters"]) == set(arbitration_plugins.plugin_names(FILTER_POINT))
    found = with_plugins(snapshot, NOW_S, chosen["sortFns"], chosen["groupFilters"])
    plan = arbitrate(found, NOW_S)
    assert plan.admitted == ["b", "a"]
    assert plan.holds["c"].message == "held by plugin of Freeze: finance is frozen: 1 of 0"
