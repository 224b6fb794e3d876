"""Names and addresses that belong to one service."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from slackwater.store.names import lock_key, role_password, service_dsn

ADMIN = "postgresql://postgres:secret@127.0.0.1:5432/slackwater"


def test_a_service_logs_in_as_its_own_role_at_the_same_server() -> None:
    parts = urlsplit(service_dsn(ADMIN, "quota"))
    assert (parts.username, parts.hostname, parts.port, parts.path) == (
        "slackwater_quota", "127.0.0.1", 5432, "/slackwater",
    )  # fmt: skip
    assert unquote(parts.password or "") == role_password(ADMIN, "quota")


def test_a_password_depends_on_the_service_and_the_administrators_password_alone() -> None:
    other_place = "postgresql://postgres:secret@db:6543/other"
    assert role_password(ADMIN, "quota") == role_password(other_place, "quota")
    assert role_password(ADMIN, "quota") != role_password(ADMIN, "console")
    assert role_password(ADMIN, "quota") != role_password(ADMIN.replace("secret", "changed"), "quota")
    assert "secret" not in service_dsn(ADMIN, "quota")


@given(st.text(), st.text())
def test_lock_keys_are_bigints(purpose: str, service: str) -> None:
    assert 0 <= lock_key(purpose, service) < 2**63
