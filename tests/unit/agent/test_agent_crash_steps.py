"""A crash, a vanished pod or a refused write at every single step of actuation: restart, exact restore, converge.

A step is the moment before or after one journal record lands, the journal is replaced, or one kernel file is written.
Every step of the story is the place of a crash once; the recovery may crash as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from agent_fakes import CAPACITY_MILLI, NODE, Crash, FakeDriver, fake_hierarchy, pod
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux import knob_files
from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.ports import Driver
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared, WeightPolicy
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.tiers import Tier

PODS = (pod("a"), pod("b", Tier.FREE), pod("p", Tier.PROD))
STORY: tuple[tuple[WeightPolicy, Mapping[str, int]], ...] = (
    (WeightPolicy.BY_TIER_IDLE, {"a": 400, "b": 300}),
    (WeightPolicy.BY_TIER, {"a": 200}),
    (WeightPolicy.BY_TIER_IDLE, {"a": 200, "b": 100}),
    (WeightPolicy.BY_REQUEST, {}),
)
LAST_WORD = STORY[2]


@dataclass
class Fuse:
    """Ends the process at step number `at`; None = never."""

    at: int | None = None
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise Crash


@dataclass
class Disk:
    """What survives the process: the records, in the order in which they landed."""

    fuse: Fuse
    kept: MemoryJournal = field(default_factory=MemoryJournal)

    def load(self) -> Journal:
        return self.kept.load()

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        self.fuse.step()
        for record in records:  # of one append any number of lines may land
            self.kept.append([record], sync=sync)
            self.fuse.step()

    def replace(self, journal: Journal) -> None:
        self.fuse.step()
        self.kept.replace(journal)
        self.fuse.step()

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Host:
    """A machine that outlives the agent's process, and what its knobs hold."""

    driver: Driver
    texts: Callable[[], Mapping[str, str]]
    remove: Callable[[str], None]


@dataclass
class SteppingDriver(FakeDriver):
    """Calls `on_write` before a write, and burns the fuse before and after it."""

    fuse: Fuse = field(default_factory=Fuse)
    on_write: Callable[[Knob], None] = lambda knob: None
    number: int = 0

    def write(self, knob: Knob, text: str) -> None:
        self.number += 1
        self.fuse.step()
        self.on_write(knob)
        super().write(knob, text)
        self.fuse.step()


def in_memory(fuse: Fuse) -> Host:
    driver = SteppingDriver(FakeClock(), fuse=fuse)
    driver.add(*PODS)
    return Host(driver, lambda: {str(knob): text for knob, text in driver.knobs.items()}, driver.remove)


def on_files(version: str, folder: Path) -> Host:
    """The linux driver on a fake tree whose tiers have cpu.idle, so that one weight is up to two file writes."""
    layout = Layout(fake_hierarchy(folder / "trees", version), "test", folder / "agent", 4)
    driver = LinuxDriver(layout, FakeClock())
    driver.open()
    registry = PodRegistry(layout.agent_dir / "pods")
    for one in PODS:
        registry.add(Entry(one, process_of(os.getpid()), layout.instance))
        layout.make_pod(one.tier, one.uid)
    for tier in Tier:
        (layout.cpu_directory(layout.tier(tier)) / "cpu.idle").write_text("0")

    def texts() -> Mapping[str, str]:
        files = (path for path in (folder / "trees").rglob("cpu.*") if path.is_file())
        return {str(path): path.read_text().strip() for path in files}

    def remove(uid: str) -> None:
        for one in PODS:
            layout.hierarchy.remove(layout.pod(one.tier, uid), with_children=True)
        registry.remove(uid)

    return Host(driver, texts, remove)


def intent(generation: int, word: tuple[WeightPolicy, Mapping[str, int]]) -> IntentDeclared:
    weights, limits = word
    throttles = [CpuThrottle(pod_uid=uid, cpu_limit_milli=limit, decision_id="d") for uid, limit in limits.items()]
    return IntentDeclared(
        node=NODE, writer="ensurance", generation=generation, declared_at=FakeClock().now(), lease_seconds=3600.0,
        weights=weights, throttles=tuple(throttles),
    )  # fmt: skip


@dataclass
class Life:
    """One process of the agent."""

    host: Host
    disk: Disk
    actuator: Actuator = field(init=False)
    converge: ConvergeToIntents = field(init=False)

    def __post_init__(self) -> None:
        self.actuator = Actuator(self.host.driver, self.disk)
        self.converge = ConvergeToIntents(NODE, "boot", self.host.driver, self.actuator, FakeClock(), CAPACITY_MILLI)

    def receive(self, generation: int, word: tuple[WeightPolicy, Mapping[str, int]]) -> None:
        event = event_of(intent(generation, word), source="test", time=FakeClock().now())
        self.converge.receive(event)
        self.converge.tick(self.host.driver.pods())

    def live(self, gone_after: int | None = None) -> None:
        """The whole story; pod b goes after the document of that number."""
        assert self.actuator.recover().exact
        for number, word in enumerate(STORY, 1):
            self.receive(number, word)
            if number == gone_after:
                self.host.remove("b")
                self.converge.tick(self.host.driver.pods())
        assert self.actuator.restore_all().exact


def converged(make: Callable[[], Host], gone: bool) -> Mapping[str, str]:
    """What a machine holds on which nothing ever crashed, after the last word."""
    host = make()
    if gone:
        host.remove("b")
    Life(host, Disk(Fuse())).receive(9, LAST_WORD)
    return host.texts()


def put_right(host: Host, disk: Disk, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """The next process: exact restore, then the same state as on a machine without a crash, then exact again."""
    again = Life(host, disk)
    assert again.actuator.recover().exact
    left = host.texts()
    assert left == {place: text for place, text in before.items() if place in left}
    again.receive(9, LAST_WORD)
    assert host.texts() == {place: text for place, text in wanted.items() if place in left}
    assert again.actuator.restore_all().exact
    assert host.texts() == left
    assert len(disk.load()) == 0


def crashes(make: Callable[[Fuse], Host], gone_after: int | None) -> Iterator[tuple[Fuse, Host, Disk, dict[str, str]]]:
    """The story once for each of its steps, ended there."""
    for step in count(1):
        fuse = Fuse()
        host, disk = make(fuse), Disk(fuse)
        before = dict(host.texts())
        fuse.at = fuse.steps + step
        try:
            Life(host, disk).live(gone_after)
        except Crash:
            yield fuse, host, disk, before
        else:
            assert step > 20, "the story has steps"
            return


@pytest.mark.parametrize("gone_after", [None, 1, 3])
def test_a_crash_at_any_step_is_put_right_by_the_next_process(gone_after: int | None) -> None:
    for fuse, host, disk, before in crashes(in_memory, gone_after):
        fuse.at = None
        gone = "b" not in {one.uid for one in host.driver.pods()}
        put_right(host, disk, before, converged(lambda: in_memory(Fuse()), gone))


def test_a_recovery_that_crashes_at_any_step_is_put_right_as_well() -> None:
    wanted = converged(lambda: in_memory(Fuse()), gone=False)
    ended: set[int] = set()
    for crash_again in range(1, 12):
        for fuse, host, disk, before in crashes(in_memory, None):
            crashed_at = fuse.steps
            if crashed_at in ended:
                continue
            fuse.at = fuse.steps + crash_again
            with suppress(Crash):
                Life(host, disk).actuator.recover()
                ended.add(crashed_at)  # a later step of this recovery is none
            fuse.at = None
            put_right(host, disk, before, wanted)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_crash_between_the_files_of_one_knob_is_put_right(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuses = [Fuse()]
    written = knob_files._write

    def stepping(path: str, text: str) -> None:
        file = Path(path)
        fuses[-1].step()
        written(path, text)
        if file.name == "cpu.idle":  # the kernel shows a weight of its own while a group is idle, then the default
            weight = file.with_name("cpu.weight" if version == "v2" else "cpu.shares")
            shown, default = ("0", "100") if version == "v2" else ("3", "1024")
            weight.write_text(shown if text == "1" else default)
        fuses[-1].step()

    monkeypatch.setattr(knob_files, "_write", stepping)
    reference = tmp_path / "reference"
    wanted = {
        str(Path(place).relative_to(reference)): text
        for place, text in converged(lambda: on_files(version, reference), gone=False).items()
    }
    host = on_files(version, tmp_path / "host")  # every crash is put right, so that one host serves them all

    def make(fuse: Fuse) -> Host:
        fuses.append(fuse)
        return host

    for fuse, _, disk, before in crashes(make, None):
        fuse.at = None
        put_right(host, disk, before, {str(tmp_path / "host" / place): text for place, text in wanted.items()})


def refuse(driver: FakeDriver, knob: Knob) -> None:
    raise Misconfigured(f"{knob.path} is refused", code="write_refused")


def vanish(driver: FakeDriver, knob: Knob) -> None:
    if knob.path in driver.living:  # tiers stay
        driver.remove(knob.path)
        raise NotFound(f"{knob.path} is gone")


@pytest.mark.parametrize("fail", [refuse, vanish])
def test_a_write_that_fails_at_any_step_leaves_the_others_and_ends_exact(
    fail: Callable[[FakeDriver, Knob], None],
) -> None:
    wanted = converged(lambda: in_memory(Fuse()), gone=False)
    failed = 0
    for number in range(1, 20):
        host = in_memory(Fuse())
        driver, before, disk = host.driver, dict(host.texts()), Disk(Fuse())
        assert isinstance(driver, SteppingDriver)
        driver.on_write = failing_at(number, driver, fail)
        life = Life(host, disk)
        life.receive(1, STORY[0])
        life.receive(2, LAST_WORD)
        failed += driver.number >= number
        driver.on_write = lambda knob: None
        life.converge.tick(driver.pods())
        gone = {one.uid for one in PODS} - driver.living.keys()
        left = host.texts()
        limits = {place for place in left if "cpu_limit" in place}
        assert {place: left[place] for place in limits} == {place: wanted[place] for place in limits}
        assert not any(knob.path in gone for knob in life.actuator.journal.knobs())
        assert life.actuator.restore_all().exact
        assert host.texts() == {place: before[place] for place in left}
        assert len(disk.load()) == 0
    assert failed > 5, "the story writes"


def failing_at(number: int, driver: SteppingDriver, fail: Callable[[FakeDriver, Knob], None]) -> Callable[[Knob], None]:
    def on_write(knob: Knob) -> None:
        if driver.number == number:
            fail(driver, knob)

    return on_write
