"""`slackwater cluster-secrets`: Secrets are made once, kept, renewed, grown with the nodes, and never printed."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slackwater.bus.access.tokens import UserCredentials, claims_of
from slackwater.cli import cluster_secret_files, secret_files
from slackwater.cli.cluster_secret_files import ReleaseSecrets, external_address, update_secrets
from slackwater.cli.main import app
from slackwater.cli.secret_files import readers
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.runtime import authority
from slackwater.runtime.service_list import service_names

RELEASE = ReleaseSecrets(
    namespace="lending",
    agents_namespace="lending-node",
    prefix="sw-",
    instance="sw",
    postgres_host="sw-postgres.lending.svc",
    nats_hosts=("sw-nats.lending.svc",),
)
AUTHORITY = "-----BEGIN CERTIFICATE-----\nof the site\n-----END CERTIFICATE-----\n"


@dataclass
class Cluster:
    """Secrets and nodes, as the API server keeps them."""

    nodes: list[str] = field(default_factory=lambda: ["n1"])
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def read(self, path: str, query: Mapping[str, str] | None = None, accept: str = "") -> Mapping[str, Any]:
        if path == "api/v1/nodes":
            return {"items": [{"metadata": {"name": name}} for name in self.nodes]}
        if path not in self.secrets:
            raise NotFound(path)
        return self.secrets[path]

    async def apply(self, path: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        self.secrets[path] = dict(document)
        return document

    def of(self, name: str, namespace: str = "lending") -> dict[str, str]:
        data = self.secrets[f"api/v1/namespaces/{namespace}/secrets/{name}"]["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    @property
    def names(self) -> set[str]:
        return {path.rpartition("/")[2] for path in self.secrets}


@pytest.fixture
async def cluster() -> Cluster:
    made = Cluster()
    await update_secrets(made, RELEASE)  # type: ignore[arg-type]  # what it uses of one
    return made


async def again(cluster: Cluster, release: ReleaseSecrets = RELEASE) -> list[str]:
    return await update_secrets(cluster, release)  # type: ignore[arg-type]


async def test_each_reader_has_a_secret_of_the_release(cluster: Cluster) -> None:
    assert set(service_names()) < set(readers())
    assert cluster.names == {*(f"sw-{reader}" for reader in readers()), "sw-agent-access"}
    assert "@sw-postgres.lending.svc:5432/" in cluster.of("sw-migrate")["dsn"]
    assert cluster.of("sw-agent-access", "lending-node").keys() == {"ca.crt", "tokens", "enrolment.creds"}
    labels = cluster.secrets["api/v1/namespaces/lending/secrets/sw-nats"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == "sw"


async def test_what_exists_is_kept(cluster: Cluster) -> None:
    before = dict(cluster.secrets)
    assert await again(cluster) == []
    assert cluster.secrets == before


async def test_a_secret_that_is_deleted_is_made_anew_and_told_to_the_broker(cluster: Cluster) -> None:
    before = UserCredentials.parse(cluster.of("sw-quota")["nats.creds"])
    del cluster.secrets["api/v1/namespaces/lending/secrets/sw-quota"]
    assert set(await again(cluster)) == {"sw-quota", "sw-nats"}
    renewed = UserCredentials.parse(cluster.of("sw-quota")["nats.creds"])
    accounts = str([claims_of(token) for token in re.findall(r'"(eyJ[^"]+)"', cluster.of("sw-nats")["access.conf"])])
    assert renewed.signer in accounts
    assert before.signer not in accounts


async def test_a_node_that_joins_changes_no_secret(cluster: Cluster) -> None:
    before = dict(cluster.secrets)
    cluster.nodes += [f"node-{number}" for number in range(10_000)]
    assert await again(cluster) == []
    assert cluster.secrets == before
    sizes = {name: sum(map(len, secret["data"].values())) for name, secret in before.items()}
    assert max(sizes.values()) < 200_000, "Kubernetes takes 1 MiB"


async def test_an_enrolment_of_another_authority_is_replaced(cluster: Cluster) -> None:
    del cluster.secrets["api/v1/namespaces/lending/secrets/sw-ingestion"]
    assert {"sw-ingestion", "sw-nats", "sw-agent-access"} <= set(await again(cluster))
    assert await again(cluster) == []


async def test_a_certificate_is_renewed_when_a_third_of_its_time_is_left(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = cluster.of("sw-nats")["tls.crt"]
    monkeypatch.setattr(authority, "RENEW_BEFORE", timedelta(days=authority.CERTIFICATE_DAYS + 1))
    assert await again(cluster) == ["sw-nats"]
    renewed = cluster.of("sw-nats")["tls.crt"]
    assert renewed != before
    (tmp_path / "ca.crt").write_text(cluster.of("sw-ca")["ca.crt"])
    (tmp_path / "tls.crt").write_text(renewed)
    assert is_of(tmp_path / "tls.crt", tmp_path / "ca.crt")


def is_of(certificate: Path, authority: Path) -> bool:
    command = ["openssl", "verify", "-CAfile", str(authority), str(certificate)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


async def test_a_certificate_has_the_hosts_of_the_release(cluster: Cluster) -> None:
    before = cluster.of("sw-nats")["tls.crt"]
    moved = replace(RELEASE, nats_hosts=(*RELEASE.nats_hosts, "nats.example"))
    assert await again(cluster, moved) == ["sw-nats"]
    assert cluster.of("sw-nats")["tls.crt"] != before
    assert await again(cluster, moved) == []


async def test_external_servers_have_their_own_addresses_and_authorities(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("p@ss/word\n")
    address = external_address("postgresql://admin@db.example:6432/lend?sslmode=verify-full", password, verifies=True)
    cluster = Cluster()
    await again(cluster, replace(RELEASE, postgres_address=address, postgres_ca=AUTHORITY, nats_ca=AUTHORITY))
    migrate = cluster.of("sw-migrate")
    assert migrate["dsn"].startswith("postgresql://admin:p%40ss%2Fword@db.example:6432/lend?sslmode=verify-full")
    assert "sslrootcert=/run/secrets/slackwater/postgres-ca.crt" in migrate["dsn"]
    assert migrate["postgres-ca.crt"] == AUTHORITY
    quota = cluster.of("sw-quota")
    assert "p%40ss" not in quota["dsn"], "a service logs in as its role"
    assert "sslmode=verify-full" in quota["dsn"]
    assert quota["ca.crt"] == AUTHORITY == cluster.of("sw-agent-access", "lending-node")["ca.crt"]
    assert "sw-postgres" not in cluster.names


@pytest.mark.parametrize(
    ("address", "file", "named"),
    [
        ("mysql://a@b/c", True, "postgres-address"),
        ("postgresql://db.example/lend", True, "USER"),
        ("postgresql://a:secret@db.example/lend", True, "password"),
        ("postgresql://a@db.example/lend", False, "postgres-password-file"),
    ],
)
def test_an_external_address_that_cannot_be_used_is_named(address: str, file: bool, named: str, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("x")
    with pytest.raises(InvalidInput, match=named) as refused:
        external_address(address, password if file else None, verifies=False)
    assert "secret" not in str(refused.value)


def test_contents_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    @asynccontextmanager
    async def opened(kubeconfig: str, context: str) -> Any:
        yield cluster

    monkeypatch.setattr("slackwater.kubernetes.adapters.http_api_server.open_api_server", opened)
    done = CliRunner().invoke(app, ["cluster-secrets", "--namespace", "lending", "--prefix", "sw-"])
    assert done.exit_code == 0, done.output
    assert "written: sw-ca, " in done.output
    secrets = [value.strip() for name in cluster.names for value in cluster.of(name).values() if value.strip()]
    assert not [value for value in secrets if value in done.output]
    assert "sw-agent-access" not in cluster.names, "without a namespace of agents there is none for them"


def test_every_folder_of_secrets_has_a_reader(secrets: Path) -> None:
    assert {path.name for path in secrets.iterdir()} - {"agents", "agent-access", "fleet"} == set(readers())
    assert cluster_secret_files.MOUNTED.endswith(secret_files.POSTGRES_CA)
