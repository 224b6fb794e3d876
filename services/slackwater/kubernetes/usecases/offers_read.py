"""The last offer of each node, as resources.offered carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.domain.status_plan import LentAmount, LentOffer
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock


class OffersRead:
    """Level-triggered: only the newest offer of a node counts, and after a restart all are read again."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._offers: dict[str, LentOffer] = {}
        self._versions: dict[str, tuple[datetime, int]] = {}
        self.since: datetime | None = None
        """Since when offers are received."""

    @property
    def by_node(self) -> Mapping[str, LentOffer]:
        return self._offers

    def begin(self) -> None:
        """Note that offers are received from now on."""
        self.since = self._clock.now()

    async def receive(self, event: Event[ResourcesOffered]) -> None:
        """Keep an offer unless a newer one is known."""
        offer = event.data
        version = offer.offered_at, offer.generation
        if version > self._versions.get(offer.node, (datetime.min.replace(tzinfo=offer.offered_at.tzinfo), -1)):
            self._versions[offer.node] = version
            self._offers[offer.node] = lent_offer(event)
            self._changed()


def lent_offer(event: Event[ResourcesOffered]) -> LentOffer:
    """What an offer lends: the tiers that it has decisions for. An offer of nothing at all (degraded, disabled by the
    strategy, no slack) lends nothing: then the resources leave the status. One that is reserved as a whole stays."""
    offer = event.data
    batch = offer.status.batch if offer.status is not None else offer.batch
    amounts = {"batch": batch, "mid": offer.mid}
    lent = tuple(
        LentAmount(subject, max(0, _amount(amounts[tier], resource)), offer.decision_ids.get(subject, ""))
        for tier in amounts
        for resource in ("cpu", "memory")
        if (subject := f"{tier}-{resource}") in offer.decision_ids
    )
    is_nothing = offer.reserved is None and not any(amount.amount for amount in lent)
    return LentOffer(event.id, offer.offered_at, () if is_nothing else lent, offer.degraded or "")


def _amount(resources: Resources, resource: str) -> int:
    return resources.cpu_milli if resource == "cpu" else resources.memory_bytes
