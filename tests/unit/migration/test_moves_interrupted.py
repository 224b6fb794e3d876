"""A move is interrupted after each transaction: the next process ends it the same way, and no pod is evicted twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from move_scenes import MoveScene, move

from slackwater.events.envelope import Event
from slackwater.migration.adapters.migration_rows import KeyedMigrationStore
from slackwater.migration.domain.stored_jobs import MigrationLedger
from slackwater.model.errors import Unavailable
from slackwater.podmigration.lifecycle_invariants import broken_by_state, broken_by_transition

COMMITS = 5
"""Transactions of an undisturbed move; a test holds it."""


async def moved(scene: MoveScene, stops_after: Collection[int]) -> MigrationLedger:
    """Moves web-0; the service stops, and another one starts, after each of these transactions."""
    async with scene.guarded(), AsyncExitStack() as stack:
        running = await stack.enter_async_context(AsyncExitStack())
        client = await running.enter_async_context(scene.moving())
        await scene.begin(client)
        made = await client.put("/v1/podmigrationjobs/first", json=move("first", "web-0"))
        assert made.status_code == 201, made.text
        stopped = set[int]()
        for _ in range(16):
            await scene.turn()
            generation = (await scene.ledger()).state.generation
            if generation in stops_after and generation not in stopped:
                stopped.add(generation)
                await running.aclose()
                await scene.turn(2)
                running = await stack.enter_async_context(AsyncExitStack())
                await running.enter_async_context(scene.moving())
                await scene.scene.advance(30.0)  # until the leases of the stopped replica are free
        assert stopped == set(stops_after)
        return await scene.ledger()


def is_well_moved(scene: MoveScene, ledger: MigrationLedger) -> bool:
    (stored,) = ledger.jobs.values()
    assert (stored.job.phase, stored.job.outcome) == ("Succeeded", "moved"), stored
    assert scene.evicted == ["web-0"], "once"
    assert ledger.reservations == {}
    assert sum(len(node.pods) for node in scene.nodes.values()) == 3, "none lost, none doubled"
    return True


async def test_an_undisturbed_move_takes_so_many_transactions() -> None:
    scene = MoveScene()
    ledger = await moved(scene, ())
    assert is_well_moved(scene, ledger)
    assert ledger.state.generation == COMMITS


@pytest.mark.parametrize("stop", [*range(1, COMMITS + 1)])
async def test_a_service_that_stops_after_any_transaction_is_followed_by_one_that_goes_on(stop: int) -> None:
    scene = MoveScene()
    assert is_well_moved(scene, await moved(scene, {stop}))


@pytest.mark.parametrize("written", [False, True], ids=["not written", "written"])
async def test_every_transaction_whose_answer_is_lost_is_found_out_by_reading(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction fails once, before or after it was written: the same process reads what is kept."""
    commit: Callable[..., Any] = KeyedMigrationStore.commit
    failed, jobs = list[int](), dict[str, Any]()

    async def lost(
        self: KeyedMigrationStore,
        before: MigrationLedger,
        after: MigrationLedger,
        events: Sequence[Event[Any]],
        done: Collection[str] = (),
    ) -> MigrationLedger:
        for name, stored in after.jobs.items():
            earlier = before.jobs.get(name)
            assert broken_by_state(stored.job) == []
            if earlier is not None and stored.job.step in (earlier.job.step, jobs.get(name)):
                assert broken_by_transition(earlier.job, stored.job) == []
        if before.state.generation not in failed:
            failed.append(before.state.generation)
            if written:
                await commit(self, before, after, events, done)
            raise Unavailable("the connection broke")
        kept: MigrationLedger = await commit(self, before, after, events, done)
        return kept

    monkeypatch.setattr(KeyedMigrationStore, "commit", lost)
    scene = MoveScene()
    ledger = await moved(scene, ())
    assert is_well_moved(scene, ledger)
    assert len(failed) >= COMMITS - 1
