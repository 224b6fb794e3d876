"""A plain client of the Kubernetes API, for tests about what the server accepts and what it makes of it."""

from __future__ import annotations

import base64
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

PATIENCE_SECONDS = 60.0
"""Until the API server follows new definitions and policies; it took at most 2 s on a quiet machine."""
STRICT: Mapping[str, str] = {"fieldValidation": "Strict"}
TRIED: Mapping[str, str] = {**STRICT, "dryRun": "All"}


class Rest:
    """Requests as the user of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        named = {one["name"]: one["context"] for one in document["contexts"]}[document["current-context"]]
        cluster = {one["name"]: one["cluster"] for one in document["clusters"]}[named["cluster"]]
        user = {one["name"]: one["user"] for one in document["users"]}[named["user"]]
        self.kubeconfig = kubeconfig
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self.client = httpx2.Client(
            base_url=cluster["server"], verify=_context(cluster, user), headers=headers, timeout=30, trust_env=False
        )

    def create(self, path: str, document: Mapping[str, Any], *, tried: bool = False) -> httpx2.Response:
        return self.client.post(path, json=document, params=TRIED if tried else STRICT)

    def ensure(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Apply an object; returns it."""
        answer = self.client.patch(
            f"{path}/{document['metadata']['name']}",
            content=yaml.safe_dump(document),
            params={**STRICT, "fieldManager": "tests", "force": "true"},
            headers={"content-type": "application/apply-patch+yaml"},
        )
        assert answer.status_code in (200, 201), answer.text
        made: dict[str, Any] = answer.json()
        return made

    def delete(self, path: str) -> None:
        assert self.client.delete(path).status_code in (200, 202, 404)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Raises AssertionError after so long."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:g} s"
        time.sleep(0.05)


def _context(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=base64.b64decode(authority).decode() if authority else None
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            parts = (base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key"))
            pair.write(b"\n".join(parts))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context
