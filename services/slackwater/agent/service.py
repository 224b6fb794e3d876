"""The composition root of the agent: one machine, or a simulated fleet."""

from __future__ import annotations

from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.linux.driver import LinuxDriver, linux_driver
from slackwater.agent.adapters.linux.lock import AgentLock
from slackwater.agent.adapters.memory import MemoryJournal, MemoryLedger
from slackwater.agent.adapters.report_file import keep_report
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.fleet import FleetService
from slackwater.agent.node_agent import AgentService
from slackwater.agent.ports import Driver
from slackwater.agent.settings import AgentSettings
from slackwater.runtime.platform import Platform
from slackwater.runtime.state import StateDir


def build(settings: AgentSettings, platform: Platform, driver: Driver | None = None) -> AgentService | FleetService:
    """The agent of this machine, of the given one, or (by the settings) of a simulated fleet."""
    if driver is None and settings.driver == "simulated":
        return build_fleet(settings, platform)
    return build_agent(settings, platform, driver)


def build_fleet(settings: AgentSettings, platform: Platform) -> FleetService:
    """`settings.nodes` agents on simulated machines."""
    agents = []
    for number in range(1, settings.nodes + 1):
        node = f"sim-{number:02d}"
        machine = SimulatedDriver(
            node, number, platform.clock, started_at=platform.clock.now(), host_apps=settings.host_applications
        )
        agents.append(build_agent(settings.model_copy(update={"node": node, "pool": "simulated"}), platform, machine))
    report_file = platform.state_dir / "agent" / "restore-report.json"
    return FleetService(agents, report_file, keep_report, settings.sample_seconds)


def build_agent(settings: AgentSettings, platform: Platform, driver: Driver | None = None) -> AgentService:
    """The agent of this machine, or of the given one. Only a real machine gets a journal and a ledger on disk.

    Of the platform the bus, the clock and the state directory are used; the database is not.
    """
    if driver is not None and not isinstance(driver, LinuxDriver):
        return AgentService(settings, platform, driver, MemoryJournal(), MemoryLedger())
    if driver is None:
        instance = settings.instance or StateDir(platform.state_dir).instance_id()
        driver = linux_driver(platform.state_dir, instance, platform.clock, host_apps=settings.host_applications)
        driver.measure_own_tree(settings.memory_bytes is not None)
    folder = driver.layout.agent_dir
    return AgentService(
        settings,
        platform,
        driver,
        LinesJournal(folder / "journal"),
        JsonLedger(folder / "evictions.json"),
        AgentLock(folder),
        folder / "restore-report.json",
        JsonIntents(folder / "intents.json"),
    )
