"""Metrics of HTTP connections. Does not load the server, so that the reference page can be generated without it."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class HttpMetrics:
    """Of all HTTP listeners of the process together."""

    def __init__(self, meters: Meters) -> None:
        self.open = meters.gauge(
            "slackwater_http_open_connections",
            "Open HTTP connections.",
            look="Near slackwater_http_most_connections: waiting ones are closed.",
        )
        self.limit = meters.gauge(
            "slackwater_http_most_connections",
            "Limit of open HTTP connections.",
            look="Lower than SLACKWATER_HTTP_CONNECTIONS: raise the limit of open files.",
        )
        self.closed = meters.counter(
            "slackwater_http_closed_connections_total",
            "HTTP connections closed because they were late, or to make room.",
            ["reason"],
            look="Growth of `room`: too many clients, or a flood.",
        )
