"""gRPC takes up new certificates while it runs, as HTTP does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from test_rpc_server import PATIENCE_SECONDS, Authority, code_of, running, scripted

from slackwater.model.errors import Misconfigured
from slackwater.runtime.rpc_certificates import credentials_of
from slackwater.runtime.settings import HttpSettings
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs


async def answered(address: str, root: bytes, client: trustme.LeafCert | None = None) -> bool:
    """Over a connection of its own, by a client that trusts `root`."""
    chain = None if client is None else b"".join(each.bytes() for each in client.cert_chain_pems)
    key = None if client is None else client.private_key_pem.bytes()
    own = [("grpc.use_local_subchannel_pool", 1)]
    credentials = grpc.ssl_channel_credentials(root, key, chain)
    async with grpc.aio.secure_channel(address.replace("127.0.0.1", "localhost"), credentials, own) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        call = stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS)
        return (await code_of(call))[0] is grpc.StatusCode.OK


async def test_new_connections_get_a_new_certificate_and_open_ones_stay(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    before, after = Authority(tmp_path), Authority(tmp_path / "new")
    async with running(scripted(), before.settings(), credentials=before.credentials()) as (channel, server):
        stub = stubs.ColocationServiceStub(channel)
        assert (await code_of(stub.GetNode(api.GetNodeRequest())))[0] is grpc.StatusCode.OK
        assert await answered(server.address, before.ca.cert_pem.bytes())
        after.key.replace(before.key)  # for a moment the two do not fit: the former pair stays
        assert await answered(server.address, before.ca.cert_pem.bytes())
        after.certificate.replace(before.certificate)
        assert await answered(server.address, after.ca.cert_pem.bytes())
        assert not await answered(server.address, before.ca.cert_pem.bytes())
        before.certificate.write_text("nonsense")
        assert await answered(server.address, after.ca.cert_pem.bytes())
        before.certificate.unlink()
        assert await answered(server.address, after.ca.cert_pem.bytes())
        assert (await code_of(stub.GetNode(api.GetNodeRequest())))[0] is grpc.StatusCode.OK


async def test_a_new_authority_of_clients_counts_without_a_restart(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), trustme.CA()
    root, client = authority.ca.cert_pem.bytes(), other.issue_cert("scheduler")
    settings = authority.settings(tls_client_ca=authority.root)
    mine = authority.credentials(authority.ca.issue_cert("mine"))
    async with running(scripted(), settings, credentials=mine) as (_, server):
        assert not await answered(server.address, root, client)
        other.cert_pem.write_to_path(str(authority.root), append=True)
        assert await answered(server.address, root, client)
        assert not await answered(server.address, root)


def test_files_that_cannot_be_used_at_the_start_are_named(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), trustme.CA()
    missing = authority.settings(tls_client_ca=tmp_path / "nothing.pem")
    other.issue_cert("localhost").private_key_pem.write_to_path(str(tmp_path / "other.key"))
    foreign = HttpSettings(tls_certificate=authority.certificate, tls_key=tmp_path / "other.key")
    for wrong in (missing, foreign):
        with pytest.raises(Misconfigured, match="TLS: "):
            credentials_of(wrong)
