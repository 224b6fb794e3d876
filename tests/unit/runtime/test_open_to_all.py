"""Every combination of address, token and certificate: what starts, and what refuses."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pydantic import SecretStr

from slackwater.model.errors import Misconfigured
from slackwater.runtime.loopback import is_loopback
from slackwater.runtime.settings import HttpSettings

EVERYBODY = "0.0.0.0"  # noqa: S104 - nothing listens here
HOSTS = {"127.0.0.1": True, "127.9.9.9": True, "::1": True, "localhost": True, EVERYBODY: False, "::": False,
         "10.0.0.1": False, "example.org": False, "": False}  # fmt: skip


@pytest.mark.parametrize(("host", "local"), list(HOSTS.items()))
@pytest.mark.parametrize(("token", "file", "tls"), list(itertools.product((False, True), repeat=3)))
def test_anything_but_loopback_needs_a_token_or_tls(host: str, local: bool, token: bool, file: bool, tls: bool) -> None:
    assert is_loopback(host) is local
    settings = HttpSettings(
        host=host,
        token=SecretStr("x") if token else None,
        tokens_file=Path("t") if file else None,
        tls_certificate=Path("c") if tls else None,
        tls_key=Path("k") if tls else None,
    )
    if local or token or file or tls:
        settings.refuse_if_open_to_all()
    else:
        with pytest.raises(Misconfigured, match="SLACKWATER_TOKENS_FILE"):
            settings.refuse_if_open_to_all()


@pytest.mark.parametrize("half", ["tls_certificate", "tls_key", "tls_client_ca"])
def test_half_of_tls_protects_nothing(half: str) -> None:
    with pytest.raises(Misconfigured):
        HttpSettings(host=EVERYBODY, **{half: Path("file")}).refuse_if_open_to_all()
