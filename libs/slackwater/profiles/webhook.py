"""The MutatingWebhookConfiguration of all profiles, for API servers without MutatingAdmissionPolicy v1."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from slackwater.profiles.mutation import SYSTEM_NAMESPACES
from slackwater.profiles.policy import LABELS, POD_CREATION, excluding

API: Final = "admissionregistration.k8s.io/v1"
NAME: Final = "profiles.slackwater.io"
PATH: Final = "/profiles"
SERVICE: Final = "kubernetes-webhook"
"""The Service, and the Secret with the certificates."""
SERVICE_PORT: Final = 443
TIMEOUT_SECONDS: Final = 5
"""How long the creation of a pod waits at most; then the pod is created as it is."""


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Where the API server finds the webhook: the Service in `namespace`, or `url` where the service runs outside of
    the cluster. The Secret with the certificates has the Service's name."""

    namespace: str
    url: str = ""
    port: int = SERVICE_PORT
    service: str = SERVICE

    @property
    def host(self) -> str:
        """The name that the certificate must have. The API server asks for it also by the Service's address."""
        return urlsplit(self.url).hostname or "" if self.url else f"{self.service}.{self.namespace}.svc"

    def client(self, authorities: str) -> Mapping[str, Any]:
        """`clientConfig` of a webhook. `authorities` are certificates in PEM that the API server trusts here."""
        bundle = base64.b64encode(authorities.encode()).decode()
        if self.url:
            return {"caBundle": bundle, "url": f"{self.url.rstrip('/')}{PATH}"}
        service = {"namespace": self.namespace, "name": self.service, "path": PATH, "port": self.port}
        return {"caBundle": bundle, "service": service}


def webhook_configuration(
    address: WebhookAddress, authorities: str, excluded: Collection[str] = SYSTEM_NAMESPACES
) -> dict[str, Any]:
    """The configuration. Pods are asked about once, after the admission of other kinds and beside other webhooks, as by
    the policy: what later webhooks add is not rewritten."""
    return {
        "apiVersion": API,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": LABELS},
        "webhooks": [
            {
                "name": NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": address.client(authorities),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "namespaceSelector": excluding(excluded),
                "reinvocationPolicy": "Never",
                "rules": [{**POD_CREATION, "scope": "Namespaced"}],
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
            }
        ],
    }
