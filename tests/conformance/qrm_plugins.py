"""Suites of the plugins for CPU, memory and network in qrm.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, differ

from slackwater.agent.domain.resource_manager.cpu_plugin import (
    WISHES,
    CpuPlugin,
    CpuPluginRules,
    NumaPreference,
    pool_name,
)
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import (
    PREFIX,
    QOS_LEVEL,
    Allocation,
    ContainerType,
    QosLevel,
    ResourceRequest,
)
from slackwater.agent.domain.resource_manager.nic_plugin import Nic, NicPlugin
from slackwater.agent.domain.resource_manager.plugin import (
    NETWORK_ENHANCEMENT,
    ResourcePlugin,
    is_bound,
    response_annotations,
)
from slackwater.kernels.topology.allocate_by_cache import allocate_in_turn
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.hints import Hint, mask_of, nodes_of
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.pools import HolderKind, HolderSpec, PoolDemand, PoolRules
from slackwater.model.errors import SlackwaterError

_RESERVED = 2
_NODES, _NODE_BYTES, _NODE_RESERVED = 4, 8 << 30, 1 << 30
_LEVEL_KINDS = {
    "dedicated_cores": HolderKind.DEDICATED,
    "shared_cores": HolderKind.SHARED,
    "reclaimed_cores": HolderKind.RECLAIMED,
    "system_cores": HolderKind.SYSTEM,
}
_NIC_MBPS = 25_000 * 0.85
_NICS = {
    "two": (
        Nic("eth0", frozenset({0, 1}), _NIC_MBPS - 4000, ipv4="1.1.1.1"),
        Nic("eth1", frozenset({0, 1}), _NIC_MBPS, enabled=False),
        Nic("eth2", frozenset({2, 3}), _NIC_MBPS, namespace="/var/run/netns/ns2"),
    ),
    "none": (),
}
_NET_CLASSES = {QosLevel.DEDICATED: "22347"}


def cpu_hints(case: Case) -> Verdict:
    return _hints(case, _cpu_plugin(case))


def cpu_allocation(case: Case) -> Verdict:
    return _allocation(case, _cpu_plugin(case), WISHES)


def memory_hints(case: Case) -> Verdict:
    return _hints(case, _memory_plugin(case))


def memory_allocation(case: Case) -> Verdict:
    return _allocation(case, _memory_plugin(case), WISHES)


def network_hints(case: Case) -> Verdict:
    return _hints(case, _nic_plugin(case))


def network_allocation(case: Case) -> Verdict:
    return _allocation(case, _nic_plugin(case), (NETWORK_ENHANCEMENT,))


def pool(case: Case) -> Verdict:
    return compare(pool_name(QosLevel(case["qos"]), case.get("cpusetPool") or ""), case["expect"])


def differs(anchor: str) -> Adaptor:
    return lambda case: differ(anchor)


def _hints(case: Case, plugin: ResourcePlugin) -> Verdict:
    want = case["expect"]
    try:
        hints = plugin.hints(_request(case["req"]))
        got: Any = None if hints is None else sorted((list(nodes_of(hint.mask or 0)), hint.preferred) for hint in hints)
    except SlackwaterError:
        got = "error"
    return compare(got, sorted((hint["nodes"], hint["preferred"]) for hint in want) if isinstance(want, list) else want)


def _allocation(case: Case, plugin: ResourcePlugin, wishes: Sequence[str]) -> Verdict:
    request = _request(case["req"])
    defaults = (case.get("opts") or {}).get("enhancementDefaults") or {}
    try:
        allocation = plugin.allocate(request).get(plugin.resource)
        got: Any = {
            "allocation": allocation and shown_allocation(allocation, case["expect"]),
            "annotations": response_annotations(request, wishes, defaults if _is_dedicated(request) else {}),
        }
    except SlackwaterError:
        got = None
    return compare(got, case["expect"])


def shown_allocation(allocation: Allocation, want: Any) -> dict[str, Any]:
    """As the vectors write it: parts that are empty in both are left out."""
    hints = [None if hint is None else {"nodes": list(nodes_of(hint.mask or 0)), "preferred": hint.preferred}
             for hint in allocation.hints]  # fmt: skip
    shown = {
        "oci": allocation.oci,
        "node": allocation.is_node,
        "scalar": allocation.is_scalar,
        "quantity": allocation.quantity,
        "result": allocation.result,
        **({"envs": dict(allocation.envs)} if allocation.envs else {}),
        **({"annotations": dict(allocation.annotations)} if allocation.annotations else {}),
        **({"hints": hints} if hints else {}),
    }
    wanted = want.get("allocation", want) if isinstance(want, Mapping) else {}
    if isinstance(wanted, Mapping) and "hints" not in wanted and not any(hints):
        shown.pop("hints", None)
    return shown


def _is_dedicated(request: ResourceRequest) -> bool:
    return request.level is QosLevel.DEDICATED


def _request(asked: Mapping[str, Any]) -> ResourceRequest:
    hint = asked.get("hint")
    return ResourceRequest(
        "pod",
        asked["resource"],
        {asked["resource"]: float(asked["request"])},
        container="container",
        type=ContainerType[asked.get("type", "MAIN")],
        hint=None if hint is None else Hint(mask_of(hint["nodes"]), hint["preferred"]),
        labels=asked.get("labels") or {},
        annotations=asked.get("annotations") or {},
    )


def _cpu_plugin(case: Case) -> CpuPlugin:
    options = case.get("opts") or {}
    machine = dummy_machine(case["topo"])
    reserved = allocate_in_turn(machine, machine.ids, _RESERVED)
    floor = max(4, len(machine.numa_nodes))
    plugin = CpuPlugin(
        machine,
        PoolDemand(
            reserved=reserved,
            offered_milli=0 if options.get("enableReclaim") else None,
            rules=PoolRules(reclaimed_floor=floor),
        ),
        CpuPluginRules(
            preference=NumaPreference(options.get("preferPolicy", "spreading")),
            defaults=options.get("enhancementDefaults") or {},
            count_key=options.get("numaNumberKey", f"{PREFIX}numa_number"),
            nodes_key=options.get("numaIDsKey", f"{PREFIX}numa_ids"),
        ),
        {int(node): float(cores) for node, cores in (options.get("numaHeadroom") or {}).items()},
    )
    for entry in case.get("podEntries") or ():
        if entry.get("container"):
            plugin.holders[entry["pod"], entry["container"]] = _holder(entry)
    return plugin


def _holder(entry: Mapping[str, Any]) -> HolderSpec:
    annotations = entry.get("annotations") or {}
    kind = _LEVEL_KINDS[entry.get("qos") or annotations.get(QOS_LEVEL, "shared_cores")]
    bound = is_bound(annotations) and kind is not HolderKind.DEDICATED
    return HolderSpec(
        f"{entry['pod']}/{entry['container']}",
        kind,
        int(entry["request"] * 1000),
        cpus=parse_cpu_list(entry["cpus"]) if kind is HolderKind.DEDICATED else frozenset(),
        nodes=frozenset(map(int, entry["perNuma"])) if bound else frozenset(),
    )


def _memory_plugin(case: Case) -> MemoryPlugin:
    options = case.get("opts") or {}
    nodes = [MemoryNode(node, node * 2 // _NODES, _NODE_BYTES, _NODE_RESERVED) for node in range(_NODES)]
    headroom = {int(node): float(amount) for node, amount in (options.get("numaHeadroom") or {}).items()}
    return MemoryPlugin(nodes, options.get("enhancementDefaults") or {}, headroom)


def _nic_plugin(case: Case) -> NicPlugin:
    return NicPlugin(_NICS[case["nics"]], frozenset(range(4)), net_classes=_NET_CLASSES)


def dummy_machine(size: Sequence[int]) -> CpuMachine:
    """Two threads of a core, half a machine apart; a cache for each NUMA node."""
    cpus, sockets, nodes = size
    cores = cpus // 2
    place: Callable[[int, int], int] = lambda cpu, units: cpu % cores * units // cores  # noqa: E731
    return CpuMachine(
        tuple(
            Cpu(cpu, cpu % cores, place(cpu, nodes), place(cpu, nodes), place(cpu, sockets))
            for cpu in range(bounded(cpus))
        )
    )


_ADVISED = differs("pools-by-offers")
ADAPTORS: Mapping[str, Adaptor] = {
    "katalyst.cpu.hints": cpu_hints,
    "katalyst.cpu.allocate": cpu_allocation,
    "katalyst.memory.hints": memory_hints,
    "katalyst.memory.allocate": memory_allocation,
    "katalyst.network.hints": network_hints,
    "katalyst.network.allocate": network_allocation,
    "katalyst.poolName": pool,
    "katalyst.oomPriority": differs("oom-score-by-tier"),
    "katalyst.cpuHeadroomCanonical": _ADVISED,
    "katalyst.cpuHeadroomAssembler": _ADVISED,
    "katalyst.memoryHeadroomCanonical": _ADVISED,
    "katalyst.memoryHeadroomNUMAAware": _ADVISED,
    "katalyst.provisionRama": _ADVISED,
    "katalyst.provisionDynamicQuota": _ADVISED,
    "katalyst.provisionCanonical": _ADVISED,
}
