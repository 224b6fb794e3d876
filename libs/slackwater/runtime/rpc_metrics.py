"""What is counted of gRPC. Loads no grpc, so that the reference page can be made without it."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class RpcMetrics:
    """Per method (`slackwater.v1.ColocationService/GetNode`) and code (`OK`, `NOT_FOUND`, …).

    What nobody serves is one method, `unknown`: a caller must not be able to make series.
    """

    def __init__(self, meters: Meters) -> None:
        self.calls = meters.counter(
            "slackwater_rpc_calls_total",
            "Calls over gRPC that ended, by method and status code. A watch counts when it ends.",
            ["method", "code"],
            look="INTERNAL: a defect of ours. UNAUTHENTICATED or PERMISSION_DENIED in numbers: somebody tries keys.",
        )
        self.seconds = meters.histogram(
            "slackwater_rpc_call_seconds",
            "How long calls over gRPC took, by method and status code. For a watch: how long it was open.",
            ["method", "code"],
            look="p99 of GetNode or ListNodes above 1 s: the read model is slow.",
        )
        self.open = meters.gauge(
            "slackwater_rpc_open_calls",
            "Calls over gRPC under way, by method.",
            ["method"],
            look="Watches at 0 while schedulers run; the sum near 1000, where more are refused.",
        )
