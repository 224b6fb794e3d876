"""One suite of the Driver port: the simulated driver, the world's machine with v1 and v2 files, and real cgroups.

The last tests write the same texts to the twin's files and to those of this kernel, and compare what they then show.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from random import Random

import pytest
from agent_machine import Machine as Here
from driver_hosts import HELD_BYTES, MIB, Host, ended, kubepods, real, simulated, twin
from tests.kubelet.stand_in import KernelMachine, MountedMachine
from tests.world.machine.kernel import Kernel

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.knob_files import MOUNTED_FILES
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.domain.controls.cpu_weight import CPU_WEIGHT
from slackwater.agent.domain.controls.memory_high import MEMORY_HIGH
from slackwater.agent.domain.knobs import BUSY, Knob, KnobSpec, Target, Tree
from slackwater.agent.domain.weights import IDLE_SHARES
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.tiers import Tier


def made(name: str, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Host]:
    match name:
        case "real":
            return real(request.getfixturevalue("machine"))
        case "kubepods-real":
            here: Here = request.getfixturevalue("machine")
            return kubepods(MountedMachine(here.hierarchy), MOUNTED_FILES, f"k{here.instance}".replace("-", ""))
        case "kubepods-v1" | "kubepods-v2":
            kernel = Kernel(name.endswith("v2"), lambda: None)
            return kubepods(KernelMachine(kernel), kernel)
        case "simulated":
            return simulated()
    return twin(pure_v2=name == "twin-v2")


ROOT = pytest.mark.root
OWN = ("simulated", "twin-v1", "twin-v2", pytest.param("real", marks=ROOT))
KUBEPODS = ("kubepods-v1", "kubepods-v2", pytest.param("kubepods-real", marks=ROOT))


@pytest.fixture(params=[*OWN, *KUBEPODS])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    async with made(request.param, request) as found:
        yield found


@pytest.fixture(params=OWN)
async def own_host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """A machine whose cgroups the agent has made: with tiers, and pods that it may end."""
    async with made(request.param, request) as found:
        yield found


def knobs_of(host: Host, target: Target) -> Iterator[tuple[KnobSpec, Knob]]:
    """The declared knobs that this machine has for a target and whose file is there."""
    for spec in KNOBS:
        with suppress(NotFound):
            knob = host.driver.knob(spec, target)
            host.driver.read(knob)
            yield spec, knob


async def test_what_was_read_can_be_written_back_and_changes_nothing(host: Host) -> None:
    uid = await host.start(Tier.BATCH)
    targets: tuple[Target, ...] = (uid, Tier.BATCH, Tree.ROOT)
    found = [(spec, knob) for target in targets for spec, knob in knobs_of(host, target)]
    assert {"cpu_limit", "cpu_weight"} <= {spec.name for spec, _ in found}
    before = {knob: host.driver.read(knob) for _, knob in found}
    for knob, text in before.items():
        host.driver.parse(knob, text)
        host.driver.write(knob, text)
    assert {knob: host.driver.read(knob) for knob in before} == before


@pytest.mark.parametrize("limit", [1, 9, 10, 250, 4000])
async def test_every_limit_can_be_written_and_the_previous_text_comes_back_exactly(host: Host, limit: int) -> None:
    knob = host.driver.knob(CPU_LIMIT, await host.start(Tier.BATCH))
    before = host.driver.read(knob)
    text = host.driver.render(knob, limit)
    host.driver.write(knob, text)
    assert host.driver.read(knob) == text
    assert host.driver.parse(knob, text) == max(limit, 10)
    host.driver.write(knob, before)
    assert host.driver.read(knob) == before
    assert host.driver.parse(knob, before) is None


async def test_a_tier_becomes_idle_and_has_its_weight_back(own_host: Host) -> None:
    await own_host.start(Tier.BATCH)
    knob = own_host.driver.knob(CPU_WEIGHT, Tier.BATCH)
    before = own_host.driver.read(knob)
    for value in (IDLE_SHARES, 2, 4096, IDLE_SHARES, 262_144):
        own_host.driver.write(knob, own_host.driver.render(knob, value))
        assert (
            abs(int(own_host.driver.parse(knob, own_host.driver.read(knob)) or 0) - value) <= 27
        )  # one step of cpu.weight
    own_host.driver.write(knob, before)
    assert own_host.driver.read(knob) == before


async def test_text_that_means_nothing_is_refused_and_not_written(host: Host) -> None:
    knob = host.driver.knob(CPU_LIMIT, await host.start(Tier.BATCH))
    before = host.driver.read(knob)
    with pytest.raises(Misconfigured) as error:
        host.driver.write(knob, "a lot")
    assert error.value.code == "write_refused"
    assert host.driver.read(knob) == before


async def test_a_pod_that_has_ended_has_no_knobs_and_takes_signals_quietly(host: Host) -> None:
    uid = await host.start(Tier.BATCH)
    knob = host.driver.knob(CPU_LIMIT, uid)
    await host.end(uid)
    assert uid not in {pod.uid for pod in host.driver.pods()}
    for act in (lambda: host.driver.read(knob), lambda: host.driver.write(knob, "1000")):
        with pytest.raises(NotFound):
            act()
    with pytest.raises(NotFound):
        host.driver.knob(CPU_LIMIT, uid)
    host.driver.terminate(uid, signal.SIGKILL)
    assert not host.driver.alive(uid)
    assert host.driver.protected(uid) is None


async def test_a_pod_that_ignores_sigterm_ends_with_sigkill(own_host: Host) -> None:
    uid = await own_host.start_deaf()
    own_host.driver.terminate(uid, signal.SIGTERM)
    await own_host.pass_time()
    assert own_host.driver.alive(uid)
    own_host.driver.terminate(uid, signal.SIGKILL)
    await ended(own_host, uid)


async def test_pods_come_in_the_order_of_their_uids_and_samples_have_all_of_them(host: Host) -> None:
    for tier in (Tier.PROD, Tier.BATCH):
        await host.start(tier)
    first = host.driver.sample()
    await host.pass_time()
    second = host.driver.sample()
    uids = [pod.uid for pod in host.driver.pods()]
    assert uids == sorted(uids)
    assert [pod.uid for pod in first.pods] == [pod.uid for pod in second.pods] == uids
    assert second.monotonic > first.monotonic
    assert (second.node_cpu_busy_ns or 0) >= (first.node_cpu_busy_ns or 0)
    for before, after in zip(first.pods, second.pods, strict=True):
        assert (after.cpu_ns or 0) >= (before.cpu_ns or 0)
        assert (after.periods or 0) >= (before.periods or 0)


async def test_a_file_that_another_program_wrote_reads_as_that_program_left_it(host: Host) -> None:
    knob = host.driver.knob(CPU_WEIGHT, await host.start(Tier.BATCH))
    host.write_foreign(knob.path, "777")
    assert host.driver.read(knob) == "777"


async def test_a_memory_level_below_what_a_pod_holds_takes_nothing_from_it(own_host: Host) -> None:
    uid = await own_host.start_holding()
    try:
        knob = own_host.driver.knob(MEMORY_HIGH, uid)
        before = own_host.driver.read(knob)
    except NotFound:
        pytest.skip("no memory controller of cgroups: run the tests as root, or below a delegated tree")
    text = own_host.driver.render(knob, MIB)
    own_host.driver.write(knob, text)
    assert own_host.driver.alive(uid)
    if not knob.path.endswith("memory.high"):  # v1: the hard limit stands in, and stays above what is held
        assert int(text) > HELD_BYTES
        with pytest.raises(Misconfigured) as error:
            own_host.driver.write(knob, str(MIB))
        assert error.value.code == BUSY
        assert own_host.driver.read(knob) == text
    own_host.driver.write(knob, before)
    assert own_host.driver.read(knob) == before


async def test_a_journal_cannot_lead_outside_of_the_instance(host: Host) -> None:
    for path in ("/sys/fs/cgroup/cpu/cpu.shares", "/etc/passwd", "elsewhere/cpu.shares"):
        with pytest.raises(NotFound):
            host.driver.read(Knob(path, "cpu_weight"))
        with pytest.raises(NotFound):
            host.driver.write(Knob(path, "cpu_weight"), "2")


# ---- the twin's files against those of this kernel

V1_TEXTS = {
    "cpu.shares": ("0", "1", "2", "777", "262144", "300000", "-5", "abc", "99.5"),
    "cpu.idle": ("0", "1", "1", "2", "-1"),
    "cpu.cfs_quota_us": ("-1", "-7", "0", "999", "1000", "25000", "60000", "1000000000", "max", "18446744073709"),
    "cpu.cfs_burst_us": ("0", "999", "20000", "25000", "60001", "-1", "abc", "900000"),
    "cpu.cfs_period_us": ("999", "1000", "50000", "100000", "1000000", "1000001", "0"),
    "memory.limit_in_bytes": ("4095", "4096", "10000", "-1", "9223372036854775807", "0", "268435456", "abc", "-2"),
    "memory.oom_control": ("0", "1", "2", "x"),
}
_BYTES = ("4095", "4096", "10000", "max", "9223372036854775807", "0", "268435456", "abc", "-1", "-2")
V2_TEXTS = {
    "cpu.weight": ("0", "1", "2", "777", "10000", "10001", "-5", "abc", "99.5"),
    "cpu.idle": ("0", "1", "1", "2", "-1"),
    "cpu.max": (
        "max", "max 50000", "999", "1000", "25000", "60000 100000", "60000 999", "60000 1000001", "0", "-1", "abc",
        "18446744073709", "max 100000",
    ),
    "cpu.max.burst": ("0", "999", "20000", "25000", "60001", "-1", "abc", "900000"),
    "memory.high": _BYTES,
    "memory.low": _BYTES,
    "memory.max": _BYTES,
    "memory.min": _BYTES,
}  # fmt: skip
_MANY_PAGES = ("1050000", "268435456", "9223372036854775807", "abc", "-2")
V1_IN_SEQUENCES = {**V1_TEXTS, "memory.limit_in_bytes": ("-1", *_MANY_PAGES)}
V2_IN_SEQUENCES = {**V2_TEXTS, "memory.high": ("max", *_MANY_PAGES), "memory.max": ("max", *_MANY_PAGES)}
"""Without limits of a few pages: a group's own structures are charged to its parent, which the twin leaves out."""


class BothKernels:
    """A parent with two children, in this kernel and in the twin; writes go to both."""

    GROUPS = ("p", "p/a", "p/b")

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self.hierarchy, self.name = hierarchy, name
        self.pure_v2 = hierarchy.pure_v2
        self.texts_of = V2_TEXTS if self.pure_v2 else V1_TEXTS
        self.in_sequences = V2_IN_SEQUENCES if self.pure_v2 else V1_IN_SEQUENCES
        self.twin = Kernel(self.pure_v2, lambda: None)
        for group in self.GROUPS:
            self.twin.make(group)
            for tree in hierarchy.trees():
                (tree / name / group).mkdir(parents=True)
        if self.pure_v2:
            for group in (".", "p"):
                (hierarchy.cpu / name / group / "cgroup.subtree_control").write_text("+cpu +memory")

    def remove(self) -> None:
        for tree in self.hierarchy.trees():
            for group in (*reversed(self.GROUPS), "."):
                (tree / self.name / group).rmdir()

    def write(self, group: str, file: str, text: str) -> tuple[str, str]:
        """What a write led to: the errno's name and the text, in this kernel and in the twin."""
        here, there = self._places(group, file)
        return (
            f"{_failure(lambda: _write(here, text))} {_shown(file, here.read_text())}",
            f"{_failure(lambda: self.twin.write(there, text))} {_shown(file, self.twin.read(there))}",
        )

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """Every file of every group, with its text here and in the twin."""
        for group in self.GROUPS:
            for file in self.texts_of:
                here, there = self._places(group, file)
                yield f"{group}/{file}", _shown(file, here.read_text()), _shown(file, self.twin.read(there))

    def _places(self, group: str, file: str) -> tuple[Path, str]:
        controller = file.split(".", maxsplit=1)[0]
        tree = self.hierarchy.tree(controller)
        assert tree is not None
        above = "/sys/fs/cgroup" if self.pure_v2 else f"/sys/fs/cgroup/{controller}"
        return tree / self.name / group / file, f"{above}/{group}/{file}"


def _write(place: Path, text: str) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _failure(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "written"


def _shown(file: str, text: str) -> str:
    return text.splitlines()[0] if file == "memory.oom_control" else text.strip()


@pytest.fixture
def both(machine: Here) -> Iterator[BothKernels]:
    if machine.hierarchy.tree("cpu") is None or machine.hierarchy.tree("memory") is None:
        pytest.skip("no cgroup trees for CPU and memory: run the tests as root, or below a delegated tree")
    found = BothKernels(machine.hierarchy, f"slackwater-{machine.instance}")
    yield found
    found.remove()


@pytest.mark.root
def test_each_text_is_taken_refused_and_shown_as_by_this_kernel(both: BothKernels) -> None:
    different = [
        (file, text, here, there)
        for file, texts in both.texts_of.items()
        for text in texts
        for here, there in (both.write("p/a", file, text),)
        if here != there
    ]
    assert different == []


@pytest.mark.root
@pytest.mark.parametrize("seed", range(8))
def test_any_sequence_of_writes_leaves_the_files_of_this_kernel(both: BothKernels, seed: int) -> None:
    rng = Random(seed)
    for number in range(200):
        file = rng.choice(list(both.in_sequences))
        group, text = rng.choice(both.GROUPS), rng.choice(both.in_sequences[file])
        here, there = both.write(group, file, text)
        assert here == there, f"{number}: {group}/{file} {text!r}"
    for place, here, there in both.texts():
        assert here == there, place
