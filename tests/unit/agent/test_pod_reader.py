"""The agent's HTTP client against a peer that sends bytes as a server, a proxy or a broken one may.

tests/kubernetes holds it against a real API server; here are the ways in which a connection ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.pods import node_pod

from slackwater.agent.adapters.kubepods import pod_reader
from slackwater.agent.adapters.kubepods.api_access import ApiAccess, access_of
from slackwater.agent.adapters.kubepods.pod_reader import PodReader
from slackwater.apiserver.node_pods import NODE_PODS, NodePod
from slackwater.apiserver.port import VersionExpired, WatchEvent
from slackwater.apiserver.records import NODES, Taint
from slackwater.model.errors import Misconfigured, SlackwaterError, Unavailable

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PODS = [node_pod(f"pod-{number}") for number in range(3)]
EVENTS = b"".join(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n" for pod in PODS)


def chunks(*parts: bytes) -> bytes:
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)


@asynccontextmanager
async def peer(answers: Sequence[bytes], **access: Any) -> AsyncIterator[tuple[PodReader, list[bytes]]]:
    """A server that answers every request with the next bytes and closes; the reader, and the requests."""
    requests, left = list[bytes](), list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(left.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield PodReader(ApiAccess("127.0.0.1", port, is_tls=False, **access), "worker-1"), requests


async def watched(*answers: bytes) -> tuple[list[WatchEvent[NodePod]], SlackwaterError | None]:
    events = list[WatchEvent[NodePod]]()
    async with peer(answers) as (reader, _):
        try:
            async for event in reader.watch(NODE_PODS, "7"):
                events.append(event)
        except SlackwaterError as error:
            return events, error
    return events, None


async def test_it_asks_for_the_pods_of_its_node_with_the_token_of_the_moment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    page = json.dumps({"metadata": {"resourceVersion": "9", "continue": "next"}, "items": PODS}).encode()
    length = OK + f"Content-Length: {len(page)}\r\n\r\n".encode()
    async with peer([length + page, CHUNKED + chunks(page[:10], page[10:], b"")], token_file=token) as (
        reader,
        requests,
    ):
        token.write_text("first\n")
        answer = await reader.list_page(NODE_PODS, 500)
        token.write_text("second\n")
        again = await reader.list_page(NODE_PODS, 500, "next")
    assert (len(answer.items), answer.version, answer.next_page) == (3, "9", "next") == (
        len(again.items), again.version, again.next_page,
    )  # fmt: skip
    first, second = (request.decode().split("\r\n") for request in requests)
    assert first[0] == "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1&limit=500 HTTP/1.1"
    assert "Authorization: Bearer first" in first
    assert second[0].endswith("&limit=500&continue=next HTTP/1.1")
    assert "Authorization: Bearer second" in second


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(1, len(EVENTS) - 1), max_size=6))
def test_a_watch_reads_the_same_wherever_the_bytes_are_cut(cuts: set[int]) -> None:
    ends = [0, *sorted(cuts), len(EVENTS)]
    parts = [EVENTS[start:end] for start, end in pairwise(ends)]
    events, error = asyncio.run(watched(CHUNKED + chunks(*parts, b"")))
    assert ([event.item.key for event in events if event.item], error) == ([f"default/pod-{n}" for n in range(3)], None)


@pytest.mark.parametrize("keep", [0, 20, len(CHUNKED), len(CHUNKED) + 3, len(CHUNKED) + 700])
async def test_a_connection_that_is_cut_is_an_outage_and_what_came_before_counts(keep: int) -> None:
    whole = CHUNKED + chunks(*(line + b"\n" for line in EVENTS.splitlines()))
    events, error = await watched(whole[:keep])
    assert isinstance(error, Unavailable)
    pods = [event for event in events if event.item is not None]
    assert len(pods) == (1 if keep > len(CHUNKED) + 600 else 0)
    assert len(events) - len(pods) == (1 if keep >= len(CHUNKED) else 0), "that the server has answered"


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            b"HTTP/1.1 403 Forbidden\r\n\r\n" + json.dumps({"message": "cannot watch pods"}).encode(),
            Misconfigured,
            "cannot watch",
        ),
        (b"HTTP/1.1 410 Gone\r\n\r\n{}", VersionExpired, "410"),
        (b"HTTP/1.1 503 Busy\r\n\r\nno JSON", Unavailable, "no JSON"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Unavailable, "closed"),
        (b"HTTP/1.1 many OK\r\n\r\n", Unavailable, "invalid literal"),
        (CHUNKED + b"zz\r\n", Unavailable, "invalid literal"),
        (
            CHUNKED + chunks(b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}\n'),
            VersionExpired,
            "too old",
        ),
        (CHUNKED + chunks(b"[]\n"), Unavailable, ""),
    ],
)
async def test_what_an_answer_means(answer: bytes, kind: type[SlackwaterError], message: str) -> None:
    _, error = await watched(answer)
    assert isinstance(error, kind), error
    assert message in error.message


@pytest.mark.parametrize("head", [CHUNKED, OK + b"\r\n"])
async def test_a_line_without_an_end_is_not_held(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_reader, "_MOST_LINE_BYTES", 1 << 20)
    line = b"x" * (3 << 20)
    _, error = await watched(head + (chunks(line) if head is CHUNKED else line))
    assert isinstance(error, Unavailable)
    assert "a line of its answer has more than 1 MiB" in error.message


async def test_a_chunk_of_any_size_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that never ends is refused by what has come of it."""
    monkeypatch.setattr(pod_reader, "_MOST_LINE_BYTES", 1 << 20)
    _, error = await watched(CHUNKED + b"ffffffffff\r\n" + b"x" * (2 << 20))
    assert isinstance(error, Unavailable)
    assert "a line of its answer has more than 1 MiB" in error.message


async def test_a_list_that_is_too_large_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_reader, "_MOST_PAGE_BYTES", 1 << 20)
    page = CHUNKED + chunks(*[b"x" * 100_000] * 11)
    async with peer([page, b"HTTP/1.1 503 Busy\r\n\r\n" + b"x" * (2 << 20)]) as (reader, _):
        for _ in range(2):
            with pytest.raises(Unavailable, match="its answer has more than 1 MiB"):
                await reader.list_page(NODE_PODS, 10)


async def test_a_page_of_one_long_line_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_reader, "_MOST_LINE_BYTES", 1000)
    page = json.dumps({"metadata": {"resourceVersion": "9"}, "items": PODS}).encode()
    async with peer([CHUNKED + chunks(page, b"")]) as (reader, _):
        assert len((await reader.list_page(NODE_PODS, 500)).items) == 3


async def test_a_server_that_is_not_there_is_an_outage() -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        await PodReader(ApiAccess("127.0.0.1", 1, is_tls=False), "worker-1").list_page(NODE_PODS, 10)


# ---- how it is found


def kubeconfig(folder: Path, change: Callable[[dict[str, Any]], object] = lambda document: None) -> Path:
    (folder / "ca.crt").write_text("PEM")
    document: dict[str, Any] = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://[::1]:6443/prefix", "certificate-authority": "ca.crt"}}
        ],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    change(document)
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_kubeconfig_is_read_with_its_files_beside_it(tmp_path: Path) -> None:
    access = access_of(kubeconfig(tmp_path))
    assert (access.host, access.port, access.prefix, access.is_tls) == ("::1", 6443, "prefix", True)
    assert (access.authority, access.authorities, access.token_file) == ("[::1]:6443", "PEM", tmp_path / "token")
    with pytest.raises(Misconfigured, match="certificates for the API server"):
        access.tls()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("current-context"),
        lambda document: document["contexts"].clear(),
        lambda document: document["clusters"][0]["cluster"].pop("server"),
        lambda document: document["clusters"][0]["cluster"].update({"certificate-authority": "absent"}),
        lambda document: document.update(users=7),
    ],
)
def test_a_kubeconfig_that_is_none_is_refused_with_what_it_needs(
    tmp_path: Path, change: Callable[[Any], object]
) -> None:
    with pytest.raises(Misconfigured, match="it needs a current context"):
        access_of(kubeconfig(tmp_path, change))


def test_a_pod_s_service_account_is_read_and_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="KUBERNETES_SERVICE_HOST is not set"):
        access_of(None, {})
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    with pytest.raises(Misconfigured, match="automountServiceAccountToken"):
        access_of(None, inside, tmp_path)
    (tmp_path / "ca.crt").write_text("PEM")
    (tmp_path / "token").write_text("secret\n")
    access = access_of(None, inside, tmp_path)
    assert (access.authority, access.token()) == ("10.0.0.1:6443", "secret")


async def test_of_nodes_it_asks_for_its_own_alone() -> None:
    node = {"metadata": {"name": "worker-1", "uid": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    page = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [node]}).encode()
    length = OK + f"Content-Length: {len(page)}\r\n\r\n".encode()
    async with peer([length + page]) as (reader, requests):
        answer = await reader.list_page(NODES, 500)
    assert [(item.key, item.taints) for item in answer.items] == [("worker-1", (Taint("k", "", "NoSchedule"),))]
    assert "/api/v1/nodes?fieldSelector=metadata.name%3Dworker-1&" in str(requests[0])
