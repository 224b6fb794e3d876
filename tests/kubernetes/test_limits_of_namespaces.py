"""Namespaces with ResourceQuotas and LimitRanges on a real API server: what profiles do to pods there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes.definitions import path_of
from tests.kubernetes.drivers import RealDriver
from tests.kubernetes.rest import Rest
from tests.kubernetes.test_admission_of_profiles import created
from tests.kubernetes.test_service_on_api_server import withdraw
from tests.kubernetes.test_webhook_on_api_server import WebhookSite, defined, namespace

from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE as PROFILE

LENT = "slackwater.io/batch-cpu"
CONTAINER = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
POD = {"metadata": {"generateName": "p-"}, "spec": {"containers": [CONTAINER]}}
PATHS = {"ResourceQuota": "resourcequotas", "LimitRange": "limitranges"}
LIMITS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "quota-lent": ("ResourceQuota", {"hard": {f"requests.{LENT}": "500"}}),
    "quota-native": ("ResourceQuota", {"hard": {"limits.cpu": "4", "requests.memory": "4Gi"}}),
    "quota-best-effort": ("ResourceQuota", {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}),
    "max": ("LimitRange", {"limits": [{"type": "Container", "max": {LENT: "500"}}]}),
    "min": ("LimitRange", {"limits": [{"type": "Container", "min": {LENT: "2000"}}]}),
    "min-default": ("LimitRange", {"limits": [{"type": "Container", "min": {LENT: "2k"}, "default": {LENT: "4k"}}]}),
    "ratio": ("LimitRange", {"limits": [{"type": "Container", "maxLimitRequestRatio": {LENT: "1"}}]}),
    "default": ("LimitRange", {"limits": [{"type": "Container", "default": {LENT: "500"}}]}),
    "pod-max": ("LimitRange", {"limits": [{"type": "Pod", "max": {LENT: "500"}}]}),
    "pod-min": ("LimitRange", {"limits": [{"type": "Pod", "min": {LENT: "500"}}]}),
    "native-ratio": ("LimitRange", {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "1"}}]}),
    "native-pod": ("LimitRange", {"limits": [{"type": "Pod", "min": {"cpu": "10m"}, "max": {"cpu": "8"}}]}),
}
"""By namespace: what bounds pods there, of native amounts and of those that profiles make of them."""


async def test_no_limit_of_a_namespace_refuses_a_pod_because_of_a_profile(
    real: RealDriver, admin_kubeconfig: Path
) -> None:
    """The same pod is created in two namespaces with the same limit, of which a profile selects one."""
    rest = Rest(admin_kubeconfig)
    with rest.client, defined(rest):
        for name, (kind, spec) in LIMITS.items():
            for lends in ("no", "yes"):
                home = real.name(f"{name}-{lends}")
                namespace(rest, home, {"lends": lends})
                _limit(rest, home, kind, spec)
        for profiles in ("policy", "webhook"):
            site = WebhookSite(real, rest, profiles=profiles)
            await site.apply("third", selector={"matchLabels": {"third": "yes"}}, labels={"colour": "blue"})
            await site.apply("lends", namespaceSelector={"matchLabels": {"lends": "yes"}}, tier="batch")
            async with site.running():
                await site.until_labelled("third", colour="blue")
                refused = {name: await asyncio.to_thread(_refusals, real, rest, name) for name in LIMITS}
            assert not {name: lent for name, (plain, lent) in refused.items() if lent and not plain}, profiles
            assert [name for name, (plain, _) in refused.items() if plain] == ["min", "ratio", "pod-max", "pod-min"]
        await asyncio.to_thread(withdraw, real)
        for profile in ("third", "lends"):
            await asyncio.to_thread(rest.delete, f"{path_of(PROFILE)}/{profile}")


def _limit(rest: Rest, home: str, kind: str, spec: Mapping[str, Any]) -> None:
    """With a status of what is used, as the controller of quotas writes it."""
    limit = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "limit"}}
    path = f"/api/v1/namespaces/{home}/{PATHS[kind]}"
    rest.ensure(path, {**limit, "spec": dict(spec)})
    if kind == "ResourceQuota":
        status = {"hard": spec["hard"], "used": dict.fromkeys(spec["hard"], "0")}
        answer = rest.client.patch(
            f"{path}/limit/status", json={"status": status}, headers={"content-type": "application/merge-patch+json"}
        )
        assert answer.is_success, answer.text


def _refusals(real: RealDriver, rest: Rest, name: str) -> tuple[str, str]:
    """Why a pod is not created, without and with a profile; empty: it would be."""
    answers = [
        rest.create(f"/api/v1/namespaces/{real.name(f'{name}-{lends}')}/pods", POD, tried=True)
        for lends in ("no", "yes")
    ]
    plain, lent = ("" if answer.is_success else str(answer.json()["message"]) for answer in answers)
    return plain, lent


async def test_pods_of_namespaces_with_quotas_and_limits_stay_as_they_are(
    real: RealDriver, admin_kubeconfig: Path
) -> None:
    """Rewritten, the first would be refused for want of requests.cpu, and the second get native limits beside."""
    rest = Rest(admin_kubeconfig)
    team, sizes = real.name("team"), real.name("sizes")
    limit = {"type": "Container", "default": {"memory": "512Mi"}}
    with rest.client, defined(rest):
        for name in (team, sizes):
            namespace(rest, name, {"kind": "limited"})
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}}
        rest.ensure(f"/api/v1/namespaces/{team}/resourcequotas", {**quota, "spec": {"hard": {"requests.cpu": "4"}}})
        limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "sizes"}, "spec": {"limits": [limit]}}
        rest.ensure(f"/api/v1/namespaces/{sizes}/limitranges", limits)
        for profiles in ("policy", "webhook"):
            site = WebhookSite(real, rest, profiles=profiles)
            await site.apply("third", selector={"matchLabels": {"third": "yes"}}, labels={"colour": "blue"})
            await site.apply("limited", namespaceSelector={"matchLabels": {"kind": "limited"}}, tier="batch")
            async with site.running():
                await site.until_labelled("third", colour="blue")
                for name in (team, sizes):
                    made = await asyncio.to_thread(created, rest, name, POD)
                    assert "labels" not in made["metadata"]
                    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
        await asyncio.to_thread(withdraw, real)
        for profile in ("third", "limited"):
            await asyncio.to_thread(rest.delete, f"{path_of(PROFILE)}/{profile}")
