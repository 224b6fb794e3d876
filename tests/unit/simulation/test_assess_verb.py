"""The verb on a trace and on a Prometheus: figures, advice, honest warnings, a page."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import Result
from small_histories import Silent, write_trace
from small_prometheus import SmallPrometheus
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.cli.prometheus_options import seconds_of
from slackwater.model.errors import InvalidInput
from slackwater.offers.document import field_problems
from slackwater.simulation.adapters.peak_models import models_of
from slackwater.simulation.adapters.trace_history import TraceLayout, both, placed
from slackwater.simulation.edge import assessment_report
from slackwater.simulation.edge.assessment_report import AssessmentReport, ResourceReport
from slackwater.simulation.settings import AssessmentOptions
from slackwater.simulation.usecases.assess import assess as assess_placed
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.trace import DAY_CELLS

SMALL = ("--format", "csv", "--vms-per-node", "3", "--model", "max", "--model", "borg-default", "--percent", "120")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("assess") / "usage.csv", hours=80)


@pytest.fixture(scope="module")
def page(trace: Path) -> Path:
    return trace.with_name("report.html")


@pytest.fixture(scope="module")
def assessed(trace: Path, page: Path) -> AssessmentReport:
    done = assess("--trace", trace, *SMALL, "--accept", "0.02", "-o", "json", "--html", page)
    assert done.exit_code == 0, done.output
    return AssessmentReport.model_validate_json(done.stdout)


def assess(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["assess", *map(str, arguments)])


def resources(report: AssessmentReport) -> list[ResourceReport]:
    return [one for one in (report.cpu, report.memory) if one is not None]


def test_every_way_is_judged_and_the_usual_one_comes_first(assessed: AssessmentReport) -> None:
    assert assessed.cpu is not None
    assert [(one.percent, one.model) for one in assessed.cpu.choices] == [
        (60, "max"),
        (120, "max"),
        (60, "borg-default"),
    ]
    assert assessed.judged_from_day == 2
    for found in resources(assessed):
        usual, bold, _ = found.choices
        assert bold.reclaimable_share > usual.reclaimable_share
        assert bold.exceeded_share >= usual.exceeded_share
        assert bold.violation == usual.violation, "the margin changes no prediction"
        assert all(one.violation is not None and 0 <= one.violation <= 1 for one in found.choices)
        assert 0 < found.used.p50 <= found.used.p95 <= found.used.max <= found.capacity
        assert found.requested == found.capacity


def test_the_whole_is_the_sum_of_its_nodes(assessed: AssessmentReport) -> None:
    assert assessed.cpu is not None
    nodes = [node.cpu for node in assessed.nodes if node.cpu is not None]
    assert len(nodes) == 2
    assert sum(node.capacity for node in nodes) == assessed.cpu.capacity
    assert sum(node.requested for node in nodes) == assessed.cpu.requested
    advised = assessed.cpu.recommendation
    assert advised is not None
    (chosen,) = [one for one in assessed.cpu.choices if (one.percent, one.model) == (advised.percent, advised.model)]
    lent = sum(node.reclaimable_share * node.capacity for node in nodes)
    assert lent == pytest.approx(chosen.reclaimable_share * assessed.cpu.capacity, rel=1e-4)
    assert sum(node.exceeded_minutes for node in nodes) == pytest.approx(chosen.exceeded_minutes, abs=1e-2)


def test_a_history_of_less_than_a_week_advises_the_usual_way_and_says_so(assessed: AssessmentReport) -> None:
    for found in resources(assessed):
        assert found.recommendation is not None
        assert found.recommendation.percent in (60, 65)
        assert "too short" in found.recommendation.reason
    assert any("less than two weeks" in warning for warning in assessed.warnings)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("assess") / "day.csv", hours=20)


def test_a_day_is_too_short_for_any_violation_to_be_said(day: Path) -> None:
    done = assess("--trace", day, *SMALL, "-o", "json")
    assert done.exit_code == 0, done.output
    report = AssessmentReport.model_validate_json(done.stdout)
    assert report.judged_from_day == 0
    assert all(one.violation is None and one.severity is None for found in resources(report) for one in found.choices)
    assert any("violation and severity are unknown" in warning for warning in report.warnings)


def test_usage_covers_only_the_recorded_time(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "hole.csv", hours=60)
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *lines[: 6 * 6], *lines[54 * 6 :]]) + "\n")
    done = assess("--trace", path, *SMALL, "-o", "json")
    assert done.exit_code == 0, done.output
    report = AssessmentReport.model_validate_json(done.stdout)
    assert any("have no records" in warning for warning in report.warnings)
    for found in resources(report):
        assert 0 < found.used.p50 <= found.used.p95 <= found.used.max


def test_the_table_says_what_is_recommended_and_why(day: Path) -> None:
    done = assess("--trace", day, *SMALL)
    assert done.exit_code == 0, done.output
    assert "recommended: cpuReclaimThresholdPercent: 60 with max" in done.stdout
    assert re.search(r"because 0\.8 days are too short", done.stdout)
    rows = [line for line in done.stdout.splitlines() if line.startswith("node-")]
    assert len(rows) == 2


def test_the_future_plays_no_part(trace: Path) -> None:
    """What comes after a moment changes nothing of what was offered until then."""
    traces = both(trace, TraceFormat.CSV, tuple(TraceResource))
    changed = {each: replace(one, usage=one.usage.copy()) for each, one in traces.items()}
    moment = 3 * DAY_CELLS
    for one in changed.values():
        one.usage[moment:] = one.limit[moment:]
    films = [
        assess_placed(
            placed(each, TraceLayout(per_node=3)), models_of(AssessmentOptions(("max",))), (), 0.001, Silent()
        ).film
        for each in (traces, changed)
    ]
    before = moment - 2 * DAY_CELLS + 1
    for each in TraceResource:
        (_, offered, _), (_, of_changed, _) = films[0][each], films[1][each]
        assert offered[:before].tolist() == of_changed[:before].tolist()
        assert offered[before:].tolist() != of_changed[before:].tolist()


@pytest.mark.usefixtures("assessed")
def test_the_page_needs_nothing_else_and_has_its_pictures(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"(src|href)=|@import|url\(|<script", text)
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) == 2 * 3
    for picture in pictures:
        ElementTree.fromstring(picture)  # noqa: S314 - drawn by us a moment ago
        assert "nan" not in picture.lower()


@pytest.mark.usefixtures("assessed")
def test_the_page_has_the_documents_that_apply_as_they_are(page: Path) -> None:
    [text] = re.findall(r"<pre[^>]*>(apiVersion.*?)</pre>", page.read_text(), re.S)
    strategy, policy = yaml.safe_load_all(text)
    assert (strategy["kind"], strategy["metadata"], policy["kind"]) == (
        "ColocationStrategy",
        {"name": "default"},
        "PredictPolicy",
    )
    assert field_problems(strategy["spec"]) == []


def test_a_prometheus_is_read_as_a_trace_is(small: SmallPrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    small.token = "open " + "sesame"
    token.write_text(f"{small.token}\n")
    options = ("--since", "2d", "--bearer-token-file", str(token), "--model", "max", "--percent", "90")
    done = assess("--prometheus", small.url, *options, "-o", "json")
    assert done.exit_code == 0, done.output
    report = AssessmentReport.model_validate_json(done.stdout)
    assert [node.node for node in report.nodes] == ["node-0", "node-1"]
    assert report.cpu is not None
    assert report.cpu.capacity == 16_000
    assert report.cpu.requested == 12_000
    assert report.cpu.used.max <= 12_000 * 0.4 + 1
    assert report.days == pytest.approx(2, abs=0.01)
    until = max(int(asked["end"]) for asked in small.asked)
    assert until <= datetime.now(UTC).timestamp()
    first = min(int(asked["start"]) for asked in small.asked)
    assert until - first == 2 * 86_400
    refused = assess("--prometheus", small.url, "--since", "2d", "--model", "max")
    assert refused.exit_code == 1
    assert "HTTP 401; give --bearer-token-file, https://USER:PASSWORD@HOST, or --prometheus-cert and" in refused.stderr


def test_a_password_in_the_address_is_sent_and_never_shown(small: SmallPrometheus, tmp_path: Path) -> None:
    address = small.url.replace("http://", "http://me:se%40cret@")
    options = ("--since", "6h", "--model", "max", "--percent", "90")
    small.authorization = f"Basic {b64encode(b'me:se@cret').decode()}"
    done = assess("--prometheus", address, *options, "--html", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    small.fails = [(404, "")]
    refused = assess("--prometheus", address, *options)
    assert refused.exit_code == 1
    for shown in (done.output, (tmp_path / "r.html").read_text(), refused.output):
        assert small.url in shown
        assert "cret" not in shown
    token = tmp_path / "token"
    token.write_text("x")
    both_given = assess("--prometheus", address, "--bearer-token-file", token)
    assert "give only one of them" in both_given.stderr


def test_a_bad_answer_is_one_line_and_status_1(small: SmallPrometheus) -> None:
    small.series = []
    done = assess("--prometheus", small.url, "--model", "max")
    assert done.exit_code == 1
    assert "check that kube-state-metrics is scraped" in done.stderr
    small.fails = [(400, json.dumps({"status": "error", "errorType": "bad_data", "error": "no"}))]
    assert "bad_data: no" in assess("--prometheus", small.url, "--model", "max").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --trace PATH or --prometheus URL"),
        (("--trace", "none.csv"), "none.csv does not exist"),
        (("--trace", "x.csv", "--prometheus", "http://p"), "exclude each other: give only one"),
        (("--prometheus", "p:9090"), "is not an address"),
        (("--prometheus", "http://p:x"), "is not an address"),
        (("--prometheus", "http://p", "--seed", "3"), "--seed: applies only to --trace"),
        (("--prometheus", "http://p", "--resource", "cpu"), "--resource: applies only to --trace"),
        (("--trace", "x.csv", "--format", "csv", "--since", "7d"), "--since: applies only to --prometheus"),
        (
            ("--trace", "x.csv", "--format", "csv", "--bearer-token-file", "x"),
            "--bearer-token-file: applies only to --prometheus",
        ),
        (("--trace", "x.csv", "--format", "csv", "--seed", "-1"), "--seed: -1 is not allowed; at least 0"),
        (("--prometheus", "http://p", "--since", "7"), "--since: '7' is not allowed; allowed: a duration such as 90s"),
        (("--prometheus", "http://p", "--step", "1s"), "--step: 1 s is not allowed"),
        (("--prometheus", "http://p", "--since", "6m"), "is not allowed; at least two steps"),
        (("--prometheus", "http://p", "--retries", "-1"), "--retries: -1 is not allowed"),
        (("--accept", "7"), "--accept: 7.0 is not a share"),
        (("--percent", "-3"), "--percent: -3 is not allowed"),
        (("--trace", "x.csv", "--format", "csv", "--model", "none"), "--model: there is no model 'none'"),
        (("--trace", "x.csv", "--format", "csv"), "x.csv does not exist"),
    ],
)
def test_mistakes_are_said_in_one_line_with_status_2(arguments: tuple[str, ...], said: str) -> None:
    done = assess(*arguments)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_proof_that_cannot_be_read_is_named_by_its_own_option() -> None:
    for option, scheme in (("--bearer-token-file", "http"), ("--prometheus-ca", "https")):
        done = assess("--prometheus", f"{scheme}://127.0.0.1:1", option, "/no/file")
        assert (done.exit_code, f"slackwater: {option}" in done.stderr) == (1, True), done.output


def test_times_have_a_unit() -> None:
    assert [seconds_of(text, "since") for text in ("90s", "5m", "36h", "7d")] == [90, 300, 129_600, 604_800]
    for bad in ("", "5", "0m", "-3d", "5 m"):
        with pytest.raises(InvalidInput, match="--since"):
            seconds_of(bad, "since")


def test_what_no_job_could_use_is_no_recommendation(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines whose memory is full lend CPU that nothing can use: 0.0 nodes are not worth a document."""
    worth = assessment_report._worth
    monkeypatch.setattr(assessment_report, "_worth", lambda *given: worth(*given).model_copy(update={"nodes": 0.0001}))
    arguments = ("--trace", trace, *SMALL, "--accept", "0.02")
    text = assess(*arguments).stdout
    assert "as much as 0.0 of these nodes" in text
    assert "not worth a document: none is recommended" in text
    assert "slackwater apply" not in text
    refused = assess(*arguments, "-o", "yaml")
    assert (refused.exit_code, "nothing is recommended" in refused.stderr) == (2, True)
