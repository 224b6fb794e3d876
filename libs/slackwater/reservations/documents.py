"""Reservation as operators write it, and the reservation it comes to. Fields are those of koordinator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from slackwater.descheduling.placement import PlacedPod
from slackwater.fairshare.documents import WrittenAmounts, amounts_of
from slackwater.podmigration.documents import Duration, Text253, duration_seconds
from slackwater.reservations.reservation import Reservation, ReservationOwner
from slackwater.resources.cel import CelRule
from slackwater.resources.metadata import Part, Resource
from slackwater.resources.selectors import LabelSelector


class ReservationOwnerSpec(Part):
    """Pods that may use it. All that is set must hold; where nothing is set, none matches."""

    namespace: Text253 = Field("", description="of the pod; empty: any")
    name: Text253 = Field("", description="of the pod; empty: any")
    uid: Text253 = Field("", description="of the pod; empty: any")
    workload: Text253 = Field("", description="key of the controller, as agents report it")
    label_selector: LabelSelector | None = Field(None, description="labels of the pod; absent: any")


class ReservationSpec(Part):
    """What is kept, for which pods, where, and until when."""

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("size(self.resources) > 0", "must name at least one resource", "resources", by_admission=True),
    )

    resources: Annotated[WrittenAmounts, Field(min_length=1)] = Field(
        description="requests of the expected pod: cpu in cores, memory in bytes; batch-cpu and so on for lower tiers"
    )
    owners: Annotated[tuple[ReservationOwnerSpec, ...], Field(min_length=1, max_length=64)] = Field(
        description="pods that may use it; one that matches is enough"
    )
    allocate_once: bool = Field(True, description="whether it ends with its first owner")
    pre_allocation: bool = Field(False, description="whether it may be placed where there is no room yet")
    ttl: Duration = Field("24h", description="from its creation; 0s: no limit")
    expires: Annotated[datetime, Field(description="instead of ttl: the moment at which it ends")] | None = None
    node_name: Text253 = Field("", description="the only node that is allowed; empty: any")
    node_selector: Annotated[dict[Text253, Text253], Field(max_length=64)] = Field(
        default_factory=dict, description="labels that its node must have"
    )
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = Field(0, description="higher is placed first")
    order: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        0, description="of several that match a pod the lowest above 0 is used first"
    )


class ReservationStatus(Part):
    """Set by the server."""

    phase: str = Field(description="Pending, Available, Succeeded or Failed")
    reason: str = Field("", description="of the phase, in one word")
    message: str = Field("", description="the same in words")
    node_name: str = Field("", description="node that keeps the room")
    job: str = Field("", description="PodMigrationJob that it is for")
    current_owners: tuple[str, ...] = Field((), description="pods that use it")
    since: str = Field("", description="when the phase began")


class ReservationDocument(Resource):
    """Room on a node that is kept for pods to come."""

    kind: Literal["Reservation"] = "Reservation"
    spec: ReservationSpec
    status: ReservationStatus | None = Field(None, description="Set by the server, ignored in what is applied.")


def reservation_of(document: ReservationDocument, created_s: float) -> Reservation:
    """Returns the pending reservation that a document asks for; its ttl counts from `created_s`."""
    spec = document.spec
    ttl_s = duration_seconds(spec.ttl)
    expires_s = spec.expires.timestamp() if spec.expires is not None else created_s + ttl_s if ttl_s > 0 else None
    template = PlacedPod(
        uid="",
        name="",
        namespace="",
        node="",
        priority=spec.priority,
        requests=amounts_of(spec.resources),
        node_selector=dict(spec.node_selector),
    )
    return Reservation(
        name=document.name,
        template=template,
        owners=tuple(
            ReservationOwner(
                uid=owner.uid,
                namespace=owner.namespace,
                name=owner.name,
                workload=owner.workload,
                selector=None if owner.label_selector is None else owner.label_selector.selector,
            )
            for owner in spec.owners
        ),
        created_s=created_s,
        expires_s=expires_s,
        allocate_once=spec.allocate_once,
        pre_allocation=spec.pre_allocation,
        node=spec.node_name,
        order=spec.order,
        since_s=created_s,
    )


def document_of(reservation: Reservation, author: str) -> ReservationDocument:
    """Returns the document of a reservation that a move made."""
    spec: dict[str, object] = {
        "resources": {
            resource: f"{amount}m" if resource.endswith("cpu") else amount
            for resource, amount in reservation.template.requests.items()
        },
        "owners": [
            {"uid": owner.uid, "namespace": owner.namespace, "name": owner.name, "workload": owner.workload}
            for owner in reservation.owners
        ],
        "allocateOnce": reservation.allocate_once,
        "nodeName": reservation.node,
        "priority": reservation.template.priority or 0,
    }
    if reservation.expires_s is not None:
        spec["expires"] = datetime.fromtimestamp(reservation.expires_s, UTC).isoformat()
    return ReservationDocument.parse({"metadata": {"name": reservation.name, "changedBy": author}, "spec": spec})
