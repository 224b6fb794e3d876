"""The files of `slackwater secrets` as Secrets of a cluster: one per reader, named `<prefix><reader>`.

What exists is read into a folder, `write_secrets` adds what is missing or due, and what differs is written back.
No Secret grows with the nodes: agents have one, with which each asks for credentials of its own.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from slackwater.cli.secret_files import AGENTS, POSTGRES_CA, Deployment, readers, write_secrets
from slackwater.model.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from slackwater.kubernetes.adapters.http_api_server import HttpApiServer

MOUNTED: Final = f"/run/secrets/slackwater/{POSTGRES_CA}"
"""The authority of an external PostgreSQL in the pods that use it."""
Data = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class ReleaseSecrets:
    """Names and addresses of a release."""

    namespace: str
    agents_namespace: str
    prefix: str
    instance: str
    postgres_host: str
    nats_hosts: tuple[str, ...]
    postgres_address: str = ""
    postgres_ca: str = ""
    nats_ca: str = ""


async def update_secrets(server: HttpApiServer, release: ReleaseSecrets) -> list[str]:
    """Write the Secrets that are missing or differ; returns their names. Raises what the API server answers."""
    places = dict.fromkeys(readers(), release.namespace)
    if release.agents_namespace:
        places[AGENTS] = release.agents_namespace
    before = {reader: await _read(server, namespace, release.prefix + reader) for reader, namespace in places.items()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "secrets"
        for reader, data in before.items():
            _restore(folder / reader, data)
        write_secrets(_deployment(release, folder))
        after = {reader: _files(folder / reader) for reader in places}
    written = []
    for reader, data in after.items():
        if data and data != before[reader]:
            written.append(await _write(server, release, places[reader], reader, data))
    return written


def external_address(address: str, password_file: Path | None, *, verifies: bool) -> str:
    """The address of an external server with its password, and with the place of its authority in pods.

    Raises InvalidInput for an address that is none, or has a password itself."""
    if not address:
        return ""
    parts = urlsplit(address)
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or not parts.username:
        raise InvalidInput("--postgres-address: is not postgresql://USER@HOST:PORT/DATABASE", field="postgres_address")
    if parts.password:
        raise InvalidInput("--postgres-address: has a password; give it as a file", field="postgres_address")
    if password_file is None:
        raise InvalidInput(
            "--postgres-password-file: is needed with --postgres-address", field="postgres_password_file"
        )
    password = text_of(password_file, "--postgres-password-file").strip()
    login, _, host = parts.netloc.rpartition("@")
    query = f"{parts.query}&sslrootcert={MOUNTED}".lstrip("&") if verifies else parts.query
    return urlunsplit(parts._replace(netloc=f"{login}:{quote(password, safe='')}@{host}", query=query))


def text_of(file: Path | None, option: str) -> str:
    """The text of a file; empty without one. Raises InvalidInput for a file that cannot be read."""
    try:
        return "" if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{option}: {file}: {error}", field=option.strip("-").replace("-", "_")) from None


def _deployment(release: ReleaseSecrets, folder: Path) -> Deployment:
    return Deployment(
        folder=folder,
        nodes=(),
        fleet=False,
        postgres_host=release.postgres_host,
        nats_hosts=release.nats_hosts,
        shared_volume=False,
        postgres_address=release.postgres_address,
        postgres_ca=release.postgres_ca,
        nats_ca=release.nats_ca,
    )


def _restore(folder: Path, data: Data) -> None:
    """Write the files of a Secret. Those that are empty are made anew."""
    for name, content in data.items():
        if content:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def _files(folder: Path) -> Data:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


async def _read(server: HttpApiServer, namespace: str, name: str) -> Data:
    try:
        secret = await server.read(_path(namespace, name))
    except NotFound:
        return {}
    return {str(key): base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}


async def _write(server: HttpApiServer, release: ReleaseSecrets, namespace: str, reader: str, data: Data) -> str:
    name = release.prefix + reader
    labels = {
        "app.kubernetes.io/name": reader,
        "app.kubernetes.io/part-of": "slackwater",
        "app.kubernetes.io/instance": release.instance,
    }
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "data": {key: base64.b64encode(content).decode() for key, content in data.items()},
    }
    await server.apply(_path(namespace, name), secret)
    return name


def _path(namespace: str, name: str) -> str:
    return f"api/v1/namespaces/{namespace}/secrets/{name}"
