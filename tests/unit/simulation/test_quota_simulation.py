"""Quotas on arrivals: figures by hand, the readers of both traces, and the verb."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.fairshare.tree import Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier
from slackwater.simulation.domain.quota_tally import jain_index, quantile
from slackwater.simulation.edge.quota_page import quota_page
from slackwater.simulation.edge.quota_report import QuotaSimulationReport, quota_report_of
from slackwater.simulation.usecases.replay_quotas import QuotaSimulation, QuotaTerms, QuotaVariant, replay_quotas
from slackwater.traces.arrivals import ArrivalTrace, WorkloadArrival, peak_demand
from slackwater.traces.readers.arrivals import read_arrivals

MEBIBYTE = 2**20


class Silent:
    def begin(self, what: str, steps: int | None) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass


def arrival(identity: str, at_s: float, duration_s: float, cpu: int) -> WorkloadArrival:
    return WorkloadArrival(identity, at_s, duration_s, {"cpu": cpu}, Tier.BATCH, groups=(identity[0],))


def simulated(arrivals: list[WorkloadArrival], end_s: float = 1000.0, share: float = 0.5) -> QuotaSimulation:
    """Two equal quotas without mins."""
    layout = TreeLayout([Quota(name, maximum={"cpu": 100}) for name in "ab"])
    variant = QuotaVariant("quotas", layout, ["a", "b"], {})
    return replay_quotas(ArrivalTrace("by hand", arrivals, end_s), [variant], QuotaTerms(share, 1.0), Silent())


def test_idle_capacity_is_lent_by_the_arbiter_and_not_by_hard_quotas() -> None:
    """A pool of 4, two each. Only a asks: with hard quotas two run at a time, with the arbiter four."""
    arrivals = [arrival(f"a{place}", 10.0, 100.0, 1) for place in range(8)]
    report = quota_report_of(simulated(arrivals))
    hard, _, arbiter = report.results
    assert (hard.quotas[0].wait_p50_seconds, hard.quotas[0].wait_p95_seconds) == (100.0, 300.0)
    assert (arbiter.quotas[0].wait_p50_seconds, arbiter.quotas[0].wait_p95_seconds) == (0.0, 100.0)
    assert hard.utilisation["cpu"] == arbiter.utilisation["cpu"] == pytest.approx(800 / (4 * 990), abs=1e-3)
    assert (hard.fairness, arbiter.reclaims) == (1.0, 0)


def test_what_is_reclaimed_comes_back_and_its_work_is_lost() -> None:
    """a uses all four; b asks for two at 50. 120 s later a gives two back, and after 30 s of grace b runs."""
    arrivals = [*(arrival(f"a{place}", 10.0, 800.0, 1) for place in range(4)), arrival("b0", 50.0, 400.0, 2)]
    arrivals += [arrival(f"a{place}", 900.0, 10.0, 1) for place in range(4, 8)]
    simulation = simulated(arrivals, end_s=2000.0, share=4 / 6)
    assert simulation.total == {"cpu": 4}
    _, _, arbiter = quota_report_of(simulation).results
    assert (arbiter.reclaims, arbiter.quotas[0].reclaims) == (2, 2)
    assert arbiter.quotas[1].wait_p50_seconds == 150.0
    assert arbiter.lost["cpu"] == pytest.approx(2 * 190 / (4 * 1990), abs=1e-3)
    assert arbiter.waiting == 0


def test_what_never_starts_waits_until_the_end_and_what_never_fits_is_refused() -> None:
    arrivals = [arrival("a0", 0.0, 5000.0, 2), arrival("a1", 0.0, 10.0, 2), arrival("b0", 500.0, 10.0, 4)]
    hard, _, _ = quota_report_of(simulated(arrivals, share=4 / 6)).results
    assert [(each.started, each.waiting, each.refused) for each in hard.quotas] == [(1, 1, 0), (0, 0, 1)]
    assert hard.wait_p95_seconds == 1000.0


def test_an_arrival_without_a_quota_is_an_error_that_names_its_group() -> None:
    with pytest.raises(InvalidInput, match=r"1 arrivals belong to no quota: c \(1\)"):
        simulated([arrival("c0", 0.0, 1.0, 1)])


def test_the_page_shows_every_policy() -> None:
    page = quota_page(simulated([arrival("a0", 0.0, 10.0, 1), arrival("b0", 5.0, 10.0, 1)], share=1.0))
    for name in ("hard quotas, FIFO", "hard quotas, best-effort", "arbiter"):
        assert f'aria-label="Use under {name}"' in page


def test_peak_demand_counts_what_overlaps() -> None:
    arrivals = [arrival("a0", 0.0, 10.0, 3), arrival("a1", 10.0, 10.0, 3), arrival("a2", 15.0, 1.0, 1)]
    assert peak_demand(ArrivalTrace("", arrivals, 20.0)) == {"cpu": 4}


def test_indices_and_quantiles() -> None:
    assert jain_index([1.0, 1.0, 1.0]) == pytest.approx(1.0)
    assert jain_index([1.0, 0.0]) == pytest.approx(0.5)
    assert jain_index([]) is None
    assert (quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0], 0.95), quantile([], 0.5)) == (2.0, 1.0, None)


OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,4000,1024,1,500,,LS,Running,100,400,150
p-1,2000,512,0,0,,BE,Pending,120,300,
"""
GOOGLE = "\n".join(
    (
        "0,2,1,0,7,0,before=,3,9,0.5,0.5,0,0",
        "700000000,,2,0,,0,US/er+One=,1,1,0.25,0.5,0,0",
        "710000000,,2,0,7,1,US/er+One=,1,1,0.25,0.5,0,0",
        "720000000,,3,0,,0,other=,1,4,0.125,0.25,0,0",
        "730000000,,3,0,7,1,other=,1,4,0.125,0.25,0,0",
        "770000000,,2,0,7,4,US/er+One=,1,1,0.25,0.5,0,0",
        "780000000,,4,0,,0,never=,1,10,0.125,0.25,0,0",
        "800000000,,5,0,7,1,before=,3,9,0.5,0.5,0,0",
    )
)


def test_openb_pods_run_from_their_scheduling_to_their_deletion(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "openb_pod_list_default.csv.gz", "wt") as text:
        text.write(OPENB)
    first, second = read_arrivals(tmp_path).arrivals
    assert (first.at_s, first.duration_s, first.tier, first.groups) == (100.0, 250.0, Tier.PROD, ("ls-gpu", "ls"))
    assert first.amounts == {"cpu": 4000, "memory": 1024 * MEBIBYTE, "gpu-milli": 500}
    assert (second.duration_s, second.tier, second.groups) == (180.0, Tier.BATCH, ("be-cpu", "be"))
    assert second.amounts == {"cpu": 2000, "memory": 512 * MEBIBYTE}


def test_google_tasks_run_from_schedule_to_their_end_or_that_of_the_trace(tmp_path: Path) -> None:
    (tmp_path / "task_events-part-00000-of-00500.csv").write_text(GOOGLE)
    found = read_arrivals(tmp_path)
    assert [(each.at_s, each.duration_s, each.groups[0]) for each in found.arrivals] == [
        (700.0, 60.0, "free-useron"),
        (720.0, 70.0, "batch-other"),
    ]
    assert found.arrivals[0].amounts == {"cpu": 250, "memory": 2**29}
    assert list(found.notes[:3]) == [
        "1 tasks that ran before the trace begins are left out, with what they used",
        "1 tasks had not ended when the trace ends, and run as long as it saw them",
        "1 tasks that were never scheduled are left out",
    ]


QUOTAS = """apiVersion: slackwater.io/v1alpha1
kind: ElasticQuota
metadata: {name: default}
spec:
  max: {cpu: 100, memory: 100Gi, gpu-milli: 1000}
"""


def test_the_verb_replays_a_trace_and_refuses_what_does_not_apply(tmp_path: Path) -> None:
    (tmp_path / "openb_pod_list_default.csv").write_text(OPENB)
    (tmp_path / "quotas.yaml").write_text(QUOTAS)
    base = ["simulate", "-f", str(tmp_path / "quotas.yaml")]
    trace = ["--trace", str(tmp_path)]
    done = CliRunner().invoke(app, [*base, *trace, "--capacity", "100%", "-o", "json"])
    assert done.exit_code == 0, done.output
    report = QuotaSimulationReport.model_validate(json.loads(done.stdout))
    assert [each.name for each in report.results] == ["hard quotas, FIFO", "hard quotas, best-effort", "arbiter"]
    assert report.results[2].started == 2
    table = CliRunner().invoke(app, [*base, *trace, "--capacity", "100%"])
    assert "WAIT P95" in table.stdout
    for wrong, said in (
        ([*trace, "--capacity", "no"], "whole percents"),
        ([*trace, "--batch", "30%"], "these files hold quotas"),
        (["--since", "1h"], "arrivals of a trace"),
    ):
        refused = CliRunner().invoke(app, [*base, *wrong])
        assert refused.exit_code != 0
        assert said in refused.output


def test_a_broken_rule_of_the_quotas_is_named(tmp_path: Path) -> None:
    (tmp_path / "openb_pod_list_default.csv").write_text(OPENB)
    (tmp_path / "quotas.yaml").write_text(QUOTAS.replace("spec:", "spec:\n  min: {cpu: 200}"))
    done = CliRunner().invoke(app, ["simulate", "-f", str(tmp_path / "quotas.yaml"), "--trace", str(tmp_path)])
    assert "min 200 is more than max 100" in done.output
