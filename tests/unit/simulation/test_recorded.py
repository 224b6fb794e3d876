"""What was recorded, replayed: the same snapshots as in service, the strategies in force, and honest notes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from small_histories import Silent, write_strategy
from small_installation import GIB, NOW, Recorded, SmallInstallation

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.model.quantities import Resources
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.strategy import Strategy
from slackwater.simulation.adapters.document_files import load
from slackwater.simulation.adapters.recorded_history import RecordedHistory, recorded
from slackwater.simulation.edge.simulation_page import page
from slackwater.simulation.edge.simulation_report import SimulationReport, report_of
from slackwater.simulation.service import simulate_recorded
from slackwater.simulation.settings import RecordedOrder
from slackwater.simulation.usecases.replay import Simulation, Variant, replay

HOUR = 3600
PEAKS = [3000] * 8 + [4000] * 8 + [2500] * 14
STEADY = Recorded("n", [1000] * 30, dict.fromkeys(range(30), 3000))


def read(*nodes: Recorded, step: int | None = None) -> RecordedHistory:
    return recorded(SmallInstallation(list(nodes)), HOUR, step, NOW, Silent())


def simulated(installation: SmallInstallation, *files: Path) -> tuple[Simulation, SimulationReport]:
    found = simulate_recorded(load(files), RecordedOrder(installation, HOUR), NOW, Silent())
    return found, report_of(found)


def test_every_window_is_a_period_and_pages_are_read_to_the_end() -> None:
    history = read(STEADY)
    assert (history.steps, history.period_seconds) == (30, 60)
    assert history.start_seconds == (NOW.timestamp() - 30 * 60 + 30), "half a window later: predictions follow windows"
    periods = list(history.periods())
    assert [period.prod.tolist() for period in periods] == [[[1200, 2 * GIB]]] * 30, "prod and system, batch not"
    assert [int(period.end[0]) for period in periods][:2] == [history.start + 30, history.start + 90]  # type: ignore[index]


def test_host_applications_of_high_tiers_run_beside_batch() -> None:
    def seen(**host_apps: int) -> tuple[list[int], list[int]]:
        history = read(replace(STEADY, host_apps=host_apps))
        fleets = [period.known for period in history.periods()]
        return [int(fleet.prod_apps[0, 0]) for fleet in fleets], [int(each.prod[0, 0]) for each in history.periods()]

    assert seen() == ([0] * 30, [1200] * 30)
    assert seen(prod=500, batch=900) == ([500] * 30, [1700] * 30)


def test_offers_are_those_that_the_service_would_have_decided() -> None:
    history = read(Recorded("n", [1000] * 30, dict(enumerate(PEAKS))))
    (found,) = replay(history, [Variant("a", [Strategy()], [{}])], Silent())
    gates, told = Gates(), []
    for number in range(30):
        usage = Resources(1000, GIB)
        pod = PodInput("web", "prod", "LS", Resources(6000, 4 * GIB), usage, Resources())
        snapshot = NodeSnapshot(
            capacity=Resources(8000, 32 * GIB),
            reserved=Resources(),
            pods=(pod,),
            system=Resources(200, GIB),
            node_usage=Resources(1200, 2 * GIB),
            prod_peak=Resources(PEAKS[number], GIB),
            age_seconds=30,
        )
        offer = decide_node(snapshot, Strategy(), gates, history.start - 30 + (number + 1) * 60)
        gates = offer.gates()
        told.append(offer.batch.value)
    offered = [(int(batch[0]), int(batch[1])) for _, _, batch, _ in found.tally.film]
    assert offered[0] == (0, 0), "nothing was known before"
    assert offered[1:] == [(each.cpu_milli, each.memory_bytes) for each in told[:-1]]
    assert len(set(offered)) == 4, "none, the first, the drop, the rise"


def test_what_a_node_says_it_keeps_back_is_kept_back_here_too() -> None:
    """Of 8 cores 5 are reserved, and pods can have 2 of them: as the service reads the same annotations."""
    said = {
        "node.koordinator.sh/reservation": '{"resources": {"cpu": "5"}}',
        "node.koordinator.sh/raw-allocatable": '{"cpu": "2", "memory": "30Gi"}',
    }
    first, *_ = read(replace(STEADY, annotations=said)).periods()
    assert first.known.reserved.tolist() == [[6000, 2 * GIB]]
    assert first.known.allocatable.tolist() == [[2000, 30 * GIB]]
    variant = Variant("a", [Strategy()], [{}])
    (kept,) = replay(read(replace(STEADY, annotations=said)), [variant], Silent())
    (whole,) = replay(read(STEADY), [variant], Silent())
    assert kept.tally.figures(0).batch_hours == 0 < whole.tally.figures(0).batch_hours


def test_for_how_long_a_pod_settles_is_asked_of_the_strategy_that_is_tried() -> None:
    """Not of the one in force: two in one call say what each says alone."""
    history = read(Recorded("n", [1000] * 30, started=timedelta(minutes=30)))
    slow, quick = Strategy(bind_settle_seconds=1800), Strategy(bind_settle_seconds=60)
    together = replay(history, [Variant(name, [one], [{}]) for name, one in (("a", slow), ("b", quick))], Silent())
    alone = replay(replace(history, strategy=slow), [Variant("a", [slow], [{}])], Silent())
    hours = [one.tally.figures(0).batch_hours for one in (*together, *alone)]
    assert hours[0] == hours[2] > hours[1]


def test_without_a_prediction_requests_stand_in_and_the_note_says_so() -> None:
    bare = Recorded("n", [1000] * 30)
    history = read(bare)
    assert any("no predictions were recorded" in note for note in history.notes)
    (cold,) = replay(history, [Variant("a", [Strategy()], [{}])], Silent())
    (warm,) = replay(read(STEADY), [Variant("a", [Strategy()], [{}])], Silent())
    assert cold.tally.figures(0).batch_hours < warm.tally.figures(0).batch_hours


def test_a_node_that_falls_silent_offers_less_and_then_is_not_there() -> None:
    silent = Recorded("n", [1000] * 10 + [None] * 30, dict.fromkeys(range(10), 3000))
    history = read(silent, Recorded("m", [500] * 40))
    (found,) = replay(history, [Variant("a", [Strategy()], [{}])], Silent())
    capacities = [int(period.known.capacity[0, 0]) for period in history.periods()]
    assert capacities[:24] == [8000] * 24
    assert capacities[-10:] == [0] * 10
    offered = [int(batch[0]) for _, _, batch, _ in found.tally.film]
    assert offered[5] > 0
    assert offered[23] < offered[12]


def test_a_node_that_comes_later_is_not_there_before() -> None:
    history = read(STEADY, Recorded("late", [500] * 5))
    first, *_, last = history.periods()
    assert first.known.capacity[:, 0].tolist() == [8000, 0]
    assert last.known.capacity[:, 0].tolist() == [8000, 8000]


def test_a_wider_step_has_fewer_periods() -> None:
    history = read(STEADY, step=300)
    assert (history.steps, history.period_seconds) == (6, 300)
    assert read(STEADY, step=5).period_seconds == 60, "no shorter than a window"


def test_of_the_windows_of_a_step_the_last_one_is_known_and_the_most_of_prod_counts() -> None:
    surge = [1000] * 30
    surge[7] = 5000
    history = read(Recorded("n", surge), step=300)
    assert len(history.records[0].windows) in (6, 7)
    prods = [int(period.prod[0, 0]) for period in history.periods()]
    assert prods.count(5200) == 1
    assert set(prods) == {1200, 5200}
    (found,) = replay(history, [Variant("a", [Strategy()], [{}])], Silent())
    assert found.tally.figures(0).batch_hours >= 0


def test_a_node_without_any_usage_is_named_in_a_note_and_no_usage_at_all_is_an_error() -> None:
    history = read(STEADY, Recorded("idle", []))
    assert list(history.nodes) == ["n"]
    assert any("1 known node has no recorded usage" in note for note in history.notes)
    with pytest.raises(NotFound, match=r"no usage has been recorded since 2026-03-02 11:00 UTC.*or give --trace"):
        read(Recorded("idle", []))


def test_what_is_in_force_is_compared_with_the_new_one(tmp_path: Path) -> None:
    bold = write_strategy(tmp_path / "bold.yaml", "default", cpuReclaimThresholdPercent=90)
    found, report = simulated(SmallInstallation([STEADY]), bold)
    assert [one.name for one in report.strategies] == ["in force", "bold"]
    in_force, new = report.strategies
    assert new.cpu.batch_hours > in_force.cpu.batch_hours
    assert new.memory == in_force.memory
    assert "<svg" in page(found)
    assert report.history.nodes == 1


def test_nodes_follow_the_documents_that_select_them_and_their_own_words(tmp_path: Path) -> None:
    nodes = [
        Recorded("plain", STEADY.usage, STEADY.peaks),
        Recorded("pooled", STEADY.usage, STEADY.peaks, pool="gpu"),
        Recorded("own", STEADY.usage, STEADY.peaks, labels={"slackwater.io/cpu-reclaim-ratio": "0.5"}),
    ]
    gpu = write_strategy(tmp_path / "gpu.yaml", "gpu", cpuReclaimThresholdPercent=95)
    found, report = simulated(SmallInstallation(nodes), gpu)
    lent = [one.tally.reclaimed_hours[:, 0].tolist() for one in found.replayed]
    assert lent[0][0] == lent[1][0] == lent[0][1]
    assert lent[1][1] > lent[0][1]
    assert lent[0][2] == lent[1][2] < lent[0][0]
    assert len(report.strategies[1].specs) == 3


def test_a_document_without_nodes_is_simulated_as_the_clusters_with_a_note(tmp_path: Path) -> None:
    bold = write_strategy(tmp_path / "bold.yaml", "bold", cpuReclaimThresholdPercent=90)
    careful = write_strategy(tmp_path / "careful.yaml", "careful", cpuReclaimThresholdPercent=45)
    _, report = simulated(SmallInstallation([STEADY]), bold, careful)
    assert [one.name for one in report.strategies] == ["in force", "bold", "careful"]
    hours = [one.cpu.batch_hours for one in report.strategies]
    assert hours[2] < hours[0] < hours[1]
    assert sum("selects no node here" in note for note in report.history.notes) == 2
    assert [(one.name, one.against) for one in report.differences][-1] == ("careful", "bold")


def test_the_strategy_in_force_tried_anew_changes_nothing(tmp_path: Path) -> None:
    same = write_strategy(tmp_path / "same.yaml", "default")
    pool: dict[str, Any] = {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "ColocationStrategy",
        "metadata": {"name": "gpu", "generation": 3},
        "spec": {"cpuReclaimThresholdPercent": 75},
    }
    nodes = [STEADY, Recorded("pooled", [1000] * 30, pool="gpu")]
    _, report = simulated(SmallInstallation(nodes, [pool]), same)
    assert set(report.differences[0].cpu.values()) == {0.0}
    assert set(report.differences[0].memory.values()) == {0.0}


def test_that_the_age_of_predictions_is_not_compared_is_said(tmp_path: Path) -> None:
    other = write_strategy(tmp_path / "other.yaml", "default", predictionMaxAgeSeconds=60)
    _, report = simulated(SmallInstallation([STEADY]), other)
    assert (
        "predictionMaxAgeSeconds: the value in force, 900 s, applies to all compared strategies" in report.history.notes
    )
    _, report = simulated(SmallInstallation([STEADY]), write_strategy(tmp_path / "same.yaml", "default"))
    assert not any("predictionMaxAgeSeconds" in note for note in report.history.notes)


def test_a_bad_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    bad = write_strategy(tmp_path / "bad.yaml", "default", cpuReclaimThresholdPercent=-1)
    installation = SmallInstallation([STEADY])
    with pytest.raises(InvalidInput, match="cpuReclaimThresholdPercent: -1 is not allowed"):
        simulated(installation, bad)
    assert installation.asked == []
