"""TLS and client certificates of the HTTP server, new certificates while it runs, and what the command line needs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from broker_scene import Pki, pki
from pydantic import SecretStr
from starlette.requests import Request

from slackwater.cli.credentials import Credentials
from slackwater.model.errors import Misconfigured
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.http_access import Role, Routes, caller
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

NAME = "127.0.0.1"
TOKEN = "open sesame"  # noqa: S105 - of this test


async def well() -> list[Check]:
    return []


async def who(request: Request) -> str:
    return caller(request).name


@asynccontextmanager
async def serving(settings: HttpSettings) -> AsyncIterator[str]:
    server = HttpServer(settings)
    ready = asyncio.Event()
    operators = Routes()
    operators.get("/operators", role=Role.OPERATOR)(who)
    task = asyncio.create_task(server.run(build_app([operators], well, settings), ready.set))
    await ready.wait()
    try:
        yield server.url
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def status(url: str, proof: Credentials, path: str = "/version") -> int:
    headers = {"authorization": f"Bearer {proof.token()}"} if proof.token() else {}
    async with httpx2.AsyncClient(verify=proof.verify(url), trust_env=False) as client:
        return (await client.get(f"{url}{path}", headers=headers)).status_code


def settings(trusted: Pki, **more: object) -> HttpSettings:
    certificate, key = trusted.issue(NAME)
    given: dict[str, object] = {"port": 0, "tls_certificate": certificate, "tls_key": key}
    return HttpSettings(**given | more)


async def test_only_clients_with_our_certificate_are_served_and_tokens_are_still_checked(tmp_path: Path) -> None:
    ours, others = pki(tmp_path / "ours"), pki(tmp_path / "others")
    certificate, key = ours.issue("client.example")
    foreign = others.issue("client.example")
    async with serving(settings(ours, tls_client_ca=ours.ca, token=SecretStr(TOKEN))) as url:
        assert url.startswith("https://")
        assert await status(url, Credentials(TOKEN, None, ours.ca, certificate, key)) == 200
        assert await status(url, Credentials(None, None, ours.ca, certificate, key)) == 401
        for wrong in (Credentials(TOKEN, None, ours.ca), Credentials(TOKEN, None, ours.ca, *foreign)):
            with pytest.raises(httpx2.HTTPError):
                await status(url, wrong)
        with pytest.raises(httpx2.HTTPError):
            await status(url, Credentials(TOKEN, None, others.ca, certificate, key))
        with pytest.raises(httpx2.HTTPError):
            await status(url.replace("https", "http"), Credentials(TOKEN))


async def test_a_certificate_reads_and_its_name_in_the_file_may_do_more(tmp_path: Path) -> None:
    ours = pki(tmp_path / "ours")
    certificate, key = ours.issue("client.example", common_name="robot")
    proof = Credentials(None, None, ours.ca, certificate, key)
    asking = settings(ours, tls_client_ca=ours.ca)
    async with serving(asking) as url:
        assert await status(url, proof) == 200
        assert await status(url, proof, "/operators") == 403
    tokens = tmp_path / "tokens"
    tokens.write_text("robot operator certificate\n")
    async with serving(settings(ours, tls_client_ca=ours.ca, tokens_file=tokens)) as url:
        assert await status(url, proof, "/operators") == 200
        assert await status(url, replace(proof, plain="certificate"), "/operators") == 401
        tokens.write_text("another operator certificate\n")
        assert await status(url, proof) == 401


async def test_a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.runtime.http.CERTIFICATE_SECONDS", 0.02)
    before, after = pki(tmp_path / "before"), pki(tmp_path / "after")
    certificate, key = before.issue(NAME)
    async with serving(settings(before, tls_certificate=certificate, tls_key=key)) as url:
        assert await status(url, Credentials(ca=before.ca)) == 200
        fresh_certificate, fresh_key = after.issue(NAME)
        fresh_key.replace(key)  # for a moment the two do not fit: the former pair stays
        fresh_certificate.replace(certificate)
        async with asyncio.timeout(30):
            while await shown_by(url, after.ca) is None:
                await asyncio.sleep(0.02)
        certificate.write_text("nonsense")
        await asyncio.sleep(0.1)
        assert await status(url, Credentials(ca=after.ca)) == 200


async def shown_by(url: str, ca: Path) -> int | None:
    try:
        return await status(url, Credentials(ca=ca))
    except httpx2.HTTPError:
        return None


@pytest.mark.parametrize("missing", ["tls_certificate", "tls_key"])
def test_half_of_tls_is_an_error_and_never_plaintext(tmp_path: Path, missing: str) -> None:
    with pytest.raises(Misconfigured, match="both"):
        HttpServer(settings(pki(tmp_path / "pki"), **{missing: None}))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"nothing\.pem"):
        HttpServer(settings(pki(tmp_path / "pki"), tls_certificate=tmp_path / "nothing.pem"))
    with pytest.raises(Misconfigured, match="--ca"):
        Credentials(ca=tmp_path / "nothing.pem").verify("https://localhost")
    with pytest.raises(Misconfigured, match="--token-file"):
        Credentials(token_file=tmp_path / "nothing").token()
    (tmp_path / "token").write_text("abc\n")
    assert Credentials(token_file=tmp_path / "token").token() == "abc"
    assert isinstance(Credentials().verify("https://localhost"), ssl.SSLContext)
