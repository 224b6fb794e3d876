"""Two reports in a row that cannot be decided upon set their node aside; one alone is the report's fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ensurance_scene import Scene, reported

from slackwater.ensurance.usecases import answer_report
from slackwater.model.errors import InvalidInput

ABOVE = 0.4


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Exception], None]:
    """Planning for a node raises from now on."""
    plan = answer_report.guard

    def break_node(node: str, error: Exception) -> None:
        def failing(view: Any, *arguments: Any, **more: Any) -> Any:
            if view.node == node:
                raise error
            return plan(view, *arguments, **more)

        monkeypatch.setattr(answer_report, "guard", failing)

    return break_node


async def test_a_node_whose_every_report_fails_is_set_aside_and_the_others_are_guarded(
    broken: Callable[[str, Exception], None],
) -> None:
    scene = await Scene().open("n1", "n2")
    broken("n1", ZeroDivisionError("division by zero"))
    with pytest.raises(ZeroDivisionError):
        await scene.guard(reported(1, at=scene.clock.now(), pressure=ABOVE))
    assert not scene.cache.quarantine.holds_node("n1")
    with pytest.raises(ZeroDivisionError):
        await scene.guard(reported(1, at=scene.clock.now(), pressure=ABOVE))  # the same again proves nothing
    assert not scene.cache.quarantine.holds_node("n1")
    await scene.clock.advance(1)
    await scene.guard(reported(2, at=scene.clock.now(), pressure=ABOVE))
    assert scene.cache.quarantine.holds_node("n1")
    assert scene.cache.node("n1") is None
    await scene.guard(reported(1, at=scene.clock.now(), pressure=ABOVE, node="n2"))
    assert [record.node for record in scene.records()] == ["n2"]


async def test_reports_that_are_refused_say_nothing_about_their_node(broken: Callable[[str, Exception], None]) -> None:
    scene = await Scene().open("n1")
    broken("n1", InvalidInput("not this"))
    for sequence in (1, 2, 3):
        with pytest.raises(InvalidInput):
            await scene.guard(reported(sequence, at=scene.clock.now(), pressure=ABOVE))
        await scene.clock.advance(1)
    assert not scene.cache.quarantine.holds_node("n1")
