"""Dead letters over REST: seen with reason and payload, replayed once, refused when that would do harm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from console_app import console_app
from tests.support.broker_admin import MemoryAdmin
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.bus.codec.cloudevents import MESSAGE_ID, encode
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.console.edge.stream import Streams
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness

NASTY = "<script>alert(1)</script>"


@dataclass
class Scene:
    bus: MemoryBus
    client: httpx2.AsyncClient

    async def bury(self, event: Event[Any] | None = None, body: bytes | None = None) -> None:
        event = event or next(e for e in story(EPOCH) if e.data.TYPE == "decision.recorded")
        message = encode(event)
        headers = dict(message.headers)
        letter = DeadLetter("console-x", "invalid_payload", NASTY, message.subject, headers, body or message.body, 3)
        await self.bus.broker.bury(letter)

    def put_back(self) -> list[Any]:
        found = self.bus.broker.after("DECISIONS", "sw.v1.", 0)
        return [message for _, message in found if "sw-replayed-from" in message.headers]


@pytest_asyncio.fixture
async def scene(clock: FakeClock, model: MemoryReadModel) -> AsyncIterator[Scene]:
    bus = MemoryBus(clock=clock)
    app = console_app(model, Streams(bus, clock), clock, MemoryAdmin(bus.broker))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield Scene(bus, client)


async def test_letters_are_listed_in_pages_newest_first(scene: Scene) -> None:
    assert (await scene.client.get("/v1/deadletters")).json() == {"items": [], "next_cursor": None}
    events = [event for event in story(EPOCH) if event.data.TYPE == "decision.recorded"][:3]
    for event in events:
        await scene.bury(event)
    first = (await scene.client.get("/v1/deadletters?limit=2")).json()
    assert [item["position"] for item in first["items"]] == [3, 2]
    rest = (await scene.client.get(f"/v1/deadletters?limit=2&cursor={first['next_cursor']}")).json()
    assert [item["event_id"] for item in rest["items"]] == [events[0].id]
    assert rest["next_cursor"] is None
    assert rest["items"][0]["reason"] == "invalid_payload"
    assert rest["items"][0]["payload"]["record"]["id"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="deeper than Python follows"),
        pytest.param(b"[" * 300 + b"]" * 300, id="deeper than our serializer follows"),
        pytest.param(b'{"node": NaN}', id="no number"),
        pytest.param(b'{"node": 1e999}', id="beyond all numbers"),
        pytest.param(b'{"node": "\\ud800"}', id="half a character"),
    ],
)
async def test_a_body_that_no_answer_can_hold_is_shown_as_text_and_hides_no_other(scene: Scene, body: bytes) -> None:
    one, other, *_ = (event for event in story(EPOCH) if event.data.TYPE == "decision.recorded")
    await scene.bury(one, body)
    await scene.bury(other)
    answer = await scene.client.get("/v1/deadletters")
    assert answer.status_code == 200, answer.text
    good, bad = answer.json()["items"]
    assert good["payload"]["record"]["id"]
    assert (bad["payload"], bad["text"][:300]) == (None, body.decode()[:300])
    assert (await scene.client.get("/deadletters")).status_code == 200


async def test_a_replay_publishes_the_same_event_under_a_new_message_id_and_marks_the_letter(scene: Scene) -> None:
    await scene.bury()
    answer = await scene.client.post("/v1/deadletters/1/replay")
    assert answer.status_code == 200, answer.text
    (message,) = scene.put_back()
    letter = (await scene.client.get("/v1/deadletters/1")).json()
    assert message.headers["ce-id"] == letter["event_id"]
    assert message.headers[MESSAGE_ID] == answer.json()["message_id"] != letter["event_id"]
    assert not [name for name in message.headers if name in ("sw-reason", "sw-consumer", "sw-detail")]
    assert [each["replayed_by"] for each in letter["replays"]] == ["local"]


async def test_a_second_replay_must_be_asked_for(scene: Scene) -> None:
    await scene.bury()
    await scene.client.post("/v1/deadletters/1/replay")
    refused = await scene.client.post("/v1/deadletters/1/replay")
    assert (refused.status_code, refused.json()["code"]) == (409, "already_replayed")
    again = await scene.client.post("/v1/deadletters/1/replay?again=true")
    assert again.status_code == 200
    assert len({message.headers[MESSAGE_ID] for message in scene.put_back()}) == 2


async def test_a_dry_run_changes_nothing(scene: Scene) -> None:
    await scene.bury()
    answer = await scene.client.post("/v1/deadletters/1/replay?dryRun=true")
    assert answer.json()["dry_run"] is True
    assert "would publish" in answer.json()["message"]
    assert scene.put_back() == []
    assert (await scene.client.get("/v1/deadletters/1")).json()["replays"] == []


async def test_old_state_is_not_put_over_newer_state(scene: Scene) -> None:
    def liveness(word: Liveness) -> Event[NodeLivenessChanged]:
        data = NodeLivenessChanged(node="n", liveness=word, previous=None, last_report_at=EPOCH, changed_at=EPOCH)
        return event_of(data, source="test", time=EPOCH)

    old = liveness(Liveness.FRESH)
    await scene.bury(old)
    await scene.bus.publish(liveness(Liveness.LOST))
    refused = await scene.client.post("/v1/deadletters/1/replay")
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")


async def test_when_the_broker_is_away_the_letter_is_not_marked(scene: Scene) -> None:
    await scene.bury()
    scene.bus.broker.away = True
    assert (await scene.client.post("/v1/deadletters/1/replay")).status_code == 503
    scene.bus.broker.away = False
    assert (await scene.client.post("/v1/deadletters/1/replay")).status_code == 200


async def test_a_page_from_elsewhere_cannot_replay(scene: Scene) -> None:
    await scene.bury()
    for origin in ("http://evil.example", "null"):
        answer = await scene.client.post("/v1/deadletters/1/replay", headers={"origin": origin})
        assert answer.json()["code"] == "other_site"
    answer = await scene.client.post("/v1/deadletters/1/replay", headers={"origin": "http://127.0.0.1"})
    assert answer.status_code == 200


async def test_what_is_not_there_or_not_a_position_is_said(scene: Scene) -> None:
    assert (await scene.client.get("/v1/deadletters/7")).json()["code"] == "dead_letter_not_found"
    assert (await scene.client.post("/v1/deadletters/7/replay")).status_code == 404
    assert (await scene.client.get("/v1/deadletters/0")).status_code in (400, 422)
    assert (await scene.client.get("/deadletters/7")).status_code == 404


@pytest.mark.parametrize(
    "body", [b"\xff\xfe nothing readable", NASTY.encode(), b'{"a": "' + NASTY.encode() + b'"}', b"x" * 40_000]
)
async def test_the_pages_show_any_body_and_none_becomes_markup(scene: Scene, body: bytes) -> None:
    await scene.bury(body=body)
    for path in ("/deadletters", "/deadletters/1"):
        page = await scene.client.get(path)
        assert page.status_code == 200
        assert NASTY not in page.text
        assert len(page.text) < 60_000


async def test_a_letter_that_would_command_a_node_is_never_put_back(scene: Scene) -> None:
    """The author of a dead letter must not make an operator run a command that its own role may not run."""
    intent = IntentDeclared(node="n", writer="ensurance", generation=7, declared_at=EPOCH, lease_seconds=60.0)
    await scene.bury(event_of(intent, source="test", time=EPOCH))
    for query in ("", "?dryRun=true", "?again=true"):
        refused = await scene.client.post(f"/v1/deadletters/1/replay{query}")
        assert (refused.status_code, refused.json()["code"]) == (409, "not_replayable")
    assert scene.bus.broker.after("INTENTS", "sw.v1.", 0) == []
