"""Profiles as a webhook on real API servers: they become what MutatingAdmissionPolicy v1 makes of pods, and the webhook
takes its place on a server of an older version, with the rights of the manifests."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from contracts.crds import crd_objects
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.definitions import PATHS, document_of, path_of
from tests.kubernetes.drivers import RealDriver, real_driver
from tests.kubernetes.rest import Rest, wait_until
from tests.kubernetes.test_admission_of_profiles import (
    CLASSES,
    changed_fields,
    created,
    drawn_profiles,
    pods,
)
from tests.kubernetes.test_service_on_api_server import Site, until, withdraw

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.objects import SECRETS
from slackwater.apiserver.records import NAMESPACES, parse_namespace
from slackwater.kubernetes.adapters.certificate_pairs import AuthorityPairs
from slackwater.kubernetes.edge.webhook import Webhook
from slackwater.kubernetes.metrics import AdmissionMetrics
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.choose_admission import ProfileMode
from slackwater.kubernetes.usecases.review_pods import ReviewPods
from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.profiles.policy import mutation_objects
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.profiles.webhook import NAME, SERVICE, WebhookAddress, webhook_configuration
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE as PROFILE
from slackwater.telemetry.metrics import process_meters

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OLDER = "--emulated-version=kube=1.35"
"""The newest version without MutatingAdmissionPolicy v1."""
TIMES = ("issued-at", "expires-at")
LABELS: Mapping[str, Mapping[str, str]] = {"blue": {"team": "blue"}, "plain": {}}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# ---------------------------------------------------------------------- the same pods by policy and by webhook


@pytest.fixture
def twins(admin_kubeconfig: Path) -> Iterator[Rest]:
    """Namespaces with the same labels, one for each way, a PriorityClass for each tier, and a Service whose address is
    this machine."""
    rest = Rest(admin_kubeconfig)
    for way in ("policy", "webhook"):
        for name, labels in LABELS.items():
            namespace(rest, f"{way}-{name}", labels)
    for name, value in CLASSES.values():
        priority_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        rest.ensure(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {**priority_class, "value": value, "preemptionPolicy": "Never"},
        )
    namespace(rest, "slackwater", {})
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE}, "spec": spec}
    rest.ensure("/api/v1/namespaces/slackwater/services", service)
    yield rest
    for path in (f"{WEBHOOKS}/{NAME}", *(f"{path}/{NAME}" for path in POLICY_PATHS.values())):
        rest.delete(path)
    rest.delete(f"/api/v1/namespaces/slackwater/services/{SERVICE}")
    for name, _ in CLASSES.values():
        rest.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
    rest.client.close()


POLICY_PATHS = {
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
}


def namespace(rest: Rest, name: str, labels: Mapping[str, str]) -> None:
    metadata = {"name": name, "labels": labels}
    rest.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    rest.ensure(f"/api/v1/namespaces/{name}/serviceaccounts", account)


def beacon() -> ClusterColocationProfile:
    spec = {"selector": {"matchLabels": {"beacon": "yes"}}, "labels": {"seen": "yes"}}
    return ClusterColocationProfile.parse({"metadata": {"name": "beacon"}, "spec": spec})


async def test_the_webhook_and_the_policy_make_the_same_of_pods(twins: Rest) -> None:
    profiles = [*drawn_profiles()[0], beacon()]
    port = free_port()
    address = WebhookAddress("slackwater", port=port)
    inventory = Inventory()
    inventory.replace(
        NAMESPACES,
        [
            parse_namespace({"metadata": {"name": f"webhook-{name}", "labels": dict(labels)}})
            for name, labels in LABELS.items()
        ],
    )
    review = ReviewPods(
        inventory, lambda: profiles, SystemClock(), AdmissionMetrics(process_meters()), (), lambda: ["webhook-limited"]
    )
    webhook = Webhook(
        KubernetesSettings(webhook_host="127.0.0.1", webhook_port=port, webhook_drain_seconds=0), review, SystemClock()
    )
    pair = await AuthorityPairs().issue([address.host], datetime.now(UTC), timedelta(days=1))
    await webhook.use(pair.certificate, pair.key)
    serving = asyncio.create_task(webhook())
    try:
        await asyncio.to_thread(compare, twins, profiles, address, pair.authority)
    finally:
        serving.cancel()
        await asyncio.wait([serving])


def compare(rest: Rest, profiles: list[ClusterColocationProfile], address: WebhookAddress, authority: str) -> None:
    others = ("kube-system", *(f"webhook-{name}" for name in LABELS))
    for document in mutation_objects(profiles, others):
        rest.ensure(POLICY_PATHS[document["kind"]], strict(document))
    others = ("kube-system", *(f"policy-{name}" for name in LABELS))
    configuration = webhook_configuration(address, authority, others)
    rest.ensure(WEBHOOKS, {**configuration, "webhooks": [{**configuration["webhooks"][0], "failurePolicy": "Fail"}]})
    asked = pod_of("beacon")
    for way in ("policy", "webhook"):
        wait_until(partial(is_seen, rest, f"{way}-plain", asked), f"{way} in force")
    changed = 0

    @seed(42)
    @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(LABELS)), pods())
    def agree(name: str, pod: dict[str, Any]) -> None:
        nonlocal changed
        by_policy = created(rest, f"policy-{name}", pod)
        assert changed_fields(created(rest, f"webhook-{name}", pod)) == changed_fields(by_policy)
        changed += changed_fields(by_policy) != changed_fields({**pod, "spec": {"schedulerName": "x", **pod["spec"]}})

    agree()
    assert changed > 15


def is_seen(rest: Rest, namespace: str, pod: dict[str, Any]) -> bool:
    return "seen" in created(rest, namespace, pod)["metadata"]["labels"]


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """With failures that are seen, instead of pods that pass."""
    if "failurePolicy" in document["spec"]:
        document["spec"]["failurePolicy"] = "Fail"
    return document


def pod_of(app: str) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "p-", "labels": {app: "yes"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


# ---------------------------------------------------------------------- the service on an older API server


@pytest.fixture(scope="module")
def older(servers_home: Path) -> Iterator[ControlPlane]:
    """An API server without the policies, of this module."""
    made = this_build()
    if not made.has(("etcd", "kube-apiserver")):
        pytest.skip("an older API server is started: `make kubernetes` builds it")
    with running(made.folder, servers_home / "older", (), (OLDER,)) as plane:
        rest = Rest(plane.kubeconfig)
        with rest.client, defined(rest):
            yield plane


class WebhookSite(Site):
    """A replica of the service, asked at a port of its own machine."""

    def __init__(self, cluster: RealDriver, rest: Rest, **more: Any) -> None:
        self.rest, self.port = rest, free_port()
        self.url = f"https://localhost:{self.port}"
        address: dict[str, Any] = {"webhook_host": "127.0.0.1", "webhook_port": self.port, "webhook_url": self.url}
        address |= {"webhook_drain_seconds": 0}
        super().__init__(cluster, **{**address, **more})

    async def apply(self, name: str, **spec: Any) -> None:
        await asyncio.to_thread(self.rest.ensure, path_of(PROFILE), document_of(PROFILE, spec, name))

    async def labels(self, app: str) -> Mapping[str, str]:
        made = await asyncio.to_thread(created, self.rest, "default", pod_of(app))
        labels: Mapping[str, str] = made["metadata"]["labels"]
        return labels

    async def until_labelled(self, app: str, **labels: str) -> None:
        async with asyncio.timeout(40):
            while not labels.items() <= (await self.labels(app)).items():
                await asyncio.sleep(0.05)

    async def configuration(self) -> Any:
        answer = await asyncio.to_thread(self.rest.client.get, f"{WEBHOOKS}/{NAME}")
        return answer.json() if answer.is_success else None

    async def age(self, by: timedelta) -> str:
        """Make the certificate older; returns it."""
        while True:
            secret = await self.cluster.api.read_object(SECRETS, f"slackwater/{SERVICE}")
            assert secret is not None
            times = {name: (datetime.fromisoformat(secret.data[name]) - by).isoformat() for name in TIMES}
            with suppress(Conflict):
                await self.cluster.api.write_secret(secret, {**secret.data, **times})
                return secret.data["tls.crt"]

    async def trusted(self) -> str:
        """The authorities that the API server has now."""
        (webhook,) = (await self.configuration())["webhooks"]
        return base64.b64decode(webhook["clientConfig"]["caBundle"]).decode()

    async def handshake(self, authorities: str) -> None:
        """Raises ssl.SSLError if the listener's certificate is not of one of these."""
        tls = ssl.create_default_context(cadata=authorities)
        async with asyncio.timeout(40):
            while True:
                try:
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1", self.port, ssl=tls, server_hostname="localhost"
                    )
                except ConnectionRefusedError:  # it has not started yet
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
                return

    async def until_only(self, *, policy: bool) -> None:
        """Until one of both is there. Fails as soon as both are."""
        async with asyncio.timeout(40):
            while True:
                webhook = await self.configuration() is not None
                found = await asyncio.to_thread(
                    self.rest.client.get, f"{POLICY_PATHS['MutatingAdmissionPolicyBinding']}/{NAME}"
                )
                assert not (webhook and found.is_success)
                if (webhook, found.is_success) == (not policy, policy):
                    return
                await asyncio.sleep(0.02)

    async def until_none(self) -> None:
        """Until nothing is there that changes pods."""
        async with asyncio.timeout(40):
            for path in (f"{WEBHOOKS}/{NAME}", *(f"{path}/{NAME}" for path in POLICY_PATHS.values())):
                while (await asyncio.to_thread(self.rest.client.get, path)).is_success:
                    await asyncio.sleep(0.05)

    async def secret(self) -> Mapping[str, str]:
        found = await self.cluster.api.read_object(SECRETS, f"slackwater/{SERVICE}")
        assert found is not None
        return found.data


@asynccontextmanager
async def cluster_of(plane: ControlPlane, folder: Path) -> AsyncIterator[tuple[RealDriver, Rest]]:
    rest = Rest(plane.kubeconfig)
    async with real_driver(plane.kubeconfig, folder) as real:
        with rest.client:
            yield real, rest


async def test_profiles_apply_by_a_webhook_where_the_policy_is_absent(older: ControlPlane, tmp_path: Path) -> None:
    async with cluster_of(older, tmp_path) as (real, rest):
        site = WebhookSite(real, rest)
        async with site.running() as service:
            await until(lambda: service.parts.admission.choice.chosen is ProfileMode.WEBHOOK)
            assert await site.configuration() is None, "without a profile no pod is asked about"
            await site.apply("first", selector={"matchLabels": {"first": "yes"}}, labels={"colour": "blue"})
            await site.until_labelled("first", colour="blue")
            await site.apply("first", selector={"matchLabels": {"first": "yes"}}, labels={"colour": "green"})
            await site.until_labelled("first", colour="green")
            (webhook,) = (await site.configuration())["webhooks"]
            assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")
            rest.delete(f"{WEBHOOKS}/{NAME}")
            service.parts.notify()  # otherwise within half a minute
            await site.until_labelled("first", colour="green")
            check = next(check for check in await service.checks() if check.name == "kubernetes-webhook")
            assert (check.ok, check.detail) == (True, "")
            await asyncio.to_thread(rest.delete, f"{path_of(PROFILE)}/first")
            async with asyncio.timeout(40):
                while await site.configuration() is not None:
                    await asyncio.sleep(0.05)
            await site.apply("first", selector={"matchLabels": {"first": "yes"}}, labels={"colour": "red"})
            await site.until_labelled("first", colour="red")
        assert "colour" not in await site.labels("first"), "without the service pods are created as they are"
        assert f"deleted mutatingwebhookconfigurations/{NAME}" in await asyncio.to_thread(withdraw, real)
        assert await site.configuration() is None


async def test_certificates_are_rotated_and_every_replica_stays_trusted(older: ControlPlane, tmp_path: Path) -> None:
    """Two replicas, which both take themselves for the one that renews. At no moment does one serve what the API server
    does not trust."""
    async with cluster_of(older, tmp_path) as (real, rest):
        site = WebhookSite(real, rest, webhook_settle_seconds=0.5)
        other = WebhookSite(real, rest, webhook_settle_seconds=0.5, webhook_url=site.url)
        await site.apply("second", selector={"matchLabels": {"second": "yes"}}, labels={"colour": "blue"})
        async with site.running(), other.running():
            await site.until_labelled("second", colour="blue")
            first, handshakes = await site.age(timedelta(days=80)), 0
            async with asyncio.timeout(60):
                while (await site.secret())["tls.crt"] == first or "former.ca.crt" in await site.secret():
                    bundle = await site.trusted()
                    for replica in (site, other):
                        await replica.handshake(bundle)
                        handshakes += 1
                    assert (await site.labels("second"))["colour"] == "blue"
            assert handshakes >= 4
            async with asyncio.timeout(40):  # the former authority is no longer trusted
                while (await site.trusted()).count("BEGIN") > 1:
                    await asyncio.sleep(0.05)
        await asyncio.to_thread(withdraw, real)


async def test_what_is_no_review_is_refused(older: ControlPlane, tmp_path: Path) -> None:
    async with cluster_of(older, tmp_path) as (real, rest):
        site = WebhookSite(real, rest)
        async with site.running() as service:
            await until(lambda: service.parts.admission.certificate.problem == "")
            tls = ssl.create_default_context(cadata=(await site.secret())["ca.crt"])
            async with httpx2.AsyncClient(base_url=site.url, verify=tls, trust_env=False) as client:
                assert (await client.get("/profiles")).status_code == 405
                assert (await client.post("/other")).status_code == 404
                for body in (b"", b"no", b"[" * 100_000, b"{}", b'{"apiVersion":"admission.k8s.io/v1"}'):
                    assert (await client.post("/profiles", content=body)).status_code == 400, body[:20]
                assert (await client.post("/profiles", content=b" " * (5 << 20))).status_code == 413


async def test_policy_and_webhook_follow_the_setting_and_are_never_both_there(
    real: RealDriver, admin_kubeconfig: Path
) -> None:
    rest = Rest(admin_kubeconfig)
    with rest.client, defined(rest):
        site = WebhookSite(real, rest)
        await site.apply("third", selector={"matchLabels": {"third": "yes"}}, labels={"colour": "blue"})
        async with site.running() as service:
            await site.until_only(policy=True)
            assert service.parts.admission.choice.chosen is ProfileMode.POLICY
            await site.until_labelled("third", colour="blue")
        async with WebhookSite(real, rest, profiles="webhook").running():
            await site.until_only(policy=False)
            await site.until_labelled("third", colour="blue")
        async with site.running():
            await site.until_only(policy=True)
        for former in ("auto", "webhook"):
            async with WebhookSite(real, rest, profiles=former).running():
                await site.until_only(policy=former == "auto")
            async with WebhookSite(real, rest, profiles="off").running() as service:
                assert PROFILE.plural not in service.parts.loops, "profiles are not followed"
                await site.until_none()
        assert "nothing to withdraw" in await asyncio.to_thread(withdraw, real)
        await asyncio.to_thread(rest.delete, f"{path_of(PROFILE)}/third")


@contextmanager
def defined(rest: Rest) -> Iterator[None]:
    """An API server with the definition of profiles."""
    namespace(rest, "default", {})
    definitions = [one for one in crd_objects()[PROFILE.plural] if one["kind"] == "CustomResourceDefinition"]
    for one in definitions:
        rest.ensure(PATHS[one["kind"]], one)
    wait_until(lambda: rest.client.get(path_of(PROFILE)).status_code == 200, "profiles are served")
    yield
    for one in definitions:
        rest.delete(f"{PATHS[one['kind']]}/{one['metadata']['name']}")
