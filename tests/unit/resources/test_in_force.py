"""A row in the generation in force is neither parsed nor resolved again, and that changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from example_kind import MaintenanceWindow, MaintenanceWindowHooks
from hypothesis import given
from hypothesis import strategies as st
from kind_scenes import declared_example
from tests.support.kinds import KindScene

from slackwater.resources.hooks import InForce
from slackwater.resources.in_force import resolve_all
from slackwater.resources.names import CLUSTER

NAMES = (CLUSTER, "blue", "green", "red")
changes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.none() | st.tuples(st.integers(1, 90), st.none() | st.integers(1, 90))),
    max_size=12,
)


def window(name: str, minutes: int | None, percent: int | None) -> MaintenanceWindow:
    spec = {key: value for key, value in (("minutes", minutes), ("drainedPercent", percent)) if value is not None}
    return MaintenanceWindow.parse({"metadata": {"name": name}, "spec": spec})


async def scene() -> KindScene:
    return await KindScene(declared_example(), MaintenanceWindowHooks()).open()


@given(changes)
def test_what_is_in_force_is_what_the_rows_come_to_read_anew(
    steps: list[tuple[str, tuple[int, int | None] | None]],
) -> None:
    async def check() -> None:
        here = await scene()
        for name, values in steps:
            if values is not None:
                await here.change.put(window(name, *values))
            elif name != CLUSTER and name in here.in_force.now.documents:
                await here.change.delete(name)
            rows = await here.store.read_all()
            assert here.in_force.now == resolve_all(here.kind, rows, here.hooks, InForce())

    asyncio.run(check())


async def test_a_change_parses_no_other_document(monkeypatch: pytest.MonkeyPatch) -> None:
    here = await scene()
    for name in NAMES[1:]:
        await here.change.put(window(name, 5, 5))
    parsed: list[str] = []
    original = MaintenanceWindow.parse_stored

    def count(document: Any) -> MaintenanceWindow:
        parsed.append(document["metadata"]["name"])
        return original(document)

    monkeypatch.setattr(MaintenanceWindow, "parse_stored", staticmethod(count))
    await here.change.put(window("blue", 6, 6))
    assert parsed == ["blue"], "once, when the replica follows what was stored"
