"""Evaluates what `slackwater doctor --kubernetes` read of a cluster: pure functions from a snapshot to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.cli.findings import Finding, Level
from slackwater.model.plurals import counted

LEAST_VERSION = (1, 30)
"""The first with ValidatingAdmissionPolicy v1, which the definitions of the kinds use."""
MOST_LISTED = 5
OTHER_AGENTS: Mapping[str, str] = {
    "koordlet": "Koordinator",
    "crane-agent": "Crane",
    "katalyst-agent": "Katalyst",
    "volcano-agent": "Volcano",
    "rubik": "openEuler Rubik",
}
"""Programs that set cgroups of pods, by the name of their container."""
OTHER_MANAGERS: Mapping[str, str] = {
    "koord-manager": "Koordinator",
    "craned": "Crane",
    "katalyst-controller": "Katalyst",
    "koord-descheduler": "Koordinator",
    "descheduler": "descheduler",
}
"""Programs that write node status or evict pods, by the name of their container."""
MANAGER = "slackwater"
LENT_PREFIXES = ("slackwater.io/", "kubernetes.io/batch-", "kubernetes.io/mid-", "gocrane.io/")
LENT_SUBSTRING = "katalyst.kubewharf.io/"


@dataclass(frozen=True, slots=True)
class OtherProgram:
    """A workload of another product. `everywhere`: no node selector limits it."""

    product: str
    kind: str
    name: str
    pods: int
    everywhere: bool


@dataclass(frozen=True, slots=True)
class LentResource:
    """An extended resource of the field in node status: nodes that have it, and field managers that wrote it."""

    name: str
    nodes: int
    managers: frozenset[str]


@dataclass(frozen=True, slots=True)
class InstalledKind:
    """A custom resource definition of Slackwater. `is_current`: its schema is the one of this version."""

    name: str
    versions: tuple[str, ...]
    is_current: bool


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Everything that is evaluated, read once. None: it could not be read, `unread` says why."""

    url: str
    trouble: str = ""
    """Why the cluster does not answer; empty if it does."""
    version: str = ""
    user: str = ""
    policies: frozenset[str] = frozenset()
    """Admission policy kinds that are served, of `mutating` and `validating`."""
    missing_install_rights: tuple[str, ...] = ()
    missing_service_rights: tuple[str, ...] | None = None
    """Of the account of the service kubernetes; None: it is not installed, or this account may not ask."""
    storage_classes: Mapping[str, bool] | None = None
    """Whether each is the default."""
    kinds: Mapping[str, InstalledKind] | None = None
    known_kinds: tuple[str, ...] = ()
    others: tuple[OtherProgram, ...] = ()
    lent: tuple[LentResource, ...] = ()
    nodes: Mapping[str, str] | None = None
    """The kubelet's version of each."""
    namespace: str = "slackwater"
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The enforced Pod Security Standard of the namespaces of services and agents, of those that exist."""
    agents_namespace: str = "slackwater-node"
    needed_secrets: tuple[str, ...] = ()
    secrets: frozenset[str] | None = None
    """Names of the secrets of the namespace; None: it does not exist, or they may not be listed."""
    profiles: tuple[Finding, ...] = ()
    """What profiles do with the pods of the cluster (slackwater.cli.cluster_profiles)."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why a list could not be read, by check."""


def examine_cluster(seen: ClusterSnapshot) -> list[Finding]:
    """All findings. Where the cluster does not answer, the only one says so."""
    if seen.trouble:
        advice = "name one with --kubeconfig and --context, or set KUBECONFIG"
        return [Finding("cluster", Level.FAIL, seen.trouble, advice)]
    unread = [
        Finding(check, Level.WARN, f"not checked: {why}", "run it as an account that may read this")
        for check, why in seen.unread.items()
    ]
    return [finding for look in _LOOKS for finding in look(seen)] + unread


def _listed(names: Iterable[str]) -> str:
    named = list(names)
    more = len(named) - MOST_LISTED
    return ", ".join(named[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def version_of(text: str) -> tuple[int, int]:
    """Major and minor of `v1.37.2`; (0, 0) for another text."""
    parts = text.removeprefix("v").split(".")
    numbers = ["".join(sign for sign in part if sign.isdecimal()) for part in parts[:2]]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(numbers) else (0, 0)


def _cluster(seen: ClusterSnapshot) -> Sequence[Finding]:
    text = f"Kubernetes {seen.version} at {seen.url}" + (f" as {seen.user}" if seen.user else "")
    if version_of(seen.version) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        return [Finding("cluster", Level.FAIL, text, f"Kubernetes {least} or newer is needed")]
    return [Finding("cluster", Level.OK, text)]


def _nodes(seen: ClusterSnapshot) -> Sequence[Finding]:
    if seen.nodes is None:
        return []
    if not seen.nodes:
        return [Finding("nodes", Level.WARN, "no node", "the services stay Pending until there is one")]
    old = [name for name, text in seen.nodes.items() if (1, 0) <= version_of(text) < LEAST_VERSION]
    if old:
        least = ".".join(map(str, LEAST_VERSION))
        return [Finding("nodes", Level.WARN, f"kubelets older than {least}: {_listed(old)}", "upgrade them first")]
    return [Finding("nodes", Level.OK, f"{len(seen.nodes)}")]


def _admission(seen: ClusterSnapshot) -> Sequence[Finding]:
    if "mutating" in seen.policies:
        return [Finding("admission", Level.OK, "profiles apply as a MutatingAdmissionPolicy")]
    return [Finding("admission", Level.OK, "MutatingAdmissionPolicy v1 is not served: profiles apply as a webhook")]


def _rights(seen: ClusterSnapshot) -> Sequence[Finding]:
    findings = []
    if seen.missing_install_rights:
        text = f"this account may not {_listed(seen.missing_install_rights)}"
        findings.append(
            Finding("rights", Level.FAIL, text, "install as an administrator; docs/reference/rights.md says why")
        )
    else:
        findings.append(Finding("rights", Level.OK, "this account may install everything"))
    if seen.missing_service_rights:
        text = f"the service kubernetes may not {_listed(seen.missing_service_rights)}"
        findings.append(Finding("rights", Level.FAIL, text, "apply the chart or the manifests of this version"))
    elif seen.missing_service_rights is not None:
        findings.append(Finding("rights", Level.OK, "the service kubernetes has its rights"))
    return findings


def _profiles(seen: ClusterSnapshot) -> Sequence[Finding]:
    return seen.profiles


def _storage(seen: ClusterSnapshot) -> Sequence[Finding]:
    if seen.storage_classes is None:
        return []
    default = [name for name, is_default in seen.storage_classes.items() if is_default]
    if not default:
        text = f"no StorageClass is the default; there are: {_listed(seen.storage_classes) or 'none'}"
        advice = (
            "postgres-0, nats-0 and the claim backups stay Pending: mark one as the default, name one as "
            "storageClassName, or use external servers"
        )
        return [Finding("storage", Level.WARN, text, advice)]
    return [Finding("storage", Level.OK, f"default StorageClass {default[0]}")]


def _kinds(seen: ClusterSnapshot) -> Sequence[Finding]:
    if seen.kinds is None:
        return []
    if not seen.kinds:
        return [Finding("kinds", Level.OK, "no custom resource definition of Slackwater yet")]
    found = [name for name in seen.known_kinds if name in seen.kinds]
    missing = [name for name in seen.known_kinds if name not in seen.kinds]
    old = [name for name in found if not seen.kinds[name].is_current]
    if missing or old:
        text = "; ".join(
            part
            for part in (
                f"of another version: {_listed(old)}" if old else "",
                f"missing: {_listed(missing)}" if missing else "",
            )
            if part
        )
        advice = "in a checkout of this version: make crds && kubectl apply --server-side -f .slackwater/crds.yaml"
        return [Finding("kinds", Level.WARN, text, advice)]
    return [Finding("kinds", Level.OK, f"{len(found)} custom resource definitions of this version")]


def _others(seen: ClusterSnapshot) -> Sequence[Finding]:
    findings = []
    for other in seen.others:
        text = f"{other.product}: {other.kind} {other.name} with {counted(other.pods, 'pod')}"
        if other.kind != "DaemonSet":
            advice = "two programs must not write the same node status or evict the same pods: stop it, or leave it out"
            findings.append(Finding("writers", Level.WARN, text, advice))
            continue
        advice = (
            "two agents must not write the cgroups of one node: keep them on different nodes by node selectors, then "
            "convert its configuration (`slackwater import`) and remove it"
        )
        level = Level.FAIL if other.everywhere and other.pods else Level.WARN
        findings.append(Finding("writers", level, text, advice))
    return findings or [Finding("writers", Level.OK, "no other colocation agent runs")]


def _lent(seen: ClusterSnapshot) -> Sequence[Finding]:
    findings = []
    for resource in seen.lent:
        foreign = sorted(resource.managers - {MANAGER})
        nodes, writers = counted(resource.nodes, "node"), _listed(foreign) or MANAGER
        text = f"{resource.name} in the status of {nodes}, written by {writers}"
        if not foreign:
            findings.append(Finding("lent", Level.OK, text))
            continue
        advice = (
            "while that writer runs, Slackwater leaves such amounts alone; if it is gone, remove them: kubectl patch "
            "node NAME --subresource=status --type=json"
        )
        findings.append(Finding("lent", Level.WARN, text, advice))
    return findings or [Finding("lent", Level.OK, "no lent resource in the status of any node")]


def _namespaces(seen: ClusterSnapshot) -> Sequence[Finding]:
    agents = seen.namespaces.get(seen.agents_namespace)
    if agents in ("baseline", "restricted"):
        text = f"namespace {seen.agents_namespace} enforces {agents}"
        advice = "the agent writes cgroups of its node: label it pod-security.kubernetes.io/enforce=privileged"
        return [Finding("security", Level.FAIL, text, advice)]
    return [Finding("security", Level.OK, "no namespace refuses the agent")]


def _secrets(seen: ClusterSnapshot) -> Sequence[Finding]:
    if seen.secrets is None:
        return []
    missing = [name for name in seen.needed_secrets if name not in seen.secrets]
    if missing:
        text = f"namespace {seen.namespace} lacks the secrets {', '.join(missing)}"
        advice = "the chart's job `secrets` makes them, else `slackwater secrets`; pods wait for them"
        return [Finding("secrets", Level.WARN, text, advice)]
    return [Finding("secrets", Level.OK, f"all in namespace {seen.namespace}")]


_LOOKS: Sequence[Callable[[ClusterSnapshot], Sequence[Finding]]] = (
    *(_cluster, _nodes, _rights, _admission, _profiles, _storage, _kinds, _others, _lent, _namespaces, _secrets),
)
