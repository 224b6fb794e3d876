"""A cluster that cannot be reached is reported in one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slackwater.apiserver.records import NODES
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer, open_api_server
from slackwater.model.errors import Misconfigured, Unavailable

CLUSTERS = [{"name": "t", "cluster": {"server": "https://127.0.0.1:1"}}]
USERS = [{"name": "m", "user": {"token": "x"}}]
CONTEXTS = [{"name": "t", "context": {"cluster": "t", "user": "m"}}]
WHOLE = {"current-context": "t", "clusters": CLUSTERS, "users": USERS, "contexts": CONTEXTS}


@pytest.mark.parametrize(
    "text",
    [
        "x: [",
        "just text",
        "",
        yaml.safe_dump({**WHOLE, "current-context": "other"}),
        yaml.safe_dump({**WHOLE, "clusters": []}),
        yaml.safe_dump({**WHOLE, "clusters": [{"name": "t", "cluster": {"certificate-authority": "/nonexistent"}}]}),
        yaml.safe_dump(
            {
                **WHOLE,
                "users": [{"name": "m", "user": {"client-certificate": "/nonexistent", "client-key": "/nonexistent"}}],
            }
        ),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(Misconfigured, match="SLACKWATER_KUBERNETES_KUBECONFIG") as refused:
        await HttpApiServer(str(file)).connect()
    assert "\n" not in refused.value.message


async def test_a_missing_file_and_an_unknown_context_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="nonexistent not found"):
        await HttpApiServer("/nonexistent").connect()
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(WHOLE))
    with pytest.raises(Misconfigured, match="'staging' not found"):
        await HttpApiServer(str(tmp_path / "kubeconfig"), "staging").connect()


async def test_a_server_that_does_not_listen_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(WHOLE))
    async with open_api_server(str(tmp_path / "kubeconfig")) as server:
        with pytest.raises(Unavailable, match="does not answer"):
            await server.list_page(NODES, 1)
