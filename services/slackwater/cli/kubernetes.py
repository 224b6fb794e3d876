"""`slackwater kubernetes uninstall`: withdraws from a cluster what Slackwater has written to it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class KubernetesAction(StrEnum):
    """What is done to the cluster."""

    UNINSTALL = "uninstall"


def command(
    action: Annotated[KubernetesAction, typer.Argument(help="uninstall: withdraw what was written.")],
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="File with the cluster and an account with the service's rights; default KUBECONFIG."),
    ] = None,
    context: Annotated[str, typer.Option(help="Context of the kubeconfig; default its current one.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list nodes and policies.")] = False,
    wait_seconds: Annotated[
        float, typer.Option(min=0, max=600, help="Check after so long that nothing writes again.")
    ] = 3.0,
) -> None:
    """Withdraw lent resources and cordons from all nodes, and delete what applies profiles: the cluster is as it was.

    Needs only the API server. Stop the service kubernetes first: exit status 1 if something is written again.

    Example: `slackwater kubernetes uninstall --dry-run`
    """
    import asyncio

    from slackwater.cli.composition import load
    from slackwater.cli.exits import ERROR
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.model.plurals import counted

    withdraw_all = load("slackwater.kubernetes.usecases.uninstall:withdraw_all")
    open_server = load("slackwater.kubernetes.adapters.http_api_server:open_api_server")

    async def withdraw() -> tuple[tuple[str, ...], ...]:
        async with open_server(str(kubeconfig or ""), context) as server:
            done = await withdraw_all(server, dry_run=dry_run, wait_seconds=wait_seconds)
            return done.nodes, done.policies, done.written_again, done.left

    with errors_to_stderr():
        nodes, policies, written_again, left = asyncio.run(withdraw())
        for name in (*nodes, *policies) if dry_run else ():
            typer.echo(name)
        if not nodes and not policies:
            message("nothing to withdraw")
        elif nodes:
            message(f"{'would be ' if dry_run else ''}withdrawn from {counted(len(nodes), 'node')}")
        for name in policies if not dry_run else ():
            message(f"deleted {name}")
        for name in left:
            message(f"left: {name}, which Slackwater has not written")
        if written_again:
            message(f"written again: {', '.join(written_again[:5])}; stop the service kubernetes, then repeat this")
            raise typer.Exit(ERROR)
