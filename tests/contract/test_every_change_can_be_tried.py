"""`?dryRun=true` on every operation that changes something: each is tried, which changes nothing, and then done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import asyncpg
import httpx2
import pytest
from described import described
from google.protobuf import descriptor_pool
from tests.support.clock import EPOCH
from tests.support.story import story
from whole_server import ADMIN, WholeServer, server

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.cli.offline_services import offline_services
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.runtime.service import SpeaksRpc
from slackwater.runtime.service_list import service_names
from slackwater.store.quarantine import Item

__all__ = ["server"]

READS = {"get", "head", "options"}


class Attempt:
    """One change: the request for it, and what of the API would show it."""

    def __init__(self, client: httpx2.Client, method: str, path: str, body: Any, shows: str) -> None:
        self._client, self._method, self._path, self._body, self._shows = client, method, path, body, shows

    def make(self, *, dry_run: bool) -> httpx2.Response:
        params = {"dryRun": "true"} if dry_run else {}
        return self._client.request(self._method, self._path, json=self._body, params=params)

    def shown(self) -> Any:
        """Without the status of listed documents, which a service changes in its own time."""
        found = self._client.get(self._shows).json()
        if isinstance(found, dict) and isinstance(found.get("items"), list):
            items = [{key: value for key, value in item.items() if key != "status"} for item in found["items"]]
            return found | {"items": items}
        return found


def new_policy(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/nodeqos/default"
    wanted = client.get(path).json()
    wanted["spec"]["mode"] = "observe" if wanted["spec"]["mode"] != "observe" else "throttle"
    return Attempt(client, "PUT", path, wanted, path)


def predict_policy(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/predictpolicies/default"
    wanted = client.get(path).json()
    wanted["spec"]["protectLSR"] = not wanted["spec"]["protectLSR"]
    return Attempt(client, "PUT", path, wanted, path)


def policy_of_a_pool(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/predictpolicies/gold"
    document = {"kind": "PredictPolicy", "metadata": {"name": "gold"}, "spec": {"violationRate": 0.01}}
    assert client.put(path, json=document).status_code in (200, 201)
    return Attempt(client, "DELETE", path, None, path)


GUARDS: Mapping[str, Mapping[str, Any]] = {
    "/v1/nodeqos": {"kind": "NodeQOS", "spec": {"rules": []}},
    "/v1/podqos": {"kind": "PodQOS", "spec": {"allowedActions": ["evict"]}},
    "/v1/avoidanceactions": {"kind": "AvoidanceAction", "spec": {"eviction": {}}},
    "/v1/autonomies": {"kind": "Autonomy", "spec": {"mode": "evict"}},
    "/v1/clustercolocationprofiles": {
        "kind": "ClusterColocationProfile",
        "spec": {"selector": {"matchLabels": {"app": "spark"}}, "tier": "batch"},
    },
    "/v1/elasticquotas": {"kind": "ElasticQuota", "spec": {"max": {"cpu": 4}}},
    "/v1/quotaprofiles": {"kind": "QuotaProfile", "spec": {"resourcePercent": 90}},
    "/v1/deschedulerprofiles": {"kind": "DeschedulerProfile", "spec": {"dryRun": True}},
    "/v1/podmigrationjobs": {"kind": "PodMigrationJob", "spec": {"podRef": {"namespace": "web", "name": "web-0"}}},
    "/v1/reservations": {
        "kind": "Reservation",
        "spec": {"resources": {"cpu": 1}, "owners": [{"workload": "web/web"}]},
    },
    "/v1/arbitrationargs": {"kind": "ArbitrationArgs", "spec": {"interval": "10s"}},
}
"""A document of each kind that is put by name."""


def guard_put(path: str) -> Callable[[httpx2.Client, str], Attempt]:
    def new_guard(client: httpx2.Client, nats: str) -> Attempt:
        document = GUARDS[path] | {"metadata": {"name": "gold"}}
        assert client.put(f"{path}/gold", json=document).status_code in (200, 201)
        changed = {"selector": {}} if path == "/v1/nodeqos" else CHANGED[path]
        wanted = document | {"spec": {**document["spec"], **changed}}
        return Attempt(client, "PUT", f"{path}/gold", wanted, path)

    return new_guard


CHANGED: Mapping[str, Mapping[str, Any]] = {
    "/v1/podqos": {"allowedActions": ["throttle"]},
    "/v1/avoidanceactions": {"disableScheduling": False},
    "/v1/autonomies": {"mode": "observe"},
    "/v1/clustercolocationprofiles": {"tier": "mid"},
    "/v1/elasticquotas": {"max": {"cpu": 5}},
    "/v1/quotaprofiles": {"resourcePercent": 80},
    "/v1/deschedulerprofiles": {"intervalSeconds": 60},
    "/v1/podmigrationjobs": {"paused": True},
    "/v1/reservations": {"allocateOnce": False},
    "/v1/arbitrationargs": {"interval": "20s"},
}


def guard_delete(path: str) -> Callable[[httpx2.Client, str], Attempt]:
    def old_guard(client: httpx2.Client, nats: str) -> Attempt:
        document = GUARDS[path] | {"metadata": {"name": "silver"}}
        assert client.put(f"{path}/silver", json=document).status_code in (200, 201)
        return Attempt(client, "DELETE", f"{path}/silver", None, path)

    return old_guard


def colocation_strategy(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/colocationstrategies/default"
    wanted = client.get(path).json()
    wanted["spec"]["riseWindows"] = wanted["spec"].get("riseWindows", 2) + 1
    return Attempt(client, "PUT", path, wanted, path)


def several_strategies(client: httpx2.Client, nats: str) -> Attempt:
    wanted = client.get("/v1/colocationstrategies/default").json()
    wanted["spec"]["riseWindows"] = wanted["spec"].get("riseWindows", 2) + 1
    return Attempt(client, "POST", "/v1/colocationstrategies", {"items": [wanted]}, "/v1/colocationstrategies")


def strategy_of_a_pool(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/colocationstrategies/gold"
    document = {"kind": "ColocationStrategy", "metadata": {"name": "gold"}, "spec": {"riseWindows": 3}}
    assert client.put(path, json=document).status_code in (200, 201)
    return Attempt(client, "DELETE", path, None, path)


def dead_letter(client: httpx2.Client, nats: str) -> Attempt:
    event = next(event for event in story(EPOCH) if event.data.TYPE == "decision.recorded")
    message = encode(event)
    letter = DeadLetter("console-x", "invalid_payload", "d", message.subject, dict(message.headers), message.body, 3)

    async def bury() -> None:
        async with connect_bus(nats, name="test", declares=False) as bus:
            await bus.bury(letter)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(bury())
    loop.close()
    path = f"/v1/deadletters/{client.get('/v1/deadletters').json()['items'][0]['position']}"
    return Attempt(client, "POST", f"{path}/replay", None, path)


BLOCK = {"reason": "sends poison"}


def new_block(client: httpx2.Client, nats: str) -> Attempt:
    return Attempt(client, "PUT", "/v1/nodes/tried-block/block", BLOCK, "/v1/blocks")


def old_block(client: httpx2.Client, nats: str) -> Attempt:
    path = "/v1/nodes/tried-unblock/block"
    assert client.put(path, json=BLOCK).status_code == 200
    return Attempt(client, "DELETE", path, None, "/v1/blocks")


GONE = "tried-gone"
"""A lost node in ingestion's inventory."""


class Deletion(Attempt):
    """Lists follow with the event; whether the node can be deleted once more is known at once."""

    def shown(self) -> Any:
        return self.make(dry_run=True).status_code


def gone_node(client: httpx2.Client, nats: str) -> Attempt:
    return Deletion(client, "DELETE", f"/v1/nodes/{GONE}", None, "")


QUOTA = "/v1/elasticquotas"
CLAIMS = "/v1/quotas/default/claims"


def several_quotas(client: httpx2.Client, nats: str) -> Attempt:
    wanted = client.get(f"{QUOTA}/default").json()
    wanted["spec"]["allowLentResource"] = not wanted["spec"]["allowLentResource"]
    return Attempt(client, "POST", QUOTA, {"items": [wanted]}, QUOTA)


def claim_of(client: httpx2.Client, name: str) -> str:
    """A claim of nothing, which is admitted whatever the pool has; returns its path."""
    body = {"id": name, "tier": "prod", "request": {"cpu": 0}}
    assert client.post(CLAIMS, json=body).json()["state"] == "admitted"
    return f"{CLAIMS}/{name}"


def new_claim(client: httpx2.Client, nats: str) -> Attempt:
    return Attempt(client, "POST", CLAIMS, {"id": "tried", "tier": "prod", "request": {"cpu": 0}}, CLAIMS)


def started_claim(client: httpx2.Client, nats: str) -> Attempt:
    path = claim_of(client, "tried-start")
    return Attempt(client, "POST", f"{path}/start", None, path)


def released_claim(client: httpx2.Client, nats: str) -> Attempt:
    path = claim_of(client, "tried-release")
    return Attempt(client, "DELETE", path, None, path)


PLANS = "/v1/move-plans"


def profile_of_plans(client: httpx2.Client, name: str) -> dict[str, str]:
    """Stores a profile whose own cycles propose nothing; returns the body that asks for a plan of it."""
    path = f"/v1/deschedulerprofiles/{name}"
    document = {"kind": "DeschedulerProfile", "metadata": {"name": name}, "spec": {"dryRun": True}}
    assert client.put(path, json=document).status_code in (200, 201)
    return {"profile": name}


def new_plan(client: httpx2.Client, nats: str) -> Attempt:
    return Attempt(client, "POST", PLANS, profile_of_plans(client, "tried-plan"), PLANS)


def applied_plan(client: httpx2.Client, nats: str) -> Attempt:
    made = client.post(PLANS, json=profile_of_plans(client, "tried-apply")).json()
    return Attempt(client, "POST", f"{PLANS}/{made['id']}/apply", None, f"{PLANS}/{made['id']}")


SERVICES = service_names()
SET_ASIDE = "tried"
"""The row that is in every quarantine."""


def item_id(service: str) -> str:
    now = datetime.now(UTC)
    return Item(service, SET_ASIDE, SET_ASIDE, "", QuarantineReason.UNREADABLE, "", "", now, now).id


@pytest.fixture
def set_aside(server: WholeServer) -> None:
    """An item in the quarantine of every service, and a lost node."""

    async def plant() -> None:
        connection = await asyncpg.connect(server.postgres)
        for service in SERVICES:
            await connection.execute(
                f"INSERT INTO {service}.quarantine SELECT $1, 't', 't', '', 'unreadable', '', '', now(), now(), 1"
                " ON CONFLICT DO NOTHING".replace("'t'", f"'{SET_ASIDE}'"),
                item_id(service),
            )
        await connection.execute(
            "INSERT INTO ingestion.nodes (name, liveness, last_report_at) VALUES ($1, 'lost', now() - interval '1 h')"
            " ON CONFLICT DO NOTHING",
            GONE,
        )
        await connection.close()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(plant())
    loop.close()


def release_from(service: str) -> Callable[[httpx2.Client, str], Attempt]:
    path = f"/v1/quarantine/{service}"
    return lambda client, nats: Attempt(client, "POST", f"{path}/{item_id(service)}/release", None, path)


ATTEMPTS: Mapping[str, Callable[[httpx2.Client, str], Attempt]] = {
    "PUT /v1/nodeqos/default": new_policy,
    "PUT /v1/predictpolicies/{name}": predict_policy,
    "DELETE /v1/predictpolicies/{name}": policy_of_a_pool,
    "PUT /v1/colocationstrategies/{name}": colocation_strategy,
    "POST /v1/colocationstrategies": several_strategies,
    "POST /v1/elasticquotas": several_quotas,
    "POST /v1/quotas/{quota}/claims": new_claim,
    "POST /v1/quotas/{quota}/claims/{claim}/start": started_claim,
    "DELETE /v1/quotas/{quota}/claims/{claim}": released_claim,
    "POST /v1/move-plans": new_plan,
    "POST /v1/move-plans/{plan}/apply": applied_plan,
    "DELETE /v1/colocationstrategies/{name}": strategy_of_a_pool,
    "POST /v1/deadletters/{id}/replay": dead_letter,
    "PUT /v1/nodes/{name}/block": new_block,
    "DELETE /v1/nodes/{name}/block": old_block,
    "DELETE /v1/nodes/{name}": gone_node,
    **{f"POST /v1/quarantine/{service}/{{id}}/release": release_from(service) for service in SERVICES},
    **{f"PUT {path}/{{name}}": guard_put(path) for path in GUARDS},
    **{f"DELETE {path}/{{name}}": guard_delete(path) for path in GUARDS},
}


@pytest.fixture
def client(server: WholeServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, headers=ADMIN, trust_env=False, timeout=60) as client:
        yield client


def operations() -> dict[str, Any]:
    paths = described()["paths"]
    return {f"{verb.upper()} {path}": one for path, verbs in paths.items() for verb, one in verbs.items()}


CHANGES = {name: one for name, one in operations().items() if name.split()[0].lower() not in READS}


def test_every_change_of_the_api_takes_a_dry_run_and_is_tried_here() -> None:
    assert CHANGES.keys() == ATTEMPTS.keys()
    for name, operation in CHANGES.items():
        (found,) = [one for one in operation["parameters"] if one["name"] == "dryRun"]
        assert (found["in"], found["schema"]["type"], found["required"]) == ("query", "boolean", False), name


def test_every_change_over_grpc_takes_a_dry_run() -> None:
    services = [service for service in offline_services() if isinstance(service, SpeaksRpc)]
    parts = [part for service in services for part in service.rpc_parts()]
    changes = 0
    for part in parts:
        described = descriptor_pool.Default().FindServiceByName(part.name)
        for method in part.roles:
            if not method.startswith(("Get", "List", "Watch")):
                changes += 1
                assert "dry_run" in described.methods_by_name[method].input_type.fields_by_name, method
    assert changes


@pytest.mark.parametrize("name", CHANGES)
def test_trying_changes_nothing_and_doing_does(
    client: httpx2.Client, nats_url: str, set_aside: None, name: str
) -> None:
    attempt = ATTEMPTS[name](client, nats_url)
    before = attempt.shown()
    tried = attempt.make(dry_run=True)
    assert tried.status_code == 200, tried.text
    assert attempt.shown() == before
    done = attempt.make(dry_run=False)
    assert done.status_code in (200, 201), done.text
    assert attempt.shown() != before
    assert tried.json() != done.json(), "a dry run says that it was one"
