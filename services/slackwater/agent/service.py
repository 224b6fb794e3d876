"""The composition root of the agent: one machine, or a simulated fleet."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.boot_id import read_boot_id
from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.kubepods.api_access import access_of
from slackwater.agent.adapters.kubepods.driver import KubernetesDriver
from slackwater.agent.adapters.kubepods.node_source import NodeSource
from slackwater.agent.adapters.kubepods.pod_reader import PodReader
from slackwater.agent.adapters.kubepods.pod_source import PodSource
from slackwater.agent.adapters.kubepods.tree import KubeletTree
from slackwater.agent.adapters.ledger_file import LEDGER, JsonLedger
from slackwater.agent.adapters.linux.cpu_placement import cpu_placement
from slackwater.agent.adapters.linux.driver import LinuxDriver, linux_driver
from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.knob_files import MOUNTED_FILES, KernelFiles
from slackwater.agent.adapters.linux.launcher import ProcessLauncher
from slackwater.agent.adapters.linux.lock import AgentLock
from slackwater.agent.adapters.linux.workload_files import WorkloadFiles
from slackwater.agent.adapters.memory import MemoryIntents, MemoryJournal, MemoryLedger, MemoryStarts
from slackwater.agent.adapters.report_file import keep_report
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.adapters.simulated_launcher import SimulatedLauncher
from slackwater.agent.adapters.starts_file import JsonStarts
from slackwater.agent.domain.simulated_faults import faults_of, is_spare
from slackwater.agent.fleet import FleetService
from slackwater.agent.node_agent import AgentService, PodFeed
from slackwater.agent.ports import Driver, EvictionLedger, IntentFile, JournalFile, Launcher, Lock, StartLedger
from slackwater.agent.settings import AgentSettings
from slackwater.agent.usecases.place_pods import PlacePods, RemotePlugins
from slackwater.apiserver.port import ObjectReader
from slackwater.model.errors import Misconfigured
from slackwater.runtime.platform import Platform
from slackwater.runtime.state import StateDir


@dataclass(frozen=True, slots=True)
class AgentState:
    """What one agent keeps over a restart. The default keeps it in this process, for machines that end with it."""

    journal: JournalFile = field(default_factory=MemoryJournal)
    ledger: EvictionLedger = field(default_factory=MemoryLedger)
    intents: IntentFile = field(default_factory=MemoryIntents)
    lock: Lock | None = None
    report_file: Path | None = None
    starts: StartLedger = field(default_factory=MemoryStarts)
    disk: DiskFiles = OS_FILES


def state_in(
    folder: Path, lock: Lock | None = None, disk: DiskFiles = OS_FILES, boot_id: str | None = None
) -> AgentState:
    """The state of an agent in files of a folder. `boot_id` None: that of the running kernel."""
    return AgentState(
        LinesJournal(folder / "journal", disk, read_boot_id() if boot_id is None else boot_id),
        JsonLedger(folder / LEDGER, disk),
        JsonIntents(folder / "intents.json", disk),
        lock,
        folder / "restore-report.json",
        JsonStarts(folder / "starts.json", disk),
        disk,
    )


def build(settings: AgentSettings, platform: Platform, driver: Driver | None = None) -> AgentService | FleetService:
    """The agent of this machine, of the given one, or (by the settings) of a simulated fleet."""
    if driver is None and settings.driver == "simulated":
        return build_fleet(settings, platform)
    return build_agent(settings, platform, driver)


def build_fleet(settings: AgentSettings, platform: Platform) -> FleetService:
    """`settings.nodes` agents on simulated machines."""
    agents = []
    for number in range(1, settings.nodes + 1):
        node = f"sim-{number:02d}"
        machine = SimulatedDriver(
            node,
            number,
            platform.clock,
            started_at=platform.clock.now(),
            host_apps=settings.host_applications,
            faults=faults_of(number, settings.faults),
            is_spare=is_spare(number, settings.faults),
            load=settings.load,
        )
        own = {"node": node, "pool": "simulated", "leave_on_stop": True}
        agents.append(build_agent(settings.model_copy(update=own), platform, machine))
    report_file = platform.state_dir / "agent" / "restore-report.json"
    return FleetService(agents, report_file, keep_report, settings.sample_seconds)


def build_agent(
    settings: AgentSettings, platform: Platform, driver: Driver | None = None, state: AgentState | None = None
) -> AgentService:
    """The agent of this machine, or of the given one. Without `state`, only a real machine keeps it on disk.

    Of the platform the bus, the clock and the state directory are used; the database is not.
    """
    if driver is None and settings.driver == "kubernetes":
        return build_in_cluster(settings, platform)
    if driver is None:
        StateDir(platform.state_dir).agent_folder()
        instance = settings.instance or StateDir(platform.state_dir).instance_id()
        driver = linux_driver(platform.state_dir, instance, platform.clock, host_apps=settings.host_applications)
        driver.measure_own_tree(settings.memory_bytes is not None)
    if state is None:
        folder = driver.layout.agent_dir if isinstance(driver, LinuxDriver) else None
        state = AgentState() if folder is None else state_in(folder, AgentLock(folder))
    placement = _placement(settings, platform, driver)
    return AgentService(
        settings,
        platform,
        driver,
        state.journal,
        state.ledger,
        state.lock,
        state.report_file,
        state.intents,
        state.disk,
        launcher=_launcher(settings, platform.state_dir, driver),
        placement=placement,
        serves=_pod_resources(settings, placement),
        starts=state.starts,
    )


def _launcher(settings: AgentSettings, state_dir: Path, driver: Driver) -> Launcher | None:
    """What starts workloads of this machine; None where the operator has described none."""
    if isinstance(driver, SimulatedDriver):
        return SimulatedLauncher(driver)
    if settings.workloads_dir is None or not isinstance(driver, LinuxDriver):
        return None
    return ProcessLauncher(WorkloadFiles(settings.workloads_dir.absolute()), state_dir, driver.layout.instance)


def _placement(settings: AgentSettings, platform: Platform, driver: Driver) -> PlacePods | None:
    if not isinstance(driver, LinuxDriver):
        return None
    placement = cpu_placement(driver, platform.clock, settings.system_cpus, settings.exclusive_cpus)
    if placement is not None and settings.resource_plugins_dir is not None:
        placement.remote = _remote_plugins(settings.resource_plugins_dir.absolute(), placement, platform)
    return placement


def _remote_plugins(folder: Path, placement: PlacePods, platform: Platform) -> RemotePlugins:
    """Raises Misconfigured where gRPC is not installed."""
    try:
        from slackwater.agent.adapters.resource_plugins.placement import remote_plugins
    except ModuleNotFoundError as error:
        raise _lacks(error, "SLACKWATER_AGENT_RESOURCE_PLUGINS_DIR") from None
    return remote_plugins(folder, placement.cpu, placement.memory, platform.clock)


def _pod_resources(
    settings: AgentSettings, placement: PlacePods | None
) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """What serves the resources of pods; None where no socket is configured, or nothing is placed. Raises Misconfigured
    where gRPC is not installed."""
    if placement is None or settings.pod_resources_socket is None:
        return None
    try:
        from slackwater.agent.adapters.resource_plugins.pod_resources import PodResourcesServer
    except ModuleNotFoundError as error:
        raise _lacks(error, "SLACKWATER_AGENT_POD_RESOURCES_SOCKET") from None
    return PodResourcesServer(placement, settings.pod_resources_socket.absolute()).run


def _lacks(error: ModuleNotFoundError, setting: str) -> Misconfigured:
    return Misconfigured(f"{setting} needs {error.name}: pip install 'slackwater[grpc]'")


def build_in_cluster(
    settings: AgentSettings,
    platform: Platform,
    reader: ObjectReader | None = None,
    hierarchy: Hierarchy | None = None,
    kernel: KernelFiles = MOUNTED_FILES,
) -> AgentService:
    """The agent of a node of Kubernetes; of this machine and its API server, or of those given. Raises
    Misconfigured."""
    if settings.node is None:
        raise Misconfigured(
            "the driver kubernetes needs the node's name in the cluster: --node, or SLACKWATER_AGENT_NODE"
        )
    if settings.memory_bytes is not None:
        raise Misconfigured(
            "SLACKWATER_AGENT_MEMORY_BYTES bounds the cgroup of all pods, which the kubelet owns: not with the driver "
            "kubernetes; use the kubelet's kubeReserved and systemReserved"
        )
    source = PodSource(settings.node)
    pods = reader or PodReader(access_of(settings.kubeconfig), settings.node)
    root = tuple(filter(None, settings.cgroup_root.split("/")))
    tree = KubeletTree(hierarchy or find_hierarchy(), root, kernel)
    driver = KubernetesDriver(
        source, tree, platform.clock, settings.pod_uid, settings.limit_borrowed_cpu, settings.host_applications
    )
    node = driver.node_source = NodeSource(settings.node)
    folder = StateDir(platform.state_dir).agent_folder()
    agent = build_agent(settings, platform, driver, state_in(folder, AgentLock(folder)))
    clock = platform.clock
    follow = (lambda: source.follow(pods, clock), lambda: node.follow(pods, clock))
    agent.feed = PodFeed(follow, source.wait_until_listed, lambda: source.error, node.wait_until_answered)
    return agent
