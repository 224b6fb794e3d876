"""A real disk of 16 MB is fine, nearly full and full as it fills, and fine again; readiness follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.faults.disk import SmallDisk
from tests.faults.scenario import Skipped

from slackwater.model.limited_resource import FillLevel, Limited
from slackwater.runtime.limited_readings import LimitedReadings
from slackwater.runtime.process_limits import process_limits
from slackwater.telemetry.metrics import Meters

DISK_BYTES = 16 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        with SmallDisk(tmp_path / "disk", DISK_BYTES) as disk:
            yield disk
    except Skipped as reason:
        pytest.skip(str(reason))


async def test_a_small_disk_is_named_before_it_is_full_and_takes_the_process_out_when_it_is(disk: SmallDisk) -> None:
    readings = LimitedReadings(Meters(CollectorRegistry()))

    async def level() -> tuple[FillLevel, bool]:
        readings.note("process", await process_limits({"state": disk.path / "not" / "made" / "yet"}))
        (found,) = (each for each in readings.newest() if each.kind is Limited.DISK)
        assert (found.name, found.limit) == ("state", DISK_BYTES)
        return found.level, found.stops_process

    assert await level() == (FillLevel.FINE, False)
    disk.fill(leave_bytes=2 << 20)
    assert await level() == (FillLevel.NEARLY_FULL, False)
    disk.fill()
    assert await level() == (FillLevel.FULL, True)
    disk.clear()
    assert await level() == (FillLevel.FINE, False)
