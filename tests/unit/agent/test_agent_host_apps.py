"""Host applications: what an operator may write, how they are measured, and that nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import FakeDriver, FakeHierarchy, fake_hierarchy, pod
from agent_world import World
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from structlog.testing import capture_logs
from tests.support.clock import EPOCH, FakeClock

from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.domain.host_apps import HostApplication
from slackwater.agent.domain.observation import Observation
from slackwater.agent.domain.samples import HostSample, PodSample, PsiTotals, RawSample
from slackwater.agent.process import main
from slackwater.agent.settings import AgentSettings
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier

SECOND = 1_000_000_000
NGINX = HostApplication("nginx", Tier.PROD, "system.slice/nginx.service")
YARN = HostApplication("yarn", Tier.BATCH, "hadoop/yarn")
VARIABLE = "SLACKWATER_AGENT_HOST_APPLICATIONS"


def said(monkeypatch: pytest.MonkeyPatch, value: Any) -> tuple[HostApplication, ...]:
    monkeypatch.setenv(VARIABLE, value if isinstance(value, str) else json.dumps(value))
    return AgentSettings().host_applications


def test_they_are_named_with_a_cgroup_and_a_tier_or_a_qos_class(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"name": "nginx", "tier": "prod", "cgroup": "/system.slice/nginx.service/"},
        {"name": "yarn", "qos": "BE", "cgroup": "hadoop/yarn"},
        {"name": "sshd", "cgroup": "system.slice/ssh.service"},
        {"name": "mail", "tier": "mid", "qos": "LS", "cgroup": "mail"},
    ]
    found = said(monkeypatch, entries)
    assert found[:2] == (NGINX, YARN)
    assert [app.tier for app in found] == [Tier.PROD, Tier.BATCH, Tier.PROD, Tier.MID]
    assert AgentSettings.model_validate({"host_applications": found}).host_applications == found
    assert AgentSettings(host_applications=(NGINX,)).model_dump(mode="json")["host_applications"][0]["name"] == "nginx"


def entry(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "nginx", "tier": "prod", "cgroup": "system.slice/nginx.service"} | changes]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[{", "not JSON"),
        ('"nginx"', "a list is allowed"),
        ({"name": "nginx"}, "a list is allowed"),
        (["nginx"], "entry 0"),
        (entry(cgroup=""), "below the mount point"),
        (entry(cgroup="/"), "not the root itself"),
        (entry(cgroup="a/../b"), "no '..'"),
        (entry(cgroup="a//b"), "no empty part"),
        (entry(cgroup="./a"), "leave out"),
        (entry(cgroup="slackwater-1a2b/prod/x"), "counted already"),
        (entry(name="ng inx"), "letters, digits"),
        (entry(name=""), "letters, digits"),
        (entry(tier="gold"), "tier: Input should be 'prod', 'mid', 'batch' or 'free'"),
        (entry(qos="BE"), "contradict"),
        (entry(color="red"), "color"),
        (entry()[:1] * 2, "there twice"),
        (entry() + entry(name="all", cgroup="system.slice"), "counted twice"),
        (entry(name="all", cgroup="system.slice") + entry(), "counted twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(monkeypatch: pytest.MonkeyPatch, value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        said(monkeypatch, value)
    [error] = refused.value.errors()
    assert error["loc"] == ("host_applications",)
    assert words in error["msg"]


def test_cgroups_beside_each_other_with_a_common_beginning_are_not_nested(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(said(monkeypatch, entry(cgroup="web") + entry(name="two", cgroup="web2"))) == 2


def test_an_agent_of_its_own_says_which_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "[{")
    assert main(["--nats", "nats://127.0.0.1:1", "--state-dir", str(tmp_path)]) == 1
    assert f"slackwater agent: {VARIABLE}: " in capsys.readouterr().err


def sample(at: float, node_ns: int, apps: Sequence[HostSample], pods: Sequence[PodSample] = ()) -> RawSample:
    return RawSample(
        at,
        EPOCH + timedelta(seconds=at),
        node_cpu_busy_ns=node_ns,
        node_memory_bytes=1000,
        pods=tuple(pods),
        host_apps=tuple(apps),
    )


def app(name: str, cpu_ns: int, memory: int = 100, tier: Tier = Tier.PROD) -> HostSample:
    return HostSample(name, tier, cpu_ns, memory)


def test_the_system_is_what_neither_pods_nor_host_applications_used() -> None:
    watched = Observation()
    a = pod("a")
    for second in (0, 1):
        counters = PodSample("a", second * SECOND, 300, PsiTotals(0, 0, 0), 0, 0)
        watched.add(sample(second, 4 * second * SECOND, [app("nginx", 2 * second * SECOND)], [counters]), [a])
    window = watched.close([a])
    assert window is not None
    [nginx] = window.host_apps
    assert (nginx.name, nginx.tier, nginx.cpu.p95, nginx.memory.p95) == ("nginx", Tier.PROD, 2000, 100)
    assert (window.system_cpu.last, window.system_memory.last) == (1000, 600)
    assert (window.node_cpu.last, window.node_memory.last) == (4000, 1000)


def test_a_missing_application_is_absent_and_not_zero_and_its_earlier_usage_is_reported() -> None:
    watched = Observation()
    for second in range(4):
        there = [app("nginx", second * SECOND)] if second < 2 else []
        watched.add(sample(second, 3 * second * SECOND, there), [])
    window = watched.close([])
    assert window is not None
    assert [(one.name, one.cpu.count, one.cpu.p95) for one in window.host_apps] == [("nginx", 1, 1000)]
    assert window.system_cpu.max == 3000
    watched.add(sample(4, 12 * SECOND, []), [])
    later = watched.close([])
    assert later is not None
    assert later.host_apps == ()


def test_one_that_begins_anew_counts_as_system_until_its_rate_is_known() -> None:
    watched = Observation()
    for second, counter in ((0, 50 * SECOND), (1, 51 * SECOND), (2, 7 * SECOND), (3, 8 * SECOND)):
        watched.add(sample(second, 3 * second * SECOND, [app("nginx", counter)]), [])
    window = watched.close([])
    assert window is not None
    [nginx] = window.host_apps
    assert (nginx.cpu.count, nginx.memory.count, nginx.cpu.max) == (2, 2, 1000)
    assert (window.system_cpu.max, window.system_cpu.p50) == (3000, 2000)
    assert window.system_memory.p95 == 1000


used_by_app = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 900), max_size=3)
steps = st.lists(st.tuples(st.integers(0, 4000), used_by_app), min_size=1, max_size=20)


@given(steps)
def test_whatever_starts_and_ends_node_is_the_sum_of_system_and_host_applications(
    steps: list[tuple[int, dict[str, int]]],
) -> None:
    """Sample by sample: a window of one sample has averages that add up."""
    watched, node, used = Observation(), 0, dict.fromkeys("xyz", 0)
    watched.add(sample(0, 0, []), [])
    for second, (rest, apps) in enumerate(steps, start=1):
        for name, milli in apps.items():
            used[name] += milli * 1_000_000
        node += (rest + sum(apps.values())) * 1_000_000
        watched.add(sample(second, node, [app(name, used[name]) for name in apps]), [])
        window = watched.close([])
        assert window is not None
        for whole, system, parts in (
            (window.node_cpu, window.system_cpu, [one.cpu for one in window.host_apps]),
            (window.node_memory, window.system_memory, [one.memory for one in window.host_apps]),
        ):
            assert whole.last == system.last + sum(part.last for part in parts)
        assert {one.name for one in window.host_apps} <= apps.keys()


def make(hierarchy: FakeHierarchy, cgroup: str) -> None:
    for tree in hierarchy.trees():
        parts = cgroup.split("/")
        for depth in range(1, len(parts) + 1):
            hierarchy.make_directory(tree / "/".join(parts[:depth]))


@pytest.mark.parametrize("version", ["v1", "v1-comounted", "hybrid", "v2"])
def test_its_cgroup_is_read_on_every_hierarchy_and_never_written(tmp_path: Path, version: str) -> None:
    hierarchy = fake_hierarchy(tmp_path / "trees", version)
    layout = Layout(hierarchy, "test", tmp_path / "state/agent", 4)
    driver = LinuxDriver(layout, FakeClock(), (NGINX, YARN))
    driver.open()
    assert driver.sample().host_apps == ()
    make(hierarchy, NGINX.cgroup)
    files = [path for place in hierarchy.directories(NGINX.cgroup) for path in place.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    assert driver.sample().host_apps == (HostSample("nginx", Tier.PROD, 0, 12288),)
    for directory in hierarchy.directories(NGINX.cgroup):
        (directory / "memory.stat").unlink(missing_ok=True)
    driver._gauges.close()
    assert driver.sample().host_apps == (), "half of one is none"
    driver.close()
    left = {path: path.read_bytes() for path in files if path.exists()}
    assert left == {path: text for path, text in before.items() if path.name != "memory.stat"}
    assert (tmp_path / "trees").exists()


class WithApps(FakeDriver):
    """A machine on which nginx uses 400 milli-cores while it is there."""

    there = True

    def sample(self) -> RawSample:
        found = super().sample()
        busy = (found.node_cpu_busy_ns or 0) + int(found.monotonic * 400_000_000)
        apps = (app("nginx", int(found.monotonic * 400_000_000), 1 << 20),) if self.there else ()
        return replace(found, node_cpu_busy_ns=busy, host_apps=apps)


async def test_a_report_has_the_applications_and_a_missing_one_is_warned_of_once() -> None:
    world = World()
    world.driver = WithApps(world.clock)
    world.driver.system_milli = 100
    world.driver.add(pod("p", Tier.PROD))
    with capture_logs() as logs:
        async with world.running(host_applications=(NGINX, YARN)):
            await world.clock.advance(10.5)
            world.driver.there = False
            await world.clock.advance(10)
            world.driver.there = True
            await world.clock.advance(5)
            reports = world.all(UsageReported)
    first = reports[0]
    assert [(one.name, one.tier, one.usage.cpu_milli.p95) for one in first.host_apps] == [("nginx", Tier.PROD, 400)]
    assert first.system_usage is not None
    assert first.system_usage.cpu_milli.p95 == 100
    assert '"host_apps":[{"name":"nginx","tier":"prod"' in first.model_dump_json()
    silent = next(one for one in reports if not one.host_apps)
    assert "host_apps" not in silent.model_dump_json()
    assert silent.system_usage is not None
    assert silent.system_usage.cpu_milli.p95 == 500
    told = [(line["event"], line["name"]) for line in logs if line["event"].startswith("host application")]
    assert told == [
        ("host application absent", "yarn"),
        ("host application absent", "nginx"),
        ("host application is there", "nginx"),
    ]
    assert world.driver.writes == []


async def test_a_simulated_machine_may_have_some() -> None:
    clock = FakeClock()
    driver = SimulatedDriver("sim", 1, clock, started_at=EPOCH, host_apps=(NGINX, YARN))
    driver.open()
    watched = Observation()
    for _ in range(6):
        watched.add(driver.sample(), driver.pods())
        await clock.advance(1)
    window = watched.close(driver.pods())
    assert window is not None
    assert [(one.name, one.cpu.p95) for one in window.host_apps] == [("nginx", 400), ("yarn", 400)]
    assert window.system_cpu.max <= 10
    assert window.node_cpu.max <= 8010
