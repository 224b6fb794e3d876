"""usage.windowed: take it once, in order of arrival. What follows from it is told by publish_predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.events.envelope import Event
from slackwater.events.usage_windowed import UsageWindowed, WindowedUsage
from slackwater.prediction.domain.state import Sight
from slackwater.prediction.usecases.state import LivingState

_UNKNOWN = (np.nan, np.nan)


async def fold_windows(living: LivingState, batch: Sequence[tuple[int, Event[UsageWindowed]]]) -> int:
    """Take a batch of (stream position, event); returns how many windows were new."""
    new = 0
    async with living.lock:
        for sequence, event in batch:
            new += living.models.take(sight_of(event), living.pool_of(event.data.node))
            living.position = sequence
    return new


def sight_of(event: Event[UsageWindowed]) -> Sight:
    """The p90 of everything that was measured in the window."""
    window = event.data
    start = int(window.window_start.timestamp())
    usage = [_pair(measured.usage) or _UNKNOWN for measured in window.pods]
    return Sight(
        name=window.node,
        start=start,
        end=start + window.window_seconds,
        number=window.number,
        pods=[measured.pod for measured in window.pods],
        usage=np.array(usage, dtype=np.float64).reshape(-1, 2),
        node=_pair(window.node_usage),
        system=_beside_pods(window),
        event_id=event.id,
        traceparent=event.traceparent,
    )


def _beside_pods(window: UsageWindowed) -> tuple[float, float] | None:
    """The system, and with it the host applications: nobody has to tell their peaks apart."""
    system = _pair(window.system_usage)
    if system is None or not window.host_apps:
        return system
    pairs = [system, *(pair for app in window.host_apps if (pair := _pair(app.usage)))]
    return sum(cpu for cpu, _ in pairs), sum(memory for _, memory in pairs)


def _pair(usage: WindowedUsage | None) -> tuple[float, float] | None:
    if usage is None or not usage.samples:
        return None
    return float(usage.cpu_p90_milli), float(usage.memory_p90_bytes)
