"""`slackwater cluster-access`: proves the nodes of agents by the tokens of their pods, so that they get access."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    nats: Annotated[
        str,
        typer.Option(envvar="SLACKWATER_NATS_URL", metavar="URL", help="the bus, like tls://nats.slackwater.svc:4222"),
    ],
    account: Annotated[
        str, typer.Option(metavar="NAME", help="The agents' account, system:serviceaccount:NAMESPACE:NAME.")
    ],
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="File with the cluster and an account; default KUBECONFIG, then that of the pod."),
    ] = None,
    context: Annotated[str, typer.Option(help="Context of the kubeconfig; default its current one.")] = "",
) -> None:
    """Answer agents that ask for access, until it is stopped: the API server reviews the token of each pod, and
    ingestion issues credentials for the node that the token names.

    The Helm chart runs it. Its only right at the API server is to create token reviews, which are not stored.
    """
    import asyncio

    from slackwater.bus.access.reviews import AgentReviews
    from slackwater.bus.connect.access import NatsAccess
    from slackwater.bus.connect.nats_bus import connect_bus
    from slackwater.cli.agent_tokens import ReviewAgents
    from slackwater.cli.broker import ACCESS
    from slackwater.cli.composition import load
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.telemetry.logs import configure

    open_server = load("slackwater.kubernetes.adapters.http_api_server:open_api_server")

    async def serve() -> None:
        async with (
            open_server(str(kubeconfig or ""), context) as server,
            connect_bus(nats, name=ACCESS, declares=False, access=NatsAccess()) as bus,
        ):
            message(f"reviewing agents of {account}")
            await AgentReviews(bus.client, ReviewAgents(server, account))()

    with errors_to_stderr():
        configure(ACCESS)
        asyncio.run(serve())
