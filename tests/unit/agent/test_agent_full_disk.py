"""No room on the agent's disk: nothing is written that could not be given back, and the agent lives on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_fakes import pod
from agent_world import World, eviction, no_database, throttle

from slackwater.agent.adapters import durable
from slackwater.agent.adapters.disk_files import OsFiles
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.domain.journal import record
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build_agent, state_in
from slackwater.agent.settings import AgentSettings
from slackwater.agent.usecases.actuate import Actuator
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.errors import Unavailable
from slackwater.model.tiers import Tier
from slackwater.runtime.platform import Platform

KNOB = Knob("a", "cpu_limit")


class Disk(OsFiles):
    """Takes `room` more bytes, by whatever way; then it is full, as a real one is: part of a write may still fit."""

    def __init__(self) -> None:
        self.room = 1 << 30
        self.before_sync: Callable[[], object] = lambda: None

    def write(self, descriptor: int, content: bytes) -> int:
        taken = min(self.room, len(content))
        if content and not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return super().write(descriptor, content[:taken])

    def sync(self, descriptor: int) -> None:
        self.before_sync()
        super().sync(descriptor)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    return found


def on_disk(world: World, folder: Path, disk: Disk) -> AgentService:
    platform = Platform(world.bus, world.clock, no_database, folder)
    return build_agent(AgentSettings(), platform, world.driver, state_in(folder, disk=disk, boot_id="boot"))


def test_a_line_that_did_not_fit_is_taken_back_and_those_after_it_are_whole(disk: Disk, tmp_path: Path) -> None:
    file = LinesJournal(tmp_path / "journal", disk)
    file.append([record("claim", KNOB, "max")], sync=True)
    disk.room = 10
    with pytest.raises(Unavailable, match="No space left"):
        file.append([record("claim", Knob("b", "cpu_limit"), "max"), record("write", KNOB, "10")], sync=True)
    disk.room = 1 << 20
    file.append([record("write", KNOB, "20")], sync=False)
    assert file.load().knobs() == (KNOB,)
    claim = file.load().claim_of(KNOB)
    assert claim is not None
    assert claim.written == ["20"]
    file.close()


async def test_what_cannot_be_journalled_is_not_written_and_reported_until_there_is_room(
    disk: Disk, world: World, tmp_path: Path
) -> None:
    async with world.running(on_disk(world, tmp_path, disk)):
        await world.declare(throttles=[throttle("a", 400)])
        disk.room = 0
        await world.declare(throttles=[throttle("a", 300), throttle("b", 200)])
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("400", "max")
        told = world.all(IntentObserved)[-1]
        assert [(one.pod_uid, one.cpu_limit_milli, one.error) for one in told.limits] == [
            ("a", 400, "journal_not_written"),
            ("b", None, "journal_not_written"),
        ]
        await world.clock.advance(3)
        disk.room = 1 << 20
        await world.clock.advance(1)
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("300", "200")


async def test_what_goes_back_needs_no_room(disk: Disk, world: World, tmp_path: Path) -> None:
    service = on_disk(world, tmp_path, disk)
    async with world.running(service):
        await world.declare(throttles=[throttle("a", 400), throttle("b", 200)])
        disk.room = 0
        await world.declare(throttles=[throttle("b", 200)])
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("max", "200")
    assert service.restored_exactly
    assert (world.driver.limit("a"), world.driver.limit("b")) == ("max", "max")
    assert world.driver.closed


async def test_a_release_that_could_not_be_noted_does_not_bring_an_old_value_back(
    disk: Disk, world: World, tmp_path: Path
) -> None:
    file = LinesJournal(tmp_path / "journal", disk)
    async with world.running(on_disk(world, tmp_path, disk)):
        await world.declare(throttles=[throttle("a", 400)])
        disk.room = 0
        await world.declare(throttles=[])
        world.driver.knobs[KNOB] = "900"  # its owner gives it another limit
        disk.room = 1 << 20
        await world.declare(throttles=[throttle("a", 300)])
        kept = file.load().claim_of(KNOB)
    assert kept is not None
    assert kept.previous == "900"


def test_an_agent_that_died_is_put_right_although_the_disk_is_full(disk: Disk, world: World, tmp_path: Path) -> None:
    file = LinesJournal(tmp_path / "journal", disk)
    file.append([record("claim", KNOB, "max"), record("write", KNOB, "10")], sync=True)
    file.close()
    world.driver.knobs[KNOB] = "10"
    disk.room = 0
    actuator = Actuator(world.driver, file)
    assert actuator.recover().exact
    assert world.driver.limit("a") == "max"


async def test_an_eviction_that_cannot_be_noted_does_not_begin_until_there_is_room(
    disk: Disk, world: World, tmp_path: Path
) -> None:
    async with world.running(on_disk(world, tmp_path, disk)):
        disk.room = 0
        await world.declare(evictions=[eviction(world, "a")])
        await world.clock.advance(3)
        assert world.driver.signals == []
        disk.room = 1 << 20
        await world.clock.advance(2)
        assert [(one.id, one.outcome) for one in world.all(EvictionCompleted)] == [("e1", "terminated")]


async def test_an_eviction_waits_for_no_slow_disk(disk: Disk, world: World, tmp_path: Path) -> None:
    """Each sync may take seconds; limits, documents and the ledger are synced after the signal."""
    async with world.running(on_disk(world, tmp_path, disk)):
        await world.clock.advance(1)
        disk.before_sync = lambda: syncs.append(len(world.driver.signals))
        syncs: list[int] = []
        await world.declare(throttles=[throttle("b", 200)], evictions=[eviction(world, "a")])
        await world.clock.advance(1)
        assert syncs
        assert 0 not in syncs


async def test_the_completion_of_an_eviction_is_published_although_it_cannot_be_journalled(
    disk: Disk, world: World, tmp_path: Path
) -> None:
    world.driver.stubborn.add("a")
    async with world.running(on_disk(world, tmp_path, disk)):
        await world.declare(evictions=[eviction(world, "a", grace=5.0)])
        disk.room = 0
        await world.clock.advance(8)
        assert [(one.id, one.outcome) for one in world.all(EvictionCompleted)] == [("e1", "killed")]
        await world.clock.advance(60)
        disk.room = 1 << 20
    assert len(world.all(EvictionCompleted)) == 1


def test_a_disk_that_takes_nothing_leaves_the_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    durable.replace_file(file, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="make room"):
        durable.replace_file(file, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_bytes() == b"old"
