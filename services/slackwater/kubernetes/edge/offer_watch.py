"""Reads resources.offered: the last offer of every node, then every change."""

from __future__ import annotations

import asyncio

from slackwater.bus.port import Bus
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.usecases.offers_read import OffersRead


class OfferWatch:
    """Without a consumer in streams.yaml: only the newest value counts, and nothing is left unread in installations
    without this service."""

    def __init__(self, bus: Bus, offers: OffersRead) -> None:
        self._bus = bus
        self._offers = offers

    async def __call__(self) -> None:
        """Read until cancelled."""
        async with self._bus.watch(ResourcesOffered, self._offers.receive):
            self._offers.begin()
            await asyncio.Event().wait()
