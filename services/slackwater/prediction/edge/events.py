"""From deliveries to use cases, and back to settlements."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.bus.port import Done, Received, Retry, Settlement
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.prediction.usecases.describe_node import describe_node
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.state import LivingState


class PredictionEvents:
    """The two handlers of prediction; `windows` counts what was folded since the start."""

    def __init__(self, living: LivingState, clock: Clock) -> None:
        self._living = living
        self._clock = clock
        self.windows = 0

    async def on_windows(self, batch: Sequence[Received[UsageWindowed]]) -> Sequence[Settlement]:
        """Folds stand even if the store is away: their predictions are owed and go with the next transaction."""
        try:
            pairs = [(received.stream_sequence, received.event) for received in batch]
            self.windows += await fold_windows(self._living, self._clock, pairs)
        except Unavailable as error:
            return [Retry(error.message)] * len(batch)
        return [Done()] * len(batch)

    async def on_described(self, received: Received[NodeDescribed]) -> None:
        await describe_node(self._living, received.event.data)
