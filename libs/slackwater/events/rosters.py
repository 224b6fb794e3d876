"""What a node runs, without its usage: the identities and requests that reports count by."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from annotated_types import Interval
from msgspec import Meta
from pydantic import Field

from slackwater.model.bounds import Items, Name
from slackwater.model.pods import Pod
from slackwater.model.records import record

_DIGEST_BYTES: Final = 12
SLOTS: Final = 4
"""Rosters of a node that are readable at a time. A new one takes the slot of the oldest."""
Slot = Annotated[int, Interval(ge=0, le=SLOTS - 1), Meta(ge=0, le=SLOTS - 1), Field(examples=[0])]


_uid_of = operator.attrgetter("uid")


@record(frozen=True, slots=True)
class Roster:
    """The pods of a node. `digest` identifies the content, so that a report never counts by another one. `uids` is the
    order of a report's columns: it keeps the place of a pod that a reader's version does not know. `failed_pods` have
    ended with a failure, and the API server still lists them."""

    digest: Name
    uids: Items[Name] = ()
    pods: Items[Pod] = ()
    failed_pods: Annotated[Items[Pod], Field(exclude_if=operator.not_)] = ()

    def described(self) -> Sequence[Pod | None]:
        """Returns the pod at each place of a column; None for one that this version does not know."""
        if tuple(map(_uid_of, self.pods)) == self.uids:
            return self.pods
        pods = {pod.uid: pod for pod in self.pods}
        return [pods.get(uid) for uid in self.uids]


FindRoster = Callable[[str, str], Roster | None]
"""Returns the roster of a node by its digest; None if it is not known."""


def no_roster(node: str, digest: str) -> Roster | None:
    """Implements FindRoster for readers of events that carry their roster."""
    return None


class RosterMissing(Exception):
    """A report counts by a roster that the reader does not have."""

    def __init__(self, node: str, digest: str, slot: int) -> None:
        super().__init__(f"roster {digest} of {node} is not known")
        self.node = node
        self.digest = digest
        self.slot = slot


def roster_of(pods: Sequence[Pod], failed_pods: Sequence[Pod]) -> Roster:
    """Returns the roster of these pods, in their order."""
    content = msgspec.json.encode((pods, failed_pods))
    digest = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
    return Roster(digest, tuple(pod.uid for pod in pods), tuple(pods), tuple(failed_pods))
