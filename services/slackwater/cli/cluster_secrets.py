"""`slackwater cluster-secrets`: makes, keeps and renews the Secrets of a release in a Kubernetes cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Namespace of the release.")],
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Begins the name of each Secret.")] = "",
    instance: Annotated[str, typer.Option(metavar="NAME", help="Name of the release, for labels.")] = "slackwater",
    agents_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the agents; without it no Secret is made for them.")
    ] = "",
    postgres_host: Annotated[str, typer.Option(metavar="HOST", help="PostgreSQL host of the release.")] = "postgres",
    nats_host: Annotated[list[str] | None, typer.Option(metavar="HOST", help="NATS host name; repeatable.")] = None,
    postgres_address: Annotated[
        str, typer.Option(metavar="DSN", help="Administrator's address of an external PostgreSQL, without password.")
    ] = "",
    postgres_password_file: Annotated[Path | None, typer.Option(help="File with its password.")] = None,
    postgres_ca: Annotated[Path | None, typer.Option(help="Authority of its certificate.")] = None,
    nats_ca: Annotated[Path | None, typer.Option(help="Authority of an external NATS.")] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="File with the cluster and an account; default KUBECONFIG, then that of the pod."),
    ] = None,
    context: Annotated[str, typer.Option(help="Context of the kubeconfig; default its current one.")] = "",
) -> None:
    """Make the passwords, tokens and certificates of a release as Secrets; what exists is kept.

    Safe to repeat: it renews what expires, and adds what new services need. It prints names, never contents.
    The Helm chart runs it before each install and upgrade, and on a schedule.
    """
    import asyncio

    from slackwater.cli.cluster_secret_files import ReleaseSecrets, external_address, text_of, update_secrets
    from slackwater.cli.composition import load
    from slackwater.cli.output import errors_to_stderr, message

    open_server = load("slackwater.kubernetes.adapters.http_api_server:open_api_server")

    async def update(release: ReleaseSecrets) -> list[str]:
        async with open_server(str(kubeconfig or ""), context) as server:
            return await update_secrets(server, release)

    with errors_to_stderr():
        release = ReleaseSecrets(
            namespace=namespace,
            agents_namespace=agents_namespace,
            prefix=prefix,
            instance=instance,
            postgres_host=postgres_host,
            nats_hosts=tuple(nats_host or ("nats",)),
            postgres_address=external_address(postgres_address, postgres_password_file, verifies=bool(postgres_ca)),
            postgres_ca=text_of(postgres_ca, "--postgres-ca"),
            nats_ca=text_of(nats_ca, "--nats-ca"),
        )
        written = asyncio.run(update(release))
        message(f"written: {', '.join(written)}" if written else "nothing to change")
