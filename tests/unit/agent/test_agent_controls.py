"""A control takes one module and one entry: memory.high of the example, on every kind of machine, with every promise.

No driver, no journal and no use case knows the example: what is tested is that none of them has to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_fakes import CAPACITY_MILLI, NODE, FakeDriver, fake_hierarchy, pod
from agent_world import World, throttle
from example_memory_soft import MEMORY_SOFT, MemorySoft
from tests.support.clock import FakeClock

from slackwater.agent.adapters.linux import hierarchy as hierarchy_module
from slackwater.agent.adapters.linux import layout as layout_module
from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.processes import process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.memory import MemoryJournal
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.domain.controls.catalog import CONTROLLERS, CONTROLS, KNOBS
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.ports import Driver
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.errors import NotFound
from slackwater.model.tiers import QoSClass, Tier

WITH_EXAMPLE = (*CONTROLS, MemorySoft())  # the one entry
WITH_KNOB = (*KNOBS, MEMORY_SOFT)
GIB = 1 << 30
VERSIONS = ("v1", "v1-comounted", "hybrid", "v2")


def linux(version: str, folder: Path) -> LinuxDriver:
    layout = Layout(fake_hierarchy(folder / "trees", version), "test", folder / "agent", 4)
    driver = LinuxDriver(layout, FakeClock(), knobs=WITH_KNOB)
    driver.open()
    for one in (pod("a"), pod("p", Tier.PROD)):
        PodRegistry(layout.agent_dir / "pods").add(Entry(one, process_of(os.getpid()), layout.instance))
        layout.make_pod(one.tier, one.uid)
    return driver


def simulated() -> SimulatedDriver:
    clock = FakeClock()
    driver = SimulatedDriver("sim-1", 1, clock, started_at=clock.now(), knobs=WITH_KNOB)
    driver.open()
    return driver


@pytest.fixture(params=[*VERSIONS, "simulated"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    found = simulated() if request.param == "simulated" else linux(request.param, tmp_path)
    yield found
    found.close()


def intent(generation: int, lease_seconds: float = 60.0) -> IntentDeclared:
    return IntentDeclared(
        node=NODE, writer="ensurance", generation=generation, declared_at=FakeClock().now(), lease_seconds=lease_seconds
    )


def agent(driver: Driver, journal: MemoryJournal, controls: object = WITH_EXAMPLE) -> ConvergeToIntents:
    actuator = Actuator(driver, journal)
    actuator.recover()
    return ConvergeToIntents(NODE, "boot", driver, actuator, FakeClock(), CAPACITY_MILLI, controls=controls)  # type: ignore[arg-type]


def texts(driver: Driver) -> dict[str, str]:
    return {one.uid: driver.read(driver.knob(MEMORY_SOFT, one.uid)) for one in driver.pods()}


def test_its_knob_is_written_journaled_and_given_back_on_every_machine(driver: Driver) -> None:
    before = texts(driver)
    converge = agent(driver, MemoryJournal())
    converge.receive(event_of(intent(1), source="test", time=FakeClock().now()))
    for one in driver.pods():
        knob = driver.knob(MEMORY_SOFT, one.uid)
        wanted = one.request.memory_bytes if one.tier is Tier.BATCH else None
        assert driver.parse(knob, driver.read(knob)) == wanted
        assert (knob in converge.actuator.journal) is (one.tier is Tier.BATCH)
    assert texts(driver) != before
    assert converge.actuator.restore_all().exact
    assert texts(driver) == before


def test_after_a_crash_the_next_process_gives_it_back(driver: Driver) -> None:
    before, journal = texts(driver), MemoryJournal()
    agent(driver, journal).receive(event_of(intent(1), source="test", time=FakeClock().now()))
    assert texts(driver) != before
    assert Actuator(driver, journal).recover().exact
    assert texts(driver) == before


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_without_the_control_gives_back_what_one_with_it_had_written(version: str, tmp_path: Path) -> None:
    newer, journal = linux(version, tmp_path), MemoryJournal()
    before = texts(newer)
    agent(newer, journal).receive(event_of(intent(1), source="test", time=FakeClock().now()))
    older = LinuxDriver(newer.layout, FakeClock())
    assert Actuator(older, journal).recover().exact
    assert texts(newer) == before


def test_a_claim_that_no_control_declares_any_more_is_given_back_while_the_agent_runs(world: World) -> None:
    driver = world.driver
    driver.specs = WITH_KNOB
    driver.add(*driver.living.values())
    journal = MemoryJournal()
    agent(driver, journal).receive(event_of(intent(1), source="test", time=FakeClock().now()))
    knob = Knob("a", "memory_soft")
    driver.refused.add(knob)
    older = agent(driver, journal, CONTROLS)
    assert driver.knobs[knob] == str(GIB), "refused at the start"
    driver.refused.clear()
    older.tick(driver.pods())
    assert driver.knobs[knob] == "max"


def test_a_kernel_without_the_file_is_no_failure(tmp_path: Path) -> None:
    driver = linux("v1", tmp_path)
    file = Path(driver.knob(MEMORY_SOFT, "a").path)
    file.unlink()
    converge = agent(driver, MemoryJournal())
    assert converge.receive(event_of(intent(1), source="test", time=FakeClock().now())) != []
    assert len(converge.actuator.journal) > 0
    assert converge.actuator.restore_all().exact
    driver.close()


def test_a_machine_without_the_controller_has_no_such_knob(tmp_path: Path) -> None:
    hierarchy = fake_hierarchy(tmp_path / "trees", "v1")
    object.__setattr__(hierarchy, "memory", None)
    driver = LinuxDriver(Layout(hierarchy, "test", tmp_path / "agent", 4), FakeClock(), knobs=WITH_KNOB)
    with pytest.raises(NotFound, match="memory"):
        driver.knob(MEMORY_SOFT, Tier.BATCH)


@pytest.fixture
def world() -> World:
    found = World()
    found.driver = FakeDriver(found.clock, specs=WITH_KNOB)
    found.driver.add(pod("a"), pod("s", qos=QoSClass.SYSTEM), pod("p", Tier.PROD))
    return found


async def test_the_whole_agent_runs_it_beside_the_others(world: World) -> None:
    service = world.service()
    service.controls = WITH_EXAMPLE
    async with world.running(service):
        await world.declare(throttles=[throttle("a", 400)], lease_seconds=10.0)
        high = {uid: world.driver.knobs[Knob(uid, "memory_soft")] for uid in ("a", "s", "p")}
        assert high == {"a": str(GIB), "s": "max", "p": "max"}
        assert world.driver.limit("a") == "400"
        world.driver.knobs[Knob("a", "memory_soft")] = "777"
        await world.clock.advance(1.5)
        assert world.all(IntentObserved)[-1].foreign_writers == ("a",), "a foreign writer is told, not fought"
        world.driver.knobs[Knob("a", "memory_soft")] = "max"
        await world.clock.advance(1)
        assert world.driver.knobs[Knob("a", "memory_soft")] == str(GIB)
        await world.clock.advance(10)
        assert world.driver.knobs[Knob("a", "memory_soft")] == "max", "its writer's lease has run out"
    assert service.restored_exactly


def test_every_kind_of_knob_has_one_control_and_both_notations() -> None:
    assert len({control.knob.name for control in CONTROLS}) == len(CONTROLS)
    assert {knob.name for knob in KNOBS if knob.v1 is None or knob.v2 is None} == {
        "memory_pause",
        "memory_low",
        "memory_min",
    }
    assert CONTROLLERS == ("cpu", "cpuset", "memory")


def test_cgroup_trees_and_controllers_follow_from_the_declared_knobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hierarchy_module, layout_module):
        monkeypatch.setattr(module, "CONTROLLERS", ("cpu", "io", "blkio", "cpuset"))
    mounted = "".join(f"36 25 0:31 / /cg/{name} rw - cgroup cgroup rw,{name}\n" for name in ("cpu", "memory", "blkio"))
    v1 = hierarchy_module.hierarchy_of(mounted)
    assert (v1.tree("blkio"), v1.tree("memory"), v1.tree("cpuset")) == (Path("/cg/blkio"), Path("/cg/memory"), None)
    assert v1.directories("x") == (Path("/cg/cpu/x"), Path("/cg/memory/x"), Path("/cg/blkio/x"))
    in_part = hierarchy_module.hierarchy_of(mounted.replace("/cg/blkio rw", "/cg/blkio ro"))
    assert in_part.trees() == (Path("/cg/cpu"), Path("/cg/memory"))
    v2 = fake_hierarchy(tmp_path / "trees", "v2")
    mount = v2.tree("io")
    assert mount is not None
    (mount / "cgroup.controllers").write_text("cpu io memory pids\n")
    layout = Layout(v2, "test", tmp_path / "agent", 4)
    layout.make_pod(Tier.BATCH, "uid-1")
    for cgroup in ("", layout.root, layout.tier(Tier.BATCH)):
        assert (mount / cgroup / "cgroup.subtree_control").read_text() == "+cpu +memory +io"
    assert json.loads((tmp_path / "agent/controllers.json").read_text())["added"] == ["cpu", "memory", "io"]


def test_a_controller_that_a_newer_version_enabled_is_taken_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(fake_hierarchy(tmp_path / "trees", "v2"), "test", tmp_path / "agent", 4)
    mount = layout.cpu_directory("")
    (mount / "cgroup.controllers").write_text("cpu io memory pids\n")
    layout.ensure_tiers()
    monkeypatch.setattr(layout_module, "CONTROLLERS", ("cpu", "io"))
    (mount / "cgroup.subtree_control").write_text("cpu memory\n")  # as the kernel shows it
    layout.ensure_tiers()
    assert json.loads((tmp_path / "agent/controllers.json").read_text())["added"] == ["cpu", "memory", "io"]


# ---- the page, done as it says

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/how-to/add-a-control.md"
EXAMPLE = Path(__file__).with_name("example_memory_soft.py")
AGENT = ROOT / "services/slackwater/agent"
CATALOG = "services/slackwater/agent/domain/controls/catalog.py"
RUN = """
from pathlib import Path
from slackwater.agent.domain.controls.catalog import CONTROLLERS, CONTROLS
from slackwater.agent.domain.controls.memory_soft import MEMORY_SOFT
from slackwater.agent.service import build_fleet
from slackwater.agent.settings import AgentSettings
from slackwater.agent.usecases.actuate import Actuator
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.runtime.platform import Platform
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

clock = FakeClock()
platform = Platform(MemoryBus(), clock, lambda service: None, Path("/nowhere"))
[service] = build_fleet(AgentSettings(driver="simulated", nodes=1), platform).agents
driver, now = service.driver, clock.now()
driver.open()
converge = ConvergeToIntents("sim-01", "boot", driver, Actuator(driver, service.journal), clock, 8000)
document = IntentDeclared(node="sim-01", writer="w", generation=1, declared_at=now, lease_seconds=60.0)
converge.receive(event_of(document, source="test", time=now))
print(*sorted({driver.read(driver.knob(MEMORY_SOFT, pod.uid)) for pod in driver.pods()}))
print(converge.actuator.restore_all().exact, CONTROLLERS, len(service.controls), len(CONTROLS))
"""


def code_blocks(page: str) -> list[str]:
    return [part.split("```")[0] for part in page.split("```python\n")[1:]]


def test_the_page_shows_the_example_and_lists_the_files_that_it_takes() -> None:
    page = PAGE.read_text()
    knob, control, _ = code_blocks(page)
    assert knob in EXAMPLE.read_text()
    assert control in EXAMPLE.read_text()
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert listed == [
        str((AGENT / "domain/controls/memory_soft.py").relative_to(ROOT)),
        CATALOG,
        str(Path(__file__).relative_to(ROOT)),
    ]


def test_a_control_added_as_the_page_says_runs_in_the_agent(tmp_path: Path) -> None:
    """A copy of the agent with the files that the page lists, and nothing else, changed."""
    copy = tmp_path / "slackwater/agent"
    shutil.copytree(AGENT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(EXAMPLE, copy / "domain/controls/memory_soft.py")
    imported, entry = code_blocks(PAGE.read_text())[2].strip().split("\n\n")
    catalog = copy / "domain/controls/catalog.py"
    lines = catalog.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("CONTROLS"))
    lines[at] = entry
    catalog.write_text("\n".join([*lines[:at], imported, *lines[at:]]))
    paths = [str(tmp_path), str(ROOT / "services"), str(ROOT / "libs")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{GIB} max", "True ('cpu', 'memory') 5 5"], done.stderr
