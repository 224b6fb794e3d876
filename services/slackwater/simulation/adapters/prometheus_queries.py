"""The queries that pods on nodes are read with, from metrics of cAdvisor and kube-state-metrics. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from slackwater.model.errors import InvalidInput
from slackwater.traces.options import TraceResource

_TEXT: Final = r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`"""
_MATCHER: Final = rf"[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:{_TEXT})"
_MATCHERS: Final = re.compile(rf"\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*,?\s*")
_CONTAINERS: Final = ('container!=""', 'container!="POD"', 'pod!=""')
_POD, _NODE = "namespace, pod, exported_namespace, exported_pod", "node, exported_node"
"""If the scrape does not honor labels, the exporter's labels are prefixed `exported_` and the plain names are the
target's."""
_CONTAINER: Final = f"{_POD}, container, exported_container"
_OWNER: Final = "namespace, exported_namespace, owner_kind, owner_name"


def matchers_of(text: str) -> str:
    """Returns label matchers as they stand between braces: `cluster="eu-1",env!="test"`. Raises InvalidInput."""
    inner = text.strip().removeprefix("{").removesuffix("}").strip()
    if inner and not _MATCHERS.fullmatch(inner):
        raise InvalidInput(
            f'--selector: {text!r} is not allowed; allowed: label matchers of PromQL, such as cluster="eu-1"',
            field="selector",
        )
    return inner.rstrip(", ")


@dataclass(frozen=True, slots=True)
class PrometheusQueries:
    """All are restricted to the series that have `selector`, label matchers without braces."""

    selector: str = ""

    @property
    def usage(self) -> dict[TraceResource, str]:
        """In milli-cores and bytes; %d is the window of a rate.

        A container that restarted has another series by `id`, and the old one is still there for minutes: the greatest
        at a moment counts, and then the sum of containers. The innermost max removes duplicates: two scrape jobs or
        replicas may export the same container under different target labels. Counters by processor are added up where
        there is no `total`: both are there for a while after a kubelet's settings have changed.
        """
        container = "container_cpu_usage_seconds_total"
        total = self._of(container, *_CONTAINERS, 'cpu="total"')
        processors = self._of(container, *_CONTAINERS, 'cpu!="total"')
        memory = self._of("container_memory_working_set_bytes", *_CONTAINERS)
        return {
            TraceResource.CPU: (
                f"sum by ({_POD}) (max by ({_CONTAINER}) (max by ({_CONTAINER}, id) (rate({total}[%ds])) or "
                f"sum by ({_CONTAINER}, id) (max by ({_CONTAINER}, id, cpu) (rate({processors}[%ds]))))) * 1000"
            ),
            TraceResource.MEMORY: f"sum by ({_POD}) (max by ({_CONTAINER}) ({memory}))",
        }

    @property
    def requests(self) -> str:
        requests = self._of("kube_pod_container_resource_requests", 'resource=~"cpu|memory"')
        return f"sum by ({_POD}, resource) (max by ({_CONTAINER}, resource) ({requests}))"

    @property
    def pods(self) -> str:
        return f"max by ({_POD}, {_NODE}, created_by_kind, created_by_name) ({self._of('kube_pod_info')})"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The second query is used if the first returns nothing."""
        amounts = (
            self._of(f"kube_node_status_{what}", 'resource=~"cpu|memory"') for what in ("allocatable", "capacity")
        )
        return tuple(f"max by ({_NODE}, resource) ({amount})" for amount in amounts)

    @property
    def owners(self) -> dict[str, str]:
        """The owners of the objects between pods and workloads, by kind."""
        return {
            "ReplicaSet": f"max by ({_OWNER}, replicaset) ({self._of('kube_replicaset_owner')})",
            "Job": f"max by ({_OWNER}, job_name) ({self._of('kube_job_owner')})",
        }

    @property
    def pods_with_all_labels(self) -> str:
        """Those of the targets, too, by which clusters are told apart."""
        return self._of("kube_pod_info")

    def _of(self, metric: str, *matchers: str) -> str:
        matching = ",".join(filter(None, (*matchers, self.selector)))
        return f"{metric}{{{matching}}}" if matching else metric
