"""The agent's driver `kubernetes` and the API server: with exactly the rights and privileges of its manifest.

The agent runs as the process that its image starts, as root without any capability, in real cgroups; the pods are those
of a real API server. No kubelet runs: its stand-in makes the cgroups, and tests write the pods' status.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from tests.kubelet.pods import container, node_pod
from tests.kubelet.stand_in import KubeletStandIn, MountedMachine
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drivers import (
    ROLES,
    ClusterDriver,
    Document,
    MemoryDriver,
    RealDriver,
    applied,
    real_driver,
)
from tests.kubernetes.manifests import find, release

from slackwater.agent.adapters.kubepods.api_access import access_of
from slackwater.agent.adapters.kubepods.pod_reader import PodReader
from slackwater.agent.adapters.kubepods.pod_source import PodSource
from slackwater.agent.adapters.linux.hierarchy import find_hierarchy
from slackwater.apiserver.node_pods import NODE_PODS
from slackwater.apiserver.port import ObjectReader
from slackwater.apiserver.records import PODS
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.time import SystemClock

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 40.0
ANOTHER_USER = [
    "setpriv",
    *("--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs"),
    *(f"--{caps}=-all,+dac_read_search" for caps in ("bounding-set", "inh-caps", "ambient-caps")),
]
"""A user without privileges but that of reading this checkout, its environment and the kubeconfig wherever they are."""
BATCH: dict[str, Any] = {"priority": 0, "labels": {"slackwater.io/tier": "batch"}}


def manifest(kind: str) -> Document:
    return find(release(), kind, "slackwater-agent" if kind.startswith("ClusterRole") else "agent")


async def until(look: Callable[[], object], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not look():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.05)


@dataclass
class AgentAccount:
    """The agent's service account with the rights of the manifest; `kubeconfig` signs in as it."""

    admin: httpx2.AsyncClient
    kubeconfig: Path
    role: Document = field(default_factory=lambda: manifest("ClusterRole"))

    async def grant(self, verbs: Sequence[str]) -> None:
        rules = [{**self.role["rules"][0], "verbs": list(verbs)}] if verbs else []
        await applied(self.admin, ROLES["ClusterRole"], {**self.role, "rules": rules})

    def verbs(self) -> list[str]:
        return list(self.role["rules"][0]["verbs"])


@asynccontextmanager
async def agent_account(admin_kubeconfig: Path, folder: Path) -> AsyncIterator[AgentAccount]:
    config = KubeConfig.from_file(admin_kubeconfig).get()
    assert config is not None
    async with AsyncClient(config, ConnectionParams(trust_env=False)) as admin:
        account = manifest("ServiceAccount")
        namespace = account["metadata"]["namespace"]
        accounts = f"api/v1/namespaces/{namespace}/serviceaccounts"
        await applied(
            admin, "api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        await applied(admin, accounts, account)
        await applied(admin, ROLES["ClusterRoleBinding"], manifest("ClusterRoleBinding"))
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await admin.post(f"{accounts}/{account['metadata']['name']}/token", json=request)
        document = yaml.safe_load(admin_kubeconfig.read_text())
        (folder / "token").write_text(answer.raise_for_status().json()["status"]["token"] + "\n")
        for cluster in document["clusters"]:  # a file that other users cannot read
            authority = Path(cluster["cluster"].pop("certificate-authority")).read_bytes()
            cluster["cluster"]["certificate-authority-data"] = b64encode(authority).decode()
        document["users"] = [{**user, "user": {"tokenFile": "token"}} for user in document["users"]]
        kubeconfig = folder / "agent.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        made = AgentAccount(admin, kubeconfig)
        await made.grant(made.verbs())
        yield made


@pytest.fixture
async def account(admin_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[AgentAccount]:
    async with agent_account(admin_kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
def reading_account(request: pytest.FixtureRequest, cluster: ClusterDriver) -> AgentAccount | None:
    """Of the real server; the one in memory asks for none."""
    if isinstance(cluster, MemoryDriver):
        return None
    found: AgentAccount = request.getfixturevalue("account")
    return found


def reader_of(cluster: ClusterDriver, account: AgentAccount | None, node: str) -> ObjectReader:
    if isinstance(cluster, MemoryDriver):
        return cluster.api
    assert account is not None
    return PodReader(access_of(account.kubeconfig), node)


@asynccontextmanager
async def followed(reader: ObjectReader, node: str) -> AsyncIterator[PodSource]:
    source = PodSource(node)
    following = asyncio.create_task(source.follow(reader, SystemClock()))
    try:
        yield source
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


def pod(cluster: ClusterDriver, stem: str, node: str, **more: Any) -> Document:
    document = node_pod(cluster.name(stem), container(batch_cpu="500", batch_memory="64Mi"), node=node, **BATCH, **more)
    if isinstance(cluster, RealDriver):
        del document["metadata"]["uid"], document["metadata"]["creationTimestamp"]
        document["spec"] |= {"automountServiceAccountToken": False}
        document["status"].pop("qosClass")  # set by the server, and never changed
    return document


async def test_the_pods_of_one_node_are_followed_through_all_changes(
    cluster: ClusterDriver, reading_account: AgentAccount | None
) -> None:
    node = cluster.name("worker")
    await cluster.put(PODS, pod(cluster, "first", node))
    await cluster.put(PODS, pod(cluster, "elsewhere", cluster.name("other")))
    first, second = f"default/{cluster.name('first')}", f"default/{cluster.name('second')}"
    async with followed(reader_of(cluster, reading_account, node), node) as source:
        await source.wait_until_listed()
        assert set(source.pods) == {first}
        assert source.pods[first].record.borrowed == (
            ("slackwater.io/batch-cpu", 500), ("slackwater.io/batch-memory", 64 << 20),
        )  # fmt: skip
        assert source.pods[first].qos_class == "BestEffort"
        await cluster.put(PODS, pod(cluster, "second", node))
        await until(lambda: set(source.pods) == {first, second}, "a pod that was bound later")
        changed = pod(cluster, "second", node, running={"main": "containerd://" + "a" * 64})
        await cluster.put(PODS, changed)
        await until(lambda: source.pods[second].containers[0].id == "a" * 64, "its status")
        await cluster.delete(PODS, first)
        await until(lambda: set(source.pods) == {second}, "the end of a pod")
        assert source.error == ""


async def test_pages_hold_all_pods_of_the_node(cluster: ClusterDriver, reading_account: AgentAccount | None) -> None:
    node = cluster.name("paged")
    for number in range(3):
        await cluster.put(PODS, pod(cluster, f"page{number}", node))
    reader, names, page = reader_of(cluster, reading_account, node), list[str](), ""
    while True:
        answer = await reader.list_page(NODE_PODS, 2, page)
        names += [one.key for one in answer.items if one.record.node == node]
        page = answer.next_page
        if not page:
            break
    assert names == sorted(f"default/{cluster.name(f'page{number}')}" for number in range(3))


async def test_each_right_is_needed_and_a_wrong_token_is_named(account: AgentAccount) -> None:
    reader = PodReader(access_of(account.kubeconfig), "worker")

    async def use(verb: str) -> None:
        if verb == "list":
            await reader.list_page(NODE_PODS, 10)
        else:
            async for _ in reader.watch(NODE_PODS, "0"):
                break

    async def is_refused(verb: str) -> bool:
        try:
            async with asyncio.timeout(0.5):
                await use(verb)
        except Misconfigured as error:
            return f'cannot {verb} resource "pods"' in error.message
        except TimeoutError:  # a watch without events
            pass
        return False

    for verb in account.verbs():
        await account.grant([one for one in account.verbs() if one != verb])
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not await is_refused(verb):  # the authorizer sees the changed role a little later
            assert asyncio.get_running_loop().time() < deadline, verb
    await account.grant(account.verbs())
    (account.kubeconfig.parent / "token").write_text("wrong")
    with pytest.raises(Misconfigured, match="Unauthorized"):
        await reader.list_page(NODE_PODS, 10)


async def test_an_api_server_that_is_killed_loses_nothing(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with (
        real_driver(control_plane.kubeconfig, tmp_path) as real,
        agent_account(control_plane.kubeconfig, tmp_path) as account,
    ):
        node = real.name("worker")
        await real.put(PODS, pod(real, "before", node))
        reader = PodReader(access_of(account.kubeconfig), node)
        async with followed(reader, node) as source:
            await source.wait_until_listed()
            control_plane.kill("kube-apiserver")
            await until(lambda: "does not answer" in source.error, "that it is away")
            with pytest.raises(Unavailable):
                await reader.list_page(NODE_PODS, 10)
            control_plane.restart("kube-apiserver")
            await asyncio.to_thread(control_plane.wait_ready)
            await real.put(PODS, pod(real, "after", node))
            await until(lambda: len(source.pods) == 2 and not source.error, "both pods")


# ---- the process of the manifest, with its privileges


@dataclass
class Node:
    """A node of the cluster whose kubelet is a stand-in, and the agent's process on it."""

    cluster: RealDriver
    account: AgentAccount
    kubelet: KubeletStandIn
    name: str
    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *before: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """The agent as its image starts it, with the environment of the manifest; `before` gives up privileges."""
        found = {item["name"]: item["value"] for item in self._container()["env"] if "value" in item}
        settings = {key: value for key, value in found.items() if key.startswith("SLACKWATER_AGENT_")}
        own = {
            "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}",
            "SLACKWATER_AGENT_KUBECONFIG": str(self.account.kubeconfig),
            "SLACKWATER_AGENT_CGROUP_ROOT": "/".join(self.kubelet.root),
            "SLACKWATER_AGENT_SAMPLE_SECONDS": "0.2",
        }
        command = [
            *before,
            sys.executable,
            "-m",
            "slackwater.agent",
            "--nats",
            "nats://127.0.0.1:1",
            "--node",
            self.name,
        ]
        process = subprocess.Popen(
            [*command, "--state-dir", str(self.folder / "state")],
            env={"PATH": os.environ["PATH"], **settings, **(own if environment is None else environment)},
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def least(self) -> list[str]:
        """What the manifest leaves it: no capability, no further privilege by a program that it starts."""
        security = self._container()["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]

    async def run_pod(self) -> str:
        document = pod(self.cluster, "crunch", self.name)
        await self.cluster.put(PODS, document)
        kept = await self.cluster.document(PODS, f"default/{document['metadata']['name']}")
        self.kubelet.run({**kept, "status": {**kept["status"], "containerStatuses": []}})
        uid = str(kept["metadata"]["uid"])
        status = {**self.kubelet.pods[uid]["status"], "phase": "Running"}
        await self.cluster.put(PODS, {**document, "status": status})
        return uid

    def memory(self, uid: str) -> str:
        name = "memory.max" if self.kubelet.is_v2 else "memory.limit_in_bytes"
        return Path(self.kubelet.file(self.kubelet.containers[uid, "main"], name)).read_text().strip()

    def _container(self) -> Document:
        (found,) = manifest("DaemonSet")["spec"]["template"]["spec"]["containers"]
        return dict(found)


@pytest.fixture
def node(real: RealDriver, account: AgentAccount, tmp_path: Path) -> Iterator[Node]:
    hierarchy = find_hierarchy()
    if (why := hierarchy.why_unwritable()) is not None or shutil.which("setpriv") is None:
        pytest.skip(why or "needs setpriv")
    name = real.name("worker")
    kubelet = KubeletStandIn(MountedMachine(hierarchy), "systemd", root=(f"k{name.replace('-', '')}",))
    kubelet.start()
    made = Node(real, account, kubelet, name, tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()
    kubelet.remove()


@pytest.mark.root
async def test_the_agent_isolates_and_gives_back_with_no_more_than_its_manifest_leaves_it(node: Node) -> None:
    uid = await node.run_pod()
    before = node.memory(uid)
    process = node.start(*node.least())
    await until(lambda: node.memory(uid) == str(64 << 20) or process.poll() is not None, "isolation")
    assert node.memory(uid) == str(64 << 20), (process.stderr or sys.stderr).read() if process.poll() else ""
    effective = next(
        line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("CapEff")
    )
    assert int(effective.split()[1], 16) == 0
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) == 0
    assert node.memory(uid) == before


@pytest.mark.root
@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("root", "is not writable for uid 65532"),
        ("cgroups", "is not writable for uid 0"),
        ("token", "the service account of this pod cannot be used"),
        ("state", "Read-only file system"),
    ],
)
async def test_each_privilege_is_needed(node: Node, taken: str, message: str) -> None:
    """Without one it says so and ends, and nothing is written."""
    uid = await node.run_pod()
    before = node.memory(uid)
    state = node.folder / "state"
    state.mkdir()
    environment: Mapping[str, str] | None = None
    match taken:
        case "root":
            os.chown(state, 65532, 65532)
            before_command = ANOTHER_USER
        case "token":
            before_command = node.least()
            environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        case _:
            places = node.kubelet.machine.hierarchy.trees() if taken == "cgroups" else (state,)
            script = "".join(f"mount --bind {one} {one} && mount -o remount,ro,bind {one} && " for one in places)
            before_command = ["unshare", "--mount", "sh", "-c", f'{script}exec "$@"', "sh", *node.least()]
    process = node.start(*before_command, environment=environment)
    assert await asyncio.to_thread(process.wait, PATIENCE_SECONDS) != 0
    assert process.stderr is not None
    assert message in process.stderr.read().decode()
    assert node.memory(uid) == before
