"""What asks a small Prometheus in these tests."""

from __future__ import annotations

import httpx2
from small_prometheus import SmallPrometheus

from slackwater.simulation.adapters.prometheus import Prometheus, TimeRange
from slackwater.simulation.adapters.prometheus_usage import read
from slackwater.simulation.usecases.placed_usage import Placed

START = 1_772_409_600
DAY = 86_400
SESAME = "open " + "sesame"


def asking(small: SmallPrometheus, token: str = "", retries: int = 3) -> tuple[Prometheus, list[float]]:
    pauses: list[float] = []
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client = httpx2.Client(base_url=small.url, headers=headers, trust_env=False, timeout=20)
    return Prometheus(client, retries, pause=pauses.append), pauses


def placed(small: SmallPrometheus, days: float = 1.0, step: int = 300, selector: str = "") -> Placed:
    server, _ = asking(small)
    with server.client:
        return read(server, TimeRange(START, START + int(days * DAY) - step, step), "small", selector)
