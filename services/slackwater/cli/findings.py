"""Evaluates what `slackwater doctor` read: pure functions from a snapshot of a machine to findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from slackwater.model.limited_resource import FillLevel, LimitedResource

LEAST_DOCKER_ENGINE = 26
LEAST_PYTHON = (3, 11)
EARLIEST = 2025
"""The software is newer than this year, so an earlier clock is not set."""
MOST_ITEMS_NAMED = 5
"""Quarantined items with a line of their own."""


class Level(StrEnum):
    """`warn`: works with restrictions. `fail`: does not work, or needs an operator."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the check, what it saw, and the remedy (empty if none is needed)."""

    check: str
    level: Level
    seen: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """The instance of the state directory. `holder` is the pid that has its lock, None when nothing runs there."""

    holder: int | None = None
    url: str | None = None
    trouble: str = ""
    """Why the instance did not answer; empty if it did, or if none runs."""
    rpc_address: str | None = None
    """HOST:PORT of gRPC, None when it is off."""
    failed_checks: Sequence[str] = ()
    """Lines of /readyz that report a failure."""
    warnings: Sequence[str] = ()
    """Lines of /readyz that report a warning."""
    asks_for_token: bool | None = None
    """Whether the instance refuses a caller without a token; None if unknown."""
    refused_token: str | None = None
    """The option or variable of this shell whose token the instance refuses."""
    shards: Mapping[str, Mapping[str, int]] | None = None
    """Number of partitions by service and replica; the replica `` stands for unowned ones. None if unknown."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """The reason of each blocked agent, by node."""
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """What each quarantined item is and why it failed, by id."""


@dataclass(frozen=True, slots=True)
class MachineSnapshot:
    """Everything that doctor evaluates, read once. None: the machine does not have it."""

    python: tuple[int, int, int]
    system: str
    kernel: str
    cgroup_version: str
    why_unwritable: str | None
    psi_global: bool
    psi_per_cgroup: bool
    cpu_idle: bool
    """Whether cgroups can be scheduled as idle."""
    lowers_oom_scores: bool
    """Whether this process may lower OOM scores."""
    cpus: int | None
    not_placed: str
    """Why pods of this machine get no CPUs of their own; empty where they can."""
    now: datetime
    clock_source: str | None
    postgres: str | None
    nats: str | None
    servers_trouble: Mapping[str, str]
    """Why a server is missing, by `postgres` and `nats`."""
    state_dir: str
    instance_id: str | None
    disk: LimitedResource | None
    """The disk of the state directory."""
    state_writable: bool
    instance: Instance
    cgroups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Directories named slackwater-<id>, by id."""
    live_cgroups: frozenset[str] = frozenset()
    """The ids whose cgroups contain processes."""
    docker: str | None = None
    """Version of the Docker Engine that answers here; None without one."""
    asks_for_token: bool = False
    """Whether the settings here name a token or a file of tokens."""
    access_trouble: Sequence[str] = ()
    """Problems of the access settings: files that other accounts can read, incomplete TLS pairs …"""
    journal_claims: int = 0
    """Number of files that the agent's journal records as changed."""


def examine(seen: MachineSnapshot) -> list[Finding]:
    """All findings, from the hardware up."""
    return [finding for look in _LOOKS for finding in look(seen)]


def exit_needed(findings: Sequence[Finding]) -> bool:
    """Whether anything failed; warnings alone do not change the exit status."""
    return any(finding.level is Level.FAIL for finding in findings)


def _python(seen: MachineSnapshot) -> Sequence[Finding]:
    text = ".".join(map(str, seen.python))
    if seen.python < LEAST_PYTHON:
        return [Finding("python", Level.FAIL, text, "install Python 3.11 or newer")]
    return [Finding("python", Level.OK, text)]


def _kernel(seen: MachineSnapshot) -> Sequence[Finding]:
    text = f"{seen.system} {seen.kernel}"
    if seen.system != "Linux":
        return [Finding("kernel", Level.WARN, text, "only the simulated driver works here; run on Linux for real work")]
    return [Finding("kernel", Level.OK, text)]


def _cgroups(seen: MachineSnapshot) -> Sequence[Finding]:
    if seen.why_unwritable is None:
        return [Finding("cgroups", Level.OK, f"{seen.cgroup_version}, writable")]
    reason, _, remedy = seen.why_unwritable.partition("; ")
    return [Finding("cgroups", Level.WARN, reason, f"{remedy}; until then the simulated driver is used")]


def _pressure(seen: MachineSnapshot) -> Sequence[Finding]:
    if not seen.psi_global:
        advice = "boot with psi=1 (kernel 4.20 or newer): waterlines then measure waiting, not only usage"
        return [Finding("pressure", Level.WARN, "no pressure stall information (PSI)", advice)]
    if not seen.psi_per_cgroup:
        advice = "mount cgroup v2 (also beside v1) and boot without cgroup_disable=pressure to see it per pod"
        return [Finding("pressure", Level.WARN, "PSI for the whole machine only", advice)]
    return [Finding("pressure", Level.OK, "PSI for the machine and per cgroup")]


def _idle(seen: MachineSnapshot) -> Sequence[Finding]:
    if not seen.cpu_idle:
        advice = (
            "Linux 5.15 or newer has cpu.idle; until then batch has the smallest weight, and prod may wait for a tick"
        )
        return [Finding("idle batch", Level.WARN, "no group can be scheduled as idle", advice)]
    return [Finding("idle batch", Level.OK, "batch and free can be scheduled as idle (cpu.idle)")]


def _oom_scores(seen: MachineSnapshot) -> Sequence[Finding]:
    if not seen.lowers_oom_scores:
        advice = (
            "give the process that starts prod CAP_SYS_RESOURCE (docker run --cap-add SYS_RESOURCE); until then its OOM"
            " score stays at 0, and batch still goes first with a raised one"
        )
        return [Finding("oom scores", Level.WARN, "prod's OOM score cannot be lowered", advice)]
    return [Finding("oom scores", Level.OK, "prod's OOM score can be lowered")]


def _cpus(seen: MachineSnapshot) -> Sequence[Finding]:
    if not seen.cpus:
        return [Finding("cpus", Level.WARN, "unknown", "make /sys readable for this user")]
    if seen.cpus == 1:
        advice = "prod and batch always compete for it; use two or more CPUs to see the effect of the loop"
        return [Finding("cpus", Level.WARN, "1 online", advice)]
    return [Finding("cpus", Level.OK, f"{seen.cpus} online")]


def _cpusets(seen: MachineSnapshot) -> Sequence[Finding]:
    """The way that CPUs of a pod take to the kernel."""
    if seen.not_placed:
        advice = "until then LSE and LSR pods run beside the others (docs/how-to/give-a-service-its-own-cpus.md)"
        return [Finding("cpusets", Level.WARN, seen.not_placed, advice)]
    text = "launch (`slackwater exec` writes them before the command starts) and reconcile (the agent, every 3 s)"
    return [Finding("cpusets", Level.OK, text)]


def _clock(seen: MachineSnapshot) -> Sequence[Finding]:
    text = f"{seen.now:%Y-%m-%d %H:%M:%SZ}" + (f", source {seen.clock_source}" if seen.clock_source else "")
    if seen.now.year < EARLIEST:
        return [Finding("clock", Level.FAIL, text, "set the clock (NTP): reports with wrong times are refused")]
    if seen.clock_source in {"jiffies", "refined-jiffies"}:
        return [Finding("clock", Level.WARN, text, "the clock is coarse: short delays are measured inaccurately")]
    return [Finding("clock", Level.OK, text)]


def _servers(seen: MachineSnapshot) -> Sequence[Finding]:
    findings = []
    for name, path in (("postgres", seen.postgres), ("nats", seen.nats)):
        if path is not None:
            findings.append(Finding(name, Level.OK, path))
        else:
            why = seen.servers_trouble.get(name, "not found")
            advice = (
                "pip install 'slackwater[embedded]' (in a checkout: make run),"
                " or use `slackwater run` with shared servers"
            )
            findings.append(Finding(name, Level.FAIL, why, advice))
    return findings


def _docker(seen: MachineSnapshot) -> Sequence[Finding]:
    """Empty without Docker, because only the compose file needs it."""
    if seen.docker is None:
        return []
    text = f"Docker Engine {seen.docker}"
    major = seen.docker.partition(".")[0]
    if major.isdigit() and int(major) < LEAST_DOCKER_ENGINE:
        advice = (
            f"docker-compose.yml mounts folders of a volume (subpath): it needs Engine {LEAST_DOCKER_ENGINE} or newer"
        )
        return [Finding("docker", Level.WARN, text, advice)]
    return [Finding("docker", Level.OK, text)]


def _state(seen: MachineSnapshot) -> Sequence[Finding]:
    if not seen.state_writable:
        advice = "run as its owner, or set SLACKWATER_STATE_DIR to a directory you own"
        return [Finding("state", Level.FAIL, f"{seen.state_dir} is not writable", advice)]
    findings = [Finding("state", Level.OK, seen.state_dir)]
    if seen.disk is not None:
        text = f"{(seen.disk.limit - seen.disk.used) / 2**30:.1f} GiB free"
        if seen.disk.level is FillLevel.FULL:
            findings.append(Finding("disk", Level.FAIL, text, f"free space below {seen.state_dir}: writes fail soon"))
        elif seen.disk.level is FillLevel.NEARLY_FULL:
            findings.append(Finding("disk", Level.WARN, text, "free some space, or move SLACKWATER_STATE_DIR"))
        else:
            findings.append(Finding("disk", Level.OK, text))
    return findings


def _instance(seen: MachineSnapshot) -> Sequence[Finding]:
    instance = seen.instance
    if instance.holder is None:
        if instance.trouble:
            return [Finding("instance", Level.FAIL, instance.trouble, "run doctor as the owner of the state directory")]
        return [Finding("instance", Level.OK, "no instance runs here")]
    where = f"pid {instance.holder}" + (f" on {instance.url}" if instance.url else "")
    where += f", gRPC on {instance.rpc_address}" if instance.rpc_address else ""
    if instance.trouble:
        advice = "wait if it is just starting; else stop it and start it again"
        return [Finding("instance", Level.FAIL, f"{where}: {instance.trouble}", advice)]
    advice = "docs/how-to/runbook.md#slackwaterfull says what happens when it is full"
    warnings = [Finding("instance", Level.WARN, f"{where}: {line}", advice) for line in instance.warnings]
    if instance.failed_checks:
        return warnings + [
            Finding("instance", Level.FAIL, f"{where}: {line}", "see its log; the service retries by itself")
            for line in instance.failed_checks
        ]
    return warnings or [Finding("instance", Level.OK, f"{where}, ready")]


def _shards(seen: MachineSnapshot) -> Sequence[Finding]:
    """Findings about partitions; empty if the instance did not answer."""
    services = seen.instance.shards
    if not services:
        return []
    unowned = {service: owners[""] for service, owners in services.items() if owners.get("")}
    if unowned:
        listed = ", ".join(f"{count} of {service}" for service, count in sorted(unowned.items()))
        advice = "their nodes are not processed: start a replica; `slackwater get shards` shows the last owner"
        return [Finding("shards", Level.WARN, f"partitions without an owner: {listed}", advice)]
    replicas = ", ".join(f"{name} {len(owners)}" for name, owners in sorted(services.items()))
    return [Finding("shards", Level.OK, f"every partition has an owner; replicas: {replicas}")]


def _blocked(seen: MachineSnapshot) -> Sequence[Finding]:
    """Empty while no agent is blocked."""
    advice = "services ignore its messages; after the repair run `slackwater unblock NODE`"
    return [
        Finding("blocked", Level.WARN, f"the agent of {node} is blocked: {reason}", advice)
        for node, reason in sorted(seen.instance.blocked.items())
    ]


def _quarantined(seen: MachineSnapshot) -> Sequence[Finding]:
    """Empty while nothing is in quarantine. Names the oldest items only."""
    items = list(seen.instance.quarantined.items())
    findings = [
        Finding(
            "quarantine",
            Level.FAIL,
            f"{what}; until its release the service leaves it out",
            f"repair the cause, then run `slackwater release {item_id}`; a restart retries it once",
        )
        for item_id, what in items[:MOST_ITEMS_NAMED]
    ]
    if more := len(items) - len(findings):
        findings.append(
            Finding("quarantine", Level.FAIL, f"{more} more items", "`slackwater get quarantine` shows all")
        )
    return findings


def _access(seen: MachineSnapshot) -> Sequence[Finding]:
    findings = [Finding("access", Level.FAIL, trouble, "see docs/how-to/secure.md") for trouble in seen.access_trouble]
    if origin := seen.instance.refused_token:
        text = f"the instance here refuses the token of {origin}: it is mistyped, was revoked, or is another instance's"
        advice = (
            f"give another one; an instance with a token of its own (SLACKWATER_HTTP_TOKEN) needs none here: leave"
            f" {origin} out"
        )
        findings.append(Finding("access", Level.FAIL, text, advice))
    asks = seen.instance.asks_for_token
    if seen.asks_for_token if asks is None else asks:
        findings.append(Finding("access", Level.OK, "callers of the API need a token"))
    else:
        text = "no token is set: every user of this machine is admin on loopback (docs/how-to/secure.md)"
        findings.append(Finding("access", Level.OK, text))
    return findings


def _leftovers(seen: MachineSnapshot) -> Sequence[Finding]:
    running = seen.instance_id if seen.instance.holder is not None else None
    findings = [
        _leftover(seen, owner, paths) for owner, paths in sorted(seen.cgroups.items()) if paths and owner != running
    ]
    return findings or [Finding("leftovers", Level.OK, "no cgroups of instances that do not run")]


def _leftover(seen: MachineSnapshot, owner: str, paths: Sequence[str]) -> Finding:
    listed = ", ".join(paths)
    if owner == seen.instance_id:
        if owner in seen.live_cgroups:
            advice = "commands of `slackwater exec` still run there: wait, or start the instance to manage them"
            return Finding("leftovers", Level.WARN, f"of this instance, with processes: {listed}", advice)
        advice = "start and stop `slackwater up` once: it removes them"
        return Finding("leftovers", Level.FAIL, f"of this instance, which does not run: {listed}", advice)
    advice = "may belong to another checkout or user: run its `slackwater doctor` before removing anything"
    what = "with processes" if owner in seen.live_cgroups else "empty"
    return Finding("leftovers", Level.WARN, f"of another instance, {what}: {listed}", advice)


def _journal(seen: MachineSnapshot) -> Sequence[Finding]:
    if seen.journal_claims == 0 or seen.instance.holder is not None:
        return [Finding("journal", Level.OK, _claims(seen.journal_claims))]
    advice = "the last agent was killed before it restored them: start and stop `slackwater up` once"
    return [Finding("journal", Level.FAIL, f"stale: {_claims(seen.journal_claims)}", advice)]


def _claims(count: int) -> str:
    return (
        f"{count} {'file holds' if count == 1 else 'files hold'} values that the agent wrote"
        if count
        else "nothing to restore"
    )


_LOOKS: Sequence[Callable[[MachineSnapshot], Sequence[Finding]]] = (
    *(_python, _kernel, _cgroups, _pressure, _idle, _oom_scores, _cpus, _cpusets, _clock),
    *(_servers, _docker, _state, _instance, _shards, _blocked, _quarantined, _access, _leftovers, _journal),
)
