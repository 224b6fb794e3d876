"""The plain manifests applied, rehearsed: every pod begins at once, as they say, and settles."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import until, why_not_here
from images import ROOT, images
from manifests import Cluster

from slackwater.runtime.service_list import service_names

pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))]
NODE = "edge-1.example.internal"
HURRY = {
    "ingestion": {"SLACKWATER_INGESTION_WINDOW_SECONDS": "5", "SLACKWATER_INGESTION_LATENESS_SECONDS": "1"},
    "agent": {"SLACKWATER_AGENT_REPORT_SECONDS": "1", "SLACKWATER_AGENT_DRIVER": "linux"},
}
"""All that is otherwise than in the manifests, besides the number of replicas: two of ingestion, one of the others. No
kubelet and no API server run here; tests/kubernetes runs the agent of the manifests with its driver. The driver linux
makes cgroups in trees whose roots have no write permission, for which it needs a capability."""


def made_secrets(folder: Path) -> Path:
    """By the very command of the page."""
    page = (ROOT / "docs" / "how-to" / "install-on-kubernetes.md").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^slackwater (secrets .*)$", page, re.MULTILINE)
    (folder / "nodes.txt").write_text(f"{NODE}\n")
    environment = {"PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}", "PATH": "/usr/bin:/bin"}
    subprocess.run(
        [sys.executable, "-m", "slackwater.cli", *shlex.split(command)], check=True, cwd=folder, env=environment
    )
    return folder / "secrets"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes")
    secrets = made_secrets(folder)
    made = Cluster(folder, images(folder), NODE, secrets, HURRY, {"ingestion": 2})
    (agent,) = made.workloads["agent"]["spec"]["template"]["spec"]["containers"]
    agent["securityContext"]["capabilities"]["add"] = ["DAC_OVERRIDE"]
    credentials = made.host_path("/etc/slackwater/agent")
    for file in (secrets / "agents" / NODE).iterdir():
        shutil.copy(file, credentials / file.name)
        (credentials / file.name).chmod(0o600)
    with made.network:
        made.apply()
        yield made


def items(cluster: Cluster, path: str) -> list[dict[str, Any]]:
    token = (cluster.secrets / "tokens" / "viewer").read_text().strip()
    status, body = cluster.network.get(cluster.running["console-1"], 8460, path, token)
    found: list[dict[str, Any]] = json.loads(body)["items"] if status == 200 else []
    return found


def test_all_pods_settle_whatever_order_they_begin_in_and_the_node_has_an_offer(cluster: Cluster) -> None:
    until(cluster.settled, "every pod answers its probes", 120)
    until(lambda: [node["name"] for node in items(cluster, "/v1/nodes")] == [NODE], "the agent's node is known")
    until(lambda: items(cluster, f"/v1/nodes/{NODE}/offers"), "an offer of the node")
    nats = cluster.running["nats-1"]
    assert not re.search("Violation|Authorization Error", nats.complaints), nats


def test_unauthenticated_clients_are_refused(cluster: Cluster) -> None:
    for pod in cluster.pods:
        if pod.startswith(service_names()):
            for path in ("/", "/metrics", "/v1/nodes"):
                assert cluster.network.get(cluster.running[pod], 8460, path)[0] == 401, (pod, path)


def test_the_nightly_backup_is_taken_and_a_restore_touches_nothing_that_exists(cluster: Cluster) -> None:
    backup = cluster.run("backup")
    assert backup.status() == 0, backup
    assert re.search("state hash [0-9a-f]{64}", backup.output)
    restore = cluster.run("restore")
    assert restore.status() != 0, restore
    assert "already holds tables" in restore.complaints, restore


def test_every_pod_leaves_well_within_its_grace(cluster: Cluster) -> None:
    """The last test: nothing runs afterwards."""
    for pod in sorted(cluster.pods, key=lambda pod: pod.startswith(("nats", "postgres"))):
        if not pod.startswith("migrate"):
            assert cluster.running[pod].stop(30) == 0, cluster.running[pod]
