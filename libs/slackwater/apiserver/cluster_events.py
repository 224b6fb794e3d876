"""Events of the API events.k8s.io/v1, as `kubectl describe` and `kubectl events` show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

API: Final = "events.k8s.io/v1"
CONTROLLER: Final = "slackwater.io/kubernetes"
CLUSTER_NAMESPACE: Final = "default"
"""Where events about objects without a namespace are."""
LONGEST_NOTE: Final = 1024
LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The object that an event is about. `namespace` is empty for nodes and other objects of the cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def json(self) -> dict[str, str]:
        named = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        return named | {key: value for key, value in (("namespace", self.namespace), ("uid", self.uid)) if value}


def pod_subject(key: str, uid: str) -> EventSubject:
    """Of a pod `NAMESPACE/NAME`."""
    namespace, _, name = key.partition("/")
    return EventSubject("v1", "Pod", namespace, name, uid)


def node_subject(name: str, uid: str) -> EventSubject:
    return EventSubject("v1", "Node", "", name, uid)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """What has happened to an object. `reason` is CamelCase and one of few, `action` what was done or refused."""

    subject: EventSubject
    reason: str
    action: str
    note: str
    is_warning: bool = False

    @property
    def namespace(self) -> str:
        return self.subject.namespace or CLUSTER_NAMESPACE


@dataclass(frozen=True, slots=True)
class EventSeries:
    """An event that has happened `count` times. `name` is that of its object at the API server."""

    name: str
    event: ClusterEvent
    first_at: datetime
    last_at: datetime
    count: int = 1

    def document(self, instance: str) -> dict[str, Any]:
        """The object to create, by the replica `instance`."""
        event = self.event
        made: dict[str, Any] = {
            "apiVersion": API,
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": event.namespace},
            "eventTime": micro_time(self.first_at),
            "reportingController": CONTROLLER,
            "reportingInstance": instance[:LONGEST_NAME],
            "action": event.action,
            "reason": event.reason,
            "regarding": event.subject.json(),
            "note": event.note[:LONGEST_NOTE],
            "type": "Warning" if event.is_warning else "Normal",
        }
        return made if self.count < 2 else made | self.series()

    def series(self) -> dict[str, Any]:
        """What changes of it when it happens again."""
        return {"series": {"count": self.count, "lastObservedTime": micro_time(self.last_at)}}


def micro_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
