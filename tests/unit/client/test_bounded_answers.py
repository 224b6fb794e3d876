"""An answer costs a client no more than its bound, packed or not, and a stream of events is read line by line."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from slackwater.cli.credentials import Credentials
from slackwater.cli.prometheus_options import client as prometheus_client
from slackwater.client import bounded_answers
from slackwater.client.asynchronous import AsyncClient
from slackwater.client.bounded_answers import AnswerTooLarge, bounded, bounded_async
from slackwater.client.connection import ServerAccess
from slackwater.client.transport import NoAnswer, Transport
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.simulation.adapters.prometheus import PAGE_POINTS, Prometheus, TimeRange

MOST = 100_000
PARTS = 50
PART = b" " * 10_000


class Endless(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """Parts of an answer, of which those that were read are counted."""

    def __init__(self, part: bytes, parts: int = PARTS) -> None:
        self.part, self.parts, self.read = part, parts, 0

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(self.parts):
            self.read += 1
            yield self.part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part


class Server(httpx2.MockTransport):
    """Answers each request with this stream."""

    def __init__(self, stream: Endless, **headers: str) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(lambda _: httpx2.Response(200, headers=names, stream=stream))


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_answers, "MOST_BYTES", MOST)
    monkeypatch.setattr(bounded_answers, "MOST_LINE_BYTES", MOST)


def got(stream: Endless, **headers: str) -> httpx2.Response:
    with httpx2.Client(transport=Server(stream, **headers), event_hooks={"response": [bounded]}) as client:
        return client.get("http://server/")


def test_what_fits_is_read_packed_or_not() -> None:
    assert got(Endless(b"ab", 3)).content == b"ababab"
    for encoding, packed in (("gzip", gzip.compress(b"[1]" * 100)), ("deflate", zlib.compress(b"[1]" * 100))):
        assert got(Endless(packed, 1), content_encoding=encoding).content == b"[1]" * 100


def test_reading_ends_at_the_bound() -> None:
    stream = Endless(PART)
    with pytest.raises(AnswerTooLarge, match="more than 0 MiB"):
        got(stream)
    assert stream.read == MOST // len(PART) + 1


def test_a_bomb_is_unpacked_up_to_the_bound() -> None:
    bomb = gzip.compress(b" " * 500 * MOST)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerTooLarge):
            got(Endless(bomb, 1), content_encoding="gzip")
        _, most_used = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_used < 50 * MOST
    with pytest.raises(httpx2.DecodingError, match="cannot be unpacked"):
        got(Endless(b"no gzip", 1), content_encoding="gzip")
    with pytest.raises(httpx2.DecodingError, match="'br', which was not asked for"):
        got(Endless(b"", 1), content_encoding="br")


async def test_events_have_no_end_and_each_line_has_a_bound() -> None:
    lines = Endless(b" " * 9_999 + b"\n")
    assert len(got(lines, content_type="text/event-stream").content) == PARTS * 10_000
    with pytest.raises(AnswerTooLarge):
        got(Endless(PART), content_type="text/event-stream")
    hooks = {"response": [bounded_async]}
    async with httpx2.AsyncClient(transport=Server(Endless(PART)), event_hooks=hooks) as client:  # type: ignore[arg-type]
        with pytest.raises(AnswerTooLarge):
            await client.get("http://server/?watch=true")


def deep() -> Endless:
    return Endless(b"[" * MOST, 1)


@pytest.mark.parametrize("stream", [Endless(PART), deep()], ids=["long", "deep"])
async def test_every_client_of_the_product_refuses_it_by_name(stream: Endless) -> None:
    access = ServerAccess("http://server")
    with pytest.raises((NoAnswer, Misconfigured), match=r"MiB|not that of a Slackwater server"):
        Transport.open(access, Server(stream)).request("GET", "/v1/nodes")
    async with AsyncClient("http://server", transport=Server(stream)) as client:
        with pytest.raises((NoAnswer, Misconfigured), match=r"MiB|not that of a Slackwater server"):
            await client._exchange("GET", "/v1/nodes", {})
    documents = HttpDocuments("http://server", transport=Server(stream))
    with pytest.raises(Unavailable):
        await documents.read_all(NODE_QOS)
    await documents.close()


def test_a_prometheus_is_asked_for_less_until_its_answer_fits() -> None:
    asked: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        form = dict(pair.split("=") for pair in request.content.decode().split("&"))
        points = (int(form["end"]) - int(form["start"])) // 60 + 1
        asked.append(points)
        values = ",".join([f'[{form["start"]},"1000000.5"]'] * points)
        series = ",".join([f'{{"metric":{{"pod":"{number}"}},"values":[{values}]}}' for number in range(40)])
        data = f'{{"resultType":"matrix","result":[{series}]}}'
        return httpx2.Response(200, stream=Endless(f'{{"status":"success","data":{data}}}'.encode(), 1))

    with prometheus_client("http://prometheus:9090", Credentials(), 5, insecure=False) as http:
        http._transport = httpx2.MockTransport(answer)
        found = Prometheus(http).range("up", TimeRange(0, 60 * 999, 60))
    assert len(found) == 40
    assert asked[:2] == [PAGE_POINTS, PAGE_POINTS // 2]
