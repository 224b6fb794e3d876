"""PostgreSQL over TLS for clients that were built without it: `pg_dump` and `pg_restore` of our wheel are.

A socket in a folder that only we may enter; behind it each connection is encrypted as the address says, the server's
certificate verified included. The client's own login passes through unseen.
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
"""Values of `sslmode` with which nothing may be said in the clear."""
PIECE_BYTES = 64 * 1024
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_SASL = struct.pack("!i", 10)
_USUAL_PORT = 5432


@dataclass(frozen=True, slots=True)
class Way:
    """Where the server is, and how it is spoken to."""

    host: str
    port: int
    context: ssl.SSLContext


@asynccontextmanager
async def reachable(dsn: str) -> AsyncIterator[str]:
    """`dsn`, or while the context is open an address on this machine that leads there over TLS if `dsn` asks for it.

    Raises Misconfigured for certificates that cannot be used.
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


def _way(parts: SplitResult) -> Way | None:
    """None where the address does not insist on TLS. Raises Misconfigured."""
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    mode = given.get("sslmode", "prefer")
    host = parts.hostname or given.get("host", "")
    if mode not in ENCRYPTED or host.startswith("/"):
        return None
    if not host or "," in parts.netloc:
        raise Misconfigured("--postgres: a copy over TLS needs an address with one host", field="postgres")
    try:
        return Way(host, parts.port or _USUAL_PORT, _context(mode, given))
    except OSError as error:
        raise Misconfigured(
            f"--postgres: sslrootcert, sslcert or sslkey cannot be used: {error}", field="postgres"
        ) from None


def _context(mode: str, given: dict[str, str]) -> ssl.SSLContext:
    """As libpq reads the same words. Raises OSError."""
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


async def _carry(way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One client's connection, until either side ends it."""
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
        for one in (writer, far_writer):
            one.close()
            with suppress(OSError):
                await one.wait_closed()


async def _dial(way: Way) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """PostgreSQL is asked for TLS in the clear, and only then spoken to. Raises OSError, Unavailable."""
    reader, writer = await asyncio.open_connection(way.host, way.port)
    try:
        writer.write(_SSL_REQUEST)
        if await reader.readexactly(1) != b"S":
            raise Unavailable(f"PostgreSQL at {way.host} has no TLS, and sslmode insists on it")
        await writer.start_tls(way.context, server_hostname=way.host)
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _answer(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """What the server says; of the ways to log in only those that a client without TLS knows."""
    kind = b""
    try:
        while kind not in (b"R", b"E"):  # asked to prove itself, or refused
            kind, size = struct.unpack("!ci", await source.readexactly(5))
            body = await source.readexactly(size - 4)
            if kind == b"R" and body.startswith(_SASL):
                # The client would take the offer for an attack: it sees no TLS, on which this way rests.
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
