"""Where the API server is and as whom the agent speaks to it: its pod's service account, or a kubeconfig."""

from __future__ import annotations

import os
import ssl
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.runtime.yaml_files import yaml_value

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""What the kubelet tells every container."""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """`authorities` are PEM texts, or none for those of the system. A token is read from its file for every request."""

    host: str
    port: int
    prefix: str = ""
    is_tls: bool = True
    authorities: str = ""
    fixed_token: str = ""
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def authority(self) -> str:
        """As the header Host has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def token(self) -> str:
        """Raises OSError where it cannot be read now."""
        return self.fixed_token if self.token_file is None else self.token_file.read_text().strip()

    def tls(self) -> ssl.SSLContext:
        """A context that checks the server. Raises Misconfigured."""
        try:
            context = ssl.create_default_context(cadata=self.authorities or None)
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise Misconfigured(f"the certificates for the API server cannot be used: {error}") from error
        return context


def access_of(
    kubeconfig: Path | None, environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT
) -> ApiAccess:
    """By the kubeconfig if one is given, else by the pod's service account. Raises Misconfigured that says what is
    missing."""
    if kubeconfig is not None:
        return _of_kubeconfig(kubeconfig)
    host, port = environment.get(HOST), environment.get(PORT, "443")
    if not host:
        raise Misconfigured(
            f"no API server is known: {HOST} is not set, as it is in every pod; outside of one set "
            "SLACKWATER_AGENT_KUBECONFIG"
        )
    try:
        return ApiAccess(host, int(port), authorities=(account / "ca.crt").read_text(), token_file=account / "token")
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"the service account of this pod cannot be used ({error}): is automountServiceAccountToken set?"
        ) from error


def _of_kubeconfig(path: Path) -> ApiAccess:
    try:
        document = yaml_value(path.read_bytes(), str(path))
        context = _named(document, "contexts", document["current-context"])["context"]
        cluster = _named(document, "clusters", context["cluster"])["cluster"]
        user = _named(document, "users", context["user"])["user"]
        server = urlsplit(cluster["server"])
        is_tls = server.scheme == "https"
        return ApiAccess(
            str(server.hostname),
            server.port or (443 if is_tls else 80),
            server.path.strip("/"),
            is_tls,
            _authorities(cluster, path.parent),
            str(user.get("token") or ""),
            _file(user, "tokenFile", path.parent),
            _file(user, "client-certificate", path.parent),
            _file(user, "client-key", path.parent),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, InvalidInput) as error:
        raise Misconfigured(
            f"{path} is no kubeconfig that an agent can use ({type(error).__name__}: {error}); it needs a current "
            "context, a server, and a token, tokenFile, or client-certificate and client-key"
        ) from error


def _named(document: Mapping[str, Any], part: str, name: str) -> Any:
    return next(entry for entry in document[part] if entry["name"] == name)


def _authorities(cluster: Mapping[str, Any], folder: Path) -> str:
    if data := cluster.get("certificate-authority-data"):
        return b64decode(data).decode()
    file = _file(cluster, "certificate-authority", folder)
    return "" if file is None else file.read_text()


def _file(entry: Mapping[str, Any], name: str, folder: Path) -> Path | None:
    return folder / entry[name] if entry.get(name) else None
