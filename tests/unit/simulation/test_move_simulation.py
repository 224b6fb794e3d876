"""`slackwater simulate` of descheduler profiles: what is counted, and what the ways of moving pods do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.cli.simulated_moves import lines
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.model.errors import InvalidInput
from slackwater.simulation.adapters.document_files import are_profiles, load
from slackwater.simulation.adapters.profile_files import read_profiles
from slackwater.simulation.domain.move_tally import MoveTally, bucketed
from slackwater.simulation.edge.move_page import move_page
from slackwater.simulation.edge.move_report import move_report_of
from slackwater.simulation.usecases.placed_usage import Placed
from slackwater.simulation.usecases.replay_moves import MoveSimulation, replay_moves
from slackwater.traces.options import TraceResource
from slackwater.traces.placement import Stays
from slackwater.traces.trace import Repairs, Trace

CELLS = 12
EXAMPLE = Path(__file__).parents[3] / "examples" / "descheduler_profile.yaml"
POOLS: Sequence[dict[str, Any]] = [{"name": "all", "lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 60}}]


class Silent:
    """slackwater.simulation.ports.SimulationProgress."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None, int]] = []

    def begin(self, what: str, steps: int | None) -> None:
        self.steps.append((what, steps, 0))

    def advance(self, steps: int) -> None:
        what, most, done = self.steps[-1]
        self.steps[-1] = (what, most, done + steps)


def profile(**spec: Any) -> DeclaredProfile:
    plain = {"lowNodeLoad": {"nodePools": POOLS, "anomalyCondition": None}, "intervalSeconds": 300}
    return profile_of(DeschedulerProfile.parse({"metadata": {"name": "p"}, "spec": {**plain, **spec}}))


def placed(usage: Sequence[Sequence[float]], nodes: Sequence[int], capacity: int = 1000) -> Placed:
    """`usage` by pod is constant over all cells; `nodes` by pod."""
    amounts = np.tile(np.array(usage, np.float32).reshape(1, -1), (CELLS, 1))
    present = np.ones_like(amounts, bool)
    count, rows = amounts.shape[1], np.arange(amounts.shape[1])
    trace = Trace(
        "made up", TraceResource.CPU, 0, [f"p{row}" for row in rows], rows, amounts, np.full_like(amounts, 500.0),
        present, False, Repairs(),
    )  # fmt: skip
    zeros = np.zeros(count, np.intp)
    stays = Stays(np.array(nodes, np.intp), rows, zeros, zeros + CELLS, max(nodes) + 1)
    capacities = np.full((max(nodes) + 1, 2), capacity, np.int64)
    names = [f"n{node}" for node in range(max(nodes) + 1)]
    return Placed("made up", {TraceResource.CPU: trace}, stays, names, capacities, {}, ("a note",))


def simulated(**spec: Any) -> tuple[MoveSimulation, Silent]:
    """n0 uses 90 %, n1 20 %, n2 20 %."""
    watch = Silent()
    usage = [[300], [300], [300], [200], [200]]
    return replay_moves(placed(usage, [0, 0, 0, 1, 2]), (0, CELLS), [("mine", profile(**spec))], watch), watch


def test_a_profile_ends_a_hotspot_with_one_move_and_nothing_does_not() -> None:
    simulation, watch = simulated()
    still, plain, mine = (each.tally for each in simulation.replayed)
    assert (still.hot_node_minutes, still.moves) == (60.0, 0)
    assert (mine.hot_node_minutes, mine.moves, mine.back, len(mine.loops)) == (5.0, 1, 0, 0)
    assert plain.moves > 0
    assert mine.mean_imbalance < still.mean_imbalance == pytest.approx(np.std([0.9, 0.2, 0.2]))
    assert watch.steps == [("nothing", CELLS, CELLS), ("thresholds", CELLS, CELLS), ("mine", CELLS, CELLS)]


def test_no_cycle_comes_before_its_interval() -> None:
    simulation, _ = simulated(intervalSeconds=3600, limits={"total": 0})
    assert simulation.replayed[2].tally.moves == 0
    assert simulation.replayed[2].refusals == {"total": 3}, "one cycle, which refuses each pod of the hot node"


def test_moves_that_return_and_workloads_that_loop_are_counted() -> None:
    tally = MoveTally(5.0)
    for number, (source, target) in enumerate([(0, 1), (1, 0), (0, 0)]):
        tally.record_move(7, "w", source, target, 300.0 * number, 1)
    assert (tally.moves, tally.back, tally.loops) == (3, 2, {"w"})
    assert bucketed([1, 3, 5, 7], 2) == [2.0, 6.0]


def test_the_answer_is_printed_and_drawn() -> None:
    simulation, _ = simulated()
    text = "\n".join(lines(move_report_of(simulation).model_dump(mode="json", by_alias=True)))
    assert "5 pods on 3 nodes, 1 h; hot is above 60 % cpu" in text
    assert [row.split() for row in text.splitlines() if row.startswith("hot node minutes")] == [
        ["hot", "node", "minutes", "60", f"{simulation.replayed[1].tally.hot_node_minutes:.0f}", "5"]
    ]
    page = move_page(simulation)
    assert page.count("<polyline") == 6
    assert "Hot nodes" in page


def test_the_report_says_why_nothing_is_moved() -> None:
    """Every node is above the low threshold of memory; then a pod that no low node holds."""
    pools = [{"name": "all", "lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 60}}]
    simulation, _ = simulated(lowNodeLoad={"nodePools": pools, "anomalyCondition": None})
    report = move_report_of(simulation).model_dump(mode="json", by_alias=True)
    (end,) = report["moved"][2]["ends"]
    assert (end["pool"], end["reason"], end["cycles"]) == ("all", "no_target", CELLS)
    assert report["cluster"]["targets"]["without"] == 1.0
    text = "\n".join(lines(report))
    assert "12  hot nodes, but no low one to move to" in text
    assert "nodes use 20% cpu and 0% memory (median). A pod goes to a node below 10 % cpu" in text
    assert "cpu alone rules every node out in 100% of the time" in text
    wide = replay_moves(placed([[650], [200]], [0, 1]), (0, CELLS), [("mine", profile())], Silent())
    assert wide.replayed[2].ends == {("all", RoundEnd.NO_FIT): CELLS}, "n1 would have 850 of 1000"
    assert wide.targets.without == 0


def test_the_example_is_read_and_others_are_refused(tmp_path: Path) -> None:
    files = load([EXAMPLE])
    assert are_profiles(files)
    assert [name for name, _ in read_profiles(files)] == ["descheduler_profile"]
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("kind: DeschedulerProfile\nmetadata: {name: p}\nspec: {plugins: [{name: Nothing}]}\n")
    with pytest.raises(InvalidInput, match="'Nothing' is no plugin"):
        read_profiles(load([wrong]))
    with pytest.raises(InvalidInput, match="needs thresholds"):
        simulated(lowNodeLoad=None)
