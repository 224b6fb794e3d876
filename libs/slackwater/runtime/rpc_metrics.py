"""Metrics of gRPC. Does not load grpc, so that the reference page can be generated without it."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class RpcMetrics:
    """Per method (`slackwater.v1.ColocationService/GetNode`) and code (`OK`, `NOT_FOUND`, …).

    All unimplemented methods are one label, `unknown`, so that a caller cannot create series.
    """

    def __init__(self, meters: Meters) -> None:
        self.calls = meters.counter(
            "slackwater_rpc_calls_total",
            "Ended gRPC calls and watches.",
            ["method", "code"],
            look="INTERNAL: a defect. Many UNAUTHENTICATED, PERMISSION_DENIED: tokens are tried.",
        )
        self.seconds = meters.histogram(
            "slackwater_rpc_call_seconds",
            "Duration of gRPC calls (watches: while open).",
            ["method", "code"],
            look="p99 of GetNode, ListNodes above 1 s: slow read model.",
        )
        self.open = meters.gauge(
            "slackwater_rpc_open_calls",
            "Open gRPC calls.",
            ["method"],
            look="Watches at 0 while schedulers run; a sum near 1000, the limit.",
        )
