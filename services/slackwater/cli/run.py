"""`slackwater run SERVICE`: runs one service against shared servers, wired as in `up`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from slackwater.cli import exits
from slackwater.cli.addresses import NATS_VARIABLE, POSTGRES_VARIABLE
from slackwater.cli.choices import LogLevel

if TYPE_CHECKING:  # heavy: imported when the command runs
    from slackwater.cli.composition import ServicePart
    from slackwater.runtime.settings import HttpSettings


class RunCommand(TyperCommand):
    """Lists the services in its help. The list is loaded only when the help is printed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from slackwater.runtime.service_list import service_list

        *others, last = service_list().deployed
        for parameter in self.params:
            if parameter.name == "service":
                parameter.help = f"{', '.join(others)} or {last}."  # type: ignore[attr-defined]  # a typer argument
        super().format_help(ctx, formatter)


COMMAND = RunCommand


def command(
    service: Annotated[str, typer.Argument(help="The service to run.")],
    postgres: Annotated[
        str | None,
        typer.Option(envvar=POSTGRES_VARIABLE, metavar="DSN", help="An administrator's address, or the service's."),
    ] = None,
    nats: Annotated[
        str | None, typer.Option(envvar=NATS_VARIABLE, metavar="URL", help="NATS address, nats://host:4222.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="HTTP port; default 8460, or a free one if that is taken; 0 takes any free one."
        ),
    ] = None,
    seconds: Annotated[int | None, typer.Option(min=1, help="Stop after this many seconds.")] = None,
    log_level: Annotated[
        LogLevel, typer.Option(envvar="SLACKWATER_LOG_LEVEL", help="Minimum log level, to stderr.")
    ] = LogLevel.WARNING,
) -> None:
    """Run one service against a shared PostgreSQL and NATS.

    Creates the service's schema (if the role of --postgres may) and the streams, serves /livez, /readyz, /metrics and
    the service's routes, and prints its address. Exit status: 0 after a signal or after --seconds.
    """
    from slackwater.cli.addresses import address
    from slackwater.cli.composition import part_named
    from slackwater.cli.output import errors_to_stderr
    from slackwater.runtime.cpu_priority import lower_cpu_priority
    from slackwater.runtime.settings import HttpSettings
    from slackwater.telemetry.logs import configure
    from slackwater.telemetry.spans import configure_tracing

    with errors_to_stderr():
        part = part_named(service)
        configure(service, level=log_level.value)
        configure_tracing(service)
        http = HttpSettings() if port is None else HttpSettings(port=port)
        dsn = address(postgres, "--postgres", POSTGRES_VARIABLE)
        url = address(nats, "--nats", NATS_VARIABLE)
        lower_cpu_priority(part.name)
        status = asyncio.run(_run(part, dsn, url, http, seconds))
    if status:
        raise typer.Exit(status)


async def _run(part: ServicePart, postgres: str, nats: str, settings: HttpSettings, seconds: int | None) -> int:
    from slackwater.cli.single_service import running_service
    from slackwater.runtime.signals import cancelled_by_signal

    with cancelled_by_signal():
        async with running_service(part, postgres, nats, settings) as addresses:
            print(f"{part.name} {addresses.http_url}", flush=True)
            if addresses.rpc:
                print(f"grpc {addresses.rpc}", flush=True)
            if seconds is None:
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(seconds)
    return exits.OK
