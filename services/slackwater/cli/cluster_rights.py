"""The rights that an installation needs at the API server, for `doctor --kubernetes` and the page about rights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterRight:
    """Verbs on one resource, and why. `resource` may name a subresource; the group of core objects is empty.

    `name`: only of this object; `is_namespaced`: only in the namespace of the services."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    name: str = ""
    is_namespaced: bool = False

    def right(self, verb: str) -> str:
        """As slackwater.apiserver.port.RightMissing names it."""
        resource, _, part = self.resource.partition("/")
        return f"{verb} {resource}" + (f".{self.group}" if self.group else "") + (f"/{part}" if part else "")

    def title(self, verb: str) -> str:
        return (
            f"{verb} {self.resource}"
            + (f".{self.group}" if self.group else "")
            + (f" {self.name}" if self.name else "")
        )


_READ = ("list", "watch")
_APPLIES = ("create", "patch")
_DOCUMENTS = (
    *("arbitrationargs", "autonomies", "avoidanceactions", "clustercolocationprofiles", "colocationstrategies"),
    *("deschedulerprofiles", "elasticquotas", "nodeqos", "podmigrationjobs", "podqos"),
    *("predictpolicies", "quotaprofiles", "reservations"),
)

SERVICE_RIGHTS: Sequence[ClusterRight] = (
    ClusterRight("", "nodes", _READ, "what is offered goes to nodes, by name and label"),
    ClusterRight("", "pods", _READ, "workloads, what they request and borrow; uids of evictions"),
    ClusterRight("", "namespaces", _READ, "profiles select namespaces by label"),
    ClusterRight(
        "", "resourcequotas", _READ, "profiles leave namespaces with a quota of CPU or memory, also of a tier, alone"
    ),
    ClusterRight(
        "", "limitranges", _READ, "profiles leave namespaces with limits of CPU or memory, also of a tier, alone"
    ),
    ClusterRight("apps", "replicasets", _READ, "stands between pods and their Deployment"),
    ClusterRight("batch", "jobs", _READ, "stands between pods and their CronJob"),
    ClusterRight("policy", "poddisruptionbudgets", _READ, "which pods may be disrupted"),
    ClusterRight("scheduling.k8s.io", "priorityclasses", _READ, "the tier of pods by their priority"),
    ClusterRight("", "nodes/status", ("patch",), "offers, as extended resources in capacity and allocatable"),
    ClusterRight("", "nodes", ("patch",), "the taint of cordoned nodes; Kubernetes has no narrower right for taints"),
    ClusterRight("", "pods/eviction", ("create",), "evictions, which respect disruption budgets"),
    ClusterRight("events.k8s.io", "events", _APPLIES, "Events about evictions, cordons, profiles and refusals"),
    *(ClusterRight("slackwater.io", name, _READ, "documents that are custom resources") for name in _DOCUMENTS),
    *(
        ClusterRight("slackwater.io", f"{name}/status", ("patch",), "the condition Followed of a document")
        for name in _DOCUMENTS
    ),
    *(
        ClusterRight(
            "admissionregistration.k8s.io",
            name,
            _READ,
            "whether the policy of profiles is there",
        )
        for name in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    ),
    *(
        ClusterRight(
            "admissionregistration.k8s.io",
            name,
            ("create", "patch", "delete"),
            "profiles, as the one policy that changes new pods",
            name="profiles.slackwater.io",
        )
        for name in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    ),
    ClusterRight(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        ("get", "create", "patch", "delete"),
        "profiles, as a webhook where that policy is not served",
        name="profiles.slackwater.io",
    ),
    ClusterRight(
        "",
        "secrets",
        ("get", "patch"),
        "the certificates of the webhook",
        name="kubernetes-webhook",
        is_namespaced=True,
    ),
)
"""Of the service kubernetes, as the chart grants them: a test compares."""

AGENT_RIGHTS: Sequence[ClusterRight] = (
    ClusterRight("", "pods", _READ, "the pods of its own node"),
    ClusterRight("", "nodes", _READ, "labels and taints of its own node; without it they are not known"),
)
"""Of the agents, as the chart grants them: a test compares."""

INSTALL_RIGHTS: Sequence[ClusterRight] = tuple(
    ClusterRight(group, resource, _APPLIES, why)
    for group, resource, why in (
        ("", "namespaces", "slackwater and slackwater-node"),
        ("", "services", "names of the console, of PostgreSQL and of NATS"),
        ("", "serviceaccounts", "one per service"),
        ("", "secrets", "made by the chart's job, or by `slackwater secrets`"),
        ("", "persistentvolumeclaims", "backups"),
        ("apps", "deployments", "the services"),
        ("apps", "statefulsets", "PostgreSQL and NATS"),
        ("apps", "daemonsets", "the agents"),
        ("batch", "jobs", "migrate; secrets of a release"),
        ("batch", "cronjobs", "backup; secrets of a release"),
        ("policy", "poddisruptionbudgets", "one replica of each service stays"),
        ("networking.k8s.io", "networkpolicies", "every path that is not named is closed"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "the kinds of documents"),
        ("rbac.authorization.k8s.io", "clusterroles", "viewer, operator, admin, agents, the service kubernetes"),
        ("rbac.authorization.k8s.io", "clusterrolebindings", "of the service kubernetes"),
        ("rbac.authorization.k8s.io", "roles", "of the service kubernetes: one Secret; of the job that makes secrets"),
        ("rbac.authorization.k8s.io", "rolebindings", "the same"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "what a schema cannot refuse"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "the same"),
    )
)
"""Of the account that installs. To grant the service its rights, the installer must have them too."""
