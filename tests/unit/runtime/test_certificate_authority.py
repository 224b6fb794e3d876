"""The certificate authority of a deployment."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from slackwater.model.errors import Misconfigured
from slackwater.runtime.authority import Authority


def test_the_key_is_needed_to_issue_only(tmp_path: Path) -> None:
    """An operator may keep it elsewhere."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    Authority(tmp_path / "ca").issue(certificate, key, ["nats"])
    assert stat.S_IMODE(key.stat().st_mode) == stat.S_IMODE((tmp_path / "ca" / "ca.key").stat().st_mode) == 0o600
    (tmp_path / "ca" / "ca.key").unlink()
    authority = Authority(tmp_path / "ca")
    assert not authority.is_due(certificate, ["nats"])
    assert authority.is_due(certificate, ["nats", "nats.example"])
    with pytest.raises(Misconfigured, match=r"ca\.key is no private key"):
        authority.issue(certificate, key, ["nats", "nats.example"])


def test_what_is_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate\n")
    with pytest.raises(Misconfigured, match=r"ca\.crt is no certificate"):
        Authority(tmp_path)
