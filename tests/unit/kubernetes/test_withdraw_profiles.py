"""Where profiles are switched off, what this service has applied for them goes, and what others applied stays."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from tests.support.api_server import MemoryApiServer
from tests.support.clock import FakeClock

from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, WEBHOOKS
from slackwater.kubernetes.usecases.follow_documents import PARTITION
from slackwater.kubernetes.usecases.withdraw_profiles import CHECK_SECONDS, WithdrawProfiles
from slackwater.profiles.policy import NAME as POLICY
from slackwater.profiles.webhook import NAME as WEBHOOK

KINDS = ((MUTATION_BINDINGS, POLICY), (MUTATIONS, POLICY), (WEBHOOKS, WEBHOOK))


class Scene:
    def __init__(self) -> None:
        self.server, self.clock, self.owned = MemoryApiServer(), FakeClock(), {PARTITION}
        self.withdrawal = WithdrawProfiles(self.server, self.clock, lambda: self.owned)

    async def there(self) -> Collection[str]:
        return [kind.plural for kind, name in KINDS if await self.server.read_object(kind, name) is not None]

    async def run(self, seconds: float) -> None:
        task = asyncio.create_task(self.withdrawal())
        await self.clock.advance(seconds)
        task.cancel()
        await asyncio.wait([task])


async def test_own_objects_go_and_those_of_others_stay() -> None:
    scene = Scene()
    for kind, name in KINDS[:2]:
        await scene.server.apply_object(kind, name, {"spec": {}})
    scene.server.put(WEBHOOKS, {"metadata": {"name": WEBHOOK, "managedFields": [{"manager": "argocd"}]}})
    scene.server.put(MUTATIONS, {"metadata": {"name": "another"}})
    await scene.run(1.0)
    assert await scene.there() == [WEBHOOKS.plural]
    assert await scene.server.read_object(MUTATIONS, "another") is not None


async def test_only_one_replica_withdraws_and_what_an_older_one_writes_again_goes_too() -> None:
    scene = Scene()
    await scene.server.apply_object(WEBHOOKS, WEBHOOK, {"webhooks": []})
    scene.owned.clear()
    await scene.run(3 * CHECK_SECONDS)
    assert await scene.there() == [WEBHOOKS.plural]
    scene.owned.add(PARTITION)
    task = asyncio.create_task(scene.withdrawal())
    await scene.clock.advance(1.0)
    assert await scene.there() == []
    await scene.server.apply_object(MUTATIONS, POLICY, {"spec": {}})
    await scene.clock.advance(CHECK_SECONDS)
    assert await scene.there() == []
    task.cancel()
    await asyncio.wait([task])


async def test_a_refusal_is_shown_until_it_succeeds() -> None:
    scene = Scene()
    scene.server.forbidden.add(MUTATIONS.plural)
    task = asyncio.create_task(scene.withdrawal())
    await scene.clock.advance(1.0)
    assert "mutatingadmissionpolicies" in scene.withdrawal.refusal
    scene.server.forbidden.clear()
    await scene.clock.advance(10.0)
    assert scene.withdrawal.refusal == ""
    task.cancel()
    await asyncio.wait([task])
