"""Handles usage.windowed: folds each window once, in order of arrival. publish_predictions publishes the results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.events.envelope import Event
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedUsage
from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.state import NodeWindow
from slackwater.prediction.usecases.partition_store import LivingState

_UNKNOWN = (np.nan, np.nan)
_LATEST = 253_402_300_799
"""The end of the year 9999, in seconds since 1970."""
_MOST = 2**63 - 1


async def fold_windows(living: LivingState, batch: Sequence[tuple[int, Event[UsageWindowed]]]) -> int:
    """Folds a batch of (stream position, event). Returns the number of new windows.

    Every window is parsed before the first is folded, so that a batch with an invalid one changes nothing. Raises
    InvalidInput; nothing is then folded.
    """
    new = 0
    async with living.lock:
        sights = [(sequence, node_window(event)) for sequence, event in batch]
        for sequence, sight in sights:
            new += living.models.apply_window(sight, living.pool_of(sight.name))
            living.position = sequence
    return new


def node_window(event: Event[UsageWindowed]) -> NodeWindow:
    """Returns the p90 of everything that was measured in the window.

    Raises InvalidInput (`window_out_of_range`) for times and amounts that the columns of the models cannot hold.
    """
    try:
        return _in_range(_sight_of(event))
    except (ArithmeticError, ValueError) as error:
        raise InvalidInput(f"window of {event.data.node}: {error}", code="window_out_of_range") from error


def _in_range(sight: NodeWindow) -> NodeWindow:
    """Returns the sight if its times and requests are in range. Raises ValueError."""
    if not 0 <= sight.start <= sight.end <= _LATEST:
        raise ValueError(f"start {sight.start}, end {sight.end}; must be from 0 to {_LATEST} and in order")
    for pod in sight.pods:
        if max(pod.request.cpu_milli, pod.request.memory_bytes) > _MOST:
            raise ValueError(f"pod {pod.uid[:80]!r} requests more than the maximum of {_MOST}")
    return sight


def _sight_of(event: Event[UsageWindowed]) -> NodeWindow:
    window = event.data
    start = int(window.window_start.timestamp())
    usage = [_pair(measured.usage) or _UNKNOWN for measured in window.pods]
    return NodeWindow(
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
    """Returns the usage of the system including host applications, whose peaks are not predicted separately."""
    system = _pair(window.system_usage)
    if system is None or not window.host_apps:
        return system
    pairs = [system, *(pair for app in window.host_apps if (pair := _pair(app.usage)))]
    return sum(cpu for cpu, _ in pairs), sum(memory for _, memory in pairs)


def _pair(usage: WindowedUsage | None) -> tuple[float, float] | None:
    if usage is None or not usage.samples:
        return None
    return float(usage.cpu_p90_milli), float(usage.memory_p90_bytes)
