"""`slackwater exec`: runs a command as a managed workload."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.exits import USAGE
from slackwater.model.errors import InvalidInput

if TYPE_CHECKING:
    from slackwater.agent.domain.admission import Command

CommandLine = Annotated[
    list[str] | None, typer.Argument(metavar="CMD...", show_default=False, help="The command, after --.")
]
TierName = Annotated[
    str, typer.Option(help="prod, mid, batch or free; lower tiers are throttled first.", show_default=False)
]
WorkloadName = Annotated[
    str,
    typer.Option(help="Name that is stable over restarts and replicas; predictions use it as key.", show_default=False),
]
WorkloadFile = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="Take all of it from a workload file, so that it can be moved."),
]
CONTEXT: dict[str, Any] = {"allow_interspersed_args": False}


def command(
    arguments: CommandLine = None,
    tier: TierName = "",
    workload: WorkloadName = "",
    file: WorkloadFile = None,
    cpu: Annotated[str, typer.Option(help="CPU request, like 2, 0.5 or 500m; sets the weight.")] = "1",
    cpu_limit: Annotated[str | None, typer.Option(help="Hard CPU limit; none by default.")] = None,
    cpu_period_ms: Annotated[
        int, typer.Option(help="Period of CPU limits in ms; 1000 if batch is not scheduled as idle.")
    ] = 100,
    memory: Annotated[str, typer.Option(help="Memory request, like 1Gi; a hard limit for batch and free.")] = "512Mi",
    qos: Annotated[str | None, typer.Option(help="LSE, LSR, LS, BE or SYSTEM; default: by tier.")] = None,
    name: Annotated[str | None, typer.Option(help="Pod name; default: derived from the workload.")] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the pod.")] = "default",
    priority: Annotated[int | None, typer.Option(help="Priority within the tier's range.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Label, repeatable; slackwater.io/revision announces a rollout."),
    ] = None,
    quota: Annotated[
        str | None, typer.Option(help="Claim CPU and memory of this ElasticQuota first: wait, start, give back.")
    ] = None,
    claim: Annotated[str | None, typer.Option(help="Id of the claim; default: a new one.")] = None,
    grace: Annotated[float, typer.Option(help="With --quota: seconds from SIGTERM to SIGKILL when reclaimed.")] = 30.0,
    queue_priority: Annotated[int, typer.Option(help="With --quota: priority in its queue; higher goes first.")] = 0,
    server: Annotated[
        str | None, typer.Option(help="With --quota: URL of a process with quota; default: the instance here.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="The agent's state directory; or SLACKWATER_STATE_DIR.")
    ] = None,
) -> None:
    """Run a command as a managed workload in its own cgroup; the exit code is the command's.

    --tier, --workload and CMD are required, or --from and none of them.

    A command ended by signal N exits with 128+N; 127 means no such command, 126 not executable. With --quota it starts
    when its claim is admitted, and ends by SIGTERM when what it borrowed is reclaimed.
    """
    from slackwater.agent.command import run_command
    from slackwater.agent.domain.admission import Command
    from slackwater.runtime.state import client_state_dir

    said = tuple(arguments or ()), tuple(label or ())
    wanted = Command(tier, cpu, memory, workload, qos, name, namespace, priority, *said, cpu_limit, cpu_period_ms)
    place = (state_dir or client_state_dir()).absolute()
    try:
        if file is not None:
            raise typer.Exit(_run_file(file, wanted, quota, place))
        _require(wanted)
        if quota is None:
            status = run_command(wanted, place)
        else:
            from slackwater.cli.quota_hold import run_claimed

            status = run_claimed(
                wanted, place, quota, claim=claim, grace_s=grace, priority=queue_priority, server=server
            )
    except InvalidInput as error:
        sys.stderr.write(f"slackwater exec: {error.message}\n")
        raise typer.Exit(USAGE) from None
    raise typer.Exit(status)


def _require(given: Command) -> None:
    """Raises InvalidInput where no file says it, and no flag either."""
    for flag, text in (("--tier", given.tier), ("--workload", given.workload)):
        if not text:
            raise InvalidInput(f"{flag}: missing; give it, or a workload file with --from", field=flag)


def _run_file(file: Path, given: Command, quota: str | None, state_dir: Path) -> int:
    """Raises InvalidInput where the file, or a flag beside it, is wrong."""
    from slackwater.agent.command import run_file

    both = ("--tier", given.tier), ("--workload", given.workload), ("CMD", given.arguments), ("--quota", quota)
    for flag, value in both:
        if value:
            raise InvalidInput(f"{flag}: stands beside --from; the file says it, or leave --from out", field=flag)
    return run_file(file, state_dir)
