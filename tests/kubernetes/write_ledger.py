"""What the service wrote to the API server, and whether it was right: nothing twice, nothing without effect."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.apiserver.records import ClusterNode, Taint
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer
from slackwater.model.time import Clock


@dataclass(slots=True)
class WriteLedger:
    """`versions` are the resource versions of each node after each write that was answered, `evicted` the uids of pods
    whose eviction was accepted, `called` those of all calls."""

    versions: dict[str, list[str]] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)

    def note_present(self, node: str, version: str) -> None:
        """The version of a node before the service wrote to it."""
        self.versions.setdefault(node, []).append(version)

    def complaints(self, wanted: Sequence[str], outcomes: Sequence[str]) -> list[str]:
        """What is wrong, with the ids of the evictions that were wanted and of those that were published as ended."""
        found = [
            f"a write to {node} changed nothing: version {version}"
            for node, versions in self.versions.items()
            for version, next_version in itertools.pairwise(versions)
            if version == next_version
        ]
        found += [f"pod {uid} was evicted {count} times" for uid, count in Counter(self.evicted).items() if count > 1]
        ended = Counter(outcomes)
        found += [f"eviction {one} has {ended[one]} outcomes" for one in wanted if ended[one] != 1]
        found += [f"eviction {one} was never wanted" for one in ended if one not in wanted]
        return found


class RecordingServer(HttpApiServer):
    """The real one, which notes what it did."""

    def __init__(self, kubeconfig: str, ledger: WriteLedger, clock: Clock) -> None:
        super().__init__(kubeconfig, clock=clock)
        self._ledger = ledger

    async def apply_lent(self, node: ClusterNode, amounts: Mapping[str, int], *, force: bool) -> ClusterNode:
        after = await super().apply_lent(node, amounts, force=force)
        self._ledger.note_present(node.key, after.version)
        return after

    async def set_cordon(self, node: ClusterNode, cordon: Taint | None) -> ClusterNode:
        after = await super().set_cordon(node, cordon)
        self._ledger.note_present(node.key, after.version)
        return after

    async def evict_pod(self, pod: str, uid: str, grace_seconds: int, *, dry_run: bool) -> None:
        self._ledger.called.append(uid)
        await super().evict_pod(pod, uid, grace_seconds, dry_run=dry_run)
        self._ledger.evicted.append(uid)
