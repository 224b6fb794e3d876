"""The files of `slackwater secrets`, in one folder per reader:

ca/                 the authority; store its key safely, nothing reads it at run time
postgres/           password of the administrator
migrate/            dsn of the administrator
backup/ restore/    the same, and nats.creds, ca.crt
nats/               nats-server.conf, access.conf (accounts and permissions), certificate (renewed after two thirds);
                    cluster.conf and ca.crt for one of several brokers
<service>/          dsn, nats.creds, ca.crt, tokens (digests only)
ingestion/          also access.seed, the key of the broker's accounts, with which it gives agents their credentials
kubernetes/         also documents-token, with which it stores the custom resources of a cluster
access/ fleet/      nats.creds, ca.crt
agents/NODE/        enrolment.creds, ca.crt
agent-access/       the same for all agents of a cluster, which proves their nodes, and tokens (digests only)
tokens/             viewer, operator, admin: the tokens themselves, for operators
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slackwater.bus.access.authority import AccessAuthority
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import BACKUP, RESTORE, PartSubjects, users_of
from slackwater.bus.admin.streams import load
from slackwater.cli.broker import ACCESS, SERVER, Certificates, registry
from slackwater.resources.names import CLUSTER_AUTHOR
from slackwater.runtime.authority import Authority
from slackwater.runtime.roles import Role
from slackwater.runtime.tokens import digest_of
from slackwater.store.names import service_dsn

FLEET = "fleet"
NATS_FOLDER, ACCOUNTS_FOLDER = Path("/etc/nats"), Path("/data/accounts")
"""The paths inside the broker's container: its folder, and /data for its store and the accounts of agents."""
AGENTS = "agent-access"
"""The one folder of all agents of a cluster."""
CREDENTIALS, ENROLMENT = "nats.creds", "enrolment.creds"
ACCESS_SEED, ACCESS_CONFIG = Path("ingestion/access.seed"), Path("nats/access.conf")
CLUSTER_TOKEN = Path(CLUSTER_AUTHOR) / "documents-token"
POSTGRES_CA = "postgres-ca.crt"
ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The deployment that the secrets are for."""

    folder: Path
    nodes: tuple[str, ...]
    fleet: bool
    postgres_host: str
    nats_hosts: tuple[str, ...]
    shared_volume: bool
    postgres_address: str = ""
    """Administrator's address of a PostgreSQL that exists, with its password; empty: of `postgres_host`."""
    postgres_ca: str = ""
    """The authority of its certificate, in PEM; each reader gets it as `postgres-ca.crt`."""
    nats_ca: str = ""
    """The authority of a NATS that exists, in PEM; empty: the deployment's own."""


def readers() -> tuple[str, ...]:
    """The folders that `write_secrets` makes, without those of agents and of a fleet."""
    parts, _ = registry()
    return "ca", "tokens", "postgres", "nats", "migrate", BACKUP, RESTORE, *(part.name for part in parts)


def write_secrets(deployment: Deployment) -> str:
    """Create what is missing below the folder; returns the admin's token. Raises InvalidInput, Misconfigured."""
    files = _Files(deployment.folder, deployment.shared_volume)
    authority = Authority(deployment.folder / "ca")
    parts, agent = registry()
    services = [part for part in parts if part.name != ACCESS]
    fleet = [PartSubjects(FLEET, agent.consumes, agent.publishes)] if deployment.fleet else []
    access = AccessAuthority.of_seed(files.once(ACCESS_SEED, AccessAuthority.new_seed))
    credentials = {
        user: UserCredentials.parse(
            files.once(Path(user) / CREDENTIALS, lambda user=user: access.service_credentials(user).text)  # type: ignore[misc]
        )
        for user in users_of([*parts, *fleet])
    }
    tickets: dict[Path, Callable[[], UserCredentials]] = {
        Path("agents") / node: partial(access.ticket, node) for node in deployment.nodes
    }
    tickets[Path(AGENTS)] = access.cluster_ticket
    for folder, ticket in tickets.items():
        _renew_ticket(files, folder / ENROLMENT, access, ticket)
    for folder in (*map(Path, credentials), *tickets):
        files.always(folder / "ca.crt", deployment.nats_ca or authority.certificate)
    _write_database(files, deployment, [part.name for part in services])
    tokens = {role: files.once(Path("tokens") / role.value, _random) for role in ROLES}
    digests = "".join(f"{role.value} {role.value} sha256:{digest_of(token).hex()}\n" for role, token in tokens.items())
    cluster = files.once(CLUSTER_TOKEN, _random)
    digests += f"{CLUSTER_AUTHOR} {Role.OPERATOR.value} sha256:{digest_of(cluster).hex()}\n"
    for folder in (Path(AGENTS), *(Path(part.name) for part in services)):
        files.always(folder / "tokens", digests)
    present = files.path(ACCESS_CONFIG)
    before = present.read_text(encoding="utf-8") if present.exists() else ""
    accounts = access.config(load(), [*parts, *fleet], agent, credentials, ACCOUNTS_FOLDER, before)
    _write_broker(files, authority, deployment, accounts)
    return tokens[Role.ADMIN]


def _write_database(files: _Files, deployment: Deployment, services: list[str]) -> None:
    admin = deployment.postgres_address
    if not admin:
        password = files.once(Path("postgres/password"), _random)
        admin = f"postgresql://slackwater:{password}@{deployment.postgres_host}:5432/slackwater"
    addresses = dict.fromkeys(("migrate", BACKUP, RESTORE), admin)
    for reader, address in (addresses | {name: service_dsn(admin, name) for name in services}).items():
        files.always(Path(reader) / "dsn", f"{address}\n")
        if deployment.postgres_ca:
            files.always(Path(reader) / POSTGRES_CA, deployment.postgres_ca)


def _write_broker(files: _Files, authority: Authority, deployment: Deployment, accounts: str) -> None:
    tls = Certificates(NATS_FOLDER / "tls.crt", NATS_FOLDER / "tls.key")
    certificate, key = files.path(Path("nats/tls.crt")), files.path(Path("nats/tls.key"))
    if not certificate.exists() or authority.is_due(certificate, deployment.nats_hosts):
        authority.issue(certificate, key, deployment.nats_hosts)
        files.protect(certificate)
        files.protect(key)
    files.always(ACCESS_CONFIG, accounts + tls.block())
    files.always(Path("nats/nats-server.conf"), SERVER.format(host='"0.0.0.0"', port=4222, store='"/data"'))
    files.always(Path("nats/cluster.conf"), tls.cluster(NATS_FOLDER / "ca.crt"))
    files.always(Path("nats/ca.crt"), authority.certificate)


def _renew_ticket(files: _Files, file: Path, access: AccessAuthority, make: Callable[[], UserCredentials]) -> None:
    """Write an enrolment that is missing, or that another authority has signed."""
    if not access.is_valid_ticket(UserCredentials.parse(files.once(file, lambda: make().text))):
        files.always(file, make().text)


def _random() -> str:
    return secrets.token_urlsafe(32)


class _Files:
    """Writes files atomically; no more accounts than intended can ever read them."""

    def __init__(self, root: Path, shared: bool) -> None:
        self._root = root
        self._shared = shared
        root.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)

    def path(self, file: Path) -> Path:
        """The path of a file, with its folder created."""
        path = self._root / file
        for folder in reversed(path.relative_to(self._root).parents[:-1]):
            (self._root / folder).mkdir(mode=0o755 if self._shared else 0o700, exist_ok=True)
        return path

    def once(self, file: Path, make: Callable[[], str]) -> str:
        """The content of a file, created if it does not exist."""
        path = self.path(file)
        if not path.exists():
            self.always(file, make().strip() + "\n")
        return path.read_text(encoding="utf-8").strip()

    def always(self, file: Path, text: str) -> None:
        path = self.path(file)
        draft = path.with_name(f".{path.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
        self.protect(draft)
        draft.replace(path)

    def protect(self, path: Path) -> None:
        path.chmod(0o444 if self._shared else 0o600)
