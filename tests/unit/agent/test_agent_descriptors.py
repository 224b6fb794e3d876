"""More pods than the process may have files open: all are measured, and no original is forgotten."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_fakes import NODE, fake_hierarchy, pod
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux import driver as driver_module
from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import CpuThrottle, IntentDeclared
from slackwater.model.errors import Misconfigured

PODS = 40
KEPT_BY_EACH = 6


@contextmanager
def at_most(descriptors: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def exhausted() -> Iterator[None]:
    """Not one file more can be opened."""
    taken: list[int] = []
    with at_most(open_now() + 64):
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            yield
        finally:
            for descriptor in taken:
                os.close(descriptor)


def open_now() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LinuxDriver:
    """On a machine that does not let the agent have more than it has."""
    monkeypatch.setattr(driver_module, "raise_descriptor_limit", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    layout = Layout(fake_hierarchy(tmp_path / "trees", "hybrid"), "test", tmp_path / "agent", 4)
    found = LinuxDriver(layout, FakeClock())
    for number in range(PODS):
        one = pod(f"uid-{number}")
        PodRegistry(layout.agent_dir / "pods").add(Entry(one, process_of(os.getpid()), "test"))
        layout.make_pod(one.tier, one.uid)
    return found


def test_all_pods_are_measured_with_fewer_descriptors_than_they_have_files(driver: LinuxDriver) -> None:
    with at_most(open_now() + PODS * KEPT_BY_EACH // 2):
        driver.open()
        for _ in range(2):
            sample = driver.sample()
            assert len(sample.pods) == PODS
            assert all(one.memory_bytes is not None and one.psi.cpu_some_us is not None for one in sample.pods)
        assert driver.read(driver.knob(CPU_LIMIT, "uid-7")) == "-1"
        driver.close()


def intent(clock: FakeClock, generation: int, *throttles: CpuThrottle) -> IntentDeclared:
    return IntentDeclared(
        node=NODE, writer="ensurance", generation=generation, declared_at=clock.now(), lease_seconds=3600.0,
        throttles=throttles,
    )  # fmt: skip


def test_a_file_that_cannot_be_opened_for_a_moment_is_not_gone(driver: LinuxDriver) -> None:
    """Descriptors of other programs are not restored: what the agent had written stays known as its own."""
    clock = FakeClock()
    driver.open()
    converge = ConvergeToIntents(NODE, "boot", driver, Actuator(driver, MemoryJournal()), clock, 4000)
    throttle = CpuThrottle(pod_uid="uid-7", cpu_limit_milli=250, decision_id="d")
    converge.receive(event_of(intent(clock, 1, throttle), source="test", time=clock.now()))
    pods, knob = driver.pods(), driver.knob(CPU_LIMIT, "uid-7")
    with exhausted():
        with pytest.raises(Misconfigured, match="Too many open files"):
            driver.read(knob)
        assert driver.pods() == pods
        converge.tick(pods)
    assert knob in converge.actuator.journal
    converge.receive(event_of(intent(clock, 2), source="test", time=clock.now()))
    assert driver.read(knob) == "-1"
    driver.close()
