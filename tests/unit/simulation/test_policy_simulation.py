"""Policies on a trace and on what was recorded: documents as `apply` takes them, scenes, and honest notes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_histories import Silent
from small_installation import GIB, NOW, Recorded, SmallInstallation

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.simulation.adapters.document_files import are_policies, load
from slackwater.simulation.adapters.recorded_scenes import RecordedScenes, recorded_scenes
from slackwater.simulation.adapters.trace_scenes import BatchLayout, share_of
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.edge.policy_page import policy_page
from slackwater.simulation.edge.policy_report import PolicyReport, policy_report_of
from slackwater.simulation.service import simulate_policies_on_trace, simulate_policies_recorded
from slackwater.simulation.settings import PolicyTerms, TraceOrder
from slackwater.simulation.usecases.replay_policies import PolicySimulation
from slackwater.traces.options import TraceFormat

HOUR = 3600
TRACES = Path(os.environ.get("SLACKWATER_TRACES", Path(__file__).resolve().parents[4] / "shared" / "data"))
BITBRAINS = TRACES / "bitbrains_rnd" / "fixture_60vm_4weeks.parquet"
STEADY = Recorded("n", [3000] * 30, batch_usage=3000)


def write(path: Path, *documents: str) -> Path:
    path.write_text("\n---\n".join(f"apiVersion: slackwater.io/v1alpha1\n{one}" for one in documents))
    return path


def node_qos(value: str = "50%", name: str = "default", spec: str = "") -> str:
    rule = f"{{name: cpu, metricRule: {{name: node_cpu_usage_ratio, value: {value}}}, actionName: throttle}}"
    return f"kind: NodeQOS\nmetadata: {{name: {name}}}\nspec: {{{spec}rules: [{rule}]}}"


EVICT = "kind: AvoidanceAction\nmetadata: {name: evict}\nspec: {eviction: {}}"
EVICT_RULE = (
    "kind: NodeQOS\nmetadata: {name: hard}\nspec: {rules: [{name: cpu, metricRule: "
    "{name: node_cpu_usage_ratio, value: 50%}, actionName: evict}]}"
)
ALLOWED = "kind: PodQOS\nmetadata: {name: evictable}\nspec: {scopeSelector: {}, allowedActions: [evict]}"


def replayed(installation: SmallInstallation, *files: Path, terms: GuardTerms | None = None) -> PolicySimulation:
    given = PolicyTerms(terms or GuardTerms())
    return simulate_policies_recorded(load(files), installation, HOUR, given, NOW, Silent())


def report(installation: SmallInstallation, *files: Path) -> PolicyReport:
    return policy_report_of(replayed(installation, *files))


def scenes(*nodes: Recorded) -> RecordedScenes:
    return recorded_scenes(SmallInstallation(list(nodes)), HOUR, NOW, Silent())


def test_a_window_is_a_scene_with_the_usage_of_all_pods() -> None:
    history = scenes(STEADY)
    assert (history.steps, history.period_seconds) == (30, 60)
    (first,), *_ = history.scenes()
    assert first is not None
    assert (first.prod_milli, first.rest_milli, first.rest_bytes) == (3000, 200, GIB)
    assert [(one.pod.uid, one.pod.tier, one.cpu_milli) for one in first.pods] == [("crunch", "batch", 3000)]
    assert first.room_milli == 8000 - 200
    assert not first.pressure_known


def test_pressure_that_is_kept_says_what_prod_wanted_and_that_there_was_no_more_room() -> None:
    history = scenes(Recorded("n", [3000] * 30, batch_usage=3000, pressure=0.25))
    (first,), *_ = history.scenes()
    assert first is not None
    assert first.prod_milli == 4000
    assert first.room_milli == 6000
    assert not any("no pressure is kept" in note for note in history.notes)


def test_what_was_recorded_comes_out_again_where_nothing_is_done(tmp_path: Path) -> None:
    """The readings of the replay are those of the windows."""
    lax = write(tmp_path / "lax.yaml", node_qos("99%"))
    found = replayed(SmallInstallation([Recorded("n", [3000] * 30, batch_usage=3000, pressure=0.05)]), lax)
    used = found.replayed[1].tally
    assert [one.metric for one in used.waterlines] == ["node_cpu_usage_ratio", "prod_cpu_pressure"]
    assert used.film[3][0, 0] == pytest.approx(6200 / 8000)
    assert used.film[3][1, 0] == pytest.approx(0.05, abs=1e-3)


def test_a_file_replaces_the_document_of_its_name_and_is_held_against_what_is_in_force(tmp_path: Path) -> None:
    found = report(SmallInstallation([STEADY]), write(tmp_path / "strict.yaml", node_qos()))
    assert [one.name for one in found.policies] == ["in force", "strict"]
    in_force, strict = found.policies
    assert in_force.actions == {}
    assert strict.throttle_seconds > 0
    cpu, pressure = strict.waterlines
    assert (cpu.metric, cpu.value, cpu.unit) == ("node_cpu_usage_ratio", "0.5", "ratio")
    assert cpu.seconds == 5
    assert in_force.waterlines[0].seconds == 1800
    assert in_force.waterlines[0].share == 1
    assert found.differences[0].above_seconds[0] == 5 - 1800
    assert pressure.nodes == 0
    assert "the history has no readings of prod_cpu_pressure: rules on it do nothing" in found.history.notes


def test_two_files_are_compared_with_each_other_and_the_page_has_its_pictures(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.yaml", node_qos("60%")), write(tmp_path / "b.yaml", node_qos("45%"))]
    found = replayed(SmallInstallation([STEADY]), *files)
    pairs = [(one.name, one.against) for one in policy_report_of(found).differences]
    assert pairs == [("a", "in force"), ("b", "in force"), ("b", "a")]
    page = policy_page(found)
    assert page.count("<svg") == 2, "usage over time, throttle-seconds"
    assert "waterline 45 %" in page
    assert "nan" not in page


def test_the_policy_in_force_tried_anew_changes_nothing(tmp_path: Path) -> None:
    installation = SmallInstallation([STEADY])
    same = write(tmp_path / "same.yaml", ALLOWED)
    found = report(installation, same)
    assert set(found.differences[0].figures.values()) == {0}
    assert any(path == "/v1/nodeqos" for path, _ in installation.asked)


def test_evictions_need_an_action_a_podqos_and_a_pool_that_allow_them(tmp_path: Path) -> None:
    grant = "kind: Autonomy\nmetadata: {name: default}\nspec: {mode: evict}"
    bare = report(SmallInstallation([STEADY]), write(tmp_path / "a.yaml", EVICT_RULE))
    assert "a: there is no action evict: rules that use it do nothing" in bare.history.notes
    unallowed = report(SmallInstallation([STEADY]), write(tmp_path / "b.yaml", EVICT, EVICT_RULE))
    assert "b: no PodQOS allows the action evict: it applies to no pod" in unallowed.history.notes
    ungranted = report(SmallInstallation([STEADY]), write(tmp_path / "c.yaml", EVICT, EVICT_RULE, ALLOWED))
    assert any("no pool here may evict" in note for note in ungranted.history.notes)
    assert ungranted.policies[1].evictions == 0
    assert ungranted.policies[1].actions["evict_observed_only"].pods == 1
    whole = report(SmallInstallation([STEADY]), write(tmp_path / "d.yaml", EVICT, EVICT_RULE, ALLOWED, grant))
    assert whole.policies[1].evictions == 1
    assert whole.policies[1].closed_seconds > 0


def test_a_podqos_selects_by_the_labels_that_pods_had(tmp_path: Path) -> None:
    grant = "kind: Autonomy\nmetadata: {name: default}\nspec: {mode: evict}"
    by_label = ALLOWED.replace("scopeSelector: {}", "scopeSelector: {}, labelSelector: {matchLabels: {app: crunch}}")
    file = write(tmp_path / "a.yaml", EVICT, EVICT_RULE, by_label, grant)
    named = Recorded("n", [3000] * 30, batch_usage=3000, pod_labels={"app": "crunch"})
    assert report(SmallInstallation([named]), file).policies[1].evictions == 1
    assert report(SmallInstallation([STEADY]), file).policies[1].evictions == 0


def test_a_nodeqos_that_selects_no_node_is_noted(tmp_path: Path) -> None:
    gpu = write(tmp_path / "gpu.yaml", node_qos(name="gpu", spec="selector: {matchLabels: {disk: ssd}}, "))
    found = report(SmallInstallation([STEADY]), gpu)
    assert "gpu: NodeQOS gpu selects no node here" in found.history.notes
    labelled = Recorded("n", [3000] * 30, batch_usage=3000, labels={"disk": "ssd"})
    assert report(SmallInstallation([STEADY, labelled]), gpu).policies[1].throttle_seconds > 0


def test_a_silent_node_is_not_there_and_one_without_usage_is_named() -> None:
    history = scenes(Recorded("n", [3000] * 10 + [None] * 30), Recorded("m", [3000] * 40), Recorded("idle", []))
    assert [each[0] is None for each in history.scenes()][-2:] == [True, True]
    assert "1 known node has no recorded usage in this time" in history.notes
    with pytest.raises(NotFound, match="no usage has been recorded since"):
        scenes(Recorded("idle", []))


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ((node_qos("150%"),), "document 1: spec.rules.0.metricRule"),
        ((node_qos(), node_qos()), "document 2: metadata.name: .* document 1 already has the NodeQOS default"),
        (("kind: PredictPolicy",), "kind: 'PredictPolicy' cannot be simulated; allowed: ColocationStrategy, NodeQOS"),
        (("kind: NodeQOS",), "document 1: metadata: Field required"),
        (("kind: Autonomy\nmetadata: {name: a}\nspec: {mode: kill}",), "document 1: spec.mode: .* got 'kill'"),
        (
            (node_qos(), "kind: ColocationStrategy\nmetadata: {name: default}"),
            "document 2 is a ColocationStrategy and .* document 1 a NodeQOS: .* run the command once for each",
        ),
        (
            (
                "kind: Autonomy\nmetadata: {name: a}\nspec: {mode: evict, nodePool: p}",
                "kind: Autonomy\nmetadata: {name: b}\nspec: {mode: evict, nodePool: p}",
            ),
            "spec.nodePool: pool 'p' already has the Autonomy a",
        ),
    ],
)
def test_bad_documents_are_named_before_anything_is_replayed(
    tmp_path: Path, documents: tuple[str, ...], said: str
) -> None:
    installation = SmallInstallation([STEADY])
    bad = write(tmp_path / "bad.yaml", *documents)

    def simulate() -> None:
        files = load([bad])
        assert are_policies(files)
        simulate_policies_recorded(files, installation, HOUR, PolicyTerms(), NOW, Silent())

    with pytest.raises(InvalidInput, match=said):
        simulate()
    assert not any("windows" in path for path, _ in installation.asked)


@pytest.mark.parametrize(("text", "share"), [("fill", None), ("0.25", 0.25), ("30%", 0.3)])
def test_batch_fills_offers_or_is_a_share(text: str, share: float | None) -> None:
    assert share_of(text) == share


@pytest.mark.parametrize("text", ["0", "1", "100%", "half", "-1", ""])
def test_other_shares_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--batch: .* is not allowed; `fill`, or a share"):
        share_of(text)


def test_layouts_out_of_bounds_are_refused() -> None:
    with pytest.raises(InvalidInput, match="--batch-pods: 0 is not allowed; 1 to 100"):
        BatchLayout(pods=0)
    with pytest.raises(InvalidInput, match=r"--overcommit: 0 is not allowed; 0.1 to 100"):
        BatchLayout(overcommit=0)


@pytest.mark.skipif(not BITBRAINS.exists(), reason=f"no traces in {TRACES}; SLACKWATER_TRACES names them")
@pytest.mark.parametrize("batch", [BatchLayout(), BatchLayout(share=0.3, overcommit=6)], ids=["fill", "share"])
def test_a_piece_of_a_real_trace(tmp_path: Path, batch: BatchLayout) -> None:
    strict = write(tmp_path / "strict.yaml", node_qos("55%"))
    order = TraceOrder(BITBRAINS, TraceFormat.BITBRAINS, per_node=15, model="max", since="1", until="1.5")
    given = PolicyTerms(GuardTerms(every_ms=15_000), batch=batch)
    said = policy_report_of(simulate_policies_on_trace(load([strict]), order, given, Silent()))
    default, new = said.policies
    assert said.history.nodes == 4
    assert said.history.hours == 12
    (before, after) = (one.waterlines[0] for one in (default, new))
    assert 0 < after.seconds < before.seconds
    assert new.throttled_core_seconds > 0
    assert new.batch_core_hours == pytest.approx(
        default.batch_core_hours + (default.throttled_core_seconds - new.throttled_core_seconds) / HOUR, rel=0.02
    )


def test_a_trace_has_one_pool_and_no_labels(tmp_path: Path) -> None:
    grants = [f"kind: Autonomy\nmetadata: {{name: {name}}}\nspec: {{mode: evict}}" for name in "ab"]
    files = load([write(tmp_path / "two.yaml", *grants)])
    order = TraceOrder(tmp_path / "none.csv", TraceFormat.CSV)
    with pytest.raises(InvalidInput, match="an Autonomy for each of the pools a, b, but a trace has no pools"):
        simulate_policies_on_trace(files, order, PolicyTerms(), Silent())
