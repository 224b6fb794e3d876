"""Runs one service on shared servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.broker import issuing_access, put_services_in_force
from slackwater.cli.composition import ServicePart
from slackwater.cli.service_host import Databases, hosting, shielded
from slackwater.cli.steps import Steps
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.time import SystemClock
from slackwater.runtime.broker_watch import BrokerWatch
from slackwater.runtime.health_reports import HealthReports
from slackwater.runtime.http import HttpServer
from slackwater.runtime.loop_watch import LoopWatch
from slackwater.runtime.loopback import is_loopback
from slackwater.runtime.platform import Platform, new_member
from slackwater.runtime.service import Service
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.state import StateDir, default_state_dir
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_service
from slackwater.telemetry.metrics import process_meters


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of a process: the URL of HTTP, and HOST:PORT of gRPC if it is served."""

    http_url: str
    rpc: str | None


@asynccontextmanager
async def running_service(
    part: ServicePart, postgres: str, nats: str, settings: HttpSettings
) -> AsyncIterator[Addresses]:
    """Run the service while the context is open; yields its addresses.

    Raises: InvalidInput for a malformed address, Unavailable when a server does not answer, Misconfigured.
    """
    refuse_other_forms(postgres, nats)
    steps = Steps()
    async with AsyncExitStack() as stack:
        http = HttpServer(settings)
        stack.callback(http.close)
        with steps.step("schema"):
            address = await prepare_service(postgres, Schema.of(part.name))
        with steps.step("streams"):
            access = NatsAccess()
            await put_services_in_force(nats, access)
            bus = await stack.enter_async_context(
                connect_bus(nats, name=part.name, topology=load().only(part.name), access=access)
            )
            await stack.enter_async_context(issuing_access(bus, nats, access))
        databases = Databases({part.name: address})
        stack.push_async_callback(shielded, databases.close)
        clock = SystemClock()
        state = StateDir(default_state_dir())
        member = new_member(stack.enter_context(state.replica(part.name)))
        service = part.build(Platform(bus, clock, databases.of, state.path, member))
        watch = LoopWatch(bus, databases.opened, clock, process_meters())
        beside: list[Service] = [watch, BrokerWatch(bus)]
        health = HealthReports(bus, clock, databases.outbox, watch.limited)
        hosted = await stack.enter_async_context(
            hosting(http, settings, [service], steps, beside=beside, health=health)
        )
        yield Addresses(http.url, hosted.rpc_address)


def refuse_other_forms(postgres: str, nats: str) -> None:
    """Raises InvalidInput that names the option; never repeats a DSN, because it may hold a password."""
    if not postgres.startswith(("postgresql://", "postgres://")):
        raise InvalidInput("--postgres: must look like postgresql://user:password@host:5432/database", field="postgres")
    if not nats.startswith(("nats://", "tls://")):
        raise InvalidInput("--nats: must look like nats://host:4222", field="nats")
    refuse_a_database_open_to_all(postgres, os.environ)


def refuse_a_database_open_to_all(dsn: str, environment: Mapping[str, str]) -> None:
    """Raises Misconfigured for a database beyond this machine without any authentication.

    A password in the environment or in libpq's password file counts, as does TLS that is required, not merely
    preferred.
    """
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    hosts = [query["host"]] if "host" in query else [one.rpartition("@")[2] for one in parts.netloc.split(",")]
    names = [host if host.startswith(("/", "[")) else host.rpartition(":")[0] or host for host in hosts]
    local = all(not name or name.startswith("/") or is_loopback(name.partition("]")[0].strip("[]")) for name in names)
    encrypted = query.get("sslmode", environment.get("PGSSLMODE")) in ("require", "verify-ca", "verify-full")
    proven = parts.password or query.get("password") or environment.get("PGPASSWORD") or environment.get("PGPASSFILE")
    if not (local or encrypted or proven):
        raise Misconfigured(
            "--postgres: this PostgreSQL is on another host, without a password or TLS: give a password in the address "
            "(SLACKWATER_POSTGRES_DSN_FILE keeps it off the command line) or sslmode=verify-full",
            field="postgres",
        )
