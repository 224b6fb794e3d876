"""The pods of this node as the API server has them: a mirror that a follower keeps up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from slackwater.apiserver.kind_follower import FollowPace, KindFollower
from slackwater.apiserver.mirror import Mirror
from slackwater.apiserver.node_pods import NODE_PODS, NodePod
from slackwater.apiserver.port import ObjectReader, WatchEvent
from slackwater.apiserver.records import ApiRecord, WatchedKind
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

T = TypeVar("T", bound=ApiRecord)
_log = get_logger(__name__)


@dataclass(slots=True)
class PodSource:
    """See slackwater.apiserver.kind_follower.RecordSink. While the server is away it holds what was read last: pods
    that end are seen by their cgroups, and new ones are unknown until then. Pods of other nodes are left out, whatever
    the server sends. `revision` changes with every change."""

    node: str
    revision: int = 0
    _mirror: Mirror[NodePod] = field(default_factory=Mirror)
    _listed: asyncio.Event = field(default_factory=asyncio.Event)
    _error: Callable[[], str] = lambda: "not followed yet"

    @property
    def pods(self) -> Mapping[str, NodePod]:
        """By namespace and name."""
        return self._mirror.items

    @property
    def error(self) -> str:
        """Why the server is not followed; empty while it is."""
        return self._error()

    async def wait_until_listed(self) -> None:
        """Until all pods of the node were read once."""
        await self._listed.wait()

    async def follow(self, server: ObjectReader, clock: Clock) -> None:
        """List and watch until cancelled."""
        follower = KindFollower(server, NODE_PODS, self, clock, _Quiet(), FollowPace())
        self._error = lambda: follower.error
        await follower()

    def replace(self, kind: WatchedKind[T], items: Sequence[T]) -> object:
        changes = self._mirror.replace([item for item in items if isinstance(item, NodePod) and self._is_here(item)])
        self.revision += 1
        self._listed.set()
        return changes

    def apply(self, kind: WatchedKind[T], event: WatchEvent[T]) -> object:
        item = event.item
        if not isinstance(item, NodePod) or not self._is_here(item):
            return ()
        changes = self._mirror.apply(WatchEvent(event.change, event.version, item))
        self.revision += bool(changes)
        return changes

    def _is_here(self, pod: NodePod) -> bool:
        return pod.record.node == self.node


class _Quiet:
    """See FollowMeter: an agent tells of interruptions by its checks and its log."""

    def listed(self, kind: str, reason: str) -> None:
        _log.info("pods listed", reason=reason)

    def interrupted(self, kind: str, reason: str) -> None:
        """The follower has logged it."""
