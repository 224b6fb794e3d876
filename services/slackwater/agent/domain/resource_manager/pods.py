"""A pod as the manager reads it: containers in their order, QoS level, and whether it is the manager's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.messages import (
    PREFIX,
    QOS_LEVEL,
    ContainerType,
    QosLevel,
    ResourceRequest,
)
from slackwater.model.errors import InvalidInput

MAIN_CONTAINER = "kubernetes.io/main-container-name"
SKIP_ADMISSION = f"{PREFIX}skip_qrm_admit"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container and its requests by resource, in cores, bytes or units. `restartable`: an init container that runs
    beside the others, which keeps what it has.
    """

    name: str
    requests: Mapping[str, float] = field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod."""

    uid: str
    name: str = ""
    namespace: str = ""
    containers: Sequence[ContainerSpec] = ()
    init_containers: Sequence[ContainerSpec] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    native_qos: str = ""

    @property
    def level(self) -> QosLevel:
        """Returns the QoS level; shared without one. Raises InvalidInput for a word that is none."""
        text = self.annotations.get(QOS_LEVEL, QosLevel.SHARED)
        try:
            return QosLevel(text)
        except ValueError:
            allowed = ", ".join(QosLevel)
            raise InvalidInput(f"{QOS_LEVEL}: {text[:40]!r} is not allowed: {allowed}", field=QOS_LEVEL) from None

    def in_order(self) -> Iterator[ContainerSpec]:
        """Returns the containers in the order in which they are admitted."""
        yield from (*self.init_containers, *self.containers)

    def place_of(self, name: str) -> tuple[ContainerType, int]:
        """Returns type and index of a container, counted within its own list. Raises InvalidInput for an unknown one.

        The main one is named by an annotation, else it is the first; the rest are sidecars.
        """
        for index, container in enumerate(self.init_containers):
            if container.name == name:
                return ContainerType.INIT, index
        main = self.annotations.get(MAIN_CONTAINER)
        for index, container in enumerate(self.containers):
            if container.name == name:
                is_main = name == main if main is not None else index == 0
                return (ContainerType.MAIN if is_main else ContainerType.SIDECAR), index
        raise InvalidInput(f"container: the pod has no {name[:60]!r}", field="container")

    def is_skipped(self, *, is_first: bool, skip_annotations: Set[str] = frozenset()) -> bool:
        """Returns whether the manager leaves the pod alone: by an annotation, or a DaemonSet's that is not system."""
        if any(name in self.annotations for name in skip_annotations):
            return True
        if is_first and self.annotations.get(SKIP_ADMISSION) == "true":
            return True
        return self.owner_kind == "DaemonSet" and self.level is not QosLevel.SYSTEM

    def request_of(self, container: ContainerSpec, resource: str, amounts: Mapping[str, float]) -> ResourceRequest:
        """Returns what the plugin of a resource is asked for a container."""
        type_, index = self.place_of(container.name)
        return ResourceRequest(
            self.uid,
            resource,
            amounts,
            self.namespace,
            self.name,
            container.name,
            type_,
            index,
            self.labels.get(f"{PREFIX}pod_role", ""),
            self.annotations.get(f"{PREFIX}pod_type", ""),
            labels=self.labels,
            annotations=self.annotations,
            native_qos=self.native_qos,
        )


def is_reconciled(pod: PodSpec, container: str) -> bool:
    """Returns whether a container keeps what it has while it runs: init containers that end do not."""
    return not any(spec.name == container and not spec.restartable for spec in pod.init_containers)


def mapped_name(resource: str, requested: Set[str], names: Mapping[str, str]) -> str:
    """Returns under which name a resource is allocated. Raises InvalidInput if a container asks under both."""
    name = names.get(resource, resource)
    if name != resource and name in requested and resource in requested:
        raise InvalidInput(f"requests: {resource} counts as {name}, which is asked for as well", field="requests")
    return name
