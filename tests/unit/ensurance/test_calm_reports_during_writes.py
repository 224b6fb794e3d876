"""While a decision about one node is written, reports of other nodes are handled; a lock of all nodes holds all."""

from __future__ import annotations

import asyncio

import pytest
from ensurance_scene import Scene, reported

from slackwater.intents.node_cache import ALL_NODES
from slackwater.model.errors import Unavailable

CALM, ABOVE = 0.02, 0.4


def last_seen(scene: Scene, node: str) -> int | None:
    known = scene.cache.node(node)
    assert known is not None
    return None if known.last_report is None else known.last_report.sequence


async def passes(scene: Scene, *, held: str, node: str, pressure: float = CALM) -> bool:
    """Whether a report of `node` is handled while the turn about `held` lasts."""
    async with scene.cache.lock(held):
        handling = asyncio.create_task(scene.guard(reported(1, at=scene.clock.now(), pressure=pressure, node=node)))
        for _ in range(20):
            await asyncio.sleep(0)
        passed = handling.done()
    await handling
    assert last_seen(scene, node) == 1, "in the end each report is handled"
    return passed


@pytest.mark.parametrize(
    ("held", "node", "pressure", "passed"),
    [
        ("n1", "n2", CALM, True),
        ("n1", "n1", CALM, False),
        ("n1", "n2", ABOVE, True),
        ("n1", "n1", ABOVE, False),
        (ALL_NODES, "n2", CALM, False),
        (ALL_NODES, "n2", ABOVE, False),
    ],
)
async def test_only_reports_of_other_nodes_pass(held: str, node: str, pressure: float, passed: bool) -> None:
    scene = await Scene().open("n1", "n2")
    assert await passes(scene, held=held, node=node, pressure=pressure) is passed


async def test_what_is_taken_and_given_back_on_one_node_waits_for_no_other() -> None:
    scene = await Scene().open("n1", "n2")
    passed = []
    for sequence in range(1, 32):
        pressure = ABOVE if sequence == 1 else CALM
        async with scene.cache.lock("n2"):
            prod = 1000 if sequence == 1 else 300
            report = reported(sequence, at=scene.clock.now(), pressure=pressure, prod=prod)
            handling = asyncio.create_task(scene.guard(report))
            for _ in range(20):
                await asyncio.sleep(0)
            passed.append(handling.done())
        await handling
        assert last_seen(scene, "n1") == sequence
        await scene.clock.advance(1)
    assert all(passed)
    assert scene.intents()[-1].generation > 2, "limits were set and given back meanwhile"


async def fail_about_n1(scene: Scene) -> None:
    async with scene.cache.lock("n1"), scene.cache.transaction():
        assert scene.cache.is_free("n2"), "nothing has failed yet"
        raise Unavailable("PostgreSQL went away")


async def test_after_a_failed_transaction_every_report_waits_for_the_write() -> None:
    scene = await Scene().open("n1", "n2")
    assert scene.cache.is_free("n2")
    with pytest.raises(Unavailable):
        await fail_about_n1(scene)
    assert not scene.cache.is_free("n2")
    await scene.guard(reported(1, at=scene.clock.now(), pressure=CALM, node="n2"))
    assert last_seen(scene, "n2") == 1
    assert scene.cache.is_free("n2"), "it was read again"


async def test_ignored_reports_are_recorded_as_before_and_known_nodes_only_pass() -> None:
    scene = await Scene().open("n1")
    for _ in range(2):
        await scene.guard(reported(1, at=scene.clock.now(), pressure=CALM))
    await scene.guard(reported(1, at=scene.clock.now(), pressure=CALM, node="nobody"))
    ignored = "slackwater_ensurance_reports_ignored_total"
    assert scene.metric(ignored, reason="known") == 1
    assert scene.metric(ignored, reason="unknown_node") == 1
