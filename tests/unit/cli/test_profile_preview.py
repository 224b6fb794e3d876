"""`slackwater profile preview`: the pod that Kubernetes would create, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from slackwater.cli.main import app

PROFILE = """
apiVersion: slackwater.io/v1alpha1
kind: ClusterColocationProfile
metadata: {name: gold}
spec:
  selector: {matchLabels: {app: spark}}
  tier: batch
  qosClass: BE
  priorityClass: {name: slackwater-batch, value: 5500}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: spark}}
spec:
  containers: [{name: c, image: none, resources: {requests: {cpu: 1500m, memory: 2Gi}}}]
"""
CRON = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: jobs}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {labels: {app: spark}}
        spec: {containers: [{name: c, image: none}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("profile", PROFILE), ("pod", POD), ("cron", CRON)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def preview(folder: Path, name: str, *options: str) -> str:
    files = ["-f", str(folder / f"{name}.yaml"), "--profile", str(folder / "profile.yaml")]
    outcome = CliRunner().invoke(app, ["profile", "preview", *files, *options])
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_it_shows_what_differs_and_by_which_profile(folder: Path) -> None:
    shown = preview(folder, "pod")
    assert "pod/one: gold" in shown
    assert "-        cpu: 1500m" in shown
    assert "+        slackwater.io/batch-cpu: '1500'" in shown
    assert "+    slackwater.io/tier: batch" in shown


def test_whole_pods_are_printed_also_of_templates(folder: Path) -> None:
    outcome = CliRunner().invoke(
        app,
        [
            *("profile", "preview", "-o", "yaml", "--profile", str(folder / "profile.yaml")),
            *("-f", str(folder / "pod.yaml"), "-f", str(folder / "cron.yaml")),
        ],
    )
    one, nightly = yaml.safe_load(outcome.stdout)["items"]
    assert one["spec"]["priority"] == nightly["spec"]["priority"] == 5500
    assert nightly["metadata"]["namespace"] == "jobs"


def test_it_says_what_stays_and_why(folder: Path) -> None:
    (folder / "pod.yaml").write_text(POD.replace("memory: 2Gi}", "memory: 2Gi}, limits: {memory: 4Gi}"))
    shown = preview(folder, "pod")
    assert "gold keeps memory of container c: slackwater.io/batch-memory has no limit beside its request" in shown
    assert "+        slackwater.io/batch-cpu: '1500'" in shown
    (folder / "pod.yaml").write_text(f"{POD}  priorityClassName: system-node-critical\n")
    assert "no profile changes a pod that is critical for the system" in preview(folder, "pod")


@pytest.mark.parametrize(
    ("resources", "shown"),
    [
        ("requests: {memory: 0.3Gi}", "+        slackwater.io/batch-memory: '322122548'"),
        ("limits: {cpu: 2}", "+        slackwater.io/batch-cpu: '2000'"),
        ("requests: {cpu: 0}", "gold keeps cpu of container c: it is 0"),
        ("requests: {cpu: 0}, limits: {cpu: 2}", "gold keeps cpu of container c: slackwater.io/batch-cpu has no limit"),
        ("limits: {cpu: 1, hugepages-2Mi: 4Mi}", "gold keeps cpu of container c: huge pages need"),
        ("limits: {memory: 9223372036854775807}", "gold keeps memory of container c: it is more than 8Pi"),
        ("limits: {cpu: 1, ephemeral-storage: 1Gi}", "+        slackwater.io/batch-cpu: '1000'"),
    ],
)
def test_what_becomes_of_each_amount_is_shown(folder: Path, resources: str, shown: str) -> None:
    (folder / "pod.yaml").write_text(POD.replace("requests: {cpu: 1500m, memory: 2Gi}", resources))
    assert shown in preview(folder, "pod")


@pytest.mark.parametrize("bound", ["default", "defaultRequest", "min", "max", "maxLimitRequestRatio"])
def test_a_limit_range_in_a_file_limits_its_namespace(folder: Path, bound: str) -> None:
    limits = {"limits": [{"type": "Container", bound: {"memory": "1"}}]}
    item = {"kind": "LimitRange", "metadata": {"name": "sizes", "namespace": "default"}, "spec": limits}
    (folder / "range.yaml").write_text(yaml.safe_dump(item))
    shown = preview(folder, "pod", "-f", str(folder / "range.yaml"))
    assert "limited namespaces: default (LimitRange sizes)" in shown
    assert "batch-cpu" not in shown


def test_a_quota_in_a_file_limits_its_namespace(folder: Path) -> None:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"cpu": 4}}}
    (folder / "quota.yaml").write_text(yaml.safe_dump(quota))
    shown = preview(folder, "pod", "-f", str(folder / "quota.yaml"))
    assert "gold: pods are left as they are in limited namespaces: default (ResourceQuota q)" in shown
    assert "batch-cpu" not in shown
    assert "batch-cpu" in preview(folder, "pod", "-f", str(folder / "quota.yaml"), "-n", "other")


def test_pods_of_system_namespaces_stay(folder: Path) -> None:
    shown = preview(folder, "pod", "-n", "kube-system")
    assert "no profile selects it" in shown
    assert "+" not in shown


@pytest.mark.parametrize(
    ("file", "options", "said"),
    [
        ("profile", (), "is no pod and has no pod template"),
        ("pod", ("--namespace-label", "team"), "is no KEY=VALUE"),
    ],
)
def test_what_cannot_be_previewed_is_refused(folder: Path, file: str, options: tuple[str, ...], said: str) -> None:
    files = ["-f", str(folder / f"{file}.yaml"), "--profile", str(folder / "profile.yaml")]
    outcome = CliRunner().invoke(app, ["profile", "preview", *files, *options])
    assert outcome.exit_code != 0
    assert said in outcome.output
