"""TLS proxy for PostgreSQL clients built without TLS, such as the bundled `pg_dump` and
`pg_restore`.

It listens on a socket in a folder that only this user may enter, and encrypts each connection as
the address requires, including verification of the server's certificate. The client's own login
passes through unread.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
ENCRYPTED = ("require", "verify-ca", "verify-full")
"""Values of `sslmode` that forbid unencrypted traffic."""
PIECE_BYTES = 64 * 1024
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_SASL = struct.pack("!i", 10)
_USUAL_PORT = 5432


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """The server's address and its TLS context."""

    host: str
    port: int
    context: ssl.SSLContext


@asynccontextmanager
async def reachable(dsn: str) -> AsyncIterator[str]:
    """Yields `dsn`, or, if it asks for TLS, a local address that proxies to it while the context is
    open.

    Raises Misconfigured for unusable certificates.
    """
    parts = urlsplit(dsn)
    way = _way(parts)
    if way is None:
        yield dsn
        return
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:  # mode 0700
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.create_task(_carry(way, reader, writer)))

        socket = Path(folder) / f".s.PGSQL.{_USUAL_PORT}"
        server = await asyncio.start_unix_server(accept, socket)
        try:
            yield _through(parts, folder)
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _way(parts: SplitResult) -> ProxyAddress | None:
    """Returns the way to the server; None where the address does not require TLS. Raises
    Misconfigured.
    """
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    mode = given.get("sslmode", "prefer")
    host = parts.hostname or given.get("host", "")
    if mode not in ENCRYPTED or host.startswith("/"):
        return None
    if not host or "," in parts.netloc:
        raise Misconfigured("--postgres: a copy over TLS needs an address with one host", field="postgres")
    try:
        return ProxyAddress(host, parts.port or _USUAL_PORT, _context(mode, given))
    except OSError as error:
        raise Misconfigured(
            f"--postgres: sslrootcert, sslcert or sslkey cannot be used: {error}", field="postgres"
        ) from None


def _context(mode: str, given: dict[str, str]) -> ssl.SSLContext:
    """Returns the TLS context with libpq's meaning of `sslmode`. Raises OSError."""
    root = given.get("sslrootcert")
    context = ssl.create_default_context(cafile=None if root == "system" else root)
    if mode == "require" and root is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif mode != "verify-full":
        context.check_hostname = False
    if (certificate := given.get("sslcert")) is not None:
        context.load_cert_chain(certificate, given.get("sslkey"))
    return context


def _through(parts: SplitResult, folder: str) -> str:
    kept = {
        name: values
        for name, values in parse_qs(parts.query).items()
        if not name.startswith("ssl") and name not in ("host", "port")
    }
    login, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}{at}", query=urlencode(kept | {"host": [folder]}, doseq=True)).geturl()


async def _carry(way: ProxyAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Proxy one client's connection until either side ends it."""
    try:
        far_reader, far_writer = await _dial(way)
    except (OSError, Unavailable, asyncio.IncompleteReadError) as error:
        log.error("PostgreSQL cannot be reached over TLS", host=way.host, error=str(error))
        writer.close()
        return
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(reader, far_writer))
            both.create_task(_answer(far_reader, writer))
    finally:
        for stream in (writer, far_writer):
            stream.close()
            with suppress(OSError):
                await stream.wait_closed()


async def _dial(way: ProxyAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a TLS connection after PostgreSQL's unencrypted TLS request. Raises OSError,
    Unavailable.
    """
    reader, writer = await asyncio.open_connection(way.host, way.port)
    try:
        writer.write(_SSL_REQUEST)
        if await reader.readexactly(1) != b"S":
            raise Unavailable(f"PostgreSQL at {way.host} has no TLS, and sslmode requires it")
        await writer.start_tls(way.context, server_hostname=way.host)
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _answer(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Forward the server's messages; of its login methods only those that a client without TLS
    supports.
    """
    kind = b""
    try:
        while kind not in (b"R", b"E"):  # asked to prove itself, or refused
            kind, size = struct.unpack("!ci", await source.readexactly(5))
            body = await source.readexactly(size - 4)
            if kind == b"R" and body.startswith(_SASL):
                #                 # The client would treat the offer as an attack, because its own
                # side of the connection has no TLS.
                body = body.replace(b"SCRAM-SHA-256-PLUS\0", b"")
            target.write(struct.pack("!ci", kind, len(body) + 4) + body)
    except (OSError, asyncio.IncompleteReadError):
        target.close()
        return
    await _pump(source, target)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(PIECE_BYTES):
            target.write(piece)
            await target.drain()
    target.close()
