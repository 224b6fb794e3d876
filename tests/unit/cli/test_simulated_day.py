"""The platform and the operator of a simulated day: what is written once, claimed, given back and moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.cli.simulated_day import (
    BORROWED_CLAIMS,
    BORROWER,
    LENDER,
    LENDER_CLAIMS,
    MOVE_SECONDS,
    REST_SECONDS,
    RUN_SECONDS,
    SimulatedDay,
)
from slackwater.cli.up import _beside
from slackwater.client.generated.models import NodeQos
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.runtime.state import Endpoint
from slackwater.telemetry.logs import configure

NODEQOS: dict[str, Any] = {
    "apiVersion": "slackwater.io/v1alpha1",
    "kind": "NodeQOS",
    "metadata": {"name": "default", "generation": 1},
    "spec": {"mode": "throttle", "weights": "by-tier-idle", "rules": []},
}


class Api:
    """What the day asks of the API; every claim is admitted."""

    def __init__(self, generation: int = 1) -> None:
        self.written: dict[str, Any] = {}
        self.claims: dict[str, dict[str, SimpleNamespace]] = {LENDER: {}, BORROWER: {}}
        self.nodeqos = NodeQos.model_validate({**NODEQOS, "metadata": {"name": "default", "generation": generation}})

    async def get_node_qos_default(self) -> NodeQos:
        return self.nodeqos

    async def put_node_qos_default(self, body: Any) -> None:
        self.written["nodeqos"] = body

    def __getattr__(self, name: str) -> Any:
        async def put(document: str, body: Any) -> None:
            self.written[f"{name.removeprefix('put_')}/{document}"] = body

        if not name.startswith("put_"):
            raise AttributeError(name)
        return put

    async def get_elastic_quota(self, name: str) -> Any:
        if f"elastic_quota/{name}" not in self.written:
            raise NotFound(name)

    async def list_claims(self, quota: str) -> Any:
        return SimpleNamespace(items=list(self.claims[quota].values()))

    async def submit_claim(self, quota: str, body: Any) -> None:
        self.claims[quota][body["id"]] = SimpleNamespace(id=body["id"], reclaim=None, admitted_at=1)

    async def start_claim(self, quota: str, claim: str) -> None:
        assert claim in self.claims[quota]

    async def release_claim(self, quota: str, claim: str) -> None:
        del self.claims[quota][claim]

    async def list_offers(self) -> AsyncIterator[Any]:
        for number in range(3):
            yield SimpleNamespace(node=f"n{number}", batch=SimpleNamespace(cpu_milli=1000 * number))

    async def list_pods(self) -> AsyncIterator[Any]:
        for number in range(3):
            yield SimpleNamespace(uid=f"u{number}", node=f"n{number}", workload="orders")


class DayOver(Exception):
    """The last round is over."""


@dataclass
class Rounds:
    """A day whose rounds begin at given seconds."""

    api: Api
    left: list[float] = field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        self.day = SimulatedDay(self.api, lambda: self.left[0], self.sleep)  # type: ignore[arg-type]

    async def sleep(self, _seconds: float) -> None:
        if len(self.left) == 1:
            raise DayOver
        self.left.pop(0)

    async def at(self, *seconds: float) -> None:
        """One round at each of these seconds since the beginning."""
        self.left = list(seconds)
        with pytest.raises(DayOver):
            await self.day.run()


async def test_the_operator_writes_once_and_nothing_where_something_was_changed() -> None:
    api = Api()
    await Rounds(api).at(0, 5)
    assert api.written["nodeqos"]["spec"]["mode"] == "evict"
    rule = api.written["nodeqos"]["spec"]["rules"][-1]["actionName"]
    assert rule in api.written["pod_qos/batch"]["spec"]["allowedActions"]
    assert f"avoidance_action/{rule}" in api.written
    own = Api(generation=2)
    await Rounds(own).at(0)
    assert set(own.written) == {"elastic_quota/team-a", "elastic_quota/team-b"}


async def test_the_borrower_fills_up_and_the_lender_asks_now_and_then() -> None:
    api = Api()
    day = Rounds(api)
    day.day.lender_asked_at = 0.0
    await day.at(0)
    assert (len(api.claims[BORROWER]), len(api.claims[LENDER])) == (BORROWED_CLAIMS, 0)
    await day.at(REST_SECONDS, REST_SECONDS + 5)
    assert len(api.claims[LENDER]) == LENDER_CLAIMS
    reclaimed = next(iter(api.claims[BORROWER].values()))
    reclaimed.reclaim = SimpleNamespace()
    await day.at(REST_SECONDS + 10)
    assert reclaimed.id not in api.claims[BORROWER]
    await day.at(REST_SECONDS + 15 + RUN_SECONDS, REST_SECONDS + 20 + RUN_SECONDS)
    assert api.claims[LENDER] == {}, "what has run is released, and not asked for again at once"


async def test_a_pod_moves_from_the_smallest_offer_to_the_largest() -> None:
    api = Api()
    await Rounds(api).at(0, MOVE_SECONDS / 2, MOVE_SECONDS / 2 + 5)
    [spec] = [body["spec"] for name, body in api.written.items() if name.startswith("pod_migration_job/")]
    assert (spec["podRef"], spec["targetNode"]) == ({"uid": "u0"}, "n2")


async def test_an_error_of_the_day_is_logged_when_it_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was raised at the end of `up` alone, hours later."""

    async def broken(_day: SimulatedDay) -> None:
        raise KeyError("spec")

    configure("slackwater", level="warning")
    monkeypatch.setattr(SimulatedDay, "run", broken)
    async with _beside(Endpoint("http://127.0.0.1:1", "", 1), is_day=True):
        for _ in range(20):
            await asyncio.sleep(0)
        logged = capsys.readouterr().err
    assert "simulated day ended" in logged
    assert "KeyError" in logged


async def test_what_is_refused_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("slackwater", level="warning")
    api = Api()

    async def refuse(_name: str, _body: Any) -> None:
        raise InvalidInput("spec.mode: 'evict' is not allowed", code="invalid_document")

    monkeypatch.setattr(api, "put_autonomy", refuse, raising=False)
    await Rounds(api).at(0, 5, 10)
    logged = capsys.readouterr().err
    assert logged.count("simulated day refused") == 1
    assert "spec.mode" in logged
