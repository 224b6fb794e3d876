"""`slackwater exec`: runs a command as a managed workload."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.exits import ERROR, USAGE
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.pods import LABEL_CPU_POOL, LABEL_NUMA_BOUND

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
LabelTexts = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Label, repeatable; slackwater.io/revision announces a rollout."),
]
PoolName = Annotated[str | None, typer.Option(metavar="NAME", help="LS pods: CPUs for the pods of this pool alone.")]
NumaBound = Annotated[bool, typer.Option("--numa", help="CPUs and memory of one NUMA node.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the CPUs that it would have, and which pools change; run nothing.")
]
_POOL = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_OTHER_POOLS = ("share", "reclaim", "reserve", "dedicated")
"""Pools that a command is in by its QoS class, not by name."""
USUAL_CPU, USUAL_MEMORY = "1", "512Mi"
_FLAGS = {"arguments": "CMD", "labels": "--label, --pool, --numa"}
CONTEXT: dict[str, Any] = {"allow_interspersed_args": False}


def command(
    arguments: CommandLine = None,
    tier: TierName = "",
    workload: WorkloadName = "",
    file: WorkloadFile = None,
    cpu: Annotated[str, typer.Option(help="CPU request, like 2, 0.5 or 500m; sets the weight.")] = USUAL_CPU,
    cpu_limit: Annotated[str | None, typer.Option(help="Hard CPU limit; none by default.")] = None,
    cpu_period_ms: Annotated[
        int, typer.Option(help="Period of CPU limits in ms; 1000 if batch is not scheduled as idle.")
    ] = 100,
    memory: Annotated[
        str, typer.Option(help="Memory request, like 1Gi; a hard limit for batch and free.")
    ] = USUAL_MEMORY,
    qos: Annotated[str | None, typer.Option(help="LSE, LSR, LS, BE or SYSTEM; default: by tier.")] = None,
    name: Annotated[str | None, typer.Option(help="Pod name; default: derived from the workload.")] = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the pod.")] = "default",
    priority: Annotated[int | None, typer.Option(help="Priority within the tier's range.")] = None,
    label: LabelTexts = None,
    quota: Annotated[
        str | None, typer.Option(help="Claim CPU and memory of this ElasticQuota first: wait, start, give back.")
    ] = None,
    claim: Annotated[str | None, typer.Option(help="Id of the claim; default: a new one.")] = None,
    grace: Annotated[float, typer.Option(help="With --quota: seconds from SIGTERM to SIGKILL when reclaimed.")] = 30.0,
    queue_priority: Annotated[int, typer.Option(help="With --quota: priority in its queue; higher goes first.")] = 0,
    server: Annotated[
        str | None, typer.Option(help="With --quota: URL of a process with quota; default: the instance here.")
    ] = None,
    pool: PoolName = None,
    numa: NumaBound = False,
    dry_run: DryRun = False,
    state_dir: Annotated[
        Path | None, typer.Option(help="The agent's state directory; or SLACKWATER_STATE_DIR.")
    ] = None,
) -> None:
    """Run a command as a managed workload in its own cgroup; the exit code is the command's.

    --tier, --workload and CMD are required, or --from and none of them.

    A command ended by signal N exits with 128+N; 127 means no such command, 126 not executable. With --quota it starts
    when its claim is admitted, and ends by SIGTERM when what it borrowed is reclaimed.
    """
    from slackwater.agent.command import preview_command, run_command
    from slackwater.agent.domain.admission import Command
    from slackwater.runtime.state import client_state_dir

    place = (state_dir or client_state_dir()).absolute()
    try:
        said = tuple(arguments or ()), (*(label or ()), *_labels(pool, numa=numa))
        wanted = Command(tier, cpu, memory, workload, qos, name, namespace, priority, *said, cpu_limit, cpu_period_ms)
        if file is not None:
            raise typer.Exit(_run_file(file, wanted, {"--quota": quota, "--dry-run": dry_run}, place))
        _require(wanted)
        if dry_run:
            status = preview_command(wanted, place)
        elif quota is None:
            status = run_command(wanted, place)
        else:
            from slackwater.cli.quota_hold import run_claimed

            status = run_claimed(
                wanted, place, quota, claim=claim, grace_s=grace, priority=queue_priority, server=server
            )
    except (InvalidInput, Unavailable) as error:
        sys.stderr.write(f"slackwater exec: {error.message}\n")
        raise typer.Exit(USAGE if isinstance(error, InvalidInput) else ERROR) from None
    raise typer.Exit(status)


def _labels(pool: str | None, *, numa: bool) -> tuple[str, ...]:
    """Returns what the agent reads of the two options. Raises InvalidInput for a name that is no pool's."""
    if pool is not None and (pool in _OTHER_POOLS or not _POOL.fullmatch(pool)):
        raise InvalidInput(
            f"--pool: {pool!r} is no name of a pool: at most 40 lower-case letters, digits and '-', and not"
            f" {', '.join(_OTHER_POOLS)}",
            field="--pool",
        )
    bound = (f"{LABEL_NUMA_BOUND}=true",) if numa else ()
    return (*bound, *(() if pool is None else (f"{LABEL_CPU_POOL}={pool}",)))


def _require(given: Command) -> None:
    """Raises InvalidInput where no file says it, and no flag either."""
    for flag, text in (("--tier", given.tier), ("--workload", given.workload)):
        if not text:
            raise InvalidInput(f"{flag}: missing; give it, or a workload file with --from", field=flag)


def _run_file(file: Path, given: Command, others: Mapping[str, object], state_dir: Path) -> int:
    """Raises InvalidInput where the file is wrong, or a flag is given beside it, which would do nothing."""
    from slackwater.agent.command import run_file
    from slackwater.agent.domain.admission import Command

    usual = Command("", USUAL_CPU, USUAL_MEMORY, "")
    said = {name: getattr(given, name) != getattr(usual, name) for name in Command.__dataclass_fields__}
    flags = {_FLAGS.get(name) or f"--{name.replace('_', '-')}": is_given for name, is_given in said.items()}
    for flag, is_given in {**flags, **others}.items():
        if is_given:
            raise InvalidInput(f"{flag}: stands beside --from; the file says it, or leave --from out", field=flag)
    return run_file(file, state_dir)
