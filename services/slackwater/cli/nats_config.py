"""`slackwater nats-config`: writes a nats-server configuration that limits each service and agent to its own
subjects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder; created if absent.")],
    node: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A node with an agent; repeatable.")] = None,
    nodes_file: Annotated[Path | None, typer.Option(help="File with node names, one per line.")] = None,
    host: Annotated[str, typer.Option(help="The address that the broker listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 4222,
    certificate: Annotated[Path | None, typer.Option(help="The broker's certificate (TLS).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    client_ca: Annotated[Path | None, typer.Option(help="Require client certificates of these authorities.")] = None,
) -> None:
    """Write accounts, permissions and TLS of a nats-server, derived from what each service consumes and publishes.

    Run it again with new nodes at any time: each gets an enrolment, and the broker's configuration stays as it is.
    """
    from slackwater.cli.broker import Certificates, names_of_nodes, write_config
    from slackwater.cli.output import errors_to_stderr, message
    from slackwater.model.errors import InvalidInput

    with errors_to_stderr():
        nodes = names_of_nodes(node, nodes_file)
        if (certificate is None) != (key is None) or (client_ca is not None and certificate is None):
            raise InvalidInput(
                "--certificate and --key must be given together, and --client-ca needs both", field="certificate"
            )
        tls = Certificates(certificate, key, client_ca) if certificate is not None and key is not None else None
        written = write_config(folder, nodes, host, port, tls)
        message(f"{written}: enrolments of {len(nodes)} agents; start with: nats-server -c {written}")
