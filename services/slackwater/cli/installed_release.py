"""What is installed in a namespace, however the release is called: found by the labels of its workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slackwater.runtime.service_list import service_names

PART_OF: Final = "app.kubernetes.io/part-of"
NAME: Final = "app.kubernetes.io/name"
ADAPTER: Final = "kubernetes"
AGENTS_NAMESPACE: Final = "slackwater-node"
PLAIN_SECRETS: Final = ("postgres", "nats", "migrate", *service_names(), "backup")
"""Those of plain manifests."""


@dataclass(frozen=True, slots=True)
class InstalledRelease:
    """Names of what is installed; those of plain manifests where nothing is."""

    account: str = ADAPTER
    """The service account of the service kubernetes."""
    agents_namespace: str = AGENTS_NAMESPACE
    secrets: tuple[str, ...] = PLAIN_SECRETS

    @property
    def prefix(self) -> str:
        """What begins the names of its objects."""
        return self.account.removesuffix(ADAPTER)


def is_own(workload: Mapping[str, Any]) -> bool:
    """Whether a workload is part of Slackwater, whatever its containers are called."""
    return _labels(workload).get(PART_OF) == "slackwater"


def installed_release(namespace: str, workloads: Iterable[Mapping[str, Any]]) -> InstalledRelease:
    """The release of a namespace, by the workloads of the cluster."""
    own = [workload for workload in workloads if is_own(workload)]
    here = [one for one in own if one["metadata"].get("namespace") == namespace]
    accounts = [_pod(one).get("serviceAccountName") for one in here if _labels(one).get(NAME) == ADAPTER]
    agents = [one["metadata"].get("namespace") for one in own if _labels(one).get(NAME) == "agent"]
    return InstalledRelease(
        account=str(next(filter(None, accounts), ADAPTER)),
        agents_namespace=str(next(filter(None, agents), AGENTS_NAMESPACE)),
        secrets=tuple(sorted({name for one in here for name in _mounted(one)})) or PLAIN_SECRETS,
    )


def _labels(workload: Mapping[str, Any]) -> Mapping[str, str]:
    return workload["metadata"].get("labels") or {}


def _pod(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = workload["spec"]["template"]["spec"]
    return found


def _mounted(workload: Mapping[str, Any]) -> Sequence[str]:
    """Secrets without which its pods do not start."""
    secrets = [volume["secret"] for volume in _pod(workload).get("volumes") or () if "secret" in volume]
    return [str(secret["secretName"]) for secret in secrets if not secret.get("optional")]
