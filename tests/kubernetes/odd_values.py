"""Values of the chart as users write them, and what they must not do to a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Tree = dict[str, Any]
SHA: Final = f"sha256:{'a' * 64}"
OWN: Final = {"app.kubernetes.io/name": "x", "app.kubernetes.io/part-of": "x", "helm.sh/chart": "x", "team": "blue"}
ALL: Final[Tree] = {
    "kubernetes": {"enabled": True, "documents": True},
    "nats": {"replicas": 3},
    "agent": {"metrics": {"enabled": True}, "namespace": "123"},
    "common": {"labels": OWN, "podLabels": OWN},
}

TAKEN: Final[Mapping[str, tuple[str, Tree]]] = {
    "release-with-dots": ("team.a.b", ALL),
    "release-of-digits": ("1", {**ALL, "nameOverride": "2"}),
    "fullname-of-a-digit": ("a", {**ALL, "fullnameOverride": "9lives"}),
    "off-as-yaml-reads-it": (
        "a",
        {"kubernetes": dict.fromkeys(("evictions", "cordons", "profiles"), False) | {"enabled": True}},
    ),
    "names-like-numbers": (
        "a",
        {
            "services": {"quota": {"secretName": "0123"}, "console": {"secretName": "on"}},
            "postgresql": {
                "external": {
                    "host": "[fd00::1]",
                    "passwordSecret": {"name": "1e3", "key": "1"},
                    "caSecret": {"name": "123", "key": "0x1"},
                }
            },
            "nats": {"external": {"url": "tls://n:4222", "caSecret": {"name": "1", "key": "2"}}},
            "ingress": {"enabled": True, "className": "1", "host": "*.a.example", "tlsSecret": "yes"},
            "agent": {"access": {"secretName": "7"}},
            "metrics": {"serviceMonitor": {"tokenSecret": "8"}},
        },
    ),
    "variables": (
        "a",
        {
            "common": {
                "extraEnv": [
                    {"name": "SLACKWATER_LOG_LEVEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "EMPTY", "value": ""},
                    {"name": "EMPTY", "value": "x"},
                    {"name": "OWN"},
                ]
            },
            "services": {"quota": {"resources": {"requests": {"cpu": 1, "memory": 268435456}}, "replicas": 0}},
            "agent": {"nodeSelector": {"kubernetes.io/os": None, "gpu": "true"}},
        },
    ),
}
"""Release and values that the chart and the API server take."""

REFUSED: Final[Mapping[str, Tree]] = {
    "/common/extraEnv/0/value": {"common": {"extraEnv": [{"name": "N", "value": 5}]}},
    "/common/extraEnv/0": {"common": {"extraEnv": [{"value": "5"}]}},
    "/common/labels/cost": {"common": {"labels": {"cost": 5}}},
    "/common/podAnnotations/scrape": {"common": {"podAnnotations": {"scrape": True}}},
    "/agent/nodeSelector/gpu": {"agent": {"nodeSelector": {"gpu": True}}},
    "/ingress/annotations/size": {"ingress": {"annotations": {"size": 8}}},
    "/imagePullSecrets/0": {"imagePullSecrets": ["regcred"]},
    "/services/quota/extraArgs/0": {"services": {"quota": {"extraArgs": [5]}}},
    "/image/tag": {"image": {"tag": 20260101}},
    "/secrets/schedule": {"secrets": {"schedule": ""}},
    "/backup/schedule": {"backup": {"schedule": ""}},
    "/postgresql/external/host": {"postgresql": {"external": {"host": "db:5433"}}},
    "/postgresql/storage/size": {"postgresql": {"storage": {"size": ""}}},
    "/fullnameOverride": {"fullnameOverride": "Lending_1"},
}
"""Values that the API server would refuse in the middle of an installation, by the field that the schema names."""
