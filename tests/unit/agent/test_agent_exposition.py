"""What an agent shows of itself over its few lines of HTTP."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry, Gauge
from pydantic import SecretStr

from slackwater.agent.edge import exposition
from slackwater.agent.edge.exposition import PATHS, exposing
from slackwater.agent.settings import AgentSettings
from slackwater.model.errors import Misconfigured
from slackwater.runtime.roles import OPEN, Role

REGISTRY = CollectorRegistry()
Gauge("slackwater_probe_seconds", "A probe.", registry=REGISTRY).set(7)


async def answer(url: str, request: bytes, tls: ssl.SSLContext | None = None) -> str:
    host, _, port = url.partition("://")[2].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
    writer.write(request)
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


async def test_a_scrape_gets_the_metrics_and_a_probe_its_word() -> None:
    async with exposing(AgentSettings(metrics_port=0), REGISTRY) as url:
        assert url is not None
        page = await answer(url, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert page.startswith("HTTP/1.1 200 OK\r\ncontent-type: text/plain")
        assert page.endswith("slackwater_probe_seconds 7.0\n")
        assert (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n")).endswith("\r\n\r\nok\n")
        assert (await answer(url, b"HEAD /metrics HTTP/1.0\r\n\r\n")).endswith("\r\n\r\n")
        assert "404" in (await answer(url, b"GET / HTTP/1.0\r\n\r\n")).splitlines()[0]
        assert "405" in (await answer(url, b"POST /metrics HTTP/1.0\r\n\r\n")).splitlines()[0]
        assert await answer(url, b"x" * 20000) == ""


async def test_in_a_flood_of_half_requests_the_oldest_makes_room_for_a_probe() -> None:
    async with exposing(AgentSettings(metrics_port=0), REGISTRY) as url, AsyncExitStack() as flood:
        assert url is not None
        host, _, port = url.partition("://")[2].rpartition(":")
        readers = []
        for _ in range(100):
            reader, writer = await asyncio.open_connection(host, int(port))
            flood.callback(writer.close)
            writer.write(b"GET /livez HTTP/1.0\r\n")
            readers.append(reader)
        assert (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n")).endswith("ok\n")
        with suppress(ConnectionResetError):
            assert await readers[0].read() == b""
        assert sum(reader.exception() is None and not reader.at_eof() for reader in readers) <= 32


async def test_a_half_request_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "_REQUEST_SECONDS", 0.1)
    async with exposing(AgentSettings(metrics_port=0), REGISTRY) as url, asyncio.timeout(30):
        assert url is not None
        assert await answer(url, b"GET /livez HTTP/1.0\r\n") == ""


async def test_with_a_token_only_its_bearer_reads_the_metrics() -> None:
    async with exposing(AgentSettings(metrics_port=0, metrics_token=SecretStr("s3cret")), REGISTRY) as url:
        assert url is not None
        assert "401" in (await answer(url, b"GET /metrics HTTP/1.0\r\n\r\n")).splitlines()[0]
        wrong = await answer(url, b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer other\r\n\r\n")
        assert "401" in wrong.splitlines()[0]
        right = await answer(url, b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer s3cret\r\n\r\n")
        assert "slackwater_probe_seconds 7.0" in right
        assert "200" in (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n")).splitlines()[0]


async def test_every_path_lets_in_exactly_the_roles_that_it_says(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{role} {role} {str(role) * 10}\n" for role in Role))
    tokens.chmod(0o600)
    async with exposing(AgentSettings(metrics_port=0, metrics_tokens_file=tokens), REGISTRY) as url:
        assert url is not None
        for path, needed in (*PATHS.items(), ("/nowhere", None)):
            for role in (None, *Role):
                shown = f"Authorization: Bearer {str(role) * 10}\r\n" if role else ""
                status = (await answer(url, f"GET {path} HTTP/1.0\r\n{shown}\r\n".encode())).split()[1]
                if needed is None:
                    assert status == ("401" if role is None else "404"), "unauthenticated clients do not learn of paths"
                elif role is None:
                    assert status == ("200" if needed == OPEN else "401"), path
                else:
                    assert status == ("200" if role.allows(needed) else "403"), (path, role)


async def test_over_tls_only_clients_that_trust_it_and_have_a_certificate_read(tmp_path: Path) -> None:
    ca, other = trustme.CA(), trustme.CA()
    issued, certificate, key, root = ca.issue_cert("127.0.0.1"), tmp_path / "crt", tmp_path / "key", tmp_path / "ca"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    ca.cert_pem.write_to_path(str(root))
    settings = AgentSettings(
        metrics_port=0, metrics_tls_certificate=certificate, metrics_tls_key=key, metrics_tls_client_ca=root
    )
    async with exposing(settings, REGISTRY) as url:
        assert url is not None
        assert url.startswith("https://127.0.0.1:")
        found = []
        for authority in (ca, other, None):
            context = ssl.create_default_context()
            ca.configure_trust(context)
            if authority is not None:
                authority.issue_cert("prometheus").configure_cert(context)
            try:
                page = await answer(url, b"GET /metrics HTTP/1.0\r\n\r\n", context)
                found.append("slackwater_probe_seconds 7.0" in page)
            except (ssl.SSLError, ConnectionError):
                found.append(False)
    assert found == [True, False, False]


async def test_connections_that_stay_in_a_handshake_make_room_too(tmp_path: Path) -> None:
    ca, certificate, key = trustme.CA(), tmp_path / "crt", tmp_path / "key"
    issued, trusting = ca.issue_cert("127.0.0.1"), ssl.create_default_context()
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    ca.configure_trust(trusting)
    settings = AgentSettings(
        metrics_port=0, metrics_tls_certificate=certificate, metrics_tls_key=key, metrics_token=SecretStr("s3cret")
    )
    async with exposing(settings, REGISTRY) as url, AsyncExitStack() as flood:
        assert url is not None
        host, _, port = url.partition("://")[2].rpartition(":")
        readers = []
        for _ in range(100):
            reader, writer = await asyncio.open_connection(host, int(port))
            flood.callback(writer.close)
            readers.append(reader)
        assert (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n", trusting)).endswith("ok\n")
        with suppress(ConnectionResetError):
            assert await readers[0].read() == b""
        assert sum(reader.exception() is None and not reader.at_eof() for reader in readers) <= 32


async def test_a_certificate_that_the_tokens_file_names_needs_no_token(tmp_path: Path) -> None:
    ca, tokens = trustme.CA(), tmp_path / "tokens"
    issued, certificate, key, root = ca.issue_cert("127.0.0.1"), tmp_path / "crt", tmp_path / "key", tmp_path / "ca"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    ca.cert_pem.write_to_path(str(root))
    tokens.write_text("scraper viewer certificate\nedge-1 agent certificate\n")
    settings = AgentSettings(
        metrics_port=0, metrics_tls_certificate=certificate, metrics_tls_key=key, metrics_tls_client_ca=root,
        metrics_tokens_file=tokens,
    )  # fmt: skip
    found = []
    async with exposing(settings, REGISTRY) as url:
        assert url is not None
        for name in ("scraper", "edge-1", "somebody"):
            context = ssl.create_default_context()
            ca.configure_trust(context)
            ca.issue_cert(f"{name}.example", common_name=name).configure_cert(context)
            found.append((await answer(url, b"GET /metrics HTTP/1.0\r\n\r\n", context)).split()[1])
    assert found == ["200", "403", "401"]


@pytest.mark.parametrize("half", ["metrics_tls_certificate", "metrics_tls_key", "metrics_tls_client_ca"])
async def test_half_of_tls_is_an_error_and_not_plaintext(half: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="METRICS_TLS_CERTIFICATE"):
        async with exposing(AgentSettings(metrics_port=0, **{half: tmp_path / "file"})):  # type: ignore[arg-type]  # one by one
            pass


async def test_it_listens_only_if_configured_and_on_all_addresses_only_with_a_token() -> None:
    async with exposing(AgentSettings()) as url:
        assert url is None
    with pytest.raises(Misconfigured, match="METRICS_TOKEN"):
        async with exposing(AgentSettings(metrics_host="0.0.0.0", metrics_port=0)):  # noqa: S104 - refused
            pass


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Misconfigured, match="METRICS_PORT"):
            async with exposing(AgentSettings(metrics_port=taken.getsockname()[1])):
                pass
