"""Events of the stream: parsed, resumed by themselves, refused as any request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Sequence
from functools import partial

import pytest
from served import served
from tests.support.story import SURGE

import slackwater.client
from slackwater.client import AsyncClient, Client
from slackwater.client.event_stream import EventParser, WatchedEvent, names_text
from slackwater.client.transport import keep_reading
from slackwater.model.errors import InvalidInput, Unavailable


def following(client: Client, types: str, place: str = "") -> Generator[WatchedEvent]:
    """A reader that pauses just long enough that the server is seen without a reader."""
    return keep_reading(client.transport, {"types": types}, place, lambda _: None, partial(time.sleep, 0.05))


@pytest.mark.parametrize(
    ("names", "text"),
    [("decision.*", "decision.*"), (["a.b", "c.*"], "a.b,c.*"), ((), None), ("", None), ("a.b,c.*", "a.b,c.*")],
)
def test_one_name_may_be_given_by_itself(names: Sequence[str] | str, text: str | None) -> None:
    assert names_text(names) == text


def test_a_client_that_watches_one_type_by_itself_gets_its_events() -> None:
    with served(SURGE[0]) as living, Client(living.url) as client:
        event = next(iter(client.watch_events(types="decision.recorded", since="2000-01-01T00:00:00Z")))
    assert event.type in ("decision.recorded", "gap", "closing")


def test_the_module_shows_what_it_has() -> None:
    assert {"AsyncClient", "Client", "Conflict", "NotFound"} <= set(dir(slackwater.client))


def test_a_follower_goes_on_by_itself_where_the_server_ended_it() -> None:
    with served(SURGE[0]) as living, Client(living.url) as client:
        follower = following(client, "intent.observed,decision.recorded")
        before = len(living.bus.published)
        wanted = ("intent.observed", "decision.recorded")

        def expected() -> list[str]:
            return [event.id for event in living.bus.published[before:] if event.data.TYPE in wanted]

        found: list[str] = []
        closings = 0

        def tell() -> None:
            for _ in range(3):
                while not living.streams.open:
                    threading.Event().wait(0.01)
                living.tell(10)
                living.loop.call_soon_threadsafe(living.streams.close)
                while living.streams.open:
                    threading.Event().wait(0.01)
                living.tell(5)  # without a reader

        telling = threading.Thread(target=tell)
        telling.start()
        for sent in follower:
            closings += sent.type == "closing"
            found += [sent.data["id"]] if "id" in sent.data else []
            if closings == 3:
                follower.close()
                break
        telling.join()
        rest = following(client, "intent.observed,decision.recorded", sent.place)
        while found != expected():
            found.append(next(rest).data["id"])
            assert found == expected()[: len(found)]


def test_events_are_parsed_out_of_lines_and_ids_alone_move_the_place_on() -> None:
    lines = [
        "retry: 2000",
        "id: A:1",
        ": open",
        "",
        ": alive",
        "",
        "id: A:2",
        "event: x",
        'data: {"n":1}',
        "",
        "id: A:9",
        "",
    ]
    parser = EventParser()
    found = [(sent.place, sent.type, dict(sent.data)) for line in lines if (sent := parser.feed(line)) is not None]
    assert found == [("A:1", "", {}), ("A:1", "", {}), ("A:2", "x", {"n": 1}), ("A:9", "", {})]


def test_a_refused_request_raises_the_servers_error() -> None:
    with served(1) as living, Client(living.url) as client, pytest.raises(InvalidInput, match="names no event type"):
        next(client.watch_events(types=["x"]))


def test_without_a_first_answer_the_watch_ends() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(Unavailable):
        next(client.watch_events())


def test_the_asynchronous_watch_gives_the_same_events_and_resumes_after_one() -> None:
    async def first_two(url: str, after: str | None) -> list[WatchedEvent]:
        async with AsyncClient(url) as client:
            watch = client.watch_events(types=["decision.*"], since=None if after else "1h", after=after)
            return [await anext(watch), await anext(watch)]

    with served(SURGE[0] + 40) as living, Client(living.url) as client:
        watch = client.watch_events(types=["decision.*"], since="1h")
        expected = [next(watch), next(watch), next(watch)]
        found = asyncio.run(first_two(living.url, None))
        assert found == expected[:2]
        assert asyncio.run(first_two(living.url, expected[0].place)) == expected[1:]


def test_the_asynchronous_watch_of_a_silent_port_raises() -> None:
    async def watch() -> None:
        async with AsyncClient("http://127.0.0.1:9") as client:
            await anext(client.watch_events())

    with pytest.raises(Unavailable):
        asyncio.run(watch())
