"""Disks and network links as metrics. Per-pod usage is not measured, so no pod is throttled for
them; pods may be evicted within the limits of unquantified metrics, and the node can be cordoned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slackwater.model.devices import LinkUse
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.registry.metric import Dimension, Metric, Readings

RECEIVED, SENT = {"direction": "received"}, {"direction": "sent"}


def _or_as_read(name: str, otherwise: Callable[[NodeReadings], tuple[MetricSeries, ...]]) -> Readings:
    """Returns readings by the metric's name, else those computed from the node's devices."""

    def readings(view: NodeReadings) -> tuple[MetricSeries, ...]:
        return view.readings[name] if name in view.readings else otherwise(view)

    return readings


def _disks(view: NodeReadings) -> tuple[MetricSeries, ...]:
    return tuple(MetricSeries(disk.usage_ratio, {"disk": disk.name}) for disk in view.disks)


def _links(view: NodeReadings) -> tuple[MetricSeries, ...]:
    """Returns two series for each interface, by label `direction`."""
    return tuple(
        MetricSeries(amount, {"interface": link.name} | direction)
        for link in view.links
        for amount, direction in _both(link)
    )


def _link_shares(view: NodeReadings) -> tuple[MetricSeries, ...]:
    """Returns series only of interfaces that report their capacity."""
    return tuple(
        MetricSeries(exact(amount) / link.capacity_per_second, {"interface": link.name} | direction)
        for link in view.links
        if link.capacity_per_second
        for amount, direction in _both(link)
    )


def _both(link: LinkUse) -> tuple[tuple[int, dict[str, str]], ...]:
    return (link.received_per_second, RECEIVED), (link.sent_per_second, SENT)


DISK_USAGE_RATIO: Final = Metric(
    "disk_usage_ratio",
    Dimension.RATIO,
    action_priority=3,
    readings=_or_as_read("disk_usage_ratio", _disks),
    reads_pods=False,
    evictable=True,
)
NETWORK_USAGE: Final = Metric(
    "network_usage",
    Dimension.BYTES_PER_SECOND,
    action_priority=3,
    readings=_or_as_read("network_usage", _links),
    reads_pods=False,
    evictable=True,
)
NETWORK_USAGE_RATIO: Final = Metric(
    "network_usage_ratio",
    Dimension.RATIO,
    action_priority=3,
    readings=_or_as_read("network_usage_ratio", _link_shares),
    reads_pods=False,
    evictable=True,
)
NODE_IO_PRESSURE: Final = Metric("node_io_pressure", Dimension.RATIO, action_priority=3, evictable=True)

DEVICES: Final = (DISK_USAGE_RATIO, NETWORK_USAGE, NETWORK_USAGE_RATIO, NODE_IO_PRESSURE)
