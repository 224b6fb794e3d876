"""`slackwater history`, and the warning of a change that is stored but not followed yet."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from fastapi import APIRouter
from kind_scenes import scene_of
from served_routes import doing, served

from slackwater.cli.documents import PolicyDocument, put
from slackwater.cli.history import complete_kind
from slackwater.client.connection import ServerAccess
from slackwater.client.transport import Transport
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.runtime.resource_routes import resource_router

DOCUMENT = "kind: Autonomy\nmetadata: {name: gold}\nspec: {mode: %s}\n"


def test_generations_are_shown_with_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def routers() -> list[APIRouter]:
        return [resource_router((await scene_of(AUTONOMY).open()).change)]

    with served(routers) as url:
        do = doing(url, tmp_path, monkeypatch)
        for mode in ("observe", "throttle"):
            do("apply", DOCUMENT % mode)
        head, newest, first = do("history", "autonomy", "gold").stdout.splitlines()
        assert head.split() == ["GENERATION", "TIME", "AUTHOR", "CHANGE"]
        assert newest.split()[0] == "2"
        assert newest.endswith('local   spec.mode: "observe" -> "throttle"')
        assert first.endswith("created")
        kept = json.loads(do("history", "autonomy/gold", "-o", "json").stdout)["items"]
        assert [one["document"]["spec"]["mode"] for one in kept] == ["throttle", "observe"]
        assert "generation: 2" in do("history", "autonomies/gold", "-o", "yaml").stdout
        missing = do("history", "autonomy/none")
        assert (missing.exit_code, "'none' does not exist" in missing.stderr) == (1, True)
        unknown = do("history", "node/edge-7")
        allowed = "is not a resource kind; allowed: arbitrationargs, autonomies"
        assert (unknown.exit_code, allowed in unknown.stderr) == (2, True)
        assert "which one? like" in do("history", "autonomy").stderr
    assert complete_kind("AV") == ["avoidanceactions"]


def test_a_warning_of_the_server_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        both = '199 - "stored, but not followed yet", 299 - "no node has gpu"'
        return httpx2.Response(201, json={"stored": True}, headers={"warning": both})

    with closing(Transport.open(ServerAccess("http://127.0.0.1"), httpx2.MockTransport(answer))) as transport:
        assert put(transport, PolicyDocument("a.yaml", AUTONOMY, "gold", {}), dry_run=True) == {"stored": True}
        assert put(transport, PolicyDocument("a.yaml", AUTONOMY, "gold", {}), dry_run=False) == {"stored": True}
    assert capsys.readouterr().err == "warning: a.yaml: stored, but not followed yet; no node has gpu\n"
