"""A real API server proves the node of an agent, for an account with exactly the right that the chart gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import IS_THERE, WHY_NOT
from tests.kubernetes.release import Site
from tests.kubernetes.rest import PATIENCE_SECONDS, Rest
from tests.kubernetes.test_cluster_secrets_on_api_server import NODES, PATHS, node

from slackwater.cli.agent_tokens import AUDIENCE, ReviewAgents
from slackwater.kubernetes.adapters.http_api_server import open_api_server
from slackwater.model.errors import InvalidInput

pytestmark = [pytest.mark.skipif(not IS_THERE, reason=WHY_NOT), pytest.mark.timeout(300)]
PREFIX = "blue-slackwater-"
AGENT = f"{PREFIX}agent"
ACCOUNT = f"system:serviceaccount:agents:{AGENT}"
HERE = "ip-10-0-0-1.ec2.internal"


@pytest.fixture
def site(control_plane: ControlPlane) -> Iterator[Site]:
    """The accounts and rights of a release, and two pods of agents on their nodes."""
    admin = Rest(control_plane.kubeconfig)
    with admin.client:
        made = Site(control_plane, admin, "lending", "blue", {"agent": {"namespace": "agents"}})
        for name in ("lending", "agents"):
            admin.ensure("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for one in made.rendered():
            name = one["metadata"]["name"]
            if one["kind"] in PATHS and name in (AGENT, f"{PREFIX}access"):
                admin.ensure(PATHS[one["kind"]].format(one["metadata"].get("namespace")), one)
        admin.ensure(NODES, node(HERE))
        admin.ensure(PATHS["ServiceAccount"].format("agents"), account("other"))
        for name, user in (("agent", AGENT), ("other", "other")):
            admin.ensure("/api/v1/namespaces/agents/pods", pod(name, user))
        yield made
        for name in ("agent", "other"):
            admin.client.delete(f"/api/v1/namespaces/agents/pods/{name}", params={"gracePeriodSeconds": 0})
        admin.delete(f"{NODES}/{HERE}")


def account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "agents"}}


def pod(name: str, user: str) -> dict[str, Any]:
    spec = {"nodeName": HERE, "serviceAccountName": user, "containers": [{"name": "agent", "image": "agent"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "agents"}, "spec": spec}


def token(site: Site, user: str, bound: str | None, audience: str = AUDIENCE) -> str:
    """As the kubelet asks for a projected one."""
    spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 3600}
    if bound is not None:
        uid = site.get(f"/api/v1/namespaces/agents/pods/{bound}")["metadata"]["uid"]
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": bound, "uid": uid}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = site.admin.create(f"/api/v1/namespaces/agents/serviceaccounts/{user}/token", request)
    return str(answer.json()["status"]["token"])


async def refused(review: ReviewAgents, token: str) -> None:
    """The API server remembers for ten seconds what it accepted."""
    while await review(token):
        await asyncio.sleep(0.5)


async def test_the_node_of_a_pod_is_proved_and_nothing_else_is(site: Site, tmp_path: Path) -> None:
    kubeconfig = site.as_account(f"{PREFIX}access", tmp_path)
    of_agent = token(site, AGENT, "agent")
    others = {
        "accept the token": [token(site, AGENT, "agent", "https://kubernetes.default.svc"), f"{of_agent}x", "none"],
        "is not of": [token(site, "other", "other")],
        "no pod on a node": [token(site, AGENT, None)],
        "has no token": [""],
    }
    async with open_api_server(str(kubeconfig)) as server:
        review = ReviewAgents(server, ACCOUNT)
        assert await review(of_agent) == HERE
        for refusal, tokens in others.items():
            for other in tokens:
                with pytest.raises(InvalidInput, match=refusal):
                    await review(other)
        gone = {"gracePeriodSeconds": 0}
        site.admin.client.delete("/api/v1/namespaces/agents/pods/agent", params=gone)
        with pytest.raises(InvalidInput, match="accept the token"):
            await asyncio.wait_for(refused(review, of_agent), PATIENCE_SECONDS)
    with Rest(kubeconfig).client as limited:
        for path in ("/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces/lending/secrets"):
            assert limited.get(path).status_code == 403
