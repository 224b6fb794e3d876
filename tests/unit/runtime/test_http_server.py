from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sse_starlette import EventSourceResponse

from slackwater.model import errors
from slackwater.runtime.http import UNREAD_SECONDS, HttpServer, build_app
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

EVERYBODY = "0.0.0.0"  # noqa: S104 - what is refused below
LOCAL = HttpSettings(port=0)
GUARDED = HttpSettings(port=0, token=SecretStr("open sesame"))


def routes() -> Routes:
    router = Routes()
    kinds = {
        kind.__name__: kind for kind in (errors.NotFound, errors.Conflict, errors.Unavailable, errors.Misconfigured)
    }

    @router.get("/fail/{kind}", role=Role.VIEWER)
    async def fail(kind: str) -> None:
        if kind == "field":
            raise errors.InvalidInput("cpu: -1 must not be negative", field="cpu")
        if kind == "InvalidInput":
            raise errors.InvalidInput("no", code="nonsense")
        if kind == "defect":
            raise ZeroDivisionError("secret inside")
        raise kinds[kind]("why")

    @router.get("/number", role=Role.VIEWER)
    async def number(value: int) -> int:
        return value

    @router.get("/stream", role=Role.VIEWER)
    async def stream() -> EventSourceResponse:
        async def ticks() -> AsyncIterator[dict[str, str]]:
            yield {"data": "first"}
            await asyncio.Event().wait()

        return EventSourceResponse(ticks())

    return router


def app_of(settings: HttpSettings = LOCAL, checks: Sequence[Check] = ()) -> FastAPI:
    async def answer() -> Sequence[Check]:
        return checks

    return build_app([routes()], answer, settings)


def client_of(app: FastAPI, base_url: str = "http://127.0.0.1:8460") -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=base_url)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("field", 422, "invalid_input"),
        ("InvalidInput", 400, "nonsense"),
        ("NotFound", 404, "not_found"),
        ("Conflict", 409, "conflict"),
        ("Unavailable", 503, "unavailable"),
        ("Misconfigured", 500, "misconfigured"),
        ("defect", 500, "internal"),
    ],
)
async def test_every_error_is_a_problem_with_a_stable_code(kind: str, status: int, code: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.get(f"/fail/{kind}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    page = "about:blank" if code == "nonsense" else f"/v1/problems/{code}"
    assert (body["status"], body["code"], body["type"]) == (status, code, page)
    assert "secret" not in answer.text
    assert body.get("field") == ("cpu" if kind == "field" else None)


async def test_a_request_that_does_not_validate_names_the_field() -> None:
    async with client_of(app_of()) as client:
        answer = await client.get("/number?value=many")
        missing = await client.get("/nowhere")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "query.value"
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_readiness_lists_every_check_when_asked_and_the_failed_ones_always() -> None:
    checks = [Check("nats", True), Check("postgres", False, "no answer")]
    async with client_of(app_of(checks=checks)) as client:
        brief, verbose, live = [await client.get(path) for path in ("/readyz", "/readyz?verbose", "/livez")]
    assert brief.status_code == 503
    assert brief.text == "[-]postgres failed: no answer\nreadyz check failed\n"
    assert verbose.text.startswith("[+]nats ok\n[-]postgres failed")
    assert live.status_code == 200


async def test_liveness_names_what_crashes_for_ever() -> None:
    crashing: list[str] = []

    async def no_checks() -> Sequence[Check]:
        return ()

    async with client_of(build_app([], no_checks, LOCAL, lambda: crashing)) as client:
        before = await client.get("/livez")
        crashing.append("kubernetes: RuntimeError: the client has been closed")
        after = await client.get("/livez")
    assert (before.status_code, before.text) == (200, "ok\n")
    assert (after.status_code, after.text) == (503, "[-]kubernetes: RuntimeError: the client has been closed\n")


async def test_a_warning_is_always_listed_and_fails_nothing() -> None:
    checks = [Check("nats", True), Check("stream-DECISIONS", True, "nearly full", warns=True)]
    async with client_of(app_of(checks=checks)) as client:
        brief = await client.get("/readyz")
    assert brief.status_code == 200
    assert brief.text == "[!]stream-DECISIONS warning: nearly full\nreadyz check passed\n"


async def test_readiness_answers_even_if_a_check_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.runtime.health.CHECKS_SECONDS", 0.01)

    async def hang() -> Sequence[Check]:
        await asyncio.Event().wait()
        return ()

    async with client_of(build_app([], hang, LOCAL)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "no answer within" in answer.text


async def test_with_a_token_only_probes_are_open() -> None:
    async with client_of(app_of(GUARDED), "http://example.org") as client:
        assert (await client.get("/livez")).status_code == 200
        refused = await client.get("/version")
        wrong = await client.get("/version", headers={"authorization": "Bearer wrong"})
        right = await client.get("/version", headers={"authorization": "Bearer open sesame"})
    assert refused.status_code == wrong.status_code == 401
    assert refused.json()["code"] == wrong.json()["code"] == "unauthorized"
    assert "send the header" in refused.json()["detail"]
    assert "unknown here" in wrong.json()["detail"]
    assert right.status_code == 200


async def test_a_browser_signs_in_once_through_the_address_and_keeps_a_cookie() -> None:
    async with client_of(app_of(GUARDED)) as client:
        sent_on = await client.get("/version?token=open%20sesame")
        assert sent_on.status_code == 303
        assert sent_on.headers["location"] == "/version"
        assert "HttpOnly" in sent_on.headers["set-cookie"]
        assert (await client.get("/version")).status_code == 200

    async with client_of(app_of(GUARDED)) as stranger:
        assert (await stranger.post("/version?token=open%20sesame")).status_code == 401


async def test_without_a_token_a_foreign_host_name_is_refused() -> None:
    async with client_of(app_of(), "http://rebound.example") as client:
        assert (await client.get("/version")).status_code == 421
    for name in ("http://localhost:1", "http://[::1]:8460", "http://127.0.0.1"):
        async with client_of(app_of(), name) as client:
            assert (await client.get("/version")).status_code == 200


def test_it_refuses_to_listen_on_all_addresses_without_protection() -> None:
    with pytest.raises(errors.Misconfigured, match="SLACKWATER_HTTP_TOKEN"):
        HttpServer(HttpSettings(host=EVERYBODY, port=0))
    with pytest.raises(errors.Misconfigured):
        HttpSettings(host="example.org").refuse_if_open_to_all()
    HttpSettings(host=EVERYBODY, token=SecretStr("x")).refuse_if_open_to_all()
    HttpSettings(host=EVERYBODY, tls_certificate=Path("c"), tls_key=Path("k")).refuse_if_open_to_all()
    HttpSettings(host="::1").refuse_if_open_to_all()


def test_the_usual_port_may_be_taken_but_a_chosen_one_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    first = HttpServer(LOCAL)
    taken = int(first.url.rsplit(":", 1)[1])
    monkeypatch.setattr("slackwater.runtime.http.USUAL_PORT", taken)
    second = HttpServer(HttpSettings())
    assert second.url != first.url
    with pytest.raises(errors.Misconfigured, match=f"127.0.0.1:{taken}"):
        HttpServer(HttpSettings(port=taken))
    first.close()
    second.close()


def test_the_kernel_ends_connections_whose_peer_takes_nothing() -> None:
    """What was handed to a socket before the stream was ended would else wait there for ever."""
    server = HttpServer(LOCAL)
    listener = server._socket
    with socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            found = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    server.close()
    assert found == UNREAD_SECONDS * 1000


async def test_it_stops_while_a_reader_hangs_on_a_stream_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    server = HttpServer(LOCAL)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run(app_of(), ready.set))
    await ready.wait()
    assert signal.getsignal(signal.SIGINT) is before
    async with httpx2.AsyncClient(base_url=server.url) as client, client.stream("GET", "/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "data: first"
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not [task for task in others if "RequestResponseCycle" in repr(task)]
    with pytest.raises(httpx2.ConnectError):
        async with httpx2.AsyncClient() as late:
            await late.get(server.url + "/livez")


async def test_it_waits_for_the_end_of_the_requests_that_it_ends() -> None:
    """A stop closes what requests use right afterwards, and the loop ends a moment later."""
    asked, told = asyncio.Event(), list[str]()
    router = Routes()

    @router.get("/slow", role=Role.VIEWER)
    async def slow() -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            told.append("given back")

    async def answer() -> Sequence[Check]:
        return ()

    server, ready = HttpServer(LOCAL), asyncio.Event()
    serving = asyncio.create_task(server.run(build_app([router], answer, LOCAL), ready.set))
    await ready.wait()
    async with httpx2.AsyncClient(base_url=server.url) as client:
        asking = asyncio.create_task(client.get("/slow"))
        await asked.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert told == ["given back"]
        with pytest.raises(httpx2.RemoteProtocolError):
            await asking


@pytest.mark.parametrize("path", ["/livez", "/number?value=3", "/number", "/fail/NotFound", "/v1/openapi.json"])
async def test_head_is_answered_like_get_without_a_body(path: str) -> None:
    async with client_of(app_of()) as client:
        whole, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.headers, head.content) == (whole.status_code, whole.headers, b"")


async def test_head_of_a_stream_ends() -> None:
    async with asyncio.timeout(60), client_of(app_of()) as client:
        head = await client.head("/stream")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")


async def test_head_of_what_only_changes_things_is_refused() -> None:
    router = Routes()

    @router.post("/change", role=Role.ADMIN)
    async def change(dry_run: DryRun = False) -> bool:
        return dry_run

    async def no_checks() -> Sequence[Check]:
        return ()

    async with client_of(build_app([router], no_checks, LOCAL)) as client:
        assert (await client.head("/change")).status_code == 405
