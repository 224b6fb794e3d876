"""Suites of the manager, its checkpoint and its endpoints in qrm.json."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, not_covered

from slackwater.agent.domain.resource_manager.checkpoint import checkpoint_text, checksum, entries_of
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint, node_resources
from slackwater.agent.domain.resource_manager.manager import ResourceManager, drive
from slackwater.agent.domain.resource_manager.messages import (
    QOS_LEVEL,
    AllocatableResource,
    Allocation,
    PluginCall,
    PluginFailure,
    PluginOptions,
    Rpc,
)
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec, is_reconciled, mapped_name
from slackwater.agent.domain.resource_manager.run_options import run_options
from slackwater.kernels.topology.hints import Hint, mask_of, nodes_of
from slackwater.model.errors import SlackwaterError

_RESOURCE = "domain1.com/resource1"
_NAMES = {"test/cpu": "cpu", "test/memory": "memory"}
_KEY = ("pod", "container")


def pod_resources(case: Case) -> Verdict:
    """Before and after the way through a checkpoint."""
    inserted = {part["resource"]: _inserted(part) for part in case["insert"]}
    restored = entries_of(checkpoint_text({_KEY: inserted}))[_KEY]
    got: list[Any] = []
    for allocated in (inserted, restored):
        try:
            options = run_options(allocated)
            run = {"resources": options.resources, "envs": options.envs, "annotations": options.annotations}
        except SlackwaterError:
            run = None
        scalars = {name: one.quantity for name, one in allocated.items() if one.is_scalar}
        got.append([scalars, sorted(allocated), run])
    want = [case["expectScalar"], sorted(case["expectResources"]), case["expectRunOptions"]]
    return compare(got, [want, want])


def _inserted(part: Mapping[str, Any]) -> Allocation:
    return Allocation(
        part["oci"],
        part["quantity"],
        part["result"],
        part["node"],
        part["scalar"],
        part.get("envs") or {},
        part.get("annotations") or {},
    )


def container_type(case: Case) -> Verdict:
    pod = _pod(case)
    type_, index = pod.place_of(case["container"])
    return compare([type_.name, index], case["expect"])


def _pod(case: Case) -> PodSpec:
    init, app = (tuple(map(ContainerSpec, case.get(name) or ())) for name in ("init", "app"))
    return PodSpec("pod", containers=app, init_containers=init, annotations=case.get("annotations") or {})


def skipped_container(case: Case) -> Verdict:
    return compare(not is_reconciled(_pod(case), case["container"] or ""), case["expect"])


def mapped(case: Case) -> Verdict:
    try:
        got = mapped_name(case["resource"], set(case["requested"]), _NAMES)
    except SlackwaterError:
        got = None
    return compare(got, case["expect"])


def checkpoint(case: Case) -> Verdict:
    rows = json.loads(case["file"])["Data"]["PodResourceEntries"]
    try:
        entries: Any = sum(len(allocated) for allocated in entries_of(case["file"]).values())
    except SlackwaterError:
        entries = None
    return compare([checksum(rows), entries], [case["expectChecksum"], case["expectEntries"]])


def encoding(case: Case) -> Verdict:
    """What the peer loses with its bytes in a text, and what this checkpoint keeps."""
    quantity = case["quantity"]
    packed = struct.pack("<d", quantity)
    try:
        survives = packed.decode() is not None
    except UnicodeDecodeError:
        survives = False
    kept = entries_of(checkpoint_text({_KEY: {"cpu": Allocation("CpusetCpus", quantity, "0")}}))[_KEY]["cpu"]
    want = [case["fixed64"], case["survivesJSONString"], quantity]
    return compare([packed.hex(), survives, kept.quantity], want)


@dataclass
class _MockPlugin:
    """Allocates what is asked for, as the mocks of the peer's tests do; or fails."""

    fails: bool = False
    reports: float | None = None
    hints: Any = None
    held: dict[tuple[str, str], Allocation] = field(default_factory=dict)

    def answer(self, call: PluginCall) -> Any:
        if self.fails:
            return PluginFailure("mock error")
        match call.rpc:
            case Rpc.ALLOCATE:
                amount = call.request.amount
                allocation = Allocation("CpusetCpus", amount, "0" if amount <= 1 else f"0-{amount - 1:g}")
                self.held[call.request.pod_uid, call.request.container] = allocation
                return {call.resource: allocation}
            case Rpc.ALLOCATIONS if self.reports is not None:
                return {key: {call.resource: Allocation("CpusetCpus", self.reports, "0")} for key in self.held}
            case Rpc.ALLOCATIONS:
                return {key: {call.resource: one} for key, one in self.held.items()}
            case Rpc.HINTS:
                return {call.resource: self.hints}
            case _:
                return None


def scenario(case: Case) -> Verdict:
    given, want = case["given"], case["expect"]
    plugin = _MockPlugin(fails=given.get("plugin") == "error", reports=given.get("reconcileReports"))
    options = PluginOptions(need_reconcile=True)
    stopped_at = 0.0 if given.get("plugin") in ("stopped", "dead") else None
    manager = ResourceManager(endpoints={_RESOURCE: PluginEndpoint(_RESOURCE, options, stopped_at=stopped_at)})
    request, file, got = float(given["request"]), "", dict[str, Any]()
    for step in case["when"]:
        annotations = {QOS_LEVEL: given["qos"]} if given.get("qos") else {}
        pod = PodSpec(
            *("pod",) * 2, containers=[ContainerSpec("container", {_RESOURCE: request})], annotations=annotations
        )
        if step == "allocate":
            got["error"] = not drive(manager.admit(pod), plugin.answer).is_admitted
            file = checkpoint_text(manager.entries)
        elif step == "reconcile":
            changed = drive(manager.reconcile([pod]), plugin.answer).changed
            got["runtimeCalls"] = ["UpdateContainerResources"] * len(changed)
            file = checkpoint_text(manager.entries)
        elif step.startswith("request="):
            request = float(step.partition("=")[2])
        elif step == "remove checkpoint file":
            file = ""
        else:
            return not_covered(f"a step that this adaptor does not know: {step}")
    allocation = manager.entries.get(_KEY, {}).get(_RESOURCE)
    got["allocated"] = allocation and allocation.quantity
    got["result"] = allocation and allocation.result
    got["checkpointExists"] = bool(file)
    return compare({name: got.get(name) for name in want}, want)


def hints(case: Case) -> Verdict:
    plugin = _MockPlugin(hints=None if case.get("pluginHints") is None else [_hint(one) for one in case["pluginHints"]])
    options = PluginOptions(with_topology_alignment=True)
    endpoints = {_RESOURCE: PluginEndpoint(_RESOURCE, options)} if case["plugin"] else {}
    manager = ResourceManager(endpoints=endpoints)
    container = ContainerSpec("container", {_RESOURCE: float(case["request"])})
    pod = PodSpec("pod", containers=[container], owner_kind=case.get("ownerKind", ""))
    got = drive(manager.hints(pod, container), plugin.answer).get(_RESOURCE)
    shown = None if got is None else [{"n": None if one.mask is None else list(nodes_of(one.mask)), "p": one.preferred}
                                      for one in got]  # fmt: skip
    return compare(shown, case["expect"])


def _hint(hint: Mapping[str, Any]) -> Hint:
    return Hint(None if hint["n"] is None else mask_of(hint["n"]), hint["p"])


def capacity(case: Case) -> Verdict:
    now = 1000.0
    states = case.get("endpoints") or dict.fromkeys(case.get("plugin") or {}, "runs")
    since = {"stopped 5m+": now - 301, "runs": None}
    endpoints = {
        name: PluginEndpoint(name, PluginOptions(), stopped_at=since.get(state, now - 1))
        for name, state in states.items()
    }
    reports = {
        name: {name: AllocatableResource(part["allocatable"], part["capacity"], part["node"], part["scalar"])}
        for name, part in (case.get("plugin") or {}).items()
    }
    found = node_resources(endpoints, reports, now)
    checks = {
        "expectAllocatable": dict(found.allocatable),
        "expectCapacity": dict(found.capacity),
        "expectRemoved": list(found.removed),
        "expectNotRemoved": [name for name in states if name not in found.removed],
    }
    return compare(
        {name: checks[name] for name in checks if name in case}, {name: case[name] for name in checks if name in case}
    )


ADAPTORS: Mapping[str, Adaptor] = {
    "qrm.podResources": pod_resources,
    "qrm.containerTypeIndex": container_type,
    "qrm.isSkippedContainer": skipped_container,
    "qrm.mappedResourceName": mapped,
    "qrm.checkpointChecksum": checkpoint,
    "qrm.checkpointEncodingHazard": encoding,
    "qrm.manager": scenario,
    "qrm.topologyHints": hints,
    "qrm.capacity": capacity,
}
