"""What an operator may set: SLACKWATER_AGENT_<NAME>, e.g. SLACKWATER_AGENT_REPORT_SECONDS=2."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.agent.adapters.host_settings import HostApplications
from slackwater.agent.domain.simulated_faults import FleetFault


class AgentSettings(BaseSettings):
    """One agent. Defaults are for one machine with about a hundred pods."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_AGENT_", frozen=True)

    driver: Literal["linux", "kubernetes", "simulated"] = "linux"
    """The machine it runs on with commands of `slackwater exec`, or with the pods of a kubelet; or a fleet of `nodes`
    simulated ones."""
    nodes: int = Field(default=20, ge=1, le=5000)
    faults: tuple[FleetFault, ...] = ()
    """Driver simulated: JSON list of what goes wrong on every fifth node, for descheduling to find: `restarts`,
    `not-ready`, `failed`, `tainted`, `misplaced`. One of five nodes is then empty."""
    load: Literal["tide", "day"] = "tide"
    """Driver simulated: `tide`, a surge of every node each 18 s; `day`, a fleet that lends: days of 15 minutes, which
    `slackwater up` without --demo takes."""
    node: str | None = None
    """The node's name in the fleet; the machine's host name if not set."""
    pool: str = "default"
    instance: str | None = None
    """Names the cgroups `slackwater-<instance>`; the state directory's own id if not set."""
    labels: dict[str, str] = Field(default_factory=dict)
    """JSON; what selectors of policies see of the node. `slackwater.io/cpu-reclaim-ratio` and others say something of
    its offers themselves (docs/how-to/set-a-colocation-strategy.md)."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """JSON; `slackwater.io/colocation-strategy` holds fields of a ColocationStrategy for this node alone."""
    reserved_cpu: str = "0"
    """CPU that no tier may count on, like `500m`."""
    reserved_memory: str = "0"
    """Memory that no tier may count on, like `1Gi`."""
    exclusive_cpus: bool = True
    """Driver linux: whether pods of QoS class LSE and LSR get CPUs of their own, which no other pod runs on."""
    system_cpus: str = ""
    """Driver linux: CPUs like `0-1` that only pods of QoS class SYSTEM get while any pod has CPUs of its own."""
    resource_plugins_dir: Path | None = None
    """Driver linux: a directory in which resource plugins (`resourceplugin.v1alpha1`) of other processes register, like
    `/var/lib/kubelet/resource-plugins` (docs/how-to/write-a-resource-plugin.md). Not set: none. It costs 15 MB."""
    pod_resources_socket: Path | None = None
    """Driver linux: a unix socket at which pod-resources v1 is served (`List`, `Get`, `GetAllocatableResources`), as a
    kubelet does at `/var/lib/kubelet/pod-resources/kubelet.sock`. Not set: not served. It costs 15 MB."""
    memory_bytes: int | None = Field(default=None, ge=64 << 20)
    """Hard memory limit of all pods together, for a machine that is shared with other software. The node is described
    with this capacity, and its memory usage is that of its pods. Not set: the whole machine."""
    host_applications: HostApplications = ()
    """JSON list; programs of the machine outside of pods that are measured and counted apart: name, cgroup (below the
    mount point of the hierarchy), and tier or qos (neither: prod). See docs/how-to/count-host-applications.md."""
    workloads_dir: Path | None = None
    """Driver linux: a folder of files `<name>.yaml` that each describe a workload that may be started on this machine
    (docs/how-to/move-workloads.md). Not set: nothing is started. Commands of its files run as the agent's user, so only
    that user may write to it."""
    kubeconfig: Path | None = None
    """Driver kubernetes: how to reach the API server; not set: with the service account of the agent's own pod."""
    cgroup_root: str = ""
    """Driver kubernetes: the kubelet's --cgroup-root, like `/kubelet`; empty: the root of the trees."""
    leave_on_stop: bool = False
    """Whether the node leaves with its agent: after an orderly stop it counts as lost at once, and not only when it
    has been silent for SLACKWATER_INGESTION_LOST_SECONDS. Off, so that an agent can be upgraded unnoticed; on for
    machines that are taken away with their agent. Simulated machines always leave."""
    pod_uid: str | None = None
    """Driver kubernetes: the pod that the agent runs in, which planners then leave alone (the downward API's
    metadata.uid)."""
    limit_borrowed_cpu: bool = True
    """Driver kubernetes: whether pods that borrow CPU may use no more than they have borrowed. Off: their weight alone
    bounds them. Borrowed memory always limits."""
    sample_seconds: float = Field(default=1.0, ge=0.05, le=60)
    report_seconds: float = Field(default=5.0, ge=0.05, le=300)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Where /metrics and /livez are served; not set: nowhere. Anything but loopback needs a token or TLS."""
    metrics_token: SecretStr | None = None
    metrics_tokens_file: Path | None = None
    """Several tokens with names and roles, as for the services; viewer is enough."""
    metrics_tls_certificate: Path | None = None
    metrics_tls_key: Path | None = None
    metrics_tls_client_ca: Path | None = None
    """If given, a scraper must present a certificate that one of these authorities signed (mTLS)."""
    trace_seconds: float = Field(default=60.0, ge=0)
    """One report per so many seconds begins a trace that is exported (where an endpoint is set); 0 = every one."""
    urgent_trace_seconds: float = Field(default=5.0, ge=0)
    """The same for reports that a crossed waterline sent."""
    buffered_reports: int = Field(default=24, ge=1, le=1000)
    """Reports kept while the bus is away; the oldest are dropped and counted."""
    record_burst_bytes: int = Field(default=32_768, ge=0)
    """Records of decisions that may be published at once after a calm time: those of disconnected mode, and as many of
    CPUs of pods."""
    record_bytes_per_hour: int = Field(default=1_000, ge=0)
    """What is refilled per hour. Beyond it decisions are listed in a later record; evictions always have one."""
