"""A document that the broker lost before its agent received it is declared again: the agent's reports show it."""

from __future__ import annotations

from datetime import datetime

from ensurance_scene import Scene, reported

LEASE = 15.0
RENEWALS = 2 / 3 * LEASE


async def report(scene: Scene, follows: datetime | None, pressure: float = 0.0) -> None:
    """A second passes, and the agent of n1 reports which document it holds."""
    await scene.clock.advance(1)
    scene.sequence += 1
    event = reported(scene.sequence, at=scene.clock.now(), pressure=pressure)
    await scene.guard(event.model_copy(update={"data": event.data.model_copy(update={"intent_declared_at": follows})}))


async def changed() -> tuple[Scene, datetime]:
    """A node with a limit in its second document. Returns when the first was declared, too."""
    scene = await Scene().open()
    first = scene.intents()[-1].declared_at
    await report(scene, first, 0.2)
    assert (len(scene.intents()), scene.limits()) == (2, {"b1": 725})
    return scene, first


async def test_a_document_that_its_agent_does_not_hold_after_two_renewals_is_declared_again() -> None:
    scene, first = await changed()
    for _ in range(int(RENEWALS)):
        await report(scene, first)
        assert await scene.reconcile() == 0
    await report(scene, first)
    assert await scene.reconcile() == 1
    again = scene.intents()[-1]
    assert (again.generation, scene.limits(), again.declared_at) == (2, {"b1": 725}, scene.clock.now())
    await report(scene, first)
    assert await scene.reconcile() == 0, "counted anew"
    for _ in range(int(RENEWALS)):
        await report(scene, first)
    assert await scene.reconcile() == 1, "that was lost as well"
    for _ in range(30):
        await report(scene, scene.intents()[-1].declared_at)
        assert await scene.reconcile() == 0


async def test_an_agent_that_follows_with_a_delay_is_left_alone() -> None:
    scene, first = await changed()
    second = scene.intents()[-1].declared_at
    for _ in range(int(RENEWALS) - 1):
        await report(scene, first)
    for _ in range(30):
        await report(scene, second)
        assert await scene.reconcile() == 0


async def test_an_agent_of_an_older_version_states_no_document() -> None:
    scene, _ = await changed()
    for _ in range(30):
        await report(scene, None)
        assert await scene.reconcile() == 0
