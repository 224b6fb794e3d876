from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from slackwater.demo.api import Api, counter_total
from slackwater.runtime.state import Endpoint

TEXT = """# HELP windows_total Windows.
# TYPE windows_total counter
windows_total{pool="a"} 3.0
windows_total{pool="b"} 4.0
windows_total_created 1.7e9
"""


def test_a_counter_is_the_sum_over_its_labels() -> None:
    assert counter_total(TEXT, "windows_total") == 7


def test_a_counter_that_is_not_there_yet_is_zero() -> None:
    assert counter_total(TEXT, "reports_total") == 0


def decision(number: int, node: str) -> dict[str, Any]:
    return {"id": f"d{number}", "node": node, "decided_at": f"2026-01-05T12:00:{number:02}Z"}


@pytest.mark.parametrize(("node", "restores", "offers"), [("here", 1, ["here"]), (None, 61, ["here", "sim-01"])])
async def test_what_an_earlier_fleet_left_in_the_database_is_not_of_this_run(
    monkeypatch: pytest.MonkeyPatch, node: str | None, restores: int, offers: list[str]
) -> None:
    """Restores of 60 pods of simulated nodes were counted where the checkout had served a simulated fleet."""
    amount = {"batch": {"cpu_milli": 1, "memory_bytes": 1}, "decision_ids": {}}
    decided = {"restore": [decision(n, f"sim-{n:02}") for n in range(60)] + [decision(60, "here")], "throttle": []}
    total = {"kind": "restore", "count": 0}

    async def answer(_: Api, method: str, path: str, **how: Any) -> Any:
        if path == "/v1/offers":
            return {"items": [{"node": "here", **amount}, {"node": "sim-01", **amount}]}
        if path == "/v1/decisions":
            return {"items": decided[how["params"]["kind"]]}
        return {"reports": 1, "predictions": 1, "offers": 1, "decisions": [dict(total)]}

    async def no_windows(_: Api) -> int:
        return 0

    monkeypatch.setattr(Api, "_ask", answer)
    monkeypatch.setattr(Api, "_windows_closed", no_windows)
    async with Api(Endpoint("http://here", "nats://here", 1), datetime(2026, 1, 5, tzinfo=UTC), node) as api:
        total["count"] = 61
        assert (await api.counts()).decisions["restore"] == restores
        assert len(await api.decisions()) == restores
        assert [offer.node for offer in await api.offers()] == offers
