"""MaintenanceWindow: what a document comes to. What every kind promises is in test_every_kind.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_kind import MaintenanceWindow, MaintenanceWindowHooks
from kind_scenes import EXAMPLE, scene_of

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.resources import catalog


async def test_a_window_inherits_what_it_leaves_out() -> None:
    scene = await scene_of(EXAMPLE).open()
    await scene.change.put(MaintenanceWindow.parse(scene.document(drainedPercent=30)))
    found = scene.in_force.now.values["gold"]
    assert (found.drained_percent, found.minutes) == (30, 60)


async def test_a_window_that_drains_the_whole_pool_in_an_hour_is_refused() -> None:
    scene = await scene_of(EXAMPLE).open()
    with pytest.raises(InvalidInput, match=r"spec\.minutes: drains the whole pool"):
        await scene.change.put(MaintenanceWindow.parse(scene.document(drainedPercent=100, minutes=90)))


def test_the_settings_make_the_first_one() -> None:
    assert MaintenanceWindowHooks().first().spec.minutes == 60


def test_the_declaration_is_found_by_its_module_alone() -> None:
    assert (EXAMPLE.name, EXAMPLE.table) == ("MaintenanceWindow", "")
    assert EXAMPLE not in catalog.KINDS
    assert [kind.name for kind in catalog.KINDS] == sorted(kind.name for kind in catalog.KINDS)


def test_two_kinds_with_a_name_in_common_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        source = f"""from dataclasses import replace
from slackwater.resources.kinds import node_qos
KIND = replace(node_qos.NODE_QOS, name="Kind{number}", plural="plural{number}", short=("same",))
"""
        (tmp_path / f"kind_{number}.py").write_text(source)
    monkeypatch.setattr(catalog.kinds, "__path__", [*catalog.kinds.__path__, str(tmp_path)])
    with pytest.raises(Misconfigured, match="both are called 'same'"):
        catalog.declared_kinds([str(tmp_path)])
