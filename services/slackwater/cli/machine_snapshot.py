"""Reads the state of the machine for `slackwater doctor`. Read-only."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from slackwater.agent.adapters.journal_file import claims_in
from slackwater.agent.adapters.linux.cpu_placement import why_not_placed
from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.machine import online_cpus
from slackwater.bus.connect.access import NatsAccess
from slackwater.cli.credentials import credentials, token_origin
from slackwater.cli.findings import Instance, MachineSnapshot
from slackwater.client.bounded_answers import bounded
from slackwater.client.connection import tls_context
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.runtime.authentication import Authenticator
from slackwater.runtime.certificates import ServerTls
from slackwater.runtime.embedded_nats import find_nats_server
from slackwater.runtime.embedded_postgres import installed_binaries
from slackwater.runtime.process_limits import disk_of
from slackwater.runtime.service_list import service_names
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.state import Endpoint, StateDir

ASK_SECONDS = 5.0
_IDLE_SINCE = (5, 15)
_PREFIX = "slackwater-"
_SYS_RESOURCE = 24
"""Number of CAP_SYS_RESOURCE (linux/capability.h)."""
_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def snapshot(state_dir: Path) -> MachineSnapshot:
    """A snapshot of the machine and of the state directory."""
    hierarchy = find_hierarchy()
    binaries, trouble = _binaries()
    cgroups = cgroups_of_ours(hierarchy)
    return MachineSnapshot(
        python=sys.version_info[:3],
        system=platform.system(),
        kernel=platform.release(),
        cgroup_version=hierarchy.version,
        why_unwritable=hierarchy.why_unwritable(),
        psi_global=_readable(Path("/proc/pressure/cpu")),
        psi_per_cgroup=_has_pressure(hierarchy),
        cpu_idle=has_idle(hierarchy),
        lowers_oom_scores=_has_capability(_SYS_RESOURCE),
        cpus=_cpus(),
        not_placed=why_not_placed(hierarchy),
        now=datetime.now(UTC),
        clock_source=_text(_CLOCK_SOURCE),
        postgres=binaries.get("postgres"),
        nats=binaries.get("nats"),
        servers_trouble=trouble,
        state_dir=str(state_dir),
        instance_id=_text(state_dir / "instance-id"),
        disk=disk_of("state", state_dir),
        state_writable=os.access(_existing(state_dir), os.W_OK | os.X_OK),
        instance=_instance(StateDir(state_dir)),
        cgroups=cgroups,
        live_cgroups=frozenset(owner for owner, paths in cgroups.items() if _has_processes(paths)),
        docker=_docker_engine(),
        asks_for_token=HttpSettings().asks_for_token,
        access_trouble=access_trouble(HttpSettings(), NatsAccess(), os.environ.get("SLACKWATER_NATS_URL", "")),
        journal_claims=claims_in(state_dir / "agent" / "journal"),
    )


def access_trouble(http: HttpSettings, nats: NatsAccess, nats_url: str) -> Sequence[str]:
    """The problems that would stop a process with these settings at its start. Opens no connection."""
    problems = []

    def attempt(look: Callable[[], object]) -> None:
        try:
            look()
        except Misconfigured as error:
            problems.append(error.message)

    attempt(http.refuse_if_open_to_all)
    attempt(lambda: Authenticator(http))
    if http.wants_tls:
        attempt(lambda: ServerTls(http))
    if nats_url:
        attempt(lambda: nats.options(nats_url))
    return problems


def cgroups_of_ours(hierarchy: Hierarchy) -> Mapping[str, Sequence[str]]:
    """The directories `slackwater-<id>` in every hierarchy, by id."""
    paths_by_id: dict[str, list[str]] = {}
    for tree in hierarchy.trees():
        for path in sorted(tree.glob(f"{_PREFIX}*/")):
            paths_by_id.setdefault(path.name.removeprefix(_PREFIX), []).append(str(path))
    return paths_by_id


def _binaries() -> tuple[Mapping[str, str], Mapping[str, str]]:
    binaries, trouble = {}, {}
    try:
        server = installed_binaries() / "postgres"
        if server.is_file():
            binaries["postgres"] = str(server)
        else:
            trouble["postgres"] = f"{server} is missing"
    except Misconfigured as error:
        trouble["postgres"] = error.message
    try:
        binaries["nats"] = str(find_nats_server())
    except Misconfigured as error:
        trouble["nats"] = error.message
    return binaries, trouble


def _docker_engine() -> str | None:
    """The server's version from `docker version`; None without a docker command or a server that answers."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    command = [docker, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _instance(state: StateDir) -> Instance:
    try:
        holder = state.holder()
        if holder is None:
            return Instance()
        endpoint = state.running_endpoint()
    except Misconfigured as error:
        return Instance(trouble=error.message)
    except NotFound as error:
        return Instance(holder, trouble=error.message)
    return _asked(holder, endpoint)


def _asked(holder: int, endpoint: Endpoint) -> Instance:
    headers = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    try:
        answer = _get(f"{endpoint.http_url}/readyz", headers)
    except httpx2.HTTPError as error:
        return Instance(holder, endpoint.http_url, trouble=f"no answer ({type(error).__name__})")
    if answer.status_code == 200:
        shards = _shards(endpoint.http_url, headers)
        return Instance(
            holder,
            endpoint.http_url,
            rpc_address=endpoint.rpc_address,
            shards=shards,
            asks_for_token=_asks_for_token(endpoint.http_url),
            refused_token=_refused_token(endpoint.http_url),
            blocked=_blocked(endpoint.http_url, headers),
            quarantined=_quarantined(endpoint.http_url, headers),
            warnings=_lines(answer.text, "[!]"),
        )
    failed = _lines(answer.text, "[-]") or [f"HTTP {answer.status_code}"]
    return Instance(holder, endpoint.http_url, failed_checks=failed, warnings=_lines(answer.text, "[!]"))


def _lines(readyz: str, mark: str) -> Sequence[str]:
    return [line.removeprefix(mark) for line in readyz.splitlines() if line.startswith(mark)]


def _get(url: str, headers: Mapping[str, str]) -> httpx2.Response:
    verify = True if url.startswith("https:") else tls_context(url)
    hooks: Any = {"response": [bounded]}
    with httpx2.Client(timeout=ASK_SECONDS, trust_env=False, verify=verify, event_hooks=hooks) as client:
        return client.get(url, headers=headers)


def _refused_token(url: str) -> str | None:
    """The option or variable with a token that the instance refuses; None if there is none or it is accepted."""
    origin = token_origin()
    if origin is None:
        return None
    headers = {"Authorization": f"Bearer {credentials().token()}"}
    try:
        answer = _get(f"{url}/v1/nodes?limit=1", headers)
    except httpx2.HTTPError:
        return None
    return origin if answer.status_code == 401 else None


def _asks_for_token(url: str) -> bool | None:
    """Whether the instance refuses a caller without a token. Asked, because its settings may differ from this
    shell's.
    """
    try:
        answer = _get(f"{url}/v1/nodes?limit=1", {})
    except httpx2.HTTPError:
        return None
    return answer.status_code == 401


def _shards(url: str, headers: Mapping[str, str]) -> Mapping[str, Mapping[str, int]] | None:
    """Partitions by service and replica; None without a console, or before the first reports."""
    try:
        answer = _get(f"{url}/v1/shards", headers)
        items = answer.json()["items"] if answer.status_code == 200 else []
    except (httpx2.HTTPError, ValueError, KeyError):
        return None
    counts: dict[str, dict[str, int]] = {}
    for item in items:
        owners = counts.setdefault(item["service"], {})
        owner = (item["owner"] or "").partition("/")[0]
        owners[owner] = owners.get(owner, 0) + 1
    return counts or None


def _blocked(url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """The blocked agents; empty if no ingestion answers."""
    try:
        answer = _get(f"{url}/v1/blocks", headers)
        items = answer.json()["items"] if answer.status_code == 200 else []
        return {str(item["node"]): str(item["reason"]) for item in items}
    except (httpx2.HTTPError, ValueError, KeyError):
        return {}


def _quarantined(url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """The quarantined items of the services that answer, by id, the oldest of each service first."""
    items: dict[str, str] = {}
    for service in service_names():
        try:
            answer = _get(f"{url}/v1/quarantine/{service}", headers)
            rows = answer.json()["items"] if answer.status_code == 200 else []
            items |= {str(row["id"]): f"{service}: {row['table']}/{row['row']} failed: {row['detail']}" for row in rows}
        except (httpx2.HTTPError, ValueError, KeyError):
            continue
    return items


def _has_pressure(hierarchy: Hierarchy) -> bool:
    """Whether a cgroup has a pressure file. Any child is enough, because the root of a v2 hierarchy has none on some
    kernels.
    """
    tree = hierarchy.unified
    return tree is not None and any(_readable(file) for file in (tree / "cpu.pressure", *tree.glob("*/cpu.pressure")))


def _has_capability(number: int) -> bool:
    """Whether the capability is in the effective set of this process (man 5 proc)."""
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", _text(Path("/proc/self/status")) or "", re.MULTILINE)
    return effective is not None and bool(int(effective[1], 16) >> number & 1)


def has_idle(hierarchy: Hierarchy) -> bool:
    """Whether cgroups have cpu.idle. The root of a v2 hierarchy has no such file; a child with the cpu controller has.
    If no child has that controller yet, the kernel's version decides.
    """
    tree = hierarchy.cpu
    if tree is None:
        return False
    weighed = (
        [tree, *tree.glob("*/")]
        if not hierarchy.pure_v2
        else [weight_file.parent for weight_file in tree.glob("*/cpu.weight")]
    )
    if not weighed:
        return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2]) >= _IDLE_SINCE
    return any((group / "cpu.idle").exists() for group in weighed)


def _has_processes(paths: Sequence[str]) -> bool:
    return any(_text(file) for path in paths for file in Path(path).glob("**/cgroup.procs"))


def _cpus() -> int | None:
    try:
        return len(online_cpus())
    except (OSError, ValueError):
        return os.cpu_count()


def _existing(path: Path) -> Path:
    """The path, or its nearest existing parent, where it would be created."""
    return next(place for place in (path, *path.parents) if place.exists())


def _readable(file: Path) -> bool:
    """Whether a read succeeds: a kernel booted with psi=0 lists the file and refuses to read it."""
    return _text(file) is not None


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None
