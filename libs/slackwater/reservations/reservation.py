"""A Reservation: what is kept, for which pods, where, until when. Names of phases and fields are those of koordinator.

Amounts are by resource name, as in slackwater.descheduling.placement. Times in seconds since the epoch, by the server's
clock: a node's clock plays no part in expiry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from slackwater.descheduling.placement import Amounts, PlacedPod
from slackwater.model.records import record
from slackwater.resources.selectors import Selector


class ReservationPhase(StrEnum):
    """The phase that users see. The last three are final."""

    PENDING = "Pending"
    """Not placed."""
    WAITING = "Waiting"
    """Placed on a node without room (preAllocation): what becomes free there is kept for it."""
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    EXPIRED = "Expired"
    FAILED = "Failed"


ENDED: Final = frozenset({ReservationPhase.SUCCEEDED, ReservationPhase.EXPIRED, ReservationPhase.FAILED})
PLACED: Final = frozenset({ReservationPhase.WAITING, ReservationPhase.AVAILABLE})


class ReservationReason(StrEnum):
    """Why a reservation is in its phase."""

    NONE = ""
    UNSCHEDULABLE = "Unschedulable"
    INSUFFICIENT = "InsufficientResources"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    EXPIRED = "Expired"
    NODE_GONE = "NodeGone"


@record(frozen=True, slots=True)
class ReservationOwner:
    """Matches the pods that may use a reservation. All that is set must hold; where nothing is set, none matches."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    workload: str = ""
    """Key of the controller."""
    selector: Selector | None = None

    def matches(self, pod: PlacedPod) -> bool:
        """Whether the pod may use it. A namespace alone matches none: it names no object."""
        if not (self.uid or self.name or self.workload or self.selector is not None):
            return False
        return (
            self.uid in ("", pod.uid)
            and self.namespace in ("", pod.namespace)
            and self.name in ("", pod.name)
            and self.workload in ("", pod.workload)
            and (self.selector is None or self.selector.matches(pod.labels))
        )


@record(frozen=True, slots=True)
class Reservation:
    """A reservation with its state."""

    name: str
    template: PlacedPod
    """The pod that is expected: requests, predicted peak, tier, hard rules. Its uid is that of the pod in whose place
    it comes; empty: of none. Name and node are unused."""
    owners: Sequence[ReservationOwner]
    created_s: float
    expires_s: float | None = None
    """None: never."""
    allocate_once: bool = True
    """It ends with its first owner; else owners share it, and what they leave is kept again."""
    pre_allocation: bool = False
    """It may be placed where there is no room yet."""
    node: str = ""
    """The only node that is allowed; empty: any."""
    avoids: frozenset[str] = frozenset()
    """Nodes that are not allowed: of a move, the one that the pod leaves."""
    order: int = 0
    """Of several that match a pod, the lowest above 0 is used first."""
    phase: ReservationPhase = ReservationPhase.PENDING
    placed_on: str = ""
    allocated: Mapping[str, Amounts] = field(default_factory=dict)
    """What owners took of it, by the UID of the pod."""
    reason: ReservationReason = ReservationReason.NONE
    message: str = ""
    since_s: float = 0.0
    """Since when it has been in its phase."""

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDED

    def allows(self, pod: PlacedPod) -> bool:
        """Whether one of the owners matches."""
        return any(owner.matches(pod) for owner in self.owners)

    def unallocated(self) -> dict[str, int]:
        """Returns what no owner has taken of the requests; never below 0."""
        left = dict(self.template.requests)
        for amounts in self.allocated.values():
            for resource, amount in amounts.items():
                left[resource] = left.get(resource, 0) - amount
        return {resource: max(0, amount) for resource, amount in left.items()}

    def held(self) -> dict[str, int]:
        """Returns what it keeps on `placed_on` beyond what its owners use there: empty where it is not placed."""
        return self.unallocated() if self.phase in PLACED else {}
