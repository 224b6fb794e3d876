"""From deliveries to use cases: one handler per event, for slackwater.bus.port.each."""

from __future__ import annotations

from slackwater.bus.port import Received
from slackwater.colocation.usecases.learn import learn_description, learn_liveness, learn_peaks, learn_usage
from slackwater.colocation.usecases.recompute_offer import Offering, take_news
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed

ON_DESCRIBED = "colocation-node-described"
ON_LIVENESS = "colocation-node-liveness-changed"
ON_USAGE = "colocation-usage-windowed"
ON_PEAKS = "colocation-peak-predicted"


class ColocationEvents:
    """The handlers of colocation. A repeat is recognised by its consumer and event id and has no effect."""

    def __init__(self, offering: Offering) -> None:
        self._offering = offering

    async def on_described(self, received: Received[NodeDescribed]) -> None:
        event = received.event
        await take_news(
            self._offering, ON_DESCRIBED, event, event.data.facts.name, lambda state: learn_description(state, event)
        )

    async def on_liveness(self, received: Received[NodeLivenessChanged]) -> None:
        event = received.event
        await take_news(self._offering, ON_LIVENESS, event, event.data.node, lambda state: learn_liveness(state, event))

    async def on_usage(self, received: Received[UsageWindowed]) -> None:
        event = received.event
        await take_news(self._offering, ON_USAGE, event, event.data.node, lambda state: learn_usage(state, event))

    async def on_peaks(self, received: Received[PeakPredicted]) -> None:
        event = received.event
        await take_news(self._offering, ON_PEAKS, event, event.data.node, lambda state: learn_peaks(state, event))
